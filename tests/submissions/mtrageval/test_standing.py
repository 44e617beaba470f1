"""A ranking score is compared with the published ones of its task, under equal conditions only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.files import Manifest, read_manifest, write_manifest
from ragtasks.published import OFFICIAL_CORPUS_SIZES
from ragtasks.records import Setting
from ragtasks.results import SavedEvaluation, read_results
from ragtasks.submissions import SubmissionTask
from ragtasks.submissions.mtrageval._standing import searched_all, standing, standing_of_answers
from tests.submissions.mtrageval._files import sample, store_run, write_answers

ENCODER = "microsoft/deberta-xlarge-mnli"


@pytest.mark.parametrize(
    ("score", "place"),
    [
        (0.40, "0.4000 is below 0.4795 (baseline), below 0.5776 (rank 1 of 38 teams, AILS-NTUA)"),
        (0.55, "0.5500 is above 0.4795 (baseline), below 0.5776 (rank 1 of 38 teams, AILS-NTUA)"),
        (0.47954, "0.4795 is equal to 0.4795 (baseline), below 0.5776 (rank 1 of 38 teams, AILS-NTUA)"),
        (0.47946, "0.4795 is equal to 0.4795 (baseline), below 0.5776 (rank 1 of 38 teams, AILS-NTUA)"),
        (0.60, "0.6000 is above 0.4795 (baseline), above 0.5776 (rank 1 of 38 teams, AILS-NTUA)"),
    ],
)
def test_a_score_lies_below_between_or_above_baseline_and_best(score: float, place: str) -> None:
    (line,) = standing(SubmissionTask.A, "mtrag_un", 332, score)
    assert line.startswith(f"MTRAGEval task A: {place}; https://")


@pytest.mark.parametrize(
    ("benchmark", "n", "score"),
    [
        ("mtrag", 332, 0.5),
        ("mtrag_un (sample)", 332, 0.5),
        ("mtrag_un", 331, 0.5),
        ("mtrag_un", 332, None),
        ("", 332, 0.5),
    ],
)
def test_other_data_and_missing_scores_have_no_line(benchmark: str, n: int, score: float | None) -> None:
    assert list(standing(SubmissionTask.A, benchmark, n, score)) == []


def saved_with(folder: Path, encoder: str) -> SavedEvaluation:
    """Return saved answers of the sample whose scores have this encoder."""
    path = write_answers(folder, sample("mtrag_un"), Setting.REFERENCE)
    saved = read_results(path, folder, {})
    scoring = {"encoder": encoder, "judges": "openai/gpt-oss-120b"}
    tasks = tuple(replace(task, provenance={**task.provenance, "scoring": scoring}) for task in saved.tasks)
    return replace(saved, tasks=tasks)


def columns(n: int, last: float | None = 0.5) -> dict[str, list[float | None]]:
    return {name: [0.5] * (n - 1) + [last] for name in ("rl_f", "rb_llm", "rb_alg")}


def test_answers_with_every_official_score_are_compared(tmp_path: Path) -> None:
    saved = saved_with(tmp_path, ENCODER)
    (line,) = standing_of_answers(SubmissionTask.B, "mtrag_un", saved, columns(507))
    assert "task B: 0.5000 is below 0.6390 (baseline gpt-oss-120b), below 0.7827 (rank 1 of 26 teams, RaguTeam)" in line
    assert "judged by openai/gpt-oss-120b" in line
    (line,) = standing_of_answers(SubmissionTask.C, "mtrag_un", saved, columns(507))
    assert "task C: 0.5000 is below 0.5366 (baseline), below 0.5796 (rank 2 of 29 teams" in line


def test_an_unscored_task_or_another_encoder_has_no_line(tmp_path: Path) -> None:
    saved = saved_with(tmp_path, ENCODER)
    assert list(standing_of_answers(SubmissionTask.B, "mtrag_un", saved, columns(507, None))) == []
    other = saved_with(tmp_path / "other", "minilm")
    assert list(standing_of_answers(SubmissionTask.B, "mtrag_un", other, columns(507))) == []


def test_a_run_over_smaller_corpora_is_not_comparable(tmp_path: Path) -> None:
    benchmark = sample("mtrag_un")
    for name, n in (("complete", OFFICIAL_CORPUS_SIZES["govt"]), ("smaller", 1_258)):
        store_run(tmp_path, name, benchmark, {})
        folder = tmp_path / "runs" / name
        spec = {**read_manifest(folder).spec, "corpora": {"govt": {"n_passages": n}}}
        write_manifest(folder, Manifest(name, spec))
    assert searched_all(tmp_path, "complete", benchmark)
    assert not searched_all(tmp_path, "smaller", benchmark)
    assert searched_all(tmp_path, "passages-of-another-system", benchmark)
