"""Puts a page together: our HTML, style and script, the tables, the plots, and the packed texts and scores.

A content policy with the hashes of our own style and script lets nothing else run, load or leave the page. No clock is
read: the same results give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.files import write_atomically
from ragtasks.logs import Evaluation, files_of, model_names, shortened_prompts
from ragtasks.reports.page._blocks import packed
from ragtasks.reports.page._failures import Failure, explained
from ragtasks.reports.page._naming import group_labels
from ragtasks.reports.page._opening import best_cells, opening
from ragtasks.reports.page._parts import Part, collect_parts
from ragtasks.reports.page._policy import content_policy, own_text
from ragtasks.reports.page._text_store import TextStore
from ragtasks.reports.rendering import coded
from ragtasks.tables import Section, Table, Value, fixed

Plot = tuple[str, bytes]
"""Caption, with what the picture shows on a second line where that is known; and picture (SVG or PNG)."""

_TIME = re.compile(r"results_(\d{4}-\d{2}-\d{2})T(\d{2})-(\d{2})")
_UNKNOWN = "-"
_COLUMNS = ("model", "benchmark", "settings", "responses", "run", "encoder", "refusals found by", "judges")
_MORE_COLUMNS = ("prompts that did not fit", "judge prompts", "profiles", "data revision", "ragtasks", "made", "file")


def write_page(
    evaluations: Sequence[Evaluation],
    tables: Sequence[Section],
    path: Path,
    plots: Sequence[Plot] | Callable[[], Sequence[Plot]] = (),
    *,
    metrics: Sequence[str] = (),
) -> str:
    """Write the page, whole or not at all, and return the sha256 of its bytes.

    Args:
        evaluations: as from `read_evaluations`; their logged samples are read again for the texts.
        tables: the tables of the report.
        path: the file to write.
        plots: captions and pictures; or a function that returns them, called when all texts are packed, so that
            another process may draw them meanwhile.
        metrics: names of those that losses may be of, the first that has values; empty: the first of the suite.

    Raises:
        BenchmarkFileError: logged samples that are broken or have changed since.
        CacheError: the file cannot be written.
        ConfigurationError: a plot that is neither SVG nor PNG.
    """
    parts, text_stores = collect_parts(evaluations, metrics)
    failures = explained(_measured_by(parts))
    drawn = plots() if callable(plots) else plots
    metrics_of = {metric.name: metric for evaluation in evaluations for metric in evaluation.metrics}
    style, script = (own_text(f"page.{kind}") + own_text(f"tips.{kind}") for kind in ("css", "js"))
    template = _environment().from_string(own_text("page.html.jinja"))
    page = template.render(
        title=" and ".join(dict.fromkeys(evaluation.kind[0] for evaluation in evaluations)),
        is_sample=any(evaluation.kind[0].endswith("(sample)") for evaluation in evaluations),
        made=max((_made(evaluation) for evaluation in evaluations), default=_UNKNOWN),
        sections=tables,
        provenance=_provenance(evaluations),
        is_score=lambda cell: isinstance(cell, Value),
        fixed=fixed,
        opening=opening,
        kinds_of=lambda drawn: {piece.name: piece.kind for pieces in drawn.bars.values() for piece in pieces},
        best_cells=lambda table: best_cells(table, metrics_of),
        described={name: metric.description.replace("`", "") for name, metric in metrics_of.items()},
        coded=coded,
        plots=[(caption, _picture(caption, content)) for caption, content in drawn],
        failures=failures,
        style=Markup(style),
        script=Markup(script),
        policy=Markup(content_policy(style, script)),
        blocks=_blocks(evaluations, parts, text_stores, failures),
    )
    return write_atomically(path, page.encode("utf-8", errors="replace"))  # halves of surrogate pairs have no UTF-8


def _measured_by(parts: Sequence[Part]) -> str:
    """Return the metric that losses are of, in words: with what it is of, where parts have several."""
    labels = group_labels([part.group for part in parts])
    metrics = {part.group: part.metric for part in parts if part.metric}
    names = list(dict.fromkeys(metrics.values())) or ["the metric of the tables"]
    return names[0] if len(names) == 1 else " or ".join(f"{metrics[group]} ({labels[group]})" for group in metrics)


def _blocks(
    evaluations: Sequence[Evaluation],
    parts: Sequence[Part],
    text_stores: Mapping[str, TextStore],
    failures: Sequence[Failure],
) -> list[str]:
    """Return the packed blocks; the first one says what the others are."""
    blocks: list[str] = [""]

    def place(block: str | None) -> int | None:
        if block is None:
            return None
        blocks.append(block)
        return len(blocks) - 1

    metrics = {metric.name: metric for evaluation in evaluations for metric in evaluation.metrics}
    benchmarks = {
        name: {
            "tasks": place(text_store.pack_tasks()),
            "texts": {domain: place(block) for domain, block in text_store.pack_texts().items()},
        }
        for name, text_store in text_stores.items()
    }
    labels = group_labels([part.group for part in parts])
    places = {group: place for place, group in enumerate(labels)}
    described = [
        {
            "label": f"{part.model} · {labels[part.group]}" if labels[part.group] else part.model,
            "differs": labels[part.group],
            "benchmark": part.group[0][0],
            "setting": part.setting,
            "group": places[part.group],
            "scores": place(part.pack_scores(list(metrics))),
            "verdicts": place(part.pack_verdicts()),
        }
        for part in parts
    ]
    blocks[0] = packed(
        {
            "id": hashlib.sha256("".join(blocks).encode()).hexdigest()[:16],
            "benchmarks": benchmarks,
            "parts": described,
            "metrics": {name: [item.description, item.higher_is_better] for name, item in metrics.items()},
            "failures": [asdict(failure) for failure in failures],
        }
    )
    return blocks


def _provenance(evaluations: Sequence[Evaluation]) -> Table:
    """Return what the scores of each evaluation rest on."""
    rows = tuple(
        (
            name,
            evaluation.kind[0],
            ", ".join(dict.fromkeys(row.setting for row in evaluation.rows)),
            len(evaluation.rows),
            _said(evaluation, "configuration", "run"),
            evaluation.kind[1],
            _said(evaluation, "scoring", "idk_detector"),
            _said(evaluation, "scoring", "judges"),
            shortened_prompts(evaluation.provenance.values()) or _UNKNOWN,
            _said(evaluation, "scoring", "judge_prompts"),
            _said(evaluation, "scoring", "profiles"),
            _said(evaluation, "revision"),
            _said(evaluation, "ragtasks_version"),
            _made(evaluation),
            files_of(evaluation),
        )
        for evaluation, name in zip(evaluations, model_names(evaluations), strict=True)
    )
    return Table("What the scores rest on", (*_COLUMNS, *_MORE_COLUMNS), rows)


def _said(evaluation: Evaluation, *keys: str) -> str:
    """Return what the results of all its harness tasks say, each text once; a dash for nothing."""
    found: dict[str, None] = {}
    for value in evaluation.provenance.values():
        item: Any = value
        for key in keys:
            item = item.get(key) if isinstance(item, Mapping) else None
        found[", ".join(map(str, item)) if isinstance(item, list) else str(item or _UNKNOWN)] = None
    return "; ".join(found)


def _made(evaluation: Evaluation) -> str:
    """Return when the harness wrote an evaluation, from the name of its file."""
    match = _TIME.match(evaluation.source.name)
    return f"{match[1]} {match[2]}:{match[3]}" if match else _UNKNOWN


def _picture(caption: str, content: bytes) -> str:
    """Return a picture as an address that holds it; in an image element no script of an SVG runs."""
    start = content[:512].lstrip().lower()
    if content.startswith(b"\x89PNG"):
        kind = "png"
    elif start.startswith((b"<svg", b"<?xml")):
        kind = "svg+xml"
    else:
        found = f"{len(content)} bytes that start with {content[:16]!r}"
        raise ConfigurationError(
            clear_error("plot", where=caption, expected="SVG or PNG", found=found, next_step="draw it as SVG or PNG")
        )
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _environment() -> Environment:
    return Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


__all__ = ["Plot", "write_page"]
