"""Time and peak memory of `ragtasks report` over many models, each in its own process.

The results are those of one evaluation, logged with all its passages and written once for each model: every score and
answer is drawn at random, and every judge gives a verdict with a reply of usual length on every rubric. Words come from
the task's own passages, so that texts compress like real ones. If a setting has fewer tasks than requested, as in the
sample, its conversations are repeated under other ids. The tables alone and with the page are measured alternately.

    ragtasks run --model ragtasks-extractive --tasks mtrag --log_samples --output_path RESULTS
    python perf/reporting.py RESULTS [--models 10] [--tasks 842] [--judges 3] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

RUBRICS = {"rb_llm": 10, "rl_f": 24, "idk": 2}  # and the number of steps of its verdicts
REPLY_WORDS = 65
ANSWER_WORDS = 80
METRICS = ("rb_alg", "rb_alg_raw", "rb_alg_ibm", "rb_llm", "rb_llm_raw", "rl_f", "rl_f_raw", "bert_recall")
CONDITIONED = {"rb_alg", "rb_llm", "rl_f"}
COMMAND = "from ragtasks.cli import main; main()"


def read(folder: Path) -> tuple[Path, dict[str, list[dict[str, Any]]]]:
    """Return the only results file in a folder, and harness task -> its logged samples."""
    (results,) = folder.rglob("results_*.json")
    samples = {
        path.name.removeprefix("samples_").rpartition("_")[0]: [
            json.loads(line) for line in path.read_text("utf-8").splitlines()
        ]
        for path in sorted(results.parent.glob("samples_*.jsonl"))
    }
    return results, samples


def enlarge(samples: dict[str, list[dict[str, Any]]], n_tasks: int) -> None:
    """Repeat complete conversations until each setting has the requested tasks."""
    of_setting: dict[str, list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for task, rows in samples.items():
        for row in rows:
            of_setting[row["doc"]["setting"]].append((task, row))
    for samples_of_setting in of_setting.values():
        for number in range(n_tasks - len(samples_of_setting)):
            task, row = samples_of_setting[number % len(samples_of_setting)]
            copy = number // len(samples_of_setting) + 1
            doc = row["doc"]
            renamed = {key: f"{copy}_{doc[key]}" for key in ("conversation_id", "task_id")}
            samples[task].append({**row, "doc": {**doc, **renamed}})


def sample_of(row: dict[str, Any], level: float, judges: list[str], draw: random.Random) -> dict[str, Any]:
    """Return a sample with random scores around a level, and a verdict of each judge on each rubric."""
    values = {name: min(1.0, max(0.0, draw.gauss(level, 0.25))) for name in METRICS}
    idk = "yes" if draw.random() < 0.1 else "no"
    if idk == "yes":
        refused = float(row["doc"]["answerability"] == "UNANSWERABLE")
        values |= dict.fromkeys(CONDITIONED, refused)
    words = words_of(row["doc"])
    verdicts = [
        {
            "rubric": rubric,
            "judge": judge,
            "value": round(min(1.0, max(0.0, values["rb_llm"] + draw.gauss(0, 0.1))) * steps) / steps,
            "outcome": "scored",
            "label": "8",
            "reason": "",
            "replies": [" ".join(draw.choices(words, k=REPLY_WORDS))],
        }
        for rubric, steps in RUBRICS.items()
        for judge in judges
    ]
    scoring = {"idk": idk, "idk_reason": "", "unscored": {}, "verdicts": verdicts, "implausible": {}, "turn_error": {}}
    names = list(dict.fromkeys([*row["metrics"], *METRICS]))
    answer = " ".join(draw.choices(words, k=ANSWER_WORDS))
    texts = {"resps": [[answer]], "filtered_resps": [answer]}
    return {**row, **values, **texts, "metrics": names, "doc": {**row["doc"], "scoring": scoring}}


def words_of(doc: dict[str, Any]) -> list[str]:
    """Return the words of a task's passages."""
    return " ".join([doc["question"], *(passage["text"] for passage in doc["passages"])]).split()


def seconds_of(folder: Path, options: list[str]) -> float:
    """Return the seconds of a successful report of the results in a folder."""
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", COMMAND, "report", str(folder), *options], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - begin


def write(source: Path, target: Path, n_models: int, n_tasks: int, judges: list[str]) -> int:
    """Write the results of all models to a folder, and return the number of samples."""
    results, samples = read(source)
    content = json.loads(results.read_text("utf-8"))
    enlarge(samples, n_tasks)
    content["n-samples"] = {task: {"original": len(rows), "effective": len(rows)} for task, rows in samples.items()}
    for config in content["configs"].values():
        config["metadata"]["ragtasks"].pop("summary")  # summarizes the scores that are replaced here
    draw = random.Random(0)
    n_samples = 0
    for number in range(n_models):
        folder = target / f"model-{number}"
        folder.mkdir()
        content["config"]["model_args"] = {"model": f"org/model-{number}"}
        (folder / results.name).write_text(json.dumps(content), "utf-8")
        for task, rows in samples.items():
            time_of_run = results.stem.removeprefix("results_")
            with (folder / f"samples_{task}_{time_of_run}.jsonl").open("w", encoding="utf-8") as lines:
                for row in rows:
                    lines.write(json.dumps(sample_of(row, 0.4 + 0.02 * number, judges, draw)) + "\n")
            n_samples += len(rows)
    return n_samples


def main() -> None:
    """Create the results, report them alternately with and without the page, and print seconds and memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=842)
    parser.add_argument("--judges", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        judges = [f"judge-{number}" for number in range(chosen.judges)]
        n_samples = write(chosen.results, folder, chosen.models, chosen.tasks, judges)
        size = sum(path.stat().st_size for path in folder.rglob("*.jsonl"))
        print(f"{chosen.models} models, {n_samples} samples, {size / 1e6:.0f} MB; {os.cpu_count()} cores", flush=True)
        peers = {"tables": [], "tables and page": ["--html", str(folder / "page.html")]}
        seconds: dict[str, list[float]] = {peer: [] for peer in peers}
        for _ in range(chosen.repeats):
            for peer, options in peers.items():
                seconds[peer].append(seconds_of(folder, options))
        page = (folder / "page.html").stat().st_size
    for peer, taken in seconds.items():
        print(f"{peer}: median {median(taken):.1f} s, {min(taken):.1f} to {max(taken):.1f}")
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024**2  # Linux counts in KiB
    print(f"page of {page / 1e6:.0f} MB; peak of the largest process {memory:.2f} GiB")


if __name__ == "__main__":
    main()
