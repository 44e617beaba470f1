"""Retrieval on synthetic dialogues by query form, in all and per domain.

Source: OR-CONVQA paper, Tables 2, 3 and 8 to 10.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ragtasks.benchmarks import Benchmark
from ragtasks.errors import ConfigurationError
from ragtasks.metrics import retrieval_metric, score_run
from ragtasks.progress import Progress
from ragtasks.records import Qrel
from ragtasks.synthesis.encoder_training import MEASURES, relevant
from ragtasks.tables import Cell, Table, fixed
from retrieval_cache import LLM_REWRITE, Rewriter, Workspace, fallbacks_of, needs_model, read_run, retrieve

PAPER_FORMS = ("context", "contextualized", "decontextualized")
"""The query forms of Table 2: with the previous question and answer, as asked, standing alone."""

_DEPTH = 20
# Tables 2 and 3, dialogues from propositions, by reciprocal rank fusion: MAP, R@5, R@10, R@20.
_PUBLISHED_RETRIEVAL = {
    "paper: RRF, proprietary documents": {
        "context": ("0.19", "0.31", "0.44", "0.56"),
        "contextualized": ("0.46", "0.55", "0.63", "0.69"),
        "decontextualized": ("0.50", "0.60", "0.67", "0.73"),
        "llm_rewrite (T5)": ("0.49", "0.57", "0.65", "0.72"),
    },
    "paper: RRF, public documents": {
        "context": ("0.18", "0.30", "0.44", "0.56"),
        "contextualized": ("0.49", "0.59", "0.65", "0.72"),
        "decontextualized": ("0.54", "0.63", "0.71", "0.77"),
        "llm_rewrite (T5)": ("0.52", "0.62", "0.69", "0.76"),
    },
}
_NOTE = "Over the questions that rest on a passage; the first 20 found count."
_SEEN = "A rewriter that was trained on these dialogues has seen most of the answers."
_Values = Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]


def retrieval_tables(
    benchmark: Benchmark,
    retrievers: Sequence[str],
    forms: Sequence[str],
    *,
    place: Workspace,
    rewriter: Rewriter,
    progress: Progress,
) -> tuple[Table, ...]:
    """Return the means over all judged questions, and with several domains those of each."""
    qrels = relevant(benchmark)
    domains = {task.task_id: task.domain for task in benchmark.tasks if task.task_id in qrels}
    if not domains:
        raise ConfigurationError(f"{benchmark.label}: no question is judged, so retrieval cannot be measured")
    judged = [Qrel(name, passage, 1) for name in domains for passage in qrels[name]]
    metrics = [retrieval_metric(name) for name in MEASURES]
    values: dict[tuple[str, str], Mapping[str, Mapping[str, float]]] = {}
    fallbacks: list[str] = []
    for line, form in itertools.product(retrievers, forms):
        # One that is given and not used is refused.
        form_rewriter = rewriter if needs_model(form) else replace(rewriter, model=None)
        made = retrieve(place, line, form, depth=_DEPTH, rewriter=form_rewriter, progress=progress)
        values[line, form] = score_run(read_run(made, domains), judged, metrics).values
        fallbacks += [f"{form}: {found}" for found in [fallbacks_of(made.manifest)] if found]
    rows: list[tuple[Cell, ...]] = [
        (line, form, len(found), *_means(list(found.values()))) for (line, form), found in values.items()
    ]
    labels = {"llm_rewrite (T5)" if form.startswith(LLM_REWRITE) else form for form in forms}
    for source, published in _PUBLISHED_RETRIEVAL.items():
        rows += [(source, form, "-", *cells) for form, cells in published.items() if form in labels]
    is_trained = any(form.startswith(f"{LLM_REWRITE}:") for form in forms)
    note = " ".join([_NOTE, *([_SEEN] if is_trained else []), *(f"{text}." for text in dict.fromkeys(fallbacks))])
    whole = Table("Retrieval by query form", ("retriever", "query", "questions", *MEASURES), tuple(rows), note)
    names = list(dict.fromkeys(domains.values()))
    return (whole, _by_domain(values, domains, names)) if len(names) > 1 else (whole,)


def _by_domain(values: _Values, domains: Mapping[str, str], names: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        for (line, form), found in values.items():
            of_domain = [row for task_id, row in found.items() if domains[task_id] == name]
            rows.append((name, line, form, len(of_domain), *_means(of_domain)))
    return Table("Retrieval per domain", ("domain", "retriever", "query", "questions", *MEASURES), tuple(rows))


def _means(rows: Sequence[Mapping[str, float]]) -> list[str]:
    names = [retrieval_metric(name).name for name in MEASURES]
    return [fixed(statistics.fmean(row[name] for row in rows)) for name in names]
