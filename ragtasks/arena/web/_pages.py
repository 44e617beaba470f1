"""The pages of raters: in, compare, see the names, take back, skip; compare with the names in view; ratings."""

from __future__ import annotations

from typing import Annotated, Any, cast, get_args

from fastapi import APIRouter, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ragtasks.arena._vote import Preference
from ragtasks.arena.battles import AnswerPool, Battle
from ragtasks.arena.ratings import rating_sections
from ragtasks.arena.votes import Assignment, VoteRefusedError
from ragtasks.arena.web._arena import Arena
from ragtasks.arena.web._identity import Identity, Session, clean_name
from ragtasks.arena.web._render import page, static

COOKIE = "arena"
"""Name of the cookie."""
_STATIC = {"arena.css": "text/css; charset=utf-8", "arena.js": "text/javascript; charset=utf-8"}
_FormText = Annotated[str, Form()]


class Site:
    """What pages need: the arena, who is who, and which tabs there are."""

    def __init__(self, arena: Arena, identity: Identity, tabs: tuple[tuple[str, str], ...], title: str) -> None:
        """Put a site together.

        Args:
            arena: battles and votes.
            identity: signs cookies and forms.
            tabs: (address, name) of each tab.
            title: stands above every page, such as the benchmark.
        """
        self.arena, self.identity, self.tabs, self.title = arena, identity, tabs, title

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
            "rater": session.rater if session else "",
            "form_token": self.identity.form_token(session) if session else "",
            "standing": self.arena.queue.standing(session.rater) if session and self.arena.pool else None,
        }
        return HTMLResponse(page(name, **{**shared, **fields}), status)


def pages(site: Site) -> APIRouter:
    """Return the routes of the pages."""
    router = APIRouter(include_in_schema=False)
    arena = site.arena

    @router.get("/static/{name}")
    def own_file(name: str) -> Response:
        if name not in _STATIC:
            raise HTTPException(404, "There is no such file.")
        return Response(static(name), media_type=_STATIC[name])

    @router.get("/enter")
    def entrance(request: Request) -> HTMLResponse:
        return site.page(request, "enter", needs_token=site.identity.needs_token, problem="")

    @router.post("/enter")
    def enter(request: Request, name: _FormText = "", token: _FormText = "") -> Response:
        rater = clean_name(name)
        problem = "" if rater else "Say who you are."
        problem = problem if site.identity.admits(token) else "That is not the token of this arena."
        if problem:
            return site.page(request, "enter", 403, needs_token=site.identity.needs_token, problem=problem)
        answer = RedirectResponse("/", 303)
        is_secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, site.identity.cookie(rater), httponly=True, samesite="strict", secure=is_secure)
        return answer

    @router.get("/")
    def start(request: Request) -> Response:
        return RedirectResponse(site.tabs[0][0], 303) if site.session(request) else Response()

    @router.get("/battles")
    def next_battle(request: Request) -> Response:
        session = site.session(request)
        assignment = arena.queue.next_for(session.rater)
        if assignment is None:
            return site.page(request, "done")
        return RedirectResponse(f"/battles/{assignment.assignment_id}", 303)

    def opened(session: Session, assignment_id: str) -> tuple[Assignment, Battle]:
        found = arena.open_for(session.rater, assignment_id)
        if found is None:
            raise HTTPException(404, "There is no such pair among yours.")
        return found

    @router.get("/battles/{assignment_id}")
    def compare(request: Request, assignment_id: str, form: str = "text") -> HTMLResponse:
        assignment, battle = opened(site.session(request), assignment_id)
        is_open = assignment.state == "open"
        names = arena.names(assignment, battle) if assignment.view == "side_by_side" or not is_open else None
        return site.page(
            request,
            "battle",
            assignment=assignment,
            shown=arena.shown(assignment, battle),
            names=names,
            revealed=arena.revealed(assignment, battle),
            is_json=form == "json",
            is_live=battle.first.setting == "live",
            here=_tab_of(assignment, battle),
        )

    @router.post("/battles/{assignment_id}/vote")
    def vote(
        request: Request,
        assignment_id: str,
        preference: _FormText = "",
        reason: _FormText = "",
        form_token: _FormText = "",
    ) -> Response:
        assignment, battle = opened(site.own_form(request, form_token), assignment_id)
        if preference not in get_args(Preference):
            raise HTTPException(422, "A vote is one of: first, second, tie, both_bad.")
        arena.vote(assignment, battle, cast(Preference, preference), reason)
        return RedirectResponse(f"/battles/{assignment_id}", 303)

    @router.post("/battles/{assignment_id}/skip")
    def skip(request: Request, assignment_id: str, form_token: _FormText = "") -> Response:
        assignment, _ = opened(site.own_form(request, form_token), assignment_id)
        arena.skip(assignment)
        return RedirectResponse("/", 303)

    @router.post("/undo")
    def undo(request: Request, form_token: _FormText = "") -> Response:
        assignment = arena.undo(site.own_form(request, form_token).rater)
        return RedirectResponse(f"/battles/{assignment.assignment_id}", 303)

    @router.get("/ratings")
    def ratings(request: Request) -> HTMLResponse:
        site.session(request)
        return site.page(request, "ratings", sections=rating_sections(arena.store.votes()))

    return router


def _tab_of(assignment: Assignment, battle: Battle) -> str:
    if battle.first.setting == "live":
        return "/live"
    return "/battles" if assignment.view == "blinded" else "/side-by-side"


def pair_pages(site: Site, pool: AnswerPool) -> APIRouter:
    """Return the routes of pairs of saved answers that a rater chooses, with the names in view."""
    router = APIRouter(include_in_schema=False)
    arena = site.arena

    @router.get("/side-by-side")
    def choose(request: Request, first: str = "", second: str = "", place: int = 0) -> HTMLResponse:
        site.session(request)
        systems = arena.systems
        one, other = (first if first in systems else systems[0]), (second if second in systems else systems[1])
        items = [item for item in pool.items if {one, other} <= set(pool.answers_to(item))]
        return site.page(request, "side_by_side", systems=systems, first=one, second=other, items=items, place=place)

    @router.post("/side-by-side")
    def open_pair(
        request: Request,
        first: _FormText = "",
        second: _FormText = "",
        item: _FormText = "",
        form_token: _FormText = "",
    ) -> Response:
        session = site.own_form(request, form_token)
        chosen = next((b for b in arena.battles_of(item.split("\t")) if set(b.systems) == {first, second}), None)
        assignment = arena.chosen_by_hand(session.rater, chosen.battle_id) if chosen else None
        if assignment is None:
            raise HTTPException(404, "These two systems have no answers to that task. Choose two systems and a task.")
        return RedirectResponse(f"/battles/{assignment.assignment_id}", 303)

    return router


def refused(site: Site) -> Any:
    """Return what answers a vote that cannot be taken: a page that says why, and where to go on."""

    async def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, VoteRefusedError)
        return site.page(request, "message", 409, heading="Not taken", text=f"{str(error)[0].upper()}{str(error)[1:]}.")

    return answer


__all__ = ["COOKIE", "Site", "pages", "pair_pages", "refused"]
