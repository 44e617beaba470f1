"""From what the harness logged to an answer file that the track takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.logs import evaluation_files, read_results
from ragtasks.records import Response
from ragtasks.submissions.trec_rag._answers import answer_of, write_answers
from ragtasks.submissions.trec_rag._check import check_lines

BENCHMARK = "trec_rag24"


def logged_responses(path: Path, domain: str) -> list[Response]:
    """Return the logged answers to one set of topics, of the one evaluation at a path.

    Raises:
        BenchmarkFileError: there is no evaluation, more than one, or no answer to the set in it.
    """
    results, _ = evaluation_files(path)
    saved = [read_results(file, Path(), {}) for file in results]
    found = [
        [response for task in one.tasks if task.benchmark == BENCHMARK for response in task.responses] for one in saved
    ]
    chosen = [[response for response in responses if response.task.domain == domain] for responses in found]
    chosen = [responses for responses in chosen if responses]
    if len(chosen) == 1:
        return chosen[0]
    message = clear_error(
        "logged answers",
        where=str(path),
        expected=f"one evaluation of {BENCHMARK} with answers to the set {domain}",
        found=f"{len(chosen)} of them",
        next_step=f"name the results file of one; evaluate with --tasks {BENCHMARK} --log_samples --output_path DIR",
    )
    raise BenchmarkFileError(message)


def build_answers(
    responses: Sequence[Response], topics: Mapping[str, str], run_id: str, output: Path, *, cut: bool = False
) -> list[str]:
    """Write an answer file that has no errors, and return what its reader should know, line by line.

    Args:
        responses: one a topic.
        topics: topic id -> text.
        run_id: name of the run.
        output: file to write.
        cut: cut answers to 400 words.

    Raises:
        BenchmarkFileError: the file would have errors; nothing is written.
        CacheError: it cannot be written.
    """
    answers = [answer_of(response, run_id, cut=cut) for response in responses]
    checked = check_lines([json.dumps(answer.row()).encode() for answer in answers], topics)
    if checked.n_errors:
        errors = [str(remark) for remark in checked.remarks if remark.is_error]
        message = clear_error(
            "answer file",
            where=str(output),
            expected="a file that the track takes",
            found="\n    ".join(errors[:20]),
            next_step="fix what the lines name and build it again; nothing was written",
        )
        raise BenchmarkFileError(message)
    n_left_out = sum(len(sentence.invalid) for answer in answers for sentence in answer.sentences)
    write_answers(output, answers)
    notes = [f"{n_left_out} citations name no passage and were left out"] if n_left_out else []
    return [*map(str, checked.remarks), *notes, f"wrote {output}: {checked.summary()}"]


__all__ = ["BENCHMARK", "build_answers", "logged_responses"]
