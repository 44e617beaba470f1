"""Shared parts of a site's pages: session, tabs, wording, entry page, error pages."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, wraps
from importlib import resources
from typing import Annotated, Any, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, FastAPI, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from jinja2 import Environment, FunctionLoader, StrictUndefined
from starlette.exceptions import HTTPException as AnyHTTPException

from ragtasks.arena.store import LONGEST_NAME, RaterProgress, VoteStore, clean_name
from ragtasks.arena.web._guard import Application, Guard, Scope
from ragtasks.tables import Value, fixed

COOKIE = "arena"
_STATIC = {"arena.css": "text/css; charset=utf-8", "arena.js": "text/javascript; charset=utf-8"}
_NOT_INVITED = "This link is invalid, or a newer one has replaced it. Ask for a new one."
_REDIRECTS = range(300, 400)
FormText = Annotated[str, Form()]
"""A form field as a parameter of a route."""
_Parameters = ParamSpec("_Parameters")
_Page = TypeVar("_Page")


@dataclass(frozen=True, slots=True)
class Wording:
    """The wording of a site."""

    name: str
    heading: str
    welcome: str
    """Instructions on the entry page."""
    done: str
    """Past participle for a rater's finished items, such as `voted`."""


class Site:
    """Sessions and shared content of the pages."""

    def __init__(
        self,
        identity: Identity,
        tabs: tuple[tuple[str, str], ...],
        title: str,
        wording: Wording,
        progress_of: Callable[[str], RaterProgress | None],
    ) -> None:
        """Set the parts of a site."""
        self.identity, self.tabs, self.title = identity, tabs, title
        self._wording, self._progress_of = wording, progress_of
        self._turn = CapacityLimiter(1)

    def in_turn(self, make: Callable[_Parameters, _Page]) -> Callable[_Parameters, Awaitable[_Page]]:
        """Return a route that creates one page at a time, so that a vote never waits for many pages."""

        @wraps(make)
        async def wait(*values: _Parameters.args, **fields: _Parameters.kwargs) -> _Page:
            return await to_thread.run_sync(lambda: make(*values, **fields), limiter=self._turn)

        return wait

    def session(self, request: Request) -> Session:
        """Return the session of a request. Redirects to the entry page without one."""
        session = self.identity.session(request.cookies.get(COOKIE))
        if session is None:
            raise HTTPException(303, headers={"location": "/enter"})
        return session

    def session_of_form(self, request: Request, token: str) -> Session:
        """Return the session of a submitted form."""
        session = self.session(request)
        if not self.identity.is_valid_form(session, token):
            raise HTTPException(403, "This form is not from this page. Go back, reload the page and try again.")
        return session

    def page(self, request: Request, name: str, status: int = 200, **fields: Any) -> HTMLResponse:
        """Return a page with the shared content of all pages."""
        session = self.identity.session(request.cookies.get(COOKIE))
        shared = {
            "tabs": self.tabs,
            "here": "/" + request.url.path.split("/")[1],
            "title": self.title,
            "wording": self._wording,
            "rater": session.rater if session else "",
            "form_token": self.identity.form_token(session) if session else "",
            "progress": self._progress_of(session.rater) if session else None,
        }
        return HTMLResponse(page(name, **{**shared, **fields}), status)


def entrance(site: Site) -> APIRouter:
    """Return the routes of the entry page and of static files."""
    router = APIRouter(include_in_schema=False)

    @router.get("/static/{name}")
    def static_file(name: str) -> Response:
        if name not in _STATIC:
            raise HTTPException(404, "This file does not exist.")
        return Response(static(name), media_type=_STATIC[name])

    identity = site.identity

    def entry_page(request: Request, status: int = 200, *, problem: str = "", invitation: str = "") -> HTMLResponse:
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
            return entry_page(request, 403, problem=_NOT_INVITED)
        return entry_page(request, invitation=invitation)

    @router.post("/enter")
    def enter(request: Request, name: FormText = "", token: FormText = "", invitation: FormText = "") -> Response:
        rater = clean_name(name) if identity.types_names else identity.invited(invitation.rpartition("=")[2].strip())
        problem = "" if rater else "Enter your name." if identity.types_names else _NOT_INVITED
        if identity.types_names and not identity.admits(token):
            problem = "This token is not correct."
        if problem or not rater:
            return entry_page(request, 403, problem=problem)
        answer = RedirectResponse("/", 303)
        is_secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, identity.cookie(rater), httponly=True, samesite="strict", secure=is_secure)
        return answer

    @router.get("/")
    def start(request: Request) -> Response:
        return RedirectResponse(site.tabs[0][0], 303) if site.session(request) else Response()

    return router


def guarded(app: FastAPI, site: Site, hosts: frozenset[str] | None) -> Application:
    """Return an application with error pages of the site and the guard."""

    @app.exception_handler(AnyHTTPException)
    async def error_page(request: Request, error: AnyHTTPException) -> Response:
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


# Pages from templates, with all texts escaped. Unknown fields are errors.


def page(name: str, **fields: Any) -> str:
    """Return the rendered page of a template in `pages/`."""
    return _environment().get_template(f"{name}.html.jinja").render(**fields)


@cache
def static(name: str) -> bytes:
    """Return a file in `static/`."""
    return resources.files("ragtasks.arena.web").joinpath("static", name).read_bytes()


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(fixed=fixed, is_score=lambda cell: isinstance(cell, Value))
    return environment


def _source(name: str) -> str:
    return resources.files("ragtasks.arena.web").joinpath("pages", name).read_text(encoding="utf-8")


# Sessions: a signed cookie with the rater's name, and the token of forms. Both are signed with the secret in the
# database's folder. Scripts cannot read the cookie, and other sites cannot send it. The token of a form is derived from
# the session in the cookie, so other sites cannot know it. Raters sign in by invitation, and a new invitation
# invalidates their cookies. With typed names, anyone may use any name.

_SESSION_BYTES = 16


@dataclass(frozen=True, slots=True)
class Session:
    """The login of a browser."""

    rater: str
    number: str
    """Random number of the login."""


class Identity:
    """Signs and verifies cookies and forms."""

    def __init__(self, secret: bytes, token: str | None = None, invitations: VoteStore | None = None) -> None:
        """Set the secret, and the token or the invitations for entry."""
        self._secret, self._token, self._invitations = secret, token, invitations

    @property
    def types_names(self) -> bool:
        """Whether raters enter with any typed name."""
        return self._invitations is None

    @property
    def needs_token(self) -> bool:
        """Whether typed names require a token."""
        return self.types_names and self._token is not None

    def invited(self, token: str) -> str | None:
        """Return the rater of an invitation token; None if it is invalid."""
        return self._invitations.invited(token) if self._invitations else None

    def admits(self, token: str) -> bool:
        """Return whether a token admits a typed name, compared in constant time."""
        if self._token is None:
            return self.types_names
        return hmac.compare_digest(token.encode(errors="replace"), self._token.encode())

    def cookie(self, rater: str) -> str:
        """Return a new cookie for a rater."""
        text = f"{secrets.token_hex(_SESSION_BYTES)}:{self._invitation(rater)}:{rater}"
        body = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")  # cookies with `=` are returned in quotes
        return f"{body}.{self._signed('cookie', body)}"

    def session(self, cookie: str | None) -> Session | None:
        """Return the session of a cookie; None if the cookie is missing or its signature invalid."""
        body, _, signature = (cookie or "").rpartition(".")
        if not body or not hmac.compare_digest(
            signature.encode(errors="replace"), self._signed("cookie", body).encode()
        ):
            return None
        try:
            parts = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode().split(":", 2)
            number, invitation, rater = parts
        except ValueError:  # not base64, not text, or a cookie of another version
            return None
        return Session(rater, number) if invitation == self._invitation(rater) else None

    def _invitation(self, rater: str) -> str | None:
        """Return the invitation in a rater's cookie; None if the rater is not invited, which matches no cookie."""
        return self._invitations.invitation(rater) if self._invitations else ""

    def form_token(self, session: Session) -> str:
        """Return the token for the forms of a session."""
        return self._signed("form", f"{session.number}:{session.rater}")

    def is_valid_form(self, session: Session, token: str) -> bool:
        """Return whether a form was issued to this session."""
        return hmac.compare_digest(token.encode(errors="replace"), self.form_token(session).encode())

    def _signed(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose}\n{text}".encode(errors="replace"), hashlib.sha256).hexdigest()
