"""Small corpora with every judged passage of MTRAG, so that encoding takes minutes.

Each domain gets the passages named in its qrels and further passages, in the file's order, up to `--size`. Scores are
higher than on any larger corpus, so they can only compare retrievers with each other.

    python perf/small_pool.py DATA FOLDER [--size 600]      DATA: a checkout of mt-rag-benchmark with its corpora
"""

from __future__ import annotations

import argparse
import io
import zipfile
from pathlib import Path

import orjson

from ragtasks.benchmarks import retrieval_side
from ragtasks.files import write_atomically


def pool(data: Path, domain: str, size: int) -> bytes:
    """Return JSON lines: the judged passages of a domain, filled up to `size`."""
    side = retrieval_side("mtrag")
    judged = {qrel.passage_id for qrel in side.load_qrels(data, domain)}
    with zipfile.ZipFile(side.corpus_file(data, domain)) as archive, archive.open(archive.namelist()[0]) as file:
        rows = [(orjson.loads(line)["_id"], line) for line in io.BufferedReader(file)]
    n_others = size - sum(passage_id in judged for passage_id, _ in rows)
    chosen = []
    for passage_id, line in rows:
        is_other = passage_id not in judged
        if not is_other or n_others > 0:
            chosen.append(line.rstrip(b"\n") + b"\n")
            n_others -= is_other
    return b"".join(chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", type=int, default=600)
    arguments = parser.parse_args()
    for domain in retrieval_side("mtrag").domains:
        content = pool(arguments.data, domain, arguments.size)
        write_atomically(arguments.folder / f"{domain}.jsonl", content)
        print(f"{domain}: {content.count(10)} passages")


if __name__ == "__main__":
    main()
