"""A judging run that can be killed and restarted: the sample's clapnq tasks, answered by their targets."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.clients import endpoint_of, no_secrets
from ragtasks.judges import Verdicts, judge_responses
from ragtasks.records import Response, Setting
from ragtasks.suites import suite_named


def judge_sample(judge: Mapping[str, Any], cache: Path) -> Verdicts:
    """Return a judge's verdicts on the targets in the setting full_rag."""
    benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())
    passages = benchmark.read_contexts(Setting.FULL_RAG).passages
    tasks = [task for task in benchmark.tasks if task.domain == "clapnq" and task.task_id in passages]
    responses = [Response(task, passages[task.task_id], task.target) for task in tasks]
    return judge_responses(
        responses, [endpoint_of(judge)], secrets=no_secrets, cache_file=cache, rubrics=suite_named("mtrag").rubrics()
    )


def main() -> None:
    """Start a judging run for each line on standard input, and print its process id; the next line confirms its death.

    All imports happen first, so that a run starts at once.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal, independent of the parent process
    for library in ("aiohttp", "openai"):
        importlib.import_module(library)
    _say("ready")
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            judge_sample(json.loads(sys.argv[1]), Path(sys.argv[2]))
            os._exit(0)
        _say(str(child))
        sys.stdin.readline()
        os.waitpid(child, 0)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
