"""The summary of a scored system: one line of values, and what to distrust in them."""

from __future__ import annotations

from collections.abc import Iterator

from ragtasks.reports.tables import summary_section
from ragtasks.results import read_evaluations
from ragtasks.scoring import SystemScores
from ragtasks.tables import Format, render


def describe_scores(done: SystemScores) -> str:
    """Return the values, what is missing, and the files written."""
    (evaluation,) = read_evaluations([done.file])
    implausible = [line for checked in done.checked for line in checked.lines]
    section = summary_section(evaluation, done.n_answers, done.n_tasks)
    return "\n".join(
        [render([section], Format.MARKDOWN).rstrip("\n"), "", *implausible, *score_notes(done), f"wrote {done.file}"]
    )


def score_notes(done: SystemScores) -> Iterator[str]:
    """Yield what is missing or rests on nothing, a line each."""
    if done.missing:
        where = ", ".join(f"{domain} {n}" for domain, n in done.missing.items())
        n = sum(done.missing.values())
        yield f"missing: {n} of {done.n_tasks} tasks have no answer ({where}); no mean above counts them"
    if done.n_left:
        yield f"left: {done.n_left} needs were not come to, as the simulated user had left; they count as not met"
    if done.n_undecided:
        yield f"undecided: {done.n_undecided} needs, as their conversations broke off; the samples hold the reasons"
    if done.n_failed:
        yield f"failed: {done.n_failed} requests got no answer; the samples hold the reasons"
    if done.n_without:
        yield f"contexts: {done.n_without} of {done.n_answers} answers rest on none; nothing there can be faithful"
    if done.n_searched and not done.is_agentic:
        yield f"searches: {done.n_searched} of {done.n_answers} answers say theirs; --setting agentic scores them"
    if done.n_searched < done.n_answers and done.is_agentic and (done.n_searched or not done.is_own_rows):
        n = done.n_answers - done.n_searched
        yield f"searches: {n} of {done.n_answers} answers do not say theirs (`searches`); these have no search scores"
    if n_bare := done.n_answers - done.n_own_contexts:
        rest = "name none" if done.is_own_rows else "have none and are scored against the setting's"
        yield f"contexts: {n_bare} of {done.n_answers} answers {rest}"
