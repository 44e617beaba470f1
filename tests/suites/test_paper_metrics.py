"""Optional metrics of the papers: rubrics, availability and conditioning."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_judged_metrics_exist_only_with_judges(tmp_path: Path) -> None:
    suite = suite_named(SUITE)
    assert [metric.name for metric in suite.metrics[-len(ADDED) :]] == list(ADDED)
    unjudged_scores, judged_scores = (suite.score(inputs(tmp_path, judged=judged))[0] for judged in (False, True))
    assert set(ADDED) & set(unjudged_scores) == {"extractiveness", "length"}
    assert set(ADDED) <= set(judged_scores)


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


def test_a_shared_rubric_is_judged_once() -> None:
    names = [rubric.name for rubric in suite_named(SUITE).rubrics()]
    assert len(set(names)) == len(names)
    assert names[-4:] == ["rl_mtb", "rl_r", "context_precision", "context_recall"]
    assert [rubric.name for rubric in suite_named("mtrag+length").rubrics()] == names[:-4]


CITED = ("support_precision", "support_recall", "cited_precision", "cited_recall")


@pytest.mark.parametrize("name", ["mtrag", "rows"])
def test_citation_support_is_judged_for_any_citation_form(name: str, tmp_path: Path) -> None:
    suite = suite_named("+".join([name, *CITED]))
    passages = ["The ferry of Lindvik runs from April to October.", "It rests in May."]
    answers = ["The ferry runs from April (doc 1). It is blue. It rests in May.[^2]", "It runs [7].", "It runs."]
    responses = [response(text, passages=passages) for text in answers]
    verdicts = verdicts_of(responses, suite.rubrics(), [ScriptedClient(obedient(idk="partial"))])
    labels = [IdkLabel(IdkVerdict.NO, "")] * len(answers)
    benchmark = inputs(tmp_path, judged=False).benchmark
    computed = suite.score(ScoringInputs(benchmark, responses, labels, Semantics(None, "none"), verdicts))
    assert {metric: [scores[metric].value for scores in computed] for metric in CITED} == {
        "support_precision": [0.5, None, None],
        "support_recall": [pytest.approx(1 / 3), 0, 0],
        "cited_precision": [1.0, 0, None],
        "cited_recall": [pytest.approx(2 / 3), 0, 0],
    }
