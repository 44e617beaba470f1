"""The run format: written runs read back equal, ties have one order, and corrupt files are named."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import itertools
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.benchmarks import benchmark_folder, contexts_for, open_benchmark
from ragtasks.config import config_from_options
from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.files import (
    Manifest,
    Ranked,
    canonical_hash,
    in_rank_order,
    read_contexts,
    read_manifest,
    read_run,
    read_trec,
    retrieved_topic,
    run_folder,
    run_key,
    write_manifest,
    write_trec,
)
from ragtasks.records import Setting
from ragtasks.submissions import SubmissionTask
from ragtasks.submissions.mtrageval import Submission, submit
from retrieval_cache import RunStore
from tests._messages import raises

_IDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)
_SCORES = st.floats(-1e6, 1e6, width=32)
_RANKINGS = st.dictionaries(_IDS, _SCORES, min_size=1, max_size=8)


@given(st.dictionaries(_IDS, _RANKINGS, min_size=1, max_size=5))
def test_written_run_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, rankings: dict[str, dict[str, float]]
) -> None:
    run = {query: in_rank_order(Ranked(*scored) for scored in ranking.items()) for query, ranking in rankings.items()}
    path = tmp_path_factory.mktemp("runs") / "run.trec"
    write_trec(path, run, "tag")
    assert read_trec(path) == run


def test_ids_with_blanks_are_separated_by_tabs(tmp_path: Path) -> None:
    run = {"north pier": (Ranked("Old Harbour", 2.0), Ranked("Quay", 1.5))}
    write_trec(tmp_path / "run.trec", run, "my tag")
    assert read_trec(tmp_path / "run.trec") == run
    (tmp_path / "crlf.trec").write_bytes((tmp_path / "run.trec").read_bytes().replace(b"\n", b"\r\n"))
    assert read_run(tmp_path / "crlf.trec") == run


_RUN = {"q": (Ranked("a", 2.0), Ranked("b", 0.5)), "r": (Ranked("b", 1.0),)}
_NESTED = {"q": {"b": 0.5, "a": 2}, "r": {"b": 1.0}}
_TREC = "q Q0 a 1 2.0 t\nq Q0 b 2 0.5 t\nr Q0 b 1 1.0 t\n"
_ROWS = [
    {"task_id": query, "contexts": [{"document_id": p, "score": score} for p, score in scores.items()]}
    for query, scores in _NESTED.items()
]


def _packed(text: str, how: str) -> bytes:
    content = (codecs.BOM_UTF8 if "bom" in how else b"") + text.encode()
    if "gzip" in how:
        return gzip.compress(content)
    return pyarrow.compress(content, "zstd", asbytes=True) if "zstd" in how else content


@pytest.mark.parametrize("how", ["", "bom", "gzip", "bom gzip", "zstd", "bom zstd"])
@pytest.mark.parametrize(
    "text",
    [
        _TREC,
        _TREC.replace(" ", "\t").replace("\n", "\r\n"),
        "query Q0 passage rank score tag\n" + _TREC,
        "".join(json.dumps(row) + "\n" for row in _ROWS),
        json.dumps(_ROWS),
        json.dumps(_ROWS, indent=2),
        json.dumps(_NESTED),
        json.dumps(_NESTED, indent=2),
        json.dumps({"mteb_model_meta": {"name": "m"}, "default": {"test": _NESTED}}),
        "\n" + _TREC.replace("\nr", "\n \nr") + "\n\n",
    ],
)
def test_a_run_is_detected_from_its_content(tmp_path: Path, text: str, how: str) -> None:
    path = tmp_path / "results_mine.json"
    path.write_bytes(_packed(text, how))
    assert read_run(path) == _RUN


def test_the_order_of_a_json_object_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(_NESTED), encoding="utf-8")
    assert not set(read_run(tmp_path / "run.json").reordered)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b" \n",
        b'{"q": {"a": "high", "b": 1}, "r": {"": 1}}',
        b'{"q": {"a": NaN}}',
        b'{"q": {"a": 1.0,\n "b"\n',
        b'{"scores": [1]}',
        b"q a 1 2.0 t\n",
        b"q Q0 a 1 2.0 t 7\n",
        gzip.compress(b"q Q0 a 1 2.0 t\n")[:-4],
        "q Q0 Möwe 1 2.0 t\n".encode("latin-1"),
    ],
    ids=["empty", "blank", "scores", "nan", "cut", "other", "five", "seven", "gzip", "latin"],
)
def test_an_invalid_run_is_one_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run"
    path.write_bytes(content)
    with raises(CacheError):
        read_run(path)


def test_a_header_may_name_the_query_topic(tmp_path: Path) -> None:
    (tmp_path / "run.trec").write_text("topic Q0 Quay 1 2.0 t\ntopic Q0 Pier 2 1.0 t\n", encoding="utf-8")
    assert read_run(tmp_path / "run.trec") == {"topic": (Ranked("Quay", 2.0), Ranked("Pier", 1.0))}


def test_tabs_in_only_some_lines_are_errors_by_line(tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    path.write_text("q Q0 Quay 1 2.0 t\nq\tQ0\tOld Harbour\t2\t1.0\tt\nq\tQ0\tPier\t3\t0.5\tt\n", encoding="utf-8")
    with raises(CacheError):
        read_run(path)


@pytest.mark.parametrize(
    ("lines", "reordered"),
    [
        (["q Q0 a 1 2.0 t", "q Q0 b 2 1.0 t"], set()),
        (["q Q0 a 2 1.0 t", "q Q0 b 1 2.0 t"], set()),  # by its ranks
        (["q Q0 a 1 1.0 t", "q Q0 b 2 1.0 t", "q Q0 c 3 1.0 t"], set()),
        (
            ["q Q0 b 1 1.0 t", "q Q0 a 2 1.000000001 t", "r Q0 a 1 2.0 t", "r Q0 b 2 1.0 t"],
            set(),
        ),  # equal as 32-bit numbers
        (["q::1 Q0 a 1 1.0 t", "q::1 Q0 b 2 3.0 t", "q::1 Q0 c 3 2.0 t", "r Q0 a 1 1.0 t"], {"q<::>1"}),
        (["q Q0 a 2 2.0 t", "q Q0 b 1 1.0 t", "r Q0 a 1 2.0 t", "r Q0 b 2 1.0 t"], {"q"}),
        ([{"task_id": "q", "contexts": [{"document_id": "a", "score": 1}, {"document_id": "b", "score": 1}]}], set()),
        ([{"task_id": "q", "contexts": [{"document_id": "a", "score": 1}, {"document_id": "b", "score": 2}]}], {"q"}),
        ([{"query": {"qid": 7}, "candidates": [{"docid": "a", "score": 1}, {"docid": "b", "score": 2}]}], {"7"}),
    ],
)
def test_a_run_lists_the_queries_whose_order_contradicts_their_scores(
    tmp_path: Path, lines: list[object], reordered: set[str]
) -> None:
    path = tmp_path / "run"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    assert set(read_run(path).reordered) == reordered


@given(_RANKINGS)
def test_rank_order_is_by_score_then_id_as_in_trec_eval(ranking: dict[str, float]) -> None:
    ordered = in_rank_order(Ranked(*scored) for scored in ranking.items())
    assert ordered == in_rank_order(reversed(ordered))
    for first, second in itertools.pairwise(ordered):
        assert (first.score, first.passage_id) > (second.score, second.passage_id)


def test_scores_that_are_equal_as_32_bit_floats_are_ties() -> None:
    close = [Ranked("a", 1.0 + 1e-9), Ranked("b", 1.0)]
    assert [ranked.passage_id for ranked in in_rank_order(close)] == ["b", "a"]


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.integers(-(2**53), 2**53), st.text(max_size=5)), max_size=6))
def test_the_hash_ignores_key_order_and_changes_with_every_value(value: dict[str, object]) -> None:
    assert canonical_hash(value) == canonical_hash(dict(reversed(value.items())))
    for key in value:
        assert canonical_hash({**value, key: "another value"}) != canonical_hash(value)


SPEC = {
    "benchmark": "mtrag",
    "is_sample": True,
    "revision": "1",
    "tasks": "00",
    "corpora": {"govt": {"n_passages": 3}},
    "queries": {"form": "last_turn"},
    "retriever": {"name": "bm25"},
}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("spec", None, "spec: expected"),
        ("spec.benchmark", 1, "spec.benchmark: expected a text"),
        ("spec.is_sample", "yes", "spec.is_sample: expected true or false"),
        ("spec.tasks", [], "spec.tasks: expected a text"),
        ("spec.corpora", [], "spec.corpora: expected"),
        ("spec.corpora.govt", 3, "spec.corpora.govt: expected"),
        ("spec.queries", "last_turn", "spec.queries: expected"),
        ("spec.queries.form", None, "spec.queries.form: expected a text"),
        ("spec.retriever.name", 7, "spec.retriever.name: expected a text"),
        ("format", 0, "format: expected 1, found 0"),
        ("metadata", None, "metadata: expected"),
        ("files", ["a.trec"], "files: expected"),
        ("files", {"a.trec": 1}, "files.a.trec: expected a text"),
    ],
)
def test_a_manifest_with_wrong_types_is_refused_even_with_a_matching_key(
    tmp_path: Path, path: str, value: object, found: str
) -> None:
    content = {"format": 1, "key": "", "name": "r", "spec": deepcopy(SPEC), "files": {}, "metadata": {}}
    *above, last = path.split(".")
    inner: Any = content
    for key in above:
        inner = inner[key]
    inner[last] = value
    content["key"] = canonical_hash(content["spec"])
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(CacheError, match="manifest of a run") as error:
        read_manifest(tmp_path)
    assert found in str(error.value)
    assert "ragtasks results remove" in str(error.value)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"{", "line 2: "),
        (b"[]", "line 2: content: "),
        (b'{"task_id": 1, "passages": []}', "line 2: task_id: "),
        (b'{"task_id": "b", "passages": ["p"]}', "line 2: passages.0: "),
        (b'{"task_id": "b", "passages": [{"passage_id": "p"}]}', "line 2: passages.0.text: "),
        (b'{"task_id": "a", "passages": []}', "line 2: task 'a' occurs twice"),
    ],
)
def test_invalid_contexts_are_refused_by_line(tmp_path: Path, line: bytes, found: str) -> None:
    content = b'{"task_id": "a", "passages": []}\n' + line + b"\n"
    path = tmp_path / "contexts" / "full_rag.jsonl"
    path.parent.mkdir()
    path.write_bytes(content)
    write_manifest(tmp_path, Manifest("r", SPEC, {"contexts/full_rag.jsonl": hashlib.sha256(content).hexdigest()}))
    with pytest.raises(CacheError, match=r"contexts of a stored run(.|\n)*a task id and its passages in each") as error:
        read_contexts(tmp_path, Setting.FULL_RAG)
    assert found in str(error.value)


@pytest.mark.parametrize("score", [True, "1", None, float("nan"), float("inf")])
def test_a_candidate_requires_a_finite_score(score: object) -> None:
    with pytest.raises(ValueError, match="a finite `score` of p"):
        retrieved_topic({"query": {"qid": "t"}, "candidates": [{"docid": "p", "score": score}]})


def test_manifest_reads_back_and_refuses_changes(tmp_path: Path) -> None:
    assert run_key(tmp_path, "mine") is None
    folder = run_folder(tmp_path, "mine")
    folder.mkdir(parents=True)
    manifest = Manifest("mine", {**SPEC, "k": 5}, {"a.trec": "00"}, {"seconds": 1.5})
    write_manifest(folder, manifest)
    assert read_manifest(folder) == manifest
    assert run_key(tmp_path, "mine") == manifest.key
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    content["spec"]["k"] = 6
    path.write_text(json.dumps(content))
    with pytest.raises(CacheError, match="was edited"):
        read_manifest(folder)
    path.write_text(path.read_text()[:40])
    with pytest.raises(CacheError, match="manifest of a run"):
        read_manifest(folder)


@pytest.mark.parametrize("name", ["../../x", "/etc", "..", ".", "", "a/b", "a\\b", "a\n", "-x", "x" * 101])
def test_every_function_refuses_a_path_as_a_run_name(tmp_path: Path, name: str) -> None:
    sample = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", tmp_path).resolve())
    for take in (
        lambda: config_from_options({"run": name}),
        lambda: run_key(tmp_path, name),
        lambda: contexts_for(sample, Setting.FULL_RAG, name, tmp_path),
        lambda: submit(Submission(SubmissionTask.A, tmp_path / "a.jsonl", run=name), sample, tmp_path),
        lambda: RunStore(tmp_path).named(name),
        lambda: RunStore(tmp_path).remove(name),
        lambda: RunStore(tmp_path).publish(tmp_path, name),
    ):
        with pytest.raises(ConfigurationError, match=r"run name .*no path"):
            take()


@pytest.mark.parametrize("name", ["official", "closed_book"])
def test_no_run_is_stored_under_a_reserved_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="is taken"):
        RunStore(tmp_path).publish(tmp_path / "work", name)


@pytest.mark.parametrize("file", ["../other.trec", "/etc/passwd", "contexts/../../x.trec"])
def test_a_manifest_with_paths_outside_its_folder_is_refused(tmp_path: Path, file: str) -> None:
    write_manifest(tmp_path, Manifest("r", SPEC, {file: "0" * 64}))
    with pytest.raises(CacheError, match="outside of its folder"):
        read_manifest(tmp_path)
