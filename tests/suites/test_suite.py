"""Suites by name, and the words that their judges are asked in."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ragtasks.benchmarks.registry import benchmark_folder, benchmark_names, open_benchmark
from ragtasks.errors import ConfigurationError
from ragtasks.judges.faithfulness import RL_F
from ragtasks.suites.suite import Suite, suite_named, suite_names
from tests.judges.test_official_prompts import checkout

HAS_RAGAS = importlib.util.find_spec("ragas") is not None


def test_every_suite_has_metrics_with_names_of_their_own() -> None:
    assert "mtrag" in suite_names()
    for name in suite_names():
        names = [metric.name for metric in suite_named(name).metrics]
        assert names
        assert len(set(names)) == len(names)


def test_every_benchmark_names_a_suite_that_is_there(tmp_path: Path) -> None:
    for name in benchmark_names():
        benchmark = open_benchmark(name, benchmark_folder(name, "sample", tmp_path).resolve())
        assert benchmark.suite in suite_names()
        assert benchmark.is_sample


def test_an_unknown_suite_is_answered_with_close_matches() -> None:
    with pytest.raises(ConfigurationError, match="unknown suite 'mtrg': did you mean 'mtrag'"):
        suite_named("mtrg")


def test_our_words_have_a_fingerprint_that_moves_with_them() -> None:
    rubrics = suite_named("mtrag").rubrics()
    fingerprints = {rubric.fingerprint for rubric in rubrics}
    assert len(fingerprints) == len(rubrics)
    assert all(rubric.prompts for rubric in rubrics)


def test_official_words_are_refused_where_there_are_none(tmp_path: Path) -> None:
    suite = Suite(metrics=(), score=lambda _: [])
    assert list(suite.rubrics_in("ours", tmp_path)) == []
    with pytest.raises(ConfigurationError, match="no official judge prompts"):
        suite.rubrics_in("official", tmp_path)


def test_official_rl_f_is_by_ragas_where_it_is_installed(tmp_path: Path) -> None:
    """The official figure is ragas's; without the package our own words stand in, and the results say so."""
    found = {rubric.name: rubric for rubric in suite_named("mtrag").rubrics_in("official", checkout(tmp_path))}
    assert list(found) == ["rb_llm", "idk", "clarification", RL_F]
    assert ("by ragas" in found[RL_F].description) is HAS_RAGAS
    assert all("by the official prompt" in found[name].description for name in ("rb_llm", "idk", "clarification"))
