"""What simulated users made of systems, and whether they rank systems as the replayed questions do. Experimental."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ragtasks.metrics import Metric
from ragtasks.reports.tables._scores import mean_of
from ragtasks.results import (
    NEED_MET,
    NEED_METRICS,
    Evaluation,
    Row,
    gold_model,
    has_own_history,
    has_simulated_user,
)
from ragtasks.statistics import MIN_CLUSTERS, Floats, estimate_mean
from ragtasks.tables import Cell, Table, Value

_CHECKS = ("rb_llm_raw", "token_recall", "rouge_l")
_GROUNDING = ("rl_f_raw", "k_precision", "bert_k_precision")
_FEWEST_SYSTEMS = 3
_DRAWS = 1_000
_NOTE = (
    "Experimental: verdicts are the simulated user's own. A need is a task of the benchmark; its answer is all that "
    "the system said to it. Intervals over conversations."
)
_RANKS_NOTE = (
    "Kendall's tau-b of the systems' means, on the tasks that all of them have in both; 1: the same order. The "
    "interval draws conversations again, 1,000 times: it says how far the order is chance of these conversations, and "
    "nothing of other systems."
)


def user_tables(evaluations: Sequence[Evaluation], quality: Metric | None) -> list[Table]:
    """Return what simulated users made of systems, and beside replays how alike both rank; [] without such a user."""
    talked = [item for item in evaluations if has_simulated_user(item)]
    if not talked:
        return []
    rows = [row for item in talked for row in item.rows]
    check, grounding = (_first(rows, names) for names in (_CHECKS, _GROUNDING))
    columns = (
        *("model", "conversations", "broke off", "needs", NEED_MET, "all needs met"),
        *(metric.name for metric in NEED_METRICS[1:]),
        *((f"{check} where met", f"{check} where not") if check else ()),
        *((grounding,) if grounding else ()),
    )
    cells = tuple(tuple(_cells(item, check, grounding)) for item in talked)
    legend = tuple(f"{metric.name}: {metric.description}" for metric in NEED_METRICS)
    table = Table("With a simulated user (experimental)", columns, cells, _NOTE, legend)
    return [table, *(_ranks(evaluations, talked, quality) if quality else [])]


def _first(rows: Sequence[Row], names: Sequence[str]) -> str | None:
    return next((name for name in names if any(row.values.get(name) is not None for row in rows)), None)


def _cells(item: Evaluation, check: str | None, grounding: str | None) -> Iterator[Cell]:
    needs: dict[str, list[float | None]] = {}
    for row in item.rows:
        needs.setdefault(row.conversation_id, []).append(row.values.get(NEED_MET))
    whole = {name: None if None in values else float(all(values)) for name, values in needs.items()}
    yield from (item.model, len(needs), sum(value is None for value in whole.values()), len(item.rows))
    yield mean_of(item.rows, NEED_MET, NEED_METRICS[0].bounds)
    yield estimate_mean(list(whole.values()), list(whole), (0.0, 1.0)).cell
    yield from (mean_of(item.rows, metric.name, metric.bounds) for metric in NEED_METRICS[1:])
    for met in (1.0, 0.0) if check else ():
        yield mean_of([row for row in item.rows if row.values.get(NEED_MET) == met], check or "", (0.0, 1.0))
    if grounding:
        yield mean_of(item.rows, grounding)


def _ranks(evaluations: Sequence[Evaluation], talked: Sequence[Evaluation], quality: Metric) -> list[Table]:
    """Return how alike a simulated user and the replay rank systems, a row a user; [] without any replay."""
    replays = {gold_model(one): one for one in evaluations if not has_simulated_user(one) and not has_own_history(one)}
    pairs: dict[str, list[tuple[Evaluation, Evaluation]]] = {}
    for item in talked:
        name = gold_model(item)
        if name in replays:
            pairs.setdefault(item.model.removeprefix(name).strip(), []).append((replays[name], item))
    if not pairs:
        return []
    rows = tuple((user, len(found), *_agreement(found, quality)) for user, found in pairs.items())
    columns = ("user", "systems", "conversations", f"tau of {quality.name} and {NEED_MET}", "no interval because")
    return [Table("Do systems rank alike with a simulated user (experimental)", columns, rows, _RANKS_NOTE)]


def _agreement(pairs: Sequence[tuple[Evaluation, Evaluation]], quality: Metric) -> tuple[int, Value, str]:
    """Return conversations, tau with its interval, and why one is missing."""
    sides = [(_scored(replay, quality.name), _scored(talked, NEED_MET)) for replay, talked in pairs]
    shared = sorted(set.intersection(*(set(side) for pair in sides for side in pair)))
    conversations = sorted({name for name, _ in shared})
    if len(pairs) < _FEWEST_SYSTEMS:
        return len(conversations), Value(None, 0, 0), f"too few systems: {len(pairs)} of {_FEWEST_SYSTEMS}"
    sign = -1 if quality.higher_is_better is False else 1
    # Sums a conversation; shape (systems, 2, conversations).
    sums = np.array([[_sums(side, shared, conversations) for side in pair] for pair in sides])
    sums[:, 0] *= sign
    whole = _tau(sums.sum(axis=2)) if shared else None
    n = len(conversations)
    if whole is None or n < MIN_CLUSTERS:
        why = "all means are alike" if whole is None else f"fewer than {MIN_CLUSTERS} conversations"
        return n, Value(whole, n, n), why
    rng = np.random.default_rng(0)
    counts = np.array([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(_DRAWS)])
    drawn = [tau for row in counts if (tau := _tau(sums @ row)) is not None]
    if len(drawn) < 0.9 * _DRAWS:
        return n, Value(whole, n, n), "means are alike in too many draws"
    low, high = np.quantile(drawn, [0.025, 0.975])
    return n, Value(whole, n, n, float(low), float(high)), ""


def _scored(item: Evaluation, metric: str) -> dict[tuple[str, str], float]:
    """Return (conversation, task) -> value of what is scored."""
    found = (((row.conversation_id, row.task_id), row.values.get(metric)) for row in item.rows)
    return {key: value for key, value in found if value is not None}


def _sums(
    values: Mapping[tuple[str, str], float], shared: Sequence[tuple[str, str]], conversations: Sequence[str]
) -> Floats:
    """Return the sum of each conversation's values: over the same tasks, sums rank systems as means do."""
    place = {name: index for index, name in enumerate(conversations)}
    sums = np.zeros(len(conversations))
    for key in shared:
        sums[place[key[0]]] += values[key]
    return sums


def _tau(totals: Floats) -> float | None:
    """Return Kendall's tau-b of two columns; None where one of them has no order."""
    from scipy.stats import kendalltau

    if any(np.ptp(column) == 0 for column in totals.T):
        return None
    return float(kendalltau(totals[:, 0], totals[:, 1]).statistic)
