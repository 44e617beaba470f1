"""Folder of the samples' sources, and writing of the builders' files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parent / "sample_source"
SAMPLES = SOURCES.parents[1] / "ragtasks" / "benchmarks" / "sample"


def read_source(name: str) -> Any:
    """Return the content of a source file.

    Args:
        name: path in the folder of sources, without its suffix.
    """
    return json.loads((SOURCES / f"{name}.json").read_text(encoding="utf-8"))


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    """Return JSON lines, UTF-8."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def statistics_file(facts: Mapping[str, Any]) -> bytes:
    """Return a sample's `sample.json`: its version and its counts."""
    return json.dumps(facts, indent=1).encode() + b"\n"


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write path -> bytes to a folder."""
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def run_builder(description: str | None, build: Callable[[], Mapping[str, bytes]], target: Path) -> None:
    """Write the output of a builder, to the folder on the command line or to the package's own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=target, help="folder to write to")
    into = parser.parse_args().into
    write_files(build(), into)
