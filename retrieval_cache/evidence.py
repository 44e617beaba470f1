"""Scores of benchmarks that count evidence instead of judged passages.

A passage counts by its text, so published rankings of foreign passages can be scored as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ragtasks.benchmarks import Benchmark, RetrievalSide, retrieval_side
from ragtasks.files import Run
from ragtasks.metrics import DEPTH, EVIDENCE_METRICS, mean_evidence_scores
from ragtasks.records import Passage, Score
from ragtasks.tables import Table
from retrieval_cache.corpora.passages import read_corpus

_OTHER_CORPUS = "it ranks passages that the benchmark's corpus does not have"


def foreign_passages(benchmark: Benchmark, run: Run) -> str:
    """Return the reason why a run cannot be scored by passage id: its passages are not in the corpus; "" if it can.

    This applies to benchmarks that count evidence, whose judgements refer to passages cut by this package.
    """
    side = retrieval_side(benchmark.name)
    if side.load_facts is None:
        return ""
    ranked = {ranked_passage.passage_id for ranking in run.values() for ranked_passage in ranking}
    passage_ids = {passage.passage_id for passage in corpus_passages(benchmark, side.domains)}
    return _OTHER_CORPUS if ranked - passage_ids else ""


def evidence_table(benchmark: Benchmark, runs: Mapping[str, Run | None]) -> Table | None:
    """Return the evidence scores of runs; None if the benchmark does not count evidence."""
    side = retrieval_side(benchmark.name)
    if side.load_facts is None:
        return None
    facts = {
        key: evidence for domain in side.domains for key, evidence in side.load_facts(benchmark.root, domain).items()
    }
    ranked = [ranking[:DEPTH] for run in runs.values() for ranking in (run or {}).values()]
    wanted = {ranked_passage.passage_id for ranking in ranked for ranked_passage in ranking}
    passages = corpus_passages(benchmark, side.domains) if wanted else ()
    texts = {passage.passage_id: passage.text for passage in passages if passage.passage_id in wanted}
    scores = {name: _support_scores(benchmark, side, run, facts, texts) for name, run in runs.items()}
    reasons = dict.fromkeys(
        f"{name}: {s.reason}" for name, evidence in scores.items() for s in evidence.values() if s.reason
    )
    return Table(
        title=f"Evidence found (over the {len(facts)} queries with evidence)",
        columns=("run", "n", *(metric.name for metric in EVIDENCE_METRICS)),
        rows=tuple((name, str(len(facts)), *map(_cell, evidence.values())) for name, evidence in scores.items()),
        legend=(*(f"{metric.name}: {metric.description}" for metric in EVIDENCE_METRICS), *reasons),
    )


def result_files_table(side: RetrievalSide, files: Sequence[Path]) -> Table | None:
    """Return the evidence scores of result files of the official script; None without such files.

    Each file is scored over its own queries and gold lists, as in the script.
    """
    if side.load_results is None or not files:
        return None
    read = {path: side.load_results(path) for path in files}
    return Table(
        title="Evidence found, by the gold lists of result files (n: the file's queries with evidence)",
        columns=("file", "n", *(metric.name for metric in EVIDENCE_METRICS)),
        rows=tuple(
            (path.name, str(len(facts)), *map(_cell, mean_evidence_scores(rankings, facts).values()))
            for path, (rankings, facts) in read.items()
        ),
        legend=tuple(f"{metric.name}: {metric.description}" for metric in EVIDENCE_METRICS),
    )


def corpus_passages(benchmark: Benchmark, domains: Iterable[str]) -> Iterator[Passage]:
    """Yield the passages of a benchmark's corpora. A corpus shared by several domains is read once."""
    side = retrieval_side(benchmark.name)
    for file in dict.fromkeys(str(side.corpus_file(benchmark.root, domain)) for domain in domains):
        yield from read_corpus(file)


def _support_scores(
    benchmark: Benchmark,
    side: RetrievalSide,
    run: Run | None,
    facts: Mapping[str, Sequence[str]],
    texts: Mapping[str, str],
) -> dict[str, Score]:
    if run is None:
        published = side.load_rankings(benchmark.root) if side.load_rankings else {}
        return mean_evidence_scores({key: [p.text for p in passages] for key, passages in published.items()}, facts)
    if any(ranked.passage_id not in texts for ranking in run.values() for ranked in ranking[:DEPTH]):
        return {metric.name: Score(None, _OTHER_CORPUS) for metric in EVIDENCE_METRICS}
    rankings = {key: [texts[ranked.passage_id] for ranked in ranking[:DEPTH]] for key, ranking in run.items()}
    return mean_evidence_scores(rankings, facts)


def _cell(score: Score) -> str:
    return "-" if score.value is None else f"{score.value:.4f}"
