"""Retrieval on synthetic dialogues by query form, in all and per domain: Tables 2, 9 and 10 of the OR-CONVQA paper."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ragtasks.benchmarks import Benchmark, retrieval_side
from ragtasks.clients import Progress, no_progress
from ragtasks.errors import ConfigurationError
from ragtasks.files import Ranked
from ragtasks.metrics import retrieval_metric, score_run
from ragtasks.records import Qrel
from ragtasks.synthesis.training import MEASURES, relevant
from ragtasks.tables import Cell, Table, fixed
from retrieval_cache.corpora import read_corpus
from retrieval_cache.queries import TrainedRewriter, build_queries
from retrieval_cache.spec import parse

PAPER_FORMS = ("context", "contextualized", "decontextualized")
"""The query forms of Table 2: with the previous question and answer, as asked, standing alone."""

_DEPTH = 20
_TRAINED = "llm_rewrite:"
# Table 2, dialogues from propositions, by reciprocal rank fusion: MAP, R@5, R@10, R@20.
_PUBLISHED = {
    "paper: RRF, proprietary documents": {
        "context": ("0.19", "0.31", "0.44", "0.56"),
        "contextualized": ("0.46", "0.55", "0.63", "0.69"),
        "decontextualized": ("0.50", "0.60", "0.67", "0.73"),
    },
    "paper: RRF, public documents": {
        "context": ("0.18", "0.30", "0.44", "0.56"),
        "contextualized": ("0.49", "0.59", "0.65", "0.72"),
        "decontextualized": ("0.54", "0.63", "0.71", "0.77"),
    },
}
_Values = Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]


def retrieval_tables(
    benchmark: Benchmark,
    retrievers: Sequence[str],
    forms: Sequence[str] = PAPER_FORMS,
    progress: Progress = no_progress,
) -> tuple[Table, ...]:
    """Return the means over all judged questions, and with several domains those of each.

    Args:
        benchmark: one with judgements; each question is searched in the corpus of its domain.
        retrievers: lines that choose them, such as `hybrid(bm25,dense:minilm)` for reciprocal rank fusion.
        forms: query forms that need no model, or `llm_rewrite:FOLDER` for a trained rewriter.
        progress: told of encoding and searching.

    Raises:
        ConfigurationError: no question is judged, or an unknown retriever or form.
        MissingExtraError: a library that a retriever needs is not installed.
        BenchmarkFileError: the benchmark's files are broken.
    """
    qrels = relevant(benchmark)
    domains = {task.task_id: task.domain for task in benchmark.tasks if task.task_id in qrels}
    if not domains:
        raise ConfigurationError(f"{benchmark.label}: no question is judged, so retrieval cannot be measured")
    texts = {form: _texts(benchmark, form) for form in forms}
    values: _Values = {
        (line, form): found
        for line in retrievers
        for form, found in _searched(benchmark, line, texts, qrels, domains, progress).items()
    }
    rows: list[tuple[Cell, ...]] = [
        (line, form, len(found), *_means(list(found.values()))) for (line, form), found in values.items()
    ]
    for source, published in _PUBLISHED.items():
        rows += [(source, form, "-", *published[form]) for form in forms if form in published]
    note = "Over the questions that rest on a passage; the first 20 found count."
    whole = Table("Retrieval by query form", ("retriever", "query", "questions", *MEASURES), tuple(rows), note)
    names = list(dict.fromkeys(domains.values()))
    return (whole, _by_domain(values, domains, names)) if len(names) > 1 else (whole,)


def _texts(benchmark: Benchmark, form: str) -> Mapping[str, str]:
    if form.startswith(_TRAINED):
        return TrainedRewriter(Path(form.removeprefix(_TRAINED))).rewrite(benchmark.tasks).queries().texts
    return build_queries(benchmark, form).texts


def _searched(  # noqa: PLR0917 (one parameter a table)
    benchmark: Benchmark,
    line: str,
    texts: Mapping[str, Mapping[str, str]],
    qrels: Mapping[str, Sequence[str]],
    domains: Mapping[str, str],
    progress: Progress,
) -> dict[str, Mapping[str, Mapping[str, float]]]:
    """Return form -> task id -> measure -> value; each corpus is indexed once for all forms."""
    side = retrieval_side(benchmark.name)
    runs: dict[str, dict[str, tuple[Ranked, ...]]] = {form: {} for form in texts}
    for domain in dict.fromkeys(domains.values()):
        own = [name for name, its in domains.items() if its == domain]
        retriever = parse(line)
        with TemporaryDirectory() as work:
            retriever.index(read_corpus(str(side.corpus_file(benchmark.root, domain))), Path(work), progress)
            for form, queries in texts.items():
                runs[form].update(retriever.search({name: queries[name] for name in own}, _DEPTH, progress))
    judged = [Qrel(name, passage, 1) for name in domains for passage in qrels[name]]
    metrics = [retrieval_metric(name) for name in MEASURES]
    return {form: score_run(run, judged, metrics).values for form, run in runs.items()}


def _by_domain(values: _Values, domains: Mapping[str, str], names: Sequence[str]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        for (line, form), found in values.items():
            own = [row for task_id, row in found.items() if domains[task_id] == name]
            rows.append((name, line, form, len(own), *_means(own)))
    return Table("Retrieval per domain", ("domain", "retriever", "query", "questions", *MEASURES), tuple(rows))


def _means(rows: Sequence[Mapping[str, float]]) -> list[str]:
    names = [retrieval_metric(name).name for name in MEASURES]
    return [fixed(statistics.fmean(row[name] for row in rows)) for name in names]


__all__ = ["PAPER_FORMS", "retrieval_tables"]
