"""Metrics of the papers that a user adds: what they ask, when they exist, and how they are conditioned."""

from __future__ import annotations

from pathlib import Path

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.metrics import IdkLabel, Semantics
from ragtasks.records import Answerability, IdkVerdict
from ragtasks.suites import ScoringInputs, suite_named
from tests.judges._scripted import ScriptedClient, obedient, response, verdicts_of

ADDED = ("rl_mtb", "rl_mtb_raw", "rl_r", "rl_r_raw", "context_precision", "context_recall", "extractiveness", "length")
SUITE = "+".join(["mtrag", *ADDED])


def inputs(tmp_path: Path, *, judged: bool) -> ScoringInputs:
    benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", tmp_path).resolve())
    responses = [response(), response("I do not know.", task_id="d<::>2", answerability=Answerability.UNANSWERABLE)]
    labels = [IdkLabel(IdkVerdict.NO, ""), IdkLabel(IdkVerdict.YES, "")]
    client = ScriptedClient(obedient(rating=3))
    verdicts = verdicts_of(responses, suite_named(SUITE).rubrics(), [client]) if judged else None
    return ScoringInputs(benchmark, responses, labels, Semantics(None, "none"), verdicts)


def test_judged_ones_exist_with_judges_only(tmp_path: Path) -> None:
    suite = suite_named(SUITE)
    assert [metric.name for metric in suite.metrics[-len(ADDED) :]] == list(ADDED)
    without, beside = (suite.score(inputs(tmp_path, judged=judged))[0] for judged in (False, True))
    assert set(ADDED) & set(without) == {"extractiveness", "length"}
    assert set(ADDED) <= set(beside)


def test_values_and_conditioning(tmp_path: Path) -> None:
    answered, refused = suite_named(SUITE).score(inputs(tmp_path, judged=True))
    assert {name: answered[name].value for name in ADDED[:6]} == {
        "rl_mtb": 0.3,
        "rl_mtb_raw": 0.3,
        "rl_r": 2 / 3,
        "rl_r_raw": 2 / 3,
        "context_precision": 1.0,
        "context_recall": 0.5,
    }
    assert answered["length"].value == len("The ferry runs from April.")
    assert (refused["rl_mtb"].value, refused["rl_mtb_raw"].value) == (1.0, 0.3)
    assert refused["context_precision"].value is None
    assert "only answerable" in refused["context_precision"].reason


def test_a_rubric_that_two_metrics_share_is_asked_once() -> None:
    names = [rubric.name for rubric in suite_named(SUITE).rubrics()]
    assert len(set(names)) == len(names)
    assert names[-4:] == ["rl_mtb", "rl_r", "context_precision", "context_recall"]
    assert [rubric.name for rubric in suite_named("mtrag+length").rubrics()] == names[:-4]
