"""The scores of rankings by the measures that are asked for: over all judged queries, by domain, and by query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtasks.metrics import JudgedRun, RetrievalMetric
from ragtasks.tables import Cell, Section, Table, Value, notes_once


def ranking_section(title: str, runs: Sequence[JudgedRun], metrics: Sequence[RetrievalMetric]) -> Section:
    """Return what must be known before the scores, the means over all queries, and by domain where there are some."""
    notes = notes_once(((run.name, f"{note}.") for run in runs for note in run.notes), len(runs))
    before = [Table("Before the scores", (), (), legend=notes)] if notes else []
    columns = ("run", "n", *(metric.title for metric in metrics))
    tables = [*before, Table("All queries", columns, tuple((one.name, *_cells(one, metrics)) for one in runs))]
    domains = dict.fromkeys(domain for run in runs for domain in run.domain_of.values())
    if domains:
        rows = tuple((domain, run.name, *_cells(run, metrics, domain)) for domain in domains for run in runs)
        tables.append(Table("By domain", ("domain", *columns), rows))
    return Section(title, {"runs": ", ".join(run.name for run in runs)}, tuple(tables))


def _cells(run: JudgedRun, metrics: Sequence[RetrievalMetric], domain: str | None = None) -> tuple[Cell, ...]:
    n = run.n_queries(domain)
    means = (run.mean(metric.name, domain).value for metric in metrics)
    return (n, *(Value(mean, n if mean is not None else 0, n) for mean in means))


def query_rows(runs: Sequence[JudgedRun], metrics: Sequence[RetrievalMetric]) -> Iterator[dict[str, object]]:
    """Yield the scores of each run and judged query in full precision, under the names of the table's columns."""
    for run in runs:
        for query_id, row in run.values.items():
            domain = {"domain": run.domain_of[query_id]} if run.domain_of else {}
            yield {"run": run.name, "query_id": query_id, **domain, **{m.title: row[m.name] for m in metrics}}


__all__ = ["query_rows", "ranking_section"]
