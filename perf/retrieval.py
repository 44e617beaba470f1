"""Cost of BM25 retrieval compared with plain tantivy, bm25s and rank_bm25 over one corpus.

The corpus consists of the passages of an MTRAG checkout. Beyond their number they are repeated under other ids, with
shuffled sentences and some from another passage, so that all differ. Each system runs in its own process, for its own
peak memory; it reads the same file, builds the index, and answers the same 777 questions for 10 passages each. End to
end is reading, tokenizing, building and answering. rank_bm25 may answer a sample of the questions; its time is then
scaled, and the table states so. Tokenizing all texts is measured separately.

    python perf/retrieval.py --data path/to/mt-rag-benchmark --sizes 10000 60000 366000

With `--agreement`, two or more retriever lines search the checkout's own corpora for all rewritten questions. The rows
contain times, memory, mean nDCG@5, and the agreement of the first five passages with those of the first line: the share
of questions with the same five in any order and in the same order, and the mean number in common.

    python perf/retrieval.py --data path/to/mt-rag-benchmark --agreement bm25 rank_bm25
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from ragtasks.benchmarks import retrieval_side
from ragtasks.files import Ranked
from ragtasks.metrics import retrieval_metric, score_run
from ragtasks.records import Passage
from retrieval_cache import read_corpus
from retrieval_cache.spec import parse

K = 10
AGREEING = 5
"""Passages per question whose agreement is measured."""
N_QUESTIONS = 777
"""Judged questions of MTRAG."""
SYSTEMS = ("ours", "tantivy", "bm25s", "rank_bm25", "tokenising")
TOKENISED = ("bm25s", "rank_bm25")
"""Systems that accept terms. They get ours, so that all index the same terms."""


def make_corpus(root: Path, size: int, path: Path) -> None:
    """Write `size` passages as JSON lines."""
    side = retrieval_side("mtrag")
    files = [str(side.corpus_file(root, domain)) for domain in side.domains]
    real = [passage for file in files for passage in read_corpus(file)]
    chance = random.Random(0)
    chance.shuffle(real)
    sentences = [re.split(r"(?<=[.!?\n])\s+", passage.text) for passage in real]
    with path.open("wb") as file:
        for number in range(size):
            index = number % len(real)
            text = real[index].text
            if number >= len(real):
                inserted = chance.choice(sentences)
                mixed = [*sentences[index], *chance.sample(inserted, min(2, len(inserted)))]
                chance.shuffle(mixed)
                text = " ".join(mixed)
            file.write(orjson.dumps([f"{real[index].passage_id}-{number // len(real)}", text]) + b"\n")


def made_passages(path: Path) -> Iterator[Passage]:
    """Yield the passages of a file written by `make_corpus`."""
    with path.open("rb") as lines:
        for line in lines:
            yield Passage(*orjson.loads(line))


def measure_ours(corpus: Path, folder: Path, queries: dict[str, str]) -> dict[str, float]:
    from retrieval_cache.retrievers.bm25 import Bm25Retriever

    retriever = Bm25Retriever()
    _, build = clock(lambda: retriever.index(made_passages(corpus), folder))
    run, search = clock(lambda: retriever.search(queries, K))
    _, load = clock(lambda: Bm25Retriever().index(iter(()), folder))
    return {"build": build, "search": search, "load": load, "n_hits": sum(map(len, run.values()))}


def measure_tantivy(corpus: Path, folder: Path, queries: dict[str, str]) -> dict[str, float]:
    """Measure tantivy as in its manual (stored ids, default field and writer), with our analyzer and queries."""
    import tantivy

    from retrieval_cache.retrievers.bm25 import text_analyser

    folder.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw")
    builder.add_text_field("text", tokenizer_name="english")
    schema = builder.build()
    index = tantivy.Index(schema, path=str(folder))
    index.register_tokenizer("english", text_analyser("english"))

    def build() -> None:
        writer = index.writer()
        for passage in made_passages(corpus):
            writer.add_document(tantivy.Document(id=passage.passage_id, text=passage.text))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()

    analyser = text_analyser("english")

    def answer(text: str) -> list[tuple[float, str]]:
        terms = [tantivy.Query.term_query(schema, "text", term) for term in analyser.analyze(text)]
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])
        return [(score, searcher.doc(address)["id"][0]) for score, address in searcher.search(query, K).hits]

    _, build_seconds = clock(build)
    searcher = index.searcher()
    run, search = clock(lambda: [answer(text) for text in queries.values()])
    _, load = clock(lambda: tantivy.Index.open(str(folder)).searcher())
    return {"build": build_seconds, "search": search, "load": load, "n_hits": sum(map(len, run))}


def measure_bm25s(corpus: Path, folder: Path, queries: dict[str, str]) -> dict[str, float]:
    """Measure bm25s as in its manual, with our terms."""
    import bm25s

    from retrieval_cache.retrievers.bm25 import term_lister

    terms = term_lister("english")
    scorer = bm25s.BM25(k1=1.2, b=0.75)

    def build() -> None:
        scorer.index([terms(passage.text) for passage in made_passages(corpus)], show_progress=False)
        scorer.save(str(folder), show_progress=False)

    _, build_seconds = clock(build)
    texts = [terms(text) for text in queries.values()]
    hits, search = clock(lambda: scorer.retrieve(texts, k=K, show_progress=False))
    _, load = clock(lambda: bm25s.BM25.load(str(folder), show_progress=False))
    return {"build": build_seconds, "search": search, "load": load, "n_hits": int((hits.scores > 0).sum())}


def measure_rank_bm25(corpus: Path, folder: Path, queries: dict[str, str]) -> dict[str, float]:
    """Measure rank_bm25 with our terms. It stores nothing on disk, so loading is building."""
    import numpy as np
    from rank_bm25 import BM25Okapi

    from retrieval_cache.retrievers.bm25 import term_lister

    del folder
    terms = term_lister("english")
    scorer, build = clock(lambda: BM25Okapi([terms(passage.text) for passage in made_passages(corpus)], k1=1.2, b=0.75))
    run, search = clock(lambda: [np.argsort(scorer.get_scores(terms(text)))[::-1][:K] for text in queries.values()])
    return {"build": build, "search": search, "load": build, "n_hits": sum(map(len, run))}


def measure_tokenising(corpus: Path, folder: Path, queries: dict[str, str]) -> dict[str, float]:
    """Measure our analyzer alone, on every passage and every question."""
    from retrieval_cache.retrievers.bm25 import term_lister

    del folder
    terms = term_lister("english")
    _, build = clock(lambda: sum(len(terms(passage.text)) for passage in made_passages(corpus)))
    n_terms, search = clock(lambda: sum(len(terms(text)) for text in queries.values()))
    return {"build": build, "search": search, "load": 0.0, "n_hits": n_terms}


def measure_line(line: str, root: Path) -> dict[str, Any]:
    """Return the five best passages of one retriever line for each judged question, with times and peak memory."""
    side = retrieval_side("mtrag")
    assert side.load_rewrites
    build = search = 0.0
    run: dict[str, list[tuple[str, float]]] = {}
    for domain in side.domains:
        judged = {qrel.query_id for qrel in side.load_qrels(root, domain)}
        queries = {query: text for query, text in side.load_rewrites(root, domain).items() if query in judged}
        corpus, retriever = str(side.corpus_file(root, domain)), parse(line)
        with tempfile.TemporaryDirectory() as folder:
            _, seconds = clock(lambda: retriever.index(read_corpus(corpus), Path(folder)))  # noqa: B023
            build += seconds
            rankings, seconds = clock(lambda: retriever.search(queries, AGREEING))  # noqa: B023
            search += seconds
        run |= {query: [(hit.passage_id, hit.score) for hit in hits] for query, hits in rankings.items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"build": build, "search": search, "peak_mib": peak, "run": run}


def report_agreement(root: Path, lines: list[str]) -> None:
    """Print a row for each retriever line."""
    side = retrieval_side("mtrag")
    qrels = [qrel for domain in side.domains for qrel in side.load_qrels(root, domain)]
    metric = retrieval_metric(f"nDCG@{AGREEING}")
    first: dict[str, list[str]] = {}
    columns = f"{'build s':>9}{'search s':>10}{'peak MiB':>10}{'nDCG@5':>8}"
    print(f"{columns}{'same set':>10}{'same order':>12}{'in common':>11}")
    for line in lines:
        row = json.loads(in_child(root, "--search", line))
        run = {query: tuple(Ranked(*hit) for hit in hits) for query, hits in row["run"].items()}
        values = score_run(run, qrels, [metric]).values.values()
        ranked = {query: [hit.passage_id for hit in hits] for query, hits in run.items()}
        first = first or ranked
        pairs = [(ranked[query], first[query]) for query in first]
        same_set, same_order = (sum(key(a) == key(b) for a, b in pairs) / len(pairs) for key in (set, list))
        mean = statistics.fmean(scores[metric.name] for scores in values)
        in_common = sum(len({*a} & {*b}) for a, b in pairs) / len(pairs)
        print(
            f"{row['build']:>9.2f}{row['search']:>10.2f}{row['peak_mib']:>10.0f}{mean:>8.3f}"
            f"{same_set:>10.3f}{same_order:>12.3f}{in_common:>11.2f}  {line}"
        )


def clock(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return (result, seconds)."""
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def measure_here(system: str, corpus: Path, queries: dict[str, str]) -> dict[str, float]:
    """Return the measurements of one system in this process, with its peak memory in MiB."""
    with tempfile.TemporaryDirectory(dir=corpus.parent) as folder:
        all_scores = globals()[f"measure_{system}"](corpus, Path(folder) / "index", queries)
    all_scores["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    all_scores["n_queries"] = len(queries)
    return dict(all_scores)


def measure(system: str, corpus: Path, root: Path, n_queries: int) -> dict[str, float]:
    """Return the measurements of one system in its own process."""
    return dict(json.loads(in_child(root, "--measure", system, str(corpus), str(n_queries))))


def in_child(root: Path, *arguments: str) -> str:
    """Return the output of this script in a new process.

    A child's peak memory starts at its parent's (Linux keeps the value over exec), so the parent must stay small: even
    the corpus is made in a child.
    """
    command = [sys.executable, __file__, "--data", str(root), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def questions(root: Path, n: int) -> dict[str, str]:
    """Return `n` of the rewritten questions, spread evenly over the domains' files."""
    side = retrieval_side("mtrag")
    assert side.load_rewrites
    every = {query: text for domain in side.domains for query, text in side.load_rewrites(root, domain).items()}
    return dict(itertools.islice(every.items(), 0, None, max(1, len(every) // n)))


def report(size: int, results: dict[str, dict[str, float]], n_queries: int) -> None:
    """Print the table for one size, and the ratios to the project's promises."""
    print(f"\n{size} passages, {n_queries} questions, {K} passages each")
    print(f"{'':<11}{'build s':>9}{'load s':>8}{'search s':>10}{'queries/s':>11}{'all s':>9}{'peak MiB':>10}")
    totals = {}
    for system, row in results.items():
        search = row["search"] * n_queries / row["n_queries"]
        totals[system] = row["build"] + search
        sampled = f"  ({row['n_queries']:.0f} questions, scaled)" if row["n_queries"] < n_queries else ""
        print(
            f"{system:<11}{row['build']:>9.2f}{row['load']:>8.2f}{search:>10.2f}{n_queries / search:>11.1f}"
            f"{totals[system]:>9.2f}{row['peak_mib']:>10.0f}{sampled}"
        )
    for peer in ("tantivy", *TOKENISED):
        if peer in totals:
            print(f"{peer}: {totals[peer] / totals['ours']:.2f} times our time end to end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="an MTRAG checkout with corpora and questions")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 60_000, 366_000])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--rank-bm25-queries", type=int, default=N_QUESTIONS, help="questions for rank_bm25, of 777")
    parser.add_argument("--agreement", nargs="+", metavar="LINE", help="retriever lines to compare with the first one")
    parser.add_argument("--search", help=argparse.SUPPRESS)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        system, corpus, n_queries = options.measure
        print(json.dumps(measure_here(system, Path(corpus), questions(options.data, int(n_queries)))))
        return
    if options.make:
        make_corpus(options.data, int(options.make[0]), Path(options.make[1]))
        return
    if options.search:
        print(json.dumps(measure_line(options.search, options.data)))
        return
    if options.agreement:
        report_agreement(options.data, options.agreement)
        return
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            corpus = Path(folder) / "corpus.jsonl"
            in_child(options.data, "--make", str(size), str(corpus))
            results = {
                system: measure(
                    system, corpus, options.data, options.rank_bm25_queries if system == "rank_bm25" else N_QUESTIONS
                )
                for system in options.systems
            }
        report(size, results, N_QUESTIONS)


if __name__ == "__main__":
    main()
