"""Puts the server together: pages, interface, errors, and the guard around them."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from ragtasks import __version__
from ragtasks.arena.votes import VoteRefusedError
from ragtasks.arena.web._arena import Arena
from ragtasks.arena.web._guard import Application, Guard, Scope
from ragtasks.arena.web._identity import Identity
from ragtasks.arena.web._pages import COOKIE, Site, pages, refused

_REDIRECTS = range(300, 400)


def application(
    arena: Arena, *, token: str | None = None, hosts: frozenset[str] | None = None, title: str
) -> Application:
    """Return the server's application.

    Args:
        arena: battles and votes.
        token: what raters must show to come in; None: nothing.
        hosts: names under which the server may be addressed; None: any.
        title: stands above every page.
    """
    identity = Identity(arena.store.secret, token)
    tabs = [("/battles", "Blinded"), ("/side-by-side", "Side by side")] if arena.pool else []
    site = Site(arena, identity, (*tabs, ("/ratings", "Ratings")), title)
    app = FastAPI(
        title="ragtasks arena", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json"
    )
    app.include_router(pages(site))
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
