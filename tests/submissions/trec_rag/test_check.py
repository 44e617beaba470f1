"""Answer files: refusals and repairs of the track. Every written file passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Passage, Response
from ragtasks.submissions import Severity
from ragtasks.submissions.trec_rag import answer_of, check_answers, read_answers, write_rows
from ragtasks.submissions.trec_rag._check import check_lines
from tests._messages import same_message
from tests.judges._scripted import response

IDS = [f"msmarco_v2.1_doc_{n:02}_{n}#{n}_{n}" for n in range(25)]
TOPICS = {"2024-1": "first topic", "2024-2": "second topic"}


def row(topic_id: str = "2024-1", **changes: Any) -> dict[str, Any]:
    base = {
        "run_id": "demo",
        "topic_id": topic_id,
        "topic": TOPICS.get(topic_id, "unknown"),
        "references": IDS[:3],
        "response_length": 4,
        "answer": [{"text": "Rain fell.", "citations": [0, 2]}, {"text": "Sun shone.", "citations": []}],
    }
    return {**deepcopy(base), **changes}


def remarks(*rows: Any) -> list[tuple[int, bool, str]]:
    lines = [
        (row_or_text if isinstance(row_or_text, str) else json.dumps(row_or_text)).encode() for row_or_text in rows
    ]
    return [
        (finding.line, finding.severity is Severity.PROBLEM, f"{finding.expected}, not {finding.found}")
        for finding in check_lines(lines, TOPICS).findings
    ]


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in row("2024-2").items() if name != key}


def sentence(**changes: Any) -> list[dict[str, Any]]:
    return [{"text": "Rain fell hard now.", "citations": [0], **changes}]


REFUSED: list[Any] = [
    *("{", "[]"),
    *map(without, row()),
    *(row("2024-2", run_id=run_id) for run_id in ("other", 1)),
    *(row("2024-9"), row("2024-1"), row("2024-2", topic="second  topic")),
    *(
        row("2024-2", references=references)
        for references in (
            *(IDS[:21], [IDS[0], IDS[1], IDS[0]], [*IDS[:2], "msmarco_v2.1_doc_00_0"]),
            *([*IDS[:2], 7], [*IDS[:2], f"{IDS[2]} "], "x"),
        )
    ),
    *(row("2024-2", response_length=length) for length in ("4", True)),
    *(row("2024-2", answer=sentence(citations=citations)) for citations in ([3], [-1], [True], ["0"], [0.0], 0)),
    *(row("2024-2", answer=answer) for answer in (sentence(text=None), ["Rain fell."], "Rain fell.")),
]


@pytest.mark.parametrize("broken", REFUSED, ids=range(len(REFUSED)))
def test_problems_are_errors_with_their_line(broken: Any) -> None:
    (problem,) = [text for line, is_error, text in remarks(row(), broken) if is_error and line == 2]
    same_message(problem)


PASSED = [
    row("2024-2", response_length=5),
    row("2024-2", answer=sentence(citations=[0, 0])),
    row("2024-2", answer=sentence(text=" "), response_length=4),
    row("2024-2", answer=sentence(text="word " * 401), response_length=400),
]


@pytest.mark.parametrize("odd", PASSED, ids=range(len(PASSED)))
def test_warnings_have_their_line(odd: dict[str, Any]) -> None:
    ((line, is_error, text),) = remarks(row(), odd)
    assert (line, is_error) == (2, False)
    same_message(text)


def test_a_valid_file_has_no_findings_and_a_missing_topic_is_a_warning() -> None:
    assert remarks(row(), row("2024-2", answer=[], response_length=0, extra="ignored")) == []
    assert remarks(row()) == [(0, False, "an answer to this topic, not none")]
    assert [text for _, is_error, text in remarks("", "  ") if is_error] == ["at least one answer, not none"]


def test_every_problem_of_a_line_and_a_file_is_reported() -> None:
    twice = row("2024-2", references=[IDS[0], IDS[0], "x"], topic="no", answer=sentence(citations=[5, 6]))
    assert len([1 for _, is_error, _ in remarks("{", twice, row(run_id="b")) if is_error]) == 1 + 5 + 1


def test_a_file_with_errors_cannot_be_read_and_one_with_warnings_can(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, [row(response_length=9), row("2024-9"), row("2024-2", topic="no")])))
    with pytest.raises(BenchmarkFileError, match="2 problems") as error:
        read_answers(path, TOPICS)
    assert "line 2" in str(error.value)
    assert "line 3" in str(error.value)
    path.write_text(json.dumps(row(response_length=9)))
    (answer,) = read_answers(path, TOPICS)
    assert (answer.text, answer.length) == ("Rain fell. Sun shone.", 4)
    assert answer.row() == row()
    with pytest.raises(BenchmarkFileError, match="check the path"):
        check_answers(tmp_path / "none", TOPICS)


def test_a_repair_keeps_other_fields_and_orders_the_citations_of_every_sentence() -> None:
    more = [f"{IDS[n]}" for n in range(20)]
    answer = [
        {"text": "Räin fell.", "citations": [2, 0], "note": 1},
        {"text": "Sun shone.", "citations": [1, 3, 1]},
        {"text": "word " * 397, "citations": [9]},
    ]
    given_row = row(references=more, response_length=9, answer=answer, extra="stays")
    checked = check_lines([json.dumps(given_row).encode(), json.dumps(row("2024-9")).encode()], TOPICS)
    (repaired,) = checked.repaired
    assert list(repaired) == list(given_row)
    assert repaired == {
        **given_row,
        "response_length": 4,
        "answer": [{**answer[0], "citations": [0, 2]}, {**answer[1], "citations": [1, 3]}],
    }
    assert checked.answers[0].sentences[0].citations == (2, 0), "the first citation is scored as it was handed in"


def answered(text: str, n_passages: int = 3, topic_id: str = "2024-1") -> Response:
    base = response(text, history=(), question=TOPICS[topic_id], task_id=topic_id)
    return replace(base, passages=tuple(Passage(segment_id, "text") for segment_id in IDS[:n_passages]))


def test_a_free_text_becomes_a_line_of_the_format() -> None:
    made = answer_of(answered("Rain fell [1][3]. Sun shone."), "demo")
    assert made.row() == row()
    assert list(made.row()) == list(row())


def test_an_answer_is_truncated_only_on_request() -> None:
    text = " ".join(["Four words are here."] * 101)
    assert answer_of(answered(text), "demo").length == 404
    assert answer_of(answered(text), "demo", cut=True).length == 400
    assert answer_of(answered("word " * 401), "demo", cut=True).sentences == ()


def test_more_passages_than_the_format_allows_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at most 20 passages"):
        answer_of(answered("Rain.", n_passages=21), "demo")


TEXTS = st.text(st.characters(), max_size=60) | st.lists(
    st.sampled_from(["Rain fell", " [1]", "[2-4]", "[0]", ". ", "Dr. X came.", "\n", "[9,2]", "3.5", "\ud800"]),
    max_size=12,
).map("".join)


@given(st.tuples(TEXTS, TEXTS), st.integers(0, 20), st.booleans())
def test_any_model_output_gives_a_valid_file(texts: tuple[str, str], n_passages: int, cut: bool) -> None:
    responses = [answered(text, n_passages, topic_id) for text, topic_id in zip(texts, TOPICS, strict=True)]
    rows = [answer_of(response, "demo", cut=cut).row() for response in responses]
    assert remarks(*rows) == []
    for made in rows:
        assert independently_valid(made)


def independently_valid(made: dict[str, Any]) -> bool:
    """The published rules again, without our code."""
    words = sum(len(sentence_row["text"].split()) for sentence_row in made["answer"])
    cited = [number for sentence_row in made["answer"] for number in sentence_row["citations"]]
    return (
        set(made) == {"run_id", "topic_id", "topic", "references", "response_length", "answer"}
        and len(set(made["references"])) == len(made["references"]) <= 20
        and abs(words - made["response_length"])
        <= sum(not sign.isascii() for sentence_row in made["answer"] for sign in sentence_row["text"])
        and all(type(number) is int and 0 <= number < len(made["references"]) for number in cited)
    )


def test_written_answers_read_back_equal(tmp_path: Path) -> None:
    made: Callable[[str], Any] = lambda topic_id: answer_of(answered("Rain fell [2]. Sun [1].", 3, topic_id), "demo")  # noqa: E731
    answers = [made(topic_id) for topic_id in TOPICS]
    write_rows(tmp_path / "a.jsonl", [answer.row() for answer in answers])
    assert read_answers(tmp_path / "a.jsonl", TOPICS) == answers
