"""A stand-in for LLM judges: an OpenAI-compatible server on this machine, for the demonstration.

It rates by word overlap, so its scores are not meaningful. It parses the markers in our prompts (the code that a
verdict must contain) and replies in the requested format. The model `flaky` fails on every tenth request.

    python scripts/judge_demo_server.py [--port 0]       prints its address, then serves until it is stopped
"""

from __future__ import annotations

import argparse
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORD = re.compile(r"[a-z0-9]+")
_CODE = re.compile(r"the code ([0-9a-f]{8})\b")
_REFUSES = re.compile(r"specific information|don't have|don't know|no information|couldn't find|sorry")


class Judge(BaseHTTPRequestHandler):
    """Answers chat completions and counts them."""

    protocol_version = "HTTP/1.1"
    count = 0
    lock = threading.Lock()

    def do_GET(self) -> None:
        """Serve the number of requests so far."""
        self._send(200, {"requests": Judge.count})

    def do_POST(self) -> None:
        """Serve a verdict, or a failure for the model `flaky`."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with Judge.lock:
            Judge.count += 1
            number = Judge.count
        if body["model"] == "flaky" and number % 10 == 0:
            self._send(500, {"error": {"message": "overloaded"}})
            return
        message = {"role": "assistant", "content": verdict(body["messages"][-1]["content"])}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        reply = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
        self._send(200, {**reply, "choices": [choice], "usage": usage})

    def _send(self, status: int, content: dict[str, Any]) -> None:
        payload = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: Any) -> None:
        """Disable logging."""


def sections(prompt: str) -> tuple[str, dict[str, str]]:
    """Return the code of a prompt and its marked sections by name."""
    code = _CODE.findall(prompt)[0]
    parts = re.findall(rf"^\[{code} (?!end\])([^\]]+)\]\n(.*?)\n\[{code} end\]$", prompt, re.DOTALL | re.MULTILINE)
    return code, dict(parts)


def overlap(text: str, source: str) -> float:
    """Return the share of a text's words that another text contains."""
    words = set(WORD.findall(text.lower()))
    return len(words & set(WORD.findall(source.lower()))) / len(words) if words else 0.0


def preferred(parts: dict[str, str], replies: list[str]) -> str:
    """Return the reply that shares more words with the passages; if both are near, mostly the first."""
    passages = " ".join(text for name, text in parts.items() if name.startswith("passage"))
    first, second = (overlap(reply, passages) for reply in replies)
    if abs(first - second) > 0.1:
        return "A" if first > second else "B"
    return "A" if len(replies[0]) % 2 else "tie"


def questions(parts: dict[str, str]) -> dict[str, Any]:
    """Return three questions made from a reply, or which of three share words with the user's."""
    if "reply" in parts:
        start = " ".join(parts["reply"].split()[:9])
        made = [f"{word} {start}?" for word in ("Is it that", "Why", "Do you mean")]
        return {"questions": made, "evades": "yes" if _REFUSES.search(parts["reply"]) else "no"}
    lines = [line.partition(". ")[2] for line in parts["other questions"].splitlines() if line[:1].isdigit()]
    user = parts["question of the user"]
    return {"same": {str(n): "yes" if overlap(user, line) > 0.2 else "no" for n, line in enumerate(lines, start=1)}}


def verdict(prompt: str) -> str:
    """Return a reply in the format requested by the prompt; a prompt without a code is a connection test."""
    return _judged(prompt) if _CODE.search(prompt) else "ready"


def _judged(prompt: str) -> str:
    code, parts = sections(prompt)
    form = prompt.rstrip().rpartition("\n")[2]
    if form.startswith("Rating"):
        answer = parts.get("answer", "")
        wanted = parts.get("reference answer") or " ".join(parts[name] for name in parts if name.startswith("passage"))
        rating = 1 + round(9 * overlap(wanted, answer))
        return f"The words of the reference answer were counted.\nRating {code}: {rating}"
    replies = [text for name, text in parts.items() if name.startswith("reply of assistant")]
    if replies:
        return f"Words were counted.\nVerdict {code}: {preferred(parts, replies)}"
    if "statements" in parts:
        evidence = " ".join(text for name, text in parts.items() if name.startswith(("evidence", "passage")))
        lines = [line.partition(". ")[2] for line in parts["statements"].splitlines() if line[:1].isdigit()]
        supported = {str(n): "yes" if overlap(line, evidence) > 0.7 else "no" for n, line in enumerate(lines, start=1)}
        return json.dumps({"id": code, "supported": supported})
    if "other questions" in parts or "three questions" in prompt.partition("\n")[0]:
        return json.dumps({"id": code, **questions(parts)})
    if '"statements"' in form:
        claims = [part.strip() for part in re.split(r"(?<=[.!?])\s+", parts["answer"]) if len(part.split()) > 2]
        specific = [claim for claim in claims if "specific information" not in claim]
        return json.dumps({"id": code, "statements": specific})
    refuses = _REFUSES.search(parts.get("reply") or parts.get("answer", ""))
    return f"Verdict {code}: {'yes' if refuses else 'no'}"


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Judge)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
