"""TREC RAG: topics for long answers with citations from MS MARCO V2.1 (paper: Ragnarok, Pradeep et al. 2024).

2024 has three sets of topics, each a domain: `test` (301), `raggy` (120) and `researchy` (600); the latter two are for
development. 2025 has 105 narratives of several sentences each, whose nuggets refer to parts of the narrative. A task is
a topic, and its id is the topic's id, so that the track's runs and judgements can be joined. There is no reference
answer. The target is the concatenation of the topic's nuggets, which reaches maximum nugget recall.

The corpus has 113,520,750 segments, so passages come from a run: the benchmark's own run in `runs/` and `segments/` or,
without it, a stored run. `ragtasks retrieve --retriever run:FILE` creates a stored run from a run file and the shards
of the segments.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from ragtasks.benchmarks._definition import Benchmark, BenchmarkDefinition, RetrievalSide, derived_file, read_edition
from ragtasks.benchmarks.sources import Source, SourceFile
from ragtasks.benchmarks.trec_rag._files import (
    read_narratives,
    read_qrels,
    read_ranking,
    read_retrieved,
    read_segments,
    read_topics,
)
from ragtasks.benchmarks.trec_rag._judgements import TopicNuggets, nugget_rows, read_nuggets
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.files import Problems
from ragtasks.records import (
    Answerability,
    Contexts,
    Message,
    Passage,
    Qrel,
    Role,
    Setting,
    Task,
)

SHARDS = "msmarco_v2.1_doc_segmented"
"""Folder of the corpus' 70 files, named as in the official archive."""


@dataclass(frozen=True)
class TrackYear:
    """One year: its sets of topics, each a domain, and their sizes."""

    source: Source
    """Official files; its `name` is the name of the benchmark."""
    title: str
    sets: Mapping[str, str]
    """Set of topics -> part of its file names, such as `rag24.test`."""
    counts: Mapping[str, int]
    """Set of topics -> number of topics in the official file."""
    has_narratives: bool = False
    """Whether topics are narratives (JSON lines) instead of lines of id, tab and text."""

    def load(self, root: Path) -> Benchmark:
        """Return the benchmark with files under `root`. Sets without a topics file are omitted.

        Nuggets are read from `nuggets/nuggets.<name of the set>.jsonl`, if the file exists.
        """
        is_sample, revision, counts = self._edition(root)
        topics = self._read_all_topics(root, counts)
        tasks = tuple(
            topic_task(domain, topic_id, text, nuggets.get(topic_id))
            for domain, topics_of_set in topics.items()
            for nuggets in (self._read_nuggets(root, domain, topics_of_set),)
            for topic_id, text in topics_of_set.items()
        )
        return Benchmark(
            self.source.name,
            root,
            is_sample,
            revision,
            "answerability",
            tasks,
            functools.partial(self._contexts, root, topics),
            suite=self.source.name,
            n_passages=N_PASSAGES,
            has_own_domains=True,
        )

    def corpus_file(self, root: Path, domain: str) -> Path:
        """Return the folder with the corpus' shards, which all sets share, or a sample's single file of passages.

        The sample's file is created from its segments if it is missing.
        """
        shards = root / SHARDS
        if shards.is_dir():
            return shards
        if self._edition(root)[0]:
            rows = (
                {"_id": segment.passage_id, "title": segment.title, "text": segment.text, "url": segment.url}
                for segment in load_segments(root).values()
            )
            return derived_file(root, "segments.jsonl", lambda: rows)
        raise BenchmarkFileError(
            f"corpus of {self.title}",
            where=f"{shards} (set {domain})",
            expected="the folder with the 70 files of MS MARCO V2.1's segments",
            found="no folder",
            next_step=f"unpack {SHARDS}.tar there, or name the folder with --corpus {domain}=FOLDER",
        )

    def load_qrels(self, root: Path, domain: str) -> tuple[Qrel, ...]:
        """Return the relevance judgements of a set, grades 0 to 4; () without a file."""
        path = root / "qrels" / f"qrels.{self.sets[domain]}.txt"
        return read_qrels(path, self._read_topics(root, domain)) if path.is_file() else ()

    def definition(self) -> BenchmarkDefinition:
        """Return the registry entry."""
        side = RetrievalSide(tuple(self.sets), self.corpus_file, self.load_qrels)
        return BenchmarkDefinition(self.source, self.load, side)

    def _edition(self, root: Path) -> tuple[bool, str, Mapping[str, int]]:
        return read_edition(root, self.source.commit, self.counts, TypeAdapter(dict[str, int]).validate_python)

    def _topics_file(self, root: Path, domain: str) -> Path:
        return root / "topics" / f"topics.{self.sets[domain]}.{'jsonl' if self.has_narratives else 'txt'}"

    def _contexts(self, root: Path, topics: Mapping[str, Collection[str]], setting: Setting) -> Contexts:
        """Return the first 20 segments of each topic, for the sets with a run under `root`."""
        name = self.source.name
        if setting is not Setting.FULL_RAG:
            expected = f"setting {Setting.FULL_RAG.value}, the track's only setting"
            raise self._no_contexts(f"setting {setting.value}", expected, f"setting {setting.value}", f"take {name}")
        passages_of_set = {
            domain: self._passages_of_set(root, domain, topics_of_set) for domain, topics_of_set in topics.items()
        }
        if not any(passages_of_set.values()):
            next_step = (
                "add one there: retrieval results with their texts (retrieve_results_*.jsonl) or a TREC run with its "
                f"segments in {_segments_file(root)}; or make a stored run with "
                f"`ragtasks retrieve --benchmark {name} --retriever run:FILE --corpus {next(iter(topics))}=SHARDS` and "
                "name it by --run (lm_eval: --metadata run=NAME)"
            )
            raise self._no_contexts(str(root / "runs"), "a run of the topics", "none", next_step)
        passages = {
            topic_id: topic_passages
            for passages_by_topic in passages_of_set.values()
            for topic_id, topic_passages in passages_by_topic.items()
        }
        return Contexts("official", setting, passages)

    def _passages_of_set(self, root: Path, domain: str, topics: Collection[str]) -> dict[str, tuple[Passage, ...]]:
        """Return topic id -> its first 20 segments, for every topic of a set; {} without a run."""
        run = root / "runs" / f"run.{self.sets[domain]}.txt"
        results = sorted((root / "runs").glob(f"retrieve_results_*{self.sets[domain]}*.jsonl"))
        files = [*([run] if run.is_file() else []), *results]
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            expected = f"one run of the set {domain}"
            raise self._no_contexts(str(root / "runs"), expected, names, "keep only one of them")
        if not files:
            return {}
        if results:
            return _first_passages(results[0], read_retrieved(results[0], topics), topics)
        ranked = _first_passages(run, read_ranking(run, topics), topics)
        segments = load_segments(root, {segment_id for ids in ranked.values() for segment_id in ids})
        return {topic_id: tuple(segments[key] for key in ids) for topic_id, ids in ranked.items()}

    def _no_contexts(self, where: str, expected: str, found: str, next_step: str) -> ConfigurationError:
        title = f"passages of {self.title}"
        return ConfigurationError(title, where=where, expected=expected, found=found, next_step=next_step)

    def _read_topics(self, root: Path, domain: str) -> dict[str, str]:
        path = self._topics_file(root, domain)
        return read_narratives(path) if self.has_narratives else read_topics(path)

    def _read_all_topics(self, root: Path, counts: Mapping[str, int]) -> dict[str, dict[str, str]]:
        """Return set -> topic id -> text, for the sets with a file. A wrong number of topics is an error."""
        paths = {domain: path for domain in self.sets if (path := self._topics_file(root, domain)).is_file()}
        if not paths:
            raise BenchmarkFileError(
                f"{self.title} data",
                where=str(root / "topics"),
                expected="at least one of " + ", ".join(self._topics_file(root, domain).name for domain in self.sets),
                found="none",
                next_step=f"run `ragtasks data fetch {self.source.name}`, or put the track's files there",
            )
        topics: dict[str, dict[str, str]] = {}
        for domain, path in paths.items():
            topics[domain] = self._read_topics(root, domain)
            problems = Problems(path, "TREC RAG topics", "take the official file")
            if len(topics[domain]) != counts[domain]:
                problems.add(0, f"{counts[domain]} topics", len(topics[domain]))
            for earlier in list(topics)[:-1]:
                for topic_id in sorted(topics[domain].keys() & topics[earlier].keys()):
                    problems.add(0, f"no topic of the set {earlier}", "this topic", topic_id)
            problems.raise_if_any()
        return topics

    def _read_nuggets(self, root: Path, domain: str, topics: Mapping[str, str]) -> dict[str, TopicNuggets]:
        path = root / "nuggets" / f"nuggets.{self.sets[domain]}.jsonl"
        if not path.is_file():
            return {}
        nuggets = read_nuggets(path)
        problems = Problems(path, "nuggets", "remove these topics, or add the topics file that contains them")
        for topic_id in sorted(nuggets.keys() - topics.keys()):
            problems.add(0, f"topics of the set {domain}", "nuggets of this topic", topic_id)
        problems.raise_if_any()
        return nuggets


def topic_task(domain: str, topic_id: str, text: str, nuggets_of_topic: TopicNuggets | None = None) -> Task:
    """Return a topic as a task with its nuggets."""
    nuggets = nuggets_of_topic.nuggets if nuggets_of_topic else ()
    return Task(
        task_id=topic_id,
        conversation_id=topic_id,
        turn=1,
        domain=domain,
        messages=(Message(Role.USER, text),),
        target=" ".join(f"{nugget.text.rstrip('.')}." for nugget in nuggets),
        answerability=Answerability.ANSWERABLE,
        extra={"nuggets": nugget_rows(nuggets)},
    )


_COMMIT = "5b819c1a45c8a0a3ec9426f476694f44a29dfaf3"
_RAGNAROK_COMMIT = "7233fa742e47055865c7f85b1f9c8f0558bfdbbf"

MAX_WORDS = 400
"""Maximum words of an answer in the track."""
NARRATIVES = "narratives"
"""The set of topics of 2025."""


def _source(name: str, *files: SourceFile) -> Source:
    """Return the source of topics and relevance judgements: the repository formerly named anserini-tools.

    Their official checksums are unknown. Nuggets, runs and segments come from the track and Microsoft. A run must cover
    every set with a topics file, so development sets are in a separate group `dev`, not downloaded by default.
    """
    return Source(
        name=name,
        folder=name,
        marker="topics",
        repository="https://github.com/castorini/eval",
        commit=_COMMIT,
        base_url=f"https://raw.githubusercontent.com/castorini/eval/{_COMMIT}/",
        files=files,
    )


def _ragnarok_prompt(name: str, sha256: str, n_bytes: int) -> SourceFile:
    """Return a prompt of the organizers' baseline, from another repository."""
    address = f"https://raw.githubusercontent.com/castorini/ragnarok/{_RAGNAROK_COMMIT}/"
    path = f"src/ragnarok/prompts/prompt_templates/{name}.yaml"
    return SourceFile(path, sha256, n_bytes, "generation_prompts", base_url=address)


TRACK_2024 = TrackYear(
    _source(
        "trec_rag24",
        SourceFile("topics/topics.rag24.test.txt", None, None, "tasks"),
        SourceFile("qrels/qrels.rag24.test.txt", None, None, "tasks"),
        SourceFile("topics/topics.rag24.raggy-dev.txt", None, None, "dev"),
        SourceFile("topics/topics.rag24.researchy-dev.txt", None, None, "dev"),
        _ragnarok_prompt("chatqa", "8ea892c75b4caabeb0cdea4f52e1bc8b3781e5cc79d58f1c806c6f441f42e0b5", 1009),
    ),
    "TREC RAG 2024",
    {"test": "rag24.test", "raggy": "rag24.raggy-dev", "researchy": "rag24.researchy-dev"},
    {"test": 301, "raggy": 120, "researchy": 600},
)
"""Counts from the paper, section 5, and the track's pages."""

TRACK_2025 = TrackYear(
    _source(
        "trec_rag25",
        SourceFile("topics/topics.rag25.test.jsonl", None, None, "tasks"),
        SourceFile("qrels/qrels.rag25.test.txt", None, None, "tasks"),
        _ragnarok_prompt("ragnarok_v4", "16006023f483603fc790d2fa7ad850f064ac93dfac02932512c535cd4a5cecda", 1745),
    ),
    "TREC RAG 2025",
    {NARRATIVES: "rag25.test"},
    {NARRATIVES: 105},
    has_narratives=True,
)
"""Counts from guidelines 2.0."""

TREC_RAG24 = TRACK_2024.definition()
TREC_RAG25 = TRACK_2025.definition()


_T = TypeVar("_T")

N_PASSAGES = 20
"""Number of segments for a topic (paper, section 3)."""


def has_segments(root: Path) -> bool:
    """Return whether segment texts for the benchmark's run are stored in the folder."""
    return _segments_file(root).is_file()


def _segments_file(root: Path) -> Path:
    return root / "segments" / "segments.jsonl"


def load_segments(root: Path, wanted: Collection[str] | None = None, file: Path | None = None) -> dict[str, Passage]:
    """Return segment id -> passage, for the wanted segments or all, by default from the benchmark's own run."""
    return read_segments(file or _segments_file(root), wanted)


def _first_passages(
    path: Path, ranking: Mapping[str, tuple[_T, ...]], topics: Collection[str]
) -> dict[str, tuple[_T, ...]]:
    """Return topic id -> the first 20 passages (or ids) of its ranking. A topic without a ranking is an error."""
    problems = Problems(path, "TREC RAG run", "give every topic its segments")
    for topic_id in sorted(set(topics) - ranking.keys()):
        problems.add(0, "a line for every topic", "no line", topic_id)
    problems.raise_if_any()
    return {topic_id: ranking[topic_id][:N_PASSAGES] for topic_id in topics}
