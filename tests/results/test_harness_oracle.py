"""Means and standard errors of lm_eval tasks of others, computed independently from the lines of their samples.

The formulas are those of the harness, written from their definitions: the sample standard deviation over the root of n
for a mean, the pooled variance of tasks for a group by size, and the error of a mean of independent means for a group
of equal weights.
"""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest

from ragtasks.reports.harness_comparison import harness_column
from ragtasks.results import read_harness_tasks
from ragtasks.statistics import Estimate, mean_columns
from tests._evaluations import results_file

MODELS = ("weak", "strong")


def logged(folder: Path, task: str, metric: str, filter_name: str = "none") -> list[Any]:
    (file,) = folder.rglob(f"samples_{task}_2*.jsonl")
    rows = map(json.loads, file.read_text().splitlines())
    return [row[metric] for row in rows if row["filter"] == filter_name]


def estimates(folder: Path) -> dict[tuple[str, str], Estimate]:
    return {
        (task.name, metric.name): mean_columns([harness_column(task, metric, task.name)])[0].estimate
        for task in read_harness_tasks([folder])
        for metric in task.metrics.values()
        if not metric.refused
    }


def error_of(values: list[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))


@pytest.mark.parametrize("model", MODELS)
def test_a_mean_has_the_standard_error_of_independent_documents(harness_results: Path, model: str) -> None:
    found = estimates(harness_results / model)
    for task, metric, filter_name in (
        ("local_choices", "acc", "none"),
        ("local_checks", "acc", "none"),
        ("local_sums", "exact_match", "strict-match"),
        ("local_repeats", "exact_match", "maj@5"),
        ("local_lengths", "n_letters", "none"),
    ):
        values = [float(value) for value in logged(harness_results / model, task, metric, filter_name)]
        estimate = found[task, metric if filter_name == "none" else f"{metric},{filter_name}"]
        assert estimate.value == pytest.approx(statistics.fmean(values), rel=1e-14)
        assert estimate.standard_error == pytest.approx(error_of(values), rel=1e-12)
        assert estimate.independent_error == pytest.approx(error_of(values), rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_a_group_by_size_pools_the_variance_of_its_tasks(harness_results: Path, model: str) -> None:
    values = [logged(harness_results / model, task, "acc") for task in ("local_choices", "local_checks")]
    n = sum(map(len, values))
    assert len(values[0]) != len(values[1])
    pooled = sum((len(part) - 1) * statistics.variance(part) for part in values) / (n - len(values))
    estimate = estimates(harness_results / model)["local_by_size", "acc"]
    assert estimate.value == pytest.approx(sum(map(sum, values)) / n, rel=1e-14)
    assert estimate.standard_error == pytest.approx(math.sqrt(pooled / n), rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_a_group_of_equal_weights_is_a_mean_of_independent_means(harness_results: Path, model: str) -> None:
    tasks = ("local_sums", "local_claims")
    for filter_name in ("strict-match", "flexible-extract"):
        values = [logged(harness_results / model, task, "exact_match", filter_name) for task in tasks]
        estimate = estimates(harness_results / model)["local_by_task", f"exact_match,{filter_name}"]
        assert estimate.value == pytest.approx(statistics.fmean(map(statistics.fmean, values)), rel=1e-14)
        error = math.hypot(*map(error_of, values)) / len(tasks)
        assert estimate.standard_error == pytest.approx(error, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_rolling_likelihoods_are_ratios_of_sums(harness_results: Path, model: str) -> None:
    found = estimates(harness_results / model)
    for metric in ("bits_per_byte", "byte_perplexity", "word_perplexity"):
        pairs = logged(harness_results / model, "local_pages", metric)
        ratio = -math.fsum(total for total, _ in pairs) / math.fsum(weight for _, weight in pairs)
        expected = ratio / math.log(2) if metric == "bits_per_byte" else math.exp(ratio)
        assert found["local_pages", metric].value == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("model", MODELS)
def test_every_mean_is_the_number_of_the_results_file(harness_results: Path, model: str) -> None:
    reported = json.loads(results_file(harness_results / model).read_text())["results"]
    for (task, metric), estimate in estimates(harness_results / model).items():
        value = reported[task][metric if "," in metric else f"{metric},none"]
        assert estimate.value == pytest.approx(value, rel=1e-14)
