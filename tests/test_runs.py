"""The run format: what is written reads back equal, ties have one order, and torn files are named."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.benchmarks.registry import benchmark_folder, open_benchmark
from ragtasks.config import config_from_options
from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.records import Setting
from ragtasks.runs import (
    Manifest,
    Ranked,
    canonical_hash,
    contexts_for,
    in_rank_order,
    read_manifest,
    read_trec,
    run_key,
    write_manifest,
    write_trec,
)
from ragtasks.submissions.sources import entries_of_run
from retrieval_cache.store import RunStore

_IDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)
_SCORES = st.floats(-1e6, 1e6, width=32)
_RANKINGS = st.dictionaries(_IDS, _SCORES, min_size=1, max_size=8)


@given(st.dictionaries(_IDS, _RANKINGS, min_size=1, max_size=5))
def test_written_run_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, rankings: dict[str, dict[str, float]]
) -> None:
    run = {query: in_rank_order(Ranked(*item) for item in ranking.items()) for query, ranking in rankings.items()}
    path = tmp_path_factory.mktemp("runs") / "run.trec"
    write_trec(path, run, "tag")
    assert read_trec(path) == run


@given(_RANKINGS)
def test_rank_order_falls_and_breaks_ties_by_id_as_trec_eval(ranking: dict[str, float]) -> None:
    ordered = in_rank_order(Ranked(*item) for item in ranking.items())
    assert ordered == in_rank_order(reversed(ordered))
    for first, second in itertools.pairwise(ordered):
        assert (first.score, first.passage_id) > (second.score, second.passage_id)


def test_scores_that_are_equal_as_32_bit_floats_are_ties() -> None:
    close = [Ranked("a", 1.0 + 1e-9), Ranked("b", 1.0)]
    assert [item.passage_id for item in in_rank_order(close)] == ["b", "a"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("q Q0 d 1 nan t", "'nan'"),
        ("q Q0 d 1 inf t", "'inf'"),
        ("q Q0 d 1 high t", "'high'"),
        ("q Q0 d 1 2.0", "found 5"),
        ("q Q0 d 1 2.0 t\nq Q0 d 2 1.0 t", "'d' stands twice"),
    ],
)
def test_broken_trec_lines_are_named(tmp_path: Path, line: str, found: str) -> None:
    path = tmp_path / "run.trec"
    path.write_text(f"q0 Q0 d0 1 3.5 t\n{line}\n")
    with pytest.raises(CacheError) as error:
        read_trec(path)
    assert str(error.value).startswith(f"TREC run {path}: 1 fault\n  line ")
    assert found in str(error.value)


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.integers(-(2**53), 2**53), st.text(max_size=5)), max_size=6))
def test_hash_ignores_key_order_and_moves_with_every_value(value: dict[str, object]) -> None:
    assert canonical_hash(value) == canonical_hash(dict(reversed(value.items())))
    for key in value:
        assert canonical_hash({**value, key: "another value"}) != canonical_hash(value)


def test_manifest_reads_back_and_refuses_changes(tmp_path: Path) -> None:
    manifest = Manifest("mine", {"retriever": "bm25", "k": 5}, {"a.trec": "00"}, {"seconds": 1.5})
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    path = tmp_path / "manifest.json"
    content = json.loads(path.read_text())
    content["spec"]["k"] = 6
    path.write_text(json.dumps(content))
    with pytest.raises(CacheError, match="changed by hand"):
        read_manifest(tmp_path)
    path.write_text(path.read_text()[:40])
    with pytest.raises(CacheError, match="torn"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("name", ["../../x", "/etc", "..", ".", "", "a/b", "a\\b", "a\n", "-x", "x" * 101])
def test_a_run_is_named_and_never_a_path_wherever_one_is_taken(tmp_path: Path, name: str) -> None:
    sample = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", tmp_path).resolve())
    for take in (
        lambda: config_from_options({"run": name}),
        lambda: run_key(tmp_path, name),
        lambda: contexts_for(sample, Setting.FULL_RAG, name, tmp_path),
        lambda: entries_of_run(tmp_path, name, sample),
        lambda: RunStore(tmp_path).named(name),
        lambda: RunStore(tmp_path).remove(name),
        lambda: RunStore(tmp_path).publish(tmp_path, name),
    ):
        with pytest.raises(ConfigurationError, match=r"run name .*no path"):
            take()


@pytest.mark.parametrize("name", ["official", "closed_book"])
def test_no_run_is_stored_under_a_name_that_stands_for_something_else(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="is taken"):
        RunStore(tmp_path).publish(tmp_path / "work", name)


@pytest.mark.parametrize("file", ["../other.trec", "/etc/passwd", "contexts/../../x.trec"])
def test_a_manifest_that_leads_out_of_its_folder_is_refused(tmp_path: Path, file: str) -> None:
    write_manifest(tmp_path, Manifest("r", {}, {file: "0" * 64}))
    with pytest.raises(CacheError, match="outside of its folder"):
        read_manifest(tmp_path)
