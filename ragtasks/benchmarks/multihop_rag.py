"""MultiHop-RAG: articles, queries, chunks, and matching of passages with facts."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from ragtasks.benchmarks._definition import (
    Benchmark,
    BenchmarkDefinition,
    RetrievalSide,
    derived_file,
    has_references,
    official_file,
    read_edition,
)
from ragtasks.benchmarks._fields import Fields, Text, typed_items
from ragtasks.benchmarks.sources import Source, SourceFile
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.files import Problems, parse_json, parse_time
from ragtasks.records import (
    Answerability,
    Contexts,
    Message,
    Passage,
    Qrel,
    Role,
    Setting,
    Task,
    compact,
    split_task_id,
    task_id,
)
from ragtasks.tables import Cell, Table, Value, table_of

# The files of MultiHop-RAG. Both contain one JSON array, so an error names the number of the item, from 1. Neither file
# has ids: the id of an article or query is its number, which is stable because the files are pinned by checksum. Only
# fields needed for scoring are required.

QUERY_FILE = "dataset/MultiHopRAG.json"
CORPUS_FILE = "dataset/corpus.json"
NULL = "null_query"
"""Type of queries without an answer in the corpus."""


class CopySize(Fields):
    """Number of records in a complete copy. Loading fails if a file differs."""

    model_config = ConfigDict(extra="forbid")

    articles: int
    by_type: Mapping[str, int]


def _iso_date(text: str) -> str:
    try:
        parse_time(text)
    except ValueError as error:
        raise ValueError("a date in ISO 8601") from error
    return text


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


_Date = Annotated[Text, AfterValidator(_iso_date)]


class Article(Fields):
    """A news article, with the keys of `corpus.json`."""

    title: Text
    author: Annotated[str, BeforeValidator(_text_or_empty)] = ""
    source: Text
    published_at: _Date
    category: Text
    url: Annotated[str, BeforeValidator(_text_or_empty)] = ""
    body: Text


class Evidence(Fields):
    """A fact that an answer is based on, and its article."""

    fact: Text
    title: Text
    source: Text
    published_at: _Date


class Query(Fields):
    """A question with its answer and evidence."""

    query: Text
    answer: Text
    """`Yes`, `No`, `before`, an entity, or a statement that the information is insufficient."""
    question_type: Literal["inference_query", "comparison_query", "temporal_query", "null_query"]
    evidence: list[Evidence] = Field(alias="evidence_list")
    """Empty for a null query."""

    @model_validator(mode="after")
    def _only_null_without_evidence(self) -> Query:
        if (self.question_type == NULL) == bool(self.evidence):
            raise ValueError("an `evidence_list` that is empty only for a null query")
        return self


def edition_of(root: Path) -> tuple[bool, str, CopySize]:
    """Return (is sample, revision, counts) of the copy under `root`. Only a sample contains its own statistics."""
    return read_edition(root, SOURCE.commit, OFFICIAL_COUNTS, CopySize.model_validate)


def read_articles(root: Path) -> list[Article]:
    """Return the articles of the corpus, in file order."""
    counts = edition_of(root)[2]
    problems = problems_of(root / CORPUS_FILE, "MultiHop-RAG corpus")
    articles = [article for _, article in typed_items(problems, Article)]
    if not len(problems) and len(articles) != counts.articles:
        problems.add(0, f"{counts.articles} articles", len(articles))
    problems.raise_if_any()
    return articles


def read_queries(root: Path) -> dict[str, Query]:
    """Return task id -> query, in file order."""
    counts = edition_of(root)[2]
    problems = problems_of(root / QUERY_FILE, "MultiHop-RAG queries")
    queries = typed_items(problems, Query)
    by_type = dict(Counter(query.question_type for _, query in queries))
    if not len(problems) and by_type != dict(counts.by_type):
        problems.add(0, f"queries by type {dict(counts.by_type)}", by_type)
    problems.raise_if_any()
    return {task_id(f"multihop-{number:04d}", 1): query for number, query in queries}


def problems_of(path: Path, title: str) -> Problems:
    """Return the problems of an official file. Raises BenchmarkFileError if the file is missing."""
    next_step = "delete the file and run `ragtasks data fetch multihop_rag`"
    return Problems(official_file(path, "MultiHop-RAG", "multihop_rag"), title, next_step)


# Chunks of MultiHop-RAG's articles: at most 256 tokens, after a header with title, source and date. A chunk contains as
# many complete sentences as fit. A longer sentence is cut between tokens. Tokens are words and single punctuation
# marks.
#
# Known differences from the official pipeline (LlamaIndex's splitter with defaults): it counts word pieces, subtracts
# the metadata from the 256 tokens, and lets chunks overlap. Overlap multiplies the chunks, and one sentence may fill
# several ranks. Retrieval scores on these chunks are therefore close to the paper's, not equal.

CHUNK_TOKENS = 256
"""Maximum tokens in a chunk (paper, section 4.1)."""
RULE = 1
"""Version of the segmentation. Increase it when a change cuts the same articles differently."""

_TOKEN = re.compile(r"\w{1,16}|[^\w\s]")
_SENTENCE_END = re.compile(r"[.!?][\"'\u2019\u201d)\]]*\s+|\s*\n\s*")


def chunk_rows(articles: Sequence[Article]) -> Iterator[dict[str, Any]]:
    """Yield the chunks of all articles as corpus rows, in order. Ids contain the article's number and the offsets."""
    for number, article in enumerate(articles, start=1):
        for start, end in spans(article.body):
            yield {
                "_id": f"article-{number:03d}-{start}-{end}",
                "title": article.title,
                "text": with_header(article.title, article.source, article.published_at, article.body[start:end]),
                "url": article.url,
            }


def with_header(title: str, source: str, published_at: str, text: str) -> str:
    """Return a text with a header of title, source and date."""
    return f"{title}\nSource: {source}\nPublished: {published_at}\n\n{text}"


def spans(text: str, size: int = CHUNK_TOKENS) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each chunk in characters, end excluded.

    Chunks are in order, disjoint and without outer blanks.
    """
    start, end, n_tokens = 0, 0, 0
    for left, right, count in _sentence_parts(text, size):
        if n_tokens and n_tokens + count > size:
            yield start, end
            n_tokens = 0
        if not n_tokens:
            start = left
        end, n_tokens = right, n_tokens + count
    if n_tokens:
        yield start, end


def _sentence_parts(text: str, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, tokens) of each sentence, or of its parts if it is longer than a chunk."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    for left, right in itertools.pairwise((0, *ends, len(text))):
        tokens = [match.span() for match in _TOKEN.finditer(text, left, right)]
        for first in range(0, len(tokens), size):
            part = tokens[first : first + size]
            yield part[0][0], part[-1][1], len(part)


# Matching of passages with facts, the relevance rule of MultiHop-RAG, and a fast search that uses it. A passage
# contains a fact if the fact's text is a substring of the passage's text, both without blanks and line ends. Other
# white space (a tab, a no-break space) counts as a character, as in the official script (yixuantt/MultiHop-RAG,
# retrieval_evaluate.py, commit 3dd4d4e).

_KEY_LENGTH = 12


def facts_by_passage(passages: Iterable[tuple[str, str]], facts: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield (passage id, ascending indices of the facts it contains), for passages with at least one.

    Every position of a passage is looked up in a table of the first characters of the facts. A single pass avoids
    comparing every passage with every fact.
    """
    by_start: dict[str, dict[str, list[int]]] = {}
    short: dict[str, list[int]] = {}
    for index, fact in enumerate(map(compact, facts)):
        facts_of_start = short if len(fact) < _KEY_LENGTH else by_start.setdefault(fact[:_KEY_LENGTH], {})
        facts_of_start.setdefault(fact, []).append(index)
    for passage_id, text in passages:
        compacted = compact(text)
        matches = {index for fact, indices in short.items() if fact in compacted for index in indices}
        for start in range(len(compacted) - _KEY_LENGTH + 1):
            key = compacted[start : start + _KEY_LENGTH]
            if key in by_start:
                matches.update(
                    index
                    for fact, indices in by_start[key].items()
                    if compacted.startswith(fact, start)
                    for index in indices
                )
        if matches:
            yield passage_id, sorted(matches)


# Result files of MultiHop-RAG's retrieval script: an array with one item per query, passages best first. An item is
# {`query`, `answer`, `question_type`, `retrieval_list` [{`text`, `score`}], `gold_list`}. The order of the list is the
# ranking, and the scores are not used. Items are joined to queries by the text of the question.


class _RetrievedText(Fields):
    text: Text


class _GoldFact(Fields):
    fact: Text


class _Result(Fields):
    query: str = ""
    question_type: str = ""
    retrieved: list[_RetrievedText] = Field(alias="retrieval_list")
    gold_facts: list[_GoldFact] = Field([], alias="gold_list")

    def texts(self) -> tuple[str, ...]:
        return tuple(passage.text for passage in self.retrieved)


def read_rankings(path: Path, queries: Mapping[str, Query]) -> dict[str, tuple[str, ...]]:
    """Return task id -> texts, best first, of every query. A repeated text appears at both ranks."""
    problems = problems_of(path, "MultiHop-RAG retrieval results")
    unassigned: dict[str, list[str]] = {}
    for key, query in queries.items():
        unassigned.setdefault(query.query, []).append(key)
    rankings: dict[str, tuple[str, ...]] = {}
    for number, result in typed_items(problems, _Result):
        if unassigned.get(result.query):
            rankings[unassigned[result.query].pop(0)] = result.texts()
        else:
            problems.add(0, "`query` of the benchmark, each once", result.query, f"item {number}")
    for key in sorted(key for keys in unassigned.values() for key in keys):
        problems.add(0, "an item for each query", f"no item for: {queries[key].query}", key)
    problems.raise_if_any()
    return {key: rankings[key] for key in queries}


def read_results(path: Path) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return (item -> texts, best first; item -> facts of its gold list) of a result file, without null queries.

    The file is read without the benchmark and may contain any queries. Items are named by number, from 1.
    """
    next_step = "name a result file of the official retrieval script"
    title = "MultiHop-RAG retrieval results"
    if not path.is_file():
        raise BenchmarkFileError(title, where=str(path), expected="a result file", found="no file", next_step=next_step)
    problems = Problems(path, title, next_step)
    results = {str(number): row for number, row in typed_items(problems, _Result) if row.question_type != NULL}
    for number, result in results.items():
        if not result.gold_facts:
            problems.add(0, "`gold_list` with facts", "no fact", f"item {number}")
    if not len(problems) and not results:
        problems.add(0, "items with evidence", "none")
    problems.raise_if_any()
    rankings = {number: result.texts() for number, result in results.items()}
    return rankings, {number: tuple(row.fact for row in result.gold_facts) for number, result in results.items()}


# MultiHop-RAG: 2,556 questions whose answers combine 2 to 4 of 609 news articles (Tang and Yang 2024). A question is a
# task without a history. Its type is its question type. A `null_query` has no answer in the corpus, so its task is
# UNANSWERABLE. The reference passages are the chunks that contain the evidence, as in the paper's runs with
# ground-truth chunks. A fact that no chunk contains completely becomes a passage of its own. Retrieved passages are
# published for a toy set only. `retrieved.json` next to `dataset/` is read in the official result format.

_COMMIT = "3dd4d4e79fc9843008b8f832da99086a82f1a805"

SOURCE = Source(
    name="multihop_rag",
    folder="MultiHop-RAG",
    marker="dataset",
    repository="https://github.com/yixuantt/MultiHop-RAG",
    commit=_COMMIT,
    # The files of `tasks` are stored in Git LFS: the usual address of raw files returns pointers only.
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
        SourceFile(
            "qa_llama.py",
            "7dae9451ba7080d8054fa2130a08841382b564452437dfafe08d29c8c7f5bbae",
            2555,
            "generation_prompts",
            base_url=f"https://raw.githubusercontent.com/yixuantt/MultiHop-RAG/{_COMMIT}/",
        ),
    ),
)
DOMAINS = ("news",)

N_PASSAGES = 6
"""Number of retrieved chunks in a prompt (paper, section 4.2)."""

OFFICIAL_COUNTS = CopySize(
    articles=609,
    by_type={"inference_query": 816, "comparison_query": 856, "temporal_query": 583, NULL: 301},
)
"""Paper, Tables 2 and 3."""


def load(root: Path) -> Benchmark:
    """Return the benchmark with files under `root` (a checkout, a downloaded copy, or the sample)."""
    is_sample, revision, _ = edition_of(root)
    queries = read_queries(root)
    references = _references(queries, _chunks(root))
    tasks = tuple(
        Task(
            task_id=key,
            conversation_id=split_task_id(key)[0],
            turn=1,
            domain=DOMAINS[0],
            messages=(Message(Role.USER, query.query),),
            target=query.answer,
            answerability=Answerability.UNANSWERABLE if query.question_type == NULL else Answerability.ANSWERABLE,
            question_types=(query.question_type,),
            references=references[key],
            extra={"evidence": [evidence.model_dump() for evidence in query.evidence]},
        )
        for key, query in queries.items()
    )
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


def _chunks(root: Path) -> list[Passage]:
    return [Passage(row["_id"], row["text"], row["title"], row["url"]) for row in chunk_rows(read_articles(root))]


def _references(queries: Mapping[str, Query], chunks: Sequence[Passage]) -> dict[str, tuple[Passage, ...]]:
    """Return task id -> the distinct passages of its evidence, in the order of the evidence."""
    facts = [evidence.fact for query in queries.values() for evidence in query.evidence]
    passage_of: dict[int, Passage] = {}
    by_id = {chunk.passage_id: chunk for chunk in chunks}
    for passage_id, indices in facts_by_passage(((chunk.passage_id, chunk.text) for chunk in chunks), facts):
        for fact_index in indices:
            passage_of.setdefault(fact_index, by_id[passage_id])
    references: dict[str, tuple[Passage, ...]] = {}
    fact_indices = itertools.count()
    for number, (key, query) in enumerate(queries.items(), start=1):
        passages = [
            passage_of.get(next(fact_indices))
            or Passage(
                f"fact-{number:04d}-{index}",
                with_header(evidence.title, evidence.source, evidence.published_at, evidence.fact),
                evidence.title,
            )
            for index, evidence in enumerate(query.evidence, start=1)
        ]
        references[key] = tuple({passage.passage_id: passage for passage in passages}.values())
    return references


def _read_contexts(root: Path, tasks: tuple[Task, ...], setting: Setting) -> Contexts:
    """Return the passages of a setting: the evidence, without null queries, or the first six of `retrieved.json`."""
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
    """Return task id -> retrieved passages of every query, best first, from `retrieved.json`.

    A text equal to a chunk gets the id of that chunk, so that judgements apply. Any other text gets a hash as its id. A
    repeated text appears twice, since the official script counts its ranks.
    """
    path = root / "retrieved.json"
    if not path.is_file():
        raise ConfigurationError(
            "retrieved passages of MultiHop-RAG",
            where=str(path),
            expected="a result file of the official retrieval script, or a run of your own",
            found="no file",
            next_step="run `ragtasks retrieve --benchmark multihop_rag --retriever bm25`, then name the run: "
            "--run NAME (lm_eval: --metadata run=NAME)",
        )
    by_text = {chunk.text: chunk for chunk in _chunks(root)}
    return {
        key: tuple(
            by_text.get(text) or Passage(f"retrieved-{hashlib.sha256(text.encode()).hexdigest()[:16]}", text)
            for text in texts
        )
        for key, texts in read_rankings(path, read_queries(root)).items()
    }


def corpus_file(root: Path, domain: str) -> Path:
    """Return the file with the chunks of all articles, created if it is missing.

    Its name contains a hash of the articles and the version of the segmentation, so an outdated file is not reused.
    """
    articles = read_articles(root)
    key = hashlib.sha256(b"%d:" % RULE + (root / CORPUS_FILE).read_bytes()).hexdigest()[:12]
    return derived_file(root, f"{domain}-{key}.jsonl", lambda: chunk_rows(articles))


def load_qrels(root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return every chunk that contains a fact of the query's evidence as relevant, by the official rule.

    A query without any fact in a single chunk has no judgement. The scores over evidence count it.
    """
    facts = load_facts(root, domain)
    owners = [query_id for query_id, evidence in facts.items() for _ in evidence]
    rows = [parse_json(line) for line in corpus_file(root, domain).read_bytes().splitlines()]
    matches = facts_by_passage(
        ((row["_id"], row["text"]) for row in rows), [fact for evidence in facts.values() for fact in evidence]
    )
    pairs = {(owners[index], passage_id) for passage_id, indices in matches for index in indices}
    return tuple(Qrel(query_id, passage_id, 1) for query_id, passage_id in sorted(pairs))


def load_facts(root: Path, domain: str) -> dict[str, tuple[str, ...]]:
    """Return task id -> facts that passages must contain, for every query with evidence."""
    return {
        key: tuple(evidence.fact for evidence in query.evidence)
        for key, query in read_queries(root).items()
        if query.evidence
    }


def document_of(passage_id: str) -> str:
    """Return the article of a chunk: `article-001` of `article-001-0-512`."""
    return passage_id.rsplit("-", 2)[0]


def extra_tables(benchmark: Benchmark) -> Sequence[Table]:
    """Return articles by category, pieces of evidence per query, and first words (paper, Tables 2 to 4)."""
    articles = read_articles(benchmark.root)
    categories = sorted({article.category for article in articles})
    groups = [([name], [article for article in articles if article.category == name]) for name in categories]
    note = "Words are separated by white space. The paper counts the tokens of an unnamed tokenizer."
    pieces = Counter(len(task.extra["evidence"]) for task in benchmark.tasks)
    first_words = Counter(task.question.split()[0].lower() for task in benchmark.tasks)
    return (
        table_of("Articles by category", ["category"], [*groups, (["total"], articles)], _COLUMNS, note),
        _counted("Pieces of evidence per query", "pieces", sorted(pieces.items()), pieces.total()),
        _counted(
            "First words of the queries",
            "word",
            first_words.most_common(10),
            first_words.total(),
            "The ten most frequent.",
        ),
    )


def _mean_words(articles: Sequence[Article]) -> Value:
    return Value(fmean(len(article.body.split()) for article in articles), len(articles), len(articles))


_COLUMNS: Mapping[str, Callable[[Sequence[Article]], Cell]] = {"words per article": _mean_words, "articles": len}


def _counted(title: str, head: str, counts: Sequence[tuple[object, int]], total: int, note: str = "") -> Table:
    """Return a table with a row per value: the number of queries with it, and their share."""
    rows = tuple((str(value), n, Value(n / total, total, total)) for value, n in counts)
    return Table(title, (head, "queries", "share"), rows, note)


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
