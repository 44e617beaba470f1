"""TREC RAG 2024: topics that ask for a long, cited answer from MS MARCO V2.1 (paper: Ragnarok, Pradeep et al. 2024).

Three sets of topics, one domain each: `test` (301), `raggy` (120) and `researchy` (600, the latter two for
development). A task is a topic; its id is the topic's own, so that the track's runs and judgements join as they are.
There is no reference answer: the target is the topic's nuggets in a row, which is the ceiling of nugget recall.

The corpus has 113,520,750 segments, so passages come from a run: the benchmark's own where `runs/` and `segments/`
hold one, else a stored run that `ragtasks retrieve --retriever run:FILE` makes from a run and the segments' shards.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.benchmarks._definition import BenchmarkDefinition
from ragtasks.benchmarks._derived import derived_file
from ragtasks.benchmarks._retrieval_side import RetrievalSide
from ragtasks.benchmarks.download import Source, SourceFile
from ragtasks.benchmarks.mtrag import Counts, facts_of
from ragtasks.benchmarks.trec_rag._files import read_qrels, read_ranking, read_retrieved, read_segments, read_topics
from ragtasks.benchmarks.trec_rag._nuggets import TopicNuggets, read_nuggets
from ragtasks.errors import BenchmarkFileError, ConfigurationError, clear_error
from ragtasks.files import Violations
from ragtasks.records import Answerability, Contexts, Message, Passage, Qrel, Role, Setting, Task

_T = TypeVar("_T")
_COMMIT = "5b819c1a45c8a0a3ec9426f476694f44a29dfaf3"
_SETS = {"test": "test", "raggy": "raggy-dev", "researchy": "researchy-dev"}

DOMAINS = tuple(_SETS)
"""The sets of topics."""

N_PASSAGES = 20
"""Segments that a topic is given (paper, section 3)."""

MAX_WORDS = 400
"""Longest answer that the track takes."""

SHARDS = "msmarco_v2.1_doc_segmented"
"""Folder of the corpus' 70 files, as the official archive names it."""

SOURCE = Source(
    name="trec_rag24",
    folder="trec_rag24",
    marker="topics",
    repository="https://github.com/castorini/eval",
    commit=_COMMIT,
    base_url=f"https://raw.githubusercontent.com/castorini/eval/{_COMMIT}/",
    # Their official checksums are not known here. Nuggets, runs and segments come from the track and Microsoft.
    files=(
        SourceFile("topics/topics.rag24.test.txt", None, None, "tasks"),
        SourceFile("qrels/qrels.rag24.test.txt", None, None, "tasks"),
        SourceFile("topics/topics.rag24.raggy-dev.txt", None, None, "dev"),
        SourceFile("topics/topics.rag24.researchy-dev.txt", None, None, "dev"),
    ),
)
"""Topics and relevance judgements (the repository was called anserini-tools). A run must cover every set that is there,
so only the test set is fetched unasked; the others are the group `dev`."""

OFFICIAL_COUNTS = Counts(
    tasks=1021, by_domain={"test": 301, "raggy": 120, "researchy": 600}, by_answerability={"ANSWERABLE": 1021}
)
"""Paper, section 5, and the track's pages."""


def load(root: Path) -> Benchmark:
    """Return the benchmark whose files lie under `root`; a set without a topics file is left out.

    Nuggets are read from `nuggets/nuggets.rag24.<set>.jsonl` where it is there.

    Raises:
        BenchmarkFileError: no topics, a broken file, other counts than there should be, or nuggets of another topic.
    """
    is_sample, revision, counts = facts_of(root, SOURCE.commit, OFFICIAL_COUNTS)
    topics = _read_topics(root, counts)
    tasks = tuple(
        topic_task(domain, topic_id, text, nuggets.get(topic_id))
        for domain, of_set in topics.items()
        for nuggets in (_read_nuggets(root, domain, of_set),)
        for topic_id, text in of_set.items()
    )
    read_contexts = functools.partial(_read_contexts, root, topics)
    return Benchmark(
        "trec_rag24",
        root,
        is_sample,
        revision,
        "answerability",
        tasks,
        read_contexts,
        suite="trec_rag24",
        n_passages=N_PASSAGES,
        has_own_domains=True,
    )


def _topics_file(root: Path, domain: str) -> Path:
    return root / "topics" / f"topics.rag24.{_SETS[domain]}.txt"


def _read_topics(root: Path, counts: Counts) -> dict[str, dict[str, str]]:
    """Return set -> topic id -> text, of the sets that are there, none with a topic too many or too few."""
    paths = {domain: path for domain in DOMAINS if (path := _topics_file(root, domain)).is_file()}
    if not paths:
        message = clear_error(
            "TREC RAG 2024 data",
            where=str(root / "topics"),
            expected="at least one of " + ", ".join(_topics_file(root, domain).name for domain in DOMAINS),
            found="none",
            next_step="run `ragtasks fetch trec_rag24`, or put the track's files there",
        )
        raise BenchmarkFileError(message)
    topics: dict[str, dict[str, str]] = {}
    for domain, path in paths.items():
        topics[domain] = read_topics(path)
        violations = Violations(path, "TREC RAG topics", "take the official file")
        if len(topics[domain]) != counts.by_domain[domain]:
            violations.add(0, f"{counts.by_domain[domain]} topics", len(topics[domain]))
        for other in list(topics)[:-1]:
            for topic_id in sorted(topics[domain].keys() & topics[other].keys()):
                violations.add(0, f"no topic of the set {other}", "this topic", topic_id)
        violations.raise_if_any()
    return topics


def _read_nuggets(root: Path, domain: str, topics: Mapping[str, str]) -> dict[str, TopicNuggets]:
    path = root / "nuggets" / f"nuggets.rag24.{_SETS[domain]}.jsonl"
    if not path.is_file():
        return {}
    nuggets = read_nuggets(path)
    violations = Violations(path, "nuggets", "leave these topics out, or take the topics that they belong to")
    for topic_id in sorted(nuggets.keys() - topics.keys()):
        violations.add(0, f"topics of the set {domain}", "nuggets of this topic", topic_id)
    violations.raise_if_any()
    return nuggets


def topic_task(domain: str, topic_id: str, text: str, known: TopicNuggets | None = None) -> Task:
    """Return a topic as a task with its nuggets."""
    nuggets = known.nuggets if known else ()
    return Task(
        task_id=topic_id,
        conversation_id=topic_id,
        turn=1,
        domain=domain,
        messages=(Message(Role.USER, text),),
        target=" ".join(f"{nugget.text.rstrip('.')}." for nugget in nuggets),
        answerability=Answerability.ANSWERABLE,
        question_types=(),
        multi_turn="N/A",
        references=(),
        extra={"nuggets": [{"text": nugget.text, "importance": nugget.importance.value} for nugget in nuggets]},
    )


def _read_contexts(root: Path, topics: Mapping[str, Mapping[str, str]], setting: Setting) -> Contexts:
    """Return the first 20 segments of each topic of the sets that have a run under `root`.

    Raises:
        BenchmarkFileError: a broken run or segments file, a topic without a line, a segment that is not there.
        ConfigurationError: another setting, or no run.
    """
    if setting is not Setting.FULL_RAG:
        expected = f"setting {Setting.FULL_RAG.value}, the track's only one"
        raise _no_contexts(f"setting {setting.value}", expected, f"setting {setting.value}", "take trec_rag24")
    found = {domain: _of_set(root, domain, topics[domain]) for domain in topics}
    if not any(found.values()):
        next_step = (
            "put one there, retrieval results with their texts (retrieve_results_*.jsonl) or a TREC run with its "
            f"segments in {_segments_file(root)}; or make a stored run with "
            "`ragtasks retrieve --benchmark trec_rag24 --retriever run:FILE --corpus test=SHARDS` and name it in "
            "--metadata '{\"run\": NAME}'"
        )
        raise _no_contexts(str(root / "runs"), "a run of the topics", "none", next_step)
    passages = {topic_id: shown for of_set in found.values() for topic_id, shown in of_set.items()}
    return Contexts("official", setting, passages)


def _of_set(root: Path, domain: str, topics: Mapping[str, str]) -> dict[str, tuple[Passage, ...]]:
    """Return topic id -> its first 20 segments, for every topic of a set; {} where there is neither file for it."""
    name = f"rag24.{_SETS[domain]}"
    run = root / "runs" / f"run.{name}.txt"
    results = sorted((root / "runs").glob(f"retrieve_results_*{name}*.jsonl"))
    files = [*([run] if run.is_file() else []), *results]
    if len(files) > 1:
        found = ", ".join(file.name for file in files)
        raise _no_contexts(str(root / "runs"), f"one run of the set {domain}", found, "leave one of them there")
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


def _complete(
    path: Path, ranking: Mapping[str, tuple[_T, ...]], topics: Mapping[str, str]
) -> dict[str, tuple[_T, ...]]:
    """Return topic id -> its first 20 items, for every topic."""
    violations = Violations(path, "TREC RAG run", "give every topic its segments")
    for topic_id in sorted(topics.keys() - ranking.keys()):
        violations.add(0, "a line for every topic", "no line", topic_id)
    violations.raise_if_any()
    return {topic_id: ranking[topic_id][:N_PASSAGES] for topic_id in topics}


def _no_contexts(where: str, expected: str, found: str, next_step: str) -> ConfigurationError:
    return ConfigurationError(
        clear_error("passages of TREC RAG 2024", where=where, expected=expected, found=found, next_step=next_step)
    )


def corpus_file(root: Path, domain: str) -> Path:
    """Return the folder with the corpus' shards, the same for every set; of a sample, one file of passages.

    The sample's file is made from its segments where it is not there yet.

    Raises:
        BenchmarkFileError: neither is there, or the segments are broken.
    """
    shards = root / SHARDS
    if shards.is_dir():
        return shards
    if facts_of(root, SOURCE.commit, OFFICIAL_COUNTS)[0]:
        return derived_file(root, "segments.jsonl", lambda: _rows(root))
    message = clear_error(
        "corpus of TREC RAG 2024",
        where=f"{shards} (set {domain})",
        expected="the folder with the 70 files of MS MARCO V2.1's segments",
        found="no folder",
        next_step=f"unpack {SHARDS}.tar there, or name the folder with --corpus {domain}=FOLDER",
    )
    raise BenchmarkFileError(message)


def _rows(root: Path) -> Iterator[dict[str, str]]:
    for passage in load_segments(root).values():
        yield {"_id": passage.passage_id, "title": passage.title, "text": passage.text, "url": passage.url}


def load_qrels(root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return the relevance judgements of a set, grades 0 to 4; () where none of segments are known.

    Raises:
        BenchmarkFileError: the topics are missing, or the file is broken.
    """
    path = root / "qrels" / f"qrels.rag24.{_SETS[domain]}.txt"
    return read_qrels(path, read_topics(_topics_file(root, domain))) if path.is_file() else ()


RETRIEVAL = RetrievalSide(DOMAINS, corpus_file, load_qrels)
"""The retrieval side."""

DEFINITION = BenchmarkDefinition(SOURCE, load, RETRIEVAL)
"""What the registry lists."""

__all__ = [
    "DEFINITION",
    "DOMAINS",
    "MAX_WORDS",
    "N_PASSAGES",
    "OFFICIAL_COUNTS",
    "RETRIEVAL",
    "SHARDS",
    "SOURCE",
    "corpus_file",
    "has_segments",
    "load",
    "load_qrels",
    "load_segments",
    "topic_task",
]
