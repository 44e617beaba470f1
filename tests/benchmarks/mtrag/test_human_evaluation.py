"""Facts about the human evaluation, and every type of invalid file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import open_benchmark
from ragtasks.benchmarks.mtrag import (
    FANC,
    HUMAN_EVALUATION_FILE,
    PUBLISHED_METRICS,
    WIN_RATE,
    RatedResponse,
    load_human_evaluation,
)
from ragtasks.errors import BenchmarkFileError
from ragtasks.records import Answerability, Role
from tests._messages import raises

TASK_ID = "c0ffee<::>2"
SCALES = {"win-rate": 50.0, "faithfulness": "4", "appropriateness": "3", "naturalness": "2", "completeness": "1"}


def content() -> dict[str, Any]:
    """Return a complete file: one task, one document, the reference answer."""
    annotations: dict[str, Any] = {
        name: {rater: {"value": value, "duration": 1.0} for rater in ("7", "8", "9")} for name, value in SCALES.items()
    }
    for name, value in {"rl_f": 0.5, "rb_llm": 1, "rb_agg": 0.25, "conditional_idk": 1}.items():
        annotations[name] = {"composite": {"value": value}}
    task = {
        "task_id": TASK_ID,
        "input": [
            {"speaker": "user", "text": "Is it open?"},
            {"speaker": "agent", "text": "It is."},
            {"speaker": "user", "text": "Until when?"},
        ],
        "contexts": [{"document_id": "p1"}],
        "targets": [{"speaker": "agent", "text": "Until noon."}],
        "Answerability": ["ANSWERABLE"],
        "Collection": "mt-rag-govt-elser-512-100-20240611",
        "Question Type": ["Factoid"],
        "Multi-Turn": [],
    }
    return {
        "name": "a test",
        "documents": [{"document_id": "p1", "text": "Closed from noon.", "title": "Hours"}],
        "tasks": [task],
        "evaluations": [
            {
                "task_id": TASK_ID.replace("<::>", "::"),
                "model_id": "reference",
                "model_response": "Until noon.",
                "annotations": annotations,
            }
        ],
    }


def write(root: Path, text: str) -> Path:
    path = root / HUMAN_EVALUATION_FILE
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def official(mtrag_root: Path) -> tuple[RatedResponse, ...]:
    return load_human_evaluation(mtrag_root)


def test_the_official_file_has_three_answers_to_159_tasks(official: tuple[RatedResponse, ...]) -> None:
    assert len(official) == len({row.key for row in official}) == 477
    models = Counter(row.model_id for row in official)
    assert models == {"reference": 159, "llama-3.1-405b-instruct": 159, "gpt-4o": 159}
    labels = Counter(row.response.task.answerability.value for row in official)
    assert labels == {"ANSWERABLE": 405, "PARTIAL": 45, "UNANSWERABLE": 21, "CONVERSATIONAL": 6}
    assert [official[at].key for at in (0, 9, -1)] == [
        ("f0d2873b877409f61da7dbdddd22d279<::>1", "reference"),
        ("ca6f0197d2c0c4d6e3be090c3f8bf30f<::>2", "reference"),
        ("adf9b1f61c73d715809bc7b37ac02724<::>12", "gpt-4o"),
    ]


def test_the_official_tasks_are_those_of_the_benchmark(official: tuple[RatedResponse, ...], mtrag_root: Path) -> None:
    tasks = {task.task_id: task for task in open_benchmark("mtrag", mtrag_root).tasks}
    for row in official:
        ours, theirs = row.response.task, tasks[row.response.task.task_id]
        assert (ours.messages, ours.target, ours.answerability) == (
            theirs.messages,
            theirs.target,
            theirs.answerability,
        )
        assert (ours.domain, ours.turn, ours.multi_turn) == (theirs.domain, theirs.turn, theirs.multi_turn)
        passages = [(passage.passage_id, passage.text) for passage in row.response.passages]
        assert passages == [(passage.passage_id, passage.text) for passage in theirs.references]
        assert row.model_id != "reference" or row.response.text == ours.target


def test_the_official_ratings(official: tuple[RatedResponse, ...]) -> None:
    n_raters = {name: Counter(len(row.ratings[name]) for row in official) for name in (WIN_RATE, *FANC)}
    assert n_raters == {
        "win_rate": {3: 477},
        "faithfulness": {3: 465, 2: 12},
        "appropriateness": {3: 459, 2: 18},
        "naturalness": {3: 459, 2: 18},
        "completeness": {3: 457, 2: 20},
    }
    values = Counter(rating for row in official for rating in row.ratings[WIN_RATE].values())
    assert values == {0: 425, 50: 526, 100: 480}


def test_the_official_refusals_by_answerability(official: tuple[RatedResponse, ...]) -> None:
    refusals = Counter((row.response.task.answerability.value, row.refuses) for row in official)
    assert refusals == {
        ("ANSWERABLE", False): 402,
        ("ANSWERABLE", True): 3,
        ("PARTIAL", False): 43,
        ("PARTIAL", True): 2,
        ("UNANSWERABLE", True): 10,
        ("UNANSWERABLE", False): 11,
        ("CONVERSATIONAL", None): 6,
    }


def test_a_row_joins_task_document_and_ratings(tmp_path: Path) -> None:
    (row,) = load_human_evaluation(write(tmp_path, json.dumps(content())))
    task = row.response.task
    assert row.key == (TASK_ID, "reference")
    assert (task.conversation_id, task.turn, task.domain, task.multi_turn) == ("c0ffee", 2, "govt", "N/A")
    assert [message.role for message in task.messages] == [Role.USER, Role.ASSISTANT, Role.USER]
    assert task.question == "Until when?"
    assert [(passage.title, passage.text) for passage in row.response.passages] == [("Hours", "Closed from noon.")]
    assert row.ratings["win_rate"] == {"7": 50, "8": 50, "9": 50}
    assert [row.ratings[name]["8"] for name in FANC] == [4, 3, 2, 1]
    assert row.metrics == {"rl_f": 0.5, "rb_llm": 1, "rb_alg": 0.25}
    assert list(row.metrics) == list(PUBLISHED_METRICS)


@pytest.mark.parametrize("label", Answerability)
@pytest.mark.parametrize("is_right", [0, 1])
def test_implications_of_the_idk_label(tmp_path: Path, *, label: Answerability, is_right: int) -> None:
    file = content()
    file["tasks"][0]["Answerability"] = [label.value]
    file["evaluations"][0]["annotations"]["conditional_idk"]["composite"]["value"] = is_right
    (row,) = load_human_evaluation(write(tmp_path, json.dumps(file)))
    unanswerable = label is Answerability.UNANSWERABLE
    expected = None if label is Answerability.CONVERSATIONAL else bool(is_right) is unanswerable
    assert row.refuses is expected


def notes(file: dict[str, Any]) -> dict[str, Any]:
    annotations: dict[str, Any] = file["evaluations"][0]["annotations"]
    return annotations


BROKEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "no tasks": lambda file: file.pop("tasks"),
    "empty tasks": lambda file: file.update(tasks=[]),
    "a task without input": lambda file: file["tasks"][0].pop("input"),
    "two labels": lambda file: file["tasks"][0]["Answerability"].append("PARTIAL"),
    "unknown label": lambda file: file["tasks"][0].update(Answerability=["MAYBE"]),
    "unknown speaker": lambda file: file["tasks"][0]["input"][0].update(speaker="bot"),
    "ends with the agent": lambda file: file["tasks"][0]["input"].pop(),
    "unknown collection": lambda file: file["tasks"][0].update(Collection="x"),
    "unknown passage": lambda file: file["documents"].clear(),
    "bad task id": lambda file: file["tasks"][0].update(task_id="c0ffee"),
    "a task twice": lambda file: file["tasks"].append(file["tasks"][0]),
    "unknown task": lambda file: file["evaluations"][0].update(task_id="d::1"),
    "bad evaluation id": lambda file: file["evaluations"][0].update(task_id="d"),
    "an answer twice": lambda file: file["evaluations"].append(file["evaluations"][0]),
    "no rating": lambda file: notes(file).pop("naturalness"),
    "rating off the scale": lambda file: notes(file)["faithfulness"]["7"].update(value="5"),
    "win-rate off the scale": lambda file: notes(file)["win-rate"]["7"].update(value=101),
    "rating that is no number": lambda file: notes(file)["faithfulness"]["7"].update(value="good"),
    "no score": lambda file: notes(file).pop("rb_agg"),
    "score that is NaN": lambda file: notes(file)["rl_f"]["composite"].update(value=float("nan")),
    "score off the scale": lambda file: notes(file)["rb_llm"]["composite"].update(value=10),
    "half right": lambda file: notes(file)["conditional_idk"]["composite"].update(value=0.5),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_named_with_its_problem(tmp_path: Path, name: str) -> None:
    file = content()
    BROKEN[name](file)
    with raises(BenchmarkFileError):
        load_human_evaluation(write(tmp_path, json.dumps(file)))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"text"'])
def test_a_file_with_another_object_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BenchmarkFileError, match="next step: "):
        load_human_evaluation(write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with raises(BenchmarkFileError):
        load_human_evaluation(tmp_path)


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    file = content()
    notes(file).pop("rb_agg")
    notes(file).pop("faithfulness")
    with pytest.raises(BenchmarkFileError, match="2 errors") as caught:
        load_human_evaluation(write(tmp_path, json.dumps(file)))
    assert "rb_agg" in str(caught.value)
    assert "faithfulness" in str(caught.value)
