"""Share of judges' prompts that repeats the beginning of an earlier prompt.

A server with a prefix cache (vLLM, SGLang, llama.cpp, the large services) processes only the part after the longest
beginning shared with an earlier prompt. The answers are one model's (the reference answers) to MTRAG's tasks, or with
`--rated` those of the three models rated by people. Prompts are in the order of one judge with one open request. Tokens
are estimated at 4 characters. Columns: the shared share, and the tokens left; the same for a server that caches only a
number of tokens (`--cache`); and tokens to pay at a service that discounts beginnings from 1,024 tokens on in steps of
128, to a half or to a tenth.

With `--server` the prompts are sent sequentially, for one token each, and timed; with `--pid`, the server's process on
this machine, also in CPU seconds, which are more reliable on a busy machine.

    python -m perf.prefix_sharing [--data FOLDER] [--setting full_rag] [--tasks N] [--rated]
        [--server http://localhost:8000/v1 [--pid PID]]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.benchmarks.mtrag import load_human_evaluation
from ragtasks.clients import Journal, Outcome, Prompt, Reply
from ragtasks.clients._protocol import Chain
from ragtasks.judges._panel import judge
from ragtasks.metrics import parse_cited
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Response, Setting
from ragtasks.suites import suite_named

_TOKEN = 4  # characters
_BLOCK = 16  # tokens, as in vLLM
_LEAST, _STEP = 1024, 128  # minimum tokens of a discounted beginning


class Recorder:
    """A judge with one open request that records its prompts and always returns a verdict."""

    name = "recorder"

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def describe(self) -> dict[str, Any]:
        """Return its name."""
        return {"model": self.name}

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return a verdict on each prompt, and send follow-up prompts at once; equal prompts are sent once."""
        assert journal is not None
        replies = []
        for index, first in enumerate(prompts):
            prompt: Prompt | None = first
            while prompt is not None:
                text = prompt.messages[0].content
                self.prompts.append(text)
                reply = Reply(Outcome.ANSWERED, _verdict(text))
                journal.record(index, reply)
                prompt = journal.following(index) if isinstance(journal, Chain) else None
            replies.append(reply)
        self.prompts = list(dict.fromkeys(self.prompts))
        return replies


def _verdict(prompt: str) -> str:
    """Return a verdict in the format requested at the end of a prompt; each sentence of an answer is a statement."""
    form = prompt.rstrip().rpartition("\n")[2]
    if not form.startswith("{"):
        return form.replace("LABEL", "no").replace(": N", ": 7")
    code = form.split('"')[3]
    shown = {name: _shown(prompt, code, name) for name in ("answer", "statements")}
    if "supported" in form:
        n_statements = len(shown["statements"].splitlines())
        return json.dumps({"id": code, "supported": {str(number + 1): "yes" for number in range(n_statements)}})
    return json.dumps(
        {"id": code, "statements": [sentence.text for sentence in parse_cited(shown["answer"], 0)] or ["It."]}
    )


def _shown(prompt: str, code: str, name: str) -> str:
    return prompt.rpartition(f"[{code} {name}]\n")[2].partition(f"\n[{code} end]")[0]


def one_model(data: str, setting: Setting, n_tasks: int | None = None) -> list[Response]:
    """Return the reference answers to MTRAG's tasks, as one model's."""
    benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", data, Path()).resolve())
    shown = benchmark.read_contexts(setting).passages
    tasks = benchmark.tasks[:n_tasks]
    return [Response(task, shown.get(task.task_id, ()), task.target) for task in tasks]


def rated(data: str) -> list[Response]:
    """Return the answers rated by people: three models, judged in one call."""
    return [row.response for row in load_human_evaluation(benchmark_folder("mtrag", data, Path()).resolve())]


def prompts_of(responses: Sequence[Response]) -> list[str]:
    """Return the prompts to a judge about some answers, in the order sent, equal prompts once."""
    recorder = Recorder()
    judge(responses, suite_named("mtrag").rubrics(), [recorder])
    return recorder.prompts


@dataclass(frozen=True, slots=True)
class Shares:
    """Shared beginnings in one judge's prompts."""

    n_prompts: int
    """Number of prompts."""
    n_tokens: float
    """Tokens of all prompts."""
    shared: float
    """Share of these, 0 to 1, in the beginning of an earlier prompt."""
    in_cache: float
    """The same with a limited cache."""
    discounted: float
    """Share discounted by services."""

    @property
    def n_read(self) -> float:
        """Tokens not shared with an earlier prompt."""
        return self.n_tokens * (1 - self.shared)

    def price(self, discount: float) -> float:
        """Return tokens to pay, with a `discount` on the discounted share."""
        return self.n_tokens * (1 - discount * self.discounted)


def shares(prompts: Sequence[str], cache_tokens: int) -> Shares:
    """Return the shared beginnings of some prompts."""
    ordered = sorted(prompts)  # in sorted order the longest shared beginning is a neighbour's
    total = sum(map(len, prompts))
    alike = [len(os.path.commonprefix(pair)) for pair in pairwise(ordered)]  # noqa: RUF071 (texts)
    step, least = _STEP * _TOKEN, _LEAST * _TOKEN
    discounted = sum(number // step * step for number in alike if number >= least)
    return Shares(
        len(prompts), total / _TOKEN, sum(alike) / total, _in_cache(prompts, cache_tokens), discounted / total
    )


def _in_cache(prompts: Sequence[str], cache_tokens: int) -> float:
    """Return the share of complete blocks still in a cache of limited tokens with LRU eviction."""
    held: OrderedDict[int, None] = OrderedDict()
    n_blocks = n_held = 0
    size = _BLOCK * _TOKEN
    for prompt in prompts:
        key, is_alike = 0, True
        for begin in range(0, len(prompt) - size + 1, size):
            key = hash((key, prompt[begin : begin + size]))
            is_alike = is_alike and key in held
            n_held += is_alike
            n_blocks += 1
            held[key] = None
            held.move_to_end(key)
        while len(held) > cache_tokens // _BLOCK:
            held.popitem(last=False)
    return n_held / n_blocks


def table(responses: Sequence[Response], cache_tokens: int, heading: str) -> Shares:
    """Return and print the shares."""
    shared = shares(prompts_of(responses), cache_tokens)
    columns = ("prompts", "tokens", "shared", f"in {cache_tokens:,}", "read", "at 1/2", "at 1/10")
    cells = [f"{shared.n_prompts:,}", f"{shared.n_tokens:,.0f}", f"{shared.shared:.1%}", f"{shared.in_cache:.1%}"]
    cells += [f"{number:,.0f}" for number in (shared.n_read, shared.price(0.5), shared.price(0.9))]
    print(f"\n{heading}: {len(responses):,} answers")
    for row in (columns, cells):
        print(" ".join(f"{cell:>11}" for cell in row), flush=True)
    return shared


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process over all threads."""
    cells = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")


def seconds(prompts: Sequence[str], server: str) -> float:
    """Return the seconds a server needs for one token of each prompt, sequentially."""
    import requests

    begin = time.perf_counter()
    for prompt in prompts:
        body = {"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": 1, "temperature": 0}
        requests.post(f"{server}/chat/completions", json=body, timeout=600).raise_for_status()
    return time.perf_counter() - begin


def main() -> None:
    """Print the shares, and with a server the time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="sample")
    parser.add_argument("--setting", type=Setting, default=Setting.FULL_RAG)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--rated", action="store_true")
    parser.add_argument("--cache", type=int, default=100_000)
    parser.add_argument("--server")
    parser.add_argument("--pid", type=int)
    options = parser.parse_args()
    responses = rated(options.data) if options.rated else one_model(options.data, options.setting, options.tasks)
    table(
        responses, options.cache, "three models in one call" if options.rated else f"one model, {options.setting.value}"
    )
    if options.server:
        prompts = prompts_of(responses)
        before = cpu_seconds(options.pid) if options.pid else 0.0
        line = f"{seconds(prompts, options.server):6.1f} s for {len(prompts)} prompts"
        print(line + (f" ({cpu_seconds(options.pid) - before:.1f} s of CPU)" if options.pid else ""), flush=True)


if __name__ == "__main__":
    main()
