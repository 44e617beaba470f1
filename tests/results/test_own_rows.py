"""The user's own rows: their values, their keys, and every error by line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy
import pytest

from ragtasks.benchmarks import ROWS
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Answerability, Message, Role, Setting
from ragtasks.results import ROW_KEYS, OwnRows, contains_own_rows, own_rows, read_own_rows
from ragtasks.results._own_rows import message_text
from tests._messages import raises

QUESTION, ANSWER = "How long may I keep a book?", "Three weeks."


def read(*rows: object) -> OwnRows:
    problems: list[str] = []
    result = own_rows(enumerate(rows, start=1), lambda *problem: problems.append(str(problem)))
    assert not problems
    return result


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
    assert (task.answerability, task.multi_turn) == (Answerability.ANSWERABLE, "N/A")
    assert (rows.answers["row-1"].text, rows.answers["row-1"].passages) == ("", None)


@pytest.mark.parametrize(
    "names",
    [
        ("question", "answer", "contexts", "reference"),
        ("user_input", "response", "retrieved_contexts", "reference"),  # ragas
        ("input", "actual_output", "retrieval_context", "expected_output"),  # deepeval
        ("question", "answer", "contexts", "ground_truth"),  # ragas before 0.2
    ],
)
def test_rows_of_ragas_and_deepeval_give_the_same_answers(names: tuple[str, ...]) -> None:
    rows = read(dict(zip(names, (QUESTION, ANSWER, ["one", {"id": "p", "text": "two"}], "21 days"), strict=True)))
    (task,) = rows.benchmark.tasks
    given = rows.answers["row-1"]
    assert (task.question, given.text, task.target) == (QUESTION, ANSWER, "21 days")
    assert [(passage.passage_id, passage.text) for passage in given.passages or ()] == [
        ("context-1", "one"),
        ("p", "two"),
    ]
    assert set(names) <= {key for name in ROW_KEYS.names for key in ROW_KEYS.all_of(name)}


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


def test_messages_may_contain_the_answer_and_tool_calls() -> None:
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
        {"role": "assistant", "content": ANSWER},
    ]
    rows = read({"messages": messages})
    assert [message.text for message in rows.benchmark.tasks[0].messages] == [QUESTION]
    assert rows.answers["row-1"].text == ANSWER


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
    assert (first.task_id, first.target, second.task_id) == ("row-1", "", "5")
    assert rows.answers["5"].usage == {"seconds": 1.5}
    assert [passage.text for passage in rows.answers["row-1"].passages or ()] == ["c"]


def test_the_revision_changes_with_questions_and_references_only() -> None:
    row = {"question": "q", "answer": "a", "reference": "r", "contexts": ["c"]}
    revision = read(row).benchmark.revision
    assert read({**row, "answer": "b", "contexts": []}).benchmark.revision == revision
    for change in ({"question": "p"}, {"reference": "s"}, {"id": "i"}, {"conversation_id": "c"}):
        assert read({**row, **change}).benchmark.revision != revision


def test_unread_keys_are_named_with_their_likely_meaning() -> None:
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
        ({"question": "q", "answer": "a", "contexts": 5}, "`contexts`: a list"),
        ({"question": "q", "answer": "a", "contexts": "['one', 'tw"}, "`contexts`: a list"),
        ({"question": "q", "answer": "a", "reference": ["r", 2]}, "`reference`: a text, or a list of texts"),
        ({"question": "q", "answer": "a", "contexts": [{"id": "x"}]}, "`contexts`: context 1: a text"),
        ({"question": "q", "answer": "a", "domain": "Ein Haus"}, "`domain` in lower-case letters"),
        ({"question": "q", "answer": "a", "domain": 5}, "`domain`: a text"),
        ({"question": "q", "answer": "a", "seconds": -1}, "`seconds`: a number from 0 on"),
        ({"question": "q", "answer": "a", "seconds": math.inf}, "`seconds`: a number from 0 on"),
        ({"question": "q", "answer": "a", "output_tokens": "many"}, "`output_tokens`: a whole number from 0 on"),
        ({"question": "q", "answer": "a", "input_tokens": 1.5}, "`input_tokens`: a whole number from 0 on"),
        ({"question": "q", "answer": "a", "input_tokens": 1, "cached_tokens": 2}, "`cached_tokens`: no more than"),
        ({"question": "q", "answer": "a", "cost": 0.01}, '`currency`: "USD" with `cost`'),
        ({"question": "q", "answer": "a", "cost": 0.01, "currency": "EUR"}, '`currency`: "USD" with `cost`'),
        ({"question": "q", "answer": "a", "cost": -0.01, "currency": "USD"}, "`cost`: a number from 0 on"),
        ([1], "an object with `question` and `answer`"),
    ],
)
def test_an_error_names_the_expected_value(row: object, expected: str) -> None:
    ((number, text, _, _),) = problems_of(row)
    assert number == 1
    assert text.startswith(expected)


def test_a_repeated_id_is_an_error() -> None:
    row = {"question": "q", "answer": "a", "id": "x"}
    assert [problem[0] for problem in problems_of(row, {"question": "q", "answer": "a"}, row)] == [3]


def test_all_errors_of_a_file_are_one_error_with_both_formats(tmp_path: Path) -> None:
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
def test_the_first_row_decides_the_file_type(row: dict[str, Any], is_own: bool, tmp_path: Path) -> None:
    assert contains_own_rows(write(tmp_path / "rows.jsonl", row, {"id": 1})) is is_own


def test_a_row_without_question_and_id_is_an_error_that_names_both(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"q": "What?", "a": "This."}\n', encoding="utf-8")
    with raises(BenchmarkFileError):
        contains_own_rows(path)


def test_an_answer_has_the_contexts_of_its_row() -> None:
    rows = read(
        {"question": "q", "answer": "a", "contexts": ["c"]},
        {"question": "q", "answer": "a", "contexts": []},
        {"question": "q", "answer": "a"},
    )
    assert {name: [passage.text for passage in found] for name, found in rows.contexts.passages.items()} == {
        "row-1": ["c"],
        "row-2": [],
        "row-3": [],
    }
    assert rows.contexts.setting is Setting.FULL_RAG
    assert [task.extra for task in rows.benchmark.tasks] == [{}, {}, {"no_contexts": True}]
    assert [rows.answers[name].passages for name in ("row-2", "row-3")] == [(), None]


def test_rows_are_a_benchmark_of_their_own_without_published_passages() -> None:
    rows = read({"question": "q", "answer": "a"})
    assert (rows.benchmark.name, rows.benchmark.suite) == (ROWS, ROWS)
    with raises(ConfigurationError):
        rows.benchmark.read_contexts(Setting.REFERENCE)
    other = {"question": "p", "answer": "a"}
    assert read(other, {"question": "q", "answer": "a"}).benchmark.revision != (
        read({"question": "q", "answer": "a"}, other).benchmark.revision
    )


def test_a_row_that_is_wrong_is_left_out_and_the_others_are_read() -> None:
    problems: list[tuple[int, str, Any, str]] = []
    of = {"answer": "A.", "conversation_id": "c"}
    numbered = enumerate([{"question": "a?", **of}, {"question": " ", **of}, {"question": "b?", **of}], start=1)
    rows = own_rows(numbered, lambda *problem: problems.append(problem))
    assert [problem[0] for problem in problems] == [2]
    assert list(rows.answers) == ["row-1", "row-3"]
    assert [message.text for message in rows.benchmark.tasks[-1].messages] == ["a?", "A.", "b?"]


def test_a_row_with_several_errors_names_each_with_its_id() -> None:
    row = {"id": "x", "question": 3, "answer": [], "contexts": 5, "domain": "A", "seconds": True}
    problems = problems_of(row)
    assert [text.partition(":")[0].partition(" in ")[0] for _, text, _, _ in problems] == [
        *("`question`", "`answer`", "`contexts`", "`seconds`", "`domain`"),
    ]
    assert [found for _, _, found, _ in problems] == [3, [], "int", True, "A"]
    assert {row_id for *_, row_id in problems} == {"x"}


def test_usage_and_domain_stay_with_the_task() -> None:
    given = {"seconds": 0, "input_tokens": 9, "output_tokens": 2.0, "domain": "x" * 64}
    rows = read({"question": "q", "answer": "a", "contexts": [], **given})
    (task,) = rows.benchmark.tasks
    assert {**rows.answers[task.task_id].usage, "domain": task.domain} == given
    ((_, text, result, _),) = problems_of({"question": "q", "answer": "a", "domain": "x" * 65})
    assert text.startswith("`domain`")
    assert result == "x" * 65


@pytest.mark.parametrize(("row_id", "named"), [(7, "7"), (0, "0"), ("seven", "seven"), ("", "row-1")])
def test_an_id_is_a_text_or_a_number(row_id: object, named: str) -> None:
    (task,) = read({"question": "q", "answer": "a", "id": row_id}).benchmark.tasks
    assert (task.task_id, task.conversation_id) == (named, named)


@pytest.mark.parametrize("row_id", [True, 1.5, ["x"]])
def test_an_id_that_is_neither_is_an_error(row_id: object) -> None:
    problems = problems_of({"question": "q", "answer": "a", "id": row_id})
    assert {text for _, text, _, _ in problems} == {"`id`: a text"}


def test_a_repeated_id_names_the_first_row() -> None:
    row = {"question": "q", "answer": "a", "id": "x"}
    found = [(found, row_id) for _, _, found, row_id in problems_of({**row, "id": "y"}, row, row, row)]
    assert found == [("the id of row 2", "x")] * 2


def test_a_null_value_does_not_count_next_to_a_synonymous_key() -> None:
    rows = read({"question": "q", "user_input": None, "answer": None, "response": "a", "actual_output": math.nan})
    assert rows.answers["row-1"].text == "a"


@pytest.mark.parametrize(
    ("roles", "turn"), [(("user", "assistant", "user"), 2), (("human", "AI", "HUMAN", "ai", "User"), 3)]
)
def test_a_conversation_counts_its_questions_under_any_name_of_the_user(roles: tuple[str, ...], turn: int) -> None:
    messages = [{"role": role, "content": str(number)} for number, role in enumerate(roles)]
    (task,) = read({"messages": messages, "answer": "a"}).benchmark.tasks
    assert task.turn == turn
    assert [message.role for message in task.messages] == [
        (Role.USER, Role.ASSISTANT)[n % 2] for n in range(len(roles))
    ]
    assert [message.text for message in task.messages] == [str(number) for number in range(len(roles))]


def test_tool_and_developer_messages_are_ignored_and_unknown_roles_are_errors() -> None:
    others = [{"role": role, "content": None} for role in ("system", "developer", "tool", "function")]
    (task,) = read({"messages": [*others, {"role": "user", "content": "q"}, *others], "answer": "a"}).benchmark.tasks
    assert [message.text for message in task.messages] == ["q"]
    for stranger in ({"role": "critic", "content": "x"}, {"content": "x"}, "x", None):
        ((_, text, _, _),) = problems_of({"messages": [{"role": "user", "content": "q"}, stranger], "answer": "a"})
        assert text.startswith("`messages`: a list of")


def test_an_answer_next_to_a_conversation_that_ends_with_one_is_an_error() -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    ((_, text, _, _),) = problems_of({"messages": messages, "answer": "b"})
    assert text == "`messages` that end with the user's question"


def test_messages_have_precedence_over_earlier_rows() -> None:
    rows = read(
        {"question": "a?", "answer": "A.", "conversation_id": "c"},
        {"messages": [{"role": "user", "content": "b?"}], "answer": "B.", "conversation_id": "c"},
        {"question": "c?", "answer": "C.", "conversation_id": "c"},
    )
    assert [[message.text for message in task.messages] for task in rows.benchmark.tasks] == [
        ["a?"],
        ["b?"],
        ["b?", "B.", "c?"],
    ]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        ([{"text": "a"}, {"type": "image"}, "b", {"text": 5}, {"text": "c"}], "a\nc"),
        ([{"type": "image"}], None),
        ([], None),
        (None, None),
        (5, None),
        ({"text": "a"}, None),
    ],
)
def test_the_text_of_a_message_is_that_of_its_parts(content: object, text: str | None) -> None:
    assert message_text(content) == text


@pytest.mark.parametrize(
    ("lines", "is_own"), [('{"task_id": "x", "answer": "a"}\n', False), ('{"messages": []}\n', True)]
)
def test_answers_to_a_benchmark_are_not_own_rows(lines: str, is_own: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines, encoding="utf-8")
    assert contains_own_rows(path) is is_own


def test_a_file_without_lines_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("", encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match="no line"):
        contains_own_rows(path)
    path.write_text("[1]\n", encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match="row 1: expected one JSON object"):
        contains_own_rows(path)
