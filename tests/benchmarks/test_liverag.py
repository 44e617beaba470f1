"""LiveRAG: its file and the errors in it, its claims, its pool of documents."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark, retrieval_side, source_of
from ragtasks.benchmarks.liverag import SIZES
from ragtasks.errors import BenchmarkFileError
from ragtasks.records import Setting

SAMPLE = benchmark_folder("liverag", "sample", Path())
FILE = "LiveRAG_banchmark_20250910.parquet"
Rows = list[dict[str, Any]]


def changed(tmp_path: Path, edit: Callable[[Rows], object]) -> Path:
    """Return a copy of the sample whose rows a function has changed."""
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
    assert benchmark_folder("liverag", str(tmp_path), Path()) == tmp_path  # the file itself says that this is the place


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
    (lambda rows: rows[1].update(Supporting_Documents=[]), "`Supporting_Documents` of `doc_id`"),
    (lambda rows: rows[1]["Supporting_Documents"][0].update(content=None), "`Supporting_Documents` of `doc_id`"),
    (lambda rows: rows[1]["Supporting_Documents"][0].update(doc_id=""), "`Supporting_Documents` of `doc_id`"),
    (lambda rows: rows[1].update(Answer_Claims=None), "line 2: expected `Answer_Claims`(.|\n)*direct, useful, useless"),
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
