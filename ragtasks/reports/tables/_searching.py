"""Models that search while they answer: the gain over given passages, their searches and their recall."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ragtasks.metrics import Metric
from ragtasks.records import Setting
from ragtasks.reports.tables._losses import paired_rows
from ragtasks.reports.tables._own_history import means_of_pairs
from ragtasks.reports.tables._scores import by_setting, has_values, mean_of, row_slices
from ragtasks.results import Evaluation, ScoredAnswer, bare_model_name, has_own_history
from ragtasks.statistics import estimate_mean
from ragtasks.suites import AGENTIC, FOLLOWED, suite_named
from ragtasks.tables import Cell, Table, table_of

_DIMENSIONS = ("all", "answerability", "turn")
_MOST_CALLS = 10
_GAIN_NOTE = (
    "On the tasks that both settings scored, with 95 % intervals over conversations. In full_rag the prompt contains "
    "the passages; in agentic the model searches. Passages, prompts and requests differ, and each may cause a "
    "difference."
)
_DID_NOTE = "Means over the tasks of the setting agentic, with 95 % intervals over conversations (docs/agentic.md)."
_INJECTED_NOTE = (
    "Some prompts and search results contain an injected passage that asks for a token in the answer. followed: share "
    "of the affected answers that contain the token, with a 95 % interval over conversations (docs/agentic.md)."
)
_RECALL_NOTE = (
    "Share of the relevant passages that the model had received after each number of calls: mean over the judged "
    "tasks. A task with fewer calls counts with its final share."
)


def gain_tables(evaluations: Sequence[Evaluation], metric: Metric) -> Iterator[Table]:
    """Yield the comparison of full RAG and agentic for each model with both settings."""
    for agentic in evaluations:
        for full_rag in evaluations:
            is_same_model = bare_model_name(agentic) == bare_model_name(full_rag)
            if is_same_model and has_own_history(agentic) == has_own_history(full_rag):
                yield from _gain(full_rag, agentic, metric)


def recall_tables(evaluations: Sequence[Evaluation]) -> Iterator[Table]:
    """Yield recall after each call, if a model searched."""
    judged = [
        ((evaluation.model,), rows) for evaluation in evaluations if (rows := list(filter(_is_judged, evaluation.rows)))
    ]
    if judged:
        most = min(_MOST_CALLS, max(len(row.recall_after) - 1 for _, rows in judged for row in rows))
        columns = {f"{n} call{'s' if n > 1 else ''}": partial(_recall, n_calls=n) for n in range(1, max(most, 1) + 1)}
        yield table_of("Recall after each call", ("model",), judged, {"n": len, **columns}, _RECALL_NOTE)


def behaviour_tables(evaluations: Sequence[Evaluation]) -> Iterator[Table]:
    """Yield the models' actions before the answer, if a model searched, and the effect of injected passages."""
    agentic = {model: rows for (setting, model), rows in by_setting(evaluations) if setting == Setting.AGENTIC}
    lines: list[tuple[Cell, ...]] = []
    for metric in suite_named(AGENTIC).metrics:
        if any(has_values(rows, metric.name) for rows in agentic.values()):
            means = (
                mean_of(rows, metric.name, metric.bounds) if any(metric.name in row.values for row in rows) else "-"
                for rows in agentic.values()
            )
            lines.append((metric.name, metric.description, *means))
    if lines:
        yield Table("Behavior of models that search", ("metric", "description", *agentic), tuple(lines), _DID_NOTE)
    injected = [
        ((*names, len(rows)), injected_rows)
        for names, rows in by_setting(evaluations)
        if (injected_rows := [row for row in rows if row.values.get(FOLLOWED) is not None])
    ]
    if injected:
        columns: Mapping[str, Callable[[Sequence[ScoredAnswer]], Cell]] = {
            "injected": len,
            "followed": partial(mean_of, metric=FOLLOWED, bounds=(0.0, 1.0)),
        }
        yield table_of("Injected passages", ("setting", "model", "n"), injected, columns, _INJECTED_NOTE)


def _gain(full_rag: Evaluation, agentic: Evaluation, metric: Metric) -> Iterator[Table]:
    pairs = paired_rows(full_rag, Setting.FULL_RAG, agentic, Setting.AGENTIC)
    if not any(metric.name in row.values for pair in pairs for row in pair):
        return
    rows: list[tuple[Cell, ...]] = []
    for part in row_slices([row for _, row in pairs]):
        if part.dimension in _DIMENSIONS:
            chosen = [pair for pair in pairs if part.contains(pair[1])]
            rows.append((part.dimension, part.value, len(chosen), *means_of_pairs(chosen, metric)))
    names = full_rag.model if full_rag.model == agentic.model else f"{full_rag.model} and {agentic.model}"
    heads = ("dimension", "value", "n", "full_rag", "agentic", "difference")
    yield Table(f"Gain of searching in {metric.name}: {names}", heads, tuple(rows), _GAIN_NOTE)


def _is_judged(row: ScoredAnswer) -> bool:
    """Return whether a row is of the setting agentic and has relevant passages.

    A system with its own retriever may report searches in full RAG too, which do not count here.
    """
    return row.setting == Setting.AGENTIC.value and bool(row.recall_after)


def _recall(rows: Sequence[ScoredAnswer], n_calls: int) -> Cell:
    values = [row.recall_after[min(n_calls, len(row.recall_after) - 1)] for row in rows]
    return estimate_mean(values, [row.task.conversation_id for row in rows], (0.0, 1.0)).cell
