"""Suites by name, and the judge prompts of their rubrics."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, benchmark_names, open_benchmark
from ragtasks.config import config_from_metadata
from ragtasks.errors import ConfigurationError
from ragtasks.metrics import IdkLabel, Semantics
from ragtasks.records import Answerability, IdkVerdict, Score
from ragtasks.scoring import given_metrics
from ragtasks.suites import ScoringInputs, Suite, suite_named
from ragtasks.suites._suite import SUITES
from tests._messages import raises
from tests.judges._scripted import ScriptedClient, response, verdicts_of

JUDGED = ["rb_llm", "idk"]


@pytest.fixture
def sample(tmp_path: Path) -> Benchmark:
    return open_benchmark("mtrag", benchmark_folder("mtrag", "sample", tmp_path).resolve())


def test_every_suite_has_unique_metric_names() -> None:
    assert "mtrag" in SUITES.names()
    for name in SUITES.names():
        names = [metric.name for metric in suite_named(name).metrics]
        assert names
        assert len(set(names)) == len(names)


def test_every_benchmark_names_an_existing_suite(tmp_path: Path) -> None:
    for name in benchmark_names():
        benchmark = open_benchmark(name, benchmark_folder(name, "sample", tmp_path).resolve())
        assert benchmark.suite in SUITES.names()
        assert benchmark.is_sample


def test_an_unknown_suite_lists_close_matches() -> None:
    with raises(ConfigurationError):
        suite_named("mtrg")


def test_our_prompts_have_a_fingerprint_of_their_text() -> None:
    rubrics = suite_named("mtrag").rubrics()
    fingerprints = {rubric.fingerprint for rubric in rubrics}
    assert len(fingerprints) == len(rubrics)
    assert all(rubric.prompts for rubric in rubrics)


def test_official_prompts_are_rejected_if_there_are_none(sample: Benchmark) -> None:
    suite = Suite(metrics=(), score=lambda _: [])
    assert list(suite.rubrics_in("ours", sample)) == []
    with raises(ConfigurationError):
        suite.rubrics_in("official", sample)


def test_official_prompts_are_rejected_if_files_are_missing(sample: Benchmark) -> None:
    with raises(ConfigurationError):
        suite_named("mtrag").rubrics_in("official", sample)


@pytest.mark.ragas
@pytest.mark.parametrize(("name", "asked"), [("mtrag", JUDGED), ("mtrag_un", [*JUDGED, "clarification"])])
def test_clarification_is_judged_only_for_benchmarks_that_need_it(
    tmp_path: Path, mtrag_checkout: Path, name: str, asked: list[str]
) -> None:
    sample = open_benchmark(name, benchmark_folder(name, "sample", tmp_path).resolve())
    names = [
        rubric.name for rubric in suite_named("mtrag").rubrics_in("official", replace(sample, root=mtrag_checkout))
    ]
    assert names == [*(f"{rubric}{end}" for rubric in asked for end in ("", "_ibm")), "rl_f"]


def test_without_ragas_all_official_prompts_except_rl_f_are_used(
    sample: Benchmark, mtrag_checkout: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "ragas.metrics._faithfulness", None)
    suite, benchmark = suite_named("mtrag"), replace(sample, root=mtrag_checkout)
    rubrics = suite.rubrics_in("official", benchmark)
    (warning,) = caplog.messages
    assert warning.startswith("rl_f and rl_f_ibm will be unscored; the other official prompts are used.")
    assert "pip install 'ragtasks[ragas]'" in warning
    answers = [response("I do not know.", answerability=answerability) for answerability in Answerability]
    verdicts = verdicts_of(answers, rubrics, [ScriptedClient(lambda _prompt, _n_before: "Yes. Rating: [[7]]")])
    labels = [IdkLabel(IdkVerdict.YES, "a refusal")] * len(answers)
    scores = suite.score(ScoringInputs(benchmark, answers, labels, Semantics(None, "encoder: none"), verdicts))
    for row in scores:
        assert row["judge_coverage"] == Score(1.0)
        assert row["rb_llm_ibm"].value is not None
        for name in ("rl_f", "rl_f_raw", "rl_f_ibm"):
            assert row[name].value is None
            assert "ragas, which is not installed" in row[name].reason
    assert scores[0]["rb_llm_raw"] == Score(0.7)


@pytest.mark.parametrize(
    ("metadata", "given"),
    [
        ({}, set()),
        ({"judges": ["openai/any"]}, {"rb_llm", "rl_f"}),
        ({"judges": ["openai/any"], "prompts": "official"}, {"rb_llm", "rl_f", "rb_llm_ibm", "rl_f_ibm"}),
    ],
)
def test_columns_of_the_ibm_profile_need_judges_and_official_prompts(metadata: dict[str, Any], given: set[str]) -> None:
    names = given_metrics(suite_named("mtrag").metrics, config_from_metadata(metadata))
    assert {"rb_llm", "rl_f", "rb_llm_ibm", "rl_f_ibm"} & set(names) == given
