"""Time and bytes read of `ragtasks results list` over many evaluations, with and without their summaries.

One evaluation is copied until its samples have the requested size. The listing is timed alternately with summaries and
without, as in results written by several processes. Both must print the same text.

    ragtasks run --model ragtasks-extractive --tasks mtrag --encoder none --output RESULTS
    python perf/listing.py RESULTS [--megabytes 1000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

COMMAND = "from ragtasks.cli import main; main()"


def copied(source: Path, target: Path, n: int) -> list[Path]:
    """Copy an evaluation; samples are hard links to one file, to save disk space."""
    (results,) = source.rglob("results_*.json")
    made = []
    for number in range(n):
        folder = target / f"{number:04}"
        folder.mkdir()
        made.append(Path(shutil.copy(results, folder)))
        for samples in results.parent.glob("samples_*.jsonl"):
            os.link(samples, folder / samples.name)
    return made


def without_summaries(files: list[Path]) -> None:
    """Remove the summaries from results files."""
    for file in files:
        content = json.loads(file.read_text("utf-8"))
        for config in content["configs"].values():
            config["metadata"]["ragtasks"].pop("summary")
        file.write_text(json.dumps(content), "utf-8")


def listed(folder: Path) -> tuple[float, str]:
    """Return seconds and text of one listing in its own process."""
    begin = time.perf_counter()
    command = [sys.executable, "-c", COMMAND, "results", "list", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - begin, done.stdout


def main() -> None:
    """Create both folders, list them alternately, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    size = sum(path.stat().st_size for path in options.results.rglob("samples_*.jsonl"))
    n = max(1, round(options.megabytes * 1e6 / size))
    with tempfile.TemporaryDirectory(dir=options.results.parent) as name:
        peers = {label: Path(name) / label for label in ("means in results files", "means of all samples")}
        for folder in peers.values():
            folder.mkdir()
        copied(options.results, peers["means in results files"], n)
        without_summaries(copied(options.results, peers["means of all samples"], n))
        seconds_by_label: dict[str, list[float]] = {label: [] for label in peers}
        for _ in range(options.repeats):
            texts = set()
            for label, folder in peers.items():
                seconds, text = listed(folder)
                seconds_by_label[label].append(seconds)
                texts.add(text)
            if len(texts) != 1:
                raise SystemExit("the two listings differ")
    print(f"{n} evaluations, {n * size / 1e6:,.0f} MB of samples; the same text")
    for label, seconds_of in seconds_by_label.items():
        print(f"{label}: median {median(seconds_of):.2f} s, {min(seconds_of):.2f} to {max(seconds_of):.2f}")


if __name__ == "__main__":
    main()
