"""`ragtasks gate` on results of lm_eval tasks of others: verdicts, baselines, and sides that do not match."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragtasks.cli import app
from tests._evaluations import results_file
from tests._messages import same_message

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def sides(harness_results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with copies of both models' results, and no GitHub."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    for model in ("weak", "strong"):
        shutil.copytree(harness_results / model, tmp_path / model)
    return tmp_path


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["gate", *map(str, arguments)])
    return getattr(done.exception, "exit_status", done.exit_code), done.stdout, f"{done.stderr}{done.exception or ''}"


def gate_of(*arguments: object) -> tuple[dict[str, Any], dict[tuple[str, str], Mapping[str, Any]]]:
    """Return a gate as JSON, and its tests by task and metric."""
    found = json.loads(run(*arguments, "--format", "json")[1])
    return found, {(test["setting"], test["metric"]): test for test in found["tests"]}


def change(folder: Path, of_results: Change | None = None, of_sample: Change | None = None, task: str = "*") -> None:
    """Change the results file, and each logged sample of a task."""
    if of_results is not None:
        content = json.loads(results_file(folder).read_text())
        of_results(content)
        results_file(folder).write_text(json.dumps(content))
    for file in folder.rglob(f"samples_{task}_2*.jsonl") if of_sample is not None else ():
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for row in rows:
            of_sample(row)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_regression_is_worse_and_an_improvement_is_not(sides: Path) -> None:
    margins = ("--margin", "exact_match=0.05", "--margin", "acc,none=0.05")
    status, text, _ = run(sides / "weak", "--baseline", sides / "strong", *margins)
    assert (status, text.splitlines()[0]) == (1, "# Gate: worse")
    assert "over the documents that both scored" in text
    assert "95 % interval over documents" in text
    assert "conversation" not in text
    assert run(sides / "strong", "--baseline", sides / "weak", *margins)[0] == 0
    assert run(sides / "strong", "--baseline", sides / "strong", *margins)[0] == 0


def test_a_rise_is_worse_if_lower_values_are_better(sides: Path) -> None:
    for name, status in (("word_perplexity", 1), ("bits_per_byte", 1), ("brier_score", 1)):
        margin = ("--margin", f"{name}=0.01")
        assert run(sides / "weak", "--baseline", sides / "strong", *margin)[0] == status
        assert run(sides / "strong", "--baseline", sides / "weak", *margin)[0] == 0


def test_a_margin_is_for_one_filter_or_for_all(sides: Path) -> None:
    side = (sides / "weak", "--baseline", sides / "strong", "--margin")
    _, tests = gate_of(*side, "exact_match,strict-match=0.05")
    assert tests.keys() == {("local_by_task", "exact_match,strict-match")}
    _, tests = gate_of(*side, "exact_match=0.05", "--margin", "exact_match,strict-match=0.1")
    assert {metric for _, metric in tests} == {
        *("exact_match,strict-match", "exact_match,flexible-extract", "exact_match,first", "exact_match,maj@5")
    }
    assert tests["local_by_task", "exact_match,strict-match"]["margin"] == 0.1


def test_tasks_of_a_group_are_tested_if_they_are_named(sides: Path) -> None:
    side = (sides / "weak", "--baseline", sides / "strong", "--margin", "acc=0.05")
    _, tests = gate_of(*side)
    assert {task for task, _ in tests} == {"local_all"}
    _, tests = gate_of(*side, "--slice", "local_checks")
    assert {task for task, _ in tests} == {"local_all", "local_checks"}
    _, tests = gate_of(*side, "--benchmark", "local_by_size")
    assert {task for task, _ in tests} == {"local_by_size"}
    for option in (("--slice", "local_check"), ("--benchmark", "local_check")):
        status, _, message = run(*side, *option)
        assert status == 2
        same_message(message)


def test_the_change_is_the_difference_of_the_numbers_of_the_harness(sides: Path) -> None:
    metrics = ("acc", "exact_match", "bits_per_byte", "word_perplexity", "brier_score")
    margins = [part for name in metrics for part in ("--margin", f"{name}=0.1")]
    _, tests = gate_of(sides / "weak", "--baseline", sides / "strong", *margins)
    weak, strong = (json.loads(results_file(sides / model).read_text())["results"] for model in ("weak", "strong"))
    assert len(tests) == 8
    for (task, metric), test in tests.items():
        key = metric if "," in metric else f"{metric},none"
        assert test["candidate"] == pytest.approx(weak[task][key], rel=1e-12)
        assert test["baseline"] == pytest.approx(strong[task][key], rel=1e-12)


def test_clusters_of_either_side_are_used(sides: Path) -> None:
    side = (sides / "weak", "--baseline", sides / "strong", "--benchmark", "local_sums", "--margin", "exact_match=0.05")
    _, plain = gate_of(*side)
    _, clustered = gate_of(*side, "--cluster", "doc.story")
    key = ("local_sums", "exact_match,strict-match")
    assert (plain[key]["n_conversations"], clustered[key]["n_conversations"]) == (46, 15)
    assert "95 % interval over clusters (doc.story)" in run(*side, "--cluster", "doc.story")[1]
    baseline = sides / "base.json"
    save = (sides / "strong", "--benchmark", "local_sums", "--cluster", "doc.story", "--save-baseline", baseline)
    assert run(*save)[0] == 0
    _, saved = gate_of(
        sides / "weak", "--baseline", baseline, "--benchmark", "local_sums", "--margin", "exact_match=0.05"
    )
    assert saved == clustered


def test_a_saved_baseline_gives_the_same_tests(sides: Path) -> None:
    baseline = sides / "base.json"
    assert run(sides / "strong", "--save-baseline", baseline)[0] == 0
    assert str(sides) not in baseline.read_text()
    margins = ("--margin", "exact_match=0.05", "--margin", "acc=0.05", "--margin", "word_perplexity=0.1")
    direct = gate_of(sides / "weak", "--baseline", sides / "strong", *margins)
    assert gate_of(sides / "weak", "--baseline", baseline, *margins) == direct
    baseline.write_text(baseline.read_text().replace('"n_shot": "0"', '"n_shot": "1"', 1))
    status, _, message = run(sides / "weak", "--baseline", baseline, *margins)
    assert status == 2
    same_message(message)


def version(content: dict[str, Any]) -> None:
    content["versions"]["local_repeats"] = 9.0


def shots(content: dict[str, Any]) -> None:
    content["n-shot"]["local_repeats"] = 5


@pytest.mark.parametrize(
    ("of_results", "of_sample"),
    [
        (version, None),
        (shots, None),
        (lambda content: content["configs"]["local_repeats"].update(doc_to_text="Q: {{question}}"), None),
        (None, lambda row: row.update(prompt_hash="other")),
        (None, lambda row: row.update(target_hash="other")),
        (None, lambda row: row.update(doc_hash=f"{row['doc_hash']}2")),
    ],
    ids=("version", "few-shot examples", "prompt setting", "prompts", "targets", "documents"),
)
def test_sides_that_differ_are_not_tested(sides: Path, of_results: Change | None, of_sample: Change | None) -> None:
    change(sides / "weak", of_results, of_sample, "local_repeats")
    side = (sides / "weak", "--baseline", sides / "strong", "--benchmark", "local_repeats")
    found, tests = gate_of(*side, "--margin", "exact_match=0.05")
    assert (found["verdict"], found["status"], tests) == ("cannot say", 3, {})
    assert run(*side, "--margin", "exact_match=0.05")[0] == 3
    same_message("\n".join(found["problems"]))


def test_a_limit_on_one_side_is_not_tested(sides: Path) -> None:
    def limit(content: dict[str, Any]) -> None:
        content["n-samples"]["local_repeats"]["effective"] = 20

    for file in (sides / "weak").rglob("samples_local_repeats_2*.jsonl"):
        rows = [line for line in file.read_text().splitlines() if json.loads(line)["doc_id"] < 20]
        file.write_text("\n".join(rows) + "\n")
        for name in ("first", "maj@5"):
            values = [row["exact_match"] for row in map(json.loads, rows) if row["filter"] == name]
            mean = sum(values) / len(values)
            change(sides / "weak", lambda c: c["results"]["local_repeats"].update({f"exact_match,{name}": mean}))  # noqa: B023
    change(sides / "weak", limit)
    side = (sides / "weak", "--baseline", sides / "strong", "--benchmark", "local_repeats")
    found, _ = gate_of(*side, "--margin", "exact_match=0.05")
    assert found["status"] == 3
    same_message("\n".join(found["problems"]))


def test_a_task_or_metric_of_one_side_is_not_tested(sides: Path) -> None:
    side = ("--baseline", sides / "strong", "--margin", "bits_per_byte=0.01")
    found, _ = gate_of(sides / "weak", "--benchmark", "local_pages", *side)
    assert found["status"] == 1
    change(sides / "weak", lambda content: content["configs"].pop("local_pages"))
    found, _ = gate_of(sides / "weak", *side)
    assert (found["status"], found["problems"]) == (3, ["task local_pages is in the baseline only"])


def test_the_direction_of_a_metric_is_that_of_the_task_in_results_without_one(sides: Path) -> None:
    for model in ("weak", "strong"):
        change(sides / model, lambda content: content.pop("higher_is_better"))
    _, tests = gate_of(sides / "weak", "--baseline", sides / "strong", "--margin", "exact_match=0.05")
    assert {test["verdict"] for test in tests.values()} == {"worse"}
    assert ("local_by_task", "exact_match,strict-match") in tests


def test_missing_samples_and_metrics_without_values_are_invalid_input(sides: Path) -> None:
    side = (sides / "weak", "--baseline", sides / "strong", "--margin")
    for margin in ("mcc=0.1", "accuracy=0.1"):
        status, _, message = run(*side, margin)
        assert status == 2
        same_message(message)
    next((sides / "weak").rglob("samples_local_repeats_2*.jsonl")).unlink()
    status, _, message = run(*side, "acc=0.1")
    assert status == 2
    same_message(message)


def test_power_and_the_files_for_pull_requests(sides: Path) -> None:
    side = (sides / "weak", "--baseline", sides / "strong", "--margin", "acc=0.05")
    status, text, _ = run("--baseline", sides / "strong", "--margin", "acc=0.05", "--power")
    assert status == 3
    assert "| task      | slice         | metric | documents |" in text
    files = {"junit": sides / "gate.xml", "comment": sides / "gate.md"}
    run(*side, *[part for name, file in files.items() for part in (f"--{name}", file)])
    assert 'classname="local_all" name="acc, all documents"' in files["junit"].read_text()
    assert "acc in local_all, all documents" in files["comment"].read_text()
    header, row = run(*side, "--format", "csv")[1].splitlines()
    assert header.startswith("setting,slice,metric,decides,verdict")
    assert row.startswith("local_all,all documents,acc,True,worse")


def test_unchanged_responses_with_other_scores_are_drift(sides: Path) -> None:
    def score_again(row: dict[str, Any]) -> None:
        row["acc"] = 1 - row["acc"]

    shutil.copytree(sides / "strong", sides / "again")
    change(sides / "again", None, score_again, "local_choices")
    reported = json.loads(results_file(sides / "strong").read_text())["results"]["local_choices"]["acc,none"]
    change(sides / "again", lambda content: content["results"]["local_choices"].update({"acc,none": 1 - reported}))
    for group in ("local_by_size", "local_all"):
        change(sides / "again", lambda content: content["results"][group].pop("acc,none"))  # noqa: B023
    side = (sides / "again", "--baseline", sides / "strong", "--benchmark", "local_choices", "--margin", "acc=0.05")
    found, _ = gate_of(*side)
    assert found["status"] == 3
    same_message("\n".join(found["problems"]))


def test_a_task_whose_better_direction_is_unknown_is_listed_and_not_tested(sides: Path) -> None:
    def forget(content: dict[str, Any]) -> None:
        for name in ("local_endings", "local_all"):
            content["higher_is_better"][name].pop("acc")
        for metric in content["configs"]["local_endings"]["metric_list"]:
            metric.pop("higher_is_better", None)

    for model in ("weak", "strong"):
        change(sides / model, forget)
    side = (sides / "weak", "--baseline", sides / "strong", "--margin", "acc=0.05")
    gate, tests = gate_of(*side)
    assert {task for task, _ in tests} == {"local_by_size"}
    assert "not tested: acc in local_endings: no better direction is known" in gate["notes"]
    assert run(*side, "--power")[0] == 3  # the margin is too small
