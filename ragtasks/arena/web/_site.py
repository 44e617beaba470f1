"""What every page of a site has: who looks at it, its tabs and words, the way in, and the layer around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, FastAPI, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException as AnyHTTPException

from ragtasks.arena.votes import LONGEST_NAME, Standing, clean_name
from ragtasks.arena.web._guard import Application, Guard, Scope
from ragtasks.arena.web._identity import Identity, Session
from ragtasks.arena.web._render import page, static

COOKIE = "arena"
"""Name of the cookie."""
_STATIC = {"arena.css": "text/css; charset=utf-8", "arena.js": "text/javascript; charset=utf-8"}
_NOT_INVITED = "This link lets nobody in, or a newer one took its place. Ask for a new one."
_REDIRECTS = range(300, 400)
_FormText = Annotated[str, Form()]
_Asked = ParamSpec("_Asked")
_Page = TypeVar("_Page")


@dataclass(frozen=True, slots=True)
class Wording:
    """What a site calls itself."""

    name: str
    """In the head of every page."""
    heading: str
    """Of the entrance."""
    welcome: str
    """What somebody who comes in will do."""
    done: str
    """What a rater did with an item, such as `voted`."""


class Site:
    """What pages need: who is who, and what stands around every page."""

    def __init__(
        self,
        identity: Identity,
        tabs: tuple[tuple[str, str], ...],
        title: str,
        wording: Wording,
        standing: Callable[[str], Standing | None],
    ) -> None:
        """Put a site together.

        Args:
            identity: signs cookies and forms.
            tabs: (address, name) of each tab; the first is where raters begin.
            title: stands above every page, such as the benchmark.
            wording: what the site calls itself.
            standing: rater -> how far; None where nothing is counted.
        """
        self.identity, self.tabs, self.title = identity, tabs, title
        self._wording, self._standing = wording, standing
        self._turn = CapacityLimiter(1)

    def in_turn(self, make: Callable[_Asked, _Page]) -> Callable[_Asked, Awaitable[_Page]]:
        """Return a route that makes one page after the other, so that a vote never waits for many of them."""

        @wraps(make)
        async def wait(*values: _Asked.args, **fields: _Asked.kwargs) -> _Page:
            return await to_thread.run_sync(lambda: make(*values, **fields), limiter=self._turn)

        return wait

    def session(self, request: Request) -> Session:
        """Return who asks.

        Raises:
            HTTPException: nobody who came in: a redirect to the entrance.
        """
        found = self.identity.session(request.cookies.get(COOKIE))
        if found is None:
            raise HTTPException(303, headers={"location": "/enter"})
        return found

    def own_form(self, request: Request, token: str) -> Session:
        """Return who sent a form.

        Raises:
            HTTPException: nobody who came in, or a form that is not ours.
        """
        session = self.session(request)
        if not self.identity.is_own_form(session, token):
            raise HTTPException(403, "This form is not from this page. Go back, load the page again and repeat.")
        return session

    def page(self, request: Request, name: str, status: int = 200, **fields: Any) -> HTMLResponse:
        """Return a page with what all pages have."""
        session = self.identity.session(request.cookies.get(COOKIE))
        shared = {
            "tabs": self.tabs,
            "here": "/" + request.url.path.split("/")[1],
            "title": self.title,
            "wording": self._wording,
            "rater": session.rater if session else "",
            "form_token": self.identity.form_token(session) if session else "",
            "standing": self._standing(session.rater) if session else None,
        }
        return HTMLResponse(page(name, **{**shared, **fields}), status)


def entrance(site: Site) -> APIRouter:
    """Return the routes of the way in, and of our own style and script."""
    router = APIRouter(include_in_schema=False)

    @router.get("/static/{name}")
    def own_file(name: str) -> Response:
        if name not in _STATIC:
            raise HTTPException(404, "There is no such file.")
        return Response(static(name), media_type=_STATIC[name])

    identity = site.identity

    def asked(request: Request, status: int = 200, *, problem: str = "", invitation: str = "") -> HTMLResponse:
        return site.page(
            request,
            "enter",
            status,
            types_names=identity.types_names,
            needs_token=identity.needs_token,
            longest_name=LONGEST_NAME,
            invited=identity.invited(invitation),
            invitation=invitation,
            problem=problem,
        )

    @router.get("/enter")
    def ask(request: Request, invitation: str = "") -> HTMLResponse:
        if invitation and not identity.types_names and identity.invited(invitation) is None:
            return asked(request, 403, problem=_NOT_INVITED)
        return asked(request, invitation=invitation)

    @router.post("/enter")
    def enter(request: Request, name: _FormText = "", token: _FormText = "", invitation: _FormText = "") -> Response:
        rater = clean_name(name) if identity.types_names else identity.invited(invitation.rpartition("=")[2].strip())
        problem = "" if rater else "Enter your name." if identity.types_names else _NOT_INVITED
        if identity.types_names and not identity.admits(token):
            problem = "That is not the token of this server."
        if problem or not rater:
            return asked(request, 403, problem=problem)
        answer = RedirectResponse("/", 303)
        is_secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, identity.cookie(rater), httponly=True, samesite="strict", secure=is_secure)
        return answer

    @router.get("/")
    def start(request: Request) -> Response:
        return RedirectResponse(site.tabs[0][0], 303) if site.session(request) else Response()

    return router


def guarded(app: FastAPI, site: Site, hosts: frozenset[str] | None) -> Application:
    """Return an application whose errors are pages of the site, with the guard around it.

    Args:
        app: what answers.
        site: whose pages say what went wrong.
        hosts: names under which the server may be addressed; None: any.
    """

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
        session = site.identity.session(cookie)
        address = (scope.get("client") or ("",))[0]
        return f"rater {session.rater}" if session else f"address {address}"

    return Guard(app, hosts, client_of)


__all__ = ["COOKIE", "Site", "Wording", "entrance", "guarded"]
