"""Scored responses, of this process or of results files: a table to print, rows to compute with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtasks.errors import ConfigurationError, MissingExtraError
from ragtasks.logs import Evaluation, Row, merge_evaluations, read_evaluations
from ragtasks.reports.rendering import Format, render
from ragtasks.reports.tables import overview_sections
from ragtasks.scoring import CheckedAnswers, Plausibility, checked_again

if TYPE_CHECKING:
    import pandas
    import polars

_LABELS = ("task_id", "conversation_id", "turn", "domain", "setting", "answerability")
_MORE_LABELS = ("multi_turn", "n_passages", "n_references", "n_found", "idk")


@dataclass(frozen=True, repr=False)
class Results:
    """Responses with their scores; printed, they are the report's first table."""

    evaluations: tuple[Evaluation, ...]
    """One a model and kind of scoring."""
    missing: tuple[str, ...] = ()
    """Ids of the tasks that `score` was given no answer to: they are rows without a score."""
    left_out: tuple[str, ...] = ()
    """Ids of the conversational tasks whose answers `score` left out, as the paper does."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a response: model, benchmark, labels of the task, scores (None where unscored), and why."""
        return [_as_dict(item, row) for item in merge_evaluations(self.evaluations) for row in item.rows]

    @property
    def by_task(self) -> Mapping[str, Mapping[str, float | None]]:
        """Task id -> metric -> score, None where unscored.

        Raises:
            ConfigurationError: a task has several responses, of other models or settings: `rows` has them all.
        """
        rows = [row for item in self.evaluations for row in item.rows]
        found = {row.task_id: row.values for row in rows}
        if len(found) != len(rows):
            raise ConfigurationError(f"{self!r} holds several responses to a task. Next step: take `rows`")
        return found

    def to_pandas(self) -> pandas.DataFrame:
        """Return `rows` as a data frame of pandas.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingExtraError("pandas", "frames", "to_pandas()") from error
        return pandas.DataFrame(self.rows).astype(dict.fromkeys(self._metrics, float))

    def to_polars(self) -> polars.DataFrame:
        """Return `rows` as a data frame of polars.

        Raises:
            MissingExtraError: polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise MissingExtraError("polars", "frames", "to_polars()") from error
        floats = dict.fromkeys(self._metrics, polars.Float64)  # a metric without any value has no type of its own
        return polars.DataFrame(self.rows, schema_overrides=floats, infer_schema_length=None)

    @property
    def plausibility(self) -> Mapping[tuple[str, str], tuple[Plausibility, ...]]:
        """(Model, setting) -> what the checks found among its answers; () where each looks like an answer."""
        found: dict[tuple[str, str], list[tuple[str, Mapping[str, str]]]] = {}
        for item in merge_evaluations(self.evaluations):
            for row in item.rows:
                if row.implausible is not None:
                    found.setdefault((item.model, row.setting), []).append((row.task_id, row.implausible))
        return {key: tuple(CheckedAnswers("", tuple(own)).summary) for key, own in found.items()}

    @property
    def _metrics(self) -> list[str]:
        return list(dict.fromkeys(name for item in self.evaluations for row in item.rows for name in row.values))

    def __repr__(self) -> str:
        """Return whose responses these are, and how many."""
        models = ", ".join(dict.fromkeys(item.model for item in self.evaluations))
        return f"<{type(self).__name__} of {models}: {sum(len(item.rows) for item in self.evaluations)} responses>"

    def __str__(self) -> str:
        """Return the settings side by side, a line a model, and how many tasks have no answer."""
        n = sum(len(item.rows) for item in self.evaluations)
        notes = {
            "missing": f"{len(self.missing)} of {n} tasks have no answer and no score" if self.missing else "",
            "left out": f"answers to {len(self.left_out)} conversational tasks" if self.left_out else "",
        }
        for (model, setting), checks in self.plausibility.items():
            notes[f"implausible ({model} in {setting})"] = "; ".join(map(str, checks))
        notes = {name: text for name, text in notes.items() if text}
        sections = [
            replace(item, provenance={**item.provenance, **notes}) for item in overview_sections(self.evaluations)
        ]
        return render(sections, Format.MARKDOWN)


def read_results(path: str | Path | Sequence[str | Path]) -> Results:
    """Return what lm_eval, `ragtasks run` or `ragtasks judge` saved.

    Args:
        path: a folder that was written with `--output_path --log_samples`, a results file in it, or several of these.

    Raises:
        BenchmarkFileError: no results there, logged samples that are not all there, or a broken file.
    """
    paths = [path] if isinstance(path, (str, Path)) else path
    return Results(tuple(checked_again(item) for item in read_evaluations([Path(item) for item in paths])))


def _as_dict(evaluation: Evaluation, row: Row) -> dict[str, Any]:
    return {
        "model": evaluation.model,
        "benchmark": evaluation.kind[0],
        **{name: getattr(row, name) for name in _LABELS},
        "question_types": list(row.question_types),
        **{name: getattr(row, name) for name in _MORE_LABELS},
        **row.values,
        "unscored": "; ".join(f"{name}: {reason}" for name, reason in row.unscored.items()),
    }


__all__ = ["Results", "read_results"]
