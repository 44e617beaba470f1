"""A service on the loopback interface that follows OpenAI's Files and Batches API, and whose endings a test decides."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.judges._demo import QUICK, _demo

Answer = Callable[[dict[str, Any]], tuple[int, dict[str, Any]] | None]
"""Body of a request -> status and body of what is said of it; None where the batch ends before."""
CHAT = "/v1/chat/completions"
KEY = "a-key-of-tests-0123456789"
_ENDINGS = ("completed", "expired", "cancelled")


def verdict(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the verdict of the stand-in judge."""
    message = {"role": "assistant", "content": _demo().verdict(body["messages"][-1]["content"]), "refusal": None}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}
    return 200, {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": usage}


class BatchService(AbstractContextManager["BatchService"]):
    """Its files and batches while a `with` lasts.

    A look at a batch brings it one step on: validating, in_progress, finalizing, and then as `ends` says, the last of
    which holds for all further ones.
    """

    def __init__(self, answer: Answer = verdict, ends: tuple[str, ...] = ("completed",)) -> None:
        self.answer, self.ends = answer, ends
        self.refusal: list[dict[str, Any]] = []  # the errors of a batch that fails
        self.hook: Callable[[str], tuple[int, str] | None] = lambda _event: None
        self.page = 100
        self.files: dict[str, dict[str, Any]] = {}
        self.contents: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.events: list[str] = []
        self.n_asked_live = 0
        self._lock = threading.RLock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> BatchService:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def judge(self, **further: Any) -> dict[str, Any]:
        address = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        return {"model": "noisy", "base_url": address, "api_key_env": "BATCH_KEY", **QUICK, **further}

    @property
    def sent(self) -> list[str]:
        """Every request of every batch that was not refused as a whole."""
        return [
            row["custom_id"]
            for batch in self.batches.values()
            if batch["status"] != "failed"
            for row in map(json.loads, self.contents[batch["input_file_id"]].splitlines())
        ]

    def do(self, method: str, path: str, query: dict[str, list[str]], body: bytes, kind: str) -> tuple[int, bytes]:
        """Return status and body of the reply to a request."""
        with self._lock:
            found: Any = None
            event = f"{method} {re.sub('(file|batch)[-_][0-9]+', 'ID', path)}"
            if path == CHAT:
                self.n_asked_live += 1
                return 200, json.dumps(verdict(json.loads(body))[1]).encode()
            if event == "POST /v1/files":
                found = self._upload(body, kind)
            elif event == "POST /v1/batches":
                found = self._create(json.loads(body))
            elif event == "GET /v1/batches":
                found = self._list(int(query["limit"][0]), query.get("after", [""])[0])
            elif event == "GET /v1/batches/ID":
                found = self._look(path.rpartition("/")[2])
            elif event == "GET /v1/files/ID/content":
                found = self.contents.get(path.split("/")[3])
            self.events.append(event)
        if refused := self.hook(event):
            return refused[0], _error(refused[1])
        if found is None:
            return 404, _error(f"No such object: {path}")
        return 200, found if isinstance(found, bytes) else json.dumps(found).encode()

    def _upload(self, body: bytes, kind: str) -> dict[str, Any]:
        form: Any = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
        parts = {part.get_param("name", header="content-disposition"): part for part in form.get_payload()}
        assert parts["purpose"].get_payload() == "batch"
        content = parts["file"].get_payload(decode=True)
        return self._keep(parts["file"].get_filename(), content, "batch")

    def _keep(self, name: str, content: bytes, purpose: str) -> dict[str, Any]:
        key = f"file-{len(self.files)}"
        self.contents[key] = content
        self.files[key] = {
            "id": key,
            "object": "file",
            "bytes": len(content),
            "created_at": int(time.time()),
            "filename": name,
            "purpose": purpose,
            "status": "processed",
        }
        return self.files[key]

    def _create(self, body: dict[str, Any]) -> dict[str, Any]:
        assert (body["endpoint"], body["completion_window"]) == (CHAT, "24h")
        assert self.files[body["input_file_id"]]["purpose"] == "batch"
        key = f"batch_{len(self.batches)}"
        self.batches[key] = {
            "id": key,
            "object": "batch",
            **body,
            "status": "validating",
            "created_at": int(time.time()),
            "output_file_id": None,
            "error_file_id": None,
            "errors": None,
            "request_counts": {"total": 0, "completed": 0, "failed": 0},
        }
        return self.batches[key]

    def _list(self, limit: int, after: str) -> dict[str, Any]:
        keys = [*self.batches][::-1]
        rest = keys[keys.index(after) + 1 :] if after else keys
        shown = rest[: min(limit, self.page)]
        ends = {"first_id": shown[0], "last_id": shown[-1]} if shown else {"first_id": None, "last_id": None}
        data = [self.batches[key] for key in shown]
        return {"object": "list", "data": data, **ends, "has_more": len(rest) > len(shown)}

    def _look(self, key: str) -> dict[str, Any] | None:
        batch = self.batches.get(key)
        if batch is None or batch["status"] in (*_ENDINGS, "failed"):
            return batch
        ending = self.ends[min(int(key.rpartition("_")[2]), len(self.ends) - 1)]
        if batch["status"] == "validating":
            problems = self.refusal if ending == "failed" else self._problems(batch)
            batch["status"] = "failed" if problems else "in_progress"
            batch["errors"] = {"object": "list", "data": problems} if problems else None
            batch["request_counts"]["total"] = self.contents[batch["input_file_id"]].count(b"\n")
        elif batch["status"] == "in_progress":
            batch["status"] = "cancelling" if ending == "cancelled" else "finalizing"
        else:
            self._end(batch, ending)
        return batch

    def _problems(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in self.contents[batch["input_file_id"]].splitlines()]
        wrong = [{"line": n} for n, row in enumerate(rows, 1) if (row["method"], row["url"]) != ("POST", CHAT)]
        twice = len({row["custom_id"] for row in rows}) < len(rows)
        return [*wrong, *([{"code": "duplicate_custom_id", "message": "twice"}] if twice else [])]

    def _end(self, batch: dict[str, Any], ending: str) -> None:
        output: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        for number, line in enumerate(self.contents[batch["input_file_id"]].splitlines()):
            row = json.loads(line)
            answer = self.answer(row["body"])
            named = {"id": f"batch_req_{number}", "custom_id": row["custom_id"]}
            if answer is not None:
                response = {"status_code": answer[0], "request_id": f"req_{number}", "body": answer[1]}
                (output if answer[0] == 200 else errors).append({**named, "response": response, "error": None})
            elif ending == "expired":
                error = {"code": "batch_expired", "message": "This request could not be executed in time."}
                errors.append({**named, "response": None, "error": error})
        batch["status"] = ending
        batch["request_counts"] |= {"completed": len(output), "failed": len(errors)}
        for field, name, lines in (("output_file_id", "output", output), ("error_file_id", "error", errors)):
            if lines:
                content = "".join(json.dumps(one) + "\n" for one in lines[::-1]).encode()
                batch[field] = self._keep(f"{batch['id']}_{name}.jsonl", content, "batch_output")["id"]


def _error(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error", "code": None}}).encode()


def _handler(service: BatchService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers["Authorization"] == f"Bearer {KEY}":
                kind = self.headers.get("Content-Type") or ""
                status, content = service.do(self.command, url.path, parse_qs(url.query), body, kind)
            else:
                status, content = 401, _error("Incorrect API key provided")
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # the client has gone

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
