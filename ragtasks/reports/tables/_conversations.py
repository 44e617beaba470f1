"""The conversation as the unit: conversations without a failed turn, the first failure, recovery.

A conversation with an unscored turn may contain an unseen failure. It is left out of the share without a failed turn.
The survival curve uses its turns up to the first unscored one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ragtasks.config import FailedTurn, config_from_options
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.metrics import COUNT, TURN_ERROR_NAMES, Metric
from ragtasks.reports.tables._scores import (
    DIMENSIONS,
    by_setting,
    has_values,
    is_undefined,
    metric_columns,
    missing_tasks,
    row_slices,
)
from ragtasks.reports.tables._usage import METRICS as USAGE
from ragtasks.results import Evaluation, ScoredAnswer, value_at
from ragtasks.statistics import Column, SurvivalStep, estimate_mean, survival
from ragtasks.tables import Cell, Table, Value, grouped, table_of

TITLE = "Conversations"
SURVIVAL_HEADS = ("turn", "model")
"""First columns of the table with survival curves."""
SURVIVAL = "no failure yet"
"""Head of its column with the curve."""
FAILURE_FREE = Metric("failure_free", "conversations without a failed turn")
TURNS_BEFORE_FAILURE = Metric("turns_before_failure", "turns before the first failed turn, or all turns", bounds=COUNT)
CONVERSATION_METRICS = {metric.name: metric for metric in (FAILURE_FREE, TURNS_BEFORE_FAILURE)}
"""Metrics of conversations, for comparisons."""

_SHARE = (0.0, 1.0)
_USAGE = ("tokens", "seconds")
_PARTS = {name: DIMENSIONS[name] for name in ("domain", "answerability")}
_MOST_TURNS = 30
_DEFINITION = "A failed turn: {}. "
_NOTE = (
    "failure-free: share of conversations without a failed turn. Conversations with an unscored turn are left out; the "
    "brackets show how many remain. half failed: first turn by which half of the conversations have failed. recovered: "
    "share of failed turns that a good turn follows. 95 % intervals over conversations."
)
_CURVE_NOTE = (
    f"{SURVIVAL}: Kaplan-Meier estimate of the share of conversations without a failed turn so far. A conversation "
    "without a failure is censored after its last turn, or before its first unscored one. failed turns: share of all "
    "answers to this turn."
)
_FIRST_TURNS = f" Only the first {_MOST_TURNS} turns are shown."
_PART_NOTE = "Only the turns of a part count: of an answerability, those with that label."
_CUT = (
    " Not all tasks of {} were evaluated: a turn that is missing in a conversation, or that another system has, counts "
    "as unscored; a conversation that was cut in all systems counts up to its last turn."
)


@dataclass(frozen=True, slots=True)
class ScoredTurn:
    """A scored turn of a conversation."""

    row: ScoredAnswer
    has_failed: bool | None
    """None if the turn has no score, or was not examined for turn errors."""
    next_failed: bool | None
    """The same for the next turn of the conversation."""
    is_last: bool


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns of one conversation in order: all, or those of one domain or answerability."""

    name: str
    turns: tuple[ScoredTurn, ...]
    gap: int | None
    """First turn inside the conversation that should have been evaluated and was not; None without any."""

    @property
    def end(self) -> tuple[int, bool]:
        """The turn of the first failure and True; else the last turn before any unscored one, or 0, and False."""
        last = 0
        for turn in self.turns:
            number = turn.row.task.turn
            if turn.has_failed is None or (self.gap is not None and number > self.gap):
                break
            if turn.has_failed:
                return number, True
            last = number
        return last, False

    @property
    def failure_free(self) -> float | None:
        """1 if no turn failed, else 0; None if a turn is unscored or missing."""
        states = [turn.has_failed for turn in self.turns]
        return None if self.gap is not None or None in states else float(not any(states))

    @property
    def turns_before_failure(self) -> float | None:
        """Number of turns before the first failure, or of all turns; None with an unscored turn."""
        last, has_failed = self.end
        n = sum(turn.row.task.turn < last for turn in self.turns) if has_failed else len(self.turns)
        return None if self.failure_free is None else float(n)

    def part(self, contains: Callable[[ScoredAnswer], bool]) -> Conversation:
        """Return the conversation with some of its turns only."""
        return replace(self, turns=tuple(turn for turn in self.turns if contains(turn.row)))

    def at(self, number: int) -> Conversation:
        """Return the conversation with only this turn, or without turns if it has no such turn."""
        return self.part(lambda row: row.task.turn == number)


def has_failed(row: ScoredAnswer, definition: FailedTurn) -> bool | None:
    """Return whether a turn failed; None if it has no score, or was not examined for turn errors."""
    if definition.metric is None:
        kind = row.turn_error_kind
        return None if kind is None else kind in (definition.errors or TURN_ERROR_NAMES)
    value = row.values.get(definition.metric)
    if value is None:
        return None
    low, high = definition.below, definition.above
    return (low is not None and value < low) or (high is not None and value > high)


def failed_turn_definition(evaluations: Sequence[Evaluation], given: FailedTurn | None) -> FailedTurn:
    """Return the definition of a failed turn: the given one, else that of the results.

    Raises:
        ConfigurationError: if the results have different definitions, or one names an unknown metric or turn error.
    """
    stored = [
        config_from_options({"failed_turn": value_at(provenance, "configuration", "failed_turn")}).failed_turn
        for evaluation in evaluations
        for provenance in evaluation.provenance.values()
    ]
    own = [found or FailedTurn() for found in dict.fromkeys(stored)] or [FailedTurn()]
    definition, *others = dict.fromkeys(own) if given is None else [given]
    if others:
        names = "; ".join(map(str, [definition, *others]))
        raise ConfigurationError(
            f"failed_turn differs between the results: {names}. Next step: add --failed-turn (--kind in an export)"
        )
    check_failed_turn(definition, {metric.name for evaluation in evaluations for metric in evaluation.metrics})
    return definition


def check_failed_turn(definition: FailedTurn, metrics: Collection[str]) -> None:
    """Raise ConfigurationError if a definition names an unknown metric or turn error."""
    if definition.metric is not None and definition.metric not in metrics:
        near = close_matches(definition.metric, metrics)
        raise ConfigurationError(f"failed_turn: no metric {definition.metric!r}; {near}")
    for name in definition.errors:
        if name not in TURN_ERROR_NAMES:
            raise ConfigurationError(f"failed_turn: no turn error {name!r}; {close_matches(name, TURN_ERROR_NAMES)}")


def conversations_by_system(
    evaluations: Sequence[Evaluation], definition: FailedTurn, *, across_settings: bool = False
) -> dict[tuple[str, str], list[Conversation]]:
    """Return (setting, model) -> its conversations; systems with single turns only are left out.

    A turn that another system of the setting has (with `across_settings`, the same system in another setting) is a gap.
    So is a turn between others if tasks of the setting are missing. Otherwise the benchmark does not score the missing
    turns, and they cannot fail. Turns on which the metric of the definition is undefined are left out.
    """
    metrics = {metric.name: metric for evaluation in evaluations for metric in evaluation.metrics}
    metric = metrics.get(definition.metric or "")
    systems, missing = dict(by_setting(evaluations)), missing_tasks(evaluations)
    expected: dict[tuple[str, str], set[int]] = {}
    for (setting, model), rows in systems.items():
        for row in rows:
            turns = expected.setdefault((model if across_settings else setting, row.task.conversation_id), set())
            turns |= set(range(1, row.task.turn + 1)) if (setting, model) in missing else {row.task.turn}
    found = {}
    for (setting, model), rows in systems.items():
        group = model if across_settings else setting
        conversations = [
            conversation
            for name, own in grouped(rows, lambda row: row.task.conversation_id).items()
            if (conversation := _conversation(name, own, definition, metric, expected[group, name])).turns
        ]
        if any(len(conversation.turns) > 1 for conversation in conversations):
            found[setting, model] = conversations
    return found


def _conversation(
    name: str, rows: Sequence[ScoredAnswer], definition: FailedTurn, metric: Metric | None, expected: Collection[int]
) -> Conversation:
    undefined = {row.task.turn for row in rows if metric is not None and is_undefined(row, metric)}
    rows_of = {row.task.turn: row for row in rows if row.task.turn not in undefined}
    states = {number: has_failed(row, definition) for number, row in rows_of.items()}
    numbers = sorted({*expected, *rows_of} - undefined)
    next_of = dict(pairwise(numbers))
    turns = [
        ScoredTurn(rows_of[number], states[number], states.get(next_of.get(number, 0)), is_last=number == numbers[-1])
        for number in numbers
        if number in rows_of
    ]
    missing = [number for number in numbers if number not in rows_of]
    return Conversation(name, tuple(turns), missing[0] if missing else None)


def is_scored(conversations: Iterable[Conversation]) -> bool:
    """Return whether it is known of any turn whether it failed."""
    return any(turn.has_failed is not None for conversation in conversations for turn in conversation.turns)


def conversation_columns(
    conversations: Sequence[Conversation], *, name: str, group: str, context: str
) -> Iterator[Column]:
    """Yield a system's values of the conversation metrics, with one item per conversation."""
    names = {conversation.name: conversation.name for conversation in conversations}
    longest = float(max((len(conversation.turns) for conversation in conversations), default=0))
    free = {conversation.name: conversation.failure_free for conversation in conversations}
    before = {conversation.name: conversation.turns_before_failure for conversation in conversations}
    if is_scored(conversations):
        yield Column(context, group, FAILURE_FREE.name, name, free, names, _SHARE)
        yield Column(context, group, TURNS_BEFORE_FAILURE.name, name, before, names, (0.0, longest))


# Tables: all conversations by system, turn by turn with the survival curve, and by part of the tasks.

_Conversations = Sequence[Conversation]
_Columns = Mapping[str, Callable[[_Conversations], Cell]]


def conversation_tables(
    evaluations: Sequence[Evaluation], main: Metric | None, given: FailedTurn | None = None
) -> list[Table]:
    """Return the table of all conversations, and for each setting the tables by turn and by part of the tasks.

    [] without conversations of several scored turns. `main` is the score by turn.
    """
    try:
        definition = failed_turn_definition(evaluations, given)
    except ConfigurationError as error:
        if given is not None:
            raise
        return [Table(TITLE, (), (), f"Not computed: {error}.")]
    systems = conversations_by_system(evaluations, definition)
    if not any(map(is_scored, systems.values())):
        note = f"Not computed: no turn has a value of {definition.metric}."
        return [Table(TITLE, (), (), note)] if systems and definition.metric else []
    means = _mean_columns([row for conversations in systems.values() for row in _rows(conversations)], main)
    columns = {"conversations": len, **_SHARES, "half failed": _half, **means}
    note = _DEFINITION.format(definition)
    whole_note = note + _NOTE + _cut_note(evaluations, systems)
    tables = [table_of(TITLE, ("setting", "model"), systems.items(), columns, whole_note)]
    for setting in dict.fromkeys(setting for setting, _ in systems):
        own = {model: conversations for (name, model), conversations in systems.items() if name == setting}
        if not any(map(is_scored, own.values())):
            continue
        tables.append(_by_turn(f"{TITLE} by turn in setting {setting}", own, means, note + _CURVE_NOTE))
        tables += _by_part(f"{TITLE} by part in setting {setting}", own, note + _PART_NOTE)
    return tables


def _cut_note(evaluations: Sequence[Evaluation], systems: Collection[tuple[str, str]]) -> str:
    """Return a sentence about systems with missing tasks, or an empty text."""
    missing, rows_of = missing_tasks(evaluations), dict(by_setting(evaluations))
    counts = [
        f"{system[1]} in {system[0]} ({len(rows_of[system])} of {n_tasks})"
        for system, n_tasks in missing.items()
        if system in systems
    ]
    return _CUT.format(", ".join(counts)) if counts else ""


def _rows(conversations: _Conversations) -> list[ScoredAnswer]:
    return [turn.row for conversation in conversations for turn in conversation.turns]


def _failure_free(conversations: _Conversations) -> Value:
    names = [conversation.name for conversation in conversations]
    return estimate_mean([conversation.failure_free for conversation in conversations], names, _SHARE).cell


def _share(
    conversations: _Conversations, value_of: Callable[[ScoredTurn], bool | None], *, of: Callable[[ScoredTurn], Any]
) -> Value:
    """Return the share of some turns for which a value is true, with its interval over conversations."""
    turns = [
        (value_of(turn), conversation.name) for conversation in conversations for turn in conversation.turns if of(turn)
    ]
    values = [None if value is None else float(value) for value, _ in turns]
    return estimate_mean(values, [name for _, name in turns], _SHARE).cell


def _failed(conversations: _Conversations) -> Value:
    return _share(conversations, lambda turn: turn.has_failed, of=lambda _: True)


def _recovered(conversations: _Conversations) -> Value:
    return _share(
        conversations,
        lambda turn: None if turn.next_failed is None else not turn.next_failed,
        of=lambda turn: turn.has_failed and not turn.is_last,
    )


_SHARES: _Columns = {"failure-free": _failure_free, "failed turns": _failed, "recovered": _recovered}


def _curve(conversations: _Conversations) -> list[SurvivalStep]:
    """Return the survival curve; conversations whose first turn is unscored are left out."""
    ends = [end for conversation in conversations if (end := conversation.end)[0]]
    return survival([turn for turn, _ in ends], [has_failed for _, has_failed in ends])


def _half(conversations: _Conversations) -> str:
    """Return the first turn by which half of the conversations have failed, or a dash."""
    return next((f"turn {step.turn}" for step in _curve(conversations) if (step.share.value or 0.0) <= 0.5), "-")


def _mean_columns(rows: Sequence[ScoredAnswer], main: Metric | None) -> _Columns:
    """Return the columns of the main score and of tokens and seconds per answer, if any row has them."""
    metrics = {**({main.name: main} if main else {}), **{name: USAGE[name] for name in _USAGE}}
    names = [name for name in metrics if has_values(rows, name)]

    def over_rows(mean: Callable[[Sequence[ScoredAnswer]], Cell]) -> Callable[[_Conversations], Cell]:
        return lambda conversations: mean(_rows(conversations))

    return {name: over_rows(mean) for name, mean in metric_columns(names, metrics).items()}


def _by_turn(title: str, systems: Mapping[str, _Conversations], means: _Columns, note: str) -> Table:
    curves = {model: _curve(conversations) for model, conversations in systems.items()}
    longest = max(row.task.turn for conversations in systems.values() for row in _rows(conversations))
    rows: list[tuple[Cell, ...]] = []
    for turn in range(1, min(longest, _MOST_TURNS) + 1):
        for model, steps in curves.items():
            answers = [own for conversation in systems[model] if (own := conversation.at(turn)).turns]
            if not answers:
                continue
            # Without a conversation at risk, the curve has no value.
            step = steps[turn - 1] if turn <= len(steps) else SurvivalStep(turn, 0, 0, Value(None, 0, 0))
            cells = (cell_of(answers) for cell_of in (_failed, *means.values()))
            rows.append((turn, model, step.n_at_risk, step.n_failed, step.share, *cells))
    heads = (*SURVIVAL_HEADS, "at risk", "first failures", SURVIVAL, "failed turns", *means)
    return Table(title, heads, tuple(rows), note + (_FIRST_TURNS if longest > _MOST_TURNS else ""))


def _by_part(title: str, systems: Mapping[str, _Conversations], note: str) -> Iterator[Table]:
    """Yield the shares by domain and answerability; nothing if the tasks have one domain and one answerability."""
    parts = [part for part in row_slices([row for own in systems.values() for row in _rows(own)], _PARTS) if part.value]
    records = [
        (
            (part.dimension, part.value, model),
            [own for conversation in conversations if (own := conversation.part(part.contains)).turns],
        )
        for part in parts
        for model, conversations in systems.items()
    ]
    if records:
        yield table_of(title, ("dimension", "value", "model"), records, {"conversations": len, **_SHARES}, note)
