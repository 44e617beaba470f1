"""Answers of an unfinished evaluation: one SQLite file, written as each answer arrives.

The harness saves nothing before its last request, so a failing server or a killed process would lose every answer. The
next run reads the answers from this file and requests the remaining ones. The answers are deleted after the results are
saved, so that no later run uses answers of a model that has changed since. With `--use_cache`, they are kept.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from ragtasks.clients import CachedReply, CallUsage, Outcome, Reply, ReplyCache, check_reply_cache, without_login
from ragtasks.errors import CacheError
from ragtasks.files import canonical_hash, is_model_folder
from ragtasks.harness.answers import NoAnswer, answer_in, as_json

_LOGGER = logging.getLogger(__name__)

_TRANSPORT_ARGUMENTS = frozenset(
    {"api_key", "auth_token", "batch_size", "ca_cert_path", "header", "max_batch_size", "max_retries"}
    | {"num_concurrent", "timeout", "verify_certificate", "slots", "api_key_env", "attempts", "timeout_seconds"}
    | {"patience_seconds", "requests_per_minute", "rate_limit_patience_seconds"}
)
"""Secret arguments and arguments of the transport. They do not affect an answer."""

LoggedRequest = tuple[str, Sequence[Any]]
"""(method of the model, arguments of one request)."""


class AnswerLog:
    """Saved answers, keyed by model, arguments, address, local files, prompt and options."""

    def __init__(self, path: Path, model_type: str, arguments: Mapping[str, Any], *, is_lasting: bool = False) -> None:
        """Open the log of one model and check that it is writable. `is_lasting` keeps the answers after `finish`."""
        self.path = path
        self._model = {"kind": model_type, "arguments": _relevant_arguments(arguments)}
        self._is_lasting = is_lasting
        self._n_of: Counter[str] = Counter()
        self._keys: list[str] = []
        self._file: ReplyCache | None = None
        self._is_broken = False
        self._unused: dict[str, tuple[CallUsage, ...]] = {}
        self._names: dict[tuple[str, int], tuple[str, Sequence[Any]]] = {}
        check_reply_cache(path)

    def look_up(self, requests: Sequence[LoggedRequest], n_before: Counter[str] | None = None) -> list[Any]:
        """Return the saved answers in order, with None for missing ones.

        Identical requests are numbered, because several samples of one prompt are different answers. `n_before` counts
        them across calls for requests that are looked up in parts.
        """
        names = [self.name(request) for request in requests]
        if n_before is None:
            self._n_of, self._unused, n_before = Counter(), {}, Counter()
        answers = []
        with ReplyCache(self.path) if self._file is None else nullcontext(self._file) as cache:
            self._unused |= {name: calls for name in names if (calls := cache.unused(name))}
            for name in names:
                key = f"{name}-{n_before[name]}"
                n_before[name] += 1
                self._keys.append(key)
                cached = cache.get(key)
                answers.append(
                    None if cached is None or cached.reply.text is None else answer_in(json.loads(cached.reply.text))
                )
        self._n_of.update(name for name, answer in zip(names, answers, strict=True) if answer is not None)
        return answers

    def record(self, logged: LoggedRequest, answer: Any) -> None:
        """Save an answer. If the disk is full, one warning is logged and the evaluation continues."""
        name = self.name(logged)
        key = f"{name}-{self._n_of[name]}"
        self._n_of[name] += 1
        request = {"method": logged[0], "arguments": _text(logged[1])}
        reply = CachedReply(key, request, Reply(Outcome.ANSWERED, text=json.dumps(as_json(answer))), logged[0])
        try:
            # Opened on first use, because an unused file would have to be deleted at the end.
            if self._file is None:  # not `if not self._file`: its length is the number of replies
                self._file = ReplyCache(self.path)
            self._file.put([reply])
        except CacheError as error:
            if not self._is_broken:
                _LOGGER.warning("further answers are kept in memory only. %s", error)
            self._is_broken = True

    def take_unused(self, request: LoggedRequest) -> tuple[CallUsage, ...]:
        """Return the usage of unusable replies to a request in earlier processes, each once."""
        return self._unused.pop(self.name(request), ()) if self._unused else ()

    def record_unused(self, request: LoggedRequest, answer: NoAnswer) -> None:
        """Save the usage of a reply without an answer."""
        if calls := [CallUsage(**call) for call in answer.usage.get("calls", ())]:
            with suppress(CacheError), ReplyCache(self.path) as cache:
                cache.end(self.name(request), calls=calls)

    @property
    def n_saved(self) -> int:
        """Number of requests with a saved answer, among those looked up or recorded so far."""
        return self._n_of.total()

    def close(self) -> None:
        """Close the file; may be called repeatedly."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def finish(self) -> None:
        """Delete the answers of this evaluation after its results are saved, and the file if it is empty.

        A lasting log is only closed.
        """
        self.close()
        if self._is_lasting:
            return
        with ReplyCache(self.path) as cache:
            cache.forget([*self._keys, *(key.rpartition("-")[0] for key in self._keys)])
            is_empty = not len(cache)
        if is_empty:
            self.path.unlink(missing_ok=True)

    def name(self, request: LoggedRequest) -> str:
        """Return the hash of everything that affects an answer, cached by the identity of the arguments."""
        method, arguments = request
        if (method, id(arguments)) not in self._names:
            name = canonical_hash({"model": self._model, "method": method, "arguments": _text(arguments)})
            self._names[method, id(arguments)] = name, arguments  # the reference prevents reuse of the id
        return self._names[method, id(arguments)][0]


def _text(arguments: Sequence[Any]) -> str:
    """Return the arguments of a request as JSON, with chat messages unwrapped from the harness's type.

    The JSON is ASCII, because UTF-8 cannot encode half of a surrogate pair.
    """
    return json.dumps([getattr(argument, "prompt", argument) for argument in arguments], sort_keys=True, default=str)


def _relevant_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model that affect its answers, as text, with the state of local files."""
    relevant = {name: value for name, value in arguments.items() if name not in _TRANSPORT_ARGUMENTS}
    return {name: [without_login(str(value)), _state_of_files(str(value))] for name, value in relevant.items()}


def _state_of_files(text: str) -> list[list[Any]]:
    """Return name, size and modification time of each file in a model folder; empty for any other text.

    A results folder that is named like a model is not a model folder.
    """
    folder = Path(text)
    if not is_model_folder(folder):
        return []
    files = sorted(file for file in folder.iterdir() if file.is_file())
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]
