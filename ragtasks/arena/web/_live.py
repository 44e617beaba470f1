"""Live battles, in which two systems answer a rater's question, and their pages."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from fastapi.responses import Response as HttpResponse
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtasks.arena.battles import Answer, Battle
from ragtasks.arena.store import Assignment
from ragtasks.arena.web._comparing import Arena
from ragtasks.arena.web._site import FormText, Site
from ragtasks.clients import (
    ChatMessage,
    Credentials,
    Endpoint,
    Secrets,
    credentials_for,
    endpoint_of,
    endpoint_requirements,
    stream_reply,
)
from ragtasks.errors import ConfigurationError, ModelError, RagtasksError, misfits
from ragtasks.files import canonical_hash, parse_json
from ragtasks.metrics import NgramIdk, answer_text
from ragtasks.prompts import shipped_template
from ragtasks.records import Answerability, IdkVerdict, Message, Passage, Response, Role, Task
from ragtasks.requirements import require

# Live battles: both systems are queried at once. The manner of an answer can reveal the system: its speed, its
# thinking, the error message of its server. So answers are displayed only when both are complete, and both appear in
# the same steps. Raters are only informed that a system failed, and the battle gets no vote. The log contains the
# system and the reason.

_LOGGER = logging.getLogger(__name__)
_STEP_SECONDS = 0.05
_STEP_CHARACTERS = 12
_MOST_STEPS = 40
_CACHE_SIZE = 500
_MOST_RUNNING = 64
_LABELS = "AB"


@dataclass
class LiveBattle:
    """A running or finished live battle."""

    rater: str
    view: str
    """`blinded` or `side_by_side`."""
    messages: tuple[Message, ...]
    names: tuple[str, str]
    """The systems in display order."""
    texts: tuple[str, ...] = ()
    """Both answers without thinking, once both are complete."""
    failure: str = ""
    """Why no vote is possible; empty without a failure."""
    assignment: Assignment | None = None
    """The assignment for the vote, once both answers are complete."""
    work: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the battle is finished."""
        return bool(self.failure) or self.assignment is not None


class LiveBattles:
    """The live battles of a server. They run on the server's event loop."""

    def __init__(self, arena: Arena, pipelines: Mapping[str, Pipeline], patience_seconds: float) -> None:
        """Set the systems and the maximum time of an answer."""
        self._arena, self.pipelines, self._patience = arena, dict(pipelines), patience_seconds
        self._battles: OrderedDict[str, LiveBattle] = OrderedDict()

    def begin(self, rater: str, messages: Sequence[Message], names: Sequence[str]) -> str:
        """Send a question to two systems, and return the random id of the battle."""
        running = [battle for battle in self._battles.values() if not battle.is_over]
        if len(running) >= _MOST_RUNNING or any(battle.rater == rater for battle in running):
            raise ConfigurationError(
                "your last question, or questions of others, are still being answered: wait a moment"
            )
        if names and (len(set(names)) != 2 or not set(names) <= self.pipelines.keys()):
            raise ConfigurationError("choose two different systems, or none")
        first, second = names or secrets.SystemRandom().sample(sorted(self.pipelines), 2)
        battle = LiveBattle(rater, "side_by_side" if names else "blinded", tuple(messages), (first, second))
        number = secrets.token_hex(12)
        self._battles[number] = battle
        while len(self._battles) > _CACHE_SIZE:
            self._battles.popitem(last=False)
        battle.work = asyncio.get_running_loop().create_task(self._fight(battle))
        return number

    def find(self, rater: str, number: str) -> LiveBattle | None:
        """Return a battle of this rater; None if it does not exist."""
        battle = self._battles.get(number)
        return battle if battle and battle.rater == rater else None

    async def _fight(self, battle: LiveBattle) -> None:
        try:
            results = await asyncio.gather(
                *(self._answer(battle, name) for name in battle.names), return_exceptions=True
            )
            for name, result in zip(battle.names, results, strict=True):
                if isinstance(result, BaseException) and not isinstance(result, ModelError):
                    _LOGGER.error("live system %s failed", name, exc_info=result)
            answers = [result for result in results if isinstance(result, Answer)]
            if len(answers) < len(battle.names):
                battle.failure = NO_ANSWER
                return
            saved_battle = Battle(*sorted(answers, key=lambda answer: answer.system))
            battle.texts = tuple(answer.response.text for answer in answers)
            battle.assignment = await asyncio.to_thread(
                self._arena.save_live,
                saved_battle,
                battle.rater,
                battle.view,
                is_turned=answers[0].system != saved_battle.first.system,
            )
        except Exception:
            battle.failure = "the battle could not be saved"
            raise

    async def _answer(self, battle: LiveBattle, name: str) -> Answer:
        response = await ask_pipeline(self.pipelines[name], battle.messages, patience_seconds=self._patience)
        return live_answer(name, response)

    async def events(self, battle: LiveBattle) -> AsyncIterator[str]:
        """Yield server-sent events: `begin`, then `text` for both sides, then `done` with a path, or `failed`."""
        yield _event("begin", {})
        if battle.work is not None:
            await asyncio.wait([battle.work])
        if battle.assignment is None:
            yield _event("failed", {"why": battle.failure})
            return
        for parts in steps_of(battle.texts):
            yield _event("text", dict(zip(_LABELS, parts, strict=True)))
            await asyncio.sleep(_STEP_SECONDS)
        yield _event("done", {"next": f"/battles/{battle.assignment.assignment_id}"})


def steps_of(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the next part of each text, so that all texts start in the first step and end in the last."""
    n = min(_MOST_STEPS, -(-max(map(len, texts)) // _STEP_CHARACTERS))
    for step in range(n):
        yield [text[len(text) * step // n : len(text) * (step + 1) // n] for text in texts]


def live_answer(name: str, response: Response) -> Answer:
    """Return a live response as an answer that can be compared."""
    (label,) = NgramIdk().detect([response])
    return Answer(name, "live", "live", response, label.verdict is IdkVerdict.YES, {})


def _event(name: str, content: Mapping[str, str]) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"


# Pages of live battles: ask a question or continue a conversation, watch both answers, then vote.

LONGEST_TEXT = 20_000
"""Maximum characters of a conversation."""
_MOST_OFFERED = 400


def live_pages(
    site: Site, arena: Arena, live: LiveBattles, conversations: Mapping[str, Sequence[Message]]
) -> APIRouter:
    """Return the routes of live battles."""
    router = APIRouter(include_in_schema=False)
    offered = dict(list(conversations.items())[:_MOST_OFFERED])

    @router.get("/live")
    def ask(request: Request) -> HTMLResponse:
        site.session(request)
        return site.page(request, "ask", systems=sorted(live.pipelines), conversations=offered, problem="")

    @router.post("/live")
    async def begin(  # noqa: PLR0917 (one parameter a field)
        request: Request,
        question: FormText = "",
        earlier: FormText = "",
        conversation: FormText = "",
        follow: FormText = "",
        side: FormText = "first",
        first: FormText = "",
        second: FormText = "",
        form_token: FormText = "",
    ) -> HttpResponse:
        session = site.session_of_form(request, form_token)
        try:
            before = _continued_messages(arena, session.rater, follow, side) if follow else messages_of(earlier)
            messages = list(offered[conversation]) if conversation in offered else _with_question(before, question)
            number = live.begin(session.rater, messages, [name for name in (first, second) if name])
        except ConfigurationError as error:
            shown = {"systems": sorted(live.pipelines), "conversations": offered, "problem": str(error)}
            return site.page(request, "ask", 422, **shown)
        return RedirectResponse(f"/live/{number}", 303)

    def own_battle(request: Request, number: str) -> LiveBattle:
        battle = live.find(site.session(request).rater, number)
        if battle is None:
            raise HTTPException(404, "You have no such battle. Ask again.")
        return battle

    @router.get("/live/{number}")
    def watch(request: Request, number: str) -> HttpResponse:
        battle = own_battle(request, number)
        if battle.assignment is not None:
            return RedirectResponse(f"/battles/{battle.assignment.assignment_id}", 303)
        names = battle.names if battle.view == "side_by_side" else ("", "")
        return site.page(
            request, "watch", conversation=battle.messages, number=number, names=names, failure=battle.failure
        )

    @router.get("/live/{number}/events")
    async def events(request: Request, number: str) -> HttpResponse:
        return StreamingResponse(live.events(own_battle(request, number)), media_type="text/event-stream")

    return router


def messages_of(text: str) -> list[Message]:
    """Return the messages in a text whose paragraphs alternate between user and assistant, starting with the user."""
    parts = [part.strip() for part in text.replace("\r\n", "\n").split("\n\n") if part.strip()]
    roles = (Role.USER, Role.ASSISTANT)
    return [Message(roles[index % 2], part) for index, part in enumerate(parts)]


def _with_question(before: list[Message], question: str) -> list[Message]:
    if not question.strip():
        raise ConfigurationError("Ask a question, or choose a conversation.")
    if len(before) % 2:
        raise ConfigurationError(
            "The earlier conversation ends with the user: add the assistant's reply, after a blank line."
        )
    messages = [*before, Message(Role.USER, question.strip())]
    if sum(len(message.text) for message in messages) > LONGEST_TEXT:
        raise ConfigurationError(f"The conversation is longer than {LONGEST_TEXT:,} characters.")
    return messages


def _continued_messages(arena: Arena, rater: str, assignment_id: str, side: str) -> list[Message]:
    """Return the conversation of a battle with the answer of one side as its last message."""
    opened = arena.open_for(rater, assignment_id)
    if opened is None or opened[0].state != "voted":
        raise ConfigurationError("Vote first, then continue the conversation.")
    assignment, battle = opened
    is_first = (side == "first") != assignment.is_turned
    response = (battle.first if is_first else battle.second).response
    return [*response.task.messages, Message(Role.ASSISTANT, response.text)]


# Live systems: a retriever, and a model that answers from its passages.

NO_ANSWER = "a system gave no answer"
"""The message to raters about a failure. The error message of a server would reveal the system."""

_REFUSAL = "I do not have specific information"
_MOST_WORDS = 250
_END_OF_THINKING = "</think>"

Search = Callable[[str], Sequence[Passage]]
"""Question -> passages, best first."""
Stream = Callable[[Sequence[Message], Sequence[Passage]], AsyncIterator[str]]
"""(conversation, passages) -> parts of an answer as they arrive."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A live system."""

    name: str
    search: Search
    stream: Stream


def pipeline_of(name: str, search: Search, endpoint: Endpoint, credentials: Credentials) -> Pipeline:
    """Return a live system of a retriever and a model at an OpenAI-compatible endpoint."""
    template = shipped_template("generation/trec_rag")

    def stream(messages: Sequence[Message], passages: Sequence[Passage]) -> AsyncIterator[str]:
        shown = [{"title": passage.title, "text": passage.text} for passage in passages]
        system = template.render(passages=shown, max_words=_MOST_WORDS, refusal=_REFUSAL).strip()
        chat = [ChatMessage("system", system), *(ChatMessage(message.role.value, message.text) for message in messages)]
        return stream_reply(endpoint, credentials, chat)

    return Pipeline(name, search, stream)


class _PipelineSpec(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    retriever: str = Field(min_length=1)
    generator: str | dict[str, Any]


def live_systems(texts: Sequence[str], search: Callable[[str], Search], secrets: Secrets) -> list[Pipeline]:
    """Return the systems in JSON objects with `name`, `retriever` and `generator` (an endpoint)."""
    systems = [_system(text) for text in texts]
    names = [system.name for system in systems]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigurationError(f"--system: at least two systems with different names, found: {', '.join(names)}")
    endpoints = {system.name: endpoint_of(system.generator) for system in systems}
    keys = [
        requirement
        for name, endpoint in endpoints.items()
        for requirement in endpoint_requirements(endpoint, name, secrets)
    ]
    require(keys, with_requests=False)
    searches = {line: search(line) for line in dict.fromkeys(system.retriever for system in systems)}
    return [
        pipeline_of(system.name, searches[system.retriever], endpoint, credentials_for(endpoint, secrets))
        for system, endpoint in zip(systems, endpoints.values(), strict=True)
    ]


def _system(text: str) -> _PipelineSpec:
    try:
        return _PipelineSpec.model_validate(parse_json(text.encode()))
    except ValidationError as error:
        problem = "; ".join(misfits(error))
    except ValueError as error:
        problem = f"not JSON: {error}"
    form = '{"name": "bm25 + small", "retriever": "bm25", "generator": {"model": "...", "base_url": "..."}}'
    raise ConfigurationError("live system", where="--system", expected=form, found=problem, next_step="use that form")


def task_of(messages: Sequence[Message]) -> Task:
    """Return a rater's conversation as a task. Conversations with the same first message have the same id."""
    spoken = [[message.role.value, message.text] for message in messages]
    turn = sum(message.role is Role.USER for message in messages)
    return Task(
        task_id=f"live-{canonical_hash(spoken)[:16]}<::>{turn}",
        conversation_id=f"live-{canonical_hash(spoken[0])[:16]}",
        turn=turn,
        domain="live",
        messages=tuple(messages),
        target="",
        answerability=Answerability.ANSWERABLE,  # unknown; votes on live battles have no label
        multi_turn="N/A" if turn == 1 else "Follow-up",
    )


async def ask_pipeline(
    pipeline: Pipeline,
    messages: Sequence[Message],
    *,
    patience_seconds: float,
    passages: Sequence[Passage] | None = None,
) -> Response:
    """Return a system's answer to the last message, without its thinking. Raises ModelError without an answer."""
    try:
        return await asyncio.wait_for(_ask(pipeline, messages, passages), patience_seconds)
    except asyncio.TimeoutError:
        reason = f"no complete answer within {patience_seconds:.0f} seconds"
    except RagtasksError as error:
        reason = str(error)
    _LOGGER.warning("live system %s gave no answer: %s", pipeline.name, reason)
    raise ModelError(NO_ANSWER)


async def _ask(pipeline: Pipeline, messages: Sequence[Message], passages: Sequence[Passage] | None) -> Response:
    context = passages if passages is not None else await asyncio.to_thread(pipeline.search, messages[-1].text)
    parts = [part async for part in pipeline.stream(messages, context)]
    text = answer_text("".join(parts), _END_OF_THINKING).strip()
    if not text:
        raise ModelError("an empty answer")
    return Response(task_of(messages), tuple(context), text)
