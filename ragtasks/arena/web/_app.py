"""Puts the server of battles together: pages, interface, errors, and the guard around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fastapi import FastAPI

from ragtasks._version import __version__
from ragtasks.arena.votes import Standing, VoteRefusedError
from ragtasks.arena.web._arena import Arena
from ragtasks.arena.web._form_pages import form_pages
from ragtasks.arena.web._guard import Application
from ragtasks.arena.web._identity import Identity
from ragtasks.arena.web._interface import interface
from ragtasks.arena.web._pages import pages, pair_pages, refused
from ragtasks.arena.web._pipelines import Pipeline
from ragtasks.arena.web._site import Site, Wording, entrance, guarded
from ragtasks.arena.web.live import LiveBattles, live_pages
from ragtasks.records import Message

_WORDING = Wording(
    "Arena",
    "Which answer is better?",
    "You will see a conversation and two answers to its last message. Say which serves the user better; the names of "
    "the systems are shown after your vote.",
    "voted",
)


def application(
    arena: Arena,
    *,
    title: str,
    token: str | None = None,
    types_names: bool = False,
    hosts: frozenset[str] | None = None,
    pipelines: Sequence[Pipeline] = (),
    conversations: Mapping[str, Sequence[Message]] = MappingProxyType({}),
    patience_seconds: float = 120.0,
) -> Application:
    """Return the server's application.

    Args:
        arena: battles and votes.
        title: stands above every page.
        token: what raters who type their names must show; None: nothing.
        types_names: whether anybody comes in under any name, not only who is invited.
        hosts: names under which the server may be addressed; None: any.
        pipelines: systems that are asked live.
        conversations: name -> a conversation that may be continued live.
        patience_seconds: longest wait for a pipeline's answer.
    """
    named = {pipeline.name: pipeline for pipeline in pipelines}
    tabs = [("/battles", "Blinded"), ("/side-by-side", "Side by side"), ("/forms", "Evaluate")] if arena.pool else []
    tabs += [("/live", "Ask")] if len(named) > 1 else []

    def standing(rater: str) -> Standing | None:
        return arena.queue.standing(rater) if arena.pool else None

    identity = Identity(arena.store.secret, token, None if types_names else arena.store)
    site = Site(identity, (*tabs, ("/ratings", "Ratings")), title, _WORDING, standing)
    app = FastAPI(
        title="ragtasks arena", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json"
    )
    app.include_router(pages(site, arena))  # first what is asked for most: routes are tried in order
    app.include_router(entrance(site))
    if arena.pool:
        app.include_router(pair_pages(site, arena, arena.pool))
        app.include_router(form_pages(site, arena, arena.pool))
    app.include_router(live_pages(site, arena, LiveBattles(arena, named, patience_seconds), conversations))
    app.include_router(interface(site, arena, named, patience_seconds))
    app.add_exception_handler(VoteRefusedError, refused(site))
    return guarded(app, site, hosts)


__all__ = ["application"]
