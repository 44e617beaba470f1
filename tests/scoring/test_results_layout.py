"""Results files of scored answers: means over scored samples, groups, and the other fields of the harness's layout."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark
from ragtasks.records import Answerability, Setting, Task
from ragtasks.results import GivenAnswer
from ragtasks.scoring import Folders, SystemAnswers, score_answers
from ragtasks.suites import suite_named
from tests.scoring.test_system import answers_of

Reply = Callable[[int, Task], GivenAnswer]


def first_tasks(benchmark: Benchmark, n: int = 3) -> list[Task]:
    """Return the first tasks of each domain that count."""
    counted = [task for task in benchmark.tasks if task.answerability is not Answerability.CONVERSATIONAL]
    domains = dict.fromkeys(task.domain for task in counted)
    return [task for name in domains for task in [item for item in counted if item.domain == name][:n]]


def answered(benchmark: Benchmark, reply: Reply, folders: Folders, output: Path, **more: Any) -> SystemAnswers:
    given = {task.task_id: reply(number, task) for number, task in enumerate(first_tasks(benchmark))}
    setting = more.pop("setting", Setting.REFERENCE)
    system = {"benchmark": benchmark.name, "name": "mine", **more.pop("system", {})}
    return answers_of(given, folders, output, setting, system=system, **more)


def written(answers: SystemAnswers, folders: Folders) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """Return the content of the results file, and task -> its samples."""
    file = score_answers(answers, folders).file
    results = json.loads(file.read_text(encoding="utf-8"))
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in results["configs"]:
        (samples,) = file.parent.glob(f"samples_{name}_*.jsonl")
        rows[name] = [json.loads(line) for line in samples.read_text(encoding="utf-8").splitlines()]
    return results, rows


def mixed(number: int, task: Task) -> GivenAnswer:
    """Return the target, a refusal, and a request that failed, in turn."""
    text = (task.target, "I do not know.", "")[number % 3]
    return GivenAnswer(text, no_answer="" if text else "HTTP 500")


def test_a_mean_covers_scored_samples_and_states_their_number(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    results, rows = written(answered(sample, mixed, folders, tmp_path), folders)
    assert len(rows) == 4
    for name, samples in rows.items():
        found = results["results"][name]
        assert (found["name"], found["alias"], found["sample_len"], len(samples)) == (name, name, 3, 3)
        values = [row["rouge_l"] for row in samples]
        assert [math.isnan(value) for value in values] == [False, False, True]
        assert found["rouge_l,sample"] == pytest.approx((values[0] + values[1]) / 2)
        assert found["coverage,sample"] == sum(row["coverage"] for row in samples) / 3
        assert math.isnan(found["rb_alg,sample"]), "nobody encoded"
        assert {value for key, value in found.items() if "_stderr" in key} == {"N/A"}
        metrics = samples[0]["metrics"]
        named = {f"{metric}{end},sample" for metric in metrics for end in ("", "_stderr")}
        assert found.keys() == named | {"name", "alias", "sample_len"}


def test_a_group_has_the_means_over_the_samples_of_all_its_tasks(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    given = {task.task_id: GivenAnswer(task.target) for task in first_tasks(sample)[:4]}
    given |= {task.task_id: GivenAnswer("Nobody says so.") for task in first_tasks(sample)[4:6]}
    answers = answers_of(given, folders, tmp_path, Setting.REFERENCE, system={"benchmark": "mtrag"})
    results, rows = written(answers, folders)
    group, names = "mtrag_reference", list(rows)
    assert [len(rows[name]) for name in names] == [3, 3]
    values = [row["rouge_l"] for name in names for row in rows[name]]
    assert results["groups"][group]["rouge_l,sample"] == pytest.approx(sum(values) / 6)
    assert results["groups"][group]["sample_len"] == 6
    assert results["results"][group] == results["groups"][group]
    assert results["group_subtasks"] == {group: names}
    assert results["results"].keys() == {group, *names}
    assert results["n-samples"].keys() == set(names)


def test_configurations_list_metrics_with_directions_and_the_scorer(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    results, rows = written(answered(sample, mixed, folders, tmp_path), folders)
    directions = {metric.name: metric.higher_is_better for metric in suite_named("mtrag").metrics}
    for name in (*rows, "mtrag_reference"):
        assert results["higher_is_better"][name] == directions
    for name, samples in rows.items():
        config = results["configs"][name]
        assert config["metric_list"] == [
            {"metric": metric, "higher_is_better": directions[metric]} for metric in samples[0]["metrics"]
        ]
        facts = config["metadata"]["ragtasks"]
        assert facts["benchmark"] == "mtrag (sample)"
        assert facts["configuration"]["encoder"] == "none"
        assert facts["scoring"]["encoder"] == "none"
        assert facts["plausibility"]["n"] == 2, "a request that failed is no answer"
        assert facts["summary"]["n"] == 3


def test_a_corpus_score_is_computed_from_responses_and_references(folders: Folders, tmp_path: Path) -> None:
    benchmark = open_benchmark("inscit", benchmark_folder("inscit", "sample", Path()).resolve())

    def reply(number: int, task: Task) -> GivenAnswer:
        return GivenAnswer(f" {task.target} ") if number else GivenAnswer("", no_answer="HTTP 500")

    results, rows = written(answered(benchmark, reply, folders, tmp_path), folders)
    (name,) = rows
    first, *others = rows[name]
    assert math.isnan(first["sacrebleu"])
    for row in others:
        response, references = row["sacrebleu"]
        assert response == row["filtered_resps"][0].strip()
        assert references[0] == row["doc"]["target"]
    assert results["results"][name]["sacrebleu,sample"] == pytest.approx(100)
    assert results["groups"]["inscit_reference"]["sacrebleu,sample"] == pytest.approx(100)
    assert isinstance(others[0]["rouge_l"], float)


def passages_of(samples: Mapping[str, list[dict[str, Any]]]) -> set[str]:
    found = {name for rows in samples.values() for row in rows for name in row["doc"]["scoring"]["implausible"]}
    return {name for name in found if "passages" in name}


def test_passages_of_another_corpus_are_reported_except_for_those_of_a_stored_run(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    tasks = first_tasks(sample)
    published = sample.read_contexts(Setting.FULL_RAG).passages

    def elsewhere(number: int, task: Task) -> GivenAnswer:
        other = tasks[(number + 3) % len(tasks)]
        return GivenAnswer(f"{task.target} Indeed.", published[other.task_id])

    answers = answered(sample, elsewhere, folders, tmp_path, setting=Setting.FULL_RAG)
    assert passages_of(written(answers, folders)[1]) == {"foreign_passages"}
    tasks_of_run = tuple(replace(task, recorded={"run": "bm25-1"}) for task in answers.evaluation.tasks)
    of_run = replace(answers, evaluation=replace(answers.evaluation, tasks=tasks_of_run))
    assert passages_of(written(of_run, folders)[1]) == set()


def test_a_declared_baseline_is_not_checked_but_its_turns_are(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    for name, is_checked in (("mine", True), ("ragtasks-refuse", False)):
        answers = answered(sample, lambda *_: GivenAnswer("I do not know."), folders, tmp_path, system={"name": name})
        found = score_answers(answers, folders)
        assert bool(found.checked) == is_checked
        file = found.file
        docs = [
            json.loads(line)["doc"] for path in file.parent.glob("samples_*") for line in path.read_text().splitlines()
        ]
        assert all(("implausible" in doc["scoring"]) == is_checked for doc in docs)
        errors = {doc["scoring"]["turn_error"].get("kind") for doc in docs if doc["answerability"] == "ANSWERABLE"}
        assert len(errors) == 1
        assert errors != {None}
        facts = [config["metadata"]["ragtasks"] for config in json.loads(file.read_text())["configs"].values()]
        assert all(("plausibility" in fact) == is_checked for fact in facts)


def test_an_answer_costs_its_tokens_unless_its_cost_is_known(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    usages: list[dict[str, Any]] = [{"input_tokens": 1000, "output_tokens": 100}, {"dollars": 7.0}, {}]

    def reply(number: int, task: Task) -> GivenAnswer:
        return GivenAnswer(task.target, usage=usages[number % 3])

    for price, dollars in (([2.0, 8.0], [0.0028, 7.0, None]), (None, [None, 7.0, None])):
        options = {"price": price} if price else {}
        answers = answered(sample, reply, folders, tmp_path / str(price), options=options)
        for rows in written(answers, folders)[1].values():
            assert [row["doc"].get("usage", {}).get("dollars") for row in rows] == dollars


def test_saved_fields_of_the_model_are_kept_and_groups_keep_their_members(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    answers = answered(sample, mixed, folders, tmp_path)
    names = [task.name for task in answers.evaluation.tasks]
    saved = {
        **answers.evaluation.results,
        "group_subtasks": {
            "all": ["mtrag_reference", names[0], "other"],
            "mtrag_reference": names,
            "others": ["other"],
        },
        "groups": {"mtrag_reference": {}, "others": {}},
        "results": {"all": {"alias": "everything"}, "others": {"acc,none": 1.0}, names[0]: {"alias": "first"}},
        "versions": {names[0]: 3.0, "all": 1.0, "other": 2.0},
        "git_hash": "abc",
    }
    results, rows = written(replace(answers, evaluation=replace(answers.evaluation, results=saved)), folders)
    assert results["git_hash"] == "abc"
    assert results["model_name"] == "mine"
    assert results["group_subtasks"] == {name: saved["group_subtasks"][name] for name in ("all", "mtrag_reference")}
    assert results["groups"].keys() == {"mtrag_reference"}, "a group of several settings has no scores"
    assert results["results"]["all"] == {"alias": "everything"}
    assert results["results"][names[0]]["alias"] == "first"
    assert "others" not in results["results"]
    assert results["versions"] == {names[0]: 3.0, "all": 1.0}
    assert results["higher_is_better"].keys() == {"all", "mtrag_reference", *names}
    assert "n-shot" not in results
    assert list(rows) == names


def test_letters_of_every_script_are_written_unchanged(sample: Benchmark, folders: Folders, tmp_path: Path) -> None:
    answers = answered(sample, lambda *_: GivenAnswer("Größe 図書館"), folders, tmp_path, system={"name": "größe"})
    file = score_answers(answers, folders).file
    assert '"größe"' in file.read_text(encoding="utf-8")
    samples = sorted(file.parent.glob("samples_*.jsonl"))
    assert [path.name for path in samples] == sorted(
        f"samples_{task.name}_{answers.evaluation.time}.jsonl" for task in answers.evaluation.tasks
    )
    assert all("Größe 図書館" in path.read_text(encoding="utf-8") for path in samples)
