"""Files of TREC RAG 2026 and RAGTIME 2026: told from others, and checked line by line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.cli import main
from ragtasks.submissions import FileForm, Report, form_of_file
from ragtasks.submissions.reports_2026 import check_reports

Row = dict[str, Any]
DOCUMENTS = [f"00000000-0000-4000-8000-00000000000{n}_1" for n in range(5)]


def rag(topic: str = "1") -> Row:
    """Return an answer of RAG that has no error."""
    metadata = {"team_id": "us", "narrative_id": topic, "narrative": "Why?", "run_id": "mine", "run_desc": "BM25"}
    answer = [{"text": "So.", "citations": [0]}, {"text": "And so.", "citations": []}]
    return {"metadata": metadata, "references": ["shard_00459_61697"], "answer": answer}


def ragtime(topic: str = "1") -> Row:
    """Return a report of RAGTIME that has no error."""
    metadata = {"team_id": "us", "topic_id": topic, "run_id": "mine", "run_desc": "BM25"}
    return {"metadata": metadata, "responses": [{"text": "So.", "citations": {DOCUMENTS[0]: 0.5}}]}


def checked(folder: Path, rows: list[Row], form: FileForm) -> Report:
    file = folder / "file.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert form_of_file(file) is form
    return check_reports(file, form)


def test_right_files_are_told_and_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for row, form in ((rag, FileForm.RAG_2026), (ragtime, FileForm.RAGTIME_2026)):
        report = checked(tmp_path, [row("1"), row("2")], form)
        assert (report.findings, report.n_rows, report.passes) == ((), 2, True)
        with pytest.raises(SystemExit) as stop:
            main(["check", str(tmp_path / "file.jsonl")])
        assert not stop.value.code
        assert f"{form.value}, 2 lines: 0 problems" in capsys.readouterr().out


@pytest.mark.parametrize(("edit", "rule", "passes"), [
    (lambda row: row["metadata"].update(narrative=""), "metadata", False),
    (lambda row: row["metadata"].update(run_id=".mine"), "run_id", False),
    (lambda row: row["metadata"].update(run_id="m" * 21), "run_id", False),
    (lambda row: row.pop("references"), "references", False),
    (lambda row: row["answer"][0].pop("text"), "sentence", False),
    (lambda row: row["answer"][0].update(citations=[1]), "citation", False),
    (lambda row: row["answer"][0].update(citations=["shard_1_1"]), "citation", False),
    (lambda row: row["answer"][0].update(citations={"shard_00459_61697": 1}), "citation", False),
    (lambda row: row.update(references=["doc1"]), "document_id", False),
    (lambda row: row["answer"][1].update(text="word " * 1025), "n_words", False),
    (lambda row: row["answer"][0].update(citations=[0, 0, 0, 0]), "n_citations", True),
    (lambda row: row["references"].append("shard_1_1"), "uncited_reference", True),
    (lambda row: row["references"].append("shard_00459_61697"), "duplicate_reference", True),
    (lambda row: row.update(answer=[], references=[]), "no_sentences", True),
])  # fmt: skip
def test_what_is_wrong_with_an_answer_is_found(
    edit: Callable[[Row], object], rule: str, passes: bool, tmp_path: Path
) -> None:
    row = rag("2")
    edit(row)
    report = checked(tmp_path, [rag("1"), row], FileForm.RAG_2026)
    assert (2, rule) in [(one.line, one.rule) for one in report.findings]
    assert report.passes is passes


@pytest.mark.parametrize(("edit", "rule", "passes"), [
    (lambda row: row["responses"][0].update(citations={DOCUMENTS[0]: "high"}), "citation", False),
    (lambda row: row["responses"][0].update(citations=[0]), "citation", False),
    (lambda row: row["responses"][0].update(citations=["doc1"]), "document_id", False),
    (lambda row: row["responses"][0].update(citations=DOCUMENTS), "n_citations", True),
    (lambda row: row["metadata"].pop("run_desc"), "run_description", True),
    (lambda row: row.update(references="all"), None, True),
])  # fmt: skip
def test_what_is_wrong_with_a_report_is_found(
    edit: Callable[[Row], object], rule: str | None, passes: bool, tmp_path: Path
) -> None:
    row = ragtime("2")
    edit(row)
    report = checked(tmp_path, [ragtime("1"), row], FileForm.RAGTIME_2026)
    assert [one.rule for one in report.findings] == [rule] * (rule is not None)
    assert report.passes is passes


def test_all_that_is_wrong_with_a_line_is_found_at_once_with_its_topic(tmp_path: Path) -> None:
    row = rag("2")
    row["answer"] = ["So.", {"text": "So.", "citations": [9]}, {"text": "So.", "citations": [0] * 4}]
    assert [str(one) for one in checked(tmp_path, [rag("1"), row], FileForm.RAG_2026).findings] == [
        'line 2 (2): problem sentence: expected answer[0] with a `text`, found "So." [the track rejects it]',
        "line 2 (2): problem citation: expected answer[1] with `citations` as positions in, or ids of, `references`, "
        "found [9] [the track rejects it]",
        "line 2 (2): warning n_citations: expected answer[2] with 3 citations at most, found 4 "
        "[the track judges the first 3]",
    ]


def test_a_topic_that_is_there_twice_is_rejected_by_one_track_alone(tmp_path: Path) -> None:
    assert not checked(tmp_path, [rag(), rag()], FileForm.RAG_2026).passes
    report = checked(tmp_path, [ragtime(), ragtime()], FileForm.RAGTIME_2026)
    assert ([one.rule for one in report.findings], report.passes) == (["repeated_topic"], True)


def test_a_line_that_is_no_object_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file.jsonl"
    file.write_text(json.dumps(rag()) + "\nnot JSON\n", encoding="utf-8")
    (finding,) = check_reports(file, FileForm.RAG_2026).findings
    assert (finding.line, finding.rule) == (2, "json")
