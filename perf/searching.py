"""Agentic tasks against a loopback server with a fixed time per step, optionally with kills.

Without `--kills`: time for 200 conversations compared with the ideal, for the actual scheduling and for one wave per
step. The ideal is the larger of the time for all requests in the given slots and the time for the longest conversation;
in complete steps it is the time if no step can be divided (800 in 64 slots: 13 steps and not 12.5). The clock runs at
the server, from the first request to the last reply; the median of several repetitions is printed.

With `--kills`: an evaluation is killed at random moments and restarted, and must log the same as without kills.
Requests in flight at a kill are sent again; saved replies must not be requested again.

    python -m perf.searching [--conversations 200] [--slots 64] [--delay 0.2] [--steps 4 | --uneven] [--protocol text]
    python -m perf.searching --kills 30 [--delay 0.05]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import random
import signal
import sqlite3
import statistics
import tempfile
import time
import zlib
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

from ragtasks.cli import main as ragtasks
from ragtasks.harness.answering import SavedAnswers
from ragtasks.harness.protocols import TOOLS_QUESTION
from ragtasks.harness.run import WORD

_TASK = "custom_agentic"
_WORDS = (
    *("amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "heath", "islet", "jetty", "knoll", "lagoon"),
    *("marsh", "notch", "oasis", "plain", "quay", "ridge"),
)


def write_benchmark(folder: Path, n_conversations: int) -> None:
    """Write conversations of one question each, over a generated corpus."""
    draw = random.Random(3)
    folder.mkdir(parents=True)
    rows = [{"_id": f"p-{n}", "title": "", "text": " ".join(draw.choices(_WORDS, k=60))} for n in range(2000)]
    conversations = [
        {"question": f"What is said of {' and '.join(draw.choices(_WORDS, k=4))} in case {n}?", "answer": "Nothing.",
         "references": [f"p-{n}"]}
        for n in range(n_conversations)
    ]  # fmt: skip
    held = [{"conversation_id": f"c-{n}", "turns": [turn]} for n, turn in enumerate(conversations)]
    for name, lines in (("passages", rows), ("conversations", held)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def n_steps(question: str, options: argparse.Namespace) -> int:
    """Return the number of replies to a question, including the answer."""
    return 1 + zlib.crc32(question.encode()) % (2 * options.steps - 1) if options.uneven else int(options.steps)


def message_for(body: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Return the model's next message."""
    messages, has_tools = body["messages"], "tools" in body
    if WORD in messages[0]["content"] and len(messages) == 2:
        return {"role": "assistant", "content": WORD}
    last = max(n for n, row in enumerate(messages) if row["role"] == "user" and "<results>" not in row["content"])
    question = messages[last]["content"]
    n_before = (len(messages) - 1 - last) // 2
    if question != TOOLS_QUESTION and n_before + 1 >= n_steps(question, options):
        return {"role": "assistant", "content": f"All of it, after {n_before} searches."}
    query = f"{_WORDS[zlib.crc32(question.encode()) % len(_WORDS)]} {_WORDS[n_before]}"
    if not has_tools:
        return {"role": "assistant", "content": f"<search>{query}</search>"}
    call = {"name": "search", "arguments": json.dumps({"query": query})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "type": "function", "function": call}]}


def serve(options: argparse.Namespace, pipe: Any) -> None:
    """Answer forever, and record when each request arrived and when its reply was sent."""
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                if head.startswith("get"):
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    continue
                sent = await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
                begun = time.monotonic()
                body = json.loads(sent)
                message = message_for(body, options)
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                usage = {"prompt_tokens": len(sent.split()), "completion_tokens": 9}
                reply = json.dumps({"choices": [choice], "usage": usage}).encode()
                await asyncio.sleep(options.delay - (time.monotonic() - begun))
                if body["messages"][0]["content"] != TOOLS_QUESTION and message["content"] != WORD:
                    key = json.dumps(body["messages"], sort_keys=True)
                    spans[key].append((begun, time.monotonic()))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                writer.write(f"Content-Length: {len(reply)}\r\n\r\n".encode() + reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def listen() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=512, limit=1 << 24)
        pipe.send(server.sockets[0].getsockname()[1])
        while True:
            await asyncio.sleep(0.005)
            if pipe.poll():
                if pipe.recv() == "count":
                    pipe.send(len(spans))
                    continue
                pipe.send({key: list(times) for key, times in spans.items()})
                spans.clear()

    asyncio.run(listen())


class Bench:
    """A server and the evaluations that use it."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        self._pipe, far = multiprocessing.Pipe()
        self._server = multiprocessing.Process(target=serve, args=(options, far), daemon=True)
        self._server.start()
        self._port = self._pipe.recv()

    def begin(self, output: str, *, in_waves: bool = False) -> int:
        """Start an evaluation, and return its process."""
        pid = os.fork()
        if pid:
            return pid
        with (self.folder / "log").open("a") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        if in_waves:
            SavedAnswers.answer_following = lambda *_: False  # type: ignore[method-assign]
        status = 1
        try:
            ragtasks(self._arguments(output))
        except SystemExit as stop:
            status = int(stop.code or 0)
        finally:
            os._exit(status)

    def _arguments(self, output: str) -> list[str]:
        model = {
            "model": "loopback", "base_url": f"http://127.0.0.1:{self._port}/v1/chat/completions",
            "num_concurrent": self.options.slots, "eos_string": "</s>",
        }  # fmt: skip
        metadata = {
            "data": str(self.folder / "data"), "encoder": "none", "max_implausible": 1,
            "search_protocol": self.options.protocol,
        }  # fmt: skip
        return [
            "run", "--no-probe", "--model", "local-chat-completions", "--apply_chat_template", "--tasks", _TASK,
            "--model_args", json.dumps(model), "--metadata", json.dumps(metadata), "--log_samples",
            "--output_path", str(self.folder / output),
        ]  # fmt: skip

    def run_to_end(self, output: str, *, in_waves: bool = False) -> None:
        """Run an evaluation to its end."""
        _, status = os.waitpid(self.begin(output, in_waves=in_waves), 0)
        if status:
            raise SystemExit(f"an evaluation failed: {(self.folder / 'log').read_text()[-2000:]}")

    def count(self) -> int:
        """Return the number of different requests answered by the server."""
        self._pipe.send("count")
        return int(self._pipe.recv())

    def spans(self) -> dict[str, list[tuple[float, float]]]:
        """Return (arrived, answered) of each request, and reset the record."""
        self._pipe.send("spans")
        times: dict[str, list[tuple[float, float]]] = self._pipe.recv()
        return times

    def saved(self, output: str) -> set[str]:
        """Return the requests with a reply saved by an unfinished evaluation, named as in `spans`."""
        file = self.folder / output / "unfinished_rank0.sqlite"
        if not file.exists():
            return set()
        with closing(sqlite3.connect(file)) as connection:
            requests = [json.loads(text) for (text,) in connection.execute("SELECT request FROM replies")]
        prompts = [json.loads(json.loads(request["arguments"])[0]) for request in requests]
        return {json.dumps(prompt, sort_keys=True) for prompt in prompts}

    def logged(self, output: str) -> list[str]:
        """Return the logged samples without the cost of replies, which contains seconds."""
        (file,) = (self.folder / output).rglob(f"samples_{_TASK}_*.jsonl")
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for row in rows:
            row["doc"].pop("usage", None)
            for name in [name for name in row if name.endswith(("seconds", "_hash"))]:
                row.pop(name)
        return sorted(json.dumps(row, sort_keys=True) for row in rows)


def measure(bench: Bench) -> None:
    """Print the time compared with the ideal."""
    options = bench.options
    bench.run_to_end("warm")  # warm-up: the index and every query
    bench.spans()
    print("| schedule | requests | ideal, s | actual, s | ratio | ratio in complete steps |\n|---|---|---|---|---|---|")
    longest = max(n_steps(question, options) for question in questions(bench)) * options.delay
    for name, in_waves in (("as they come", False), ("in waves", True)):
        times = []
        for run in range(options.runs):
            bench.run_to_end(f"{name} {run}", in_waves=in_waves)
            spans = [span for spans in bench.spans().values() for span in spans]
            times.append(max(end for _, end in spans) - min(begin for begin, _ in spans))
        n, took = len(spans), statistics.median(times)
        ideal = max(n / options.slots * options.delay, longest)
        in_steps = took / max(math.ceil(n / options.slots) * options.delay, longest)
        print(f"| {name} | {n} | {ideal:.2f} | {took:.2f} | {took / ideal:.3f} | {in_steps:.3f} |", flush=True)
    assert bench.logged("as they come 0") == bench.logged("in waves 0")


def questions(bench: Bench) -> list[str]:
    """Return all questions."""
    text = (bench.folder / "data" / "conversations.jsonl").read_text(encoding="utf-8")
    return [turn["question"] for line in text.splitlines() for turn in json.loads(line)["turns"]]


def kill(bench: Bench) -> None:
    """Print the outcome of an evaluation that is killed repeatedly."""
    options = bench.options
    bench.run_to_end("whole")
    n_requests = len(bench.spans())
    moments = sorted(random.Random(7).sample(range(1, n_requests), options.kills))
    killed: list[tuple[float, set[str]]] = []
    for moment in [*moments, None]:
        process = bench.begin("killed")
        while moment is not None and bench.count() < moment:
            time.sleep(0.003)
        if moment is not None:
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        killed.append((time.monotonic(), bench.saved("killed")))
        assert (moment is None) == (status == 0), (moment, status)
    spans = bench.spans()
    lost = [
        (key, begun)
        for key, times in spans.items()
        for begun, _ in times
        if any(begun > moment and key in saved for moment, saved in killed)
    ]
    n_again = sum(map(len, spans.values())) - len(spans)
    print(f"{options.kills} kills, {n_requests} requests of an unkilled evaluation")
    print(f"different requests: {len(spans)}; sent again: {n_again}; of these with a saved answer: {len(lost)}")
    print(f"answers saved at the kills: {', '.join(str(len(saved)) for _, saved in killed[:-1])}")
    print(f"logged samples are the same: {bench.logged('killed') == bench.logged('whole')}")


def main() -> None:
    """Measure, or kill."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--delay", type=float, default=0.2, help="seconds per step")
    parser.add_argument("--steps", type=int, default=4, help="replies of a conversation, including the answer")
    parser.add_argument(
        "--uneven", action="store_true", help="vary the replies: --steps on average, from 1 to nearly twice as many"
    )
    parser.add_argument("--protocol", choices=("text", "tool_calls"), default="text")
    parser.add_argument("--runs", type=int, default=3, help="repetitions of each row, which prints their median")
    parser.add_argument("--kills", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"RAGTASKS_RUNS": f"{folder}/store", "HF_HUB_OFFLINE": "1"}
        write_benchmark(Path(folder) / "data", options.conversations)
        bench = Bench(Path(folder), options)
        (kill if options.kills else measure)(bench)


if __name__ == "__main__":
    main()
