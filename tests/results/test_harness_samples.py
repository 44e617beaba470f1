"""Logged samples of lm_eval tasks of others: values of documents, checked against the harness's own numbers."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtasks.errors import BenchmarkFileError
from ragtasks.results import HarnessMetric, TaskResults, read_harness_tasks
from ragtasks.statistics import Estimate, estimate_mean, estimate_ratio
from tests._evaluations import results_file
from tests._harness_tasks import BEFORE_0_4_13
from tests._messages import raises

REFUSED = {
    ("local_checks", "f1"),
    ("local_choices", "mcc"),
    ("local_lengths", "middle"),
}


def tasks_in(folder: Path, cluster: str = "") -> dict[str, TaskResults]:
    return {task.name: task for task in read_harness_tasks([folder], cluster=cluster)}


def estimate_of(task: TaskResults, metric: HarnessMetric) -> Estimate:
    clusters = [task.documents[item].cluster for item in metric.values]
    return estimate_mean(list(metric.values.values()), clusters, metric.bounds)


@pytest.mark.parametrize("model", ["weak", "strong"])
def test_means_and_standard_errors_equal_those_of_the_harness(harness_results: Path, model: str) -> None:
    results = json.loads(results_file(harness_results / model).read_text())["results"]
    tasks = tasks_in(harness_results / model)
    assert tasks.keys() == results.keys()
    found = {
        (name, f"{metric.name}" if "," in metric.name else f"{metric.name},none"): (task, metric)
        for name, task in tasks.items()
        for metric in task.metrics.values()
    }
    reported = {
        (name, key): value
        for name, numbers in results.items()
        for key, value in numbers.items()
        if "," in key and "_stderr," not in key
    }
    assert found.keys() == reported.keys()
    for (name, key), (task, metric) in found.items():
        assert metric.reported == reported[name, key]
        if (name, metric.name) in REFUSED:
            assert metric.refused
            assert not metric.values
            continue
        estimate = estimate_of(task, metric)
        assert not metric.refused
        assert estimate.value == pytest.approx(metric.reported, rel=1e-14)
        error = results[name][key.replace(",", "_stderr,", 1)]
        if metric.aggregation in {"mean", ""}:
            if not (BEFORE_0_4_13 and name == "local_by_task"):
                assert estimate.standard_error == pytest.approx(error, rel=1e-12)
            assert metric.reported_error == error


def test_groups_are_weighted_as_the_harness_weights_them(harness_results: Path) -> None:
    tasks = tasks_in(harness_results / "weak")
    weights = {name: {metric.by_size for metric in task.metrics.values()} for name, task in tasks.items()}
    groups = {name: found for name, found in weights.items() if found != {None}}
    assert groups == {"local_by_size": {True}, "local_by_task": {False}, "local_all": {True}}
    assert tasks["local_all"].members == ("local_choices", "local_checks", "local_endings")
    assert len(tasks["local_all"].documents) == 94


def test_bits_per_byte_agree_with_the_ratio_of_sums(harness_results: Path) -> None:
    task = tasks_in(harness_results / "weak")["local_pages"]
    (file,) = (harness_results / "weak").rglob("samples_local_pages_*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    bits = [-row["bits_per_byte"][0] / math.log(2) for row in rows]
    n_bytes = [row["bits_per_byte"][1] for row in rows]
    names = [row["doc_hash"] for row in rows]
    ratio = estimate_ratio(bits, n_bytes, names)
    estimate = estimate_of(task, task.metrics["bits_per_byte"])
    assert ratio.value is not None
    assert estimate.value == pytest.approx(ratio.value, rel=1e-14)
    # The test of a ratio at the estimate: the mean of `bits - ratio * bytes` is 0.
    gaps = [bit - ratio.value * n for bit, n in zip(bits, n_bytes, strict=True)]
    of_gaps = estimate_mean(gaps, names)
    assert of_gaps.low is not None
    assert of_gaps.high is not None
    assert of_gaps.standard_error is not None
    ends = [ratio.value + end / np.mean(n_bytes) for end in (of_gaps.low, of_gaps.high)]
    assert [estimate.low, estimate.high] == pytest.approx(ends, rel=1e-9)
    assert estimate.standard_error == pytest.approx(of_gaps.standard_error / np.mean(n_bytes), rel=1e-9)


def test_the_error_of_a_perplexity_is_that_of_a_jackknife(harness_results: Path) -> None:
    task = tasks_in(harness_results / "weak")["local_endings"]
    metric = task.metrics["perplexity"]
    (file,) = (harness_results / "weak").rglob("samples_local_endings_*.jsonl")
    logs = np.array([json.loads(line)["perplexity"] for line in file.read_text().splitlines()])
    without = np.exp(-(logs.sum() - logs) / (len(logs) - 1))
    jackknife = math.sqrt((len(logs) - 1) * np.var(without))
    assert estimate_of(task, metric).standard_error == pytest.approx(jackknife, rel=0.05)


def test_documents_of_a_field_are_a_cluster(harness_results: Path, tmp_path: Path) -> None:
    folder = only(harness_results, tmp_path, "local_sums")
    task = tasks_in(folder, "doc.story")["local_sums"]
    clustered = estimate_of(task, task.metrics["exact_match,strict-match"])
    assert (clustered.n_values, clustered.n_clusters) == (46, 15)
    assert clustered.standard_error != pytest.approx(clustered.independent_error, rel=1e-3)
    nested = tasks_in(only(harness_results, tmp_path / "nested", "local_pages"), "doc.source.book")["local_pages"]
    assert len({document.cluster for document in nested.documents.values()}) == 12
    with raises(BenchmarkFileError):
        tasks_in(folder, "doc.storey")
    edit(folder, lambda rows: [row["doc"].update({"story.id": row["doc"]["story"]}) for row in rows])
    assert tasks_in(folder, "doc.story.id")["local_sums"].documents == task.documents


# Files of earlier versions, and damaged ones.


def only(results: Path, folder: Path, *tasks: str) -> Path:
    """Copy the results of a model with some of their tasks."""
    source = results_file(results / "strong")
    content = json.loads(source.read_text())
    content["configs"] = {name: config for name, config in content["configs"].items() if name in tasks}
    target = folder / "copy"
    target.mkdir(parents=True)
    (target / source.name).write_text(json.dumps(content))
    for task in tasks:
        (samples,) = source.parent.glob(f"samples_{task}_*.jsonl")
        shutil.copy(samples, target)
    return target


def edit(folder: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the logged samples of a folder's only task."""
    (file,) = folder.glob("samples_*.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    change(rows)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_samples_without_filters_have_them_in_the_order_of_the_results(harness_results: Path, tmp_path: Path) -> None:
    folder = only(harness_results, tmp_path, "local_sums")
    before = tasks_in(folder)["local_sums"].metrics
    edit(folder, lambda rows: [(row.pop("filter"), row.pop("metrics")) for row in rows])
    after = tasks_in(folder)["local_sums"].metrics
    assert before == after
    assert after["exact_match,strict-match"].values != after["exact_match,flexible-extract"].values


def test_numbers_that_numpy_logged_as_text_are_read(harness_results: Path, tmp_path: Path) -> None:
    folder = only(harness_results, tmp_path, "local_lengths")
    before = tasks_in(folder)["local_lengths"].metrics
    edit(folder, lambda rows: [row.update(n_letters=f"{row['n_letters']}.0", ends=str(row["ends"])) for row in rows])
    assert tasks_in(folder)["local_lengths"].metrics == before


def repeated(rows: list[dict[str, Any]]) -> None:
    rows.append(rows[3])


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.pop(),
        repeated,
        lambda rows: rows[0].update(exact_match=1 - rows[0]["exact_match"]),
        lambda rows: rows[1].pop("doc_hash"),
    ],
    ids=("a missing line", "a repeated document", "an edited value", "no hash"),
)
def test_damaged_samples_are_errors(harness_results: Path, tmp_path: Path, change: Callable[..., Any]) -> None:
    folder = only(harness_results, tmp_path, "local_sums")
    edit(folder, change)
    with raises(BenchmarkFileError):
        tasks_in(folder)


def test_a_file_that_ends_in_a_line_is_an_error(harness_results: Path, tmp_path: Path) -> None:
    folder = only(harness_results, tmp_path, "local_sums")
    (file,) = folder.glob("samples_*.jsonl")
    file.write_bytes(file.read_bytes()[:-100])
    with raises(BenchmarkFileError):
        tasks_in(folder)


def test_results_without_samples_are_an_error(harness_results: Path, tmp_path: Path) -> None:
    folder = only(harness_results, tmp_path, "local_sums")
    next(folder.glob("samples_*.jsonl")).unlink()
    with raises(BenchmarkFileError):
        tasks_in(folder)


def test_a_task_name_is_never_a_path(harness_results: Path, tmp_path: Path) -> None:
    folder = only(harness_results, tmp_path, "local_sums")
    file = results_file(folder)
    file.write_text(file.read_text().replace("local_sums", "../local_sums"))
    with raises(BenchmarkFileError):
        tasks_in(folder)


def test_a_metric_with_nan_is_refused(harness_results: Path, tmp_path: Path) -> None:
    folder = only(harness_results, tmp_path, "local_sums")
    edit(folder, lambda rows: rows[2].update(exact_match=math.nan))
    file = results_file(folder)
    content = json.loads(file.read_text())
    content["results"]["local_sums"]["exact_match,strict-match"] = math.nan
    file.write_text(json.dumps(content))
    metrics = tasks_in(folder)["local_sums"].metrics
    assert "1 of 46 documents have no value" in metrics["exact_match,strict-match"].refused
    assert not metrics["exact_match,flexible-extract"].refused


def test_a_number_whose_square_is_infinite_is_refused(harness_results: Path, tmp_path: Path) -> None:
    folder = only(harness_results, tmp_path, "local_choices")
    edit(folder, lambda rows: [row.update(acc=1e300 * (number % 2)) for number, row in enumerate(rows)])
    content = json.loads(results_file(folder).read_text())
    content["results"]["local_choices"]["acc,none"] = 5e299
    results_file(folder).write_text(json.dumps(content))
    assert "above 1e+100" in tasks_in(folder)["local_choices"].metrics["acc"].refused


def test_a_number_that_is_no_mean_is_refused(harness_results: Path, tmp_path: Path) -> None:
    folder = only(harness_results, tmp_path, "local_lengths")
    file = results_file(folder)
    content = json.loads(file.read_text())
    content["configs"]["local_lengths"]["metric_list"][0]["aggregation"] = "def longest(items): return max(items)"
    content["results"]["local_lengths"]["n_letters,none"] = 11
    file.write_text(json.dumps(content))
    metric = tasks_in(folder)["local_lengths"].metrics["n_letters"]
    assert metric.refused
    assert not metric.values


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["configs"].update(local_sums=None),
        lambda content: content["configs"]["local_sums"].update(
            metric_list=[{"metric": "exact_match", "aggregation": []}]
        ),
        lambda content: content["results"].update(local_sums=[","]),
        lambda content: content.update(group_subtasks=[1]),
        lambda content: content.update(configs=3),
    ],
    ids=("no configuration", "a list as aggregation", "a list of results", "a list of groups", "a number"),
)
def test_results_of_another_form_raise_no_other_error(
    harness_results: Path, tmp_path: Path, change: Callable[..., Any]
) -> None:
    folder = only(harness_results, tmp_path, "local_sums")
    file = results_file(folder)
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    with suppress(BenchmarkFileError):
        tasks_in(folder)


def test_lists_of_truth_values_have_the_mean_of_all_of_them(harness_results: Path, tmp_path: Path) -> None:
    folder = only(harness_results, tmp_path, "local_choices")
    lists = [[number % 3 == 0] * (1 + number % 4) for number in range(46)]
    edit(folder, lambda rows: [row.update(acc=values) for row, values in zip(rows, lists, strict=True)])
    flat = [value for values in lists for value in values]
    content = json.loads(results_file(folder).read_text())
    content["results"]["local_choices"]["acc,none"] = sum(flat) / len(flat)
    content["configs"]["local_choices"]["metric_list"][0]["aggregation"] = "<function agg_inst_level_acc at 0x7f>"
    results_file(folder).write_text(json.dumps(content))
    task = tasks_in(folder)["local_choices"]
    names, sizes = list(map(str, range(46))), list(map(len, lists))
    ratio = estimate_ratio(list(map(sum, lists)), sizes, names)
    estimate = estimate_of(task, task.metrics["acc"])
    assert estimate.value == pytest.approx(ratio.value, rel=1e-14)
    gaps = np.array([sum(values) - len(values) * sum(flat) / len(flat) for values in lists])
    error = gaps.std(ddof=1) / math.sqrt(46) / np.mean(sizes)
    assert estimate.standard_error == pytest.approx(error, rel=1e-12)


def test_a_group_of_groups_has_the_direction_of_its_tasks(harness_results: Path, tmp_path: Path) -> None:
    shutil.copytree(harness_results / "weak", tmp_path / "weak")
    content = json.loads(results_file(tmp_path / "weak").read_text())
    del content["higher_is_better"]["local_all"]  # as the harness writes it for a group of groups only
    results_file(tmp_path / "weak").write_text(json.dumps(content))
    assert tasks_in(tmp_path / "weak")["local_all"].metrics["acc"].higher_is_better is True


def test_tasks_without_samples_are_left_out_next_to_others(harness_results: Path, tmp_path: Path) -> None:
    shutil.copytree(harness_results / "weak", tmp_path / "weak")
    next((tmp_path / "weak").rglob("samples_local_checks_*.jsonl")).unlink()
    lines: list[str] = []
    tasks = {task.name for task in read_harness_tasks([tmp_path], left_out=lines.append)}
    assert {"local_choices", "local_by_task"} <= tasks
    assert not {"local_checks", "local_by_size", "local_all"} & tasks
    assert [line.partition("no logged samples of ")[2].partition(".")[0] for line in lines] == ["local_checks"]
    with pytest.raises(BenchmarkFileError):
        read_harness_tasks([tmp_path])
