"""A leaderboard of the evaluations in a folder, as one self-contained page.

Only comparable evaluations share a table: same data, encoder, judges and prompts, as in `ragtasks results show`. Scores
have intervals, and models without a significant difference to the best are marked. Other differences between requests
are listed below a model's name. The page sends no requests, contains no current time and no local folders, escapes
every text, and runs only its own style and script. The same results give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from ragtasks.files import write_atomically
from ragtasks.metrics import Metric
from ragtasks.reports.history import GROUP, Entry, History
from ragtasks.reports.history_output import SAMPLE_NOTE, below, mean_text, time_text
from ragtasks.reports.page import asset_text, content_policy, template
from ragtasks.reports.tables import COSTS, EMPTY, METRICS, empty_note, front_of, is_ahead, is_baseline
from ragtasks.results import DECISIVE, REQUEST_FIELDS, UNKNOWN
from ragtasks.statistics import LEVEL, MIN_CLUSTERS, Comparison, compare_columns, holm, pairs_without_best
from ragtasks.tables import coded, fixed, grouped, p_text

_HIDDEN = {"configuration", "judge usage"}  # local paths and addresses are for `ragtasks results show` only
# An absolute path, as the complete text, a member of a list, or a value of JSON. Its folders are local.
_FOLDERS = re.compile(r"""(^|[;,:]\s|["'(=:])(?:/(?!/)|[A-Za-z]:[\\/])(?:[^"',;()]*[\\/])?(?=[^\s"',;()\\/])""")
_N_MAIN = 6  # columns that are visible by default
_TITLE = ("benchmark", "setting", "encoder", "judges", "idk detector")


@dataclass(frozen=True, slots=True)
class Board:
    """One table of comparable evaluations."""

    title: str
    """Benchmark, with the suite if it is not the benchmark's own."""
    shared: dict[str, str]
    """Basis of the scores that all evaluations share: the fields of `DECISIVE`."""
    request_fields: tuple[str, ...]
    """The fields of `REQUEST_FIELDS` that differ."""
    metrics: tuple[Metric, ...]
    """Metrics of any evaluation: first the ranking metric, then the share of empty responses if any are empty."""
    best: Mapping[str, float]
    """Metric -> the best score, rounded as shown, if scores differ."""
    has_empty: bool
    of_lm_eval: bool
    """Whether it is a task or group of lm_eval that is not of ragtasks."""
    group: str
    """Its tasks if it is a group, with their weights. Empty otherwise."""
    basis: str
    """Model in another table of its task, and why they are not comparable. Empty for the table of the first entry."""
    cost: str
    """The cost of the front, or empty without a front."""
    missing: str
    """Evaluated and total tasks if some are missing. Then there are no ranks."""
    too_few: int
    """Number of conversations if they are too few for a test, else 0. With too few, no score is marked as the best."""
    standings: tuple[Standing, ...]
    """Best first."""


def leaderboard_tables(entries: Sequence[Entry]) -> list[Board]:
    """Return one table per group of comparable evaluations, by benchmark and setting; incomplete ones come last."""
    groups = grouped(entries, lambda entry: tuple(entry.provenance[field] for field in (*_TITLE, *DECISIVE)))
    return [_table(groups[key]) for key in sorted(groups, key=lambda key: (key[:2], _missing(groups[key]), key))]


def write_leaderboard(history: History, folder: Path, path: Path) -> None:
    """Write the leaderboard page atomically."""
    style, script = (asset_text(f"leaderboard.{ending}") + asset_text(f"tips.{ending}") for ending in ("css", "js"))
    tables = leaderboard_tables(history.entries)
    page = template("leaderboard.html.jinja").render(
        tables=tables,
        benchmarks=list(dict.fromkeys(table.title for table in tables)),
        settings=list(dict.fromkeys(table.shared["setting"] for table in tables)),
        skipped=[
            (_public(below(skipped_file.path, folder)), _public(skipped_file.reason))
            for skipped_file in history.skipped
        ],
        sample_note=SAMPLE_NOTE,
        n_main=_N_MAIN,
        main_of=lambda table: {metric.name for metric in table.metrics[:_N_MAIN]},
        mean_text=mean_text,
        is_best=_is_best,
        is_baseline=is_baseline,
        fixed=fixed,
        p_text=p_text,
        sort_value=lambda entry, metric: "" if (value := value_of(entry, metric)) is None else repr(value),
        time_text=time_text,
        # Provenance that the table does not share.
        unshared=lambda entry: {
            name: text for name, text in entry.provenance.items() if name not in {*DECISIVE, *_HIDDEN}
        },
        below=lambda source: _public(below(source, folder)),
        public=_public,
        coded=coded,
        style=Markup(style),
        script=Markup(script),
        policy=Markup(content_policy(style, script)),
        empty_note=empty_note,
        unknown=UNKNOWN,
    )
    # Lone surrogates, which JSON may contain, have no UTF-8.
    write_atomically(path, page.encode("utf-8", errors="replace"))


def _best(ranked: Sequence[Standing], metric: Metric) -> float | None:
    """Return the best score of the ranked entries; None if all are equal, or without a better direction."""
    values = [
        value
        for standing in ranked
        if standing.rank is not None and (value := value_of(standing.entry, metric)) is not None
    ]
    rounded = {float(fixed(value)) for value in values}
    if metric.higher_is_better is None or len(rounded) < 2:
        return None
    return (max if metric.higher_is_better else min)(rounded)


def _is_best(table: Board, standing: Standing, metric: Metric) -> bool:
    value = value_of(standing.entry, metric)
    return standing.rank is not None and value is not None and table.best.get(metric.name) == float(fixed(value))


def _table(entries: Sequence[Entry]) -> Board:
    metrics = {metric.name: metric for entry in entries for metric in entry.metrics}
    offered = list(metrics.values())
    scored = [m for m in offered if any(e.means[m.name].value is not None for e in entries if m.name in e.means)]
    directed = (metric for metric in scored if metric.higher_is_better is not None and metric.name not in METRICS)
    first = next(directed, None)
    has_empty = any(entry.has_empty for entry in entries)
    main = {metric.name for entry in entries for metric in entry.main_metrics}
    cost = _cost(entries)

    def order_key(metric: Metric) -> tuple[bool, ...]:
        is_empty = has_empty and metric.name == EMPTY
        is_behind = metric not in scored, metric.name not in main
        return (metric is not first, not is_empty, metric.name != cost, *is_behind)

    order = sorted(offered, key=order_key)
    too_few, missing = _too_few(entries), _missing(entries)
    ranked = standings(entries, order[0], is_partial=bool(missing)) if order else []
    marked = [] if too_few else order
    best = {metric.name: value for metric in marked if (value := _best(ranked, metric)) is not None}
    return Board(
        title=entries[0].title,
        shared={field: entries[0].provenance[field] for field in DECISIVE},
        request_fields=tuple(field for field in REQUEST_FIELDS if len({e.provenance[field] for e in entries}) > 1),
        metrics=tuple(order),
        best=best,
        has_empty=has_empty,
        of_lm_eval=entries[0].of_lm_eval,
        group=_group(entries[0]),
        basis=entries[0].basis,
        cost=cost,
        missing=missing,
        too_few=too_few,
        standings=tuple(_with_front(ranked, cost)),
    )


def _group(entry: Entry) -> str:
    """Return the tasks of a group of lm_eval tasks with their weights. Empty for others."""
    task, names = entry.harness_task, entry.provenance.get(GROUP, "")
    by_size = {metric.by_size for metric in task.metrics.values()} if task else set()
    return f"mean over the {'documents' if True in by_size else 'means'} of {names}" if names else ""


def _too_few(entries: Sequence[Entry]) -> int:
    """Return the number of conversations of several entries if they are too few for a test, else 0."""
    conversations = {name for entry in entries if entry.ranking for name in entry.ranking.cluster_of.values()}
    return len(conversations) if len(entries) > 1 and len(conversations) < MIN_CLUSTERS else 0


def _cost(entries: Sequence[Entry]) -> str:
    """Return the cost of the front: the first cost that all entries with costs share. Empty without any."""
    counted = [entry for entry in entries if entry.costs]
    shared = (name for name in COSTS if all(name in entry.costs for entry in counted))
    return next(shared, "") if counted else ""


def _with_front(ranked: Sequence[Standing], cost: str) -> list[Standing]:
    """Return the standings with positions on the front of quality against cost, for ranked entries with both."""
    pairs = {
        id(standing): (standing.entry.ranking, standing.entry.costs[cost])
        for standing in ranked
        if standing.rank is not None and standing.entry.ranking is not None and cost in standing.entry.costs
    }
    if len(pairs) < 2 or len({quality.metric for quality, _ in pairs.values()}) > 1:
        return list(ranked)
    qualities, costs = zip(*pairs.values(), strict=True)
    positions = dict(zip(pairs, front_of(qualities, costs), strict=True))
    return [replace(standing, front=positions.get(id(standing), "")) for standing in ranked]


def _missing(entries: Sequence[Entry]) -> str:
    """Return evaluated and total tasks, which all these entries share. Empty if they are complete."""
    items = "documents" if entries[0].of_lm_eval else "tasks"
    return next((f"{entry.n} of {entry.n_tasks} {items}" for entry in entries if entry.n_tasks is not None), "")


def _public(text: str) -> str:
    """Return a text in which absolute paths are reduced to their last part."""
    return _FOLDERS.sub(r"\1", text)


# Standings of comparable evaluations, with the significance of differences to the best.


@dataclass(frozen=True, slots=True)
class Standing:
    """An entry with its rank in a table."""

    rank: int | None
    """From 1; equal scores share a rank.

    None for a baseline next to models, and for an entry without the ranking score.
    """
    entry: Entry
    is_best: bool = False
    """Whether the entry is the best, with which the others are compared."""
    difference: float | None = None
    """Mean difference to the best over the tasks that both scored. None if not compared."""
    p: float | None = None
    """p value of equality with the best, corrected by Holm over all pairs. None if not compared or not tested."""
    untested: str = ""
    is_ahead: bool = False
    """Whether it is better than the best entry on the tasks that both scored.

    This happens if the two left different tasks unscored.
    """
    front: str = ""
    """Position on the front of quality against cost, or empty."""

    @property
    def is_tie(self) -> bool:
        """Whether its difference to the best is not significant."""
        return self.p is not None and self.p > LEVEL


def standings(entries: Sequence[Entry], metric: Metric, *, is_partial: bool) -> list[Standing]:
    """Return the entries best first, baselines and unscored entries last. Equals are ordered by model, time, file.

    There are no ranks for a metric without a better direction, or if tasks are missing. Baselines have ranks only if
    there is no other model.
    """
    sign = -1 if metric.higher_is_better else 1
    models = [entry for entry in entries if not is_baseline(entry.model)] or list(entries)
    last = {id(entry) for entry in entries} - {id(entry) for entry in models}
    values = {id(entry): None if metric.higher_is_better is None else value_of(entry, metric) for entry in entries}
    signed = [sign * value for key, value in values.items() if value is not None and key not in last]

    def order(entry: Entry) -> tuple[bool, bool, float, str, str, str]:
        value = values[id(entry)]
        key = (value is None, id(entry) in last, sign * (value or 0.0))
        return (*key, entry.model, time_text(entry), str(entry.source))

    def rank(entry: Entry) -> int | None:
        value = None if is_partial or id(entry) in last else values[id(entry)]
        return None if value is None else 1 + sum(value_of_other < sign * value for value_of_other in signed)

    ordered = [Standing(rank(entry), entry) for entry in sorted(entries, key=order)]
    return _compared(ordered, metric)


def value_of(entry: Entry, metric: Metric) -> float | None:
    """Return the mean of an entry by a metric, or None without one."""
    mean = entry.means.get(metric.name)
    return None if mean is None else mean.value


def _compared(ranked: Sequence[Standing], metric: Metric) -> list[Standing]:
    """Return the standings. Ranked entries with values of the metric have their difference to the first."""
    columns = {
        str(index): replace(standing.entry.ranking, name=str(index))
        for index, standing in enumerate(ranked)
        if standing.rank is not None
        and standing.entry.ranking is not None
        and standing.entry.ranking.metric == metric.name
    }
    if len(columns) < 2 or "0" not in columns:
        return list(ranked)
    comparisons = compare_columns(list(columns.values()), "0").pairs
    corrected = holm([pair.p for pair in comparisons], pairs_without_best(len(columns)))
    pairs = {pair.second.name: replace(pair, adjusted_p=p) for pair, p in zip(comparisons, corrected, strict=True)}
    return [_with_comparison(standing, str(index), pairs, metric) for index, standing in enumerate(ranked)]


def _with_comparison(standing: Standing, name: str, pairs: dict[str, Comparison], metric: Metric) -> Standing:
    if name not in pairs:
        return replace(standing, is_best=name == "0")
    difference, p = pairs[name].difference, pairs[name].adjusted_p
    untested, ahead = difference.reason if p is None else "", is_ahead(difference, metric)
    return replace(standing, difference=difference.value, p=p, untested=untested, is_ahead=ahead)
