"""The answers of an evaluation that is not finished: one SQLite file, written the moment an answer comes.

The harness saves nothing before its last request is answered, so a server that fails in the middle, or a kill, would
cost every answer. A second command finds here what was answered and asks the rest. What is kept is for that only: it
goes once an evaluation is saved whole, so that no later one takes answers of a model that has changed since.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ragtasks.clients import Kept, Outcome, Reply, ReplyCache, check_reply_cache
from ragtasks.errors import CacheError
from ragtasks.files import canonical_hash
from ragtasks.harness.answering._system_answer import as_kept, from_kept

_LOGGER = logging.getLogger(__name__)
_ANSWERING_ONLY = frozenset(
    {"api_key", "auth_token", "batch_size", "ca_cert_path", "header", "max_batch_size", "max_retries"}
    | {"num_concurrent", "timeout", "verify_certificate", "slots", "api_key_env", "attempts", "timeout_seconds"}
    | {"patience_seconds", "requests_per_minute", "rate_limit_patience_seconds"}
)
"""Arguments of models that are secret, or say how requests travel: none changes an answer."""

Asked = tuple[str, Sequence[Any]]
"""(method of the model, arguments of one request)."""


class AnswerLog:
    """Answers by what decides them: the model, its arguments and address, its local files, prompt and options."""

    def __init__(self, path: Path, kind: str, arguments: Mapping[str, Any], *, is_lasting: bool = False) -> None:
        """Open the log of one model, and find out that it can be written.

        Args:
            path: the file; several models and processes may share it.
            kind: the harness's name of the model's kind.
            arguments: as after `--model_args`. Nothing of them is written.
            is_lasting: whether answers stay when the evaluation is saved.

        Raises:
            CacheError: the file cannot be used.
        """
        self.path = path
        self._model = {"kind": kind, "arguments": _deciding(arguments)}
        self._is_lasting = is_lasting
        self._n_of: Counter[str] = Counter()
        self._keys: list[str] = []
        self._file: ReplyCache | None = None
        self._is_broken = False
        check_reply_cache(path)

    def look_up(self, asked: Sequence[Asked]) -> list[Any]:
        """Return what was answered before, in order, None where nothing was.

        Requests in the same words are numbered: samples of one prompt are several answers.

        Raises:
            CacheError: the file is corrupt.
        """
        names = [self._name(method, arguments) for method, arguments in asked]
        n_before: Counter[str] = Counter()
        known = []
        with ReplyCache(self.path) as kept:
            for name in names:
                key = f"{name}-{n_before[name]}"
                n_before[name] += 1
                self._keys.append(key)
                found = kept.get(key)
                known.append(
                    None if found is None or found.reply.text is None else from_kept(json.loads(found.reply.text))
                )
        self._n_of = Counter(name for name, answer in zip(names, known, strict=True) if answer is not None)
        return known

    def record(self, asked: Asked, answer: Any) -> None:
        """Keep an answer; a disk that is full by now is said once, and the evaluation goes on."""
        name = self._name(*asked)
        key = f"{name}-{self._n_of[name]}"
        self._n_of[name] += 1
        request = {"method": asked[0], "arguments": _text(asked[1])}
        kept = Kept(key, request, Reply(Outcome.ANSWERED, text=json.dumps(as_kept(answer))), asked[0])
        try:
            # Opened here and not before: an evaluation that ends takes an empty file away.
            self._file = self._file or ReplyCache(self.path)
            self._file.put([kept])
        except CacheError as error:
            if not self._is_broken:
                _LOGGER.warning("the answers from here on are kept in memory only. %s", error)
            self._is_broken = True

    @property
    def n_kept(self) -> int:
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
        with ReplyCache(self.path) as kept:
            kept.forget(self._keys)
            is_empty = not len(kept)
        if is_empty:
            self.path.unlink(missing_ok=True)

    def _name(self, method: str, arguments: Sequence[Any]) -> str:
        return canonical_hash({"model": self._model, "method": method, "arguments": _text(arguments)})


def _text(arguments: Sequence[Any]) -> str:
    """Return a request's arguments as JSON in ASCII, which holds half a character too.

    The harness wraps the messages of a chat in a type of its own.
    """
    return json.dumps([getattr(argument, "prompt", argument) for argument in arguments], sort_keys=True, default=str)


def _deciding(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a model that decide its answers, as texts, with the state of local files."""
    kept = {name: value for name, value in arguments.items() if name not in _ANSWERING_ONLY}
    return {name: [_without_login(str(value)), _state_of_files(str(value))] for name, value in kept.items()}


def _without_login(text: str) -> str:
    """Return an address without user, password, query and fragment; any other text as it is."""
    if "://" not in text:
        return text
    parts = urlsplit(text)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _state_of_files(text: str) -> list[list[Any]]:
    """Return name, size and time of change of each file in a local folder; empty where a text names none."""
    folder = Path(text)
    if not folder.is_dir():
        return []
    files = sorted(file for file in folder.iterdir() if file.is_file())
    return [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]


__all__ = ["AnswerLog", "Asked"]
