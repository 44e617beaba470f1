"""Benchmarks: pinned official files, how they are fetched and checked, and raw file to records."""

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.benchmarks._contexts import contexts_for, contexts_of_run, published_passages, tasks_checksum
from ragtasks.benchmarks._definition import BenchmarkDefinition
from ragtasks.benchmarks._docs import Doc, build_doc, build_docs, passage_rows, response_of
from ragtasks.benchmarks._exported import contexts_to_export, exported_task, exported_tasks
from ragtasks.benchmarks._registry import (
    DEFAULT_BENCHMARK,
    SAMPLE,
    added_benchmark_names,
    benchmark_folder,
    benchmark_names,
    open_benchmark,
    own_tables,
    retrieval_side,
    source_of,
)
from ragtasks.benchmarks._retrieval_side import RetrievalSide
from ragtasks.benchmarks._rewrite_replies import (
    CONDITIONAL_CONTRACT,
    CONTRACTS,
    JSON_CONTRACT,
    NO_REWRITE,
    PARSER_VERSION,
    Contract,
    QuestionClass,
    Reading,
    is_readable,
    parse_rewrite,
    read_reply,
)

__all__ = [
    "CONDITIONAL_CONTRACT",
    "CONTRACTS",
    "DEFAULT_BENCHMARK",
    "JSON_CONTRACT",
    "NO_REWRITE",
    "PARSER_VERSION",
    "SAMPLE",
    "Benchmark",
    "BenchmarkDefinition",
    "Contract",
    "Doc",
    "QuestionClass",
    "Reading",
    "RetrievalSide",
    "added_benchmark_names",
    "benchmark_folder",
    "benchmark_names",
    "build_doc",
    "build_docs",
    "contexts_for",
    "contexts_of_run",
    "contexts_to_export",
    "exported_task",
    "exported_tasks",
    "is_readable",
    "open_benchmark",
    "own_tables",
    "parse_rewrite",
    "passage_rows",
    "published_passages",
    "read_reply",
    "response_of",
    "retrieval_side",
    "source_of",
    "tasks_checksum",
]
