"""Puts the server together: pages, interface, errors, and the guard around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from ragtasks import __version__
from ragtasks.arena.votes import VoteRefusedError
from ragtasks.arena.web._arena import Arena
from ragtasks.arena.web._form_pages import form_pages
from ragtasks.arena.web._guard import Application, Guard, Scope
from ragtasks.arena.web._identity import Identity
from ragtasks.arena.web._interface import interface
from ragtasks.arena.web._live import LiveBattles
from ragtasks.arena.web._live_pages import live_pages
from ragtasks.arena.web._pages import COOKIE, Site, pages, pair_pages, refused
from ragtasks.arena.web._pipelines import Pipeline
from ragtasks.records import Message

_REDIRECTS = range(300, 400)


def application(
    arena: Arena,
    *,
    title: str,
    token: str | None = None,
    hosts: frozenset[str] | None = None,
    pipelines: Sequence[Pipeline] = (),
    conversations: Mapping[str, Sequence[Message]] = MappingProxyType({}),
    patience_seconds: float = 120.0,
) -> Application:
    """Return the server's application.

    Args:
        arena: battles and votes.
        title: stands above every page.
        token: what raters must show to come in; None: nothing.
        hosts: names under which the server may be addressed; None: any.
        pipelines: systems that are asked live.
        conversations: name -> a conversation that may be continued live.
        patience_seconds: longest wait for a pipeline's answer.
    """
    identity = Identity(arena.store.secret, token)
    named = {pipeline.name: pipeline for pipeline in pipelines}
    tabs = [("/battles", "Blinded"), ("/side-by-side", "Side by side"), ("/forms", "Evaluate")] if arena.pool else []
    tabs += [("/live", "Ask")] if len(named) > 1 else []
    site = Site(arena, identity, (*tabs, ("/ratings", "Ratings")), title)
    app = FastAPI(
        title="ragtasks arena", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json"
    )
    if arena.pool:
        app.include_router(pair_pages(site, arena.pool))
        app.include_router(form_pages(site, arena.pool, arena.raters_per_battle))
    app.include_router(pages(site))
    app.include_router(live_pages(site, LiveBattles(arena, named, patience_seconds), conversations))
    app.include_router(interface(site, named, patience_seconds))
    app.add_exception_handler(VoteRefusedError, refused(site))

    @app.exception_handler(AnyHTTPException)
    async def say_why(request: Request, error: Exception) -> Response:
        assert isinstance(error, AnyHTTPException)
        if request.url.path.startswith("/api/"):
            return JSONResponse({"detail": error.detail}, error.status_code, error.headers)
        if error.status_code in _REDIRECTS:
            return Response(status_code=error.status_code, headers=error.headers)
        return site.page(
            request, "message", error.status_code, heading=f"Error {error.status_code}", text=str(error.detail)
        )

    def client_of(scope: Scope) -> str:
        cookies = dict(scope["headers"]).get(b"cookie", b"").decode("latin-1")
        cookie = next((part.partition("=")[2] for part in cookies.split("; ") if part.startswith(f"{COOKIE}=")), None)
        session = identity.session(cookie)
        address = (scope.get("client") or ("",))[0]
        return f"rater {session.rater}" if session else f"address {address}"

    return Guard(app, hosts, client_of)


__all__ = ["application"]
