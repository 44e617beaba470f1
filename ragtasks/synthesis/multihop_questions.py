"""Questions over bridges: inference, comparison and temporal questions, and null questions without an answer.

Each question is checked by the form of its answer, and by a model: it uses all claims, these suffice, and its answer is
short and of its type.
Source: MultiHop-RAG paper, section 3.1, steps 4 and 5. The wording of the prompts is ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ragtasks.benchmarks.multihop_rag import Article
from ragtasks.synthesis.asking import (
    Asker,
    Inquiry,
    UnreadableReplyError,
    UnusableReply,
    listed_texts,
    object_with,
    question_of,
    text_of,
)
from ragtasks.synthesis.evidence import Bridge, Claim

INFERENCE, COMPARISON, TEMPORAL, NULL = "inference_query", "comparison_query", "temporal_query", "null_query"
INSUFFICIENT = "Insufficient information."
"""The answer of a null query, as in the official file."""

_ANSWERS = {COMPARISON: ("yes", "no"), TEMPORAL: ("yes", "no", "before", "after")}
_CHECKS = ("all_used", "only_these", "short", "of_its_kind")
_MAX_NAMES = 40


@dataclass(frozen=True, slots=True)
class MultihopQuery:
    """One question with what it rests on."""

    query: str
    answer: str
    """`Yes`, `No`, `before`, `after`, an entity, or that information is insufficient."""
    question_type: str
    """One of the four."""
    claims: tuple[Claim, ...]
    """Its evidence; none for a null query."""

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
    """Return the questions over bridges that pass, and counts of those that do not, by reason."""
    wanted = [(bridge, kind) for bridge in bridges for kind in _kinds(bridge)]
    written = asker.ask("questions", [_question(bridge, kind) for bridge, kind in wanted])
    counts: Counter[str] = Counter()
    made: dict[str, MultihopQuery] = {}
    for (bridge, kind), found in zip(wanted, written, strict=True):
        if isinstance(found, UnusableReply):
            counts[f"questions without a usable reply: {found.reason}"] += 1
        elif found[0].casefold() in made:
            counts["questions that come twice"] += 1
        else:
            made[found[0].casefold()] = MultihopQuery(*found, kind, bridge.claims)
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


def _kinds(bridge: Bridge) -> list[str]:
    """Return the kinds that a bridge allows: an order in time needs several days, an inference an entity."""
    n_days = len({claim.article.published_at[:10] for claim in bridge.claims})
    return [*([INFERENCE] if bridge.is_entity else []), COMPARISON, *([TEMPORAL] if n_days > 1 else [])]


def _question(bridge: Bridge, kind: str) -> Inquiry[tuple[str, str]]:
    claims = [
        {"source": claim.article.source, "date": claim.article.published_at[:10], "text": claim.text}
        for claim in bridge.claims
    ]
    read = partial(_read, bridge, kind)
    return question_of("multihop", read, {"claims": claims, "bridge": bridge.name}, query_type=kind)


def _read(bridge: Bridge, kind: str, reply: str) -> tuple[str, str]:
    row = object_with(reply, "query")
    query, answer = text_of(row, "query"), text_of(row, "answer").strip(" .\"'")
    if kind == INFERENCE:
        if answer.casefold() != bridge.name.casefold():
            raise UnreadableReplyError("an answer that is not the entity")
        if bridge.name.casefold() in query.casefold():
            raise UnreadableReplyError("a question that names its answer")
        return query, bridge.name
    if answer.casefold() not in _ANSWERS[kind]:
        raise UnreadableReplyError(f"an answer that is none of {', '.join(_ANSWERS[kind])}")
    return query, answer.capitalize() if answer.casefold() in ("yes", "no") else answer.lower()


def _check(query: MultihopQuery) -> Inquiry[list[str]]:
    fields = {"question": query.query, "answer": query.answer, "claims": [claim.text for claim in query.claims]}
    return question_of("multihop_check", _read_check, fields, query_type=query.question_type)


def _read_check(reply: str) -> list[str]:
    """Return the points that do not hold."""
    row = object_with(reply, _CHECKS[0])
    if not all(isinstance(row.get(name), bool) for name in _CHECKS):
        raise UnreadableReplyError("a point that is neither true nor false")
    return [name for name in _CHECKS if not row[name]]


def write_null_queries(
    articles: Sequence[Article], claims: Sequence[Claim], n: int, asker: Asker
) -> tuple[list[MultihopQuery], Counter[str]]:
    """Return up to `n` questions about entities and sources that no article names, and counts of what was dropped."""
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
    for found in asker.ask("null queries", questions):
        if isinstance(found, UnusableReply):
            counts[f"null queries left out: {found.reason}"] += 1
        else:
            made.setdefault(found.casefold(), MultihopQuery(found, INSUFFICIENT, NULL, ()))
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
