"""MultiHop-RAG: articles, queries, chunks, and which passages hold a fact."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from ragtasks.benchmarks._definition import Benchmark, BenchmarkDefinition, RetrievalSide
from ragtasks.benchmarks._derived import derived_file
from ragtasks.benchmarks.download import Source, SourceFile
from ragtasks.benchmarks.multihop_rag_files import (
    CORPUS_FILE,
    NULL,
    RULE,
    Counts,
    Query,
    chunk_rows,
    edition_of,
    facts_by_passage,
    items_of,
    problems_of,
    read_articles,
    read_queries,
    with_header,
)
from ragtasks.errors import BenchmarkFileError, ConfigurationError, clear_error
from ragtasks.files import Problems, parse_json
from ragtasks.records import Answerability, Contexts, Message, Passage, Qrel, Role, Setting, Task, task_id
from ragtasks.tables import Table, Value

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
        message = clear_error(what, where=str(path), expected="a result file", found="no file", next_step=next_step)
        raise BenchmarkFileError(message)
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
"""The one corpus."""

N_PASSAGES = 6
"""Retrieved chunks that a model is shown (paper, section 4.2)."""

OFFICIAL_COUNTS = Counts(
    articles=609,
    by_type={"inference_query": 816, "comparison_query": 856, "temporal_query": 583, NULL: 301},
)
"""Paper, Tables 2 and 3."""


def load(root: Path) -> Benchmark:
    """Return the benchmark whose files lie under `root` (a checkout, a fetched copy, or the sample)."""
    is_sample, revision, counts = edition_of(root, SOURCE.commit, OFFICIAL_COUNTS)
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
        belongs=_belongs,
    )


def _belongs(task: Task, setting: Setting) -> bool:
    """Return whether a query has a part in a setting: a null query has no evidence to be given."""
    return setting is not Setting.REFERENCE or bool(task.references)


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
        multi_turn="N/A",
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
            "official", setting, {task.task_id: task.references for task in tasks if _belongs(task, setting)}
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
        message = clear_error(
            "retrieved passages of MultiHop-RAG",
            where=str(path),
            expected="a result file of the official retrieval script, or a run of your own",
            found="no file",
            next_step="run `ragtasks retrieve --benchmark multihop_rag --retriever bm25`, then name the run: "
            "--metadata '{\"run\": ...}'",
        )
        raise ConfigurationError(message)
    _, _, counts = edition_of(root, SOURCE.commit, OFFICIAL_COUNTS)
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
    _, _, counts = edition_of(root, SOURCE.commit, OFFICIAL_COUNTS)
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
    _, _, counts = edition_of(root, SOURCE.commit, OFFICIAL_COUNTS)
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
    return tables(benchmark, edition_of(benchmark.root, SOURCE.commit, OFFICIAL_COUNTS)[2])


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
"""What the registry lists."""


# MultiHop-RAG's data tables: articles by category, and pieces of evidence a query (paper, Tables 2 to 4).


def tables(benchmark: Benchmark, counts: Counts) -> Sequence[Table]:
    """Return the tables of the corpus and of the queries."""
    return _articles(benchmark, counts), _evidence(benchmark), _first_words(benchmark)


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


def _evidence(benchmark: Benchmark) -> Table:
    found = Counter(len(task.extra["evidence"]) for task in benchmark.tasks)
    rows = tuple((str(number), found[number], _share(found[number], found.total())) for number in sorted(found))
    return Table("Pieces of evidence a query", ("pieces", "queries", "share"), rows)


def _first_words(benchmark: Benchmark) -> Table:
    found = Counter(task.question.split()[0].lower() for task in benchmark.tasks)
    rows = tuple((word, count, _share(count, found.total())) for word, count in found.most_common(10))
    return Table("First words of the queries", ("word", "queries", "share"), rows, "The ten most frequent.")


def _share(part: int, whole: int) -> Value:
    return Value(part / whole, whole, whole)
