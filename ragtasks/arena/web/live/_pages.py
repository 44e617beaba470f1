"""The pages of live battles: ask a question or continue a conversation, watch both answers come, then vote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse
from fastapi.responses import Response as HttpResponse

from ragtasks.arena.web._arena import Arena
from ragtasks.arena.web._site import Site
from ragtasks.arena.web.live._battles import LiveBattle, LiveBattles
from ragtasks.errors import ConfigurationError
from ragtasks.records import Message, Role

LONGEST_TEXT = 20_000
"""Characters of a conversation."""
_MOST_OFFERED = 400
_FormText = Annotated[str, Form()]


def live_pages(
    site: Site, arena: Arena, live: LiveBattles, conversations: Mapping[str, Sequence[Message]]
) -> APIRouter:
    """Return the routes of live battles.

    Args:
        site: what all pages need.
        arena: battles and votes.
        live: the battles.
        conversations: name -> a conversation that may be continued, such as a benchmark's.
    """
    router = APIRouter(include_in_schema=False)
    offered = dict(list(conversations.items())[:_MOST_OFFERED])

    @router.get("/live")
    def ask(request: Request) -> HTMLResponse:
        site.session(request)
        return site.page(request, "ask", systems=sorted(live.pipelines), conversations=offered, problem="")

    @router.post("/live")
    async def begin(  # noqa: PLR0917 (one parameter a field)
        request: Request,
        question: _FormText = "",
        earlier: _FormText = "",
        conversation: _FormText = "",
        follow: _FormText = "",
        side: _FormText = "first",
        first: _FormText = "",
        second: _FormText = "",
        form_token: _FormText = "",
    ) -> HttpResponse:
        session = site.own_form(request, form_token)
        try:
            before = _followed(arena, session.rater, follow, side) if follow else messages_of(earlier)
            messages = list(offered[conversation]) if conversation in offered else _asked(before, question)
            number = live.begin(session.rater, messages, [name for name in (first, second) if name])
        except ConfigurationError as error:
            shown = {"systems": sorted(live.pipelines), "conversations": offered, "problem": str(error)}
            return site.page(request, "ask", 422, **shown)
        return RedirectResponse(f"/live/{number}", 303)

    def found(request: Request, number: str) -> LiveBattle:
        battle = live.find(site.session(request).rater, number)
        if battle is None:
            raise HTTPException(404, "There is no such battle among yours. Ask again.")
        return battle

    @router.get("/live/{number}")
    def watch(request: Request, number: str) -> HttpResponse:
        battle = found(request, number)
        if battle.assignment is not None:
            return RedirectResponse(f"/battles/{battle.assignment.assignment_id}", 303)
        names = battle.names if battle.view == "side_by_side" else ("", "")
        return site.page(
            request, "watch", conversation=battle.messages, number=number, names=names, failure=battle.failure
        )

    @router.get("/live/{number}/events")
    async def events(request: Request, number: str) -> HttpResponse:
        return StreamingResponse(live.events(found(request, number)), media_type="text/event-stream")

    return router


def messages_of(text: str) -> list[Message]:
    """Return the messages of a text whose paragraphs are spoken in turns, the user first; [] for none."""
    parts = [part.strip() for part in text.replace("\r\n", "\n").split("\n\n") if part.strip()]
    roles = (Role.USER, Role.ASSISTANT)
    return [Message(roles[place % 2], part) for place, part in enumerate(parts)]


def _asked(before: list[Message], question: str) -> list[Message]:
    """Return a conversation with a question at its end.

    Raises:
        ConfigurationError: no question, too long a text, or earlier turns that end with the user.
    """
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


def _followed(arena: Arena, rater: str, assignment_id: str, side: str) -> list[Message]:
    """Return the conversation of a battle with the answer of one side as its last message.

    Raises:
        ConfigurationError: no such battle with a vote.
    """
    opened = arena.open_for(rater, assignment_id)
    if opened is None or opened[0].state != "voted":
        raise ConfigurationError("Vote first, then continue the conversation.")
    assignment, battle = opened
    is_first = (side == "first") != assignment.is_turned
    response = (battle.first if is_first else battle.second).response
    return [*response.task.messages, Message(Role.ASSISTANT, response.text)]


__all__ = ["LONGEST_TEXT", "live_pages", "messages_of"]
