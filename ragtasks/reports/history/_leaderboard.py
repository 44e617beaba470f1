"""A leaderboard of the evaluations in a folder, as one page that needs nothing else.

Only evaluations that compare share a table: same data, encoder, judges and prompts, as in `ragtasks results compare`.
What else they were asked with stands below a model's name where it differs in a table. The page asks nothing of the
network, names no clock and no folder of a machine, escapes every text, and lets only its own style and script run: the
same results give the same bytes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from ragtasks.files import write_atomically
from ragtasks.logs import ASKED, DECISIVE, UNKNOWN
from ragtasks.metrics import Metric
from ragtasks.reports.history._entries import Entry
from ragtasks.reports.history._history import History
from ragtasks.reports.history._tables import SAMPLE_NOTE, below, mean_text, time_text
from ragtasks.reports.page import content_policy
from ragtasks.reports.rendering import coded
from ragtasks.reports.tables import EMPTY, empty_note

if TYPE_CHECKING:
    from jinja2 import Template

_HIDDEN = {"configuration", "judge usage"}  # paths and addresses of a machine are for `ragtasks results show`
# An absolute path, as a whole text, a member of a list, or a value of JSON: its folders are of a machine.
_FOLDERS = re.compile(r"""(^|[;,:]\s|["'(=:])(?:/(?!/)|[A-Za-z]:[\\/])(?:[^"',;()]*[\\/])?(?=[^\s"',;()\\/])""")
_TITLE = ("benchmark", "setting", "encoder", "judges", "idk detector")


@dataclass(frozen=True, slots=True)
class Standing:
    """An entry with its place in a table."""

    rank: int | None
    """From 1; equal scores share one. None where the metric that ranks has no value."""
    entry: Entry
    """The evaluation."""


@dataclass(frozen=True, slots=True)
class Table:
    """The evaluations that compare with each other."""

    title: str
    """Benchmark, with the suite where it is not the benchmark's."""
    shared: dict[str, str]
    """What all of them rest on: the fields of `DECISIVE`."""
    asked: tuple[str, ...]
    """The fields of `ASKED` in which they differ."""
    metrics: tuple[Metric, ...]
    """What any of them was scored with; the first one ranks, and next to it stands the share of empty responses."""
    has_empty: bool
    """Whether any response is empty."""
    missing: str
    """How many tasks of how many it is about, where some are missing: then nobody has a rank."""
    standings: tuple[Standing, ...]
    """Best first."""


def leaderboard_tables(entries: Sequence[Entry]) -> list[Table]:
    """Return a table for everything that makes scores comparable, by benchmark, setting, encoder and judges.

    Tables over fewer tasks than their setting has come after the whole ones.
    """
    groups: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(tuple(entry.provenance[field] for field in (*_TITLE, *DECISIVE)), []).append(entry)
    return [_table(groups[key]) for key in sorted(groups, key=lambda key: (key[:2], _missing(groups[key]), key))]


def write_leaderboard(history: History, folder: Path, path: Path) -> None:
    """Write the page, atomically.

    Args:
        history: as from `read_history`.
        folder: what files on the page are named below.
        path: where to write it.

    Raises:
        CacheError: the page cannot be written.
    """
    page = _template().render(
        tables=leaderboard_tables(history.entries),
        skipped=[(_public(below(item.path, folder)), _public(item.reason)) for item in history.skipped],
        sample_note=SAMPLE_NOTE,
        mean_text=mean_text,
        sort_value=_sort_value,
        time_text=time_text,
        rests_on=_rests_on,
        below=lambda source: _public(below(source, folder)),
        public=_public,
        coded=coded,
        content_policy=lambda style, script: Markup(content_policy(style, script)),
        empty_note=empty_note,
        unknown=UNKNOWN,
    )
    # Halves of surrogate pairs, as JSON may hold them, have no UTF-8.
    write_atomically(path, page.encode("utf-8", errors="replace"))


def _table(entries: Sequence[Entry]) -> Table:
    metrics = {metric.name: metric for entry in entries for metric in entry.metrics}
    offered = list(metrics.values())
    scored = [m for m in offered if any(e.means[m.name].value is not None for e in entries if m.name in e.means)]
    first = next((metric for metric in scored if metric.higher_is_better is not None), None)
    has_empty = any(entry.has_empty for entry in entries)
    order = sorted(offered, key=lambda m: (m is not first, not has_empty or m.name != EMPTY, m not in scored))
    shared = {field: entries[0].provenance[field] for field in DECISIVE}
    asked = tuple(field for field in ASKED if len({entry.provenance[field] for entry in entries}) > 1)
    standings = tuple(_standings(entries, order[0])) if order else ()
    return Table(entries[0].title, shared, asked, tuple(order), has_empty, _missing(entries), standings)


def _missing(entries: Sequence[Entry]) -> str:
    """Return how many tasks of how many these evaluations have, which are the same for all; empty where all."""
    return next((f"{entry.n} of {entry.n_tasks} tasks" for entry in entries if entry.n_tasks is not None), "")


def _standings(entries: Sequence[Entry], metric: Metric) -> list[Standing]:
    """Return the entries best first, those without a score last; ties by model, then time, then file.

    By a metric of which neither direction is better, and where tasks are missing, nobody has a rank.
    """
    sign = -1 if metric.higher_is_better else 1
    is_partial = bool(_missing(entries))
    scores = {id(entry): None if metric.higher_is_better is None else _value(entry, metric) for entry in entries}
    signed = [sign * value for value in scores.values() if value is not None]

    def order(entry: Entry) -> tuple[bool, float, str, str, str]:
        value = scores[id(entry)]
        return (value is None, sign * (value or 0.0), entry.model, time_text(entry), str(entry.source))

    def rank(entry: Entry) -> int | None:
        value = scores[id(entry)]
        return None if value is None or is_partial else 1 + sum(other < sign * value for other in signed)

    return [Standing(rank(entry), entry) for entry in sorted(entries, key=order)]


def _value(entry: Entry, metric: Metric) -> float | None:
    mean = entry.means.get(metric.name)
    return None if mean is None else mean.value


def _sort_value(entry: Entry, metric: Metric) -> str:
    """Return a score in full, as the page sorts by it; empty where there is none."""
    value = _value(entry, metric)
    return "" if value is None else repr(value)


def _rests_on(entry: Entry) -> dict[str, str]:
    """Return the provenance that is not shared by the whole table."""
    return {name: text for name, text in entry.provenance.items() if name not in DECISIVE and name not in _HIDDEN}


def _public(text: str) -> str:
    """Return a text with only the last part of each absolute path in it."""
    return _FOLDERS.sub(r"\1", text)


@functools.lru_cache(maxsize=1)
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    source = resources.files("ragtasks.reports.history").joinpath("leaderboard.html.jinja")
    return environment.from_string(source.read_text(encoding="utf-8"))


__all__ = ["Standing", "Table", "leaderboard_tables", "write_leaderboard"]
