"""Conversion of logged answers to an answer file of the track."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragtasks.benchmarks.trec_rag import NARRATIVES
from ragtasks.errors import BenchmarkFileError
from ragtasks.records import Response
from ragtasks.results import evaluation_files, read_results
from ragtasks.submissions._findings import refuse_problems, render_text
from ragtasks.submissions.trec_rag._answer import answer_of, write_rows
from ragtasks.submissions.trec_rag._check import check_lines
from ragtasks.submissions.trec_rag._check_2025 import check_lines_2025, row_2025


def benchmark_of(domain: str) -> str:
    """Return the benchmark of a set of topics."""
    return "trec_rag25" if domain == NARRATIVES else "trec_rag24"


def logged_responses(path: Path, domain: str) -> list[Response]:
    """Return the logged answers to one set of topics, from the single evaluation at a path."""
    benchmark = benchmark_of(domain)
    results, _ = evaluation_files(path)
    saved = [read_results(file, Path(), {}) for file in results]
    responses_of = [
        [response for task in evaluation.tasks if task.benchmark == benchmark for response in task.responses]
        for evaluation in saved
    ]
    responses_to_set = [
        [response for response in responses if response.task.domain == domain] for responses in responses_of
    ]
    nonempty = [responses for responses in responses_to_set if responses]
    if len(nonempty) == 1:
        return nonempty[0]
    raise BenchmarkFileError(
        "logged answers",
        where=str(path),
        expected=f"one evaluation of {benchmark} with answers to the set {domain}",
        found=f"{len(nonempty)} evaluations",
        next_step=f"name a single results file; evaluate with --tasks {benchmark} --log_samples --output_path DIR",
    )


def build_answers(
    responses: Sequence[Response],
    topics: Mapping[str, str],
    run_id: str,
    output: Path,
    *,
    cut: bool = False,
    team_id: str = "",
) -> list[str]:
    """Write an answer file and return the lines of the report. Problems raise an error, and nothing is written."""
    answers = [answer_of(response, run_id, cut=cut) for response in responses]
    rows = [row_2025(answer, team_id) if team_id else answer.row() for answer in answers]
    check = check_lines_2025 if team_id else check_lines
    checked = check([json.dumps(row).encode() for row in rows], topics)
    next_step = "fix the listed problems and build it again; nothing was written"
    refuse_problems("answer file", output, checked.findings, next_step)
    n_left_out = sum(len(sentence.invalid) for answer in answers for sentence in answer.sentences)
    write_rows(output, rows)
    notes = [f"{n_left_out} citations of unknown passages were omitted"] if n_left_out else []
    return [*render_text(checked.report(output.name)), *notes, f"wrote {output}"]
