"""Models that search while they answer: what that gained over passages handed over, what they did and found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtasks.metrics import Metric
from ragtasks.records import Setting
from ragtasks.reports.tables._losses import means_of_pairs
from ragtasks.reports.tables._scores import mean_of, row_slices
from ragtasks.results import Evaluation, ScoredAnswer, gold_model, has_own_history
from ragtasks.statistics import estimate_mean
from ragtasks.suites import AGENTIC, FOLLOWED, suite_named
from ragtasks.tables import Cell, Table

_DIMENSIONS = ("all", "answerability", "turn")
_MOST_CALLS = 10
_GAIN_NOTE = (
    "On the tasks that both settings scored, with 95 % intervals over conversations. In full_rag passages are handed "
    "over; in agentic the model searches, and other passages, prompts and requests may each make the difference."
)
_DID_NOTE = "Means over the tasks of the setting agentic, with 95 % intervals over conversations (docs/agentic.md)."
_INJECTED_NOTE = (
    "One passage more, which asks for a token, in a share of prompts and searches; followed: the share of the answers "
    "that saw one and hold its token, with a 95 % interval over conversations (docs/agentic.md)."
)
_RECALL_NOTE = (
    "Share of the relevant passages that the model had seen after so many calls, mean over the judged tasks; a task "
    "that stopped before counts with what it had seen."
)


def gain_tables(evaluations: Sequence[Evaluation], metric: Metric) -> Iterator[Table]:
    """Yield full RAG beside agentic for each model that has both."""
    for agentic in evaluations:
        for given in evaluations:
            if gold_model(agentic) == gold_model(given) and has_own_history(agentic) == has_own_history(given):
                yield from _gain(given, agentic, metric)


def recall_tables(evaluations: Sequence[Evaluation]) -> Iterator[Table]:
    """Yield recall after each call, where any model searched."""
    searched = [item for item in evaluations if any(map(_is_judged, item.rows))]
    if searched:
        yield _recall_table(searched)


def behaviour_tables(evaluations: Sequence[Evaluation]) -> Iterator[Table]:
    """Yield what models did before they answered, where any searched, and what became of injected passages."""
    agentic = {item.model: [row for row in item.rows if row.setting == Setting.AGENTIC.value] for item in evaluations}
    agentic = {model: rows for model, rows in agentic.items() if rows}
    lines = [
        (metric.name, metric.description, *(_mean(rows, metric) for rows in agentic.values()))
        for metric in suite_named(AGENTIC).metrics
        if any(row.values.get(metric.name) is not None for rows in agentic.values() for row in rows)
    ]
    if lines:
        yield Table("What models did that search", ("metric", "what it is", *agentic), tuple(lines), _DID_NOTE)
    yield from _injected_table(evaluations)


def _mean(rows: Sequence[ScoredAnswer], metric: Metric) -> Cell:
    return mean_of(rows, metric.name, metric.bounds) if any(metric.name in row.values for row in rows) else "-"


def _injected_table(evaluations: Sequence[Evaluation]) -> Iterator[Table]:
    """Yield how many answers saw an injected passage, and the share of these that followed it."""
    lines: list[tuple[Cell, ...]] = []
    for item in evaluations:
        for setting in dict.fromkeys(row.setting for row in item.rows):
            rows = [row for row in item.rows if row.setting == setting]
            saw = [row for row in rows if row.values.get(FOLLOWED) is not None]
            if saw:
                lines.append((setting, item.model, len(rows), len(saw), mean_of(saw, FOLLOWED, (0.0, 1.0))))
    if lines:
        yield Table("Injected passages", ("setting", "model", "n", "saw one", "followed"), tuple(lines), _INJECTED_NOTE)


def _gain(given: Evaluation, agentic: Evaluation, metric: Metric) -> Iterator[Table]:
    full = {row.task.task_id: row for row in given.rows if row.setting == Setting.FULL_RAG.value}
    searching = [row for row in agentic.rows if row.setting == Setting.AGENTIC.value and row.task.task_id in full]
    pairs = [(full[row.task.task_id], row) for row in searching]
    if not any(metric.name in row.values for pair in pairs for row in pair):
        return
    rows: list[tuple[Cell, ...]] = []
    for part in row_slices(searching):
        if part.dimension in _DIMENSIONS:
            chosen = [pair for pair in pairs if part.holds(pair[1])]
            rows.append((part.dimension, part.value, len(chosen), *means_of_pairs(chosen, metric)))
    names = given.model if given.model == agentic.model else f"{given.model} beside {agentic.model}"
    heads = ("dimension", "value", "n", "full_rag", "agentic", "difference")
    yield Table(f"What searching gained in {metric.name}: {names}", heads, tuple(rows), _GAIN_NOTE)


def _recall_table(evaluations: Sequence[Evaluation]) -> Table:
    judged = [[row for row in item.rows if _is_judged(row)] for item in evaluations]
    most = min(_MOST_CALLS, max(len(row.recall_after) - 1 for rows in judged for row in rows))
    calls = range(1, max(most, 1) + 1)
    cells = tuple(
        (item.model, len(rows), *(_recall(rows, n) for n in calls))
        for item, rows in zip(evaluations, judged, strict=True)
    )
    heads = ("model", "n", *(f"{n} call" if n == 1 else f"{n} calls" for n in calls))
    return Table("Recall after each call", heads, cells, _RECALL_NOTE)


def _is_judged(row: ScoredAnswer) -> bool:
    """Return whether a row counts: a system that retrieves for itself may say its searches in full RAG too."""
    return row.setting == Setting.AGENTIC.value and bool(row.recall_after)


def _recall(rows: Sequence[ScoredAnswer], n_calls: int) -> Cell:
    values = [row.recall_after[min(n_calls, len(row.recall_after) - 1)] for row in rows]
    return estimate_mean(values, [row.task.conversation_id for row in rows], (0.0, 1.0)).cell
