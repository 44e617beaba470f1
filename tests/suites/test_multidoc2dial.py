"""The suite of MultiDoc2Dial with scores computed by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark
from ragtasks.benchmarks.doc2dial import read_dialogues, read_documents, tasks_of
from ragtasks.config import EvaluationConfig
from ragtasks.metrics import IdkLabel, NgramIdk, Scores, Semantics, SemanticScore
from ragtasks.metrics.lexical import open_wordnet
from ragtasks.records import Answerability, IdkVerdict, Response, Task
from ragtasks.results import ScoredAnswer
from ragtasks.scoring import ResponseScorer
from ragtasks.suites import ScoringInputs
from ragtasks.suites._multidoc2dial import (
    CANNOT_ANSWER,
    LEFT_OUT,
    METRICS,
    REFERENCE_REFUSALS,
    is_token,
    refusal_label,
    score,
)
from tests.conftest import REAL_DATA

BENCHMARK = open_benchmark("multidoc2dial", benchmark_folder("multidoc2dial", "sample", Path()).resolve())
NAMES = [metric.name for metric in METRICS]
NO = IdkLabel(IdkVerdict.NO, "")


def task_with(answerability: Answerability) -> Task:
    return next(task for task in BENCHMARK.tasks if task.answerability is answerability)


def scores_of(text: str, answerability: Answerability, semantics: Semantics | None = None) -> Scores:
    response = Response(task_with(answerability), (), text)
    found = semantics or Semantics([SemanticScore(0.5, 0.25, None)])
    (scores,) = score(ScoringInputs(BENCHMARK, [response], NgramIdk().detect([response]), found))
    return scores


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (CANNOT_ANSWER, IdkVerdict.YES),
        (" <CANNOT_ANSWER>.\n", IdkVerdict.YES),
        ('"<cannot_answer>"', IdkVerdict.YES),
        ("The fee is 34 marks. <cannot_answer>", IdkVerdict.PARTIAL),
        ("cannot_answer", IdkVerdict.NO),
        ("", IdkVerdict.NO),
    ],
)
def test_the_token_alone_is_a_refusal(text: str, verdict: IdkVerdict) -> None:
    assert refusal_label(text, NO).verdict is verdict
    assert is_token(text) == (verdict is IdkVerdict.YES)
    refused = IdkLabel(IdkVerdict.YES, "in words")
    assert refusal_label("I cannot say", refused) is refused


def test_a_right_answer_and_a_refusal_of_an_answerable_question() -> None:
    target = task_with(Answerability.ANSWERABLE).target
    right, refused = (scores_of(text, Answerability.ANSWERABLE) for text in (target, CANNOT_ANSWER))
    assert list(right) == list(refused) == NAMES
    assert right["token_f1"].value == right["rouge_l"].value == right["ans_acc"].value == 1
    assert right["sentence_bleu"].value == pytest.approx(100)
    assert right["bert_f1"].value == pytest.approx(2 * 0.5 * 0.25 / 0.75)
    assert (refused["ans_acc"].value, refused["cannot_answer"].value, refused["idk_yes"].value) == (0, 1, 1)
    assert refused["token_f1"].value == 0


def test_unanswerable_questions_count_only_for_refusals() -> None:
    refused, answered = (scores_of(text, Answerability.UNANSWERABLE) for text in (CANNOT_ANSWER, "34 marks."))
    assert (refused["ans_acc"].value, answered["ans_acc"].value) == (1, 0)
    for scores in (refused, answered):
        assert {name for name, score in scores.items() if score.reason == LEFT_OUT} == {
            "sacrebleu", "sentence_bleu", "meteor", "rouge_l", "token_f1", "bert_f1", "bert_precision", "bert_recall",
            "coverage",
        }  # fmt: skip


def test_missing_scores_have_a_reason() -> None:
    scores = scores_of("34 marks.", Answerability.ANSWERABLE, Semantics(None, "encoder: none"))
    assert (scores["bert_f1"].value, scores["bert_f1"].reason) == (None, "encoder: none")
    assert scores["coverage"].value == 0
    assert (scores["meteor"].value is None) == (open_wordnet() is None)


@pytest.mark.parametrize("split", ["train", "validation"])
def test_the_oracle_refuses_like_the_real_data(tmp_path: Path, split: str) -> None:
    pieces = REAL_DATA / "multidoc2dial"
    if not pieces.is_dir():
        pytest.skip(f"no real MultiDoc2Dial data at {pieces}")
    documents = read_documents(pieces, "multidoc2dial_doc_small.json")
    content = json.loads((pieces / f"multidoc2dial_dial_small_{split}.json").read_bytes())
    # The sample has only three documents, but its dialogues also refer to others.
    for turn in (turn for domain in content["dial_data"].values() for row in domain for turn in row["turns"]):
        turn["references"] = [reference for reference in turn["references"] if reference["doc_id"] in documents]
    (tmp_path / "dialogues.json").write_text(json.dumps(content), encoding="utf-8")
    tasks = tasks_of(read_dialogues(tmp_path, "dialogues.json", documents), documents, None)
    assert_oracle_is_right(replace(BENCHMARK, tasks=tasks))


@pytest.mark.parametrize("name", ["multidoc2dial", "doc2dial"])
def test_the_oracle_refuses_like_the_sample(name: str) -> None:
    assert_oracle_is_right(open_benchmark(name, benchmark_folder(name, "sample", Path()).resolve()))


def assert_oracle_is_right(benchmark: Benchmark) -> None:
    scorer = ResponseScorer(benchmark, EvaluationConfig(encoder="none"))
    answers = scorer.score([ScoredAnswer(Response(task, (), task.target), "reference") for task in benchmark.tasks])
    refusing = {task.target for task in benchmark.tasks if task.answerability is Answerability.UNANSWERABLE}
    assert refusing == set(REFERENCE_REFUSALS)
    right = [row.scores["ans_acc"] for row in answers]
    assert right.count(1) >= 0.96 * len(right)  # one reply is "Nothing at all."
