"""MultiHop-RAG: files and errors, chunks, relevance, sample, and counts of the real data."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ragtasks.benchmarks import Benchmark, benchmark_folder
from ragtasks.benchmarks.multihop_rag import (
    CHUNK_TOKENS,
    N_PASSAGES,
    OFFICIAL_COUNTS,
    SOURCE,
    Article,
    chunk_rows,
    corpus_file,
    load,
    load_facts,
    load_qrels,
    load_rankings,
    spans,
)
from ragtasks.errors import BenchmarkFileError, ConfigurationError, FetchError
from ragtasks.records import Answerability, Setting, compact
from tests._messages import raises
from tests.conftest import REAL_DATA

SAMPLE = benchmark_folder("multihop_rag", "sample", Path())
QUERIES, CORPUS = "dataset/MultiHopRAG.json", "dataset/corpus.json"
TOKEN = re.compile(r"\w{1,16}|[^\w\s]")
Change = Callable[..., Path]


def holds(passage: str, fact: str) -> bool:
    """The official rule, with which the fast search must agree."""
    return compact(fact) in compact(passage)


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return load(SAMPLE)


@pytest.fixture
def changed(tmp_path: Path) -> Change:
    """Return a copy of the sample with the items of one file changed by a function."""

    def change(file: str, edit: Callable[[list[Any]], None]) -> Path:
        shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
        items = read(tmp_path / file)
        edit(items)
        (tmp_path / file).write_text(json.dumps(items), encoding="utf-8")
        return tmp_path

    return change


def read(path: Path) -> list[Any]:
    items: list[Any] = json.loads(path.read_text(encoding="utf-8"))
    return items


# The official files.


def test_the_official_files_have_the_papers_counts() -> None:
    root = REAL_DATA / "MultiHop-RAG"
    if not (root / CORPUS).is_file() or not (root / QUERIES).is_file():
        pytest.skip(f"no real MultiHop-RAG data at {root}")
    tasks = load(root).tasks
    assert len(tasks) == 2556
    assert Counter(task.question_types[0] for task in tasks) == OFFICIAL_COUNTS.by_type
    pieces = Counter(len(task.extra["evidence"]) for task in tasks)
    assert (pieces[0], set(pieces)) == (301, {0, 2, 3, 4})
    articles = read(root / CORPUS)
    assert Counter(article["category"] for article in articles) == {
        "technology": 172, "entertainment": 114, "sports": 211, "science": 21, "business": 81, "health": 10,
    }  # fmt: skip


def test_the_official_files_are_pinned_at_their_lfs_address() -> None:
    files = SOURCE.in_groups(["tasks"])
    assert [(file.path, file.n_bytes) for file in files] == [(QUERIES, 5171312), (CORPUS, 6785567)]
    assert all(file.sha256 and re.fullmatch("[0-9a-f]{64}", file.sha256) for file in SOURCE.files)
    # Their usual address serves Git-LFS pointers.
    assert SOURCE.base_url == f"https://media.githubusercontent.com/media/yixuantt/MultiHop-RAG/{SOURCE.commit}/"
    assert sum(OFFICIAL_COUNTS.by_type.values()) == 2556


# Tasks.


def test_a_query_becomes_a_single_turn_task(sample: Benchmark) -> None:
    task = sample.tasks[0]
    row = read(SAMPLE / QUERIES)[0]
    assert (task.task_id, task.domain, task.turn, task.multi_turn) == ("multihop-0001<::>1", "news", 1, "N/A")
    assert (task.question, task.target, task.question_types) == (row["query"], "Lantern Grid", ("inference_query",))
    assert len(task.messages) == 1
    assert [evidence["fact"] for evidence in task.extra["evidence"]] == [
        evidence["fact"] for evidence in row["evidence_list"]
    ]
    assert (sample.suite, sample.n_passages, sample.label) == ("multihop_rag", N_PASSAGES, "multihop_rag (sample)")


def test_only_null_queries_are_unanswerable_and_have_no_evidence(sample: Benchmark) -> None:
    for task in sample.tasks:
        is_null = task.question_types == ("null_query",)
        assert (task.answerability is Answerability.UNANSWERABLE) == is_null
        assert (not task.references) == (not task.extra["evidence"]) == is_null
        assert (task.target == "Insufficient information.") == is_null


def test_gold_passages_contain_the_evidence_and_omit_null_queries(sample: Benchmark) -> None:
    contexts = sample.read_contexts(Setting.REFERENCE).passages
    assert contexts.keys() == {task.task_id for task in sample.tasks if task.question_types != ("null_query",)}
    for task in sample.tasks:
        for evidence in task.extra["evidence"]:
            assert any(holds(passage.text, evidence["fact"]) for passage in contexts[task.task_id])
        ids = [passage.passage_id for passage in task.references]
        assert len(ids) == len(set(ids))


def test_a_fact_in_no_chunk_becomes_a_passage(changed: Change) -> None:
    def edit(items: list[Any]) -> None:
        items[0]["evidence_list"][1]["fact"] = "Not one article says this."

    task = load(changed(QUERIES, edit)).tasks[0]
    assert [passage.passage_id for passage in task.references] == ["article-001-0-1275", "fact-0001-2"]
    assert task.references[1].text == (
        "Lantern Grid reports first loss after delays at Pellin\nSource: The Tollgarth Ledger\n"
        "Published: 2023-11-14T06:30:00+00:00\n\nNot one article says this."
    )


def test_retrieved_passages_are_the_first_six_of_every_query(sample: Benchmark) -> None:
    contexts = sample.read_contexts(Setting.FULL_RAG)
    results = read(SAMPLE / "retrieved.json")
    assert list(contexts.passages) == [task.task_id for task in sample.tasks]
    for own, row in zip(contexts.passages.values(), results, strict=True):
        assert [passage.text for passage in own] == [result["text"] for result in row["retrieval_list"][:6]]
    ids = {json.loads(line)["_id"] for line in corpus_file(SAMPLE, "news").read_text(encoding="utf-8").splitlines()}
    assert {passage.passage_id for own in contexts.passages.values() for passage in own} <= ids


def test_retrieved_texts_that_are_not_chunks_get_stable_ids(changed: Change) -> None:
    def edit(items: list[Any]) -> None:
        for result in items[:2]:
            result["retrieval_list"] = [{"text": "A chunk cut otherwise.", "score": 1.0}, *result["retrieval_list"][:2]]

    rankings = list(load_rankings(changed("retrieved.json", edit)).values())
    assert rankings[0][0] == rankings[1][0]
    assert re.fullmatch("retrieved-[0-9a-f]{16}", rankings[0][0].passage_id)
    assert rankings[0][0].text == "A chunk cut otherwise."


def test_results_may_be_in_any_order_and_repeated_passages_are_included_once(
    changed: Change, sample: Benchmark
) -> None:
    def edit(items: list[Any]) -> None:
        items.reverse()
        items[0]["retrieval_list"][1] = items[0]["retrieval_list"][0]

    folder = changed("retrieved.json", edit)
    rankings = load_rankings(folder)
    complete = load_rankings(SAMPLE)
    assert list(rankings) == list(complete)
    last = sample.tasks[-1].task_id
    assert rankings[last] == (complete[last][0], complete[last][0], *complete[last][2:])
    shown = load(folder).read_contexts(Setting.FULL_RAG).passages[last]
    assert shown == (complete[last][0], *complete[last][2:7])
    assert all(rankings[key] == complete[key] for key in complete if key != last)


def test_without_results_the_error_names_the_retrieve_command(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    (tmp_path / "retrieved.json").unlink()
    with raises(ConfigurationError):
        load(tmp_path).read_contexts(Setting.FULL_RAG)


def test_another_setting_is_refused(sample: Benchmark) -> None:
    with pytest.raises(ConfigurationError, match="no setting reference_rag"):
        sample.read_contexts(Setting.REFERENCE_RAG)


# Errors.


def test_invalid_articles_are_one_error_with_every_item(changed: Change) -> None:
    def edit(items: list[Any]) -> None:
        del items[0]["published_at"]
        items[1]["published_at"] = "last Tuesday"
        items[2]["body"] = "  "
        items[3] = "an article"
        items[4]["title"] = None
        items[5]["author"], items[5]["url"] = None, None

    with pytest.raises(BenchmarkFileError) as caught:
        load(changed(CORPUS, edit))
    text = str(caught.value)
    assert "5 errors" in text
    for number, expected in (
        (1, "`published_at`, found no `published_at`"),
        (2, "`published_at` as a date in ISO 8601, found 'last Tuesday'"),
        (3, "`body` as a text that is not blank"),
        (4, "keys with values, found 'an article'"),
        (5, "`title` as a text, found None"),
    ):
        assert f"(item {number}): expected {expected}" in text
    assert "(item 6)" not in text
    assert "ragtasks data fetch multihop_rag" in text


def test_invalid_queries_are_one_error_with_every_item(changed: Change) -> None:
    def edit(items: list[Any]) -> None:
        items[0]["question_type"] = "bridge_query"
        items[1]["evidence_list"] = []
        items[2]["evidence_list"][1]["fact"] = ""
        items[3]["evidence_list"][0]["published_at"] = "soon"
        items[4]["answer"] = 7
        items[-1]["evidence_list"] = items[5]["evidence_list"]

    with pytest.raises(BenchmarkFileError) as caught:
        load(changed(QUERIES, edit))
    text = str(caught.value)
    assert "6 errors" in text
    for number, expected in (
        (1, "`question_type` as 'inference_query'"),
        (2, "an `evidence_list` that is empty only for a null query"),
        (3, "`evidence_list[1].fact` as a text that is not blank"),
        (4, "`evidence_list[0].published_at` as a date"),
        (5, "`answer` as a text, found 7"),
        (24, "an `evidence_list` that is empty only for a null query"),
    ):
        assert f"(item {number}): expected {expected}" in text


@pytest.mark.parametrize("content", [b"", b"{}", b"[1, 2", b"version https://git-lfs.github.com/spec/v1\n"])
def test_a_file_that_is_not_an_array_is_named(tmp_path: Path, content: bytes) -> None:
    shutil.copytree(SAMPLE, tmp_path, dirs_exist_ok=True)
    (tmp_path / CORPUS).write_bytes(content)
    with raises(BenchmarkFileError):
        load(tmp_path)


@pytest.mark.parametrize("file", [QUERIES, CORPUS])
def test_other_counts_than_expected_are_a_problem(changed: Change, file: str) -> None:
    with raises(BenchmarkFileError):
        load(changed(file, lambda items: items.pop(0)))


def test_results_that_do_not_match_the_queries_are_one_error(changed: Change) -> None:
    def edit(items: list[Any]) -> None:
        items[0]["query"] = "Who is this?"
        items[1]["retrieval_list"] = [{"score": 1.0}]
        items[3] = items[2]

    with pytest.raises(BenchmarkFileError) as caught:
        load_rankings(changed("retrieved.json", edit))
    text = str(caught.value)
    assert "6 errors" in text
    assert "(item 1): expected `query` of the benchmark, each once, found 'Who is this?'" in text
    assert "(item 2): expected `retrieval_list[0].text`, found no `text`" in text
    assert "(item 4): expected `query` of the benchmark, each once" in text
    for number in (1, 2, 4):
        assert f"file (multihop-000{number}<::>1): expected an item for each query" in text


# Chunks.

SENTENCES = st.lists(st.text(alphabet="ab. \n!?,\u201d", max_size=30), max_size=12).map("x y. ".join)


@given(SENTENCES, st.integers(min_value=1, max_value=12))
def test_chunks_preserve_every_character_in_order_and_keep_the_size_limit(text: str, size: int) -> None:
    cut = list(spans(text, size))
    assert all(start < end for start, end in cut)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(cut))
    assert all(1 <= len(TOKEN.findall(text[start:end])) <= size for start, end in cut)
    kept = "".join(text[start:end] for start, end in cut)
    assert re.sub(r"\s", "", kept) == re.sub(r"\s", "", text)
    assert all(text[start:end] == text[start:end].strip() for start, end in cut)


def test_a_chunk_contains_as_many_complete_sentences_as_fit() -> None:
    text = "One two three. Four five! Six?\n\nSeven eight nine ten eleven twelve."
    assert [text[start:end] for start, end in spans(text, 7)] == [
        "One two three. Four five!",
        "Six?",
        "Seven eight nine ten eleven twelve.",
    ]
    assert [text[start:end] for start, end in spans(text, 3)] == [
        "One two three", ".", "Four five!", "Six?", "Seven eight nine", "ten eleven twelve", ".",
    ]  # fmt: skip


def test_a_chunk_begins_with_headline_source_and_date() -> None:
    article = Article(
        title="A headline",
        source="The Ledger",
        published_at="2023-10-02",
        category="science",
        body="It is so. " * 80,
        url="https://a",
    )
    rows = list(chunk_rows([article]))
    assert len(rows) == 2
    assert rows[0]["_id"] == f"article-001-0-{64 * 10 - 1}"
    assert rows[0]["text"].startswith("A headline\nSource: The Ledger\nPublished: 2023-10-02\n\nIt is so. It is so.")
    assert (rows[1]["title"], rows[1]["url"]) == ("A headline", "https://a")
    assert len(TOKEN.findall(rows[0]["text"].partition("\n\n")[2])) == CHUNK_TOKENS


# Retrieval.


def test_chunks_are_derived_once_until_the_articles_change(changed: Change) -> None:
    root = changed(CORPUS, lambda _: None)
    shutil.rmtree(root / "derived")
    path = corpus_file(root, "news")
    first = path.read_bytes()
    path.write_bytes(first + b"\n")
    assert corpus_file(root, "news").read_bytes() == first + b"\n"  # found, not created again
    (shipped,) = (SAMPLE / "derived").iterdir()
    assert first == shipped.read_bytes()
    changed(CORPUS, lambda items: items[0].update(title="Another headline"))
    assert corpus_file(root, "news") != path
    assert sorted(file.suffix for file in (root / "derived").iterdir()) == [".jsonl"] * len(
        list((root / "derived").iterdir())
    )


def test_an_unwritable_folder_is_named_and_no_file_is_left(changed: Change) -> None:
    root = changed(CORPUS, lambda _: None)
    shutil.rmtree(root / "derived")
    (root / "derived").write_text("in the way")
    with pytest.raises(FetchError, match="derived"):
        corpus_file(root, "news")


def test_every_chunk_with_a_fact_is_relevant(sample: Benchmark) -> None:
    chunks = [json.loads(line) for line in corpus_file(SAMPLE, "news").read_text(encoding="utf-8").splitlines()]
    facts = load_facts(SAMPLE, "news")
    expected = {
        (query_id, chunk["_id"])
        for query_id, own in facts.items()
        for chunk in chunks
        if any(holds(chunk["text"], fact) for fact in own)
    }
    qrels = load_qrels(SAMPLE, "news")
    assert {(qrel.query_id, qrel.passage_id) for qrel in qrels} == expected
    assert {qrel.relevance for qrel in qrels} == {1}
    assert len(qrels) == len(expected)
    assert facts.keys() == {task.task_id for task in sample.tasks if task.references}
    for task in sample.tasks:
        judged = {qrel.passage_id for qrel in qrels if qrel.query_id == task.task_id}
        assert {passage.passage_id for passage in task.references} == judged


# The sample.


def test_the_sample_has_all_types_and_some_long_articles(sample: Benchmark) -> None:
    assert Counter(task.question_types[0] for task in sample.tasks) == {
        "inference_query": 7, "comparison_query": 7, "temporal_query": 6, "null_query": 4,
    }  # fmt: skip
    assert {len(task.extra["evidence"]) for task in sample.tasks} == {0, 2, 3}
    articles = read(SAMPLE / CORPUS)
    assert len(articles) == 12
    assert {article["category"] for article in articles} == {
        "technology", "entertainment", "sports", "science", "business", "health",
    }  # fmt: skip
    assert any(article["author"] is None for article in articles)
    assert len((SAMPLE / "derived").joinpath(corpus_file(SAMPLE, "news").name).read_bytes().splitlines()) == 16
    assert list(articles[0]) == ["title", "author", "source", "published_at", "category", "url", "body"]
    assert list(read(SAMPLE / QUERIES)[0]) == ["query", "answer", "question_type", "evidence_list"]
    assert list(read(SAMPLE / "retrieved.json")[0]) == [
        "query", "answer", "question_type", "retrieval_list", "gold_list",
    ]  # fmt: skip
