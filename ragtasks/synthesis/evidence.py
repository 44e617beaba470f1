"""Evidence, claims and bridges: the facts of an article, each also as a stand-alone claim, and its subject.

A fact counts only if the article contains it letter by letter, because the official scores search for it there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ragtasks.benchmarks.multihop_rag import Article
from ragtasks.records import Passage, compact
from ragtasks.synthesis.asking import (
    Asker,
    Inquiry,
    UnreadableReplyError,
    UnusableReply,
    covered_share,
    object_with,
    question_of,
    text_of,
)
from ragtasks.synthesis.documents import LeftOut
from retrieval_cache import segment

MOST_CLAIMS = 5
"""Of one piece of an article."""
LEAST, MOST = 2, 4
"""Claims that a question is written from, each of another article."""

_PIECE_TOKENS = 1024
_LEAST_SHARED = 0.4


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim with its evidence."""

    article: Article
    fact: str
    """The sentence, as it stands there."""
    text: str
    """The same in words that stand alone."""
    entity: str
    topic: str


_Found = tuple[list[Claim], Counter[str]]


@dataclass(frozen=True, slots=True)
class Bridge:
    """Claims of several articles about the same."""

    name: str
    """The entity or topic that they share."""
    is_entity: bool
    claims: tuple[Claim, ...]
    """Two to four, each of another article, by date."""


def find_claims(articles: Sequence[Article], asker: Asker) -> tuple[list[Claim], list[LeftOut], Counter[str]]:
    """Return the claims of all articles, pieces without a usable reply, and counts of what was dropped."""
    pieces = [
        (article, piece)
        for article in articles
        for piece in segment(Passage("p", article.body), _PIECE_TOKENS, 0, title_in_text=False)
    ]
    questions: list[Inquiry[_Found]] = [
        question_of(
            "claims", partial(_claims_read, article), {"title": article.title, "piece": piece.text}, most=MOST_CLAIMS
        )
        for article, piece in pieces
    ]
    claims: list[Claim] = []
    left_out: list[LeftOut] = []
    counts: Counter[str] = Counter()
    answers = asker.ask("claims", questions)
    for (article, _), found in zip(pieces, answers, strict=True):
        if isinstance(found, UnusableReply):
            left_out.append(LeftOut(article.url, found.reason))
            continue
        accepted, dropped = found
        claims += accepted
        counts += dropped
    return claims, left_out, counts


def _claims_read(article: Article, reply: str) -> _Found:
    rows = object_with(reply, "claims")["claims"]
    if not isinstance(rows, list):
        raise UnreadableReplyError('"claims": no list')
    claims: list[Claim] = []
    dropped: Counter[str] = Counter()
    body = compact(article.body)
    for row in rows[:MOST_CLAIMS]:
        fact, text, entity, topic = (text_of(row, key) for key in ("fact", "claim", "entity", "topic"))
        if compact(fact) not in body:
            dropped["facts that their article does not hold"] += 1
        elif covered_share(text, f"{fact} {article.title} {article.body}") < _LEAST_SHARED:
            dropped["claims in words that their article lacks"] += 1
        elif entity.casefold() not in text.casefold():
            dropped["claims without their entity"] += 1
        else:
            claims.append(Claim(article, fact, text, entity, topic))
    return claims, dropped


def find_bridges(claims: Sequence[Claim]) -> list[Bridge]:
    """Return what claims of several articles share, entities first; each set of claims once.

    Of an article that says several things about the same, the first stands for it.
    """
    groups: dict[tuple[bool, str], dict[str, Claim]] = {}
    for claim in claims:
        for is_entity, name in ((True, claim.entity), (False, claim.topic)):
            groups.setdefault((is_entity, name.casefold()), {}).setdefault(claim.article.url, claim)
    bridges: dict[frozenset[str], Bridge] = {}
    for (is_entity, _), by_article in sorted(groups.items(), key=lambda item: not item[0][0]):
        ordered = sorted(by_article.values(), key=lambda claim: claim.article.published_at)
        sets = [ordered[start : start + MOST] for start in range(0, len(ordered), MOST)]
        for part in sets:
            if len(part) >= LEAST:
                name = part[0].entity if is_entity else part[0].topic
                bridges.setdefault(frozenset(one.fact for one in part), Bridge(name, is_entity, tuple(part)))
    return list(bridges.values())
