"""Null baselines: what a score is worth that a system without any skill would reach.

Models of ours (`ragtasks-...`) among the evaluations stand last in every table. What follows from the labels alone
needs no run: a system that always refuses, and one that refuses where it is given no passage and answers elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ragtasks.files import CLOSED_BOOK, OFFICIAL
from ragtasks.logs import Evaluation, Row, gold_model, value_at

CONDITIONED = ("rb_alg", "rb_llm", "rl_f", "ans_acc")
"""Metrics whose value for a refusal follows from the task's label (MTRAG paper, section 6.3.3)."""

_PREFIX = "ragtasks-"
_UNDERSPECIFIED = "UNDERSPECIFIED"
_RIGHT_REFUSAL = {"UNANSWERABLE": 1.0, "ANSWERABLE": 0.0, "PARTIAL": 0.0, _UNDERSPECIFIED: 0.0}


@dataclass(frozen=True, slots=True)
class _Rule:
    """A system that is described by its labels."""

    name: str
    """For the tables."""
    model: str
    """The model of ours that does the same in an evaluation; in a setting that it ran in, the rule is not needed."""
    values: Callable[[Row], dict[str, float | None]]
    """Row -> metric -> value."""
    reads_passages: bool = False
    """Whether it depends on the passages: then nothing follows from rows of a run without any."""


def _always(row: Row) -> dict[str, float | None]:
    refusal = _RIGHT_REFUSAL.get(row.answerability)
    asked = None if row.answerability == _UNDERSPECIFIED else refusal  # accuracy is not defined there
    return {**dict.fromkeys(CONDITIONED, refusal), "ans_acc": asked}


def _on_empty(row: Row) -> dict[str, float | None]:
    """Return how often refusing without passages is right; how good the answers to the rest are nobody knows."""
    if row.answerability not in _RIGHT_REFUSAL or row.answerability == _UNDERSPECIFIED:
        return {}
    return {"ans_acc": float((row.n_passages == 0) == (row.answerability == "UNANSWERABLE"))}


_RULES = (
    _Rule("refuse always (from the labels)", "ragtasks-refuse", _always),
    _Rule("refuse on empty (from the labels)", "ragtasks-refuse-on-empty", _on_empty, reads_passages=True),
)


def is_baseline(model: str) -> bool:
    """Return whether a model is one of our baselines, or a rule."""
    return model.startswith(_PREFIX) or any(rule.name == model for rule in _RULES)


def with_baselines(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return evaluations of one kind with the rules that nobody ran, models first, baselines last.

    Rules are made only where the metrics are conditioned on answerability.
    """
    models = [item for item in evaluations if not is_baseline(item.model)]
    given = [item for item in evaluations if is_baseline(item.model)]
    return [*models, *given, *_ruled(evaluations)]


def _ruled(evaluations: Sequence[Evaluation]) -> Iterator[Evaluation]:
    first = evaluations[0]
    if not any(metric.name == CONDITIONED[0] for metric in first.metrics):
        return
    retrieved = [item for item in evaluations if CLOSED_BOOK not in _runs(item)]
    ran = {(gold_model(item), row.setting) for item in retrieved for row in item.rows}
    tasks, with_passages = _tasks(evaluations), _tasks(retrieved)
    shown = {name for item in evaluations for row in item.rows[:1] for name in row.values}
    for rule in _RULES:
        own = with_passages if rule.reads_passages else tasks
        rows = tuple(_as(row, rule, shown) for row in own.values() if (rule.model, row.setting) not in ran)
        if rows:
            yield replace(first, model=rule.name, rows=rows, provenance={}, samples={})


def _tasks(evaluations: Sequence[Evaluation]) -> dict[tuple[str, str], Row]:
    """Return setting and task id -> a row of it: with the benchmark's own passages where any evaluation has them."""
    by_run = sorted(evaluations, key=lambda item: (CLOSED_BOOK not in _runs(item), OFFICIAL in _runs(item)))
    return {(row.setting, row.task_id): row for item in by_run for row in item.rows}


def _runs(evaluation: Evaluation) -> set[str]:
    """Return the names of the runs that its passages come from."""
    return {value_at(provenance, "configuration", "run") or OFFICIAL for provenance in evaluation.provenance.values()}


def _as(row: Row, rule: _Rule, shown: set[str]) -> Row:
    known = {name: value for name, value in rule.values(row).items() if name in shown}
    return replace(row, values=known, unscored={}, verdicts={}, idk=None)


def missing_baselines(evaluations: Sequence[Evaluation]) -> str:
    """Return a line that says which null baselines need a run, and how; empty where none is missing."""
    names = {item.model for item in evaluations}
    commands = []
    if f"{_PREFIX}oracle" not in map(gold_model, evaluations):
        commands.append("the ceiling: `ragtasks run --model ragtasks-oracle ...`")
    if not any("closed_book" in name for name in names):
        commands.append('a model without passages: its own command with `"run": "closed_book"` in the metadata')
    return f"Not given: {'; '.join(commands)}." if commands else ""


__all__ = ["CONDITIONED", "is_baseline", "missing_baselines", "with_baselines"]
