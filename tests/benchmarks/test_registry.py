"""Benchmarks by name, and the location of their files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ragtasks.benchmarks import benchmark_folder, benchmark_names, open_benchmark, source_of
from ragtasks.benchmarks.download import DEFAULT_GROUPS
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from tests._messages import raises


def test_every_benchmark_has_a_source_of_its_name() -> None:
    assert {"mtrag", "mtrag_un"} <= set(benchmark_names())
    assert [source_of(name).name for name in benchmark_names()] == benchmark_names()


def test_every_downloadable_benchmark_has_the_default_group_of_data_fetch() -> None:
    """Errors recommend `ragtasks data fetch NAME`, which requires an existing default group."""
    fetched = {name: source_of(name) for name in benchmark_names() if source_of(name).files}
    assert len(fetched) > 10
    assert all(source.in_groups(DEFAULT_GROUPS) for source in fetched.values())


def test_an_unknown_benchmark_lists_close_matches(tmp_path: Path) -> None:
    for ask in (
        lambda: source_of("mtrg"),
        lambda: benchmark_folder("mtrg", None, tmp_path),
        lambda: open_benchmark("mtrg", tmp_path),
    ):
        with raises(ConfigurationError):
            ask()


@pytest.mark.parametrize("name", benchmark_names())
def test_missing_files_are_named_with_the_download_command(name: str, tmp_path: Path) -> None:
    with raises(BenchmarkFileError):
        open_benchmark(name, tmp_path / "nowhere")


def test_the_sample_is_marked_as_a_sample(tmp_path: Path) -> None:
    benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", tmp_path))
    assert benchmark.is_sample
    assert benchmark.label == "mtrag (sample)"
    assert benchmark.revision == "1"
    assert open_benchmark("mtrag", benchmark.root) is benchmark  # read once


def test_a_named_folder_takes_precedence_over_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_folder, own = tmp_path / "data", tmp_path / "own"
    fetched = data_folder / source_of("mtrag").folder
    fetched.mkdir(parents=True)
    (own / "mtrag-human").mkdir(parents=True)  # a checkout is used directly
    assert benchmark_folder("mtrag", None, data_folder) == fetched
    assert benchmark_folder("mtrag", "", data_folder) == fetched
    assert benchmark_folder("mtrag", str(own), data_folder) == own
    monkeypatch.setenv("HOME", str(tmp_path))
    assert benchmark_folder("mtrag", "~/own", data_folder) == own


def test_a_missing_folder_is_named_with_two_next_steps(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError) as caught:
        benchmark_folder("mtrag", None, tmp_path)
    text = str(caught.value)
    assert str(tmp_path / source_of("mtrag").folder) in text
    assert "ragtasks data fetch mtrag" in text
    assert text.endswith("or try the sample: --data sample on the command line, `data: sample` in evaluation.yaml")


def test_the_revision_lists_changed_files(mtrag_root: Path, tmp_path: Path) -> None:
    """An older or edited checkout is not the commit in the provenance of scores."""
    folder = tmp_path / "mtragun-human"
    shutil.copytree(mtrag_root / "mtragun-human", folder)
    assert open_benchmark("mtrag_un", tmp_path).revision == source_of("mtrag_un").commit
    revisions = set()
    for change in ("x", "y"):
        copy = tmp_path / change
        shutil.copytree(folder, copy / folder.name)
        tasks = copy / folder.name / "generation_tasks" / "reference.jsonl"
        tasks.write_bytes(tasks.read_bytes().replace(b" the ", f" {change}he ".encode(), 1))  # the same number of bytes
        revision = open_benchmark("mtrag_un", copy).revision
        assert revision.startswith(f"{source_of('mtrag_un').commit}, changed: reference.jsonl (")
        revisions.add(revision)
    assert len(revisions) == 2  # scores of two changes are not compared either


def test_the_real_data_is_located_in_the_folder_above_the_checkout(mtrag_root: Path) -> None:
    assert benchmark_folder("mtrag", str(mtrag_root), Path()) == mtrag_root
    assert not open_benchmark("mtrag", mtrag_root).is_sample
