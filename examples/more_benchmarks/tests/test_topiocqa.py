"""TopiOCQA: its file and the errors in it, its answers, its corpus, official exact match and F1."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from ragtasks_more_benchmarks.topiocqa import SIZES, load, official_scores

from ragtasks.benchmarks import benchmark_folder, open_benchmark, retrieval_side, source_of
from ragtasks.config import EvaluationConfig
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Answerability, Response, Role, Setting, Task
from ragtasks.results import ScoredAnswer
from ragtasks.scoring import ResponseScorer

SAMPLE = benchmark_folder("topiocqa", "sample", Path())
FILE = "data/topiocqa_valid.jsonl"


def test_the_dev_split_is_pinned_with_its_published_counts() -> None:
    source = source_of("topiocqa")
    (file,) = source.files
    assert (SIZES.conversations, SIZES.tasks) == (205, 2514)
    assert (file.path, file.n_bytes) == (FILE, 7650455)
    assert file.sha256 is not None
    assert source.base_url.endswith(f"resolve/{source.commit}/")


def test_a_question_is_a_task_with_all_its_answers() -> None:
    sample = open_benchmark("topiocqa", SAMPLE)
    task = sample.tasks[1]
    assert (task.task_id, task.turn, sample.suite) == ("1<::>2", 2, "topiocqa")
    assert [message.role for message in task.messages] == [Role.USER, Role.ASSISTANT, Role.USER]
    assert task.messages[1].text == sample.tasks[0].target == "Edric Tolvane"
    assert [variant.target for variant in task.variants] == task.extra["answers"]
    assert len(task.variants) == 3
    (passage,) = task.references
    assert (passage.passage_id, passage.title) == ("doc10", "Hask Ledge Light - Part 2")
    assert sample.read_contexts(Setting.REFERENCE).passages[task.task_id] == task.references


def test_the_answer_that_is_a_label_makes_a_question_unanswerable() -> None:
    unanswerable = [task for task in open_benchmark("topiocqa", SAMPLE).tasks if task.target == "UNANSWERABLE"]
    assert [task.answerability for task in unanswerable] == [Answerability.UNANSWERABLE]
    assert all(one.answerability is Answerability.UNANSWERABLE for one in unanswerable[0].variants)


def test_gold_passages_are_in_the_corpus_which_is_made_of_parquet_files(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "derived")
    side = retrieval_side("topiocqa")
    made = side.corpus_file(tmp_path, "wikipedia").read_bytes()
    assert made == (SAMPLE / "derived/wikipedia.jsonl").read_bytes()
    rows = {row["_id"]: row for row in map(json.loads, made.splitlines())}
    qrels = side.load_qrels(tmp_path, "wikipedia")
    assert len(qrels) == 11
    for task, qrel in zip(load(tmp_path).tasks, qrels, strict=True):
        assert (qrel.query_id, rows[qrel.passage_id]["text"]) == (task.task_id, task.references[0].text)


def test_a_corpus_that_is_missing_or_broken_says_where_it_comes_from(tmp_path: Path) -> None:
    corpus_file = retrieval_side("topiocqa").corpus_file
    with pytest.raises(BenchmarkFileError, match="TopiOCQA-wiki-corpus"):
        corpus_file(tmp_path, "wikipedia")
    (tmp_path / "wiki_corpus").mkdir()
    (tmp_path / "wiki_corpus/train-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(BenchmarkFileError, match=r"train-0\.parquet(.|\n)*`contents`"):
        corpus_file(tmp_path, "wikipedia")
    assert not (tmp_path / "derived/wikipedia.jsonl").exists()


def test_retrieved_passages_are_a_run_of_ones_own() -> None:
    with pytest.raises(ConfigurationError, match="ragtasks retrieve --benchmark topiocqa"):
        open_benchmark("topiocqa", SAMPLE).read_contexts(Setting.FULL_RAG)


@pytest.mark.parametrize(("edit", "message"), [
    (lambda row: row.update(Turn_no=0), "`Turn_no` as 1 or more"),
    (lambda row: row.update(Turn_no="2"), "`Turn_no` as a whole number"),
    (lambda row: row.pop("Question"), "`Question`"),
    (lambda row: row["Context"].append("?"), "questions and answers in turn"),
    (lambda row: row["Context"].__setitem__(1, " "), r"`Context\[1\]` as a text"),
    (lambda row: row.update(Additional_answers=[{"Answer": " "}]), r"`Additional_answers\[0\].Answer` as a text"),
    (lambda row: row.update(Additional_answers=None), "`Additional_answers` as a list"),
    (lambda row: row["Gold_passage"].pop("id"), "line 3: expected `Gold_passage.id`"),
    (lambda row: row.update(Conversation_no=9), "conversations=4, tasks=11"),
])  # fmt: skip
def test_what_is_wrong_with_a_line_is_named(
    edit: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    rows = [json.loads(line) for line in (tmp_path / FILE).read_text("utf-8").splitlines()]
    edit(rows[2])
    (tmp_path / FILE).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match=message):
        open_benchmark("topiocqa", tmp_path)


# The suite.

BENCHMARK = open_benchmark("topiocqa", SAMPLE)


@pytest.mark.parametrize(("answer", "em", "f1"), [
    (lambda task: task.target, 72.7, 86.6),
    (lambda task: task.extra["answers"][-1], 72.7, 87.1),
    (lambda task: task.references[0].text.partition(".")[0], 0.0, 4.4),
])  # fmt: skip
def test_the_official_scores_are_those_of_the_official_script(
    answer: Callable[[Task], str], em: float, f1: float
) -> None:
    # `python evaluate_reader.py --data_file SAMPLE --results_file ANSWERS` of McGill-NLP/topiocqa at 49b710e.
    scores = [official_scores(answer(task), task.extra["answers"]) for task in BENCHMARK.tasks]
    assert [round(100 * fmean(column), 1) for column in zip(*scores, strict=True)] == [em, f1]


def test_each_answer_is_left_out_in_turn() -> None:
    assert official_scores("Pellin", ["Pellin", "in Tollgarth"]) == (0.5, 0.5)
    assert official_scores("Pellin", ["the Pellin."]) == (1, 1)
    assert official_scores("the", ["a"]) == (1, 1)  # both are empty after normalization
    assert official_scores("Pellin", ["a"]) == (0, 0)


def scored(task: Task, text: str) -> dict[str, float | None]:
    scorer = ResponseScorer(BENCHMARK, EvaluationConfig(encoder="none"))
    (result,) = scorer.score([ScoredAnswer(Response(task, task.references, text), "reference")])
    return dict(result.scores)


def test_the_best_of_several_answers_counts_beside_it() -> None:
    scores = scored(BENCHMARK.tasks[1], "It cost 61,000 crowns.")
    assert (scores["em_best"], scores["f1_best"], scores["rouge_l"]) == (1, 1, 1)
    assert scores["em"] == pytest.approx(2 / 3)


def test_the_label_is_a_refusal() -> None:
    task = next(task for task in BENCHMARK.tasks if task.target == "UNANSWERABLE")
    scores = scored(task, "UNANSWERABLE")
    assert (scores["em"], scores["f1"], scores["ans_acc"]) == (1, 1, 1)
    assert scored(BENCHMARK.tasks[0], "UNANSWERABLE")["ans_acc"] == 0
