"""Pages for raters: blinded comparison, comparison with visible names, undo and skip, forms, ratings."""

from __future__ import annotations

import time
from typing import Any, cast, get_args

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ragtasks.arena.battles import LIVE, AnswerPool, Battle, ItemKey, shuffled
from ragtasks.arena.forms import (
    QUESTIONS,
    SCALE,
    FormError,
    compared_pairs,
    form_sections,
    order_for,
    read_form,
    read_forms,
)
from ragtasks.arena.rating_tables import rating_sections
from ragtasks.arena.store import Assignment, Queue
from ragtasks.arena.votes import Preference
from ragtasks.arena.web._comparing import LABELS, Arena, DisplayedAnswer
from ragtasks.arena.web._site import FormText, Session, Site


def pages(site: Site, arena: Arena) -> APIRouter:
    """Return the routes of battles and ratings."""
    router = APIRouter(include_in_schema=False)

    @router.get("/battles")
    @site.in_turn
    def next_battle(request: Request) -> Response:
        session = site.session(request)
        assignment = arena.queue.next_for(session.rater)
        if assignment is None:
            return site.page(request, "done")
        return RedirectResponse(f"/battles/{assignment.assignment_id}", 303)

    def opened(session: Session, assignment_id: str) -> tuple[Assignment, Battle]:
        pair = arena.open_for(session.rater, assignment_id)
        if pair is None:
            raise HTTPException(404, "You have no such pair.")
        return pair

    @router.get("/battles/{assignment_id}")
    @site.in_turn
    def compare(request: Request, assignment_id: str, form: str = "text") -> HTMLResponse:
        assignment, battle = opened(site.session(request), assignment_id)
        is_named = assignment.view == "side_by_side" or assignment.state == "voted"
        return site.page(
            request,
            "battle",
            assignment=assignment,
            shown=arena.displayed(assignment, battle),
            names=arena.names(assignment, battle) if is_named else None,
            knows_names=not is_named and arena.queue.knows_names(assignment),
            revealed=arena.queue.vote_of(assignment),
            is_json=form == "json",
            is_live=battle.first.setting == LIVE,
            here=_tab_of(assignment, battle),
        )

    @router.post("/battles/{assignment_id}/vote")
    def vote(
        request: Request,
        assignment_id: str,
        preference: FormText = "",
        reason: FormText = "",
        form_token: FormText = "",
    ) -> Response:
        assignment, battle = opened(site.session_of_form(request, form_token), assignment_id)
        if preference not in get_args(Preference):
            raise HTTPException(422, "A vote is one of: first, second, tie, both_bad.")
        arena.vote(assignment, battle, cast(Preference, preference), reason)
        return RedirectResponse(f"/battles/{assignment_id}", 303)

    @router.post("/battles/{assignment_id}/skip")
    def skip(request: Request, assignment_id: str, form_token: FormText = "") -> Response:
        assignment, battle = opened(site.session_of_form(request, form_token), assignment_id)
        arena.queue.skip(assignment)
        return RedirectResponse(_tab_of(assignment, battle), 303)

    @router.post("/undo")
    def undo(request: Request, form_token: FormText = "") -> Response:
        assignment = arena.queue.undo(site.session_of_form(request, form_token).rater)
        return RedirectResponse(f"/battles/{assignment.assignment_id}", 303)

    @router.get("/ratings")
    def ratings(request: Request) -> HTMLResponse:
        site.session(request)
        return site.page(request, "tables", heading="Ratings", sections=rating_sections(arena.store.votes()))

    return router


def _tab_of(assignment: Assignment, battle: Battle) -> str:
    if battle.first.setting == LIVE:
        return "/live"
    return "/battles" if assignment.view == "blinded" else "/side-by-side"


def pair_pages(site: Site, arena: Arena, pool: AnswerPool) -> APIRouter:
    """Return the routes of pairs of saved answers that a rater chooses with visible names."""
    router = APIRouter(include_in_schema=False)

    @router.get("/side-by-side")
    def choose(request: Request, first: str = "", second: str = "", place: int = 0) -> HTMLResponse:
        site.session(request)
        systems = arena.systems
        first, second = first if first in systems else systems[0], second if second in systems else systems[1]
        items = [item for item in pool.items if {first, second} <= set(pool.answers_to(item))]
        return site.page(request, "side_by_side", systems=systems, first=first, second=second, items=items, place=place)

    @router.post("/side-by-side")
    def open_pair(
        request: Request,
        first: FormText = "",
        second: FormText = "",
        item: FormText = "",
        form_token: FormText = "",
    ) -> Response:
        session = site.session_of_form(request, form_token)
        chosen = next((b for b in arena.battles_of(item.split("\t")) if set(b.systems) == {first, second}), None)
        assignment = arena.assign_chosen(session.rater, chosen.battle_id) if chosen else None
        if assignment is None:
            raise HTTPException(404, "These two systems have no answers to that task. Choose two systems and a task.")
        return RedirectResponse(f"/battles/{assignment.assignment_id}", 303)

    return router


def refused(site: Site) -> Any:
    """Return the handler of refused votes: a page with the reason."""

    async def answer(request: Request, error: Exception) -> Response:
        return site.page(request, "message", 409, heading="Not saved", text=f"{str(error)[0].upper()}{str(error)[1:]}.")

    return answer


# Pages of human evaluation: a form per task, with its answers in an individual order without names.

MOST_ANSWERS = 6
"""Maximum answers on a form. Tasks with more are omitted."""
_LONGEST_SECONDS = 24 * 3600.0


def form_pages(site: Site, arena: Arena, pool: AnswerPool) -> APIRouter:
    """Return the routes of the forms on the answers of a pool."""
    router = APIRouter(include_in_schema=False)
    store, secret = arena.store, arena.store.secret
    items = {"\t".join(item): item for item in pool.items if len(pool.answers_to(item)) <= MOST_ANSWERS}
    queue = Queue(store, shuffled(items), arena.raters_per_battle, lease_seconds=arena.lease_seconds, view="form")

    def form_page(
        request: Request, session: Session, item: ItemKey, problem: str = "", values: dict[str, str] | None = None
    ) -> HTMLResponse:
        systems = order_for(pool, item, session.rater, secret)
        answers = pool.answers_to(item)
        return site.page(
            request,
            "form",
            422 if problem else 200,
            item="\t".join(item),
            conversation=answers[systems[0]].response.task.messages,
            answers=[DisplayedAnswer(LABELS[index], answers[system].response) for index, system in enumerate(systems)],
            pairs=compared_pairs(pool, item, systems),
            questions=QUESTIONS,
            scale=SCALE,
            problem=problem,
            given=values or {},
            began=f"{time.time():.0f}",
        )

    @router.get("/forms")
    @site.in_turn
    def next_form(request: Request) -> Response:
        session = site.session(request)
        assignment = queue.next_for(session.rater)
        if assignment is None:
            n_done = queue.progress_of(session.rater).n_done
            text = f"You filled in {n_done} forms, and no task is left for you. Thank you."
            return site.page(request, "message", heading="All done", text=text)
        return form_page(request, session, items[assignment.battle_id])

    @router.post("/forms")
    async def take(request: Request) -> Response:
        fields = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
        session = site.session_of_form(request, fields.get("form_token", ""))
        item = items.get(fields.get("item", ""))
        if item is None:
            raise HTTPException(404, "This task does not exist.")
        seconds = min(max(time.time() - _number(fields.get("began", "")), 0.0), _LONGEST_SECONDS)
        try:
            form = read_form(pool, item, order_for(pool, item, session.rater, secret), fields, seconds)
        except FormError as error:
            return form_page(request, session, item, str(error), fields)
        await run_in_threadpool(queue.save_form, session.rater, "\t".join(item), form.model_dump_json())
        return RedirectResponse("/forms", 303)

    @router.get("/forms/results")
    def results(request: Request) -> HTMLResponse:
        site.session(request)
        forms, _ = read_forms(pool, store.forms())
        return site.page(request, "tables", heading="Results", sections=form_sections(pool, forms))

    return router


def _number(text: str) -> float:
    return float(text) if text.isdigit() and len(text) < 16 else time.time()
