"""Listwise reranking: a language model orders windows of the candidates, from the end of the list to its front.

A window slides up by less than its size, so the best passages of each one meet those of the next and can climb to the
top (RankZephyr, Pradeep, Sharifymoghaddam and Lin 2023; Ragnarök's pipeline for TREC RAG). Windows of one query follow
each other; the current windows of all queries go to the client in one call. With a client that keeps its replies, a
killed call goes on where it was.

`ListwiseRetriever` (in `retrieval_cache.rerankers`) turns the order into a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ragtasks.clients import Client, Prompt, Reply
from ragtasks.errors import ConfigurationError, JudgeError, clear_error
from ragtasks.records import Passage
from ragtasks.templates import PromptTemplate, shipped_template
from retrieval_cache.rerankers._listwise_replies import (
    names_any,
    read_order,
    reply_form,
    shown_text,
    windows,
    without_numbers,
)
from retrieval_cache.retrievers import Progress, no_progress

_KIND = "listwise"
"""What the prompts are called in a reply cache."""

TEMPLATE = "rerank/listwise"
"""The shipped prompt; its fields are `query` and `passages`."""

READER_VERSION = 1
"""Moves when the same reply is read in another way."""


@dataclass(frozen=True, slots=True)
class ListwiseOptions:
    """How the candidates are shown to a model, window by window."""

    window: int = 20
    """Passages shown at once, 2 or more."""
    stride: int = 10
    """Ranks between two windows, 1 to `window`."""
    passes: int = 1
    """How often the whole list is gone through, each time in the order of the last (3 is RankZephyr-rho)."""
    words: int = 300
    """Words shown of a passage, its title included."""
    max_unanswered: float = 0.05
    """Share of the windows that may stay without a reply, 0 to 1; they keep their order. More fail the call."""

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("window", self.window, 2, None),
            ("stride", self.stride, 1, self.window),
            ("passes", self.passes, 1, None),
            ("words", self.words, 1, None),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least or value > (most or value):
                raise _refused(name, f"a whole number from {least}" + (f" to {most}" if most else ""), value)
        share = self.max_unanswered
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise _refused("max_unanswered", "a share from 0 to 1", share)


DEFAULT_OPTIONS = ListwiseOptions()


def _refused(option: str, expected: str, found: object) -> ConfigurationError:
    message = clear_error(
        "listwise reranking",
        where=option,
        expected=expected,
        found=repr(found),
        next_step="write it such as rerank(bm25,listwise:openai/NAME,window=20,stride=10,depth=100)",
    )
    return ConfigurationError(message)


class ListwiseReranker:
    """Orders lists of passages by a language model."""

    def __init__(
        self, client: Client, options: ListwiseOptions = DEFAULT_OPTIONS, template: PromptTemplate | None = None
    ) -> None:
        """Choose who orders.

        Args:
            client: answers the prompts; give it a `CachedClient`, and a killed call goes on where it was.
            options: windows and passes.
            template: a prompt with the fields `query` and `passages` (texts); default: ours.
        """
        self._client = client
        self._options = options
        self._template = template or shipped_template(TEMPLATE)
        self._counts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()

    def describe(self) -> Mapping[str, Any]:
        """Return what decides the order: model and decoding, prompt, windows, how replies are read."""
        options = self._options
        return {
            "reranker": "listwise",
            "client": dict(self._client.describe()),
            "prompt_sha256": self._template.sha256,
            "reader": READER_VERSION,
            "window": options.window,
            "stride": options.stride,
            "passes": options.passes,
            "words": options.words,
        }

    def statistics(self) -> Mapping[str, Any]:
        """Return counts over all windows so far: asked, without a reply (by reason), and the forms of the replies."""
        return {**self._counts, "reasons": dict(self._reasons)} if self._counts else {}

    def order(
        self, lists: Sequence[tuple[str, Sequence[Passage]]], progress: Progress = no_progress
    ) -> list[list[Passage]]:
        """Return the passages of each list in the order that the model gives them, best first.

        Args:
            lists: a query and its candidates, best first by the first retriever; may be empty.
            progress: told of every reply.

        Raises:
            JudgeError: nobody answers, or more than `max_unanswered` of the windows got no reply.
            ConfigurationError: a template that cannot be filled in.
        """
        options = self._options
        orders = [list(passages) for _, passages in lists]
        plans = [options.passes * list(windows(len(order), options.window, options.stride)) for order in orders]
        total, n_before, n_unanswered = sum(map(len, plans)), 0, 0
        for step in range(max(map(len, plans), default=0)):
            current = [(number, *plan[step]) for number, plan in enumerate(plans) if step < len(plan)]
            prompts = [self._prompt(lists[number][0], orders[number][start:end]) for number, start, end in current]
            replies = self._client.answer(prompts, _counted_on(progress, n_before, total))
            for (number, start, end), reply in zip(current, replies, strict=True):
                orders[number][start:end] = self._ordered(orders[number][start:end], reply)
                n_unanswered += reply.text is None
            if n_unanswered > options.max_unanswered * total:
                raise JudgeError(self._too_many(n_unanswered, total))
            n_before += len(current)
        return orders

    def _prompt(self, query: str, passages: Iterable[Passage]) -> Prompt:
        texts = [shown_text(passage, self._options.words) for passage in passages]
        text = self._template.render(query=without_numbers(query), passages=texts)
        return Prompt.of(text, kind=_KIND, is_readable=partial(names_any, n_passages=len(texts)))

    def _ordered(self, passages: list[Passage], reply: Reply) -> list[Passage]:
        self._counts["windows"] += 1
        if reply.text is None:
            self._counts["unanswered"] += 1
            self._reasons[f"{reply.outcome.value}: {reply.reason}"] += 1
            return passages
        self._counts[reply_form(reply.text, len(passages)).value] += 1
        return [passages[place] for place in read_order(reply.text, len(passages))]

    def _too_many(self, n_unanswered: int, total: int) -> str:
        reasons = "; ".join(f"{count} x {reason}" for reason, count in self._reasons.most_common(3))
        return clear_error(
            "listwise reranking",
            where=self._client.name,
            expected=f"replies to all but {self._options.max_unanswered:.0%} of {total} windows",
            found=f"{n_unanswered} without one: {reasons}",
            next_step="what was answered is kept: run the same again; for prompts that are too long set fewer words or "
            "a smaller window, for replies that are cut off more max_tokens",
        )


def _counted_on(progress: Progress, n_before: int, total: int) -> Progress:
    """Return a progress over all windows, for a call that counts its own."""
    return lambda what, done, _: progress(what, n_before + done, total)


__all__ = ["DEFAULT_OPTIONS", "READER_VERSION", "TEMPLATE", "ListwiseOptions", "ListwiseReranker"]
