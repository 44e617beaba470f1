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
KINDS = ("cited_right", "cited_other_passage", "cited_unsupported", "cited_never_shown", "cited_missing")


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


@pytest.mark.parametrize(
    ("label", "shares"),
    [
        # By words: the right passage, another one, an unknown number, and two statements without a citation.
        (None, (1 / 3, 1 / 3, 0, 1 / 3, 0.4)),
        # Judges label the first citations [1] and [2]. Words decide on the passage that supports a sentence instead.
        ("full", (2 / 3, 0, 0, 1 / 3, 0.4)),
        ("no", (0, 1 / 3, 1 / 3, 1 / 3, 0.4)),
    ],
)
def test_labels_of_judges_decide_whether_a_passage_is_right(
    label: str | None, shares: tuple[float, ...], tmp_path: Path
) -> None:
    judged = [] if label is None else ["support_precision"]
    suite = suite_named("+".join(["rows", *judged, *KINDS, "n_citations", "n_statements"]))
    passages = ["The ferry of Lindvik runs from April to October.", "It rests in May."]
    text = (
        "The ferry runs from April [1]. The ferry of Lindvik runs to October [2]. It rests in May [7]. "
        "The blue ferry carries forty cars. Tickets cost nine crowns. Which ferry do you mean?"
    )
    answers = [response(text, passages=passages)]
    verdicts = verdicts_of(answers, suite.rubrics(), [ScriptedClient(obedient(idk=label))]) if label else None
    labels = [IdkLabel(IdkVerdict.NO, "")]
    benchmark = inputs(tmp_path, judged=False).benchmark
    (scores,) = suite.score(ScoringInputs(benchmark, answers, labels, Semantics(None, "none"), verdicts))
    assert [scores[name].value for name in KINDS] == pytest.approx(shares)
    assert (scores["n_citations"].value, scores["n_statements"].value) == (3, 5)
