"""Samples: committed files equal the output of their scripts, and no sample passes for the official benchmark."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow.parquet
import pytest

from ragtasks.benchmarks import benchmark_folder, benchmark_names, open_benchmark
from ragtasks.errors import BenchmarkFileError
from tests._messages import raises

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
SAMPLES = benchmark_folder("mtrag", "sample", Path()).parent
BUILDERS = {
    "build_sample": "mtrag",
    "build_sample_un": "mtrag_un",
    "build_sample_s": "mtrag_s",
    "build_sample_ikat": "ikat",
    "build_sample_inscit": "inscit",
    "build_sample_multihop": "multihop_rag",
    "build_sample_trec": "",
    "build_sample_multidoc2dial": "",
}
"""Script -> the sample it builds; empty for several samples in folders of their names."""
FACTS = shutil.ignore_patterns("sample.json")


def files_of(folder: Path) -> dict[str, object]:
    """Return path -> content of each file below a folder."""
    return {
        path.relative_to(folder).as_posix(): unpacked(path.read_bytes(), path.suffix)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def unpacked(content: bytes, suffix: str) -> object:
    """Return the content of a file. Bytes differ between versions of zlib and pyarrow, members and rows do not."""
    if suffix == ".parquet":
        return pyarrow.parquet.read_table(io.BytesIO(content)).to_pylist()
    if suffix != ".zip":
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize(("script", "name"), BUILDERS.items())
def test_the_committed_files_equal_the_output_of_the_script(script: str, name: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SCRIPTS / f"{script}.py"), "--into", str(tmp_path)], check=True)
    for folder in [tmp_path] if name else tmp_path.iterdir():
        built, committed = files_of(folder), files_of(SAMPLES / (name or folder.name))
        assert sorted(built) == sorted(committed)
        assert [path for path in built if built[path] != committed[path]] == []


@pytest.mark.parametrize("name", sorted(set(benchmark_names()) - {"custom", "doc2dial"}))
def test_a_sample_without_its_statistics_is_not_an_official_copy(name: str, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES, tmp_path, dirs_exist_ok=True)
    folder = tmp_path / benchmark_folder(name, "sample", Path()).name  # two splits of a benchmark share a sample
    facts = folder / "sample.json"
    files_of_another = json.loads(facts.read_text("utf-8")).get("files_of")
    facts.unlink()
    shutil.copytree(SAMPLES / (files_of_another or folder.name), folder, dirs_exist_ok=True, ignore=FACTS)
    with raises(BenchmarkFileError):
        open_benchmark(name, folder)


@pytest.mark.parametrize("name", sorted(set(benchmark_names()) - {"custom"}))
def test_a_first_question_has_no_multi_turn_type(name: str) -> None:
    types: dict[bool, set[str]] = {True: set(), False: set()}
    for task in open_benchmark(name, benchmark_folder(name, "sample", Path())).tasks:
        types[len(task.messages) == 1].add(task.multi_turn)
    assert types[True] == {"N/A"}
    assert types[False] in (set(), {"N/A"}, {"Follow-up"}, {"Follow-up", "Clarification"})
