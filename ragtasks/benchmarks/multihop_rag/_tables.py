"""MultiHop-RAG's data tables: articles by category, and pieces of evidence a query (paper, Tables 2 to 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.benchmarks.multihop_rag._rows import Counts, read_articles
from ragtasks.tables import Table, Value


def tables(benchmark: Benchmark, counts: Counts) -> Sequence[Table]:
    """Return the tables of the corpus and of the queries.

    Args:
        benchmark: with its queries.
        counts: of this copy.

    Raises:
        BenchmarkFileError: the corpus is missing or broken.
    """
    return _articles(benchmark, counts), _evidence(benchmark), _first_words(benchmark)


def _articles(benchmark: Benchmark, counts: Counts) -> Table:
    articles = read_articles(benchmark.root, counts)
    categories = {article.category for article in articles}
    lengths = {name: [len(a.body.split()) for a in articles if a.category == name] for name in sorted(categories)}
    lengths["total"] = [len(article.body.split()) for article in articles]
    rows = tuple((name, Value(fmean(own), len(own), len(own)), len(own)) for name, own in lengths.items())
    note = (
        "Words are what stands between white space; the paper counts the tokens of a tokeniser that it does not name."
    )
    return Table("Articles by category", ("category", "words an article", "articles"), rows, note)


def _evidence(benchmark: Benchmark) -> Table:
    found = Counter(len(task.extra["evidence"]) for task in benchmark.tasks)
    rows = tuple((str(number), found[number], _share(found[number], found.total())) for number in sorted(found))
    return Table("Pieces of evidence a query", ("pieces", "queries", "share"), rows)


def _first_words(benchmark: Benchmark) -> Table:
    found = Counter(task.question.split()[0].lower() for task in benchmark.tasks)
    rows = tuple((word, count, _share(count, found.total())) for word, count in found.most_common(10))
    return Table("First words of the queries", ("word", "queries", "share"), rows, "The ten most frequent.")


def _share(part: int, whole: int) -> Value:
    return Value(part / whole, whole, whole)


__all__ = ["tables"]
