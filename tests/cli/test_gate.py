"""`ragtasks gate`: exit status of each outcome, and the files for pull requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from typer.main import get_command

from ragtasks.cli import app
from ragtasks.config import GateConfig
from ragtasks.reports.history import read_history
from tests._commands import CommandResult, run_command
from tests._messages import same_message
from tests.reports._saved import facts, save

TASKS = tuple((f"c{number:02}", turn) for number in range(30) for turn in (1, 2))


def uneven(level: float) -> Callable[[str], dict[str, float | None]]:
    """Return scores around a level that vary between tasks."""
    return lambda task: {"rouge_l": level + 0.01 * (int(task[1:3]) % 7 - 3), "ans_acc": 1.0}


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of a system before and after three changes, and a separate data folder."""
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path / "data"))
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    for name, level in (("old", 0.5), ("same", 0.5), ("worse", 0.3), ("near", 0.452)):
        shift = 0.0 if name == "old" else 1
        save(
            tmp_path / name,
            values=lambda task, level=level, shift=shift: {
                "rouge_l": level + 0.01 * ((int(task[1:3]) + shift * int(task[1:3]) ** 2) % 7 - 3),
                "ans_acc": 1.0,
            },
            tasks=TASKS,
            change_sample=lambda sample, name=name: sample.update(filtered_resps=[name]),
        )
    return tmp_path


def run(*arguments: object) -> CommandResult:
    return run_command("gate", *arguments)


@pytest.mark.parametrize(("name", "status"), [("same", 0), ("worse", 1), ("near", 3)])
def test_the_exit_status_depends_on_the_outcome(results: Path, name: str, status: int) -> None:
    assert run(results / name, "--baseline", results / "old", "--margin", "rouge_l=0.05").status == status


def test_tasks_of_others_without_samples_do_not_disturb_ours(results: Path) -> None:
    for name in ("same", "old"):
        (file,) = (results / name).rglob("results_*.json")
        content = json.loads(file.read_text())
        content["configs"]["gsm8k"] = {"metadata": {}}
        content.setdefault("results", {})["gsm8k"] = {"exact_match,none": 0.5}
        file.write_text(json.dumps(content))
    assert run(results / "same", "--baseline", results / "old", "--margin", "rouge_l=0.05").status == 0
    history = read_history(results / "same", is_ranked=True)
    assert history.skipped == ()
    assert {entry.benchmark for entry in history.entries} >= {"gsm8k"}
    assert len(history.entries) > 1


def test_invalid_input_has_its_own_status(results: Path) -> None:
    old = ("--baseline", results / "old")
    for arguments in (
        (results / "nothing", *old, "--margin", "rouge_l=0.05"),
        (results / "same", *old),
        (results / "same", "--margin", "rouge_l=0.05"),
        (results / "same", *old, "--margin", "rouge_l"),
        (results / "same", *old, "--config", results / "none.yaml"),
        (results, *old, "--margin", "rouge_l=0.05"),
    ):
        done = run(*arguments)
        assert done.status == 2, arguments
        assert done.err.startswith("ragtasks: ")


def test_one_of_several_benchmarks_is_tested(results: Path) -> None:
    for name, level in (("old", 0.5), ("same", 0.2)):
        answer: Callable[[dict[str, Any]], None] = lambda sample, name=name: sample.update(filtered_resps=[name])  # noqa: E731
        of_another = facts(benchmark="mtrag_un")
        save(results / name, day=2, values=uneven(level), tasks=TASKS, change=of_another, change_sample=answer)
    options = ("--baseline", results / "old", "--margin", "rouge_l=0.05")
    undecided = run(results / "same", *options)
    assert undecided.status == 2
    same_message(undecided.err)
    assert run(results / "same", *options, "--benchmark", "mtrag").status == 0
    assert run(results / "same", *options, "--benchmark", "mtrag_un").status == 1
    assert "--benchmark: mtrag, mtrag_un" in run(results / "same", *options, "--benchmark", "mtrag_s").err
    judged = run(results / "same", *options, "--benchmark", "mtrag", "--judge", "openai/j")
    assert judged.status == 2
    same_message(judged.err)


def test_a_crash_does_not_exit_with_the_status_of_worse(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("ragtasks.reports.gate_sides.side_of", crash)
    done = run(results / "same", "--baseline", results / "old", "--margin", "rouge_l=0.05")
    assert done.status == 2
    assert "ZeroDivisionError: a bug" in done.err


def test_another_encoder_is_no_match(results: Path) -> None:
    file = next((results / "same").glob("results_*.json"))
    file.write_text(file.read_text().replace("minilm", "deberta"))
    done = run(results / "same", "--baseline", results / "old", "--margin", "rouge_l=0.05")
    assert done.status == 3
    assert "encoder in reference: minilm -> deberta" in done.out


def test_a_baseline_by_name_is_a_fixed_copy(results: Path) -> None:
    assert run(results / "old", "--save-baseline", "main").status == 0
    for file in (results / "old").iterdir():
        file.unlink()
    done = run(results / "worse", "--baseline", "main", "--margin", "rouge_l=0.05", "--format", "json")
    assert done.status == 1
    found = json.loads(done.out)
    assert (found["status"], found["verdict"]) == (1, "worse")
    done = run(results / "worse", "--baseline", "mian", "--margin", "rouge_l=0.05")
    assert done.status == 2
    assert "did you mean 'main'" in done.err


def test_a_worse_system_is_not_saved(results: Path) -> None:
    target = results / "kept.json"
    margin = ("--baseline", results / "old", "--margin", "rouge_l=0.05", "--save-baseline", target)
    assert run(results / "worse", *margin).status == 1
    assert not target.exists()
    assert run(results / "same", *margin).status == 0
    assert run(results / "same", "--baseline", target, "--margin", "rouge_l=0.0001").status == 0


def test_a_saved_baseline_replaces_a_file_with_force_only(results: Path) -> None:
    kept = results / "notes.json"
    kept.write_text("mine")
    done = run(results / "old", "--save-baseline", kept)
    assert (done.status, kept.read_text()) == (2, "mine")
    assert "--force" in done.err
    tested = (results / "same", "--baseline", results / "old", "--margin", "rouge_l=0.05", "--save-baseline", kept)
    assert (run(*tested).status, kept.read_text()) == (2, "mine")
    assert run(*tested, "--force").status == 0
    assert "ragtasks baseline" in kept.read_text()
    assert run(results / "old", "--save-baseline", "main").status == 0
    assert run(results / "worse", "--save-baseline", "main").status == 2, "a name is a file too"


def test_a_broken_baseline_is_named(results: Path) -> None:
    for text in ("{", '{"format": "other"}', "[]"):
        (results / "b.json").write_text(text)
        done = run(results / "same", "--baseline", results / "b.json", "--margin", "rouge_l=0.05")
        assert done.status == 2
        assert "--save-baseline" in done.err


def _edited(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[dict[str, Any]], object]:
    return lambda content: change(content["system"]["rows"]["reference"])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (_edited(lambda rows: rows.__delitem__(slice(1, None))), "found: 1 answers"),
        (_edited(lambda rows: rows.clear()), "found: 0 answers"),
        (_edited(lambda rows: rows.append(rows[0])), "found: 61 answers"),
        (_edited(lambda rows: rows[0]["response"]["task"].update(task_id="c99<::>9")), "found: changed answers"),
        (_edited(lambda rows: rows[0]["scores"].update(rouge_l=0.51)), "found: changed answers"),
        (lambda content: content.update(format="ragtasks baseline 2"), "kept.json --force"),
        (
            lambda content: content.update(format="ragtasks baseline 2", rows={}),
            "found: format 'ragtasks baseline 2'\n",
        ),
        (lambda content: content["system"]["fields"].update(full_rag={}), "found: changed answers"),
        (_edited(lambda rows: rows[0]["scores"].update(rouge_l="0.5")), "found a text"),
        (_edited(lambda rows: rows[0]["scores"].update(rouge_l=True)), "found true or false"),
        (lambda content: content["system"].update(suite="mtrags"), "mtrags"),
        (lambda content: content["system"]["fields"]["reference"].update({"best of": "3"}), "found: best of: 3"),
    ],
)
def test_a_baseline_that_was_changed_by_hand_is_an_error_and_no_verdict(
    results: Path, change: Callable[[dict[str, Any]], object], found: str
) -> None:
    file = results / "kept.json"
    assert run(results / "old", "--save-baseline", file).status == 0
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    done = run(results / "same", "--baseline", file, "--margin", "rouge_l=0.05")
    assert (done.status, found in done.err) == (2, True), done.err
    assert done.err.startswith("ragtasks: ")


def test_a_baseline_with_an_unknown_condition_that_was_not_set_is_read(results: Path) -> None:
    file = results / "kept.json"
    assert run(results / "old", "--save-baseline", file).status == 0
    content = json.loads(file.read_text())
    content["system"]["fields"]["reference"]["best of"] = "-"
    file.write_text(json.dumps(content))
    assert run(results / "same", "--baseline", file, "--margin", "rouge_l=0.05").status == 0


@pytest.mark.parametrize("value", [1.5, -1e308, 1e308])
def test_a_score_outside_of_its_range_is_an_error_on_either_side(results: Path, value: float) -> None:
    scores: dict[str, float | None] = {"rouge_l": value, "ans_acc": 1.0}
    save(results / "odd", values=lambda task: scores if task == "c00<::>1" else uneven(0.5)(task), tasks=TASKS)
    for tested, baseline in (("odd", "old"), ("old", "odd")):
        done = run(results / tested, "--baseline", results / baseline, "--margin", "rouge_l=0.05")
        assert done.status == 2
        assert done.err.startswith("ragtasks: ")
        assert "rouge_l" in done.err


def test_a_file_sets_margins_and_options_win(results: Path) -> None:
    file = results / "evaluation.yaml"
    file.write_text(yaml.safe_dump({"benchmark": "mtrag", "gate": {"baseline": "main", "margins": {"rouge_l": 0.4}}}))
    assert run(results / "worse", "--config", file, "--baseline", results / "old").status == 0
    done = run(results / "worse", "--config", file, "--baseline", results / "old", "--margin", "rouge_l=0.05")
    assert done.status == 1
    file.write_text(yaml.safe_dump({"gate": {"margin": {"rouge_l": 0.4}}}))
    done = run(results / "worse", "--config", file)
    assert done.status == 2
    assert "did you mean 'margins'" in done.err


def test_github_receives_annotations_and_a_summary(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(results / "summary.md"))
    (results / "summary.md").write_text("before\n")
    done = run(results / "worse", "--baseline", results / "old", "--margin", "rouge_l=0.05")
    lines = [line for line in done.out.splitlines() if line.startswith("::")]
    assert len(lines) == 1
    assert lines[0].startswith("::error title=ragtasks gate%3A worse::rouge_l in reference, all tasks: 0.")
    summary = (results / "summary.md").read_text()
    assert summary.startswith("before\n❌ **ragtasks gate** worse: 1 of 1 test: rouge_l in reference")


def test_a_models_name_adds_nothing_to_a_pull_request(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "m</details><h1>Passed</h1><!-- ##[stop-commands]x @me ![](https://example.org/a.png)"
    answer: Callable[[dict[str, Any]], None] = lambda sample: sample.update(filtered_resps=["mine"])  # noqa: E731
    save(results / "mine", name, values=uneven(0.3), tasks=TASKS, change_sample=answer)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(results / "summary.md"))
    files = ("--comment", results / "gate.md", "--junit", results / "gate.xml")
    for form in ("markdown", "json", "csv"):
        done = run(
            results / "mine", "--baseline", results / "old", "--margin", "rouge_l=0.05", *files, "--format", form
        )
        assert done.status == 1
        assert "##[" not in done.out
    for file in ("gate.md", "summary.md"):
        text = (results / file).read_text(encoding="utf-8")
        assert "m&#60;/details>&#60;h1>Passed&#60;/h1>&#60;!-- # #[stop-commands]x" in text
        assert not re.search(r"<h1>|<!--|##\[|@me|!\[\]", text)
    ElementTree.parse(results / "gate.xml")


def test_junit_and_a_comment_are_written(results: Path) -> None:
    margins = ("--margin", "rouge_l=0.05", "--margin", "ans_acc=0.3")
    files = ("--junit", results / "gate.xml", "--comment", results / "gate.md")
    run(results / "worse", "--baseline", results / "old", *margins, *files)
    suite = ElementTree.parse(results / "gate.xml").getroot()
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases == {"rouge_l, all tasks": ["failure"], "ans_acc, all tasks": []}
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    assert "| worse " in (results / "gate.md").read_text()


def test_power_needs_no_results_and_has_a_status(results: Path) -> None:
    old = ("--baseline", results / "old", "--power")
    done = run(*old)
    assert done.status == 0
    assert "rouge_l" in done.out
    assert "detects a drop of" not in done.out, "a column of dashes without a margin"
    assert "--margin METRIC=DROP adds" in done.out
    assert run(*old, "--margin", "rouge_l=0.1").status == 0
    done = run(*old, "--margin", "rouge_l=0.001")
    assert done.status == 3
    assert "too few answers: 30 conversations" in done.out


def test_csv_has_a_line_a_test(results: Path) -> None:
    margin = ("--margin", "rouge_l=0.05", "--slice", "turn", "--format", "csv")
    done = run(results / "same", "--baseline", results / "old", *margin)
    assert [line.split(",")[:5] for line in done.out.splitlines()] == [
        ["setting", "slice", "metric", "decides", "verdict"],
        ["reference", "all tasks", "rouge_l", "True", "not worse"],
        ["reference", "turn=first", "rouge_l", "True", "not worse"],
        ["reference", "turn=later", "rouge_l", "True", "not worse"],
    ]


PAGE = Path(__file__).resolve().parents[2] / "docs" / "gate.md"


def yaml_blocks() -> list[Any]:
    return [
        yaml.load(block, yaml.BaseLoader) for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    ]


def test_the_file_on_the_page_is_a_gate(results: Path) -> None:
    section, _ = yaml_blocks()
    assert GateConfig.model_validate(section["gate"]).margins["ans_acc"] == 0.05


def test_the_workflow_in_the_docs_gates_its_scores() -> None:
    _, workflow = yaml_blocks()
    assert workflow["on"] == "pull_request"
    (job,) = workflow["jobs"].values()
    commands = [line.strip() for step in job["steps"] for line in step.get("run", "").splitlines()]
    programs = [line.split()[:2] for line in commands if line.startswith("ragtasks ")]
    assert [name for _, name in programs] == ["data", "tasks", "score", "gate"]
    known = {option for item in get_command(app).commands["gate"].params for option in item.opts}
    (gate,) = (line for line in commands if line.startswith("ragtasks gate"))
    assert {word for word in gate.split() if word.startswith("--")} <= known


def test_the_schema_for_editors_has_the_keys_of_a_gate() -> None:
    done = run_command("init", "--schema")
    schema = json.loads(done.out)
    assert "#/$defs/GateConfig" in json.dumps(schema["properties"]["gate"])
    assert "margins" in schema["$defs"]["GateConfig"]["properties"]
