"""How much of what judges read is a repeated beginning of an earlier prompt, and what that saves on a server.

A server with a prefix cache (vLLM, SGLang, llama.cpp, the large services) reads only what no earlier prompt began with.
The share is of characters, twice: beginnings shared with any earlier prompt (a cache without limit), and with the one
just before (a server with one slot). With `--server` some prompts are sent one by one, for one token each,
and timed; with `--pid`, the server's process on this machine, in CPU seconds too, which say more where the machine has
other work. The layout of the prompts is that of the checkout that this runs in: run it in two to compare them.

    python perf/prefix_sharing.py [--data FOLDER] [--tasks 100] [--prompts 60]
        [--server http://localhost:8000/v1 [--pid PID]]
"""

from __future__ import annotations

import argparse
import bisect
import json
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.clients import Outcome, Prompt, Reply
from ragtasks.harness.models import extract_answer
from ragtasks.judges import rubrics_named
from ragtasks.judges._panel import judge
from ragtasks.records import Response, Setting

_RUBRICS = ("rb_llm", "idk", "rl_f")
_STATEMENTS = ["The first claim.", "The second claim."]


class Recorder:
    """A judge that keeps what it is asked and gives a verdict on everything."""

    name = "recorder"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def describe(self) -> dict[str, Any]:
        """Return its name."""
        return {"model": self.name}

    def answer(self, prompts: Sequence[Prompt], *_: Any) -> list[Reply]:
        """Return a verdict on each prompt."""
        texts = [prompt.messages[0].content for prompt in prompts]
        self.asked += texts
        return [Reply(Outcome.ANSWERED, _verdict(text.rstrip().rpartition("\n")[2])) for text in texts]


def _verdict(form: str) -> str:
    """Return a verdict in the form that a prompt ends with."""
    if form.startswith("{"):
        code = form.split('"')[3]
        labels = {str(number): "yes" for number, _ in enumerate(_STATEMENTS, 1)}
        return json.dumps(
            {"id": code, **({"supported": labels} if "supported" in form else {"statements": _STATEMENTS})}
        )
    return form.replace("LABEL", "no").replace(": N", ": 7")


def prompts_of(data: str, n_tasks: int) -> list[str]:
    """Return what a judge is asked about two systems in two settings, in the order sent."""
    benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", data, Path()).resolve())
    tasks = benchmark.tasks[:n_tasks]
    responses = []
    for setting in (Setting.REFERENCE, Setting.FULL_RAG):
        shown = benchmark.read_contexts(setting).passages
        for answer in (lambda task, _: task.target, lambda task, texts: extract_answer(task.question, texts) or "No."):
            for task in tasks:
                passages = shown.get(task.task_id, ())
                responses.append(Response(task, passages, answer(task, [passage.text for passage in passages])))
    recorder = Recorder()
    judge(responses, rubrics_named(_RUBRICS), [recorder])
    return recorder.asked


def alike(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    return len(os.path.commonprefix([one, other]))  # noqa: RUF071 (texts, not paths)


def shares(prompts: Sequence[str]) -> tuple[float, float]:
    """Return the share of characters that begin an earlier prompt, and that begin the one just before."""
    seen: list[str] = []
    n_any = n_last = 0
    for index, prompt in enumerate(prompts):
        place = bisect.bisect_left(seen, prompt)
        n_any += max((alike(prompt, other) for other in seen[max(0, place - 1) : place + 1]), default=0)
        n_last += alike(prompt, prompts[index - 1]) if index else 0
        seen.insert(place, prompt)
    total = sum(map(len, prompts))
    return n_any / total, n_last / total


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, all its threads together."""
    cells = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")


def seconds(prompts: Sequence[str], server: str) -> float:
    """Return how long a server takes for one token of each prompt, one after the other."""
    import requests

    begin = time.perf_counter()
    for prompt in prompts:
        body = {"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": 1, "temperature": 0}
        requests.post(f"{server}/chat/completions", json=body, timeout=600).raise_for_status()
    return time.perf_counter() - begin


def main() -> None:
    """Print the shares in three orders, and where there is a server the time it takes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sample")
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--server")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--prompts", type=int, default=60)
    options = parser.parse_args()
    prompts = list(dict.fromkeys(prompts_of(options.data, options.tasks)))
    shuffled = random.Random(0).sample(prompts, len(prompts))
    print(f"{len(prompts)} prompts, {sum(map(len, prompts)):,} characters")
    for name, ordered in {"as sent": prompts, "shuffled": shuffled, "sorted": sorted(prompts)}.items():
        of_any, of_last = shares(ordered)
        line = f"{name:10} {of_any:6.1%} begin an earlier prompt, {of_last:6.1%} begin the one before"
        if options.server:
            some = set(sorted(prompts)[: options.prompts])  # the same ones in every order
            before = cpu_seconds(options.pid) if options.pid else 0.0
            line += f", {seconds([item for item in ordered if item in some], options.server):6.1f} s for {len(some)}"
            line += f" ({cpu_seconds(options.pid) - before:.1f} s of CPU)" if options.pid else ""
        print(line, flush=True)


if __name__ == "__main__":
    main()
