"""CORAL: its file and the errors in it, rewritten questions, its corpus, citations by passage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ragtasks_more_benchmarks.coral import SIZES, without_citations

from ragtasks.benchmarks import benchmark_folder, open_benchmark, retrieval_side, source_of
from ragtasks.config import EvaluationConfig
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Passage, Response, Setting
from ragtasks.results import ScoredAnswer
from ragtasks.scoring import ResponseScorer
from ragtasks.suites import suite_named

SAMPLE = benchmark_folder("coral", "sample", Path())
FILE = "test/test_conversation.json"
Conversations = list[dict[str, Any]]


def changed(tmp_path: Path, edit: Callable[[Conversations], object]) -> Path:
    """Return a copy of the sample with conversations changed by a function."""
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
    passages = benchmark.read_contexts(Setting.REFERENCE).passages
    assert benchmark.tasks[0].task_id not in passages
    assert len(passages) == len(benchmark.tasks) - 1
    assert benchmark.count_tasks(Setting.FULL_RAG, ["wikipedia"], conversational=True) == {"wikipedia": 10}
    with pytest.raises(ConfigurationError, match="ragtasks retrieve --benchmark coral"):
        benchmark.read_contexts(Setting.FULL_RAG)


@pytest.mark.parametrize(("edit", "message"), [
    (lambda all_: all_[0].pop("conv_id"), "found no `conv_id`"),
    (lambda all_: all_[0].update(turns={"1": {}}), "`turns` as a list"),
    (lambda all_: all_[1]["turns"][1].update(turn_id=5), "turns of Test_SIDS_2(.|\n)*`turn_id`"),
    (lambda all_: all_[1]["turns"][1].update(response=" "), "response` as a text"),
    (lambda all_: all_[1]["turns"][1].update(golden_docs_pids="7"), "golden_docs_pids` as a list"),
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


# The suite.

BENCHMARK = open_benchmark("coral", SAMPLE)
TASK = BENCHMARK.tasks[2]
"""Its answer cites three passages."""


def scored(text: str, passages: tuple[Passage, ...] = TASK.references) -> dict[str, float | None]:
    scorer = ResponseScorer(BENCHMARK, EvaluationConfig(encoder="none"))
    (result,) = scorer.score([ScoredAnswer(Response(TASK, passages, text), "reference")])
    return dict(result.scores)


@pytest.mark.parametrize(("text", "precision", "recall"), [
    ("It was [1]. Really [2, 3].", 1, 1),
    ("It was [1].", 1, 1 / 3),
    ("It was [1][4].", 1 / 2, 1 / 3),
    ("It was [4][9].", 0, 0),  # the ninth passage was not shown
    ("It was.", 0, 0),
    ("", 0, 0),
])  # fmt: skip
def test_citations_count_by_passage(text: str, precision: float, recall: float) -> None:
    scores = scored(text, (*TASK.references, Passage("elsewhere", "Nothing.")))
    assert (scores["citation_precision"], scores["citation_recall"]) == pytest.approx((precision, recall))


def test_citations_change_no_score_of_the_text() -> None:
    with_them, without = scored(f"{TASK.target} [1][2]"), scored(TASK.target)
    assert with_them["rouge_l"] == without["rouge_l"] == 1
    assert {name for name in with_them if with_them[name] != without[name]} == {"citation_precision", "citation_recall"}
    (metric,) = (metric for metric in suite_named("coral").metrics if metric.name == "sacrebleu")
    assert metric.aggregate is not None
    assert metric.aggregate([(f"{TASK.target} [1][2]", (TASK.target,))]) == pytest.approx(100)
