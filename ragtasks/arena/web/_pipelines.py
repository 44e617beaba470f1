"""Systems that are asked while a rater waits: a retriever that finds passages, and a model that answers from them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragtasks.clients import ChatMessage, Credentials, Endpoint, Secrets, credentials_for, endpoint_of, stream_reply
from ragtasks.errors import ConfigurationError, ModelError, RagtasksError, clear_error, misfits
from ragtasks.files import canonical_hash, parse_json
from ragtasks.metrics import answer_text
from ragtasks.prompts import shipped_template
from ragtasks.records import Answerability, Message, Passage, Response, Role, Task

NO_ANSWER = "a system gave no answer"
"""All that a rater learns of a failure: the words of a server name the system."""

_LOGGER = logging.getLogger(__name__)
_REFUSAL = "I do not have specific information"
_MOST_WORDS = 250
_END_OF_THINKING = "</think>"

Search = Callable[[str], Sequence[Passage]]
"""Question -> passages, best first."""
Stream = Callable[[Sequence[Message], Sequence[Passage]], AsyncIterator[str]]
"""(Conversation, passages) -> the parts of an answer as they come."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One system."""

    name: str
    """Name in ratings."""
    search: Search
    """Its retriever."""
    stream: Stream
    """Its model."""


def pipeline_of(name: str, search: Search, endpoint: Endpoint, credentials: Credentials) -> Pipeline:
    """Return the system of a retriever and a model behind an OpenAI-compatible endpoint."""
    template = shipped_template("generation/trec_rag")

    def stream(messages: Sequence[Message], passages: Sequence[Passage]) -> AsyncIterator[str]:
        shown = [{"title": passage.title, "text": passage.text} for passage in passages]
        system = template.render(passages=shown, max_words=_MOST_WORDS, refusal=_REFUSAL).strip()
        chat = [ChatMessage("system", system), *(ChatMessage(message.role.value, message.text) for message in messages)]
        return stream_reply(endpoint, credentials, chat)

    return Pipeline(name, search, stream)


class _System(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200)
    retriever: str = Field(min_length=1)
    generator: str | dict[str, Any]


def live_systems(texts: Sequence[str], search: Callable[[str], Search], secrets: Secrets) -> list[Pipeline]:
    """Return the systems of JSON objects with `name`, `retriever` (a line) and `generator` (an endpoint)."""
    systems = [_system(text) for text in texts]
    names = [system.name for system in systems]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ConfigurationError(f"--system: two systems at least, under different names; given: {', '.join(names)}")
    searches = {line: search(line) for line in dict.fromkeys(system.retriever for system in systems)}
    pipelines = []
    for system in systems:
        endpoint = endpoint_of(system.generator)
        credentials = credentials_for(endpoint, secrets)
        pipelines.append(pipeline_of(system.name, searches[system.retriever], endpoint, credentials))
    return pipelines


def _system(text: str) -> _System:
    try:
        return _System.model_validate(parse_json(text.encode()))
    except ValidationError as error:
        found = "; ".join(misfits(error))
    except ValueError as error:
        found = f"not JSON: {error}"
    form = '{"name": "bm25 + small", "retriever": "bm25", "generator": {"model": "...", "base_url": "..."}}'
    raise ConfigurationError(
        clear_error("live system", where="--system", expected=form, found=found, next_step="write it in that form")
    )


def task_of(messages: Sequence[Message]) -> Task:
    """Return a conversation that a rater made as a task; the same topic is the same conversation."""
    spoken = [[message.role.value, message.text] for message in messages]
    turn = sum(message.role is Role.USER for message in messages)
    return Task(
        task_id=f"live-{canonical_hash(spoken)[:16]}<::>{turn}",
        conversation_id=f"live-{canonical_hash(spoken[0])[:16]}",
        turn=turn,
        domain="live",
        messages=tuple(messages),
        target="",
        answerability=Answerability.ANSWERABLE,  # nobody knows; votes on live battles carry no label
        question_types=(),
        multi_turn="N/A" if turn == 1 else "Follow-up",
        references=(),
    )


async def ask_pipeline(
    pipeline: Pipeline,
    messages: Sequence[Message],
    *,
    patience_seconds: float,
    passages: Sequence[Passage] | None = None,
) -> Response:
    """Return a system's answer to the last message, without the thinking before it."""
    try:
        return await asyncio.wait_for(_ask(pipeline, messages, passages), patience_seconds)
    except asyncio.TimeoutError:
        reason = f"no whole answer within {patience_seconds:.0f} seconds"
    except RagtasksError as error:
        reason = str(error)
    _LOGGER.warning("live system %s gave no answer: %s", pipeline.name, reason)
    raise ModelError(NO_ANSWER)


async def _ask(pipeline: Pipeline, messages: Sequence[Message], passages: Sequence[Passage] | None) -> Response:
    found = passages if passages is not None else await asyncio.to_thread(pipeline.search, messages[-1].text)
    parts = [part async for part in pipeline.stream(messages, found)]
    text = answer_text("".join(parts), _END_OF_THINKING).strip()
    if not text:
        raise ModelError("an empty answer")
    return Response(task_of(messages), tuple(found), text)
