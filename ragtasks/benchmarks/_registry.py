"""Registry of benchmarks: names and definitions."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ragtasks.benchmarks._definition import Benchmark, BenchmarkDefinition, RepairedAnswer, RetrievalSide
from ragtasks.benchmarks.sources import Source, changed_files, digest, locate
from ragtasks.errors import BenchmarkFileError, ConfigurationError, RagtasksError
from ragtasks.plugins import ExtensionPoint
from ragtasks.tables import Table

SAMPLE = "sample"
"""Value of `data` that selects the benchmark inside the package."""
DEFAULT_BENCHMARK = "mtrag"

_SAMPLES = Path(__file__).resolve().parent / "sample"
BENCHMARKS = ExtensionPoint(
    "ragtasks.benchmarks",
    "benchmark",
    BenchmarkDefinition,
    {
        "custom": "ragtasks.benchmarks.custom:DEFINITION",
        "doc2dial": "ragtasks.benchmarks.doc2dial:DOC2DIAL",
        "ikat23": "ragtasks.benchmarks.ikat:YEAR_2023",
        "ikat23_facts": "ragtasks.benchmarks.ikat:FACTS_2023",
        "ikat24": "ragtasks.benchmarks.ikat:YEAR_2024",
        "ikat24_facts": "ragtasks.benchmarks.ikat:FACTS_2024",
        "ikat25": "ragtasks.benchmarks.ikat:YEAR_2025",
        "ikat25_facts": "ragtasks.benchmarks.ikat:FACTS_2025",
        "inscit": "ragtasks.benchmarks.inscit:INSCIT",
        "inscit_dev": "ragtasks.benchmarks.inscit:INSCIT_DEV",
        "mtrag": "ragtasks.benchmarks.mtrag._benchmark:DEFINITION",
        "mtrag_s": "ragtasks.benchmarks.mtrag._mtrag_s:DEFINITION",
        "mtrag_un": "ragtasks.benchmarks.mtrag._mtrag_un:DEFINITION",
        "multidoc2dial": "ragtasks.benchmarks.doc2dial:MULTIDOC2DIAL",
        "multidoc2dial_propositions": "ragtasks.benchmarks.doc2dial:MULTIDOC2DIAL_PROPOSITIONS",
        "multidoc2dial_token": "ragtasks.benchmarks.doc2dial:MULTIDOC2DIAL_TOKEN",
        "multihop_rag": "ragtasks.benchmarks.multihop_rag:DEFINITION",
        "trec_rag24": "ragtasks.benchmarks.trec_rag:TREC_RAG24",
        "trec_rag25": "ragtasks.benchmarks.trec_rag:TREC_RAG25",
    },
)
"""All benchmarks. A family is imported on the first use of one of its benchmarks."""


def benchmark_names() -> list[str]:
    """Return the names of the built-in benchmarks."""
    return sorted(BENCHMARKS.built_in)


def added_benchmark_names() -> list[str]:
    """Return the names of the benchmarks from other packages, without importing them."""
    return BENCHMARKS.plugin_names()


def source_of(name: str) -> Source:
    """Return the official files of a benchmark."""
    return BENCHMARKS.get(name).source


def benchmark_folder(name: str, data: str | None, data_folder: Path) -> Path:
    """Return the folder with a benchmark's files: the sample, the user's own, or the downloaded copy."""
    definition = BENCHMARKS.get(name)
    source = definition.source
    if data == SAMPLE:
        return _sample_folder(name, definition)
    folder = locate(source, Path(data).expanduser() if data else data_folder)
    if folder.is_dir():
        return folder
    step = (
        f"run `ragtasks data fetch {name}`" if source.files else "name your folder as `data` (docs/bring-your-own.md)"
    )
    sample = f"--data {SAMPLE} on the command line, `data: {SAMPLE}` in evaluation.yaml"
    raise BenchmarkFileError(
        f"data of {name}",
        where=str(folder),
        expected=f"a folder with {'the official' if source.files else 'your'} files",
        found="no folder",
        next_step=f"{step}, or try the sample: {sample}",
    )


def _sample_folder(name: str, definition: BenchmarkDefinition) -> Path:
    folder = definition.sample or (_SAMPLES / name if name in BENCHMARKS.built_in else None)
    if folder is None:
        raise ConfigurationError(f"benchmark {name!r} has no sample; name a folder with its files as `data`")
    return folder


@functools.lru_cache(maxsize=8)
def open_benchmark(name: str, root: Path) -> Benchmark:
    """Return a benchmark, read once for all its harness tasks. Its revision lists changed files."""
    definition = BENCHMARKS.get(name)
    benchmark = definition.load(root)
    if not isinstance(benchmark, Benchmark):
        raise ConfigurationError(f"benchmark {name!r}: its `load` returned {type(benchmark).__name__}, not a Benchmark")
    revision = benchmark.revision if benchmark.is_sample else _revision(definition.source, benchmark)
    # `extra_tables` and others look up the definition by the name in the benchmark.
    return replace(benchmark, name=name, revision=revision)


def _revision(source: Source, benchmark: Benchmark) -> str:
    """Return the commit. If files differ from it, add their names and a hash of their bytes."""
    paths = changed_files(source, benchmark.root) if source.files else ()
    if not paths:
        return benchmark.revision
    names = sorted({Path(path).name for path in paths})
    bytes_of_all = hashlib.sha256("".join(digest(benchmark.root / path) for path in paths).encode()).hexdigest()
    return f"{benchmark.revision}, changed: {', '.join(names)} ({bytes_of_all[:8]})"


def extra_tables(benchmark: Benchmark) -> Sequence[Table]:
    """Return the benchmark's further tables for `describe`; () without further tables."""
    tables = BENCHMARKS.get(benchmark.name).tables
    return tables(benchmark) if tables else ()


def repaired_answers(benchmark: Benchmark) -> Sequence[RepairedAnswer]:
    """Return the answers in a benchmark's conversations with their drafts; () if none are published."""
    answers = BENCHMARKS.get(benchmark.name).answers
    return answers(benchmark) if answers else ()


def retrieval_side(name: str) -> RetrievalSide:
    """Return how to read a benchmark's retrieval files. Raises ConfigurationError if it has none."""
    side = BENCHMARKS.get(name).retrieval
    if side is None:
        names = [benchmark for benchmark in benchmark_names() if BENCHMARKS.get(benchmark).retrieval is not None]
        raise ConfigurationError(
            f"no retrieval files for {name!r}; benchmarks with retrieval files: {', '.join(names)}"
        )
    return side


def relevant_passages(benchmark: Benchmark, domains: Iterable[str]) -> dict[str, list[str]]:
    """Return task id -> relevant passages. Corpora with unreadable judgements are omitted."""
    passages_of: dict[str, list[str]] = {}
    for domain in dict.fromkeys(domains):
        try:
            qrels = retrieval_side(benchmark.name).load_qrels(benchmark.root, domain)
        except RagtasksError:
            continue
        for qrel in qrels:
            if qrel.relevance > 0:
                passages_of.setdefault(qrel.query_id, []).append(qrel.passage_id)
    return passages_of
