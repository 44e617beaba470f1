"""A scripted judge, model and RAG system on the loopback interface for `same_numbers.py`.

A verdict is drawn by a hash of the model's name and the texts between the markers of a prompt, so the wording of
prompts does not change verdicts. One reply in 25 has no verdict; the prompt that repeats the format gets one. The judge
`noisy` draws again for a repeated prompt.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from judge_demo_server import Judge, sections

_CODE = re.compile(r"the code [0-9a-f]{8}\b")
_PASSWORD = re.compile(r"The password is: (\w+)")
"""Start of the question with which `ragtasks run` tests whether a server reads system messages."""
_LISTS = ("statements", "other questions", "facts", "facts to be weighed", "facts so far")
"""Parts of prompts that are numbered lists."""


class ScriptedServer(Judge):
    """Answers chat completions, and the plain protocol under `/answer`."""

    folder = Path()
    """Folder with the exported tasks, `tasks_*.jsonl`, whose passages the system retrieves."""
    n_requests: ClassVar[Counter[str]] = Counter()

    def do_POST(self) -> None:  # noqa: N802
        """Serve a verdict, an answer of the model, or an answer of the system."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/answer":
            self._send(200, self._answer(body))
            return
        texts = [str(message["content"]) for message in body["messages"]]
        reply = written(texts, body["model"])
        if body["model"] == "noisy":
            with Judge.lock:
                self.n_requests[texts[-1]] += 1
                reply = written(texts, f"noisy {self.n_requests[texts[-1]]}")
        usage = {"prompt_tokens": sum(len(text.split()) for text in texts), "completion_tokens": len(reply.split())}
        message = {"role": "assistant", "content": reply, "contexts": texts[:3]}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        self._send(200, {"id": "1", "object": "chat.completion", "created": 0, "choices": [choice], "usage": usage})

    def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        contents = [message["content"] for message in body["messages"]]
        passages = self._passages().get(body["id"], [])[: 1 + number(body["id"]) % 4]
        searches = [{"query": contents[-1], "passages": passages[:2]}, {"query": contents[0], "passages": passages}]
        text = written([contents[-1], *(passage["text"] for passage in passages)], body["id"])
        return {"answer": text, "contexts": passages, "searches": searches, "input_tokens": 90, "output_tokens": 9}

    def _passages(self) -> dict[str, list[dict[str, Any]]]:
        tasks = [json.loads(line) for file in sorted(self.folder.glob("tasks_*.jsonl")) for line in file.open()]
        return {task["id"]: task["contexts"] for task in tasks}


@contextmanager
def scripted_server(folder: Path) -> Iterator[str]:
    """Serve within a `with` block; yield the address."""
    handler = type("Handler", (ScriptedServer,), {"folder": folder, "n_requests": Counter()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def number(*texts: str) -> int:
    """Return a number computed from texts."""
    return int(hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12], 16)


def written(texts: Sequence[str], model: str) -> str:
    """Return a verdict, a rewritten question or an answer, as requested by the last text."""
    last = texts[-1]
    if _CODE.search(last):
        return _verdict(last, model)
    if "reworded version" in last:
        newest = last.rpartition("[user] ")[2].partition("\n")[0]
        label = ("standalone", "non-standalone")[number(newest) % 2]
        return json.dumps({"class": label, "reworded version": f"{newest} {' '.join(sorted(last.split())[-3:])}"})
    password = _PASSWORD.search(texts[0])
    if password and len(texts) == 2:
        return password[1]
    drawn = number(model, *texts)
    sentences = _sentences(" ".join(texts))
    if drawn % 8 == 0 or not sentences:
        return "I do not know."
    first, second = (sentences[drawn // step % len(sentences)] for step in (8, 64))
    return f"{first} [1] {second} [2]"


def _verdict(prompt: str, model: str) -> str:  # noqa: PLR0911
    """Return a reply in the format of a prompt's last line, with labels drawn from those allowed by the prompt."""
    code, parts = sections(prompt)
    form = prompt.rstrip().rpartition("\n")[2]
    is_again = prompt.count(form) > 1
    texts = [model, str(is_again), form.replace(code, ""), *(f"{name}: {text}" for name, text in sorted(parts.items()))]

    def draw(choices: Sequence[str], position: int = 0) -> str:
        return choices[number(str(position), *texts) % len(choices)]

    allowed = re.findall(r"LABEL (?:being )?([^:]+):\n", prompt)
    labels = [label.strip('" ') for label in re.split(r", | or ", allowed[-1])] if allowed else []
    if not is_again and number("none", *texts) % 25 == 0:
        return "I would rather not say."
    if form.startswith("Rating"):
        return f"Rating {code}: {1 + number(*texts) % 10}"
    if form.startswith("Verdict"):
        return f"Verdict {code}: {draw(labels)}"
    ((key, opened),) = re.findall(r'"(\w+)": ([\[{])', form)
    listed = [entry for name in _LISTS for entry in re.findall(r"^\d+\. (.*)$", parts.get(name, ""), re.MULTILINE)]
    if opened == "{":
        n = len(listed) or sum(name.startswith("passage") for name in parts)
        return json.dumps({"id": code, key: {str(position): draw(labels, position) for position in range(1, n + 1)}})
    if key == "labels":
        return json.dumps({"id": code, key: [draw(re.findall(r"^- ([^:\n]+):", prompt, re.MULTILINE))]})
    sentences = _sentences(parts.get("answer") or parts.get("reply") or " ".join(parts.values()))
    if key == "statements":
        return json.dumps({"id": code, key: [entry for entry in sentences if number(model, entry) % 5]})
    drawn = [draw(sentences or ["nothing"], position) for position in range(3)]
    if key == "questions":
        questions = [f"Is it {position}, {entry}?" for position, entry in enumerate(drawn)]
        return json.dumps({"id": code, key: questions, "evades": draw(labels)})
    return json.dumps({"id": code, key: list(dict.fromkeys([*listed, *drawn]))})


def _sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+", text) if len(part.split()) > 3]
