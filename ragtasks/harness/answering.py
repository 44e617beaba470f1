"""The model under test: its answers are saved as they come, and failed requests are recorded."""

from __future__ import annotations

import asyncio
import functools
import http.client
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import orjson
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from ragtasks.clients import (
    CachedReply,
    CallUsage,
    Outcome,
    Reply,
    ReplyCache,
    Spent,
    calls_of,
    check_reply_cache,
    early_end,
    parts_of,
    read_completion,
    usage_in,
)
from ragtasks.errors import CacheError, ModelError
from ragtasks.files import canonical_hash, contexts_in, is_model_folder
from ragtasks.progress import progress_bars
from ragtasks.records import Passage
from ragtasks.scoring import record_unanswered

# Who keeps what in one evaluation: the model that the harness loads is put behind a log of its answers.

_LOGGER = logging.getLogger(__name__)
_IN_USE: list[LM] = []


def model_in_use() -> LM | None:
    """Return the model of the evaluation that `ragtasks run` runs in this process; None under the stock command."""
    return _IN_USE[0] if _IN_USE else None


class AnswerKeeper(AbstractContextManager["AnswerKeeper"]):
    """Keeps the answers of the models of one evaluation, until it is saved or, where a file is named, for good."""

    def __init__(self, output_path: str | None, use_cache: str | None) -> None:
        """Choose where."""
        self._lasting = f"{use_cache}_rank{{rank}}.sqlite" if use_cache else ""
        folder = Path(output_path or "")
        folder = folder.parent if folder.suffix == ".json" else folder
        self._unsaved = str(folder / "unfinished_rank{rank}.sqlite") if output_path else ""
        self._logs: list[AnswerLog] = []
        _IN_USE.clear()

    def keep(self, kind: str, model: LM, arguments: dict[str, Any]) -> Any:
        """Return the model with its answers kept; baselines cost nothing."""
        _IN_USE[:] = [model]
        named = arguments.get("model") or arguments.get("pretrained") or kind
        _LOGGER.info("%s is ready; building the prompts", named)
        if kind == "dummy" or (kind.startswith("ragtasks-") and kind != "ragtasks-endpoint"):
            return model
        log = None
        if name := self._lasting or self._unsaved:
            path = Path(name.replace("{rank}", str(model.rank)))
            log = AnswerLog(path, kind, arguments, is_lasting=bool(self._lasting))
            self._logs.append(log)
        return SavedAnswers(model, log, survive_failing_requests(model))

    def finish(self) -> None:
        """Let go of what is saved elsewhere by now."""
        for log in self._logs:
            log.finish()
        self._logs = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _IN_USE.clear()
        for log in self._logs:
            log.close()
            if kind is not None and log.n_found:
                _LOGGER.warning("%d answers are saved in %s: only the rest is asked", log.n_found, log.path)


# A model of the harness whose answers are kept as they come, and that is asked only what is not answered yet.


class SavedAnswers:
    """Stands for a model where the harness asks it; everything else is the model's own."""

    def __init__(self, model: LM, log: AnswerLog | None, failing: FailingRequests | None = None) -> None:
        """Put a log before a model."""
        self._model, self._log, self._failing = model, log, failing
        self._reported: set[str] = set()
        model.set_cache_hook(_Hook(self))

    def __getattr__(self, name: str) -> Any:
        """Return what the model has under this name."""
        return getattr(self._model, name)

    def generate_until(self, requests: list[Instance], **options: Any) -> list[Any]:
        """Return the text that answers each request; `NoAnswer` where none came."""
        answers = self._answers("generate_until", requests, options)
        self._report(answers)
        return answers

    def _report(self, answers: Sequence[Any]) -> None:
        """Record how many requests got no answer, and why."""
        reasons = [answer.reason for answer in answers if isinstance(answer, NoAnswer)]
        record_unanswered(reasons, len(answers), is_kept=self._log is not None)

    def answer_following(self, requests: Sequence[Instance], take: Take) -> bool:
        """Answer requests and those that follow from their answers, so that no slot waits for the slowest of a step.

        Args:
            requests: the first ones.
            take: called with answers as they come; returns the requests that follow.

        Returns:
            Whether it was done: only a server that takes single prompts, several at a time, gives answers one by one.
        """
        if self._failing is None or not self._failing.has_slots:
            return False
        _LOGGER.info("asking for %d answers, and for what follows from them", len(requests))
        answers = asyncio.run(_Flow(self, self._failing, take).run(requests))
        self._failing.raise_if_ended(sum(not isinstance(answer, NoAnswer) for answer in answers))
        self._report(answers)
        return True

    def look_up(self, requests: Sequence[Instance], n_before: Counter[str]) -> list[Any]:
        """Return what was answered before, None where nothing was; `n_before` counts requests in the same words."""
        keys = [_logged(request) for request in requests]
        is_first = not n_before
        found = self._log.look_up(keys, n_before) if self._log is not None else [None] * len(keys)
        if is_first and self._log is not None and any(answer is not None for answer in found):
            _LOGGER.info("what was answered before is in %s; the rest is asked", self._log.path)
        return [None if answer is None else self._with_unused([key], [answer])[0]
                for key, answer in zip(keys, found, strict=True)]  # fmt: skip

    def settle(self, request: Instance, answer: Any) -> Any:
        """Return an answer that has just come, which is saved by now."""
        key = _logged(request)
        if self._identity(key) not in self._reported:
            self._keep(key, answer)
        self._reported.discard(self._identity(key))
        if self._log is not None and isinstance(answer, NoAnswer):
            self._log.note_unused(key, answer)
        return self._with_unused([key], [answer])[0]

    def loglikelihood(self, requests: list[Instance], **options: Any) -> list[Any]:
        """Return what the model returns."""
        return [tuple(answer) for answer in self._answers("loglikelihood", requests, options)]

    def loglikelihood_rolling(self, requests: list[Instance], **options: Any) -> list[Any]:
        """Return what the model returns."""
        return self._answers("loglikelihood_rolling", requests, options)

    def _answers(self, method: str, requests: Sequence[Instance], options: dict[str, Any]) -> list[Any]:
        keys: list[LoggedRequest] = [(method, request.args) for request in requests]
        answers = self._log.look_up(keys) if self._log is not None else [None] * len(keys)
        missing = [index for index, answer in enumerate(answers) if answer is None]
        self._note_known(len(keys) - len(missing), len(keys))
        if not missing:
            return self._with_unused(keys, answers)
        self._reported.clear()
        _LOGGER.info("asking for %d answers", len(missing))
        given = getattr(self._model, method)([requests[index] for index in missing], **options)
        for index, text in zip(missing, given, strict=True):
            answers[index] = answer = self._counted(method, keys[index], text)
            if self._identity(keys[index]) not in self._reported:  # models that other people made may tell no hook
                self._keep(keys[index], answer)
            if self._log is not None and isinstance(answer, NoAnswer):
                self._log.note_unused(keys[index], answer)
        if self._failing is not None:
            self._failing.raise_if_ended(len(keys) - sum(isinstance(answer, NoAnswer) for answer in answers))
        return self._with_unused(keys, answers)

    def _note_known(self, n_known: int, n_requests: int) -> None:
        if self._log is not None and n_known:
            _LOGGER.info("%d of %d requests are answered in %s; the rest is asked", n_known, n_requests, self._log.path)

    def _with_unused(self, keys: Sequence[LoggedRequest], answers: Sequence[Any]) -> list[Any]:
        """Return answers that know what an earlier process spent on replies to them that were none."""
        if self._log is None:
            return list(answers)
        return [with_calls(answer, self._log.take_unused(asked)) for asked, answer in zip(keys, answers, strict=True)]

    def tell(self, asked: LoggedRequest, answer: Any) -> None:
        """Keep an answer that the model has just given."""
        self._reported.add(self._identity(asked))
        self._keep(asked, self._counted(asked[0], asked, answer))

    def _identity(self, asked: LoggedRequest) -> str:
        return repr(asked) if self._log is None else self._log.name(asked)

    def _counted(self, method: str, asked: LoggedRequest, answer: Any) -> Any:
        """Return the answer of a model in this process with its tokens, as the model's own tokeniser counts them."""
        encode = None if self._failing is not None else getattr(self._model, "tok_encode", None)
        if method != "generate_until" or encode is None or type(answer) is not str:
            return answer
        prompt = getattr(asked[1][0], "prompt", asked[1][0])
        usage = {"input_tokens": len(encode(prompt)), "output_tokens": len(encode(answer)), "counted_by": "tokenizer"}
        return SystemAnswer(answer, None, usage)

    def _keep(self, request: LoggedRequest, answer: Any) -> None:
        if self._log is not None and not isinstance(answer, NoAnswer):
            self._log.record(request, answer)


def _logged(request: Instance) -> LoggedRequest:
    return "generate_until", request.args


class _Hook:
    """What the harness's models tell of each answer as it comes."""

    def __init__(self, kept: SavedAnswers) -> None:
        self._answers = kept

    def add_partial(self, method: str, arguments: Sequence[Any], answer: Any) -> None:
        self._answers.tell((method, tuple(arguments)), answer)


# The answers of an evaluation that is not finished: one SQLite file, written the moment an answer comes.
# The harness saves nothing before its last request is answered, so a server that fails in the middle, or a kill,
# would cost every answer. A second command finds here what was answered and asks the rest. What is kept is for that
# only: it goes once an evaluation is saved whole, so that no later one takes answers of a model that has changed
# since.

_ANSWERING_ONLY = frozenset(
    {"api_key", "auth_token", "batch_size", "ca_cert_path", "header", "max_batch_size", "max_retries"}
    | {"num_concurrent", "timeout", "verify_certificate", "slots", "api_key_env", "attempts", "timeout_seconds"}
    | {"patience_seconds", "requests_per_minute", "rate_limit_patience_seconds"}
)
"""Arguments of models that are secret, or say how requests travel: none changes an answer."""

LoggedRequest = tuple[str, Sequence[Any]]
"""(method of the model, arguments of one request)."""


class AnswerLog:
    """Answers by what decides them: the model, its arguments and address, its local files, prompt and options."""

    def __init__(self, path: Path, kind: str, arguments: Mapping[str, Any], *, is_lasting: bool = False) -> None:
        """Open the log of one model, and find out that it can be written."""
        self.path = path
        self._model = {"kind": kind, "arguments": _deciding(arguments)}
        self._is_lasting = is_lasting
        self._n_of: Counter[str] = Counter()
        self._keys: list[str] = []
        self._file: ReplyCache | None = None
        self._is_broken = False
        self._unused: dict[str, tuple[CallUsage, ...]] = {}
        self._names: dict[tuple[str, int], tuple[str, Sequence[Any]]] = {}
        check_reply_cache(path)

    def look_up(self, asked: Sequence[LoggedRequest], n_before: Counter[str] | None = None) -> list[Any]:
        """Return what was answered before, in order, None where nothing was.

        Requests in the same words are numbered: samples of one prompt are several answers. `n_before` is for requests
        that are looked up bit by bit, and goes on counting.
        """
        names = [self.name(one) for one in asked]
        if n_before is None:
            self._n_of, self._unused, n_before = Counter(), {}, Counter()
        answers = []
        with ReplyCache(self.path) if self._file is None else nullcontext(self._file) as cache:
            self._unused |= {name: calls for name in names if (calls := cache.unused(name))}
            for name in names:
                key = f"{name}-{n_before[name]}"
                n_before[name] += 1
                self._keys.append(key)
                found = cache.get(key)
                answers.append(
                    None if found is None or found.reply.text is None else answer_in(json.loads(found.reply.text))
                )
        self._n_of.update(name for name, answer in zip(names, answers, strict=True) if answer is not None)
        return answers

    def record(self, asked: LoggedRequest, answer: Any) -> None:
        """Keep an answer; a disk that is full by now is said once, and the evaluation goes on."""
        name = self.name(asked)
        key = f"{name}-{self._n_of[name]}"
        self._n_of[name] += 1
        request = {"method": asked[0], "arguments": _text(asked[1])}
        reply = CachedReply(key, request, Reply(Outcome.ANSWERED, text=json.dumps(as_json(answer))), asked[0])
        try:
            # Opened here and not before: an evaluation that ends takes an empty file away.
            if self._file is None:  # not by its truth: that counts all replies in it
                self._file = ReplyCache(self.path)
            self._file.put([reply])
        except CacheError as error:
            if not self._is_broken:
                _LOGGER.warning("further answers are held in memory only. %s", error)
            self._is_broken = True

    def take_unused(self, asked: LoggedRequest) -> tuple[CallUsage, ...]:
        """Return what replies to a request took in an earlier process that were no answer; each once."""
        return self._unused.pop(self.name(asked), ()) if self._unused else ()

    def note_unused(self, asked: LoggedRequest, answer: NoAnswer) -> None:
        """Keep what a reply took that is no answer."""
        if calls := [CallUsage(**call) for call in answer.usage.get("calls", ())]:
            with suppress(CacheError), ReplyCache(self.path) as cache:
                cache.note_unused(self.name(asked), calls)

    @property
    def n_found(self) -> int:
        """How many of the requests that were looked up have an answer here."""
        return self._n_of.total()

    def close(self) -> None:
        """Close the file; safe to repeat."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def finish(self) -> None:
        """Forget the answers of this evaluation, which is saved whole; a file without any other goes."""
        self.close()
        if self._is_lasting:
            return
        with ReplyCache(self.path) as cache:
            cache.forget([*self._keys, *(key.rpartition("-")[0] for key in self._keys)])
            is_empty = not len(cache)
        if is_empty:
            self.path.unlink(missing_ok=True)

    def name(self, asked: LoggedRequest) -> str:
        """Return the hash of everything that decides an answer; made once for arguments that are the same object."""
        method, arguments = asked
        if (method, id(arguments)) not in self._names:
            name = canonical_hash({"model": self._model, "method": method, "arguments": _text(arguments)})
            self._names[method, id(arguments)] = name, arguments  # held, so that its id stays its own
        return self._names[method, id(arguments)][0]


def _text(arguments: Sequence[Any]) -> str:
    """Return a request's arguments as JSON in ASCII, which holds half a character too.

    The harness wraps the messages of a chat in a type of its own.
    """
    return json.dumps([getattr(argument, "prompt", argument) for argument in arguments], sort_keys=True, default=str)


def _deciding(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model that decide its answers, as texts, with the state of local files."""
    deciding = {name: value for name, value in arguments.items() if name not in _ANSWERING_ONLY}
    return {name: [_without_login(str(value)), _state_of_files(str(value))] for name, value in deciding.items()}


def _without_login(text: str) -> str:
    """Return an address without user, password, query and fragment; any other text as it is."""
    if "://" not in text:
        return text
    parts = urlsplit(text)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _state_of_files(text: str) -> list[list[Any]]:
    """Return name, size and time of change of each file in a model's folder; empty where a text names none.

    A folder with results of the model, written to the folder that one is in, has its name too.
    """
    folder = Path(text)
    if not is_model_folder(folder):
        return []
    files = sorted(file for file in folder.iterdir() if file.is_file())
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]


# Requests to the model under test that fail: each is an answer that did not come, not the end of the evaluation.
# The harness gives up all requests with the first that used up its attempts, and takes a reply without text for an
# empty answer. Here a request that failed for good becomes a `NoAnswer` with its reason. Where nothing but failures
# comes, or the server refuses the caller, the rest is not asked, and the evaluation ends in one line.

_REFUSING_ALL = {
    401: "the server does not accept the key",
    402: "the account has no credit left",
    404: "the server does not know the model, or the address",
}
_WORTH_ANOTHER_ATTEMPT = frozenset({408, 409, 425, 429})
_IN_A_ROW = 20
"""Failures with no answer between them that end an evaluation."""

_BODIES = frozenset({"choices", "error"})  # what chat completions look like, and errors that come with status 200
_SKIPPED = "not asked: the evaluation ended before"
_BEGUN: ContextVar[float] = ContextVar("begun")  # when the request was sent whose reply is read next
_HAS_TOOLS: ContextVar[bool] = ContextVar("has_tools", default=False)  # whether it offered tools


def survive_failing_requests(model: LM) -> FailingRequests | None:
    """Return what watches a model behind HTTP from now on; None for any other model, which is left alone."""
    from lm_eval.models.api_models import TemplateAPI

    return FailingRequests(model) if isinstance(model, TemplateAPI) else None


class FailingRequests:
    """Stands before the three methods by which the harness's HTTP models send a request and read the reply."""

    def __init__(self, model: Any) -> None:
        """Put itself before the model's methods."""
        self._model = model
        self._send, self._send_async, self._read = model.model_call, model.amodel_call, model.parse_generations
        self._n_attempts = max(1, model.max_retries)
        self._waits = [min(2.0**number, 10.0) for number in range(self._n_attempts - 1)]
        self._failed: dict[int, int] = {}
        self._in_a_row = 0
        self._ended = ""
        model.model_call, model.amodel_call, model.parse_generations = self._call, self._acall, self._parse

    @property
    def has_slots(self) -> bool:
        """Whether the model sends several requests at a time, each with one prompt as text."""
        model = self._model
        return model._concurrent > 1 and model._batch_size == 1 and not model.tokenized_requests

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[Callable[[Instance], Awaitable[Any]]]:
        """Yield what sends one request and returns its answer, as the harness's own sending of many does."""
        from aiohttp import ClientSession, ClientTimeout, TCPConnector

        model = self._model
        slots = asyncio.Semaphore(model._concurrent)
        connector = TCPConnector(limit=model._concurrent, ssl=model.verify_certificate)
        async with ClientSession(connector=connector, timeout=ClientTimeout(total=model.timeout)) as session:

            async def send(request: Instance) -> Any:
                prompt, options = request.args
                given = {"messages": [prompt], "cache_keys": [request.args], "gen_kwargs": options}
                for seconds in self._waits:
                    with suppress(Exception):  # those that are not worth another attempt are no exceptions here
                        return (await model.amodel_call(session=session, sem=slots, **given))[0]
                    await asyncio.sleep(seconds)
                return (await model.amodel_call(session=session, sem=slots, **given))[0]

            yield send

    def raise_if_ended(self, n_answered: int) -> None:
        """Say that the rest was not asked."""
        if self._ended:
            raise ModelError(f"the model gives no more answers: {self._ended}; {n_answered} requests are answered")

    def _call(self, *args: Any, messages: Sequence[Any], generate: bool = True, **options: Any) -> Any:
        """Return the reply's body, or the reason why there is none; an error is for the harness to try again."""
        if not generate:
            return self._send(*args, messages=messages, generate=False, **options)
        if self._ended:
            return NoAnswer(_SKIPPED)
        _note_sending(options)
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
                return [NoAnswer(_SKIPPED)] * len(messages)
            _note_sending(options)
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
        calls = _tool_calls(outputs)
        if any(texts) or calls:
            self._in_a_row = 0
        n_prompts = len(contexts) if contexts is not None else len(texts)
        if calls:
            texts = [SystemAnswer(texts[0] or "", None, tool_calls=calls)]
        answers = _as_many([_answer(text, outputs, place) for place, text in enumerate(texts)], n_prompts)
        # Of several prompts in one request a server counts the tokens together: nobody knows whose they are.
        return [_with_usage(answers[0], outputs, time.monotonic() - _BEGUN.get())] if n_prompts == 1 else answers

    def _reason(self, messages: Sequence[Any], error: Exception) -> str:
        """Return why requests that will not be sent again have no answer."""
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


def _note_sending(options: Mapping[str, Any]) -> None:
    """Note, for the reading of its reply, when a request was sent and whether it offered tools."""
    _BEGUN.set(time.monotonic())
    _HAS_TOOLS.set("tools" in (options.get("gen_kwargs") or {}))


def _tool_calls(outputs: Any) -> list[Any]:
    """Return the calls in a reply to a request that offered tools."""
    calls = parts_of(outputs)[0].get("tool_calls") if _HAS_TOOLS.get() else None
    return calls if isinstance(calls, list) else []


def _with_usage(answer: str, outputs: Any, seconds: float) -> str:
    """Return an answer with what the server says that it took; as it is where the server says nothing."""
    counted = usage_in(outputs)
    if not counted:
        return answer
    reply = Reply(Outcome.ANSWERED, seconds=round(seconds, 4), **counted)
    calls = calls_of(reply, is_used=not isinstance(answer, NoAnswer))
    found: str = with_calls(answer, calls)
    return found


def _as_many(answers: Sequence[str], n_prompts: int) -> list[str]:
    """Return one answer a prompt: a server may leave choices out, and the harness would shift all that follow."""
    missing = [NoAnswer("the reply holds no choice")] * (n_prompts - len(answers))
    return [*answers[:n_prompts], *missing]


def _answer(text: str | None, outputs: Any, place: int) -> str:
    """Return the text of choice `place` of a reply, or why it is no answer; an empty text of the model is one."""
    _, choice, body = parts_of(outputs)
    choices = body.get("choices")
    if isinstance(choices, list):
        choice = next((item for item in choices if isinstance(item, dict) and item.get("index") == place), choice)
    if early := early_end({**body, "choices": [choice]}, offers_tools=_HAS_TOOLS.get()):
        return NoAnswer(early[1])
    if text or isinstance(text, SystemAnswer):
        return text
    if "text" in choice or not _BODIES & body.keys():
        return NoAnswer("the reply has no content") if text is None else text
    reply = read_completion(orjson.dumps(body))
    if text is None or reply.outcome in {Outcome.REFUSED, Outcome.MALFORMED}:
        return NoAnswer(reply.reason)
    return text


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


# Requests that follow from answers: each goes out as soon as what it rests on is there.

Take = Callable[[Sequence[tuple[Instance, Any]]], Sequence[Instance]]
"""(requests with their answers) -> the requests that follow."""


class _Flow:
    """One evaluation of a model behind HTTP whose requests follow from answers."""

    def __init__(self, answers: SavedAnswers, failing: FailingRequests, take: Take) -> None:
        self._saved, self._failing, self._take = answers, failing, take
        self._n_before: Counter[str] = Counter()
        self._requests: dict[asyncio.Task[Any], Instance] = {}
        self._finished: asyncio.Queue[asyncio.Task[Any]] = asyncio.Queue()

    async def run(self, requests: Sequence[Instance]) -> list[Any]:
        """Return all answers, in the order in which they came."""
        answers: list[Any] = []
        due = requests
        with progress_bars() as progress:
            async with self._failing.sending() as send:
                while due or self._requests:
                    answered = self._begin(due, send) or await self._arrived()
                    answers += [answer for _, answer in answered]
                    progress("asking the model", len(answers), len(answers) + len(self._requests))
                    # Searching takes time: in a thread of its own, so that free slots are filled meanwhile.
                    due = await asyncio.to_thread(self._take, answered)
        return answers

    def _begin(self, due: Sequence[Instance], send: Callable[[Instance], Awaitable[Any]]) -> list[tuple[Instance, Any]]:
        """Send what was not answered before, and return the rest with its answers."""
        found = self._saved.look_up(due, self._n_before) if due else []
        for request, answer in zip(due, found, strict=True):
            if answer is None:
                task = asyncio.ensure_future(send(request))
                self._requests[task] = request
                task.add_done_callback(self._finished.put_nowait)
        return [(request, answer) for request, answer in zip(due, found, strict=True) if answer is not None]

    async def _arrived(self) -> list[tuple[Instance, Any]]:
        """Return all requests that were answered since the last time, at least one."""
        tasks = [await self._finished.get()]
        while not self._finished.empty():
            tasks.append(self._finished.get_nowait())
        answered = [(self._requests.pop(task), task.result()) for task in tasks]
        return [(request, self._saved.settle(request, answer)) for request, answer in answered]


# What stands in the place of an answer that did not come.


class NoAnswer(str):
    """An empty text that knows why it is empty: the harness carries it like any answer, and no log keeps it."""

    __slots__ = ("reason", "usage")

    reason: str
    """Why there is no answer; holds no key and no address."""
    usage: Mapping[str, Any]
    """What it took all the same, as in `GivenAnswer`."""

    def __new__(cls, reason: str, usage: Mapping[str, Any] | None = None) -> NoAnswer:
        """Return the empty text with its reason."""
        made = super().__new__(cls, "")
        made.reason, made.usage = reason, usage or {}
        return made

    def __reduce__(self) -> tuple[type[NoAnswer], tuple[str, Mapping[str, Any]]]:
        """Return how it is made again in another process."""
        return NoAnswer, (self.reason, self.usage)


# An answer of a RAG system: a text, as the harness carries it, that knows the passages it rests on.


class SystemAnswer(str):
    """A text with the passages that its system used, which count in the place of the setting's, and what it took."""

    __slots__ = ("passages", "tool_calls", "usage")

    passages: tuple[Passage, ...] | None
    """What the system says that it used, in order; None where these are the setting's."""
    usage: Mapping[str, Any]
    """What it took, as in `GivenAnswer`."""
    tool_calls: Sequence[Any]
    """Calls of tools that came with the text, as an OpenAI-compatible server hands them over."""

    def __new__(
        cls,
        text: str,
        passages: Sequence[Passage] | None,
        usage: Mapping[str, Any] | None = None,
        tool_calls: Sequence[Any] = (),
    ) -> SystemAnswer:
        """Return the text with its passages."""
        made = super().__new__(cls, text)
        made.passages, made.usage = None if passages is None else tuple(passages), usage or {}
        made.tool_calls = tool_calls
        return made

    def __reduce__(self) -> tuple[type[SystemAnswer], tuple[Any, ...]]:
        """Return how it is made again, as the harness's own cache keeps answers."""
        return SystemAnswer, (str(self), self.passages, self.usage, self.tool_calls)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        found: dict[str, Any] = {"answer": str(self), **({"usage": dict(self.usage)} if self.usage else {})}
        if self.tool_calls:
            found["tool_calls"] = list(self.tool_calls)
        if self.passages is not None:
            rows = [{"id": item.passage_id, "title": item.title, "text": item.text} for item in self.passages]
            found["contexts"] = rows
        return found


def as_json(answer: Any) -> Any:
    """Return an answer of any model as JSON values."""
    return answer.as_json() if isinstance(answer, SystemAnswer) else answer


def answer_in(value: Any) -> Any:
    """Return the answer in JSON values, which an earlier process or call has paid for."""
    if not isinstance(value, dict):
        return value
    passages = contexts_in(value["contexts"]) if "contexts" in value else None
    return SystemAnswer(value["answer"], passages, paid_before(value.get("usage", {})), value.get("tool_calls", ()))


def paid_before(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an answer took that was given before."""
    calls = [{**call, "spent": Spent.BEFORE.value} for call in usage.get("calls", ())]
    return {**usage, **({"calls": calls} if calls else {})}


def with_calls(answer: Any, calls: Sequence[CallUsage]) -> Any:
    """Return an answer that knows what replies took that came before it."""
    earlier = [call.json_values for call in calls]
    if not earlier or not isinstance(answer, str):
        return answer
    usage = dict(getattr(answer, "usage", {}))
    usage["calls"] = [*earlier, *usage.get("calls", ())]
    if isinstance(answer, NoAnswer):
        return NoAnswer(answer.reason, usage)
    return SystemAnswer(str(answer), getattr(answer, "passages", None), usage, getattr(answer, "tool_calls", ()))
