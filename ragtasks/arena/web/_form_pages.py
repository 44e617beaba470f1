"""The pages of human evaluation: a form a task, its answers without names in an order of the rater's own."""

from __future__ import annotations

import time

from fastapi import APIRouter, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ragtasks.arena.battles import AnswerPool, ItemKey, shuffled
from ragtasks.arena.forms import QUESTIONS, SCALE, FormError, compared, form_sections, order_for, read_form, read_forms
from ragtasks.arena.votes import Queue
from ragtasks.arena.web._arena import Arena
from ragtasks.arena.web._identity import Session
from ragtasks.arena.web._shown import LABELS, ShownAnswer
from ragtasks.arena.web._site import Site

MOST_ANSWERS = 6
"""Answers of one form; tasks with more are left out."""
_LONGEST_SECONDS = 24 * 3600.0


def form_pages(site: Site, arena: Arena, pool: AnswerPool) -> APIRouter:
    """Return the routes of the forms on the answers of a pool."""
    router = APIRouter(include_in_schema=False)
    store, secret = arena.store, arena.store.secret
    items = {"\t".join(item): item for item in pool.items if len(pool.answers_to(item)) <= MOST_ANSWERS}
    queue = Queue(store, shuffled(items), arena.raters_per_battle, lease_seconds=arena.lease_seconds, view="form")

    def shown(
        request: Request, session: Session, item: ItemKey, problem: str = "", given: dict[str, str] | None = None
    ) -> HTMLResponse:
        systems = order_for(pool, item, session.rater, secret)
        answers = pool.answers_to(item)
        return site.page(
            request,
            "form",
            422 if problem else 200,
            item="\t".join(item),
            conversation=answers[systems[0]].response.task.messages,
            answers=[ShownAnswer(LABELS[place], answers[system].response) for place, system in enumerate(systems)],
            pairs=compared(pool, item, systems),
            questions=QUESTIONS,
            scale=SCALE,
            problem=problem,
            given=given or {},
            began=f"{time.time():.0f}",
        )

    @router.get("/forms")
    @site.in_turn
    def next_form(request: Request) -> Response:
        session = site.session(request)
        assignment = queue.next_for(session.rater)
        if assignment is None:
            n_done = queue.standing(session.rater).n_done
            text = f"You filled in {n_done} forms, and there is no task left for you. Thank you."
            return site.page(request, "message", heading="All done", text=text)
        return shown(request, session, items[assignment.battle_id])

    @router.post("/forms")
    async def take(request: Request) -> Response:
        sent = {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
        session = site.own_form(request, sent.get("form_token", ""))
        item = items.get(sent.get("item", ""))
        if item is None:
            raise HTTPException(404, "There is no such task.")
        seconds = min(max(time.time() - _number(sent.get("began", "")), 0.0), _LONGEST_SECONDS)
        try:
            form = read_form(pool, item, order_for(pool, item, session.rater, secret), sent, seconds)
        except FormError as error:
            return shown(request, session, item, str(error), sent)
        await run_in_threadpool(queue.keep_form, session.rater, "\t".join(item), form.model_dump_json())
        return RedirectResponse("/forms", 303)

    @router.get("/forms/results")
    def results(request: Request) -> HTMLResponse:
        site.session(request)
        forms, _ = read_forms(pool, store.forms())
        return site.page(request, "tables", heading="Results", sections=form_sections(pool, forms))

    return router


def _number(text: str) -> float:
    return float(text) if text.isdigit() and len(text) < 16 else time.time()


__all__ = ["MOST_ANSWERS", "form_pages"]
