"""The suite of INSCIT: the better of two labels, the official scores, and response types."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sacrebleu

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.config import EvaluationConfig, config_from_options
from ragtasks.metrics import IdkLabel
from ragtasks.records import Answerability, IdkVerdict, Passage, Response, Task
from ragtasks.results import ScoredAnswer
from ragtasks.scoring import ResponseScorer
from ragtasks.suites._inscit import inscit_bleu, response_type
from tests.clients._server import chat_server, completion
from tests.judges._demo import QUICK
from tests.judges._scripted import obedient

BENCHMARK = open_benchmark("inscit", benchmark_folder("inscit", "sample", Path()))
TASKS = {task.task_id: task for task in BENCHMARK.tasks}


def scored(task: Task, text: str, *passages: str) -> dict[str, float | None]:
    scorer = ResponseScorer(BENCHMARK, EvaluationConfig(encoder="none"))
    response = Response(task, tuple(Passage(name, "") for name in passages), text)
    (result,) = scorer.score([ScoredAnswer(response, "reference")])
    return dict(result.scores)


def test_each_score_is_the_better_of_two_labels() -> None:
    task = TASKS["island-02<::>3"]  # labelled `noAnswerNoRelevantInfo` first, then `noAnswerButRelevantInfo`
    refusal, near = task.variants
    assert (refusal.answerability, near.answerability) == (Answerability.UNANSWERABLE, Answerability.PARTIAL)
    by_refusing, by_telling = scored(task, refusal.target), scored(task, near.target)
    assert by_refusing["rouge_l"] == by_telling["rouge_l"] == 1
    assert by_refusing["token_f1"] == by_telling["token_f1"] == 1
    assert by_refusing["ans_acc"] == by_telling["ans_acc"] == 1
    assert by_refusing["response_type"] == 1
    single = replace(task, extra={**task.extra, "other_labels": []})
    assert scored(single, near.target)["rouge_l"] != 1


def test_the_order_of_two_labels_changes_no_score() -> None:
    task = TASKS["light-01<::>2"]
    first, second = task.variants
    swapped = replace(
        task,
        target=second.target,
        answerability=second.answerability,
        extra={**task.extra, "other_labels": [{"target": first.target, "answerability": first.answerability.value}]},
    )
    text = "It cost 61,000 crowns."
    assert scored(task, text) == scored(swapped, text)


def test_bleu_equals_sacrebleu_with_both_references_in_lower_case() -> None:
    pairs = [(task.variants[-1].target, tuple(variant.target for variant in task.variants)) for task in BENCHMARK.tasks]
    plain = [[" ".join(text.lower().split()) for text in (answer, *targets)] for answer, targets in pairs]
    streams = [[row[1] for row in plain], [row[-1] for row in plain]]
    expected = sacrebleu.corpus_bleu([row[0] for row in plain], streams).score
    assert inscit_bleu(pairs) == pytest.approx(expected)
    assert inscit_bleu(pairs) > inscit_bleu([(answer, targets[:1]) for answer, targets in pairs])


@pytest.mark.parametrize(("passages", "expected"), [
    ((), 0), (("Elsewhere:1",), 0), (("Ilse Varnhaken:0",), 1), (("Ilse Varnhaken:0", "Anselm Varnhaken:0"), 1),
    (("Ilse Varnhaken:0", "Elsewhere:1"), 2 / 3), (("Ilse Varnhaken:0", "Elsewhere:1", "Elsewhere:2"), 0.5),
])  # fmt: skip
def test_passage_f1_uses_the_better_label(passages: tuple[str, ...], expected: float) -> None:
    assert scored(TASKS["music-01<::>1"], "He wrote much.", *passages)["passage_f1"] == pytest.approx(expected)


def test_passages_are_wrong_for_a_label_without_any() -> None:
    assert scored(TASKS["bridge-02<::>2"], "Nobody knows.", "Elsewhere:1")["passage_f1"] == 0


def test_the_response_type_depends_on_words_and_ending() -> None:
    no, yes, partial = (IdkLabel(verdict, "") for verdict in (IdkVerdict.NO, IdkVerdict.YES, IdkVerdict.PARTIAL))
    assert response_type("Which one do you mean? ", no) is Answerability.UNDERSPECIFIED
    assert response_type("It is old.", no) is Answerability.ANSWERABLE
    assert response_type("I do not know.", yes) is Answerability.UNANSWERABLE
    assert response_type("Some of it I know.", partial) is Answerability.PARTIAL
    assert response_type("Das weiß ich nicht.", IdkLabel(None, "German")) is None


@pytest.mark.parametrize("verdict", ["yes", "no"])
def test_a_clarification_has_full_score_if_either_label_is_one(
    verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    judge = obedient(clarification=verdict, idk="no")
    both, first, second, neither = (
        TASKS[f"{name}<::>1"] for name in ("light-02", "island-02", "probe-01", "bridge-01")
    )
    tasks = (both, first, second, neither)
    with chat_server(lambda prompt, n: completion(judge(prompt, n))) as server:  # type: ignore[arg-type]
        judges = [{"model": "j", "base_url": server.base_url, **QUICK}]
        scorer = ResponseScorer(BENCHMARK, config_from_options({"data": "sample", "encoder": "none", "judges": judges}))
        answers = scorer.score(
            [ScoredAnswer(Response(task, (), "Which of the two do you have in mind?"), "reference") for task in tasks]
        )
    assert [answer.scores["response_type"] for answer in answers] == [1, 1, 1, 0]
    asks = verdict == "yes"
    rated = 0.3  # the judge's score of every reply
    expected = [float(asks), 1.0 if asks else rated, 1.0 if asks else rated, rated]
    assert [answer.scores["rb_llm"] for answer in answers] == pytest.approx(expected)
