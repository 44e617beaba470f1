"""Agreement of our sentence rule with the boundaries in real files of TREC RAG.

    python perf/sentence_agreement.py DATA      DATA: folders answers/ and retrieve_results/ as published

- Segments: of two adjacent segments (10 sentences, every 5), the second begins at the sixth sentence of the first.
  Their `start_char` cannot be used: the values drift from the text by a character or two.
- Answers: sentences of an answer file are joined with their citations in brackets and split again.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragtasks.metrics import parse_cited
from retrieval_cache.corpora.segmenting import sentence_spans

STRIDE = 5
"""Sentences from the start of a segment to the start of the next one in MS MARCO V2.1."""


def neighbours(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the text of a segment, and the offset in it at which the next segment begins."""
    segments: dict[str, dict[int, str]] = defaultdict(dict)
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            for candidate in json.loads(line)["candidates"]:
                document, _, offset = candidate["docid"].partition("#")
                segments[document][int(offset.partition("_")[0])] = candidate["doc"]["segment"]
    for of_document in segments.values():
        for number, text in of_document.items():
            following = of_document.get(number + 1, "")
            starts = (start for start in range(len(text)) if following.startswith(text[start:]))
            if following and (start := next(starts, None)) is not None:
                yield text, start


def place_of(text: str, start: int) -> str:
    """Return the classification of the next segment's offset by our rule."""
    begins = [begin for begin, _ in sentence_spans(text)]
    if not any(not text[min(begin, start) : max(begin, start)].strip() for begin in begins):
        return f"no boundary, behind {text[:start].rstrip()[-1:]!r}"
    n_before = sum(begin < start for begin in begins)
    if n_before == STRIDE:
        return "equal"
    return "a boundary, but after fewer sentences" if n_before < STRIDE else "a boundary, but after more sentences"


def answer_agreement(rows: list[dict[str, Any]]) -> tuple[int, int, int, float, float]:
    """Return equal answers, equal and all official sentences, and the share of sentences that cite: official, ours."""
    n_answers = n_equal = n_sentences = 0
    shares: tuple[list[float], list[float]] = ([], [])
    for row in rows:
        sentences = [sentence for sentence in row["answer"] if sentence["text"].strip()]
        brackets = ("".join(f"[{number + 1}]" for number in sentence["citations"]) for sentence in sentences)
        text = " ".join(sentence["text"].strip() + cited for sentence, cited in zip(sentences, brackets, strict=True))
        ours = parse_cited(text, len(row["references"]))
        official = [sentence["text"].strip() for sentence in sentences]
        n_answers += [sentence.text for sentence in ours] == official
        n_equal += (Counter(sentence.text for sentence in ours) & Counter(official)).total()
        n_sentences += len(official)
        shares[0].append(sum(bool(sentence["citations"]) for sentence in sentences) / len(sentences))
        shares[1].append(sum(bool(sentence.citations) for sentence in ours) / len(ours))
    return n_answers, n_equal, n_sentences, *(sum(column) / len(column) for column in shares)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    counts = Counter(place_of(text, start) for text, start in neighbours(data / "retrieve_results"))
    print(f"segments: {counts.total()} neighbours")
    for classification, n in counts.most_common():
        print(f"  {n:4} {n / counts.total():6.1%} {classification}")
    for file in sorted((data / "answers").glob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        n_answers, n_equal, n_sentences, official, ours = answer_agreement(rows)
        print(f"{file.name}: {n_answers} of {len(rows)} answers equal, {n_equal} of {n_sentences} sentences")
        print(f"  mean share of sentences that cite: {official:.3f} official, {ours:.3f} ours")


if __name__ == "__main__":
    main()
