"""Stores every number that the main commands print and log, and compares two such folders: for moves of code.

    python scripts/same_numbers.py store FOLDER [--data FOLDER]   # run the commands of this checkout
    python scripts/same_numbers.py compare BEFORE AFTER           # every number that differs; status 1 where one does

The sample is enough for `store`; `--data` names the data folder with the real files, and more commands are run then.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RAGTASKS = str(Path(sys.executable).parent / "ragtasks")
BASELINES = ("ragtasks-extractive", "ragtasks-oracle", "ragtasks-refuse")
TASKS = "mtrag,mtrag_un_reference,mtrag_s,multihop_rag_retrieved,multihop_rag_gold,trec_rag24,custom_full_rag"
DIALOGUES = "multidoc2dial_reference,multidoc2dial_full_rag,doc2dial_reference"
SAMPLE = '{"data": "sample"}'
_NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+")
_UNSTABLE = re.compile(r"(seconds|_time|date|start|path|version|hash|git|pretty_env|total_evaluation)", re.IGNORECASE)


def commands(data: Path | None) -> Iterator[tuple[str, list[str]]]:
    """Yield (name, arguments of `ragtasks`); `{out}` is the folder of this storing."""
    for model in BASELINES:
        yield f"run_{model}", _run(model, f"{TASKS},{DIALOGUES}", SAMPLE, "{out}/results")
    yield "report", ["report", "{out}/results"]
    yield "compare", ["compare", "{out}/results/ragtasks-oracle", "{out}/results/ragtasks-extractive"]
    for form in ("last_turn", "rewrite"):
        for retriever in ("bm25", "bm25-standard"):
            yield f"retrieve_{retriever}_{form}", _retrieve(retriever, form, "sample")
    names = [
        f"{retriever}.{form}.sample" for retriever in ("bm25", "bm25-standard") for form in ("last_turn", "rewrite")
    ]
    yield "evaluate_run", ["evaluate-run", *names, "--data", "sample"]
    yield "compare_runs", ["compare", *names[:2], "--data", "sample"]
    if data is None:
        return
    for model in BASELINES[:2]:
        metadata = json.dumps({"encoder": "none"})
        yield f"real_{model}", _run(model, "mtrag_reference,mtrag_un_reference", metadata, "{out}/real")
    yield "real_report", ["report", "{out}/real"]
    yield "real_human", ["report", "--human-evaluation"]
    yield "real_retrieve", ["retrieve", "--retriever", "bm25", "--queries", "rewrite", "--name", "real"]
    yield "real_evaluate_run", ["evaluate-run", "real"]


def _run(model: str, tasks: str, metadata: str, output: str) -> list[str]:
    logs = ["--output_path", f"{output}/{model}", "--log_samples"]
    return ["run", "--model", model, "--tasks", tasks, "--metadata", metadata, *logs]


def _retrieve(retriever: str, form: str, data: str) -> list[str]:
    return ["retrieve", "--retriever", retriever, "--queries", form, "--data", data]


def store(folder: Path, data: Path | None) -> int:
    """Run the commands and keep what they print; return how many failed."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = (
        os.environ
        | {"HF_HUB_OFFLINE": "1", "RAGTASKS_RUNS": str(folder / "runs")}
        | ({"RAGTASKS_DATA": str(data)} if data else {})
    )
    failed = 0
    for name, arguments in commands(data):
        command = [RAGTASKS, *(argument.replace("{out}", str(folder)) for argument in arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        (folder / f"{name}.out").write_text(done.stdout, encoding="utf-8")
        (folder / f"{name}.err").write_text(done.stderr, encoding="utf-8")
        failed += done.returncode != 0
        print(f"{name}: status {done.returncode}", flush=True)
    return failed


def numbers(folder: Path) -> dict[str, list[str]]:
    """Return file -> the numbers in it, in order: of printed tables, of results and of logged samples."""
    found = {}
    for file in sorted(folder.rglob("*")):
        name = re.sub(r"_\d{4}-\d\d-\d\dT[-\d]+\.\d+", "", str(file.relative_to(folder)))
        name = re.sub(r"/[a-z0-9_]{8}/", "/", name)  # the harness's folder, whose name is the hash of a path
        if file.suffix == ".out":
            text = file.read_text(encoding="utf-8").replace(str(folder), "")
            found[name] = _NUMBER.findall(re.sub(r"\d+\.\d+ ?s\b|in \d+ s\b|\d{4}-\d\d-\d\d\S*", "", text))
        elif file.suffix in (".json", ".jsonl") and "results" in name + str(file.parent.name):
            lines = file.read_text(encoding="utf-8").splitlines() if file.suffix == ".jsonl" else [file.read_text()]
            found[name] = [text for line in lines for text in _leaves(json.loads(line))]
        elif file.suffix == ".jsonl" and "samples" in name:
            found[name] = [text for line in file.open(encoding="utf-8") for text in _leaves(json.loads(line))]
        elif file.suffix == ".trec":
            found[name] = file.read_text(encoding="utf-8").splitlines()
    return found


def _leaves(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for inner, item in value.items():
            if not _UNSTABLE.search(inner):
                yield from _leaves(item, inner)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, key)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield f"{key}={value!r}"


def compare(before: Path, after: Path) -> int:
    """Print what differs; return how many files do."""
    old, new = numbers(before), numbers(after)
    different = sorted(old.keys() ^ new.keys())
    for name in different:
        print(f"{name}: only {'before' if name in old else 'after'}")
    for name in sorted(old.keys() & new.keys()):
        if old[name] != new[name]:
            different.append(name)
            pairs = [(a, b) for a, b in zip(old[name], new[name], strict=False) if a != b]
            print(f"{name}: {len(old[name])} numbers before, {len(new[name])} after, {len(pairs)} differ: {pairs[:3]}")
    total = sum(map(len, old.values()))
    print(f"{len(old)} files, {total:,} numbers before; {len(different)} files differ")
    return len(different)


def main() -> int:
    """Store or compare; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    storing = actions.add_parser("store")
    storing.add_argument("folder", type=Path)
    storing.add_argument("--data", type=Path)
    comparing = actions.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.action == "store":
        return min(store(options.folder.resolve(), options.data), 1)
    return min(compare(options.before.resolve(), options.after.resolve()), 1)


if __name__ == "__main__":
    sys.exit(main())
