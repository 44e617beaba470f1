"""Questions to a model in files that a batch service answers for half the price, and its replies taken in again.

A folder holds it all: `*.requests.jsonl`, which are written here in the form of OpenAI's batch API, and whatever other
`.jsonl` files the service gave back. A request's `custom_id` is the key under which the reply cache keeps its reply, so
that nothing else says which reply belongs where. What was requested, and how often, is counted in these files alone:
after any interruption the same call goes on. Who brings the files to the service is the user, or `_batch_service.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NoReturn

import orjson

from ragtasks.clients._batch_service import REQUESTS, Step, ids_in, record_of, send
from ragtasks.clients._openai_client import OpenAIClient
from ragtasks.clients._openai_dialect import CHAT, read_completion
from ragtasks.clients._protocol import Chain, Journal, Outcome, Progress, Prompt, Reply, no_progress
from ragtasks.clients._reply_cache import reply_key
from ragtasks.errors import ConfigurationError, JudgeError, RagtasksError
from ragtasks.files import Problems, json_lines, write_atomically

MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000
"""Limits of one file of OpenAI's batch API."""
_FILTER = "content_filter"
_MOST_LISTED = 5
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")
_WAITING = Reply(Outcome.FAILED, reason="the question waits for its batch")


class BatchWaits(RagtasksError):  # noqa: N818 (no error: the work goes on once the replies are there)
    """Questions wait for replies of a batch service, so nothing is scored."""


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a reply file."""

    where: str
    reply: Reply | None
    """None where the service failed."""
    reason: str = ""


@dataclass(slots=True)
class _Pending:
    """One question without a reply."""

    model: str
    line: bytes = field(repr=False)


class Batch:
    """The questions of one scoring, as files of a folder."""

    def __init__(self, folder: Path, *, is_sent: bool = False) -> None:
        """Read what was requested and what came back; `is_sent` where the files go to the service from here.

        Raises:
            BenchmarkFileError: a file that is no such file, or a reply to something that was not requested here.
            ConfigurationError: the path is a file.
        """
        if folder.exists() and not folder.is_dir():
            raise ConfigurationError(
                f"--batch {folder} is a file. Next step: name a folder, which need not exist: requests are written "
                "to it, and the replies of the service go there"
            )
        self.folder, self.is_sent = folder, is_sent
        self._clients: dict[str, OpenAIClient] = {}
        self._requested: Counter[str] = Counter()
        self._lines: dict[str, list[_Line]] = {}
        self._pending: dict[str, _Pending] = {}
        self._failed: dict[str, _Line] = {}
        self._is_open = True
        files = sorted(folder.glob("*.jsonl")) if folder.is_dir() else []
        self._request_files = [file for file in files if file.name.endswith(REQUESTS)]
        for file in self._request_files:
            self._requested.update(key for key, _ in _rows(file, "batch requests", "body"))
        for file in files:
            if file not in self._request_files:
                self._take(file)

    def _take(self, file: Path) -> None:
        problems = Problems(
            file,
            "batch replies",
            f"keep in {self.folder} only what the service gave back for the request files there; a file of a service's "
            "other answers goes elsewhere",
        )
        for number, row in json_lines(problems):
            key = row.get("custom_id")
            if not isinstance(key, str) or not {"response", "error"} & row.keys():
                problems.add(number, "a reply with `custom_id` and `response` or `error`", row)
            elif key not in self._requested:
                problems.add(number, "the custom_id of a request in this folder", key)
            else:
                reply, reason = _reply_in(row)
                self._lines.setdefault(key, []).append(_Line(f"{file}, line {number}", reply, reason))
        problems.raise_if_any()

    def __call__(self, model: object) -> NoReturn:
        """Refuse a model of this process, as what loads judges would be called for one."""
        raise ConfigurationError(
            f"--batch: the judge {getattr(model, 'model', model)} is a model of this process, which no batch service "
            "answers. Next step: leave --batch out"
        )

    def client(self, client: OpenAIClient) -> BatchClient:
        """Return what answers from the folder's replies in the place of an endpoint."""
        self._clients[client.name] = client
        return BatchClient(self, client)

    def reply_to(self, client: OpenAIClient, prompt: Prompt) -> Reply:
        """Return the folder's reply, or that the question waits for one: it is then among those to be requested."""
        key = reply_key(client, prompt)
        for line in self._lines.get(key, ()):
            if line.reply is not None:
                return line.reply
        request = {"custom_id": key, "method": "POST", "url": f"/v1{CHAT.path}", "body": client.request(prompt)}
        self._pending[key] = _Pending(client.name, orjson.dumps(request) + b"\n")
        return _WAITING

    def require_replies(self) -> None:
        """Return where every question has its reply; until `close` has said so, end what asks them.

        Raises:
            BatchWaits: nothing can be scored yet.
        """
        if self._is_open or self._pending:
            raise BatchWaits("questions to judges wait for their batch")

    def close(self) -> list[str]:
        """Write the questions that no file requests; return what to do next, [] where every question has its reply."""
        self._is_open = False
        if not self._pending:
            return []
        new = {
            key: pending
            for key, pending in self._pending.items()
            if self._requested[key] <= len(self._lines.get(key, ()))
        }
        self._failed = {key: self._lines[key][-1] for key in new if key in self._lines}
        models = dict.fromkeys(item.model for item in new.values())
        written = [file for model in models for file in self._write(model, new)]
        return list(self._next_steps(len(new), written, [*self._failed.values()]))

    def send(self, asked_again: frozenset[str], show: Step, say: Callable[[str], None]) -> frozenset[str]:
        """Have the service answer what `close` found without a reply; return what was asked again by now.

        Where one of `asked_again`, which an earlier call returned, has failed once more, nothing is sent.

        Raises:
            JudgeError: questions that the service failed to answer twice; batches that ended badly.
        """
        if twice := [key for key in self._failed if key in asked_again]:
            reasons = Counter(self._lines[key][-1].reason for key in twice).most_common(_MOST_LISTED)
            raise JudgeError(
                "batch",
                where=str(self.folder),
                expected="a reply to each question, at the second time at the latest",
                found=f"{len(twice):,} that failed twice: " + "; ".join(f"{n:,} times {why}" for why, n in reasons),
                next_step="where the service does not take a setting, leave it out in the judge's object "
                "(docs/endpoints.md); then give the same command again, which asks these once more",
            )
        send(self._files_in_need(), show, say)
        return asked_again | self._failed.keys()

    def _files_in_need(self) -> dict[Path, OpenAIClient]:
        """Return the request files whose replies are needed and not here, with who answers them."""
        n_replies = Counter({key: len(lines) for key, lines in self._lines.items()})
        files = {}
        for file in self._request_files:
            keys = ids_in(file.read_bytes())
            waiting = [key for key in keys if not n_replies[key]]
            n_replies.subtract(set(keys) - set(waiting))
            if needed := [key for key in waiting if key in self._pending]:
                if len(waiting) < len(keys) and not record_of(file).exists():
                    raise self._sent_by_hand(file, len(keys) - len(waiting), len(keys))
                files[file] = self._clients[self._pending[needed[0]].model]
        return files

    def _sent_by_hand(self, file: Path, n_replies: int, n_requests: int) -> ConfigurationError:
        return ConfigurationError(
            "batch",
            where=str(file),
            expected="a file that no service has answered yet, or one that --send sent",
            found=f"replies to {n_replies:,} of its {n_requests:,} requests, which came by another way",
            next_step="put the rest of what the service gave back (its error file) into the folder, or "
            "leave --send out",
        )

    def _write(self, model: str, new: Mapping[str, _Pending]) -> Iterator[Path]:
        """Write the requests to one model: as few files as the limits allow, each whole or not at all."""
        part: list[bytes] = []
        size = 0
        for line in [*(item.line for item in new.values() if item.model == model), None]:
            if part and (line is None or len(part) >= MOST_REQUESTS or size + len(line) > MOST_BYTES):
                file = self._next_file(model)
                write_atomically(file, b"".join(part))
                self._request_files.append(file)
                yield file
                part, size = [], 0
            if line is not None:
                part.append(line)
                size += len(line)

    def _next_file(self, model: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        files = (self.folder / f"{_stem(model)}-{number:03d}{REQUESTS}" for number in count(1))
        return next(file for file in files if not file.exists())

    def _next_steps(self, n_new: int, written: Sequence[Path], failed: Sequence[_Line]) -> Iterator[str]:
        n_waiting = len(self._pending) - n_new
        yield f"not scored yet: {len(self._pending):,} questions to judges have no reply."
        if failed:
            yield f"{len(failed):,} came back without a reply, and are asked again:"
            yield from (f"  {line.where}: {line.reason}" for line in failed[:_MOST_LISTED])
            if len(failed) > _MOST_LISTED:
                yield f"  and {len(failed) - _MOST_LISTED:,} more"
        for file in written:
            content = file.read_bytes()
            yield f"wrote {file} ({content.count(10):,} requests, {len(content) / 1e6:.2g} MB)"
        if self.is_sent:
            return
        if n_waiting:
            yield (
                f"{n_waiting:,} stand in request files of {self.folder} that were written before. A file whose replies "
                "are lost may be deleted: its questions are then requested again"
            )
        yield (
            "next: have the service answer the request files, put its output and error files into "
            f"{self.folder}, and give the same command again; with --send all of that is done here"
        )


class BatchClient:
    """A client that asks nobody: it answers from the replies of a batch, and notes what has none."""

    def __init__(self, batch: Batch, client: OpenAIClient) -> None:
        """Take the folder and the endpoint that its requests are meant for."""
        self._batch, self._client = batch, client

    @property
    def name(self) -> str:
        """The model, as the endpoint was named."""
        return self._client.name

    @property
    def origin(self) -> str:
        """What replies are kept by: they are the endpoint's own, whichever way they came."""
        return self._client.origin

    def describe(self) -> Mapping[str, Any]:
        """Return what the endpoint's client describes."""
        return self._client.describe()

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply a prompt, in order: the folder's, or FAILED for one that waits."""
        replies = []
        for index, first in enumerate(prompts):
            prompt: Prompt | None = first
            reply = _WAITING
            while prompt is not None:
                found = journal.recall(index) if journal else None
                reply = found or self._batch.reply_to(self._client, prompt)
                if journal and found is None:
                    journal.record(index, reply)
                prompt = journal.following(index) if isinstance(journal, Chain) else None
            replies.append(reply)
            progress(self.name, len(replies), len(prompts))
        return replies


def _stem(model: str) -> str:
    """Return what the names of a model's files begin with."""
    return _NOT_IN_NAMES.sub("-", model).strip("-.") or "judge"


def _rows(file: Path, what: str, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    problems = Problems(file, what, "correct the file, or delete it: what it requests is then requested again")
    for number, row in json_lines(problems):
        if isinstance(row.get("custom_id"), str) and key in row:
            yield row["custom_id"], row
        else:
            problems.add(number, f"a request with `custom_id` and `{key}`", row)
    problems.raise_if_any()


def _reply_in(row: Mapping[str, Any]) -> tuple[Reply | None, str]:
    """Return the reply of a line, or None and why the service gave none."""
    response = row.get("response")
    response = response if isinstance(response, dict) else {}
    body = response.get("body")
    if response.get("status_code") == 200 and isinstance(body, dict):
        reply = read_completion(orjson.dumps(body))
        return (None, reply.reason) if reply.outcome is Outcome.FAILED else (reply, "")
    error = row.get("error") or (body.get("error") if isinstance(body, dict) else None)
    error = error if isinstance(error, dict) else {}
    said = " ".join(str(error[name]) for name in ("code", "message") if isinstance(error.get(name), str | int))
    reason = " ".join(filter(None, [f"HTTP {response['status_code']}" if "status_code" in response else "", said]))
    if error.get("code") == _FILTER:
        return Reply(Outcome.FILTERED, reason=f"a content filter stopped the prompt ({reason})"), ""
    return None, reason or "neither a reply nor a reason"
