"""One row for each score of each evaluation: what a table of pandas, a spreadsheet or a database takes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ragtasks.errors import ConfigurationError
from ragtasks.logs import UNKNOWN
from ragtasks.reports.history import Entry
from ragtasks.tables import csv_text

_PROVENANCE = ("data revision", "encoder", "judges", "run", "harness version", "ragtasks version")


def rows_of(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return a row for each metric that has a value: names, mean, ends of its interval, counts and provenance.

    Args:
        entries: as from `read_history`, ranked, so that they have intervals.
    """
    return [
        {
            "model": entry.model,
            "benchmark": entry.benchmark,
            "setting": entry.setting,
            "metric": metric.name,
            "value": mean.value,
            "low": mean.low,
            "high": mean.high,
            "n_scored": mean.n_scored,
            "n": mean.n,
            "n_tasks": entry.n_tasks or entry.n,
            "higher_is_better": metric.higher_is_better,
            "time": entry.time.isoformat() if entry.time else None,
            **{name.replace(" ", "_"): _known(entry.provenance.get(name)) for name in _PROVENANCE},
        }
        for entry in entries
        for metric in entry.metrics
        if (mean := entry.means[metric.name]).value is not None
    ]


def written(rows: Sequence[Mapping[str, Any]], ending: str) -> str:
    """Return rows as text: `.csv`, `.json` (a list) or `.jsonl` (an object a line).

    Raises:
        ConfigurationError: another ending.
    """
    if ending == ".jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if ending == ".json":
        return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
    if ending != ".csv":
        raise ConfigurationError(f"rows are written as .csv, .json or .jsonl, found {ending or 'no ending'}")
    text = io.StringIO()
    table = csv.DictWriter(text, fieldnames=list(dict.fromkeys(name for row in rows for name in row)))
    table.writeheader()
    table.writerows(
        {name: csv_text(cell) if isinstance(cell, str) else cell for name, cell in row.items()} for row in rows
    )
    return text.getvalue()


def _known(text: str | None) -> str | None:
    return None if text == UNKNOWN else text


__all__ = ["rows_of", "written"]
