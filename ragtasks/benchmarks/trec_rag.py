"""TREC RAG: topics, runs, relevance judgements, segments, nuggets, support."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter

from ragtasks.benchmarks._definition import Benchmark, BenchmarkDefinition, RetrievalSide, derived_file, read_edition
from ragtasks.benchmarks._fields import Fields, Label, Text, Whole, checked, matching, once, text_lines, typed_lines
from ragtasks.benchmarks.sources import Source, SourceFile
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.files import (
    Misfit,
    Problems,
    has_candidates,
    json_lines,
    qrel_lines,
    retrieved_topic,
    run_lines,
)
from ragtasks.records import (
    Answerability,
    Contexts,
    Grade,
    Importance,
    Message,
    Nugget,
    Passage,
    Qrel,
    Role,
    Setting,
    Support,
    Task,
)

# The files of TREC RAG: topics, runs, relevance judgements, segments; each is checked whole, line by line.

SEGMENT_ID = re.compile(r"msmarco_v2\.1_doc_[0-9]+_[0-9]+#[0-9]+_[0-9]+")
"""The id of a segment of MS MARCO V2.1: file, offset of the document's line, number and offset of the segment."""

_NEXT_STEP = "fix these lines, or take the official file"
_RANK = re.compile(r"[0-9]{1,7}")
_LEAST_GRADE = -9999  # below 0 the track has grades of its own, such as for spam


def read_topics(path: Path) -> dict[str, str]:
    """Return topic id -> text of a file of `id<TAB>text` lines, in its order; ends of lines may be CR LF."""
    problems = Problems(path, "TREC RAG topics", _NEXT_STEP)
    topics: dict[str, str] = {}
    for number, line in text_lines(problems):
        topic_id, tab, text = line.partition("\t")
        topic_id, text = topic_id.strip(), text.strip()
        if not topic_id or not tab or not text:
            problems.add(number, "id, a tab and a text", line)
        elif topic_id in topics:
            problems.add(number, "each topic once", "this topic again", topic_id)
        else:
            topics[topic_id] = text
    problems.raise_if_any()
    return topics


class _Narrative(Fields):
    topic_id: Label = Field(alias="id")
    text: Text = Field(alias="title")


def read_narratives(path: Path) -> dict[str, str]:
    """Return id -> narrative of the topics of 2025 (JSON lines with `id` and `title`), in their order."""
    problems = Problems(path, "TREC RAG narratives", _NEXT_STEP)
    rows = ((line, row.topic_id, row.text) for line, row in typed_lines(problems, _Narrative, "id"))
    found = once(problems, rows, "narrative")
    problems.raise_if_any()
    return found


def read_ranking(path: Path, topics: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return topic id -> segment ids in rank order, of a TREC run of these topics.

    Ranks must go up by one from 0 or 1 and scores must not rise, as the track asks; a topic without a line is left out.
    """
    problems = Problems(path, "TREC RAG run", _NEXT_STEP)
    rankings: dict[str, dict[str, None]] = {}
    last: dict[str, tuple[int, float]] = {}
    for number, found in run_lines(text_lines(problems)):
        if isinstance(found, Misfit):
            problems.add(number, found.expected, found.found)
            continue
        topic_id, segment_id, score = found.query_id, found.passage_id, found.score
        if not _RANK.fullmatch(found.rank):
            problems.add(number, "a rank", found.rank, topic_id)
            continue
        rank = int(found.rank)
        ranking = rankings.setdefault(topic_id, {})
        last_rank, last_score = last.get(topic_id, (min(rank, 1) - 1, score))
        if topic_id not in topics:
            problems.add(number, "a known topic", topic_id)
        elif segment_id in ranking:
            problems.add(number, "each segment once for a topic", segment_id, topic_id)
        elif rank != last_rank + 1:
            problems.add(number, f"rank {last_rank + 1}", rank, topic_id)
        elif score > last_score:
            problems.add(number, f"a score of at most {last_score}, as in the rank before", score, topic_id)
        ranking[segment_id] = None
        last[topic_id] = rank, score
    problems.raise_if_any()
    return {topic_id: tuple(ranking) for topic_id, ranking in rankings.items()}


def read_qrels(path: Path, topics: Collection[str]) -> tuple[Qrel, ...]:
    """Return the relevance judgements of a file, in its order: grade 0 to 4; its second column is not looked at."""
    problems = Problems(path, "TREC RAG qrels", _NEXT_STEP)
    found: dict[tuple[str, str], Qrel] = {}
    for number, judged in qrel_lines(text_lines(problems), {4}, least=_LEAST_GRADE):
        if isinstance(judged, Misfit):
            problems.add(number, judged.expected, judged.found)
        elif judged.query_id not in topics:
            problems.add(number, "a known topic", judged.query_id)
        elif found.setdefault((judged.query_id, judged.passage_id), judged) is not judged:
            problems.add(number, "each judgement once", judged.passage_id, judged.query_id)
    problems.raise_if_any()
    return tuple(found.values())


class _Segment(Fields):
    docid: Annotated[str, matching(SEGMENT_ID.pattern, "an id such as msmarco_v2.1_doc_00_0#0_0")]
    url: str
    title: str
    headings: str
    text: str = Field(alias="segment")
    start_char: Whole
    end_char: Whole

    def passage(self) -> Passage:
        return Passage(self.docid, self.text, self.title, self.url)


_SEGMENT = TypeAdapter(_Segment)


def read_segments(path: Path, wanted: Collection[str] | None = None) -> dict[str, Passage]:
    """Return segment id -> passage of a file of segment records (JSON lines), the wanted ones or all, in its order.

    The lines may be retrieval results too: then the segments are those of the candidates.
    """
    problems = Problems(
        path, "MS MARCO V2.1 segments", "fix these lines, or take the segments from the official archive"
    )
    of_topics: dict[str, Passage] = {}
    segments: list[tuple[int, str, Passage]] = []
    for line, row in json_lines(problems):
        if has_candidates(row):
            of_topics |= {item.passage_id: item for item in _candidates(line, row, problems)[1]}
        elif segment := checked(_SEGMENT, row, problems, line, str(row.get("docid") or "")):
            segments.append((line, segment.docid, segment.passage()))
    found = of_topics | once(problems, segments, "segment")
    for segment_id in sorted(set(wanted or ()) - set(found)):
        problems.add(0, f"segment {segment_id}, which is cited or retrieved", "no line")
    problems.raise_if_any()
    return found if wanted is None else {key: passage for key, passage in found.items() if key in wanted}


def read_retrieved(path: Path, topics: Collection[str]) -> dict[str, tuple[Passage, ...]]:
    """Return topic id -> segments in the order of its line, of retrieval results of these topics."""
    problems = Problems(path, "retrieval results", "fix these lines, or take the file as the retriever wrote it")
    rows = [(line, *_candidates(line, row, problems)) for line, row in json_lines(problems)]
    for line, topic_id, _ in rows:
        if topic_id and topic_id not in topics:
            problems.add(line, "a known topic", topic_id)
    found = once(problems, (row for row in rows if row[1]), "topic")
    problems.raise_if_any()
    return found


def _candidates(line: int, row: dict[str, Any], problems: Problems) -> tuple[str, tuple[Passage, ...]]:
    """Return the topic and the segments of a line of retrieval results, after noting what does not fit."""
    try:
        topic = retrieved_topic(row)
    except ValueError as error:
        problems.add(line, str(error).partition(", found ")[0], str(error).partition(", found ")[2])
        return "", ()
    records = ({**candidate.doc, "docid": candidate.passage_id} for candidate in topic.candidates)
    segments = [checked(_SEGMENT, record, problems, line, record["docid"]) for record in records]
    return topic.topic_id, tuple(segment.passage() for segment in segments if segment)


# Nuggets of TREC RAG: short statements that a good answer to a topic makes, read from the track's files.
# Two files hold them: nuggets (`qid`, `query`, `nuggets`), and assignments, where every nugget has a grade too.
# Those of 2025 name the part of the narrative as `mapped_sub_narrative`. A nugget without importance is an error
# here; the track's own reader takes it for vital.
# Source: castorini/nuggetizer at d00dc3e, `cli/adapters.py`.

_NUGGETS_NEXT_STEP = "fix these lines; each needs qid and nuggets [{text, importance}]"


@dataclass(frozen=True, slots=True)
class TopicNuggets:
    """The nuggets of one topic."""

    topic_id: str
    query: str
    """Text of the topic; empty where the file has none."""
    nuggets: tuple[Nugget, ...]
    """At least one, most important first as a rule; no text twice."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The nuggets of one topic with the grades of one answer to it."""

    nuggets: TopicNuggets
    run_id: str
    grades: tuple[Grade | None, ...]
    """One a nugget; None where the file says that the judge failed."""


def _part(label: object) -> str:
    """Return the name of a part of a narrative, without quotes; assessors put `New: ` before parts that they added."""
    text = str(label or "")
    added, new, name = text.rpartition("New:")
    return " ".join(
        [new, *name.replace('"', "").split()] if new and not added.strip(' "') else text.replace('"', "").split()
    )


class _Nugget(Fields):
    text: Text
    importance: Importance
    part: Annotated[str, BeforeValidator(_part)] = Field("", alias="mapped_sub_narrative")


_AnyNugget = TypeVar("_AnyNugget", bound=_Nugget)


def _each_text_once(nuggets: list[_AnyNugget]) -> list[_AnyNugget]:
    again = [text for text, n in Counter(nugget.text for nugget in nuggets).items() if n > 1]
    if again:
        raise ValueError(f"a list with each nugget once, not {again[0]!r} again")
    return nuggets


class _NuggetRow(Fields):
    topic_id: Label = Field(alias="qid")
    query: str = ""
    nuggets: Annotated[list[_Nugget], AfterValidator(_each_text_once)] = Field(min_length=1)

    def of_topic(self) -> TopicNuggets:
        nuggets = tuple(Nugget(item.text, item.importance, item.part) for item in self.nuggets)
        return TopicNuggets(self.topic_id, self.query, nuggets)


def _none_if_failed(label: object) -> object:
    return None if label == "failed" else Grade(label)


class _GradedNugget(_Nugget):
    grade: Annotated[Grade | None, BeforeValidator(_none_if_failed)] = Field(alias="assignment")


class _AssignmentRow(_NuggetRow):
    run_id: str
    nuggets: Annotated[list[_GradedNugget], AfterValidator(_each_text_once)] = Field(min_length=1)  # type: ignore[assignment]


def read_nuggets(path: Path) -> dict[str, TopicNuggets]:
    """Return topic id -> nuggets, in the order of the file."""
    problems = Problems(path, "nuggets", _NUGGETS_NEXT_STEP)
    rows = ((line, row.topic_id, row.of_topic()) for line, row in typed_lines(problems, _NuggetRow, "qid"))
    found = once(problems, rows, "topic")
    problems.raise_if_any()
    return found


def read_assignments(path: Path) -> list[Assignment]:
    """Return the assignments of a file, in its order; a run and a topic come once together."""
    problems = Problems(path, "nugget assignments", f"{_NUGGETS_NEXT_STEP}, and each nugget an assignment")
    rows = (
        (line, f"{row.topic_id} of run {row.run_id}", row) for line, row in typed_lines(problems, _AssignmentRow, "qid")
    )
    found = once(problems, rows, "topic of a run").values()
    problems.raise_if_any()
    return [Assignment(row.of_topic(), row.run_id, tuple(item.grade for item in row.nuggets)) for row in found]


def nugget_rows(nuggets: Iterable[Nugget]) -> list[dict[str, str]]:
    """Return nuggets as a task carries them; the part of a narrative only where there is one."""
    rows = (
        {"text": one.text, "importance": one.importance.value, "sub_narrative": one.sub_narrative} for one in nuggets
    )
    return [{key: value for key, value in row.items() if value or key != "sub_narrative"} for row in rows]


# People's judgements of citations: how far each cited segment supports the sentence of an answer that cites it.
# Source: the track's files of 2024 (`final.citation_judgments_*.jsonl`); their labels are "2", "1" and "0", and
# "-1" for a citation that was not judged, as 110 of the 4,855 of
# `final.citation_judgments_Webassess.20241031.jsonl`.

_LEVELS = {"2": Support.FULL, "1": Support.PARTIAL, "0": Support.NO, "-1": None, "None": None}


def _level(label: object) -> Support | None:
    if str(label) not in _LEVELS:
        raise ValueError("0, 1 or 2, or -1 for not judged")
    return _LEVELS[str(label)]


class _Citation(Fields):
    level: Annotated[Support | None, BeforeValidator(_level)] = Field(None, alias="support")


class _JudgedSentence(Fields):
    citations: list[_Citation]


class _SupportRow(Fields):
    topic_id: Label
    run_id: str
    sentences: list[_JudgedSentence]


@dataclass(frozen=True, slots=True)
class SupportJudgement:
    """The judged citations of one answer; sequences have one item a sentence."""

    topic_id: str
    run_id: str
    cites: tuple[bool, ...]
    """Whether the sentence cites a segment."""
    levels: tuple[Support | None, ...]
    """What its first citation gives; None where it does not cite, or nobody judged it."""
    n_not_judged: int = 0
    """Citations without a judgement, of which only the first of a sentence would count."""


def read_support(path: Path) -> list[SupportJudgement]:
    """Return the judgements of a file, in its order; a run and a topic come once together.

    A citation without a label (no `support`, null, or -1) was not judged.
    """
    problems = Problems(
        path, "support judgements", "fix these lines; each needs topic_id, run_id and sentences [{citations}]"
    )
    rows = (
        (line, f"{row.topic_id} of run {row.run_id}", row)
        for line, row in typed_lines(problems, _SupportRow, "topic_id")
    )
    found = once(problems, rows, "topic of a run").values()
    problems.raise_if_any()
    return [
        SupportJudgement(
            row.topic_id,
            row.run_id,
            cites=tuple(bool(sentence.citations) for sentence in row.sentences),
            levels=tuple(sentence.citations[0].level if sentence.citations else None for sentence in row.sentences),
            n_not_judged=sum(item.level is None for sentence in row.sentences for item in sentence.citations),
        )
        for row in found
    ]


# The topics of one year of TREC RAG, and the files that hold what belongs to them.

SHARDS = "msmarco_v2.1_doc_segmented"
"""Folder of the corpus' 70 files, as the official archive names it."""


@dataclass(frozen=True)
class Track:
    """One year: its sets of topics, each a domain, and how many there are."""

    source: Source
    """Official files; its `name` is the benchmark's."""
    title: str
    sets: Mapping[str, str]
    """Set of topics -> the name that its files bear, such as `rag24.test`."""
    counts: Mapping[str, int]
    """Set of topics -> topics in the official file."""
    has_narratives: bool = False
    """Whether topics are narratives (JSON lines), not lines of an id, a tab and a text."""

    def load(self, root: Path) -> Benchmark:
        """Return the benchmark whose files lie under `root`; a set without a topics file is left out.

        Nuggets are read from `nuggets/nuggets.<name of the set>.jsonl` where it is there.
        """
        is_sample, revision, counts = self._edition(root)
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
        """
        shards = root / SHARDS
        if shards.is_dir():
            return shards
        if self._edition(root)[0]:
            return derived_file(root, "segments.jsonl", lambda: _rows(root))
        raise BenchmarkFileError(
            f"corpus of {self.title}",
            where=f"{shards} (set {domain})",
            expected="the folder with the 70 files of MS MARCO V2.1's segments",
            found="no folder",
            next_step=f"unpack {SHARDS}.tar there, or name the folder with --corpus {domain}=FOLDER",
        )

    def load_qrels(self, root: Path, domain: str) -> tuple[Qrel, ...]:
        """Return the relevance judgements of a set, grades 0 to 4; () where none of segments are known."""
        path = root / "qrels" / f"qrels.{self.sets[domain]}.txt"
        return read_qrels(path, self._read_topics(root, domain)) if path.is_file() else ()

    def retrieval(self) -> RetrievalSide:
        """Return the retrieval side."""
        return RetrievalSide(tuple(self.sets), self.corpus_file, self.load_qrels)

    def definition(self) -> BenchmarkDefinition:
        """Return what the registry lists."""
        return BenchmarkDefinition(self.source, self.load, self.retrieval())

    def _edition(self, root: Path) -> tuple[bool, str, Mapping[str, int]]:
        """Return (is sample, revision, counts) of the copy under `root`."""
        return read_edition(root, self.source.commit, self.counts, TypeAdapter(dict[str, int]).validate_python)

    def _topics_file(self, root: Path, domain: str) -> Path:
        return root / "topics" / f"topics.{self.sets[domain]}.{'jsonl' if self.has_narratives else 'txt'}"

    def _read_topics(self, root: Path, domain: str) -> dict[str, str]:
        path = self._topics_file(root, domain)
        return read_narratives(path) if self.has_narratives else read_topics(path)

    def _read_all_topics(self, root: Path, counts: Mapping[str, int]) -> dict[str, dict[str, str]]:
        """Return set -> topic id -> text, of the sets that are there, none with a topic too many or too few."""
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
            for other in list(topics)[:-1]:
                for topic_id in sorted(topics[domain].keys() & topics[other].keys()):
                    problems.add(0, f"no topic of the set {other}", "this topic", topic_id)
            problems.raise_if_any()
        return topics

    def _read_nuggets(self, root: Path, domain: str, topics: Mapping[str, str]) -> dict[str, TopicNuggets]:
        path = root / "nuggets" / f"nuggets.{self.sets[domain]}.jsonl"
        if not path.is_file():
            return {}
        nuggets = read_nuggets(path)
        problems = Problems(path, "nuggets", "leave these topics out, or take the topics that they belong to")
        for topic_id in sorted(nuggets.keys() - topics.keys()):
            problems.add(0, f"topics of the set {domain}", "nuggets of this topic", topic_id)
        problems.raise_if_any()
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
        extra={"nuggets": nugget_rows(nuggets)},
    )


def _rows(root: Path) -> Iterator[dict[str, str]]:
    for passage in load_segments(root).values():
        yield {"_id": passage.passage_id, "title": passage.title, "text": passage.text, "url": passage.url}


# TREC RAG: topics that ask for a long, cited answer from MS MARCO V2.1 (paper: Ragnarok, Pradeep et al. 2024).
# Of 2024 there are three sets of topics, one domain each: `test` (301), `raggy` (120) and `researchy` (600, the
# latter two for development). Of 2025 there are 105 narratives: several sentences each, whose nuggets name the part
# of the narrative that they belong to. A task is a topic; its id is the topic's own, so that the track's runs and
# judgements join as they are. There is no reference answer: the target is the topic's nuggets in a row, which is
# the ceiling of nugget recall.
# The corpus has 113,520,750 segments, so passages come from a run: the benchmark's own where `runs/` and
# `segments/` hold one, else a stored run that `ragtasks retrieve --retriever run:FILE` makes from a run and the
# segments' shards.

_COMMIT = "5b819c1a45c8a0a3ec9426f476694f44a29dfaf3"

MAX_WORDS = 400
"""Longest answer that the track takes."""
NARRATIVES = "narratives"
"""The set of topics of 2025."""


def _source(name: str, *files: SourceFile) -> Source:
    """Return topics and relevance judgements, in the repository that was called anserini-tools.

    Their official checksums are not known here. Nuggets, runs and segments come from the track and Microsoft. A run
    must cover every set that is there, so development sets are a group of their own, `dev`, and not fetched unasked.
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


TRACK_2024 = Track(
    _source(
        "trec_rag24",
        SourceFile("topics/topics.rag24.test.txt", None, None, "tasks"),
        SourceFile("qrels/qrels.rag24.test.txt", None, None, "tasks"),
        SourceFile("topics/topics.rag24.raggy-dev.txt", None, None, "dev"),
        SourceFile("topics/topics.rag24.researchy-dev.txt", None, None, "dev"),
    ),
    "TREC RAG 2024",
    {"test": "rag24.test", "raggy": "rag24.raggy-dev", "researchy": "rag24.researchy-dev"},
    {"test": 301, "raggy": 120, "researchy": 600},
)
"""Counts: paper, section 5, and the track's pages."""

TRACK_2025 = Track(
    _source(
        "trec_rag25",
        SourceFile("topics/topics.rag25.test.jsonl", None, None, "tasks"),
        SourceFile("qrels/qrels.rag25.test.txt", None, None, "tasks"),
    ),
    "TREC RAG 2025",
    {NARRATIVES: "rag25.test"},
    {NARRATIVES: 105},
    has_narratives=True,
)
"""Counts: guidelines 2.0."""

TREC_RAG24 = TRACK_2024.definition()
TREC_RAG25 = TRACK_2025.definition()


# What topics are given to read: the first segments of a run that lies beside them.

_T = TypeVar("_T")

N_PASSAGES = 20
"""Segments that a topic is given (paper, section 3)."""


def read_contexts(
    name: str, title: str, root: Path, topics: Mapping[str, tuple[str, Collection[str]]], setting: Setting
) -> Contexts:
    """Return the first 20 segments of each topic of the sets that have a run under `root`."""
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
    """Return segment id -> passage, the wanted ones or all, of the segments that lie beside the benchmark's run."""
    return read_segments(file or _segments_file(root), wanted)


def _complete(path: Path, ranking: Mapping[str, tuple[_T, ...]], topics: Collection[str]) -> dict[str, tuple[_T, ...]]:
    """Return topic id -> its first 20 items, for every topic."""
    problems = Problems(path, "TREC RAG run", "give every topic its segments")
    for topic_id in sorted(set(topics) - ranking.keys()):
        problems.add(0, "a line for every topic", "no line", topic_id)
    problems.raise_if_any()
    return {topic_id: ranking[topic_id][:N_PASSAGES] for topic_id in topics}


def _no_contexts(title: str, where: str, expected: str, found: str, next_step: str) -> ConfigurationError:
    return ConfigurationError(f"passages of {title}", where=where, expected=expected, found=found, next_step=next_step)
