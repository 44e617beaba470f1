"""The arena's JSON API, described by OpenAPI at /api/openapi.json.

Topics and answers use the records of TREC RAG: queries with candidate segments, and sentences with citations.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import orjson
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from ragtasks.arena.ratings import rate
from ragtasks.arena.store import LONGEST_NAME, VoteRefusedError, clean_name
from ragtasks.arena.votes import LONGEST_REASON, Preference, View
from ragtasks.arena.web._comparing import Arena
from ragtasks.arena.web._live import Pipeline, ask_pipeline
from ragtasks.arena.web._site import Site
from ragtasks.errors import ModelError
from ragtasks.records import Message, Passage, Response, Role
from ragtasks.submissions.trec_rag import answer_of


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)


class SystemRecord(_Record):
    """A system."""

    name: str
    is_live: bool = Field(description="whether it answers new topics")


class RaterRecord(_Record):
    """The rater of a battle."""

    rater: str = Field(min_length=1, max_length=LONGEST_NAME, description="with an invitation: the invited name")


class MessageRecord(_Record):
    """A message of a conversation."""

    role: Role
    text: str


class SentenceRecord(_Record):
    """A sentence of an answer, as in TREC RAG."""

    text: str
    citations: list[int] = Field(description="positions in the references, from 0")


class PassageRecord(_Record):
    """A passage in a system's prompt."""

    title: str
    text: str


class AnswerRecord(_Record):
    """An answer in a battle, named by a letter."""

    label: str
    answer: list[SentenceRecord]
    passages: list[PassageRecord]


class BattleRecord(_Record):
    """A pair to vote on, without the names of the systems."""

    battle: str = Field(description="id for the vote")
    conversation: list[MessageRecord]
    answers: list[AnswerRecord]


class VoteRecord(_Record):
    """A vote."""

    rater: str = Field(min_length=1, max_length=LONGEST_NAME)
    preference: Preference
    reason: str = Field(default="", max_length=LONGEST_REASON)


class RevealedRecord(_Record):
    """The names of the systems, returned after a vote."""

    vote_id: str
    first: str = Field(description="system displayed first")
    second: str
    view: View = Field(description="the rater's knowledge of the systems; blinded ratings use only `blinded` votes")


class QueryRecord(_Record):
    """A topic of TREC RAG."""

    qid: str = Field(min_length=1, max_length=200)
    text: str = Field(min_length=1, max_length=20_000)


class SegmentRecord(BaseModel):
    """The text of a candidate."""

    title: str = ""
    segment: str


class CandidateRecord(BaseModel):
    """A segment on which the answer may be based."""

    docid: str
    score: float = 0.0
    doc: SegmentRecord


class TopicRecord(_Record):
    """TREC RAG's input: a query and optionally the ranked candidate segments of another retriever."""

    system: str
    query: QueryRecord
    candidates: list[CandidateRecord] | None = Field(default=None, max_length=20)


class TrecAnswerRecord(BaseModel):
    """TREC RAG's output: a line of an answer file."""

    run_id: str
    topic_id: str
    topic: str
    references: list[str]
    response_length: int
    answer: list[SentenceRecord]


class EstimateRecord(_Record):
    """A value with its 95 % interval over conversations."""

    value: float | None
    low: float | None
    high: float | None


class RatingRecord(_Record):
    """A system's rating by people or by judges."""

    benchmark: str
    kind: str
    system: str
    n_votes: int
    win_rate: EstimateRecord
    rating: EstimateRecord | None = Field(description="Bradley-Terry with ties, 1000 on average")
    rating_at_equal_length: EstimateRecord | None
    elo: float | None
    reason: str = Field(description="reason for a missing rating, such as too few conversations")


def interface(site: Site, arena: Arena, pipelines: Mapping[str, Pipeline], patience_seconds: float) -> APIRouter:
    """Return the routes of the API."""

    def admitted(request: Request) -> None:
        scheme, _, credential = request.headers.get("authorization", "").partition(" ")
        token = credential if scheme.lower() == "bearer" else ""
        request.state.rater = site.identity.invited(token)
        if not (request.state.rater or site.identity.admits(token)):
            raise HTTPException(401, "send the token of an invitation: Authorization: Bearer TOKEN")
        if request.method == "POST" and not request.headers.get("content-type", "").startswith("application/json"):
            raise HTTPException(415, "send JSON, with Content-Type: application/json")

    router = APIRouter(prefix="/api", dependencies=[Depends(admitted), Depends(_strict_json)])

    @router.get("/systems")
    def systems() -> list[SystemRecord]:
        """List the systems."""
        names = sorted({*arena.systems, *pipelines})
        return [SystemRecord(name=name, is_live=name in pipelines) for name in names]

    @router.post("/battles")
    def next_battle(request: Request, record: RaterRecord) -> BattleRecord:
        """Return the rater's next pair. It stays the same until its vote, or until its lease expires."""
        assignment = arena.queue.next_for(_rater(request, record.rater))
        battle = arena.battle(assignment.battle_id) if assignment else None
        if assignment is None or battle is None:
            raise HTTPException(404, "no pair is left for this rater")
        shown = arena.displayed(assignment, battle)
        answers = [
            {"label": answer.label, "answer": list(chain.from_iterable(answer.lines)), "passages": answer.passages}
            for answer in shown.answers
        ]
        return BattleRecord.model_validate(
            {"battle": assignment.assignment_id, "conversation": shown.conversation, "answers": answers}
        )

    @router.post("/battles/{battle}/votes")
    def vote(request: Request, battle: str, record: VoteRecord) -> RevealedRecord:
        """Store a vote, and return the names of the systems."""
        rater = _rater(request, record.rater)
        try:
            pair = arena.open_for(rater, battle)
            if pair is None:
                raise HTTPException(404, "this rater has no such battle")
            stored = arena.vote(*pair, record.preference, record.reason)
        except VoteRefusedError as error:
            raise HTTPException(409, str(error)) from error
        return RevealedRecord(
            vote_id=stored.vote_id, first=stored.first.system, second=stored.second.system, view=stored.view
        )

    @router.post("/answers")
    async def answer(request: Request, topic: TopicRecord) -> TrecAnswerRecord:
        """Return a live system's answer to a topic, or a saved answer."""
        if topic.system in pipelines:
            response = await _live_response(pipelines[topic.system], topic, patience_seconds)
        else:
            response = await run_in_threadpool(_saved_response, arena, topic, request.state.rater)
        return TrecAnswerRecord.model_validate({**answer_of(response, topic.system).row(), "topic_id": topic.query.qid})

    @router.get("/ratings")
    def ratings() -> list[RatingRecord]:
        """Return ratings from the blinded votes so far, separately for people and judges."""
        votes = [vote for vote in arena.store.votes() if vote.view == "blinded"]
        groups = sorted({(vote.benchmark, vote.kind) for vote in votes})
        return [
            RatingRecord.model_validate(
                {
                    "benchmark": benchmark,
                    "kind": kind,
                    "system": rating.system,
                    "n_votes": rating.n_battles,
                    "win_rate": rating.win_rate,
                    "rating": rating.rating,
                    "rating_at_equal_length": rating.controlled,
                    "elo": rating.elo and rating.elo.rating,
                    "reason": rating.reason,
                }
            )
            for benchmark, kind in groups
            for rating in rate([vote for vote in votes if (vote.benchmark, vote.kind) == (benchmark, kind)]).systems
        ]

    return router


async def _strict_json(request: Request) -> None:
    """Refuse JSON that the framework accepts but no response or file can encode: unpaired surrogates, NaN."""
    if request.method != "POST":
        return
    try:
        orjson.loads(await request.body())
    except ValueError as error:
        raise HTTPException(400, f"the body is not JSON in UTF-8: {error}") from error


def _rater(request: Request, name: str) -> str:
    cleaned = clean_name(name)
    if not cleaned:
        raise HTTPException(422, "rater: a name is needed")
    if request.state.rater not in {None, cleaned}:
        raise HTTPException(403, "this invitation is another rater's")
    return cleaned


async def _live_response(pipeline: Pipeline, topic: TopicRecord, patience_seconds: float) -> Response:
    candidates = topic.candidates
    passages = (
        None
        if candidates is None
        else [Passage(candidate.docid, candidate.doc.segment, candidate.doc.title) for candidate in candidates]
    )
    messages = [Message(Role.USER, topic.query.text)]
    try:
        return await ask_pipeline(pipeline, messages, patience_seconds=patience_seconds, passages=passages)
    except ModelError as error:
        raise HTTPException(502, f"{pipeline.name}: {error}; see the server's log") from error


def _saved_response(arena: Arena, topic: TopicRecord, rater: str | None) -> Response:
    """Return a saved answer, and record that an invited rater now knows its system."""
    pool = arena.pool
    items = [item for item in pool.items if item[2] == topic.query.qid] if pool else []
    saved_answers = [
        answers[topic.system] for item in items if pool and topic.system in (answers := pool.answers_to(item))
    ]
    if not saved_answers:
        raise HTTPException(404, f"no pipeline {topic.system!r}, and no saved answer from it to {topic.query.qid!r}")
    if rater:
        battles = [battle for item in items for battle in arena.battles_of(item) if topic.system in battle.systems]
        arena.queue.note_names(rater, [battle.battle_id for battle in battles])
    return saved_answers[0].response
