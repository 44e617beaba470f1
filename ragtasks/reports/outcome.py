"""The end of a command's output: scores of a system, decision between systems, duration and failures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragtasks.errors import excerpt
from ragtasks.judges import UNASKED, VerdictOutcome
from ragtasks.metrics import TurnErrorKind
from ragtasks.records import Setting
from ragtasks.reports.tables import spending_line, summary_section
from ragtasks.results import Evaluation, read_evaluations
from ragtasks.scoring import Decided, SystemScores
from ragtasks.statistics import Look, Race, RaceEnd, detectable_difference
from ragtasks.tables import Format, Value, fixed, markdown_table, plain, render

_HOLDS = "The interval is valid for repeated testing."
_TOO_FAR = "Stopping early tends to overestimate the difference."


def decision_text(decided: Decided) -> str:
    """Return the decision with its difference and its cost. More than two systems are listed in a table."""
    columns = ("system", f"{decided.metric.name}, if judged", "answers judged", "standing")
    rows = [
        (name, Value(decided.means[name], n, n), f"{n} of {decided.n_answers}", _standing(decided.race, name))
        for name, n in decided.n_asked.items()
    ]
    table = ["", *markdown_table(columns, rows)] if len(rows) > 2 else []
    return "\n".join([*race_lines(decided.race, decided.metric.name), *_request_lines(decided), *decided.notes, *table])


def wave_text(race: Race) -> str:
    """Return one line about a race after a wave."""
    state = "decided" if race.verdict in {RaceEnd.BETTER, RaceEnd.EQUAL} else "not decided"
    gaps = "; ".join(_gap(look) for look in race.looks[:3])
    more = f"; and {len(race.looks) - 3} more pairs" if len(race.looks) > 3 else ""
    return f"{race.n_items} of {len(race.order)} tasks, {state}: {gaps}{more}"


def race_lines(race: Race, measure: str) -> Iterator[str]:
    """Yield the end of a race, and the limits of its result."""
    yield race.conclusion(measure)
    yield from (f"  {_gap(look)}" for look in _decisive(race))
    if race.verdict is RaceEnd.BETTER:
        yield f"  {_HOLDS} {_TOO_FAR}" if race.n_items < len(race.order) else f"  {_HOLDS}"
    if race.verdict is RaceEnd.UNDECIDED:
        yield from _limit_lines(race)


def _request_lines(decided: Decided) -> Iterator[str]:
    """Yield the share of the judging that the decision required."""
    race = decided.race
    n_asked, n_all = sum(decided.n_asked.values()), decided.n_answers * len(decided.n_asked)
    yield (
        f"requested: {decided.n_verdicts:,} verdicts of {', '.join(decided.judges)}, on {n_asked:,} of {n_all:,} "
        f"answers ({_percent(n_asked / n_all)}) in {decided.setting}"
    )
    if decided.left_out:
        yield f"not requested: {', '.join(decided.left_out)}, which {decided.metric.name} does not use"
    if decided.n_settled:
        yield f"settled without a judge: {decided.n_settled:,} more, by refusals and answerability"
    n_rest = n_all - n_asked - decided.n_settled
    if n_rest:
        n_left = len(race.order) - race.n_items
        out = " and on eliminated systems" if n_rest > n_left * len(decided.n_asked) else ""
        share = _percent(n_rest / n_all)
        yield f"not judged: {n_rest:,} answers ({share}), on {n_left:,} of {len(race.order):,} tasks{out}"


def _decisive(race: Race) -> list[Look]:
    """Return the comparisons behind the conclusion: among the remaining systems, or those that the best one won."""
    left = set(race.remaining)
    return [look for look in race.looks if {look.first, look.second} <= left] or list(race.eliminated.values())


def _limit_lines(race: Race) -> Iterator[str]:
    look = max(_decisive(race), key=lambda look: look.difference.standard_error or 0.0)
    size = detectable_difference(look.difference)
    if size is not None:
        least = size * math.sqrt(race.n_items / len(race.order))
        yield (
            f"  Even all {len(race.order)} tasks would detect a true difference below {least:.3f} with less than 80 % "
            "power; that requires more conversations"
        )


def _gap(look: Look) -> str:
    difference = look.difference
    if difference.value is None:
        return f"{look.second} minus {look.first}: {difference.reason}"
    interval = f" (no interval: {difference.reason})"
    if difference.low is not None and difference.high is not None:
        interval = f" [{difference.low:+.3f}, {difference.high:+.3f}]"
    left_out = f", {difference.n_unscored} without a score" if difference.n_unscored else ""
    return (
        f"{look.second} minus {look.first}: {difference.value:+.3f}{interval}, {difference.n_values} tasks of "
        f"{difference.n_clusters} conversations{left_out}"
    )


def _standing(race: Race, name: str) -> str:
    look = race.eliminated.get(name)
    if look is None:
        return "best" if race.verdict is RaceEnd.BETTER else "undecided"
    gap = abs(look.difference.value or 0.0)
    return f"out after {look.n_items} tasks: {fixed(gap)} behind {look.better}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


# Course of an evaluation: duration, requests, tokens, and one answer as an example.

_LONGEST_TEXT = 180  # characters: two lines of a terminal
_WITH_VERDICT = {outcome.value for outcome in (VerdictOutcome.GIVEN, VerdictOutcome.NO_STATEMENTS)}
_WITHOUT_REQUEST = {outcome.value for outcome in UNASKED}


def work_lines(evaluations: Sequence[Evaluation], seconds: float) -> Iterator[str]:
    """Yield the duration, the number of requests and of failures, and the tokens if they were counted."""
    rows = [row for evaluation in evaluations for row in evaluation.rows]
    n_failed = sum(bool(row.response.no_answer) for row in rows)
    outcomes = [verdict.get("outcome") for row in rows for verdict in row.verdicts]
    requested = [outcome for outcome in outcomes if outcome not in _WITHOUT_REQUEST]
    n_lost = sum(outcome not in _WITH_VERDICT for outcome in requested)
    judged = f"; judges: {len(requested):,} requests, {n_lost:,} without a verdict" if requested else ""
    yield f"took {duration_text(seconds)}: {len(rows):,} answers, {n_failed:,} failed{judged}"
    calls: dict[str, list[Mapping[str, Any]]] = {}
    for name, used in [pair for row in rows for pair in row.spending.items()]:
        calls.setdefault(name, []).extend(used)
    yield from (f"tokens, {name}: {line}" for name, used in calls.items() if (line := spending_line(used)))


def duration_text(seconds: float) -> str:
    """Return a duration in its two largest units."""
    minutes, seconds_left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds_left} s" if minutes else f"{seconds_left} s"
    )


def example_lines(evaluations: Sequence[Evaluation]) -> Iterator[str]:
    """Yield one wrong answer with its question and reference: the lowest main score, preferably in full RAG."""
    wrong = [row for evaluation in evaluations for row in evaluation.rows if row.turn_error_kind or row.implausible]
    if not wrong:
        return
    main = next((metric.name for metric in evaluations[0].metrics if wrong[0].values.get(metric.name) is not None), "")
    in_full_rag = [row for row in wrong if row.setting == Setting.FULL_RAG] or wrong
    worst = min(in_full_rag, key=lambda row: value if (value := row.values.get(main)) is not None else 2.0)
    error = next((kind.label for kind in TurnErrorKind if kind.value == worst.turn_error_kind), "implausible answer")
    yield f"example of {error} ({worst.task.task_id}):"
    reference = worst.task.target or "none"
    texts = {"question": worst.task.question, "answer": worst.response.as_given, "reference": reference}
    for name, text in texts.items():
        yield f"  {name + ':':<10} {excerpt(plain(' '.join(text.split())), _LONGEST_TEXT)}"


# Summary of a scored system: one line of scores, and warnings.


def describe_scores(done: SystemScores) -> str:
    """Return the scores, the missing parts, and the written file."""
    (evaluation,) = read_evaluations([done.file])
    implausible = [line for checked in done.checked for line in checked.lines]
    section = summary_section(evaluation, done.n_answers, done.n_tasks)
    return "\n".join(
        [render([section], Format.MARKDOWN).rstrip("\n"), "", *implausible, *score_notes(done), f"wrote {done.file}"]
    )


def score_notes(done: SystemScores) -> Iterator[str]:
    """Yield one line per missing part or answer without contexts."""
    if done.missing:
        domains = ", ".join(f"{domain} {n}" for domain, n in done.missing.items())
        n = sum(done.missing.values())
        yield f"missing: {n} of {done.n_tasks} tasks have no answer ({domains}) and are in no mean"
    if done.n_left_out:
        yield f"left out: answers to conversational tasks, which do not count ({done.n_left_out})"
    if done.n_failed:
        yield f"failed: {done.n_failed} requests failed; the samples contain the reasons"
    if done.n_without:
        yield f"contexts: {done.n_without} of {done.n_answers} answers have no passages, so they cannot be faithful"
    if done.n_searched and not done.is_agentic:
        yield f"searches: {done.n_searched} of {done.n_answers} answers contain searches; --setting agentic scores them"
    if done.n_searched < done.n_answers and done.is_agentic and (done.n_searched or not done.is_own_rows):
        n = done.n_answers - done.n_searched
        yield f"searches: {n} of {done.n_answers} answers have no `searches` and no search scores"
    if n_bare := done.n_answers - done.n_own_contexts:
        remark = "have no `contexts`" if done.is_own_rows else "have no `contexts` and are scored with the setting's"
        yield f"contexts: {n_bare} of {done.n_answers} answers {remark}"
