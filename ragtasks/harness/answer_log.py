"""The answers of an evaluation that is not finished: one SQLite file, written the moment an answer comes.

The harness saves nothing before its last request is answered, so a server that fails in the middle, or a kill, would
cost every answer. The next command finds the answers here and requests the rest. They are deleted once the evaluation
is saved, so that no later one takes answers of a model that has changed since.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ragtasks.clients import CachedReply, CallUsage, Outcome, Reply, ReplyCache, check_reply_cache
from ragtasks.errors import CacheError
from ragtasks.files import canonical_hash, is_model_folder
from ragtasks.harness.answers import NoAnswer, answer_in, as_json

_LOGGER = logging.getLogger(__name__)

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
                cache.end(self.name(asked), calls=calls)

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
