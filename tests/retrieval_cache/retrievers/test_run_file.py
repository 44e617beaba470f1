"""Run files as retrievers: both formats, and errors by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.files import Ranked, read_run, write_trec
from ragtasks.records import Passage
from retrieval_cache.retrievers.protocol import Retriever, statistics_of
from retrieval_cache.retrievers.run_file import LEFT_OUT
from retrieval_cache.spec import parse
from tests._messages import raises

CORPUS = [Passage(name, "text") for name in ("a", "b", "c", "d")]
RUN = {"c1<::>1": (Ranked("b", 2.5), Ranked("a", 1.0)), "c1<::>2": (Ranked("d", 1.0), Ranked("c", 1.0))}


def file_with(folder: Path, *lines: object) -> Path:
    path = folder / "run.txt"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return path


def row(task_id: object, *contexts: object) -> dict[str, Any]:
    return {"task_id": task_id, "contexts": list(contexts), "Collection": "mt-rag-govt"}


def context(passage_id: object, score: object) -> dict[str, object]:
    return {"document_id": passage_id, "score": score}


def opened(path: Path) -> Retriever:
    retriever = parse(f"run:{path}")
    retriever.index(iter(CORPUS), path.parent / "unused")
    return retriever


def test_a_trec_run_is_returned_unchanged(tmp_path: Path) -> None:
    write_trec(tmp_path / "run.trec", RUN, "tag")
    retriever = opened(tmp_path / "run.trec")
    assert retriever.search({"c1<::>2": "unused", "c1<::>1": "", "c9<::>1": ""}, 10) == {**RUN, "c9<::>1": ()}
    assert retriever.search({"c1<::>1": ""}, 1) == {"c1<::>1": (Ranked("b", 2.5),)}


def test_official_rows_are_ranked_by_score_in_any_order(tmp_path: Path) -> None:
    path = file_with(tmp_path, row("c1::1", context("a", 1), context("b", 2.5)), row("c1::2"))
    assert opened(path).search({"c1<::>1": "", "c1<::>2": ""}, 5) == {"c1<::>1": RUN["c1<::>1"], "c1<::>2": ()}


def test_an_order_that_contradicts_the_scores_gives_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened(file_with(tmp_path, "q Q0 a 1 2.0 t", "q Q0 b 2 1.0 t"))
    assert caplog.text == ""
    opened(file_with(tmp_path, "q Q0 a 1 1.0 t", "q Q0 b 2 3.0 t", "q Q0 c 3 2.0 t", "r Q0 a 1 1.0 t"))
    assert caplog.text.count("in 1 of 2 queries the order of the file contradicts the scores") == 1


def test_ranks_may_start_at_0_and_lines_may_have_any_order(tmp_path: Path) -> None:
    path = file_with(tmp_path, "q Q0 a 1 1.0 t", "q Q0 b 0 2.0 t", "r Q0 c 1 2.0 t")
    assert read_run(path) == {"q": (Ranked("b", 2.0), Ranked("a", 1.0)), "r": (Ranked("c", 2.0),)}


def test_omitted_queries_are_recorded_and_empty_rankings_are_not(tmp_path: Path) -> None:
    retriever = opened(file_with(tmp_path, row("c1::1", context("a", 1)), row("c1::2")))
    assert statistics_of(retriever) == {}
    retriever.search({"c1<::>1": "", "c1<::>2": "", "c9<::>1": ""}, 5)
    assert statistics_of(retriever) == {LEFT_OUT: ["c9<::>1"]}


def test_the_name_contains_the_path_and_the_description_the_checksum(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    first, second = (parse(f"run:{file_with(tmp_path / folder, 'q Q0 a 1 1.0 t')}") for folder in ("one", "two"))
    assert first.name != second.name
    assert first.describe() == second.describe()
    file_with(tmp_path / "two", "q Q0 a 1 1.5 t")
    assert first.describe() != second.describe()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["q Q0 a 1 nan t", "q Q0 b 2 inf t"], r"2 errors(.|\n)*line 1(.|\n)*'nan'(.|\n)*line 2(.|\n)*'inf'"),
        (["q Q0 a 1 2 t", "q Q0 a 2 1 t"], "line 2.*each passage of a query once"),
        (["q Q0 a 1 2"], r": 1 error\n  line 1: expected 6 cells"),
        (["c::1 Q0 a 1 2 t", "c<::>1 Q0 a 1 2 t"], "one spelling"),
        (["q Q0 a 1 high t"], "'high'"),
        (["q Q0 p\0x 1 2.0 t"], "line 1: expected text, found 'a NUL"),
    ],
)
def test_problems_of_a_trec_run_are_named(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(CacheError, match=message):
        read_run(file_with(tmp_path, *lines))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (['{"task_id": "c::1", "contexts": [{"document_id": "a", "score": NaN}]}'], "line 1"),
        ([row("c::1", context("a", True))], "line 1.*score True"),
        ([row("c::1", context("a", None))], "line 1.*score None"),
        ([row("c::1", context("a", 1), context("a", 2))], "line 1.*'a' twice"),
        ([row("c::1", context(7, 1))], "line 1.*document_id 7"),
        ([row("c::1"), row("c<::>1")], "line 2: expected each task once, found 'c<::>1'"),
        ([row("c::1"), {"task_id": "c::2"}], r": 1 error\n  line 2.*'contexts'"),
        ([row("c::1"), row(3), "no json"], r"2 errors(.|\n)*line 2.*task_id 3(.|\n)*line 3"),
    ],
)
def test_problems_of_official_rows_are_named(tmp_path: Path, rows: list[object], message: str) -> None:
    with pytest.raises(CacheError, match=message):
        read_run(file_with(tmp_path, *rows))


def test_passages_missing_from_the_corpus_are_refused(tmp_path: Path) -> None:
    retriever = opened(file_with(tmp_path, "q Q0 a 1 2 t", "q Q0 zz 2 1 t", "other Q0 yy 1 1 t"))
    with pytest.raises(CacheError, match="1 others: 'zz'"):
        retriever.search({"q": ""}, 1)


def test_a_run_for_other_queries_is_refused(tmp_path: Path) -> None:
    with raises(CacheError):
        opened(file_with(tmp_path, "q Q0 a 1 2 t")).search({"other": ""}, 1)


def test_a_missing_file_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent"):
        parse(f"run:{tmp_path}/absent.trec")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CacheError, match="expected: text"):
        read_run(tmp_path / "run")


def test_searching_before_indexing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="before index"):
        parse(f"run:{file_with(tmp_path, 'q Q0 a 1 2 t')}").search({"q": ""}, 1)
