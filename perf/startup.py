"""Startup time from command to first request: `ragtasks run` compared with the stock `lm_eval`.

Both evaluate the same harness task of the sample on a model that stops the process at its first request. The stock
command finds the task by `--include_path`, so no links are needed.

    python perf/startup.py [--repeats 3]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

TASK = "mtrag_full_rag_clapnq"
_STOP = """
import os, sys
from lm_eval.models.dummy import DummyLM
DummyLM.generate_until = lambda self, requests, disable_tqdm=False: os._exit(0 if requests else 1)
"""
_COMMANDS = {
    "lm_eval": "from lm_eval.__main__ import cli_evaluate; cli_evaluate()",
    "ragtasks run": "from ragtasks.cli import main; main()",
}


def seconds(name: str, arguments: list[str]) -> float:
    """Return the wall-clock time of one start of a command, including the interpreter."""
    code = f"{_STOP}\nsys.argv = [{name!r}, *{arguments!r}]\n{_COMMANDS[name]}"
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, env=os.environ | {"HF_HUB_OFFLINE": "1"}
    )
    return time.perf_counter() - begin


def main() -> None:
    """Time both alternately and print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    folder = subprocess.run(
        [sys.executable, "-c", "from ragtasks.cli import main; main(['tasks', 'path'])"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    options = ["--model", "dummy", "--tasks", TASK, "--metadata", '{"data": "sample"}']
    commands = {"lm_eval": [*options, "--include_path", folder], "ragtasks run": ["run", *options]}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, arguments in commands.items():
            times[name].append(seconds(name, arguments))
    medians = {name: statistics.median(seconds_of) for name, seconds_of in times.items()}
    for name, seconds_of in times.items():
        print(f"{name:14} median {medians[name]:6.2f} s   min {min(seconds_of):6.2f}   max {max(seconds_of):6.2f}")
    ratios = [stock / ours for stock, ours in zip(times["lm_eval"], times["ragtasks run"], strict=True)]
    print(f"ratio          median {statistics.median(ratios):6.2f}     min {min(ratios):6.2f}   max {max(ratios):6.2f}")


if __name__ == "__main__":
    main()
