"""Which benchmarks there are, and the module that reads each."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from types import ModuleType

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.benchmarks._retrieval_side import RetrievalSide
from ragtasks.benchmarks.download import Source, locate
from ragtasks.errors import BenchmarkFileError, ConfigurationError, clear_error, close_matches

SAMPLE = "sample"
"""What means the benchmark inside the package where a data folder is asked for."""

_SAMPLES = Path(__file__).resolve().parent / "sample"
_MODULES = {
    "custom": "custom._benchmark",
    "doc2dial": "doc2dial._doc2dial",
    "mtrag": "mtrag._benchmark",
    "mtrag_s": "mtrag._mtrag_s",
    "mtrag_un": "mtrag._mtrag_un",
    "multidoc2dial": "doc2dial._multidoc2dial",
    "multidoc2dial_propositions": "doc2dial._propositions",
    "multidoc2dial_token": "doc2dial._token",
    "multihop_rag": "multihop_rag._benchmark",
    "trec_rag24": "trec_rag._benchmark",
}
"""Name -> module below this package, read when the benchmark is first asked for."""


def benchmark_names() -> list[str]:
    """Return the names of all benchmarks; each is a module with `SOURCE` and `load(root)`."""
    return sorted(_MODULES)


def source_of(name: str) -> Source:
    """Return the official files of a benchmark.

    Raises:
        ConfigurationError: unknown benchmark.
    """
    source: Source = _module(name).SOURCE
    return source


def benchmark_folder(name: str, data: str | None, data_folder: Path) -> Path:
    """Return the folder with a benchmark's files: the sample, the user's own, or the fetched copy.

    Args:
        name: benchmark.
        data: `sample`, a folder, or None for the data folder.
        data_folder: where fetched files are.

    Raises:
        BenchmarkFileError: the folder is not there.
        ConfigurationError: unknown benchmark.
    """
    source = source_of(name)
    if data == SAMPLE:
        return _SAMPLES / name
    folder = locate(source, Path(data).expanduser() if data else data_folder)
    if folder.is_dir():
        return folder
    way_out = f"run `ragtasks fetch {name}`" if source.files else "name your folder as `data` (docs/bring-your-own.md)"
    sample = f'--data {SAMPLE} (harness tasks: --metadata \'{{"data": "{SAMPLE}"}}\')'
    message = clear_error(
        f"data of {name}",
        where=str(folder),
        expected=f"a folder with {'the official' if source.files else 'your'} files",
        found="no folder",
        next_step=f"{way_out}, or try the sample: {sample}",
    )
    raise BenchmarkFileError(message)


@functools.lru_cache(maxsize=8)
def open_benchmark(name: str, root: Path) -> Benchmark:
    """Return a benchmark, read once for all its harness tasks.

    Raises:
        BenchmarkFileError: as its loader.
        ConfigurationError: unknown benchmark.
    """
    benchmark: Benchmark = _module(name).load(root)
    return benchmark


def retrieval_side(name: str) -> RetrievalSide:
    """Return how a benchmark's retrieval files are read: the `RETRIEVAL` of its module.

    Raises:
        ConfigurationError: it has none, or there is no such benchmark.
    """
    side: RetrievalSide | None = getattr(_module(name), "RETRIEVAL", None)
    if side is None:
        having = [other for other in benchmark_names() if hasattr(_module(other), "RETRIEVAL")]
        raise ConfigurationError(f"no retrieval files for {name!r}; benchmarks that have: {', '.join(having)}")
    return side


def _module(name: str) -> ModuleType:
    if name not in benchmark_names():
        raise ConfigurationError(f"unknown benchmark {name!r}: {close_matches(name, benchmark_names())}")
    return importlib.import_module(f"ragtasks.benchmarks.{_MODULES[name]}")


__all__ = ["SAMPLE", "benchmark_folder", "benchmark_names", "open_benchmark", "retrieval_side", "source_of"]
