"""Web pages of a review, and the decisions behind them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ragtasks.arena.store import RaterProgress, VoteStore
from ragtasks.arena.web import (
    Application,
    FormText,
    Identity,
    Site,
    Wording,
    entrance,
    guarded,
)
from ragtasks.synthesis.review import (
    LONGEST_NOTE,
    LONGEST_TEXT,
    DecisionError,
    Pair,
    Review,
    decide,
    read_reviews,
    review_section,
)

# State of a review: decisions, and the next pair of each reviewer.


class ReviewDesk:
    """One server's pairs and decisions; thread-safe."""

    def __init__(self, store: VoteStore, pairs: Sequence[Pair]) -> None:
        """Read the decisions in the database."""
        self.store, self.pairs = store, tuple(pairs)
        self._lock = threading.Lock()
        stored, self.n_others = read_reviews(pairs, store.reviews())
        self._of: dict[str, dict[str, Review]] = {}
        for review in stored:
            self._of.setdefault(review.reviewer, {})[review.pair_id] = review

    def pair(self, number: int) -> Pair | None:
        """Return a pair by its number, from 1; None if it is unknown."""
        return self.pairs[number - 1] if 0 < number <= len(self.pairs) else None

    def decisions_of(self, reviewer: str) -> Mapping[str, Review]:
        """Return pair id -> a reviewer's last decision on it."""
        with self._lock:
            return dict(self._of.get(reviewer, {}))

    def reviews(self) -> list[Review]:
        """Return all reviewers' last decisions, in the order of the pairs."""
        with self._lock:
            copies = [dict(reviews_of) for reviews_of in self._of.values()]
        return [reviews_of[pair.pair_id] for pair in self.pairs for reviews_of in copies if pair.pair_id in reviews_of]

    def standing(self, reviewer: str) -> RaterProgress:
        """Return a reviewer's progress."""
        n_done = len(self.decisions_of(reviewer))
        return RaterProgress(n_done, len(self.pairs) - n_done)

    def next_for(self, reviewer: str, after: int = 0) -> Pair | None:
        """Return a reviewer's next undecided pair, after a number and then from the start; None if all are decided."""
        decisions = self.decisions_of(reviewer)
        in_turn = (*self.pairs[after:], *self.pairs[:after])
        return next((pair for pair in in_turn if pair.pair_id not in decisions), None)

    def decide(self, reviewer: str, pair: Pair, choice: str, texts: Mapping[str, str], note: str) -> Review:
        """Store a decision; on disk when this returns."""
        decision, at = decide(pair, choice, texts, note), time.time()
        review = Review(reviewer, pair.pair_id, decision, at)
        with self._lock:
            self.store.save_review(reviewer, pair.pair_id, decision.model_dump_json(exclude_defaults=True), at)
            self._of.setdefault(reviewer, {})[pair.pair_id] = review
        return review


# Pages of a review: a pair to accept, edit or reject in its conversation, all pairs, agreement of reviewers.

_WORDING = Wording(
    "Review",
    "Is this pair right?",
    "You will see questions with their answers, one after the other in their conversations, and the passages that "
    "support the answers. Accept, edit or reject each pair; every decision is saved at once, and you can change it.",
    "reviewed",
)
_TABS = (("/pairs", "Review"), ("/all", "All pairs"), ("/agreement", "Agreement"))
_A_PAGE = 100


def review_application(desk: ReviewDesk, identity: Identity, hosts: frozenset[str] | None, title: str) -> Application:
    """Return the web application of a review."""
    site = Site(identity, _TABS, title, _WORDING, desk.standing)
    app = FastAPI(title="ragtasks review", version=version("ragtasks"), docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(entrance(site))
    app.include_router(_review_pages(site, desk))
    return guarded(app, site, hosts)


def _review_pages(site: Site, desk: ReviewDesk) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    def pair_or_404(number: int) -> Pair:
        pair = desk.pair(number)
        if pair is None:
            raise HTTPException(404, "There is no such pair.")
        return pair

    @router.get("/pairs")
    @site.in_turn
    def next_pair(request: Request, after: int = 0) -> Response:
        session = site.session(request)
        pair = desk.next_for(session.rater, min(max(after, 0), len(desk.pairs)))
        if pair is None:
            text = f"You decided on all {len(desk.pairs)} pairs. Each decision can still be changed."
            return site.page(request, "message", heading="All done", text=text, onward=("/all", "All pairs"))
        return RedirectResponse(f"/pairs/{pair.number}", 303)

    def pair_page(request: Request, pair: Pair, status: int = 200, **fields: object) -> HTMLResponse:
        review = desk.decisions_of(site.session(request).rater).get(pair.pair_id)
        texts = review.decision.texts or pair.texts if review else pair.texts
        context = {
            "pair": pair,
            "texts": texts,
            "own": review,
            "when": datetime.fromtimestamp(review.time, timezone.utc).strftime("%Y-%m-%d %H:%M UTC") if review else "",
            "n_pairs": len(desk.pairs),
            "note": review.decision.note if review else "",
            "is_edited": False,
            "problem": "",
            "longest_text": LONGEST_TEXT,
            "longest_note": LONGEST_NOTE,
        }
        return site.page(request, "pair", status, **{**context, **fields})

    @router.get("/pairs/{number}")
    @site.in_turn
    def look(request: Request, number: int, edit: int = 0) -> HTMLResponse:
        site.session(request)
        return pair_page(request, pair_or_404(number), is_edited=bool(edit))

    @router.post("/pairs/{number}")
    def decide(  # noqa: PLR0917 (one parameter per field)
        request: Request,
        number: int,
        choice: FormText = "",
        version: FormText = "",
        question: FormText = "",
        standalone: FormText = "",
        answer: FormText = "",
        note: FormText = "",
        form_token: FormText = "",
    ) -> Response:
        session, pair = site.session_of_form(request, form_token), pair_or_404(number)
        if version != pair.version:
            raise HTTPException(409, "This pair has changed since you opened it. Go back and load the page again.")
        texts = {"question": question, "standalone": standalone, "answer": answer}
        try:
            desk.decide(session.rater, pair, choice, texts, note)
        except DecisionError as error:
            is_edited = choice == "edit"
            edits = {"texts": texts} if is_edited else {}
            return pair_page(request, pair, 422, problem=str(error), note=note, is_edited=is_edited, **edits)
        return RedirectResponse(f"/pairs?after={number}", 303)

    @router.get("/all")
    def everything(request: Request, start: int = 1) -> HTMLResponse:
        session = site.session(request)
        first = min(max(start, 1), len(desk.pairs))
        decisions = desk.decisions_of(session.rater)
        rows = [(pair, decisions.get(pair.pair_id)) for pair in desk.pairs[first - 1 : first - 1 + _A_PAGE]]
        return site.page(request, "all_pairs", rows=rows, first=first, a_page=_A_PAGE, n_pairs=len(desk.pairs))

    @router.get("/agreement")
    def agreement(request: Request) -> HTMLResponse:
        site.session(request)
        section = review_section(site.title, desk.pairs, desk.reviews())
        return site.page(request, "tables", heading="Agreement", sections=[section])

    return router
