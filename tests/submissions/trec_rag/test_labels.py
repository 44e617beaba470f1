"""Runs scored by existing labels: by hand, and NIST's files compared with the track's own tool."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks.trec_rag import read_assignments, read_support
from ragtasks.submissions.trec_rag import (
    assigned_runs,
    assigned_runs_official,
    labelled_tables,
    supported_runs,
    write_labelled,
)
from tests._commands import run_command
from tests.conftest import MTRAG_CHECKOUT, REAL_DATA

NIST = REAL_DATA / "trec_rag" / "nist"
ASSIGNMENTS = NIST / "nugget_assignment.20241108.jl"
SUPPORT = NIST / "final.citation_judgments_with_prediction.20241025.jsonl"
FORMULAS = MTRAG_CHECKOUT.parent / "nuggetizer" / "src" / "nuggetizer" / "core" / "metrics.py"


@pytest.fixture
def official() -> Any:
    """The formulas of castorini/nuggetizer, executed unchanged, or a skip."""
    if not FORMULAS.is_file():
        pytest.skip(f"no checkout of castorini/nuggetizer: nothing at {FORMULAS}")
    spec = importlib.util.spec_from_file_location("nuggetizer_metrics", FORMULAS)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # required by dataclasses
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def nist() -> Path:
    if not NIST.is_dir():
        pytest.skip(f"no real TREC RAG labels at {NIST}")
    return NIST


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def assignment(run_id: str, topic_id: str, *labels: str) -> dict[str, Any]:
    nuggets = [
        {"text": f"fact {n}", "importance": "okay" if n else "vital", "assignment": label}
        for n, label in enumerate(labels)
    ]
    return {
        "query": "q",
        "qid": topic_id,
        "run_id": run_id,
        "answer_text": "",
        "response_length": 0,
        "nuggets": nuggets,
    }


def judged(run_id: str, topic_id: str, *labels: str | None) -> dict[str, Any]:
    sentences = [{"text": "s", "citations": [] if label is None else [{"support": label}]} for label in labels]
    return {"topic_id": topic_id, "run_id": run_id, "sentences": sentences}


def test_a_run_is_scored_by_its_labels_and_incomplete_runs_are_listed_last(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        assignment("half", "1", "support", "not_support"),
        assignment("whole", "1", "partial_support", "support"),
        assignment("whole", "2", "not_support", "support"),
    )
    table, at_zero = labelled_tables("Nuggets", assigned_runs(read_assignments(path)))
    assert [(row[0], row[1]) for row in table.rows] == [("whole", "2 of 2"), ("half", "1 of 2")]
    means = [[cell.value for cell in row[2:] if not isinstance(cell, str | int)] for row in table.rows]
    assert means[0][:4] == [0, 0.5, 0.25, 0.625]
    assert means[1][:4] == [1, 0.5, 1, 0.5]
    assert [cell.value for cell in at_zero.rows[0][2:4] if not isinstance(cell, str | int)] == [0.5, 0.25]


def test_failed_nuggets_have_no_value_but_count_0_by_the_track_s_convention(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", assignment("r", "1", "failed", "support"), assignment("r", "2", "support"))
    given = read_assignments(path)
    (paths,) = write_labelled(tmp_path, {"m.jsonl": assigned_runs(given)})
    rows = [json.loads(line) for line in paths.read_text().splitlines()]
    assert [(row["qid"], row["all_score"]) for row in rows] == [("1", None), ("2", 1), ("all", 1)]
    assert assigned_runs_official(given).mean("r", "all_score").value == 0.75


def test_support_uses_first_citations(tmp_path: Path) -> None:
    rows = (judged("r", "1", "1", "2", None), judged("r", "2", None), judged("r", "3", "0"))
    runs = supported_runs(read_support(written(tmp_path / "s.jsonl", *rows)))
    assert runs.values["r"]["1"] == {"support_precision": 0.75, "support_recall": 0.5}
    assert runs.values["r"]["2"] == {"support_precision": None, "support_recall": 0}
    assert runs.mean("r", "support_precision").value == 0.375


def test_a_citation_with_label_minus_one_is_unjudged_and_counted(tmp_path: Path) -> None:
    first, second = judged("r", "1", "2", "-1", None), judged("r", "2", "-1")
    first["sentences"][0]["citations"].append({"support": "-1"})
    path = written(tmp_path / "s.jsonl", first, second)
    given = read_support(path)
    assert [judgement.n_not_judged for judgement in given] == [2, 1]
    runs = supported_runs(given)
    # As in NIST's evaluation, such a sentence is in no denominator, while a sentence without citation counts in recall.
    assert runs.values["r"]["1"] == {"support_precision": 1.0, "support_recall": 0.5}
    assert runs.values["r"]["2"] == {"support_precision": None, "support_recall": None}
    done = run_command("score", path)
    assert done.status == 0
    assert "Citations not judged: 3. Of these 2 are the first in a sentence" in done.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["FILE", "FILE"], "at most one of each type"),
        (["FILE", "--judge", "openai/x"], "human labels require neither"),
        (["FILE"], "support` as 0, 1 or 2"),
    ],
)
def test_incompatible_options_are_refused(options: list[str], message: str, tmp_path: Path) -> None:
    file = written(tmp_path / "f.jsonl", judged("r", "1", "3"))
    done = run_command("score", *(file if word == "FILE" else word for word in options))
    assert done.status == 1
    assert message in done.err


def test_nist_s_assignments_give_the_scores_of_the_track_s_own_tool(nist: Path, official: Any) -> None:
    rows = [json.loads(line) for line in ASSIGNMENTS.read_text(encoding="utf-8").splitlines()]
    given = read_assignments(ASSIGNMENTS)
    ours, as_tool = assigned_runs(given), assigned_runs_official(given)
    assert (len(given), len(ours.values), ours.n_topics) == (927, 45, 21)
    for row in rows:
        expected = vars(official.calculate_nugget_scores(row["qid"], row["nuggets"]))
        for runs in (ours, as_tool):
            scores = runs.values[row["run_id"]][row["qid"]]
            assert all(scores[name] == pytest.approx(expected[name], abs=1e-12) for name in as_tool.names)
    for run_id in ours.values:
        mean = official.calculate_global_metrics([row for row in rows if row["run_id"] == run_id])
        for name in as_tool.names:
            assert as_tool.mean(run_id, name).value == pytest.approx(mean[name], abs=1e-12)


def test_nist_s_judgements_are_read_and_counted_again(nist: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in SUPPORT.read_text(encoding="utf-8").splitlines()]
    runs = supported_runs(read_support(SUPPORT))
    assert (len(rows), len(runs.values), runs.n_topics) == (585, 45, 14)
    for row in rows:
        levels = [int(sentence["citations"][0]["support"]) for sentence in row["sentences"] if sentence["citations"]]
        scores = runs.values[row["run_id"]][row["topic_id"]]
        assert scores["support_recall"] == pytest.approx(sum(levels) / 2 / len(row["sentences"]))
        assert scores["support_precision"] == (pytest.approx(sum(levels) / 2 / len(levels)) if levels else None)
    done = run_command("score", SUPPORT, ASSIGNMENTS)
    assert done.status == 0
    assert "ldilab_gpt_4o" in done.out
