"""Requests to the model under test that fail: each is an answer that did not come, not the end of the evaluation.

The harness gives up all requests with the first that used up its attempts, and takes a reply without text for an empty
answer. Here a request that failed for good becomes a `NoAnswer` with its reason. Where nothing but failures comes, or
the server refuses the caller, the rest is not asked, and the evaluation ends in one line.
"""

from __future__ import annotations

import asyncio
import functools
import http.client
import json
from collections.abc import Sequence
from typing import Any

import orjson
from lm_eval.api.model import LM

from ragtasks.clients import Outcome, read_completion
from ragtasks.errors import ModelError
from ragtasks.harness.answering._no_answer import NoAnswer

_REFUSING_ALL = {
    401: "the server does not accept the key",
    402: "the account has no credit left",
    404: "the server does not know the model, or the address",
}
_WORTH_ANOTHER_ATTEMPT = frozenset({408, 409, 425, 429})
_IN_A_ROW = 20
"""Failures with no answer between them that end an evaluation."""

_NO_ANSWER_OF_THE_MODEL = frozenset({Outcome.TRUNCATED, Outcome.FILTERED, Outcome.REFUSED, Outcome.MALFORMED})
_BODIES = frozenset({"choices", "error"})  # what chat completions look like, and errors that come with status 200
_NOT_ASKED = "not asked: the evaluation ended before"


def survive_failing_requests(model: LM) -> FailingRequests | None:
    """Return what watches a model behind HTTP from now on; None for any other model, which is left alone."""
    from lm_eval.models.api_models import TemplateAPI

    return FailingRequests(model) if isinstance(model, TemplateAPI) else None


class FailingRequests:
    """Stands before the three methods by which the harness's HTTP models send a request and read the reply."""

    def __init__(self, model: Any) -> None:
        """Put itself before the model's methods.

        Args:
            model: a `TemplateAPI` of the harness.
        """
        self._send, self._send_async, self._read = model.model_call, model.amodel_call, model.parse_generations
        self._n_attempts = max(1, model.max_retries)
        self._failed: dict[int, int] = {}
        self._in_a_row = 0
        self._ended = ""
        model.model_call, model.amodel_call, model.parse_generations = self._call, self._acall, self._parse

    def raise_if_ended(self, n_answered: int) -> None:
        """Say that the rest was not asked.

        Args:
            n_answered: how many requests have an answer.

        Raises:
            ModelError: the server refused the caller, or nothing but failures came.
        """
        if self._ended:
            raise ModelError(f"the model gives no more answers: {self._ended}; {n_answered} requests are answered")

    def _call(self, *args: Any, messages: Sequence[Any], generate: bool = True, **options: Any) -> Any:
        """Return the reply's body, or the reason why there is none; an error is for the harness to try again."""
        if not generate:
            return self._send(*args, messages=messages, generate=False, **options)
        if self._ended:
            return NoAnswer(_NOT_ASKED)
        try:
            return self._send(*args, messages=messages, generate=True, **options)
        except Exception as error:  # noqa: BLE001 (`_reason` raises what is no failure of a request)
            return NoAnswer(self._reason(messages, error))

    async def _acall(
        self, *, sem: asyncio.Semaphore, messages: Sequence[Any], generate: bool = True, **options: Any
    ) -> Any:
        """Return the answers to a batch; an error is for the harness to try again."""
        async with sem:  # here and not in the harness's method: what waited for its turn may not be worth sending
            send = functools.partial(self._send_async, sem=asyncio.Semaphore(), messages=messages, **options)
            if not generate:
                return await send(generate=False)
            if self._ended:
                return [NoAnswer(_NOT_ASKED)] * len(messages)
            try:
                answers = await send(generate=True)
            except Exception as error:  # noqa: BLE001 (`_reason` raises what is no failure of a request)
                return [NoAnswer(self._reason(messages, error))] * len(messages)
            return _as_many(answers, len(messages))

    def _parse(self, outputs: Any, contexts: Sequence[Any] | None = None, **options: Any) -> list[str]:
        """Return the text in each choice of a reply, or why there is none, one for each prompt that was sent."""
        if isinstance(outputs, NoAnswer):
            return [outputs] * len(contexts or [""])
        try:
            texts = list(self._read(outputs=outputs, contexts=contexts, **options))
        except (LookupError, TypeError, AttributeError):
            texts = [None]
        if any(texts):
            self._in_a_row = 0
        n_prompts = len(contexts) if contexts is not None else len(texts)
        return _as_many([text or _empty(text, outputs) for text in texts], n_prompts)

    def _reason(self, messages: Sequence[Any], error: Exception) -> str:
        """Return why requests that will not be sent again have no answer.

        Raises:
            Exception: `error` itself, where the harness should try again, or where it is no failure of a request.
        """
        status = _status(error)
        if status is None and not isinstance(error, _transport_errors()):
            raise error
        is_passing = status is None or status >= 500 or status in _WORTH_ANOTHER_ATTEMPT
        self._failed[id(messages)] = n_failed = self._failed.get(id(messages), 0) + 1
        if is_passing and n_failed < self._n_attempts:
            raise error
        del self._failed[id(messages)]
        self._in_a_row += 1
        reason = _reported(error, status)
        if self._ended:
            return reason  # what was on its way then says nothing new
        if status in _REFUSING_ALL:
            self._ended = f"{_REFUSING_ALL[status]} ({reason})"
        elif self._in_a_row >= _IN_A_ROW:
            self._ended = f"{self._in_a_row} requests in a row failed, the last with: {reason}"
        return reason


def _as_many(answers: Sequence[str], n_prompts: int) -> list[str]:
    """Return one answer a prompt: a server may leave choices out, and the harness would shift all that follow."""
    missing = [NoAnswer("the reply holds no choice")] * (n_prompts - len(answers))
    return [*answers[:n_prompts], *missing]


def _empty(text: str | None, outputs: Any) -> str:
    """Return what a reply without text counts as: an empty answer where the model gave one, else no answer."""
    if not isinstance(outputs, dict) or "text" in _first(outputs.get("choices")) or not _BODIES & outputs.keys():
        return NoAnswer("the reply has no content") if text is None else text
    reply = read_completion(orjson.dumps(outputs))
    if text is None or reply.outcome in _NO_ANSWER_OF_THE_MODEL:
        return NoAnswer(reply.reason)
    return text


def _first(choices: Any) -> Any:
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _status(error: Exception) -> int | None:
    """Return the HTTP status in an error of any library, None where it has none."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status", "status_code"):
            if isinstance(status := getattr(holder, name, None), int):
                return status
    return None


def _transport_errors() -> tuple[type[Exception], ...]:
    import aiohttp
    import requests

    unreadable = (json.JSONDecodeError, UnicodeDecodeError)
    return (aiohttp.ClientError, requests.RequestException, asyncio.TimeoutError, OSError, *unreadable)


def _reported(error: Exception, status: int | None) -> str:
    """Return what happened, without address and the server's words, which may hold a key: the log has those."""
    if status is not None:
        return f"HTTP {status} {http.client.responses.get(status, '')}".strip()
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)) or "Timeout" in type(error).__name__:
        return "no reply in time"
    return f"the connection broke ({type(error).__name__})"


__all__ = ["FailingRequests", "survive_failing_requests"]
