"""LiveRAG: its file and the errors in it, its pool of documents, the judges' prompts, the challenge's scales."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ragtasks_more_benchmarks.liverag import (
    CORRECTNESS,
    FAITHFULNESS,
    POINTS,
    SIZES,
    correctness,
    faithfulness,
    in_points,
)

from ragtasks.benchmarks import benchmark_folder, open_benchmark, retrieval_side, source_of
from ragtasks.errors import BenchmarkFileError
from ragtasks.judges import Finding, Question, UnparsableReplyError, VerdictOutcome
from ragtasks.records import Response, Score, Setting
from ragtasks.suites import suite_named

SAMPLE = benchmark_folder("liverag", "sample", Path())
FILE = "LiveRAG_banchmark_20250910.parquet"
Rows = list[dict[str, Any]]


def changed(tmp_path: Path, edit: Callable[[Rows], object]) -> Path:
    """Return a copy of the sample with rows changed by a function."""
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    rows = pq.read_table(SAMPLE / FILE).to_pylist()
    edit(rows)
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    (tmp_path / FILE).write_bytes(file.getvalue())
    return tmp_path


def test_the_file_is_of_one_revision_with_its_published_count(tmp_path: Path) -> None:
    source = source_of("liverag")
    assert (SIZES.conversations, SIZES.tasks) == (895, 895)
    assert [(file.path, file.sha256) for file in source.files] == [(FILE, None)]
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    assert benchmark_folder("liverag", str(tmp_path), Path()) == tmp_path  # the path in the file itself


def test_a_question_is_a_task_with_its_documents_and_claims() -> None:
    sample = open_benchmark("liverag", SAMPLE)
    task = sample.tasks[2]
    assert (task.task_id, len(task.messages), sample.suite) == ("question-2<::>1", 1, "liverag")
    assert task.question_types == ("two documents",)
    assert task.extra["claims"] == {"direct": [task.target], "useful": [], "useless": []}
    assert task.extra["categories"]["answer-type"] == "multi-aspect"
    assert sample.read_contexts(Setting.REFERENCE).passages[task.task_id] == task.references


def test_objects_may_be_columns_or_text(tmp_path: Path) -> None:
    def as_text(rows: Rows) -> None:
        for row in rows:
            row["Answer_Claims"] = json.dumps(row["Answer_Claims"])
            row["Supporting_Documents"] = json.dumps(row["Supporting_Documents"])

    assert open_benchmark("liverag", changed(tmp_path, as_text)).tasks == open_benchmark("liverag", SAMPLE).tasks


def test_the_pool_is_the_documents_of_all_questions() -> None:
    side = retrieval_side("liverag")
    rows = [json.loads(line) for line in side.corpus_file(SAMPLE, "fineweb").read_text("utf-8").splitlines()]
    qrels = side.load_qrels(SAMPLE, "fineweb")
    assert len(rows) == len({row["_id"] for row in rows}) == len({qrel.passage_id for qrel in qrels})
    assert len(qrels) == 12


@pytest.mark.parametrize(("edit", "message"), [
    (lambda rows: rows[1].update(Question=""), r"line 2(.|\n)*`Question`"),
    (lambda rows: rows[1].update(Supporting_Documents=[]), "`Supporting_Documents` as more values"),
    (lambda rows: rows[1]["Supporting_Documents"][0].update(content=None), r"`Supporting_Documents\[0\].content`"),
    (lambda rows: rows[1]["Supporting_Documents"][0].update(doc_id=""), r"`Supporting_Documents\[0\].doc_id`"),
    (lambda rows: rows[1].update(Answer_Claims=None), "line 2: expected `Answer_Claims`"),
    (lambda rows: rows.pop(), "conversations=10, tasks=10"),
])  # fmt: skip
def test_what_is_wrong_with_a_row_is_named(edit: Callable[[Rows], object], message: str, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError, match=message):
        open_benchmark("liverag", changed(tmp_path, edit))


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    (tmp_path / FILE).write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(BenchmarkFileError, match="a row of a Parquet file"):
        open_benchmark("liverag", tmp_path)


# The suite.

TASK = open_benchmark("liverag", SAMPLE).tasks[2]
RESPONSE = Response(TASK, TASK.references, "Yes, it was much cheaper.")


def question_of(step: Question | Finding) -> Question:
    assert isinstance(step, Question)
    return step


def read(question: Question, label: str) -> Finding:
    verdict = question.read(question.form.replace("LABEL", label))
    assert isinstance(verdict, Finding)
    return verdict


def test_a_judge_of_correctness_sees_question_answer_and_statements() -> None:
    question = question_of(correctness().open(RESPONSE))
    assert all(text in question.text for text in (TASK.question, TASK.target, RESPONSE.text))
    assert question.text.count(TASK.target) == 2  # as answer and as its only statement
    assert TASK.references[0].text not in question.text


def test_a_judge_of_faithfulness_sees_passages_and_no_reference_answer() -> None:
    question = question_of(faithfulness().open(RESPONSE))
    assert all(passage.text in question.text for passage in TASK.references)
    assert TASK.target not in question.text
    unasked = faithfulness().open(replace(RESPONSE, passages=()))
    assert isinstance(unasked, Finding)
    assert unasked.outcome is VerdictOutcome.NOT_ASKED


@pytest.mark.parametrize(("rubric", "label", "points"), [
    (name, label, points) for name, labels in POINTS.items() for label, points in labels.items()
])  # fmt: skip
def test_labels_are_points_of_the_challenge(rubric: str, label: str, points: int) -> None:
    question = question_of({CORRECTNESS: correctness, FAITHFULNESS: faithfulness}[rubric]().open(RESPONSE))
    verdict = read(question, label)
    assert verdict.value is not None
    assert 0 <= verdict.value <= 1
    assert in_points(rubric, Score(verdict.value)).value == pytest.approx(points)
    with pytest.raises(UnparsableReplyError):
        read(question, "maybe")


def test_the_scales_are_those_of_the_challenge_and_of_the_metrics() -> None:
    assert POINTS[CORRECTNESS] == {"clean": 2, "padded": 1, "none": 0, "wrong": -1}
    assert POINTS[FAITHFULNESS] == {"full": 1, "partial": 0, "no": -1}
    bounds = {metric.name: metric.bounds for metric in suite_named("liverag").metrics if metric.name in POINTS}
    assert bounds == {CORRECTNESS: (-1, 2), FAITHFULNESS: (-1, 1)}
    assert in_points(CORRECTNESS, Score(None, "no verdict")) == Score(None, "no verdict")
    names = [rubric.name for rubric in suite_named("liverag").rubrics()]
    assert names[-2:] == [CORRECTNESS, FAITHFULNESS]
