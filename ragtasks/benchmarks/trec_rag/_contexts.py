"""What topics are given to read: the first segments of a run that lies beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeVar

from ragtasks.benchmarks.trec_rag._files import read_ranking, read_retrieved, read_segments
from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.files import Violations
from ragtasks.records import Contexts, Passage, Setting

_T = TypeVar("_T")

N_PASSAGES = 20
"""Segments that a topic is given (paper, section 3)."""


def read_contexts(
    name: str, title: str, root: Path, topics: Mapping[str, tuple[str, Collection[str]]], setting: Setting
) -> Contexts:
    """Return the first 20 segments of each topic of the sets that have a run under `root`.

    Args:
        name: benchmark.
        title: the same for messages.
        root: folder of the benchmark's files.
        topics: set of topics -> (its name in names of files, its topic ids).
        setting: `full_rag`.

    Raises:
        BenchmarkFileError: a broken run or segments file, a topic without a line, a segment that is not there.
        ConfigurationError: another setting, or no run.
    """
    if setting is not Setting.FULL_RAG:
        expected = f"setting {Setting.FULL_RAG.value}, the track's only one"
        raise _no_contexts(title, f"setting {setting.value}", expected, f"setting {setting.value}", f"take {name}")
    found = {domain: _of_set(title, root, domain, *of_set) for domain, of_set in topics.items()}
    if not any(found.values()):
        next_step = (
            "put one there, retrieval results with their texts (retrieve_results_*.jsonl) or a TREC run with its "
            f"segments in {_segments_file(root)}; or make a stored run with "
            f"`ragtasks retrieve --benchmark {name} --retriever run:FILE --corpus {next(iter(topics))}=SHARDS` and "
            "name it in --metadata '{\"run\": NAME}'"
        )
        raise _no_contexts(title, str(root / "runs"), "a run of the topics", "none", next_step)
    passages = {topic_id: shown for of_set in found.values() for topic_id, shown in of_set.items()}
    return Contexts("official", setting, passages)


def _of_set(
    title: str, root: Path, domain: str, file_name: str, topics: Collection[str]
) -> dict[str, tuple[Passage, ...]]:
    """Return topic id -> its first 20 segments, for every topic of a set; {} where there is neither file for it."""
    run = root / "runs" / f"run.{file_name}.txt"
    results = sorted((root / "runs").glob(f"retrieve_results_*{file_name}*.jsonl"))
    files = [*([run] if run.is_file() else []), *results]
    if len(files) > 1:
        found = ", ".join(file.name for file in files)
        raise _no_contexts(title, str(root / "runs"), f"one run of the set {domain}", found, "leave one of them there")
    if not files:
        return {}
    if not results:
        ranked = _complete(run, read_ranking(run, topics), topics)
        segments = load_segments(root, {segment_id for ids in ranked.values() for segment_id in ids})
        return {topic_id: tuple(segments[item] for item in ids) for topic_id, ids in ranked.items()}
    return _complete(results[0], read_retrieved(results[0], topics), topics)


def has_segments(root: Path) -> bool:
    """Return whether texts of segments lie beside the benchmark's run."""
    return _segments_file(root).is_file()


def _segments_file(root: Path) -> Path:
    return root / "segments" / "segments.jsonl"


def load_segments(root: Path, wanted: Collection[str] | None = None, file: Path | None = None) -> dict[str, Passage]:
    """Return segment id -> passage, the wanted ones or all, of the segments that lie beside the benchmark's run.

    Args:
        root: folder of the benchmark's files.
        wanted: ids; one without a record is an error.
        file: another file of segment records.

    Raises:
        BenchmarkFileError: the file is missing or broken, or lacks wanted segments.
    """
    return read_segments(file or _segments_file(root), wanted)


def _complete(path: Path, ranking: Mapping[str, tuple[_T, ...]], topics: Collection[str]) -> dict[str, tuple[_T, ...]]:
    """Return topic id -> its first 20 items, for every topic."""
    violations = Violations(path, "TREC RAG run", "give every topic its segments")
    for topic_id in sorted(set(topics) - ranking.keys()):
        violations.add(0, "a line for every topic", "no line", topic_id)
    violations.raise_if_any()
    return {topic_id: ranking[topic_id][:N_PASSAGES] for topic_id in topics}


def _no_contexts(title: str, where: str, expected: str, found: str, next_step: str) -> ConfigurationError:
    return ConfigurationError(
        clear_error(f"passages of {title}", where=where, expected=expected, found=found, next_step=next_step)
    )


__all__ = ["N_PASSAGES", "has_segments", "load_segments", "read_contexts"]
