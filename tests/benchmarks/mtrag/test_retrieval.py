"""Corpora, queries and judgements: counts of the real files, and every type of invalid file."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Qrel
from tests._messages import raises
from tests.benchmarks.mtrag._official import DOMAINS, QUERY_FORMS, RETRIEVAL, official_passages, official_queries

SAMPLE = benchmark_folder("mtrag", "sample", Path())
QUERIES = "mtrag-human/retrieval_tasks/fiqa/fiqa_rewrite.jsonl"
QRELS = "mtrag-human/retrieval_tasks/fiqa/qrels/dev.tsv"
HEADER = b"query-id\tcorpus-id\tscore\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the sample that a test may break."""
    shutil.copytree(SAMPLE, tmp_path / "copy")
    return tmp_path / "copy"


def message_of(read: Callable[[], object], name: str) -> str:
    with pytest.raises(BenchmarkFileError) as caught:
        read()
    text = str(caught.value)
    assert name in text
    assert "next step: " in text
    assert "expected" in text
    return text


# Contents of the real files.

QUERY_COUNTS = {"clapnq": 208, "fiqa": 180, "govt": 201, "cloud": 188}
QREL_COUNTS = {"clapnq": 578, "fiqa": 535, "govt": 521, "cloud": 494}
FIRST_AND_LAST_JUDGED = {
    "clapnq": ("822086267_7384-8758-0-1374", "857081732_46622-47518-0-896"),
    "fiqa": ("471123-0-798", "574820-0-1834"),
    "govt": ("c8db6e06ff46669e-50302-52227", "dd2c94212064f84d-10973-13089"),
    "cloud": ("ibmcld_00474-7885-8455", "ibmcld_03713-3269-5168"),
}
# The available corpora are subsets of the official ones. Three passages of cloud have no text and are omitted.
PASSAGE_COUNTS = {"clapnq": 12628, "fiqa": 15332, "govt": 1258, "cloud": 13294}
FIRST_TENTH_LAST = {
    "clapnq": ("502521937_296-544-0-248", "502521937_15794-20065-0-2284", "866527796_37031-37750-0-719"),
    "fiqa": ("63-0-1365", "536-0-340", "599925-0-916"),
    "govt": ("0027bff8d2a891ff-41576-43247", "02b1baa61e22252a-1694-3851", "ffe67df745fed74d-1646-3736"),
    "cloud": ("ibmcld_00007-7-2159", "ibmcld_00020-4245-6252", "ibmcld_16729-326786-328759"),
}


def test_official_queries_have_the_same_ids_in_three_forms(mtrag_root: Path) -> None:
    assert sum(QUERY_COUNTS.values()) == 777
    judged = {task.task_id: task for task in open_benchmark("mtrag", mtrag_root).tasks if task.references}
    assert len(judged) == 777
    for domain, count in QUERY_COUNTS.items():
        forms = {form: official_queries(mtrag_root, domain, form) for form in QUERY_FORMS}
        assert {len(queries) for queries in forms.values()} == {count}
        assert {tuple(queries) for queries in forms.values()} == {tuple(forms["rewrite"])}
        assert all("|user|" not in text for queries in forms.values() for text in queries.values())
        for query_id, text in forms["all_questions"].items():
            assert judged[query_id].domain == domain
            assert text.endswith(forms["last_turn"][query_id])


@pytest.mark.parametrize("domain", DOMAINS)
def test_official_judgements(mtrag_root: Path, domain: str) -> None:
    qrels = RETRIEVAL.load_qrels(mtrag_root, domain)
    assert len(qrels) == QREL_COUNTS[domain]
    assert sum(QREL_COUNTS.values()) == 2128
    assert {qrel.relevance for qrel in qrels} == {1}
    assert (qrels[0].passage_id, qrels[-1].passage_id) == FIRST_AND_LAST_JUDGED[domain]
    assert {qrel.query_id for qrel in qrels} == official_queries(mtrag_root, domain, "rewrite").keys()
    references = {
        (task.task_id, passage.passage_id)
        for task in open_benchmark("mtrag", mtrag_root).tasks
        for passage in task.references
        if task.domain == domain
    }
    extra = references - {(qrel.query_id, qrel.passage_id) for qrel in qrels}
    # One reference passage of the official task file has no judgement.
    assert {query_id for query_id, _ in extra} <= {"b2805ee4c478194c234e2384ffb0a6bf<::>3"}


@pytest.mark.parametrize("domain", DOMAINS)
def test_real_corpora(mtrag_root: Path, domain: str) -> None:
    passages = list(official_passages(mtrag_root, domain))
    ids = [passage.passage_id for passage in passages]
    assert len(ids) == len(set(ids)) == PASSAGE_COUNTS[domain]
    assert (ids[0], ids[9], ids[-1]) == FIRST_TENTH_LAST[domain]
    assert {qrel.passage_id for qrel in RETRIEVAL.load_qrels(mtrag_root, domain)} <= set(ids)


# Errors of invalid files.


@pytest.mark.parametrize(
    ("name", "read"),
    [
        (QUERIES, lambda root: RETRIEVAL.load_rewrites(root, "fiqa")),
        (QRELS, lambda root: RETRIEVAL.load_qrels(root, "fiqa")),
    ],
    ids=["queries", "qrels"],
)
@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\x00\x01", b'{"_id": "a<::>1", "te'])
def test_files_that_are_missing_empty_or_corrupt(
    root: Path, name: str, read: Callable[[Path], object], content: bytes | None
) -> None:
    (root / name).unlink()
    if content is not None:
        (root / name).write_bytes(content)
    message_of(lambda: read(root), name)


@pytest.mark.parametrize("read", [RETRIEVAL.load_qrels, RETRIEVAL.load_rewrites, RETRIEVAL.corpus_file])
def test_an_unknown_domain_lists_close_matches(read: Callable[[Path, str], object]) -> None:
    with raises(ConfigurationError):
        read(SAMPLE, "fiqua")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"c<::>1\tp", "line 3: expected query id, passage id"),
        (b"c<::>1\tp\t1\tx", "line 3: expected query id, passage id"),
        (b"c<::>1\tp\tone", "line 3: expected query id, passage id"),
        (b"c<::>1\tp\t-1", "line 3: expected query id, passage id"),
        ("c<::>1\tp\t²".encode(), "line 3: expected query id, passage id"),
        (b"c<::>1\t\t1", "line 3: expected query id, passage id"),
        (b"no-turn\tp\t1", "line 3: expected query id, passage id"),
        (b"c<::>1\t\xff\xff", "line 3: expected query id, passage id"),
        (b"", "line 3: expected query id, passage id"),
        (b"a<::>1\tp\t0", "line 3 (a<::>1): expected each judgement once"),
        (b"a::1\tp\t1", "line 3 (a<::>1): expected each judgement once"),
    ],
)
def test_a_bad_judgement_is_named_by_line(root: Path, line: bytes, expected: str) -> None:
    (root / QRELS).write_bytes(HEADER + b"a<::>1\tp\t1\n" + line + b"\nb<::>1\tq\n")
    text = message_of(lambda: RETRIEVAL.load_qrels(root, "fiqa"), QRELS)
    assert expected in text
    assert "line 4" in text  # both errors at once


def test_judgements_need_no_header(root: Path) -> None:
    (root / QRELS).write_bytes(b"a<::>1\tp\t0\na::2\tq\t2\n")
    assert RETRIEVAL.load_qrels(root, "fiqa") == (Qrel("a<::>1", "p", 0), Qrel("a<::>2", "q", 2))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"text": "x"}, "line 2: expected `_id`"),
        ({"_id": 3, "text": "x"}, "line 2: expected `_id`"),
        ({"_id": "no-turn", "text": "x"}, "line 2: expected `_id`"),
        ({"_id": "b<::>1", "text": " "}, "line 2: expected `text` as a text that is not blank"),
        ({"_id": "a::1", "text": "x"}, "line 2 (a<::>1): expected each query once"),
        (["a<::>1"], "line 2: expected one JSON object"),
    ],
)
def test_a_bad_query_is_named_by_line(root: Path, row: object, expected: str) -> None:
    rows = [{"_id": "a<::>1", "text": "|user|: x"}, row, 7]
    (root / QUERIES).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = message_of(lambda: RETRIEVAL.load_rewrites(root, "fiqa"), QUERIES)
    assert expected in text
    assert "line 3: expected one JSON object" in text


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["_id", "text", "x"]), inner),
    max_leaves=6,
)


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(value=JSON_VALUES, lines=st.lists(st.text(max_size=20), max_size=3))
def test_any_file_content_gives_a_clear_error_or_none(root: Path, value: object, lines: list[str]) -> None:
    text = json.dumps(value).encode()
    (root / QUERIES).write_bytes(text)
    (root / QRELS).write_bytes("\n".join(lines).encode(errors="replace"))
    for read in (
        lambda: RETRIEVAL.load_rewrites(root, "fiqa"),
        lambda: RETRIEVAL.load_qrels(root, "fiqa"),
    ):
        with contextlib.suppress(BenchmarkFileError):
            read()
