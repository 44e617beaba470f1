"""Scores of responses without any judge, of failed requests, and of tasks with several labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ragtasks
from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.clients import Usage
from ragtasks.config import EvaluationConfig, config_from_options
from ragtasks.config.environment import card_folder
from ragtasks.errors import ConfigurationError, MissingExtraError
from ragtasks.judges import IDK, CardRow, JudgeCard, Verdict, VerdictOutcome, Verdicts, store_card
from ragtasks.metrics import NgramIdk
from ragtasks.records import Answerability, IdkVerdict, Response, Score
from ragtasks.results import ScoredAnswer
from ragtasks.scoring import ResponseScorer, _encoding, given_metrics, take_failures
from ragtasks.scoring._refusals import Refusals
from ragtasks.scoring._scoring import best_scores
from ragtasks.suites import suite_named
from tests.clients._server import chat_server, refusal
from tests.judges._demo import QUICK

BENCHMARK = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()))
TASKS = [task for task in BENCHMARK.tasks if task.answerability is Answerability.ANSWERABLE][:4]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    take_failures()


def scorer(**options: Any) -> ResponseScorer:
    return ResponseScorer(BENCHMARK, config_from_options({"data": "sample", "encoder": "none", **options}))


def answer(text: str, task: int = 0, **more: Any) -> ScoredAnswer:
    return ScoredAnswer(Response(TASKS[task], (), text, **more), "reference")


def test_each_response_has_its_own_scores_and_a_failed_request_has_none() -> None:
    answers = [
        answer(TASKS[0].target),
        answer("", 1, no_answer="HTTP 500"),
        answer("I do not know.", 2),
    ]
    first, failed, refused = scorer().score(answers)
    assert (first.scores["rouge_l"], first.scores["ans_acc"]) == (1, 1)
    assert (refused.scores["ans_acc"], refused.idk) == (0, "yes")
    assert failed.scores.keys() == first.scores.keys()
    assert {name: score for name, score in failed.scores.items() if score is not None} == {"coverage": 0.0}
    assert (failed.idk, failed.idk_reason) == (None, "no answer: HTTP 500")
    assert failed.unscored == dict.fromkeys(failed.scores.keys() - {"coverage"}, "no answer: HTTP 500")
    assert first.verdicts == ()
    assert first.unscored["rb_alg"] == "encoder: none"
    assert scorer().score([]) == []


def test_without_judges_no_score_needs_one() -> None:
    (found,) = scorer().score([answer("x")])
    config = config_from_options({"encoder": "none"})
    metrics = [metric for metric in suite_named("mtrag").metrics if metric.aggregate is None]
    assert set(found.scores) == set(given_metrics(metrics, config))
    assert not any(metric.name in found.scores for metric in metrics if metric.needs_judges)
    judged = config_from_options({"encoder": "none", "judges": ["openai/j"]})
    assert {"rb_llm", "judge_coverage"} <= set(given_metrics(metrics, judged))


def test_a_default_encoder_may_be_missing_and_a_configured_one_may_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(*_: Any) -> None:
        raise MissingExtraError("torch", "torch", "BERTScore")

    monkeypatch.setattr(_encoding, "check_encoder", missing)
    monkeypatch.setattr(_encoding, "_shared_bert", _encoding._shared_bert.__wrapped__)
    unnamed = scorer(encoder=None)
    (found,) = unnamed.score([answer(TASKS[0].target)])
    assert found.unscored["rb_alg"] == f"encoder {unnamed.encoding.name} is not available"
    assert found.scores["rouge_l"] == 1
    assert unnamed.provenance()["encoder"] == "none"
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("BERTScore and rb_alg will be unscored. ")
    with pytest.raises(MissingExtraError):
        scorer(encoder=unnamed.encoding.name)


def test_without_a_reachable_judge_only_its_scores_are_missing() -> None:
    with chat_server(lambda *_: refusal(401)) as server:
        judge = {"model": "j", "base_url": server.base_url, **QUICK}
        (found,) = scorer(judges=[judge]).score([answer(TASKS[0].target)])
    assert (found.scores["rb_llm"], found.unscored["rb_llm"]) == (None, "no judge could be reached")
    assert found.scores["judge_coverage"] == 0
    assert found.scores["rouge_l"] == 1
    (problem,) = take_failures()
    assert problem.startswith("judging failed: ")
    assert "does not accept the key" in problem


def test_a_failing_part_of_the_scoring_is_unscored_and_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(NgramIdk, "detect", broken)
    (found,) = scorer().score([answer("x")])
    assert set(found.scores.values()) == {None}
    (problem,) = take_failures()
    assert "ZeroDivisionError" in problem


def test_provenance_lists_the_components_of_the_scores() -> None:
    found = scorer(max_words=5)
    found.score([answer("x")])
    text = found.provenance()
    assert (text["encoder"], text["rescaled"], text["judges"], text["judge_prompts"]) == ("none", False, "", None)
    assert text["idk_detector"] == NgramIdk().name
    assert (text["rubrics"], text["n_texts"], text["n_truncated"]) == ({}, 0, 0)
    assert text["scored_by"] == f"ragtasks {ragtasks.__version__}"  # answers may be older, and from another version
    assert not {"encoder_engine", "judge_cards", "anchors", "repeats", "retriever"} & text.keys()


def test_provenance_names_the_encoder_and_counts_truncated_texts(caplog: pytest.LogCaptureFixture) -> None:
    found = scorer(encoder="minilm")
    long = "word and " * 600
    found.score([answer("x"), answer(long, 1)])
    text = found.provenance()
    assert (text["encoder"], text["rescaled"], text["n_truncated"]) == ("minilm", False, 1)
    assert text["n_texts"] > 2
    assert text["encoder_engine"]
    assert f"1 of {text['n_texts']} texts are longer than the encoder reads" in caplog.messages


def refusals(judges: str) -> Refusals:
    return Refusals(suite_named("mtrag"), EvaluationConfig(), judges)


def test_the_rules_replace_a_judge_without_an_idk_verdict_and_give_the_reason() -> None:
    responses = [Response(TASKS[0], (), "I do not know."), Response(TASKS[1], (), "From April.")]
    table = {
        (0, IDK, "j"): Verdict("a", IDK, "j", VerdictOutcome.UNPARSABLE, reason="no verdict in it"),
        (1, IDK, "j"): Verdict("b", IDK, "j", VerdictOutcome.GIVEN, value=1.0, label="yes"),
    }
    verdicts = Verdicts(responses, [IDK], ["j"], table, {"j": Usage()})
    judged = refusals("j")
    labels = judged.score(responses, verdicts)
    assert judged.provenance() == {"idk_detector": "judge j", "idk_by_stand_in": 1}
    assert labels[0].verdict is IdkVerdict.YES
    assert labels[0].reason.startswith("ngrams-2 instead of a judge (")
    assert "no verdict in it" in labels[0].reason
    assert labels[0].reason.endswith(": i do not know.")
    assert "stand in" not in labels[1].reason
    alone = refusals("j")
    assert alone.score(responses, None) == NgramIdk().detect(responses)
    assert alone.provenance() == {"idk_detector": NgramIdk().name}


def test_results_contain_the_cards_of_their_judges() -> None:
    card = JudgeCard(
        "local", "2026-01-01T00:00:00", "made", rubric_words("rl_f"), (CardRow("rl_f", "alpha", 0.5, n=9),)
    )
    card_folder().mkdir(parents=True)
    refusals_card = replace(card, rubrics=rubric_words("idk"), time="2026-01-02T00:00:00")
    for stored in (card, refusals_card, replace(card, time="2025-01-01T00:00:00"), replace(card, judge="another")):
        store_card(card_folder(), stored)
    text = scorer(judges=[{"model": "local", "base_url": "http://127.0.0.1:9"}]).provenance()
    by_time = sorted(text["judge_cards"], key=lambda saved: saved["time"])
    assert by_time == [card.json_values, refusals_card.json_values], "the newest card of each rubric"


def rubric_words(name: str) -> dict[str, str]:
    (rubric,) = (rubric for rubric in suite_named("mtrag").rubrics() if rubric.name == name)
    return {name: rubric.fingerprint}


def metric(name: str, *, higher: bool | None) -> Any:
    return SimpleNamespace(name=name, higher_is_better=higher, bounds=(0.0, 1.0))


@pytest.mark.parametrize(
    ("higher", "first", "second", "best"),
    [
        (True, 0.2, 0.5, 0.5),
        (True, 0.5, 0.2, 0.5),
        (True, 0.5, 0.5, 0.5),
        (False, 0.2, 0.5, 0.2),
        (False, 0.5, 0.2, 0.2),
        (None, 0.2, 0.5, 0.2),
        (True, None, 0.5, 0.5),
        (False, None, 0.5, 0.5),
        (True, 0.5, None, 0.5),
        (True, None, None, None),
    ],
)
def test_the_best_score_over_several_labels_of_a_task_counts(
    higher: bool | None, first: float | None, second: float | None, best: float | None
) -> None:
    suite: Any = SimpleNamespace(metrics=[metric("m", higher=higher), metric("n", higher=True)], score=list)
    rows: Any = [[{"m": Score(first), "n": Score(0.1)}], [{"m": Score(second)}], [{"m": Score(None)}]]
    (found,) = best_scores(suite, rows)
    assert found == {"m": Score(best), "n": Score(0.1)}


@pytest.mark.parametrize("value", [5.0, -0.1, float("nan"), float("inf"), float("-inf")])
def test_a_value_outside_a_metrics_bounds_is_unscored_with_a_reason(value: float) -> None:
    suite: Any = SimpleNamespace(metrics=[metric("m", higher=True)], score=list)
    rows: Any = [[{"m": Score(value)}, {"m": Score(1.0 + 1e-9)}, {"m": Score(None, "why")}]]
    first, rounded, unscored = best_scores(suite, rows)
    assert first == {"m": Score(None, f"the metric gave {value:g}, outside its bounds 0 to 1")}
    assert (rounded, unscored) == ({"m": Score(1.0 + 1e-9)}, {"m": Score(None, "why")})


def test_without_judges_the_rules_detect_refusals() -> None:
    responses = [Response(TASKS[0], (), "I do not know."), Response(TASKS[1], (), "It is blue.")]
    alone = refusals("")
    assert [label.verdict for label in alone.score(responses, None)] == [IdkVerdict.YES, IdkVerdict.NO]
    assert alone.provenance() == {"idk_detector": NgramIdk().name}


def test_a_judge_of_this_process_needs_a_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    local = {"lm_eval": "hf", "model_args": {"pretrained": "x"}}
    with pytest.raises(
        ConfigurationError, match="judges: hf/x is a model of this process, which this command cannot load"
    ):
        scorer(judges=[local])
    config = config_from_options({"data": "sample", "encoder": "none", "judges": [local]})
    loaded: list[Any] = []
    ResponseScorer(BENCHMARK, config, local_judge=lambda judge: loaded.append(judge.model))  # type: ignore[arg-type,return-value]
    assert loaded == ["hf/x"]
    endpoint = {"model": "j", "base_url": "http://h", "api_key_env": "NOT_SET"}
    with pytest.raises(ConfigurationError, match="NOT_SET, which is not set"):
        scorer(judges=[endpoint])
    monkeypatch.setenv("NOT_SET", "a-key-of-a-test")
    assert scorer(judges=[endpoint]).provenance()["judges"] == "j"
