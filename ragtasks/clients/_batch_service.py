"""Request files sent to a service that has OpenAI's Files and Batches API, waited for, and the replies fetched.

Beside `NAME.requests.jsonl` stands `NAME.batch.json`: what the service has of it. It is written before the one request
that costs money. A call that was killed in the middle of that request looks for its batch at the service, by the
uploaded file, before it sends another.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import orjson
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from ragtasks.clients._endpoint import Endpoint
from ragtasks.clients._openai_client import (
    Failure,
    OpenAIClient,
    Transport,
    Verdict,
    failure_of,
    redacted,
    require_libraries,
    run_async,
)
from ragtasks.clients._openai_dialect import CHAT
from ragtasks.errors import CacheError, ConfigurationError, JudgeError, misfits
from ragtasks.files import write_atomically

Step = Callable[[str, int, int | None], None]
"""What is done, how much, of how much or None."""
REQUESTS = ".requests.jsonl"
_T = TypeVar("_T")
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_FIRST_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 1.0, 60.0
_SEEN_SECONDS = 60.0  # by then a service lists a batch whose creation it took on
_DAY_SECONDS = 86_400.0
_MOST_LISTED = 5


class _Record(BaseModel):
    """What a service has of one request file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str
    sha256: str
    file: str
    creating: float | None = None
    """When a batch of it was last asked for; None before that."""
    batch: str | None = None
    """Its id; None where the reply was not seen."""


def record_of(file: Path) -> Path:
    """Return where it is written what the service has of a request file."""
    return file.with_name(f"{file.name.removesuffix(REQUESTS)}.batch.json")


def send(files: Mapping[Path, OpenAIClient], show: Step, say: Callable[[str], None]) -> None:
    """Send the request files that no service has yet, wait for all, and write their replies beside them.

    Raises:
        ConfigurationError: a service without these files, no key, or another command at work in the folder.
        JudgeError: a service that cannot be reached, or batches that failed, expired or were cancelled.
    """
    if not files:
        return
    require_libraries()
    lock = FileLock(next(iter(files)).parent / ".lock")
    try:
        with lock.acquire(timeout=0):
            problems = run_async(lambda: _send_all(files, show, say))
    except Timeout:
        raise ConfigurationError(
            f"--batch {next(iter(files)).parent}: another command sends the requests of this folder. Next step: let it "
            "end, or end it and give this one again"
        ) from None
    if problems:
        raise JudgeError("\n".join(problems))


def _check(endpoint: Endpoint) -> None:
    if endpoint.api_version is not None:
        raise ConfigurationError(
            f"--send: {endpoint.model} is a deployment of Azure, whose batches go another way. Next step: leave --send "
            "out, and hand the request files in there"
        )


async def _send_all(files: Mapping[Path, OpenAIClient], show: Step, say: Callable[[str], None]) -> list[str]:
    """Return what went wrong with whole batches, once each has ended and its replies are here."""
    async with AsyncExitStack() as stack:
        sent = []
        for file, client in files.items():
            transport = client.transport()
            _check(transport.endpoint)
            sent.append(_Sent(file, await stack.enter_async_context(transport), show, say))
        for one in sent:
            await one.begin()
        return [problem for problem in await asyncio.gather(*(one.end() for one in sent)) if problem]


class _Sent:
    """One request file at its service."""

    def __init__(self, file: Path, transport: Transport, show: Step, say: Callable[[str], None]) -> None:
        self._file, self._transport, self._show, self._say = file, transport, show, say
        self._name = file.name.removesuffix(REQUESTS)
        self._record_file = record_of(file)
        self._content = file.read_bytes()
        self._hash = hashlib.sha256(self._content).hexdigest()
        self._address = transport.endpoint.address
        self._record = self._read()

    def _read(self) -> _Record | None:
        """Return what was written down of the file; None where it was never uploaded."""
        if not self._record_file.exists():
            return None
        found = ""
        try:
            record = _Record.model_validate_json(self._record_file.read_bytes())
        except ValidationError as error:
            found = "; ".join(misfits(error))
        else:
            if (record.address, record.sha256) == (self._address, self._hash):
                return record
            found = f"one of {record.address}" if record.address != self._address else "one of another content"
        raise CacheError(
            "batch",
            where=str(self._record_file),
            expected=f"what {self._address} has of {self._file.name} as it lies here",
            found=found,
            next_step=f"restore both files, or name another folder; without {self._record_file.name} the requests are "
            "sent, and paid, again",
        )

    def _save(self, record: _Record) -> _Record:
        write_atomically(self._record_file, record.model_dump_json(indent=1).encode() + b"\n")
        self._record = record
        return record

    async def begin(self) -> None:
        """Have the service take the file on, if it has not yet."""
        record = self._record
        if record is None:
            sdk = self._transport.sdk
            name = self._file.name
            uploaded = await self._call(lambda: sdk.files.create(file=(name, self._content), purpose="batch"))
            record = self._save(_Record(address=self._address, sha256=self._hash, file=uploaded.id))
        if record.batch is None:
            batch = await self._create(record)
            self._save((self._record or record).model_copy(update={"batch": batch.id}))
            self._say(f"sent {self._file} as {batch.id} ({self._content.count(10):,} requests)")

    async def _create(self, record: _Record) -> Any:
        """Return the batch of the uploaded file: one that is there, else a new one."""
        asked, n_tried = record.creating, 0
        while True:
            if asked is not None and (found := await self._find(asked)):
                return found
            if asked is not None and 0 <= time.time() - asked < _SEEN_SECONDS:
                self._show(f"{self._name}\tlooking whether the service has it already", 0, None)
                await asyncio.sleep(min(_FIRST_LOOK_SECONDS, _SEEN_SECONDS))
                continue
            asked = time.time()
            record = self._save(record.model_copy(update={"creating": asked}))
            n_tried += 1
            try:
                return await self._transport.sdk.batches.create(
                    input_file_id=record.file, endpoint=f"/v1{CHAT.path}", completion_window="24h"
                )
            except Exception as error:  # noqa: BLE001 (whether the service took it on is looked up)
                failure = failure_of(error, self._transport.credentials)
            if failure.verdict is Verdict.SLOW_DOWN:  # it was not taken on
                asked = None
                await asyncio.sleep(self._pause(failure, n_tried))
            if failure.verdict not in _WORTH_A_TRY or n_tried >= self._transport.endpoint.attempts:
                raise self._unusable(failure.reason)

    async def _find(self, asked: float) -> Any:
        """Return the service's batch of the uploaded file, None where it lists none; the newest are listed first."""
        assert self._record is not None
        file = self._record.file

        async def listed() -> Any:
            async for batch in self._transport.sdk.batches.list(limit=100):
                if batch.input_file_id == file:
                    return batch
                if batch.created_at < asked - _DAY_SECONDS:
                    break
            return None

        return await self._call(listed)

    async def end(self) -> str:
        """Wait until the batch has ended, and take its replies; return what went wrong with it as a whole, else ""."""
        batch = await self._ended()
        where = f"{self._file}: batch {batch.id} at {self._address}"
        if batch.status == "failed":  # the service refused the file, and answered none of it
            self._record_file.unlink()
            return (
                f"{where} failed, as the service refused the file: {self._errors_of(batch)}. Next step: once that is "
                "solved, give the same command again, which sends the file anew"
            )
        n_replies, n_open = await self._take(batch)
        self._say(f"{batch.id} {batch.status}: {n_replies:,} replies")
        if batch.status == "completed" or not n_open:
            return ""
        return (
            f"{where} {_ENDINGS[batch.status]} with {n_open:,} of its requests unanswered; the {n_replies:,} replies "
            "that came are in the folder. Next step: give the same command again, which sends only what is missing"
        )

    async def _ended(self) -> Any:
        """Return the batch once it has ended; a service that is away for a while is waited for."""
        assert self._record is not None
        pause, away_since = _FIRST_LOOK_SECONDS, None
        while True:
            try:
                batch = await self._transport.sdk.batches.retrieve(self._record.batch)
            except Exception as error:  # noqa: BLE001 (looking again costs nothing)
                failure = failure_of(error, self._transport.credentials)
                away_since = away_since or time.monotonic()
                patience = self._transport.endpoint.rate_limit_patience_seconds
                if failure.verdict not in _WORTH_A_TRY or time.monotonic() - away_since > patience:
                    raise self._unusable(failure.reason, batch=self._record.batch) from None
                self._show(f"{self._name}\t{failure.reason}", 0, self._content.count(10))
            else:
                away_since = None
                counts = batch.request_counts
                done = 0 if counts is None else counts.completed + counts.failed
                self._show(f"{self._name}\t{batch.status}", done, self._content.count(10))
                if batch.status in _ENDED:
                    return batch
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_LOOK_SECONDS)

    async def _take(self, batch: Any) -> tuple[int, int]:
        """Write what the service answered, and a line for each request that it did not; return how many of both."""
        answered = await self._content_of(batch.output_file_id)
        failed = await self._content_of(batch.error_file_id)
        requested, replied = ids_in(self._content), set(ids_in(answered))
        there = replied.union(ids_in(failed))
        error = {"code": f"batch_{batch.status}", "message": "the batch ended without an answer"}
        open_lines = [{"custom_id": key, "response": None, "error": error} for key in requested if key not in there]
        failed += b"".join(orjson.dumps(line) + b"\n" for line in open_lines)
        for kind, content in (("output", answered), ("errors", failed)):
            if content:
                write_atomically(self._file.with_name(f"{self._name}.{kind}.jsonl"), content)
        return len(replied), len(requested) - len(replied)

    async def _content_of(self, file: str | None) -> bytes:
        if file is None:
            return b""
        content = await self._call(lambda: self._transport.sdk.files.content(file))
        body = self._transport.credentials.without_key(content.content)
        return body if not body or body.endswith(b"\n") else body + b"\n"

    async def _call(self, request: Callable[[], Awaitable[_T]]) -> _T:
        """Return what a request brings, after as many attempts as the endpoint allows; none of these costs money."""
        n_tried = 0
        while True:
            try:
                return await request()
            except Exception as error:  # noqa: BLE001 (all that a transport can raise)
                failure = failure_of(error, self._transport.credentials)
            n_tried += 1
            if failure.verdict not in _WORTH_A_TRY or n_tried >= self._transport.endpoint.attempts:
                raise self._unusable(failure.reason)
            await asyncio.sleep(self._pause(failure, n_tried))

    def _pause(self, failure: Failure, n_tried: int) -> float:
        endpoint = self._transport.endpoint
        wait: float = min(endpoint.backoff_seconds * 2 ** min(n_tried - 1, 30), endpoint.longest_backoff_seconds)
        return max(wait, failure.hints.wait_seconds or 0.0)

    def _unusable(self, reason: str, batch: str | None = None) -> JudgeError:
        sent = f"; batch {batch} goes on there" if batch else ""
        return JudgeError(
            "batch service",
            where=f"{self._address}, for {self._file}{sent}",
            expected="OpenAI's Files and Batches API",
            found=reason,
            next_step="check address and key, then give the same command again: nothing is sent twice. Where the "
            "service has no such API, leave --send out and hand the request files in by hand",
        )

    def _errors_of(self, batch: Any) -> str:
        errors = (batch.errors.data if batch.errors else None) or []
        texts = [
            " ".join(filter(None, [f"line {one.line}:" if one.line else "", one.code, one.message]))
            for one in errors[:_MOST_LISTED]
        ]
        more = [f"and {len(errors) - _MOST_LISTED:,} more"] if len(errors) > _MOST_LISTED else []
        text = "; ".join([*texts, *more]) or "it does not say why"
        return redacted(text, self._transport.credentials).rstrip(".")


_WORTH_A_TRY = frozenset({Verdict.RETRY, Verdict.SLOW_DOWN})
_ENDINGS = {"expired": "expired after 24 hours", "cancelled": "was cancelled"}


def ids_in(content: bytes) -> list[str]:
    """Return the requests that lines are about; what is no such line is reported by who reads the file."""
    return list(_read_ids(content.splitlines()))


def _read_ids(lines: Sequence[bytes]) -> Iterator[str]:
    for line in lines:
        try:
            row = orjson.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and isinstance(row.get("custom_id"), str):
            yield row["custom_id"]
