"""Questions over several articles, written in MultiHop-RAG's two files for its harness tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from ragtasks.benchmarks import typed_items, unique_rows
from ragtasks.benchmarks.multihop_rag import Article
from ragtasks.clients import Client, Price
from ragtasks.errors import ConfigurationError
from ragtasks.files import SAMPLE_STATISTICS, Problems, canonical_hash
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Passage, compact
from ragtasks.synthesis.asking import (
    Asker,
    Inquiry,
    UnreadableReplyError,
    UnusableReply,
    covered_share,
    listed_texts,
    object_with,
    question_of,
    text_of,
)
from ragtasks.synthesis.documents import LeftOut, read_documents
from ragtasks.synthesis.folder import SynthesisReport, make_once, outcome_lines, prompt_hashes, publish_folder
from retrieval_cache import segment

_VERSION = 1
"""Increased when the same replies give other questions."""
_PROMPTS = ("again", "claims", "multihop", "multihop_check", "null_query")
_INDENTED = orjson.OPT_INDENT_2


@dataclass(frozen=True, slots=True)
class MultihopSettings:
    """Settings of questions over articles."""

    null_share: float = 0.12
    """Share of null queries among all questions; MultiHop-RAG has 0.12."""
    most_bridges: int | None = None
    """Maximum number of claim sets to write questions from; None for all."""

    def __post_init__(self) -> None:
        """Raise ConfigurationError for an invalid share."""
        if not 0 <= self.null_share < 1:
            raise ConfigurationError(f"null queries are a share from 0 to below 1, found {self.null_share}")


def synthesize_multihop(
    location: Path,
    folder: Path,
    client: Client,
    settings: MultihopSettings,
    *,
    price: Price | None = None,
    progress: Progress = no_progress,
) -> SynthesisReport:
    """Make a benchmark in MultiHop-RAG's format from articles; otherwise as `synthesize`."""
    articles, unread = read_articles(location, progress)
    made_by = {
        "version": _VERSION,
        "kind": "multihop",
        "settings": asdict(settings),
        "client": dict(client.describe()),
        "prompts": prompt_hashes(_PROMPTS),
        "articles": canonical_hash([article.model_dump() for article in articles]),
    }

    def make(asker: Asker) -> Iterator[str]:
        claims, unasked, counts = find_claims(articles, asker)
        bridges = find_bridges(claims)[: settings.most_bridges]
        queries, dropped = write_queries(bridges, asker)
        if not queries:
            raise ConfigurationError(_no_question(len(articles), len(claims), len(bridges), counts + dropped))
        n_null = round(len(queries) * settings.null_share / (1 - settings.null_share))
        null, null_dropped = write_null_queries(articles, claims, n_null, asker)
        everything = [*queries, *null]
        totals = Counter({"articles": len(articles), "claims": len(claims), "bridges": len(bridges)})
        totals.update(query.question_type for query in everything)
        totals += counts + dropped + null_dropped
        left_out = [*unread, *unasked]
        publish_folder(folder, _official_files(articles, everything), made_by, left_out, totals)
        return outcome_lines(folder, totals, left_out)

    return make_once(folder, made_by, Asker(client, price, progress), make)


def _no_question(n_articles: int, n_claims: int, n_bridges: int, dropped: Counter[str]) -> str:
    reasons = "; ".join(f"{reason}: {n}" for reason, n in dropped.most_common(3)) or "nothing shared"
    return (
        f"no question over several articles could be made from {n_articles} articles, {n_claims} claims and "
        f"{n_bridges} bridges ({reasons}). Nothing was written. Next step: use more articles on the same subjects, "
        "or another model"
    )


def _official_files(articles: list[Article], queries: list[MultihopQuery]) -> dict[str, list[bytes]]:
    """Return files in the official format, and the statistics that distinguish them from the official data."""
    by_type = Counter(query.question_type for query in queries)
    rows: list[dict[str, Any]] = [article.model_dump() for article in articles]
    questions = [query.row() for query in queries]
    version = canonical_hash([rows, questions])[:12]
    facts = {"version": version, "counts": {"articles": len(articles), "by_type": dict(by_type)}}
    return {
        "dataset/corpus.json": [orjson.dumps(rows, option=_INDENTED)],
        "dataset/MultiHopRAG.json": [orjson.dumps(questions, option=_INDENTED)],
        SAMPLE_STATISTICS: [orjson.dumps(facts, option=_INDENTED)],
    }


# Articles: the rows of a file in the format of MultiHop-RAG's `corpus.json`, or the documents of a folder. An article
# from a document has its folder as source and category, and the time of its file as date.


def read_articles(location: Path, progress: Progress = no_progress) -> tuple[list[Article], list[LeftOut]]:
    """Return articles with unique URLs, and unreadable files."""
    if location.is_file():
        problems = Problems(location, "articles", "write each article in the format of MultiHop-RAG's corpus.json")
        named = [(row.url or f"article-{number}", row) for number, row in typed_items(problems, Article)]
        unique = unique_rows(problems, ((0, url, row) for url, row in named), "url")
        if not named and not len(problems):
            problems.add(0, "at least two articles", "none")
        problems.raise_if_any()
        return [row.model_copy(update={"url": url}) for url, row in unique.items()], []
    folder_documents = read_documents(location, folders_are_domains=True, progress=progress)
    articles = []
    for document in folder_documents.documents:
        path = location / document.document_id
        stamp = (path if path.exists() else location).stat().st_mtime
        articles.append(
            Article(
                title=document.title,
                source=document.domain,
                published_at=datetime.fromtimestamp(stamp, timezone.utc).isoformat(timespec="seconds"),
                category=document.domain,
                url=document.document_id,
                body=document.text,
            )
        )
    return articles, list(folder_documents.left_out)


# Evidence, claims and bridges: the facts of an article, each with a stand-alone claim and its subject. A fact counts
# only if the article contains it verbatim, because the official scores search for it there.

MOST_CLAIMS = 5
"""Maximum number of claims per part of an article."""
LEAST, MOST = 2, 4
"""Number of claims behind a question, each from a different article."""

_PIECE_TOKENS = 1024
_LEAST_SHARED = 0.4


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim with its evidence."""

    article: Article
    fact: str
    """The sentence, verbatim."""
    text: str
    """The sentence reworded to stand alone."""
    entity: str
    topic: str


_ClaimsAndCounts = tuple[list[Claim], Counter[str]]


@dataclass(frozen=True, slots=True)
class Bridge:
    """Claims of several articles on the same subject."""

    name: str
    """The shared entity or topic."""
    is_entity: bool
    claims: tuple[Claim, ...]
    """Two to four, from different articles, by date."""


def find_claims(articles: Sequence[Article], asker: Asker) -> tuple[list[Claim], list[LeftOut], Counter[str]]:
    """Return the claims of all articles, parts without a usable reply, and counts of dropped claims."""
    passages = [
        (article, passage)
        for article in articles
        for passage in segment(Passage("p", article.body), _PIECE_TOKENS, 0, title_in_text=False)
    ]
    questions: list[Inquiry[_ClaimsAndCounts]] = [
        question_of(
            "claims", partial(_read_claims, article), {"title": article.title, "piece": passage.text}, most=MOST_CLAIMS
        )
        for article, passage in passages
    ]
    claims: list[Claim] = []
    left_out: list[LeftOut] = []
    counts: Counter[str] = Counter()
    answers = asker.ask("claims", questions)
    for (article, _), reply_claims in zip(passages, answers, strict=True):
        if isinstance(reply_claims, UnusableReply):
            left_out.append(LeftOut(article.url, reply_claims.reason))
            continue
        accepted, dropped = reply_claims
        claims += accepted
        counts += dropped
    return claims, left_out, counts


def _read_claims(article: Article, reply: str) -> _ClaimsAndCounts:
    rows = object_with(reply, "claims")["claims"]
    if not isinstance(rows, list):
        raise UnreadableReplyError('"claims": no list')
    claims: list[Claim] = []
    dropped: Counter[str] = Counter()
    body = compact(article.body)
    for row in rows[:MOST_CLAIMS]:
        fact, text, entity, topic = (text_of(row, key) for key in ("fact", "claim", "entity", "topic"))
        if compact(fact) not in body:
            dropped["facts missing from their article"] += 1
        elif covered_share(text, f"{fact} {article.title} {article.body}") < _LEAST_SHARED:
            dropped["claims with words missing from their article"] += 1
        elif entity.casefold() not in text.casefold():
            dropped["claims without their entity"] += 1
        else:
            claims.append(Claim(article, fact, text, entity, topic))
    return claims, dropped


def find_bridges(claims: Sequence[Claim]) -> list[Bridge]:
    """Return the bridges between claims of several articles, entities first; each set of claims once.

    Of several claims in one article on the same subject, the first is used.
    """
    groups: dict[tuple[bool, str], dict[str, Claim]] = {}
    for claim in claims:
        for is_entity, name in ((True, claim.entity), (False, claim.topic)):
            groups.setdefault((is_entity, name.casefold()), {}).setdefault(claim.article.url, claim)
    bridges: dict[frozenset[str], Bridge] = {}
    for (is_entity, _), by_article in sorted(groups.items(), key=lambda group: not group[0][0]):
        ordered = sorted(by_article.values(), key=lambda claim: claim.article.published_at)
        sets = [ordered[start : start + MOST] for start in range(0, len(ordered), MOST)]
        for part in sets:
            if len(part) >= LEAST:
                name = part[0].entity if is_entity else part[0].topic
                bridges.setdefault(frozenset(claim.fact for claim in part), Bridge(name, is_entity, tuple(part)))
    return list(bridges.values())


# Questions over bridges: inference, comparison and temporal questions, and null questions without an answer. Each is
# checked by the format of its answer, and by a model: it uses all claims, they suffice, and its answer is short and of
# its type. Source: MultiHop-RAG paper, section 3.1, steps 4 and 5. The wording of the prompts is ours.

INFERENCE, COMPARISON, TEMPORAL, NULL = "inference_query", "comparison_query", "temporal_query", "null_query"
INSUFFICIENT = "Insufficient information."
"""Answer of a null query, as in the official file."""

_ANSWERS = {COMPARISON: ("yes", "no"), TEMPORAL: ("yes", "no", "before", "after")}
_CHECKS = ("all_used", "only_these", "short", "of_its_kind")
_MAX_NAMES = 40


@dataclass(frozen=True, slots=True)
class MultihopQuery:
    """A question with its evidence."""

    query: str
    answer: str
    """`Yes`, `No`, `before`, `after`, an entity, or `INSUFFICIENT`."""
    question_type: str
    """One of the four types."""
    claims: tuple[Claim, ...]
    """Its evidence; empty for a null query."""

    def row(self) -> dict[str, object]:
        """Return the question as a row of `MultiHopRAG.json`."""
        evidence = [{**claim.article.model_dump(exclude={"body"}), "fact": claim.fact} for claim in self.claims]
        return {
            "query": self.query,
            "answer": self.answer,
            "question_type": self.question_type,
            "evidence_list": evidence,
        }


def write_queries(bridges: Sequence[Bridge], asker: Asker) -> tuple[list[MultihopQuery], Counter[str]]:
    """Return the questions over bridges that pass the check, and reason -> number of dropped questions."""
    wanted = [(bridge, query_type) for bridge in bridges for query_type in _query_types(bridge)]
    written = asker.ask("questions", [_question(bridge, query_type) for bridge, query_type in wanted])
    counts: Counter[str] = Counter()
    made: dict[str, MultihopQuery] = {}
    for (bridge, query_type), reply in zip(wanted, written, strict=True):
        if isinstance(reply, UnusableReply):
            counts[f"questions without a usable reply: {reply.reason}"] += 1
        elif reply[0].casefold() in made:
            counts["repeated questions"] += 1
        else:
            made[reply[0].casefold()] = MultihopQuery(*reply, query_type, bridge.claims)
    queries = list(made.values())
    checks = asker.ask("checks", [_check(query) for query in queries])
    passed = []
    for query, check in zip(queries, checks, strict=True):
        failed = [check.reason] if isinstance(check, UnusableReply) else check
        if failed:
            counts[f"questions that fail the check: {', '.join(failed)}"] += 1
        else:
            passed.append(query)
    return passed, counts


def _query_types(bridge: Bridge) -> list[str]:
    """Return the question types of a bridge: temporal questions need several days, inference questions an entity."""
    n_days = len({claim.article.published_at[:10] for claim in bridge.claims})
    return [*([INFERENCE] if bridge.is_entity else []), COMPARISON, *([TEMPORAL] if n_days > 1 else [])]


def _question(bridge: Bridge, query_type: str) -> Inquiry[tuple[str, str]]:
    claims = [
        {"source": claim.article.source, "date": claim.article.published_at[:10], "text": claim.text}
        for claim in bridge.claims
    ]
    read = partial(_read, bridge, query_type)
    return question_of("multihop", read, {"claims": claims, "bridge": bridge.name}, query_type=query_type)


def _read(bridge: Bridge, query_type: str, reply: str) -> tuple[str, str]:
    row = object_with(reply, "query")
    query, answer = text_of(row, "query"), text_of(row, "answer").strip(" .\"'")
    if query_type == INFERENCE:
        if answer.casefold() != bridge.name.casefold():
            raise UnreadableReplyError("an answer that is not the entity")
        if bridge.name.casefold() in query.casefold():
            raise UnreadableReplyError("a question that names its answer")
        return query, bridge.name
    if answer.casefold() not in _ANSWERS[query_type]:
        raise UnreadableReplyError(f"an answer that is none of {', '.join(_ANSWERS[query_type])}")
    return query, answer.capitalize() if answer.casefold() in ("yes", "no") else answer.lower()


def _check(query: MultihopQuery) -> Inquiry[list[str]]:
    fields = {"question": query.query, "answer": query.answer, "claims": [claim.text for claim in query.claims]}
    return question_of("multihop_check", _read_check, fields, query_type=query.question_type)


def _read_check(reply: str) -> list[str]:
    """Return the names of the failed points."""
    row = object_with(reply, _CHECKS[0])
    if not all(isinstance(row.get(name), bool) for name in _CHECKS):
        raise UnreadableReplyError("a point that is neither true nor false")
    return [name for name in _CHECKS if not row[name]]


def write_null_queries(
    articles: Sequence[Article], claims: Sequence[Claim], n: int, asker: Asker
) -> tuple[list[MultihopQuery], Counter[str]]:
    """Return up to `n` questions about entities and sources that no article names, and counts of dropped questions."""
    topics = list(dict.fromkeys(claim.topic for claim in claims))[:n]
    names = dict.fromkeys([*(claim.entity for claim in claims), *(article.source for article in articles)])
    texts = (f"{article.source}\n{article.title}\n{article.body}" for article in articles)
    text = "\n".join([*texts, *names]).casefold()
    listed = list(names)[:_MAX_NAMES]
    questions = [
        question_of("null_query", partial(_read_null, text), {"known": listed, "topic": topic}) for topic in topics
    ]
    counts: Counter[str] = Counter()
    made: dict[str, MultihopQuery] = {}
    for query in asker.ask("null queries", questions):
        if isinstance(query, UnusableReply):
            counts[f"null queries left out: {query.reason}"] += 1
        else:
            made.setdefault(query.casefold(), MultihopQuery(query, INSUFFICIENT, NULL, ()))
    return list(made.values()), counts


def _read_null(text: str, reply: str) -> str:
    row = object_with(reply, "query")
    query, entity = text_of(row, "query"), text_of(row, "entity")
    made_up = [entity, *listed_texts(row.get("sources"), '"sources"')]
    if any(name.casefold() in text for name in made_up):
        raise UnreadableReplyError("a made-up name that an article holds")
    if not all(name.casefold() in query.casefold() for name in made_up):
        raise UnreadableReplyError("a question without the names that were made up for it")
    return query
