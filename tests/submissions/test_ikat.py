"""Runs of TREC iKAT: built from logged answers, and checked like the track's validators."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.benchmarks.ikat import IKAT24
from ragtasks.cli import main
from ragtasks.submissions import FileForm, Report, Severity, form_of_file
from ragtasks.submissions.ikat import check_run
from tests._messages import same_message
from tests.conftest import REAL_DATA

TOPICS = {form: open_benchmark(name, benchmark_folder(name, "sample", Path())) for form, name in (
    (FileForm.IKAT_2023, "ikat23"), (FileForm.IKAT_2024, "ikat24"), (FileForm.IKAT_2025, "ikat25"),
)}  # fmt: skip
Row = dict[str, Any]


def run_2024() -> Row:
    """Return a run of 2024 on the sample without findings."""
    passages = [{"id": f"clueweb22-en0000-00-0000{n}:1", "score": 1 / n, "used": True} for n in (1, 2)]
    turns = [
        {
            "turn_id": task.extra["official_id"],
            "responses": [
                {"rank": 1, "text": "Yes.", "passage_provenance": list(passages), "ptkb_provenance": [1, "2"]}
            ],
        }
        for task in TOPICS[FileForm.IKAT_2024].tasks
    ]
    return {"run_name": "mine", "run_type": "automatic", "eval_response": True, "turns": turns}


def run_2023() -> Row:
    """Return the equivalent run of 2023."""
    turns = []
    for task in TOPICS[FileForm.IKAT_2023].tasks:
        facts = [{"id": "1", "text": task.extra["facts"][0], "score": 1.0}]
        passages = [{"id": "clueweb22-en0000-00-00001:1", "text": "", "score": 1.0, "used": True}]
        answer = {"rank": 1, "text": "Yes.", "passage_provenance": passages, "ptkb_provenance": facts}
        turns.append({"turn_id": task.extra["official_id"], "responses": [answer]})
    return {"run_name": "mine", "run_type": "manual", "turns": turns}


def lines_2025() -> list[Row]:
    """Return the equivalent run of 2025."""
    name = "clueweb22-en0000-00-00001:1"
    return [
        {
            "metadata": {"team_id": "us", "run_id": "mine", "run_type": "automatic"},
            "turn_id": task.extra["official_id"],
            "references": {name: 1.0},
            "responses": [{"text": "Yes.", "citations": {name: 1.0}, "ptkb_provenance": []}],
        }
        for task in TOPICS[FileForm.IKAT_2025].tasks
    ]


def checked(path: Path, run: Row | list[Row], form: FileForm) -> Report:
    text = "".join(json.dumps(row) + "\n" for row in run) if isinstance(run, list) else json.dumps(run, indent=1)
    path = path / ("run.jsonl" if isinstance(run, list) else "run.json")
    path.write_text(text, encoding="utf-8")
    assert form_of_file(path) is form
    return check_run(path, form, TOPICS[form])


def rules(report: Report) -> dict[str, int]:
    return dict(Counter(finding.rule for finding in report.findings))


def answer(run: Row) -> Row:
    return run["turns"][0]["responses"][0]  # type: ignore[no-any-return]


def test_a_valid_run_of_each_year_is_recognized_and_passes(tmp_path: Path) -> None:
    for run, form in ((run_2023(), FileForm.IKAT_2023), (run_2024(), FileForm.IKAT_2024)):
        report = checked(tmp_path, run, form)
        assert (report.findings, report.n_rows, report.passes) == ((), len(run["turns"]), True)
    report = checked(tmp_path, lines_2025(), FileForm.IKAT_2025)
    assert (report.findings, report.n_rows, report.passes) == ((), 2, True)


@pytest.mark.parametrize(("edit", "rule"), [
    (lambda run: run["turns"].pop(), "missing_turn"),
    (lambda run: run["turns"].append({"turn_id": "99_1"}), "unknown_turn"),
    (lambda run: run["turns"].append(run["turns"][0]), "duplicate_turn"),
    (lambda run: run.pop("run_type"), "field"),
    (lambda run: answer(run).update(order=1), "field"),
    (lambda run: answer(run)["passage_provenance"][0].update(score="high"), "field"),
    (lambda run: answer(run).update(ptkb_provenance=[99]), "fact"),
    (lambda run: run.update(run_name=""), "run_name"),
    (lambda run: run.update(run_type="own"), "run_type"),
    (lambda run: answer(run).update(rank=0), "rank"),
    (lambda run: answer(run).update(text=""), "text"),
    (lambda run: answer(run)["passage_provenance"][0].update(score=0.1), "passage_order"),
    (lambda run: answer(run)["passage_provenance"][0].update(id="doc-1"), "passage_id"),
    (lambda run: [passage.update(used=False) for passage in answer(run)["passage_provenance"]], "unused"),
    (lambda run: answer(run).update(ptkb_provenance=[]), "no_fact"),
])  # fmt: skip
def test_each_problem_of_a_run_of_2024_is_found_alone(edit: Callable[[Row], object], rule: str, tmp_path: Path) -> None:
    run = run_2024()
    if rule in {"passage_id", "unused", "passage_order", "fact", "no_fact", "text", "rank", "field"}:
        run["turns"][0] = json.loads(json.dumps(run["turns"][0]))  # the other turns are not affected
    edit(run)
    report = checked(tmp_path, run, FileForm.IKAT_2024)
    assert rules(report) == {rule: 1}
    problems = {"missing_turn", "unknown_turn", "field", "fact"}
    assert report.passes is (rule not in problems)


def test_a_finding_contains_its_turn_and_value(tmp_path: Path) -> None:
    run = run_2024()
    run["turns"] = run["turns"][:1]
    answer(run)["ptkb_provenance"] = [3, 4]  # of three facts
    answer(run)["passage_provenance"][0]["score"] = 0.1
    same_message("\n".join(map(str, checked(tmp_path, run, FileForm.IKAT_2024).findings)))
    rows = lines_2025()
    rows[1]["responses"][0]["text"] = "word " * 251
    same_message("\n".join(map(str, checked(tmp_path, rows, FileForm.IKAT_2025).findings)))


def test_texts_are_optional_in_a_response_only_run(tmp_path: Path) -> None:
    run = {**run_2024(), "run_type": "only_response"}
    answer(run)["text"] = ""
    assert checked(tmp_path, run, FileForm.IKAT_2024).findings == ()


def test_facts_of_2023_are_named_with_their_texts(tmp_path: Path) -> None:
    run = run_2023()
    answer(run)["ptkb_provenance"] = [{"id": "1", "text": "Something else.", "score": 1.0}, {"id": "", "score": 2.0}]
    assert rules(checked(tmp_path, run, FileForm.IKAT_2023)) == {"fact": 2, "fact_order": 1}


@pytest.mark.parametrize(("edit", "rule", "severity"), [
    (lambda row: row["metadata"].pop("team_id"), "field", Severity.PROBLEM),
    (lambda row: row["metadata"].update(run_type="own"), "field", Severity.PROBLEM),
    (lambda row: row["responses"][0].pop("citations"), "field", Severity.PROBLEM),
    (lambda row: row["responses"][0]["citations"].update({"clueweb22-en0000-00-00009:1": 1}), "citation",
     Severity.PROBLEM),
    (lambda row: row["references"].update({"doc-1": 1}), "passage_id", Severity.WARNING),
    (lambda row: row["responses"][0].update(text="word " * 251), "n_words", Severity.WARNING),
])  # fmt: skip
def test_each_problem_of_a_line_of_2025_is_found_with_its_line(
    edit: Callable[[Row], object], rule: str, severity: Severity, tmp_path: Path
) -> None:
    rows = lines_2025()
    edit(rows[1])
    findings = [
        finding for finding in checked(tmp_path, rows, FileForm.IKAT_2025).findings if finding.rule != "missing_turn"
    ]
    assert [(finding.line, finding.rule, finding.severity) for finding in findings] == [(2, rule, severity)]


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run_2024())[:-5], encoding="utf-8")
    assert form_of_file(file) is None
    assert rules(check_run(file, FileForm.IKAT_2024, None)) == {"json": 1}


def test_without_topics_the_report_lists_unchecked_parts(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps({**run_2024(), "turns": []}), encoding="utf-8")
    report = check_run(file, FileForm.IKAT_2024, None)
    assert report.findings == ()
    assert "ragtasks data fetch ikat24" in report.unchecked[-1]


def test_the_official_sample_runs_have_the_verdicts_of_the_official_validators(tmp_path: Path) -> None:
    # `python main.py -S` of each year at 0539930: 6 turns of 332 are too few; 218 turns, no warning.
    folder = REAL_DATA / "ikat"
    if not folder.is_dir():
        pytest.skip(f"no real iKAT data at {folder}")
    few, complete = folder / "2023_sample_run.json", folder / "2024_sample_run.json"
    assert (form_of_file(few), form_of_file(complete)) == (FileForm.IKAT_2023, FileForm.IKAT_2024)
    target = tmp_path / IKAT24.topics.path
    target.parent.mkdir(parents=True)
    target.write_bytes((folder / "2024_test_topics.json").read_bytes())
    report = check_run(complete, FileForm.IKAT_2024, open_benchmark("ikat24", tmp_path))
    assert (report.n_rows, report.findings) == (218, ())
    assert rules(check_run(few, FileForm.IKAT_2023, TOPICS[FileForm.IKAT_2023]))["missing_turn"] == 1


@pytest.mark.parametrize(("year", "name"), [("23", "run.json"), ("24", "run.json"), ("25", "run.jsonl")])
def test_logged_answers_and_facts_become_a_run_that_passes(
    year: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, file = tmp_path / "results", tmp_path / name
    options = ["--model", "ragtasks-oracle", "--data", "sample", "--encoder", "none", "--output", str(results)]
    for more in (["--tasks", f"ikat{year}_full_rag", "--run", "closed_book"], ["--tasks", f"ikat{year}_facts"]):
        with pytest.raises(SystemExit) as stop:
            main(["run", *options, *more])
        assert not stop.value.code
    arguments = ["submit", "--track", "ikat", "--results", str(results), "--run-id", "mine", "--team-id", "us"]
    for command in ([*arguments, "--output", str(file)], ["check", str(file), "--data", "sample"]):
        with pytest.raises(SystemExit) as stop:
            main(command)
        assert not stop.value.code
    printed = capsys.readouterr().out
    n = len(TOPICS[FileForm[f"IKAT_20{year}"]].tasks)
    assert f"TREC iKAT 20{year}, {n} turns, facts chosen for {n}" in printed
    assert "0 problems" in printed


def test_results_of_other_benchmarks_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["submit", "--track", "ikat", "--results", str(tmp_path), "--output", str(tmp_path / "run.json")])
    assert stop.value.code
    assert "give --results and --run-id" in capsys.readouterr().err
