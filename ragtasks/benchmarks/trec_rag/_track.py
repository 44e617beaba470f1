"""The topics of one year of TREC RAG, and the files that hold what belongs to them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.benchmarks._definition import BenchmarkDefinition
from ragtasks.benchmarks._derived import derived_file
from ragtasks.benchmarks._retrieval_side import RetrievalSide
from ragtasks.benchmarks.download import Source
from ragtasks.benchmarks.mtrag import Counts, edition_of
from ragtasks.benchmarks.trec_rag._contexts import N_PASSAGES, load_segments, read_contexts
from ragtasks.benchmarks.trec_rag._files import read_narratives, read_qrels, read_topics
from ragtasks.benchmarks.trec_rag._nuggets import TopicNuggets, nugget_rows, read_nuggets
from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.files import Violations
from ragtasks.records import Answerability, Message, Qrel, Role, Task

SHARDS = "msmarco_v2.1_doc_segmented"
"""Folder of the corpus' 70 files, as the official archive names it."""


@dataclass(frozen=True)
class Track:
    """One year: its sets of topics, each a domain, and how many there are."""

    source: Source
    """Official files; its `name` is the benchmark's."""
    title: str
    """Name in messages."""
    sets: Mapping[str, str]
    """Set of topics -> the name that its files bear, such as `rag24.test`."""
    counts: Counts
    """What the official files hold."""
    has_narratives: bool = False
    """Whether topics are narratives (JSON lines), not lines of an id, a tab and a text."""

    def load(self, root: Path) -> Benchmark:
        """Return the benchmark whose files lie under `root`; a set without a topics file is left out.

        Nuggets are read from `nuggets/nuggets.<name of the set>.jsonl` where it is there.

        Raises:
            BenchmarkFileError: no topics, a broken file, other counts than official, or nuggets of another topic.
        """
        is_sample, revision, counts = edition_of(root, self.source.commit, self.counts)
        topics = self._read_all_topics(root, counts)
        tasks = tuple(
            topic_task(domain, topic_id, text, nuggets.get(topic_id))
            for domain, of_set in topics.items()
            for nuggets in (self._read_nuggets(root, domain, of_set),)
            for topic_id, text in of_set.items()
        )
        named = {domain: (self.sets[domain], of_set) for domain, of_set in topics.items()}
        return Benchmark(
            self.source.name,
            root,
            is_sample,
            revision,
            "answerability",
            tasks,
            functools.partial(read_contexts, self.source.name, self.title, root, named),
            suite=self.source.name,
            n_passages=N_PASSAGES,
            has_own_domains=True,
        )

    def corpus_file(self, root: Path, domain: str) -> Path:
        """Return the folder with the corpus' shards, the same for every set; of a sample, one file of passages.

        The sample's file is made from its segments where it is not there yet.

        Raises:
            BenchmarkFileError: neither is there, or the segments are broken.
        """
        shards = root / SHARDS
        if shards.is_dir():
            return shards
        if edition_of(root, self.source.commit, self.counts)[0]:
            return derived_file(root, "segments.jsonl", lambda: _rows(root))
        message = clear_error(
            f"corpus of {self.title}",
            where=f"{shards} (set {domain})",
            expected="the folder with the 70 files of MS MARCO V2.1's segments",
            found="no folder",
            next_step=f"unpack {SHARDS}.tar there, or name the folder with --corpus {domain}=FOLDER",
        )
        raise BenchmarkFileError(message)

    def load_qrels(self, root: Path, domain: str) -> tuple[Qrel, ...]:
        """Return the relevance judgements of a set, grades 0 to 4; () where none of segments are known.

        Raises:
            BenchmarkFileError: the topics are missing, or the file is broken.
        """
        path = root / "qrels" / f"qrels.{self.sets[domain]}.txt"
        return read_qrels(path, self._read_topics(root, domain)) if path.is_file() else ()

    def retrieval(self) -> RetrievalSide:
        """Return the retrieval side."""
        return RetrievalSide(tuple(self.sets), self.corpus_file, self.load_qrels)

    def definition(self) -> BenchmarkDefinition:
        """Return what the registry lists."""
        return BenchmarkDefinition(self.source, self.load, self.retrieval())

    def _topics_file(self, root: Path, domain: str) -> Path:
        return root / "topics" / f"topics.{self.sets[domain]}.{'jsonl' if self.has_narratives else 'txt'}"

    def _read_topics(self, root: Path, domain: str) -> dict[str, str]:
        path = self._topics_file(root, domain)
        return read_narratives(path) if self.has_narratives else read_topics(path)

    def _read_all_topics(self, root: Path, counts: Counts) -> dict[str, dict[str, str]]:
        """Return set -> topic id -> text, of the sets that are there, none with a topic too many or too few."""
        paths = {domain: path for domain in self.sets if (path := self._topics_file(root, domain)).is_file()}
        if not paths:
            message = clear_error(
                f"{self.title} data",
                where=str(root / "topics"),
                expected="at least one of " + ", ".join(self._topics_file(root, domain).name for domain in self.sets),
                found="none",
                next_step=f"run `ragtasks fetch {self.source.name}`, or put the track's files there",
            )
            raise BenchmarkFileError(message)
        topics: dict[str, dict[str, str]] = {}
        for domain, path in paths.items():
            topics[domain] = self._read_topics(root, domain)
            violations = Violations(path, "TREC RAG topics", "take the official file")
            if len(topics[domain]) != counts.by_domain[domain]:
                violations.add(0, f"{counts.by_domain[domain]} topics", len(topics[domain]))
            for other in list(topics)[:-1]:
                for topic_id in sorted(topics[domain].keys() & topics[other].keys()):
                    violations.add(0, f"no topic of the set {other}", "this topic", topic_id)
            violations.raise_if_any()
        return topics

    def _read_nuggets(self, root: Path, domain: str, topics: Mapping[str, str]) -> dict[str, TopicNuggets]:
        path = root / "nuggets" / f"nuggets.{self.sets[domain]}.jsonl"
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
        extra={"nuggets": nugget_rows(nuggets)},
    )


def _rows(root: Path) -> Iterator[dict[str, str]]:
    for passage in load_segments(root).values():
        yield {"_id": passage.passage_id, "title": passage.title, "text": passage.text, "url": passage.url}


__all__ = ["SHARDS", "Track", "topic_task"]
