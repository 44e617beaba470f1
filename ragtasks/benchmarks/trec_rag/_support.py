"""People's judgements of citations: how far each cited segment supports the sentence of an answer that cites it.

Source: the track's files of 2024 (`final.citation_judgments_*.jsonl`); their labels are "2", "1" and "0", and "-1" for
a citation that was not judged, as 110 of the 4,855 of `final.citation_judgments_Webassess.20241031.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.files import Violations, json_lines
from ragtasks.records import Support

_LABELS = {"2": Support.FULL, "1": Support.PARTIAL, "0": Support.NO, "-1": None, "None": None}


@dataclass(frozen=True, slots=True)
class SupportJudgement:
    """The judged citations of one answer; sequences have one item a sentence."""

    topic_id: str
    """Topic."""
    run_id: str
    """Whose answer it is."""
    cites: tuple[bool, ...]
    """Whether the sentence cites a segment."""
    levels: tuple[Support | None, ...]
    """What its first citation gives; None where it does not cite, or nobody judged it."""
    n_not_judged: int = 0
    """Citations without a judgement, of which only the first of a sentence would count."""


def read_support(path: Path) -> list[SupportJudgement]:
    """Return the judgements of a file, in its order; a run and a topic come once together.

    A citation without a label (no `support`, null, or -1) was not judged.

    Raises:
        BenchmarkFileError: the file is missing or empty, or has errors: all of them, by line.
    """
    violations = Violations(
        path, "support judgements", "fix these lines; each needs topic_id, run_id and sentences [{citations}]"
    )
    found: dict[tuple[str, str], SupportJudgement] = {}
    for line, row in json_lines(violations):
        topic_id, run_id, sentences = row.get("topic_id"), row.get("run_id"), row.get("sentences")
        if not isinstance(topic_id, str | int) or isinstance(topic_id, bool) or not isinstance(run_id, str):
            violations.add(line, "`topic_id` and `run_id`", f"{topic_id!r} and {run_id!r}")
        elif not isinstance(sentences, list):
            violations.add(line, "a list `sentences`", sentences, str(topic_id))
        elif (run_id, str(topic_id)) in found:
            violations.add(line, "each topic once for a run", f"run {run_id} again", str(topic_id))
        else:
            levels = tuple(_levels(line, sentences, str(topic_id), violations))
            found[run_id, str(topic_id)] = SupportJudgement(
                str(topic_id),
                run_id,
                cites=tuple(bool(own) for own in levels),
                levels=tuple(own[0] if own else None for own in levels),
                n_not_judged=sum(own.count(None) for own in levels),
            )
    violations.raise_if_any()
    return list(found.values())


def _levels(
    line: int, sentences: list[Any], topic_id: str, violations: Violations
) -> Iterator[tuple[Support | None, ...]]:
    """Yield the levels of each sentence's citations."""
    for number, sentence in enumerate(sentences):
        citations = sentence.get("citations") if isinstance(sentence, dict) else None
        if not isinstance(citations, list) or not all(isinstance(item, dict) for item in citations):
            violations.add(line, f"sentences[{number}] with a list `citations` of objects", sentence, topic_id)
            continue
        labels = [item.get("support") for item in citations]
        for label in labels:
            if str(label) not in _LABELS:
                expected = f"sentences[{number}]: `support` of 0, 1 or 2, or -1 for not judged"
                violations.add(line, expected, label, topic_id)
        yield tuple(_LABELS.get(str(label)) for label in labels)


__all__ = ["SupportJudgement", "read_support"]
