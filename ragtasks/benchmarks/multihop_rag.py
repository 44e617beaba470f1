"""MultiHop-RAG: articles, queries, chunks, and which passages hold a fact."""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter

from ragtasks.benchmarks._definition import (
    Benchmark,
    BenchmarkDefinition,
    RetrievalSide,
    derived_file,
    has_references,
    official_file,
    read_edition,
)
from ragtasks.benchmarks.sources import Source, SourceFile
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.files import Problems, json_array, parse_json
from ragtasks.records import Answerability, Contexts, Message, Passage, Qrel, Role, Setting, Task, compact, task_id
from ragtasks.tables import Table, Value

# MultiHop-RAG's files read into records: articles and queries, each file checked whole, every error at once.
# Both files are one JSON array, so an error is named by the item's number, from 1. Neither has ids: an article's
# and a query's id is its number, which the checksums of the official files keep fixed. Only what scoring rests on
# is checked: who wrote an article, and its address, may be missing.

QUERY_FILE = "dataset/MultiHopRAG.json"
CORPUS_FILE = "dataset/corpus.json"
NULL = "null_query"
"""The type of the queries that nothing in the corpus answers."""
QUESTION_TYPES = ("inference_query", "comparison_query", "temporal_query", NULL)

_NEXT_STEP = "delete the file and run `ragtasks data fetch multihop_rag`"
_ARTICLE_KEYS = ("title", "source", "published_at", "category", "body")
_EVIDENCE_KEYS = ("fact", "title", "source", "published_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many records a complete copy has; loading fails where a file differs."""

    articles: int
    by_type: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Article:
    """One news article."""

    article_id: str
    """`article-` and its number in the file, from 1."""
    title: str
    source: str
    published_at: str
    """When, in ISO 8601, as in the file."""
    category: str
    body: str
    url: str = ""
    """Address; empty where the file has none."""


@dataclass(frozen=True, slots=True)
class Query:
    """One question with what its answer rests on."""

    number: int
    """Place in the file, from 1."""
    query: str
    answer: str
    """`Yes`, `No`, `before`, an entity, or that information is insufficient."""
    question_type: str
    evidence: tuple[dict[str, str], ...] = field(hash=False)
    """Pieces of evidence with the keys fact, title, source, published_at; none for a null query."""


def edition_of(root: Path) -> tuple[bool, str, Counts]:
    """Return (is sample, revision, counts) of the copy under `root`; only a sample brings its own statistics."""

    def read(raw: Any) -> Counts:
        Counts(**raw)  # refuses what it does not know, as the next line does other types
        return TypeAdapter(Counts).validate_python(raw)

    return read_edition(root, SOURCE.commit, OFFICIAL_COUNTS, read)


def read_articles(root: Path, counts: Counts) -> tuple[Article, ...]:
    """Return the articles of the corpus, in the order of the file."""
    problems = problems_of(root / CORPUS_FILE, "MultiHop-RAG corpus")
    articles: list[Article] = []
    for number, row in items_of(problems):
        before = len(problems)
        texts = _checked_texts(row, _ARTICLE_KEYS, problems, number)
        _check_date(texts.get("published_at"), problems, number)
        url = row.get("url")
        if len(problems) == before:
            article_id = f"article-{number:03d}"
            articles.append(Article(article_id=article_id, **texts, url=url if isinstance(url, str) else ""))
    if not len(problems) and len(articles) != counts.articles:
        problems.add(0, f"{counts.articles} articles", len(articles))
    problems.raise_if_any()
    return tuple(articles)


def read_queries(root: Path, counts: Counts) -> tuple[Query, ...]:
    """Return the queries, in the order of the file."""
    problems = problems_of(root / QUERY_FILE, "MultiHop-RAG queries")
    queries: list[Query] = []
    for number, row in items_of(problems):
        before = len(problems)
        texts = _checked_texts(row, ("query", "answer", "question_type"), problems, number)
        question_type = texts.get("question_type")
        if question_type and question_type not in QUESTION_TYPES:
            problems.add(0, f"`question_type` as one of {', '.join(QUESTION_TYPES)}", question_type, f"item {number}")
        evidence = _evidence(row, question_type == NULL, problems, number)
        if len(problems) == before:
            queries.append(Query(number, **texts, evidence=evidence))
    by_type = dict(Counter(query.question_type for query in queries))
    if not len(problems) and by_type != dict(counts.by_type):
        problems.add(0, f"queries by type {dict(counts.by_type)}", by_type)
    problems.raise_if_any()
    return tuple(queries)


def problems_of(path: Path, what: str) -> Problems:
    """Return the errors of a file that is there."""
    return Problems(official_file(path, "MultiHop-RAG", "multihop_rag"), what, _NEXT_STEP)


def items_of(problems: Problems) -> list[tuple[int, dict[str, Any]]]:
    """Return (number from 1, object) of a file that is one JSON array; items that are no objects are noted."""
    numbered = list(enumerate(json_array(problems), start=1))
    for number, row in numbered:
        if not isinstance(row, dict):
            problems.add(0, "an object", row, f"item {number}")
    return [(number, row) for number, row in numbered if isinstance(row, dict)]


def _checked_texts(
    row: Mapping[str, Any], keys: Sequence[str], problems: Problems, number: int, where: str = ""
) -> dict[str, str]:
    """Return the named fields that are texts with something in them, after noting the others."""
    found = {key: value for key in keys if isinstance(value := row.get(key), str) and value.strip()}
    for key in keys:
        if key not in found:
            problems.add(0, f"`{where}{key}` with a text", row.get(key), f"item {number}")
    return found


def _check_date(text: str | None, problems: Problems, number: int, where: str = "") -> None:
    if text is None:
        return
    try:
        # Python 3.10 does not read the Z that 3.11 does.
        datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        problems.add(0, f"`{where}published_at` as ISO 8601", text, f"item {number}")


def _evidence(row: Mapping[str, Any], is_null: bool, problems: Problems, number: int) -> tuple[dict[str, str], ...]:
    raw = row.get("evidence_list")
    if not isinstance(raw, list) or is_null == bool(raw):
        expected = "`evidence_list` empty for a null query" if is_null else "`evidence_list` with some evidence"
        problems.add(0, expected, raw, f"item {number}")
        return ()
    pieces = []
    for index, item in enumerate(raw):
        where = f"evidence_list[{index}]."
        piece = _checked_texts(item if isinstance(item, dict) else {}, _EVIDENCE_KEYS, problems, number, where)
        _check_date(piece.get("published_at"), problems, number, where)
        pieces.append(piece)
    return tuple(pieces)


# MultiHop-RAG's articles cut into chunks of at most 256 tokens, each with title, source and date before its text.
# A chunk is as many whole sentences as fit; a longer sentence is cut between tokens. Tokens are words and single
# punctuation marks. Known differences from the official pipeline (LlamaIndex's splitter at its defaults): it counts
# word pieces, takes the metadata out of the 256, and lets neighbours overlap, which multiplies the chunks and lets
# one sentence fill several ranks. So retrieval scores on these chunks are near the paper's, not equal to them.

CHUNK_TOKENS = 256
"""Most tokens in a chunk (paper, section 4.1)."""
RULE = 1
"""Raised when the same articles would be cut otherwise."""

_TOKEN = re.compile(r"\w{1,16}|[^\w\s]")
_SENTENCE_END = re.compile(r"[.!?][\"'\u2019\u201d)\]]*\s+|\s*\n\s*")


def chunk_rows(articles: Sequence[Article]) -> Iterator[dict[str, Any]]:
    """Yield the chunks of all articles as corpus rows, in order; ids hold the article's number and the offsets."""
    for article in articles:
        for start, end in spans(article.body):
            yield {
                "_id": f"{article.article_id}-{start}-{end}",
                "title": article.title,
                "text": with_header(article.title, article.source, article.published_at, article.body[start:end]),
                "url": article.url,
            }


def with_header(title: str, source: str, published_at: str, text: str) -> str:
    """Return a text below the lines that say where and when it was published."""
    return f"{title}\nSource: {source}\nPublished: {published_at}\n\n{text}"


def spans(text: str, size: int = CHUNK_TOKENS) -> Iterator[tuple[int, int]]:
    """Yield where chunks start and end (character offsets, the end excluded): in order, apart, without outer blanks."""
    start, end, n_tokens = 0, 0, 0
    for left, right, count in _pieces(text, size):
        if n_tokens and n_tokens + count > size:
            yield start, end
            n_tokens = 0
        if not n_tokens:
            start = left
        end, n_tokens = right, n_tokens + count
    if n_tokens:
        yield start, end


def _pieces(text: str, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, tokens) of each sentence, of each part of one that is longer than a chunk."""
    for left, right in _sentences(text):
        tokens = [match.span() for match in _TOKEN.finditer(text, left, right)]
        for first in range(0, len(tokens), size):
            part = tokens[first : first + size]
            yield part[0][0], part[-1][1], len(part)


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _SENTENCE_END.finditer(text):
        yield start, match.end()
        start = match.end()
    yield start, len(text)


# Which passages hold a fact: the rule that MultiHop-RAG calls a passage relevant by, and a fast search with it.
# A passage holds a fact if the fact's text, without blanks and line ends, stands in the passage's text, without
# blanks and line ends, letter for letter. Other white space (a tab, a no-break space) counts as a sign, as in the
# official script (yixuantt/MultiHop-RAG, retrieval_evaluate.py, commit 3dd4d4e).

_KEY_LENGTH = 12


def holds(passage: str, fact: str) -> bool:
    """Return whether a passage's text holds a fact. An empty fact is in every passage, as officially."""
    return compact(fact) in compact(passage)


def facts_by_passage(passages: Iterable[tuple[str, str]], facts: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield (passage id, places of the facts that it holds, ascending), for passages that hold one.

    One pass: every place of a passage is looked up in a table of the facts' first signs, so that the time does not
    grow with passages times facts.
    """
    by_start, short = _table(facts)
    for passage_id, text in passages:
        compacted = compact(text)
        found = {place for fact, places in short.items() if fact in compacted for place in places}
        for start in range(len(compacted) - _KEY_LENGTH + 1):
            key = compacted[start : start + _KEY_LENGTH]
            if key in by_start:
                found.update(
                    place
                    for fact, places in by_start[key].items()
                    if compacted.startswith(fact, start)
                    for place in places
                )
        if found:
            yield passage_id, sorted(found)


def _table(facts: Sequence[str]) -> tuple[Mapping[str, Mapping[str, list[int]]], Mapping[str, list[int]]]:
    """Return (first signs -> fact -> its places), and the facts that are too short for that."""
    by_start: dict[str, dict[str, list[int]]] = {}
    short: dict[str, list[int]] = {}
    for place, fact in enumerate(facts):
        text = compact(fact)
        group = short if len(text) < _KEY_LENGTH else by_start.setdefault(text[:_KEY_LENGTH], {})
        group.setdefault(text, []).append(place)
    return by_start, short


# Result files of MultiHop-RAG's retrieval script: an array with one item a query, its passages best first.
# An item is {`query`, `answer`, `question_type`, `retrieval_list` [{`text`, `score`}], `gold_list`}; the order of
# the list is the ranking, and the scores are not used. Items are joined to queries by the question's text.


def read_rankings(path: Path, queries: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """Return query number (from 1) -> texts, best first, one that comes twice at both ranks, by query."""
    problems = problems_of(path, "MultiHop-RAG retrieval results")
    open_numbers: dict[str, list[int]] = {}
    for number, query in enumerate(queries, start=1):
        open_numbers.setdefault(query, []).append(number)
    rankings: dict[int, tuple[str, ...]] = {}
    for place, row in items_of(problems):
        texts = _texts(row.get("retrieval_list"), place, problems)
        waiting = open_numbers.get(str(row.get("query")), [])
        if waiting:
            rankings[waiting.pop(0)] = texts
        else:
            problems.add(0, "`query` of the benchmark, each once", row.get("query"), f"item {place}")
    for number in sorted(number for waiting in open_numbers.values() for number in waiting):
        problems.add(0, "an item for each query", f"no item for query {number}: {queries[number - 1]}")
    problems.raise_if_any()
    return dict(sorted(rankings.items()))


def read_results(path: Path) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return (item -> texts, best first; item -> facts of its gold list) of a result file, without null queries.

    The file needs no benchmark beside it and may be of any queries, and of few. Items are named by number, from 1.
    """
    next_step = "name a result file of the official retrieval script"
    what = "MultiHop-RAG retrieval results"
    if not path.is_file():
        raise BenchmarkFileError(what, where=str(path), expected="a result file", found="no file", next_step=next_step)
    problems = Problems(path, what, next_step)
    rankings: dict[str, tuple[str, ...]] = {}
    facts: dict[str, tuple[str, ...]] = {}
    for place, row in items_of(problems):
        texts = _texts(row.get("retrieval_list"), place, problems)
        if row.get("question_type") != NULL:
            rankings[str(place)], facts[str(place)] = texts, _facts(row.get("gold_list"), place, problems)
    if not len(problems) and not facts:
        problems.add(0, "items with evidence", "none")
    problems.raise_if_any()
    return rankings, facts


def _facts(raw: Any, place: int, problems: Problems) -> tuple[str, ...]:
    facts = [item.get("fact") if isinstance(item, dict) else None for item in raw] if isinstance(raw, list) else []
    texts = [fact for fact in facts if isinstance(fact, str) and fact.strip()]
    if not texts or len(texts) != len(facts):
        problems.add(0, "`gold_list` with facts", raw, f"item {place}")
    return tuple(texts)


def _texts(raw: Any, place: int, problems: Problems) -> tuple[str, ...]:
    texts = [item.get("text") if isinstance(item, dict) else None for item in raw] if isinstance(raw, list) else [None]
    present = [text for text in texts if isinstance(text, str) and text.strip()]
    if len(present) != len(texts):
        problems.add(0, "`retrieval_list` with texts", raw, f"item {place}")
    return tuple(present)


# MultiHop-RAG: 2,556 questions whose answers lie in 2 to 4 of 609 news articles (Tang and Yang 2024).
# A question is one task without a history. Its type is its question type; `null_query` has no answer in the corpus,
# so its task is UNANSWERABLE. The reference passages are the chunks that hold the evidence, as in the paper's runs
# with ground-truth chunks; a fact that no chunk holds whole becomes a passage of its own. Retrieved passages are
# published for a toy set only: `retrieved.json`, in the official result format, is read where it lies beside
# `dataset/`.

_COMMIT = "3dd4d4e79fc9843008b8f832da99086a82f1a805"

SOURCE = Source(
    name="multihop_rag",
    folder="MultiHop-RAG",
    marker="dataset",
    repository="https://github.com/yixuantt/MultiHop-RAG",
    commit=_COMMIT,
    # The two files are kept in Git LFS: the usual address of raw files has pointers only.
    base_url=f"https://media.githubusercontent.com/media/yixuantt/MultiHop-RAG/{_COMMIT}/",
    files=(
        SourceFile(
            "dataset/MultiHopRAG.json",
            "03cfb4926461f868684903aadc8024447bdda5bb3f6804741424cce338515bff",
            5171312,
            "tasks",
        ),
        SourceFile(
            "dataset/corpus.json",
            "20b61b5ab84de84a927420c5d265b7ec8d859ae49980699958a787ade9e4d28f",
            6785567,
            "tasks",
        ),
    ),
)
"""The official files and the commit that they are pinned to."""

DOMAINS = ("news",)

N_PASSAGES = 6
"""Retrieved chunks that a model is shown (paper, section 4.2)."""

OFFICIAL_COUNTS = Counts(
    articles=609,
    by_type={"inference_query": 816, "comparison_query": 856, "temporal_query": 583, NULL: 301},
)
"""Paper, Tables 2 and 3."""


def load(root: Path) -> Benchmark:
    """Return the benchmark whose files lie under `root` (a checkout, a fetched copy, or the sample)."""
    is_sample, revision, counts = edition_of(root)
    queries = read_queries(root, counts)
    references = _references(queries, _chunks(root, counts))
    tasks = tuple(_task(query, references[query.number]) for query in queries)
    read_contexts = functools.partial(_read_contexts, root, tasks)
    return Benchmark(
        "multihop_rag",
        root,
        is_sample,
        revision,
        "answerability",
        tasks,
        read_contexts,
        suite="multihop_rag",
        n_passages=N_PASSAGES,
        belongs=has_references,
    )


def _task(query: Query, references: tuple[Passage, ...]) -> Task:
    conversation_id = f"multihop-{query.number:04d}"
    return Task(
        task_id=task_id(conversation_id, 1),
        conversation_id=conversation_id,
        turn=1,
        domain=DOMAINS[0],
        messages=(Message(Role.USER, query.query),),
        target=query.answer,
        answerability=Answerability.UNANSWERABLE if query.question_type == NULL else Answerability.ANSWERABLE,
        question_types=(query.question_type,),
        references=references,
        extra={"evidence": [dict(piece) for piece in query.evidence]},
    )


def _chunks(root: Path, counts: Counts) -> list[Passage]:
    rows = chunk_rows(read_articles(root, counts))
    return [Passage(row["_id"], row["text"], row["title"], row["url"]) for row in rows]


def _references(queries: Sequence[Query], chunks: Sequence[Passage]) -> dict[int, tuple[Passage, ...]]:
    """Return query number -> the passages of its evidence, in the order of the evidence, each once."""
    facts = [piece["fact"] for query in queries for piece in query.evidence]
    holders: dict[int, Passage] = {}
    by_id = {chunk.passage_id: chunk for chunk in chunks}
    for passage_id, places in facts_by_passage(((chunk.passage_id, chunk.text) for chunk in chunks), facts):
        for place in places:
            holders.setdefault(place, by_id[passage_id])
    references, place = {}, 0
    for query in queries:
        held = []
        for number, piece in enumerate(query.evidence, start=1):
            held.append(holders.get(place) or _fact_alone(query.number, number, piece))
            place += 1
        references[query.number] = tuple({passage.passage_id: passage for passage in held}.values())
    return references


def _fact_alone(query_number: int, number: int, piece: Mapping[str, str]) -> Passage:
    text = with_header(piece["title"], piece["source"], piece["published_at"], piece["fact"])
    return Passage(f"fact-{query_number:04d}-{number}", text, piece["title"])


def _read_contexts(root: Path, tasks: tuple[Task, ...], setting: Setting) -> Contexts:
    """Return the passages of a setting: of the evidence, without null queries; or the first six of `retrieved.json`."""
    if setting is Setting.REFERENCE:
        return Contexts(
            "official", setting, {task.task_id: task.references for task in tasks if has_references(task, setting)}
        )
    if setting is Setting.FULL_RAG:
        rankings = load_rankings(root)
        distinct = {key: tuple(dict.fromkeys(passages)) for key, passages in rankings.items()}
        return Contexts("official", setting, {key: passages[:N_PASSAGES] for key, passages in distinct.items()})
    raise ConfigurationError(f"MultiHop-RAG has no setting {setting.value}: take multihop_rag_retrieved or _gold")


def load_rankings(root: Path) -> dict[str, tuple[Passage, ...]]:
    """Return task id -> retrieved passages, best first, of every query, as `retrieved.json` has them.

    A text that is a chunk of ours gets that chunk's id, so that judgements apply; any other gets a hash as its id. One
    that the file lists twice appears twice, as the official script counts ranks.
    """
    path = root / "retrieved.json"
    if not path.is_file():
        raise ConfigurationError(
            "retrieved passages of MultiHop-RAG",
            where=str(path),
            expected="a result file of the official retrieval script, or a run of your own",
            found="no file",
            next_step="run `ragtasks retrieve --benchmark multihop_rag --retriever bm25`, then name the run: "
            "--metadata '{\"run\": ...}'",
        )
    _, _, counts = edition_of(root)
    by_text = {chunk.text: chunk for chunk in _chunks(root, counts)}
    by_query = read_rankings(path, [query.query for query in read_queries(root, counts)])
    return {
        task_id(f"multihop-{number:04d}", 1): tuple(by_text.get(text) or _foreign(text) for text in texts)
        for number, texts in by_query.items()
    }


def _foreign(text: str) -> Passage:
    return Passage(f"retrieved-{hashlib.sha256(text.encode()).hexdigest()[:16]}", text)


def corpus_file(root: Path, domain: str) -> Path:
    """Return the file with the chunks of all articles, cut now where it is not there.

    Its name holds a hash of the articles and the rule, so a stale one is not found.
    """
    _, _, counts = edition_of(root)
    articles = read_articles(root, counts)
    key = hashlib.sha256(b"%d:" % RULE + (root / CORPUS_FILE).read_bytes()).hexdigest()[:12]
    return derived_file(root, f"{domain}-{key}.jsonl", lambda: chunk_rows(articles))


def load_qrels(root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return what is relevant: every chunk that holds a fact of the query's evidence, by the official rule.

    A query none of whose facts stands whole in a chunk has no judgement; the scores over evidence count it.
    """
    facts = load_facts(root, domain)
    owners = [query_id for query_id, evidence in facts.items() for _ in evidence]
    rows = [parse_json(line) for line in corpus_file(root, domain).read_bytes().splitlines()]
    found = facts_by_passage(
        ((row["_id"], row["text"]) for row in rows), [fact for evidence in facts.values() for fact in evidence]
    )
    pairs = {(owners[place], passage_id) for passage_id, places in found for place in places}
    return tuple(Qrel(query_id, passage_id, 1) for query_id, passage_id in sorted(pairs))


def load_facts(root: Path, domain: str) -> dict[str, tuple[str, ...]]:
    """Return task id -> facts that passages must hold, for every query with evidence."""
    _, _, counts = edition_of(root)
    return {
        task_id(f"multihop-{query.number:04d}", 1): tuple(piece["fact"] for piece in query.evidence)
        for query in read_queries(root, counts)
        if query.evidence
    }


def document_of(passage_id: str) -> str:
    """Return the article of a chunk: `article-001` of `article-001-0-512`."""
    return passage_id.rsplit("-", 2)[0]


def extra_tables(benchmark: Benchmark) -> Sequence[Table]:
    """Return articles by category, pieces of evidence a query, and first words."""
    return tables(benchmark, edition_of(benchmark.root)[2])


RETRIEVAL = RetrievalSide(
    DOMAINS,
    corpus_file,
    load_qrels,
    load_facts=load_facts,
    load_rankings=load_rankings,
    load_results=read_results,
    document_of=document_of,
)
"""Corpus, judgements, and the facts that the paper's own scores count."""

DEFINITION = BenchmarkDefinition(SOURCE, load, RETRIEVAL, tables=extra_tables)


# MultiHop-RAG's data tables: articles by category, and pieces of evidence a query (paper, Tables 2 to 4).


def tables(benchmark: Benchmark, counts: Counts) -> Sequence[Table]:
    """Return the tables of the corpus and of the queries."""
    return _articles(benchmark, counts), _evidence_table(benchmark), _first_words(benchmark)


def _articles(benchmark: Benchmark, counts: Counts) -> Table:
    articles = read_articles(benchmark.root, counts)
    categories = {article.category for article in articles}
    lengths = {name: [len(a.body.split()) for a in articles if a.category == name] for name in sorted(categories)}
    lengths["total"] = [len(article.body.split()) for article in articles]
    rows = tuple(
        (name, Value(fmean(values), len(values), len(values)), len(values)) for name, values in lengths.items()
    )
    note = (
        "Words are what stands between white space; the paper counts the tokens of a tokeniser that it does not name."
    )
    return Table("Articles by category", ("category", "words an article", "articles"), rows, note)


def _evidence_table(benchmark: Benchmark) -> Table:
    found = Counter(len(task.extra["evidence"]) for task in benchmark.tasks)
    rows = tuple((str(number), found[number], _share(found[number], found.total())) for number in sorted(found))
    return Table("Pieces of evidence a query", ("pieces", "queries", "share"), rows)


def _first_words(benchmark: Benchmark) -> Table:
    found = Counter(task.question.split()[0].lower() for task in benchmark.tasks)
    rows = tuple((word, count, _share(count, found.total())) for word, count in found.most_common(10))
    return Table("First words of the queries", ("word", "queries", "share"), rows, "The ten most frequent.")


def _share(part: int, whole: int) -> Value:
    return Value(part / whole, whole, whole)
