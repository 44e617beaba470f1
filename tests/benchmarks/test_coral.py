"""CORAL: its file and the errors in it, citations, rewritten questions, its corpus."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark, retrieval_side, source_of
from ragtasks.benchmarks.coral import SIZES, without_citations
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Setting

SAMPLE = benchmark_folder("coral", "sample", Path())
FILE = "test/test_conversation.json"
Conversations = list[dict[str, Any]]


def changed(tmp_path: Path, edit: Callable[[Conversations], object]) -> Path:
    """Return a copy of the sample whose conversations a function has changed."""
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    conversations = json.loads((tmp_path / FILE).read_text("utf-8"))
    edit(conversations)
    (tmp_path / FILE).write_text(json.dumps(conversations), encoding="utf-8")
    return tmp_path


def test_the_test_split_has_its_published_counts_and_no_checksum_that_nobody_knows() -> None:
    assert (SIZES.conversations, SIZES.tasks) == (4 * 200, 651 + 1727 + 1949 + 2153)
    assert {file.path: file.sha256 for file in source_of("coral").files} == {FILE: None, "passage_corpus.json": None}


def test_a_turn_is_a_task_without_citations_in_what_is_said() -> None:
    sample = open_benchmark("coral", SAMPLE)
    task = sample.tasks[2]
    assert (task.task_id, sample.suite) == ("Test_LDS_1<::>3", "coral")
    assert task.question_types == ("LDS",)
    assert task.extra["cited"] == [passage.passage_id for passage in task.references] == ["14", "13", "10"]
    assert task.target.endswith("cost 61,000.")
    assert "[" not in "".join(message.text for message in task.messages)
    assert task.messages[3].text == sample.tasks[1].target
    assert task.references[0].text.startswith("Sorrel Point Light.")


def test_citations_are_taken_out_and_other_brackets_stay() -> None:
    assert without_citations("It is old [3][14]. So [1, 2] it is [sic].[7]") == "It is old. So it is [sic]."


def test_questions_passages_and_rewritten_questions_join() -> None:
    side, tasks = retrieval_side("coral"), open_benchmark("coral", SAMPLE).tasks
    ids = {json.loads(line)["_id"] for line in side.corpus_file(SAMPLE, "wikipedia").read_text("utf-8").splitlines()}
    qrels = side.load_qrels(SAMPLE, "wikipedia")
    assert {qrel.passage_id for qrel in qrels} <= ids
    assert len(qrels) == sum(len(task.references) for task in tasks)
    assert side.load_rewrites is not None
    rewrites = side.load_rewrites(SAMPLE, "wikipedia")
    assert rewrites["Test_LDS_1<::>2"] == "How much did it cost to build Hask Ledge Light?"
    assert rewrites.keys() == {task.task_id for task in tasks}


def test_a_turn_without_passages_is_asked_in_full_rag_alone(tmp_path: Path) -> None:
    root = changed(tmp_path, lambda all_: all_[0]["turns"][0].update(golden_docs_pids=[]))
    benchmark = open_benchmark("coral", root)
    given = benchmark.read_contexts(Setting.REFERENCE).passages
    assert benchmark.tasks[0].task_id not in given
    assert len(given) == len(benchmark.tasks) - 1
    assert benchmark.count_tasks(Setting.FULL_RAG, ["wikipedia"], conversational=True) == {"wikipedia": 10}
    with pytest.raises(ConfigurationError, match="ragtasks retrieve --benchmark coral"):
        benchmark.read_contexts(Setting.FULL_RAG)


@pytest.mark.parametrize(("edit", "message"), [
    (lambda all_: all_[0].pop("conv_id"), "`conv_id` and `turns`"),
    (lambda all_: all_[0].update(turns={"1": {}}), "`conv_id` and `turns`"),
    (lambda all_: all_[1]["turns"][1].update(turn_id=5), "Test_SIDS_2(.|\n)*turn 2 with `question`"),
    (lambda all_: all_[1]["turns"][1].update(response=" "), "`response`"),
    (lambda all_: all_[1]["turns"][1].update(golden_docs_pids="7"), "`golden_docs_pids`"),
    (lambda all_: all_[1]["turns"][1].update(golden_docs_pids=[999]), "passages in passage_corpus.json(.|\n)*999"),
    (lambda all_: all_[0]["turns"].pop(), "conversations=4, tasks=10"),
])  # fmt: skip
def test_what_is_wrong_with_the_file_is_named(
    edit: Callable[[Conversations], object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BenchmarkFileError, match=message):
        open_benchmark("coral", changed(tmp_path, edit))


def test_a_broken_corpus_is_named_by_line(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    (tmp_path / "passage_corpus.json").write_text('{"ref_id": 1}\n', encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match=r"line 1(.|\n)*`ref_string`"):
        open_benchmark("coral", tmp_path)
