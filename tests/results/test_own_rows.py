"""Rows of one's own: what is read of them, under which names, and every error by line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy
import pytest

from ragtasks.errors import BenchmarkFileError
from ragtasks.records import Message, Role
from ragtasks.results import ROW_KEYS, OwnRows, holds_own_rows, own_rows, read_own_rows

QUESTION, ANSWER = "How long may I keep a book?", "Three weeks."


def read(*rows: object) -> OwnRows:
    problems: list[str] = []
    found = own_rows(enumerate(rows, start=1), lambda *problem: problems.append(str(problem)))
    assert not problems
    return found


def problems_of(*rows: object) -> list[tuple[int, str, Any, str]]:
    problems: list[tuple[int, str, Any, str]] = []
    own_rows(enumerate(rows, start=1), lambda *problem: problems.append(problem))
    return problems


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_a_row_needs_a_question_and_an_answer() -> None:
    rows = read({"question": QUESTION, "answer": ""})
    (task,) = rows.benchmark.tasks
    assert (task.task_id, task.conversation_id, task.turn, task.domain, task.target) == (
        "row-1",
        "row-1",
        1,
        "rows",
        "",
    )
    assert task.messages == (Message(Role.USER, QUESTION),)
    assert (rows.given["row-1"].text, rows.given["row-1"].passages) == ("", None)


@pytest.mark.parametrize(
    "names",
    [
        ("question", "answer", "contexts", "reference"),
        ("user_input", "response", "retrieved_contexts", "reference"),  # ragas
        ("input", "actual_output", "retrieval_context", "expected_output"),  # deepeval
        ("question", "answer", "contexts", "ground_truth"),  # ragas before 0.2
    ],
)
def test_rows_of_ragas_and_deepeval_say_the_same(names: tuple[str, ...]) -> None:
    rows = read(dict(zip(names, (QUESTION, ANSWER, ["one", {"id": "p", "text": "two"}], "21 days"), strict=True)))
    (task,) = rows.benchmark.tasks
    given = rows.given["row-1"]
    assert (task.question, given.text, task.target) == (QUESTION, ANSWER, "21 days")
    assert [(item.passage_id, item.text) for item in given.passages or ()] == [("context-1", "one"), ("p", "two")]
    assert set(names) <= {key for keys in ROW_KEYS.values() for key in keys}


def test_rows_of_a_conversation_follow_each_other() -> None:
    rows = read(
        {"question": "a?", "answer": "<think>hm</think> A.", "conversation_id": "c"},
        {"question": "b?", "answer": "B.", "conversation_id": "c"},
        {"question": "other?", "answer": "O."},
        {"messages": [{"role": "user", "content": "x?"}], "answer": "X.", "conversation_id": 7},
    )
    second = rows.benchmark.tasks[1]
    assert [message.text for message in second.messages] == ["a?", "A.", "b?"]
    assert [(task.conversation_id, task.turn) for task in rows.benchmark.tasks] == [
        ("c", 1),
        ("c", 2),
        ("row-3", 1),
        ("7", 1),
    ]


def test_messages_may_hold_the_answer_and_what_nobody_said_to_the_user() -> None:
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
        {"role": "assistant", "content": ANSWER},
    ]
    rows = read({"messages": messages})
    assert [message.text for message in rows.benchmark.tasks[0].messages] == [QUESTION]
    assert rows.given["row-1"].text == ANSWER


def test_missing_values_of_data_frames_are_missing() -> None:
    rows = read(
        {
            "question": "q",
            "answer": "a",
            "reference": math.nan,
            "contexts": numpy.array(["c"], dtype=object),
            "id": None,
        },
        {"question": "q", "answer": "a", "id": numpy.int64(5), "seconds": numpy.float64(1.5)},
    )
    first, second = rows.benchmark.tasks
    assert (first.task_id, first.target, second.task_id, second.extra["seconds"]) == ("row-1", "", "5", 1.5)
    assert [item.text for item in rows.given["row-1"].passages or ()] == ["c"]


def test_the_revision_moves_with_questions_and_references_only() -> None:
    row = {"question": "q", "answer": "a", "reference": "r", "contexts": ["c"]}
    revision = read(row).benchmark.revision
    assert read({**row, "answer": "b", "contexts": []}).benchmark.revision == revision
    for change in ({"question": "p"}, {"reference": "s"}, {"id": "i"}, {"conversation_id": "c"}):
        assert read({**row, **change}).benchmark.revision != revision


def test_what_is_not_read_is_named_with_what_it_may_mean() -> None:
    rows = read({"question": "q", "answer": "a", "refrence": "r", "zzz": 1}, {"question": "q", "answer": "a", "zzz": 2})
    assert rows.unread_note == "not read: refrence (1 rows; did you mean 'reference'?), zzz (2 rows)"
    assert not read({"question": "q", "answer": "a"}).unread_note


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"question": "q"}, "`answer`: a text, which may be empty"),
        ({"question": "  ", "answer": "a"}, "`question`, a text that is not blank, or `messages`"),
        ({"answer": "a"}, "`question`, a text that is not blank, or `messages`"),
        ({"question": 3, "answer": "a"}, "`question`: a text"),
        ({"question": "q", "answer": ["a"]}, "`answer`: a text"),
        ({"question": "q", "response": "a", "answer": "b"}, "one of `answer` and `response`: they mean the same"),
        ({"question": "q", "messages": [], "answer": "b"}, "`question` or `messages`"),
        ({"messages": [{"role": "assistant", "content": "hi"}], "answer": "b"}, "`messages` that end with the user's"),
        ({"messages": [{"role": "user", "content": None}], "answer": "b"}, "`messages`: a list of"),
        ({"messages": "hello", "answer": "b"}, "`messages`: a list of"),
        ({"question": "q", "answer": "a", "contexts": "c"}, "`contexts`: a list"),
        ({"question": "q", "answer": "a", "contexts": [{"id": "x"}]}, "`contexts`: context 1: a text"),
        ({"question": "q", "answer": "a", "domain": "Ein Haus"}, "`domain` in lower-case letters"),
        ({"question": "q", "answer": "a", "seconds": -1}, "`seconds`: a number from 0 on"),
        ({"question": "q", "answer": "a", "seconds": math.inf}, "`seconds`: a number from 0 on"),
        ({"question": "q", "answer": "a", "output_tokens": "many"}, "`output_tokens`: a number from 0 on"),
        ([1], "an object with `question` and `answer`"),
    ],
)
def test_an_error_says_what_was_expected(row: object, expected: str) -> None:
    ((number, text, _, _),) = problems_of(row)
    assert number == 1
    assert text.startswith(expected)


def test_an_id_stands_once() -> None:
    row = {"question": "q", "answer": "a", "id": "x"}
    assert [problem[0] for problem in problems_of(row, {"question": "q", "answer": "a"}, row)] == [3]


def test_all_errors_of_a_file_are_one_error_that_tells_both_ways(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", {"question": "q"}, {"question": "q", "answer": "a"}, {"answer": "a"})
    with pytest.raises(BenchmarkFileError) as error:
        read_own_rows(file)
    text = str(error.value)
    assert "2 errors" in text
    assert "line 1 (row-1)" in text
    assert "line 3 (row-3)" in text
    assert '{"question": "text", "answer": "text"' in text
    assert "--benchmark" in text


@pytest.mark.parametrize(
    ("row", "is_own"),
    [
        ({"question": "q", "answer": "a"}, True),
        ({"user_input": "q", "response": "a"}, True),
        ({"messages": [], "answer": "a", "id": "7"}, True),
        ({"messages": [], "answer": "a", "id": "sample-clapnq-01<::>1"}, False),  # an exported task
        ({"id": "sample-clapnq-01<::>1", "answer": "a"}, False),
    ],
)
def test_the_first_row_tells_the_kind(row: dict[str, Any], is_own: bool, tmp_path: Path) -> None:
    assert holds_own_rows(write(tmp_path / "rows.jsonl", row, {"id": 1})) is is_own


def test_a_row_without_question_and_id_is_an_error_that_names_both(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"q": "What?", "a": "This."}\n', encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match=r"line 1: expected a `question`.*or an `id`.*found \['a', 'q'\]"):
        holds_own_rows(path)
