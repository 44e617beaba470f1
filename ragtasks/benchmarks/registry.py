"""Which benchmarks there are: name -> module. A new benchmark is one line here."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from types import ModuleType

from ragtasks.benchmarks.benchmark import Benchmark
from ragtasks.benchmarks.sources import Source, locate
from ragtasks.errors import BenchmarkFileError, ConfigurationError, clear_error, close_matches

BENCHMARKS = {"mtrag": "ragtasks.benchmarks.mtrag", "mtrag_un": "ragtasks.benchmarks.mtrag_un"}
"""Benchmark name -> module with `SOURCE` and `load(root)`."""

SAMPLE = "sample"
"""What stands for the benchmark inside the package where a data folder is asked for."""

_SAMPLES = Path(__file__).resolve().parent / "sample"


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
    message = clear_error(
        f"data of {name}",
        where=str(folder),
        expected="a folder with the official files",
        found="no folder",
        next_step=f'run `ragtasks fetch {name}`, or try the sample: --metadata \'{{"data": "{SAMPLE}"}}\'',
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


def _module(name: str) -> ModuleType:
    if name not in BENCHMARKS:
        raise ConfigurationError(f"unknown benchmark {name!r}: {close_matches(name, BENCHMARKS)}")
    return importlib.import_module(BENCHMARKS[name])


__all__ = ["BENCHMARKS", "SAMPLE", "benchmark_folder", "open_benchmark", "source_of"]
