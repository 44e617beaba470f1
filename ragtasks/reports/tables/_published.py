"""Published scores next to ours: shown if benchmark, setting, tasks, judge, its prompts and encoder are equal.

A metric with another judge or encoder has no column, and a setting without all public tasks has no rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ragtasks.files import CLOSED_BOOK
from ragtasks.metrics import Metric
from ragtasks.published import PublishedTable, published_tables
from ragtasks.reports.tables._scores import by_setting, metric_columns
from ragtasks.results import Evaluation, ScoredAnswer, value_at
from ragtasks.tables import Cell, Table

_ENCODED = frozenset({"rb_alg"})  # metrics that depend on the encoder
_Scored = tuple[str, Sequence[ScoredAnswer]]
"""A model and its rows in one setting."""


def published_score_tables(evaluations: Sequence[Evaluation], present: Mapping[str, Metric]) -> Iterator[Table]:
    """Yield the published tables with equal conditions: our rows, then the published ones, setting by setting."""
    for published, names, settings in _matching(evaluations, present):
        columns = metric_columns(names, present)
        rows: list[tuple[Cell, ...]] = []
        for setting, ours in settings.items():
            for model, own in ours:
                rows.append((setting, model, "ours", len(own), *(score(own) for score in columns.values())))
            for row in published.of(setting):
                scores = (published.score(row, name) for name in names)
                rows.append((setting, row.name, "published", published.n, *scores))
        n = len(next(iter(settings.values()))[0][1])
        heads = ("setting", "model", "by", "n", *names)
        yield Table(f"Published: {published.title}", heads, tuple(rows), published.note_for(n))


def published_sentences(evaluations: Sequence[Evaluation], present: Mapping[str, Metric], metric: str) -> Iterator[str]:
    """Yield the range of the published scores of a metric in each setting with equal conditions."""
    for published, names, settings in _matching(evaluations, present):
        for setting, ours in settings.items() if metric in names else ():
            rows = [row for row in published.of(setting) if not row.is_target]
            scores = sorted((published.score(row, metric) for row in rows), key=float)
            yield (
                f"Published for {setting} with this judge: {metric} {scores[0]} to {scores[-1]}, {len(rows)} models "
                f"on {published.n:,} tasks, here {len(ours[0][1]):,} ({published.title})."
            )


def _matching(
    evaluations: Sequence[Evaluation], present: Mapping[str, Metric]
) -> Iterator[tuple[PublishedTable, list[str], dict[str, list[_Scored]]]]:
    """Yield each table with equal conditions, its comparable metrics, and our rows by setting."""
    benchmark, encoder, _ = evaluations[0].kind
    judge, detectors = official_judge(evaluations), recorded_scoring(evaluations, "idk_detector")
    is_comparable = judge and all(str(detector).startswith("judge ") for (detector,) in detectors)
    for published in published_tables(benchmark) if is_comparable else ():
        names = [name for name in published.metrics if name in present]
        names = [name for name in names if name not in _ENCODED or encoder == published.encoder]
        settings: dict[str, list[_Scored]] = {}
        for (setting, model), rows in by_setting(with_passages_of_setting(evaluations)):
            if published.is_covered_by(len(rows)) and any(published.of(setting)):
                settings.setdefault(setting, []).append((model, rows))
        if names and settings and published.judge == judge:
            yield published, names, settings


def official_judge(evaluations: Sequence[Evaluation]) -> str:
    """Return the only judge of all scores, without its provider; empty with several or without the official prompts."""
    scoring = recorded_scoring(evaluations, "judges", "judge_prompts")
    judges, prompts = scoring.pop() if len(scoring) == 1 else ("", "")
    is_only = prompts == "official" and ", " not in str(judges)
    return str(judges).rpartition("/")[2] if is_only else ""


def with_passages_of_setting(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the evaluations whose prompts had the passages of their setting: all, and no injected ones."""
    return [
        evaluation
        for evaluation in evaluations
        if not any(
            value_at(provenance, "configuration", "run") == CLOSED_BOOK
            or value_at(provenance, "configuration", "injected")
            for provenance in evaluation.provenance.values()
        )
    ]


def recorded_scoring(evaluations: Sequence[Evaluation], *keys: str) -> set[tuple[object, ...]]:
    """Return the values of keys under `scoring`, of all harness tasks, each combination once."""
    return {
        tuple(value_at(provenance, "scoring", key) for key in keys)
        for evaluation in evaluations
        for provenance in evaluation.provenance.values()
    }
