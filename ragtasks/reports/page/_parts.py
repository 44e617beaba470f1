"""The responses of one model in one setting, as columns: a browser filters and sorts these without unpacking texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragtasks.logs import Evaluation
from ragtasks.reports.page._blocks import Stream, packed
from ragtasks.reports.page._failures import FAILURES, failures_of
from ragtasks.reports.page._logged import Logged, read_logged
from ragtasks.reports.page._naming import Group, Named, name_evaluations
from ragtasks.reports.page._text_store import TextStore

_DIGITS = 4  # of a score on the page; the logs have them all
_VERDICT = ("rubric", "judge", "outcome", "label", "value", "reason", "replies", "attempts")
_BITS = {name: 1 << place for place, name in enumerate(FAILURES)}


class Part:
    """Collects the responses of one model in one setting."""

    def __init__(self, group: Group, model: str, setting: str, metric: str) -> None:
        self.group = group
        self.model = model
        self.setting = setting
        self.metric = metric
        self._columns: dict[str, list[Any]] = {
            name: [] for name in ("task", "answer", "shown", "idk", "idk_reason", "failures")
        }
        self._values: dict[str, list[float | None]] = {}
        self._reasons: dict[str, dict[str, str]] = {}
        self._verdicts = Stream()
        self._has_verdicts = False

    def __len__(self) -> int:
        """Return the number of responses."""
        return len(self._columns["task"])

    def add(self, logged: Logged, text_store: TextStore, loss: float | None) -> None:
        """Append one response; its task and passages go to the store."""
        row, notes = logged.row, logged.doc.get("scoring", {})
        verdicts, place = notes.get("verdicts", ()), len(self)
        failures = sum(
            _BITS[name] for name in failures_of(row, self.metric, loss, (item["outcome"] for item in verdicts))
        )
        shown = text_store.passages(logged.doc)
        cells = (text_store.task(logged.doc), logged.answer, shown, row.idk, notes.get("idk_reason", ""), failures)
        for column, cell in zip(self._columns.values(), cells, strict=True):
            column.append(cell)
        for name in row.values.keys() - self._values.keys():
            self._values[name] = [None] * place
        for name, values in self._values.items():
            value = row.values.get(name)
            values.append(None if value is None else round(value, _DIGITS))
        for name, reason in row.unscored.items():
            self._reasons.setdefault(name, {})[str(place)] = reason
        self._verdicts.add([[item.get(key) for key in _VERDICT] for item in verdicts])
        self._has_verdicts = self._has_verdicts or bool(verdicts)

    def pack_scores(self, order: Sequence[str]) -> str:
        """Return the block of all columns but the verdicts, with the metrics in the order given, others behind them."""
        names = [*(name for name in order if name in self._values), *sorted(self._values.keys() - set(order))]
        values = {name: self._values[name] for name in names}
        return packed({**self._columns, "values": values, "unscored": self._reasons})

    def pack_verdicts(self) -> str | None:
        """Return the block of the verdicts on each response, None where there are none at all."""
        return self._verdicts.finish() if self._has_verdicts else None


def collect_parts(
    evaluations: Sequence[Evaluation], metrics: Sequence[str] = ()
) -> tuple[list[Part], dict[str, TextStore]]:
    """Return the parts in order of evaluations and settings, and benchmark -> its tasks and passages.

    Evaluations without logged samples have no part.

    Args:
        evaluations: as from `read_evaluations`.
        metrics: names of those that losses may be of, as for `name_evaluations`.

    Raises:
        BenchmarkFileError: logged samples that are broken or have changed.
    """
    parts: dict[tuple[Group, str, str], Part] = {}
    text_stores: dict[str, TextStore] = {}
    for named in name_evaluations(evaluations, metrics):
        text_store = text_stores.setdefault(named.evaluation.kind[0], TextStore())
        for logged in read_logged(named.evaluation):
            _part_of(named, logged, parts).add(logged, text_store, named.loss(logged.row))
    return list(parts.values()), text_stores


def _part_of(named: Named, logged: Logged, parts: dict[tuple[Group, str, str], Part]) -> Part:
    key = (named.group, named.model, logged.row.setting)
    if key not in parts:
        parts[key] = Part(*key, named.metric.name if named.metric else "")
    return parts[key]


__all__ = ["Part", "collect_parts"]
