"""Doc2Dial and MultiDoc2Dial. Each combination of a data set and a retrieval unit is a benchmark."""

from __future__ import annotations

import functools
import hashlib
import itertools
import logging
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import AliasChoices, Field, TypeAdapter, model_validator

from ragtasks.benchmarks._definition import (
    Benchmark,
    BenchmarkDefinition,
    RetrievalSide,
    check_domain,
    derived_file,
    reference_contexts,
)
from ragtasks.benchmarks._fields import Fields, Text, Whole, checked, rows_by_id, unique_rows
from ragtasks.benchmarks.sources import Source, SourceFile
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.files import Problems, parse_json, sample_statistics
from ragtasks.records import Answerability, Contexts, Message, Passage, Qrel, Role, Setting, Task, task_id

# The files of MultiDoc2Dial and Doc2Dial, unpacked or in the official zip. A file is one JSON object, so errors name
# the path of a field instead of a line.

DOMAINS = ("dmv", "ssa", "studentaid", "va")
"""The four domains of both data sets."""
EXTRA_DOMAINS = ("cdccovid",)
"""Domains of MultiDoc2Dial's unseen dialogues, which are separate files. The release may omit their documents."""
_ALL_DOMAINS = (*DOMAINS, *EXTRA_DOMAINS)

_Domain = Literal["dmv", "ssa", "studentaid", "va", "cdccovid"]
_FOLDERS = ("", "multidoc2dial", "doc2dial/v1.0.1", "doc2dial", "data")
NEXT_STEP = "unpack the official zip again"
"""Next step for a file with an invalid format."""


def read_json(root: Path, name: str) -> tuple[Any, Path]:
    """Return the parsed file of a name below `root` and its path, unpacked or inside a zip in `root`."""
    path = next((root / folder / name for folder in _FOLDERS if (root / folder / name).is_file()), None)
    try:
        if path is not None:
            return parse_json(path.read_bytes()), path
        for archive in sorted(root.glob("*.zip")):
            with zipfile.ZipFile(archive) as opened:
                member = next((entry for entry in opened.namelist() if entry.rpartition("/")[2] == name), None)
                if member is not None:
                    path = archive / member
                    return parse_json(opened.read(member)), path
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise _unreadable(name, path or root, "JSON, or a zip with it", str(error)) from error
    raise _unreadable(name, root / name, "the file, unpacked or in the official zip", "no such file")


def _unreadable(name: str, path: Path, expected: str, found: str) -> BenchmarkFileError:
    benchmark = "doc2dial" if name.startswith("doc2dial_") else "multidoc2dial"
    step = f"run `ragtasks data fetch {benchmark}`, or put the official zip there"
    return BenchmarkFileError("Doc2Dial data", where=str(path), expected=expected, found=found, next_step=step)


class _Title(Fields):
    text: str


class GroundingSpan(Fields):
    """A marked part of a document, to which dialogues refer."""

    start: Whole = Field(alias="start_sp", ge=0)
    """Offset of the first character in the document's text."""
    end: Whole = Field(alias="end_sp")
    """Offset after the last character."""
    text: str = Field(alias="text_sp")
    """Text of the span, which the file contains in addition to the offsets."""
    section_id: str = Field(alias="id_sec")
    title: str
    parent_titles: list[_Title]
    """Titles of the enclosing sections, outermost first; empty if the file has none."""


class WebPage(Fields):
    """A page of a public service."""

    title: str
    text: Text = Field(alias="doc_text")
    """Complete text; the offsets of spans refer to it."""
    spans: Mapping[str, GroundingSpan]
    """Span id -> span, in file order."""

    @model_validator(mode="after")
    def _offsets(self) -> WebPage:
        for span_id, span in self.spans.items():
            if not span.start <= span.end <= len(self.text):
                raise ValueError(f"spans with offsets into `doc_text`, unlike span {span_id}")
        return self


class _Documents(Fields):
    by_domain: dict[_Domain, dict[str, WebPage]] = Field(alias="doc_data", min_length=1)


def read_documents(root: Path, name: str) -> dict[str, WebPage]:
    """Return document id -> document, in file order.

    An id may contain `#`, blanks and digits, so it is never split.
    """
    content, path = read_json(root, name)
    problems = Problems(path, "Doc2Dial documents", NEXT_STEP)
    file = checked(TypeAdapter(_Documents), content, problems)
    by_domain = file.by_domain.values() if file else ()
    documents = unique_rows(
        problems, ((0, key, page) for pages in by_domain for key, page in pages.items()), "document"
    )
    problems.raise_if_any()
    return documents


_LOGGER = logging.getLogger(__name__)


class _Reference(Fields):
    span_id: str = Field(validation_alias=AliasChoices("id_sp", "sp_id"))
    document_id: str = Field("", alias="doc_id")


class DialogueAct(Fields):
    """An utterance of a dialogue."""

    turn_id: Whole
    """Number in the dialogue, from 1, as in the file."""
    role: Literal["user", "agent"]
    act: str = Field(alias="da")
    """Dialogue act, such as `query_condition`."""
    text: str = Field(alias="utterance")
    references: list[_Reference]
    """Spans that the utterance is based on; may be empty."""


class GroundedDialogue(Fields):
    """A dialogue with its utterances."""

    dialogue_id: Text = Field(alias="dial_id")
    domain: str = ""
    document_id: str = ""
    """Document of a Doc2Dial dialogue, whose references do not name it; empty for MultiDoc2Dial."""
    turns: list[DialogueAct] = Field(min_length=1)
    """Utterances in order; a speaker may have several in a row."""

    def spans_of(self, turn: DialogueAct) -> list[tuple[str, str]]:
        """Return (document id, span id) of the references of a turn."""
        return [(reference.document_id or self.document_id, reference.span_id) for reference in turn.references]


class _Dialogues(Fields):
    by_domain: Mapping[_Domain, list[GroundedDialogue]] = Field(alias="dial_data", min_length=1)


class _DialoguesByDocument(Fields):
    by_domain: Mapping[_Domain, dict[str, list[GroundedDialogue]]] = Field(alias="dial_data", min_length=1)


def read_dialogues(root: Path, name: str, documents: Mapping[str, WebPage]) -> tuple[GroundedDialogue, ...]:
    """Return the dialogues of a split, in file order.

    Blank utterances and dialogues of `EXTRA_DOMAINS` over missing documents are omitted. A warning counts them.
    """
    content, path = read_json(root, name)
    problems = Problems(path, "Doc2Dial dialogues", NEXT_STEP)
    selected: list[GroundedDialogue] = []
    n_left_out: Counter[str] = Counter()
    for dialogue in _all_dialogues(content, name.startswith("doc2dial"), problems):
        spans = [span for turn in dialogue.turns for span in dialogue.spans_of(turn)]
        if dialogue.domain in EXTRA_DOMAINS and not {document_id for document_id, _ in spans} <= documents.keys():
            n_left_out[f"dialogues of {dialogue.domain} over missing documents"] += 1
            continue
        for document_id, span_id in spans:
            if document_id not in documents or span_id not in documents[document_id].spans:
                problems.add(0, "references to spans of the documents", (document_id, span_id), dialogue.dialogue_id)
        spoken = [turn for turn in dialogue.turns if turn.text.strip()]
        n_left_out["blank utterances"] += len(dialogue.turns) - len(spoken)
        selected.append(dialogue.model_copy(update={"turns": spoken}))
    dialogues = unique_rows(problems, ((0, dialogue.dialogue_id, dialogue) for dialogue in selected), "dialogue")
    counts = ", ".join(f"{n} {label}" for label, n in n_left_out.items() if n)
    if not dialogues and not len(problems):
        problems.add(0, "at least one dialogue", f"no dialogue ({counts} left out)" if counts else "no dialogue")
    problems.raise_if_any()
    if counts:
        _LOGGER.warning("%s: left out: %s", path, counts)
    return tuple(dialogues.values())


def _all_dialogues(content: Any, is_by_document: bool, problems: Problems) -> Iterator[GroundedDialogue]:
    file = checked(TypeAdapter(_DialoguesByDocument if is_by_document else _Dialogues), content, problems)
    for domain, domain_dialogues in file.by_domain.items() if file else ():
        by_document = domain_dialogues if isinstance(domain_dialogues, dict) else {"": domain_dialogues}
        for document_id, dialogues in by_document.items():
            origin = {"domain": domain, "document_id": document_id}
            yield from (dialogue.model_copy(update=origin) for dialogue in dialogues)


# Retrieval units of the Doc2Dial documents, and the units that contain the grounding of an answer. The two
# segmentations are the official ones with the same numbering, so scores are comparable. `token` cuts every 100
# blank-separated words. `structure` joins the spans of a section after its titles. Passages are numbered over all
# documents in file order.

STRUCTURE = "structure"
"""One passage per section."""
TOKEN = "token"
"""Passages of 100 words."""

_N_WORDS = 100
_CUT_AT_ENDS = 3
_BLANKS = str.maketrans("", "", " \n\t\r")
_TO_BLANK = str.maketrans(dict.fromkeys("\n\r\t", " "))


def cut_documents(documents: Mapping[str, WebPage], unit: str) -> dict[str, tuple[Passage, ...]]:
    """Return document id -> its passages, in order."""
    numbers = itertools.count()
    texts_of = _token_texts if unit == TOKEN else _structure_texts
    return {
        document_id: tuple(Passage(f"{unit}-{next(numbers)}", text, document.title) for text in texts_of(document))
        for document_id, document in documents.items()
    }


def _token_texts(document: WebPage) -> list[str]:
    words = document.text.split(" ")
    parts = [" ".join(words[start : start + _N_WORDS]) for start in range(0, len(words), _N_WORDS)]
    return [_one_line(part) for part in parts if part.strip()]


def _structure_texts(document: WebPage) -> list[str]:
    """Return the texts of groups of adjacent spans with the same section or title."""
    sections: list[list[GroundingSpan]] = []
    for span in document.spans.values():
        before = sections[-1][-1] if sections else None
        if before and (before.section_id == span.section_id or before.title.strip() == span.title.strip()):
            sections[-1].append(span)
        else:
            sections.append([span])
    return [_section_text(document, spans) for spans in sections]


def _section_text(document: WebPage, spans: Sequence[GroundingSpan]) -> str:
    """Return the titles above a section's last span (the document title if there is at most one), then its spans."""
    above = [title.text for title in spans[-1].parent_titles]
    titles = above if len(above) > 1 else [document.title]
    # As in the official passages: text after `#` is dropped, and slashes only separate titles.
    headings = [title.replace("/", "-").split("#")[0] for title in titles]
    return _one_line(f"{' / '.join(headings)} // {' '.join(span.text for span in spans)}")


def _one_line(text: str) -> str:
    return text.translate(_TO_BLANK).strip()


def gold_passages(grounding: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return the passages of the grounded document that contain an answer's grounding.

    The result is the first passage that contains the grounding. If no single passage does, the result is a sequence of
    adjacent passages that contains it: the sequence with the latest start, and the shortest with that start. Without
    such a sequence, the result is empty. A passage matches exactly, or after removing blanks, case and three characters
    at both ends of the grounding.

    Known difference: the official script matches a grounding of at most six characters with every passage. Here it must
    occur exactly.

    Source: `scripts/data_preprocessor.py` of IBM/multidoc2dial at 1f0ab09.
    """
    for passage in passages:
        if _contains(passage.text, grounding):
            return (passage,)
    for start in reversed(range(len(passages))):
        for end in range(start + 2, len(passages) + 1):
            if _contains("".join(passage.text for passage in passages[start:end]), grounding):
                return tuple(passages[start:end])
    return ()


def _contains(text: str, grounding: str) -> bool:
    core = grounding.lower().translate(_BLANKS)[_CUT_AT_ENDS:-_CUT_AT_ENDS]
    return grounding in text or (bool(core) and core in text.lower().translate(_BLANKS))


# The benchmarks on the Doc2Dial documents. The corpus is pooled: a question of any domain is searched in the passages
# of all four domains, as in the papers' main tables.

N_PASSAGES = 20
"""Number of retrieved units in a prompt (OR-CONVQA paper, section 4.1)."""
PROPOSITIONS = "proposition"
"""Single statements extracted by a model, without gold labels."""

_LINK = "files_of"
_FETCH = "run `ragtasks data fetch multidoc2dial`, or put the official zip there"


class _Ranking(Fields):
    task_id: str
    passages: list[str]


@dataclass(frozen=True, slots=True)
class Segmentation:
    """A data set and its retrieval unit."""

    name: str
    documents: str
    dialogues: str
    """File of the evaluated split."""
    unit: str
    """`structure`, `token` or `proposition`."""
    commit: str
    n_dialogues: int | None = None
    """Number of dialogues in the official split; None if no source states it."""
    n_documents: int | None = None
    """Number of official documents; None if no source states it."""

    def load(self, root: Path) -> Benchmark:
        """Return the benchmark with files under `root` (unpacked, as official zips, or the sample)."""
        statistics = sample_statistics(root)
        revision = self.commit if statistics is None else statistics["version"]
        tasks = _tasks(self, files_root(root))
        if statistics is None:
            self._check_counts(root, tasks)
        read_contexts = functools.partial(self._contexts, root, tasks)
        return Benchmark(
            self.name,
            root,
            statistics is not None,
            revision,
            "answerability",
            tasks,
            read_contexts,
            suite="multidoc2dial",
            n_passages=N_PASSAGES,
        )

    def _check_counts(self, root: Path, tasks: Sequence[Task]) -> None:
        n_dialogues = len({task.conversation_id for task in tasks})
        for file, noun, expected, n in (
            (self.dialogues, "dialogues", self.n_dialogues, n_dialogues),
            (self.documents, "documents", self.n_documents, len(read_documents(root, self.documents))),
        ):
            problems = Problems(root / file, f"{self.name} file", _FETCH)
            if expected not in {None, n}:
                problems.add(0, f"{expected} {noun}", n)
            problems.raise_if_any()

    def retrieval(self) -> RetrievalSide:
        """Return how to read corpus and judgements."""
        return RetrievalSide(_ALL_DOMAINS, self.corpus_file, self.load_qrels, load_rewrites)

    def corpus_file(self, root: Path, domain: str) -> Path:
        """Return the file of units, created if it is missing. It is the same for every domain."""
        check_domain(domain, _ALL_DOMAINS)
        folder = files_root(root)
        rows = [{"_id": unit.passage_id, "title": unit.title, "text": unit.text} for unit in self._units(folder)]
        # The name contains a hash of the content, so a file made from other documents is not reused.
        digest = hashlib.sha256(orjson.dumps(rows)).hexdigest()[:12]
        return derived_file(folder, f"{self.unit}-{digest}.jsonl", lambda: rows)

    def _units(self, root: Path) -> Iterator[Passage]:
        if self.unit == PROPOSITIONS:
            yield from read_propositions(root)
            return
        for passages in cut_documents(read_documents(root, self.documents), self.unit).values():
            yield from passages

    def load_qrels(self, root: Path, domain: str) -> tuple[Qrel, ...]:
        """Return the gold passages of a domain's questions. A question without a matching passage has none."""
        check_domain(domain, _ALL_DOMAINS)
        if self.unit == PROPOSITIONS:
            raise ConfigurationError(_no_gold("relevance judgements"))
        tasks = [task for task in _tasks(self, files_root(root)) if task.domain == domain]
        return tuple(Qrel(task.task_id, passage.passage_id, 1) for task in tasks for passage in task.references)

    def _contexts(self, root: Path, tasks: tuple[Task, ...], setting: Setting) -> Contexts:
        """Return the gold passages; for `full_rag` the sample's run, the only published one."""
        if setting is Setting.REFERENCE and self.unit != PROPOSITIONS:
            return Contexts("official", setting, {task.task_id: task.references for task in tasks})
        ranking = root / "full_rag.jsonl"
        if setting is Setting.FULL_RAG and ranking.is_file():
            return Contexts("official", setting, self._ranked(root, ranking))
        if setting is Setting.REFERENCE:
            raise ConfigurationError(_no_gold("reference units"))
        return reference_contexts(self.name, f"{self.name}_reference", tasks, setting)

    def _ranked(self, root: Path, ranking: Path) -> dict[str, tuple[Passage, ...]]:
        units = {passage.passage_id: passage for passage in self._units(files_root(root))}
        problems = Problems(ranking, "ranking", "restore the sample")
        rows = rows_by_id(problems, _Ranking, lambda row: row.task_id, "task")
        for row in rows.values():
            for name in set(row.passages) - units.keys():
                problems.add(0, "ids of units as `passages`", name, row.task_id)
        problems.raise_if_any()
        return {key: tuple(units[name] for name in row.passages[:N_PASSAGES]) for key, row in rows.items()}


@functools.lru_cache(maxsize=4)
def _tasks(collection: Segmentation, root: Path) -> tuple[Task, ...]:
    """Return the tasks, cached because judgements are loaded per domain."""
    documents = read_documents(root, collection.documents)
    passages = None if collection.unit == PROPOSITIONS else cut_documents(documents, collection.unit)
    return tasks_of(read_dialogues(root, collection.dialogues, documents), documents, passages)


def files_root(root: Path) -> Path:
    """Return the folder with the files: `root`, or the sibling sample that the statistics of `root` name.

    Samples of two units of the same data set share their files.
    """
    name = (sample_statistics(root) or {}).get(_LINK)
    return root.parent / name if isinstance(name, str) else root


class _Propositions(Fields):
    texts: list[str] = Field(alias="Propositions", min_length=1)
    document_names: list[str] = Field(alias="Document_names")
    domains: list[str] = Field(alias="Domains")

    @model_validator(mode="after")
    def _parallel(self) -> _Propositions:
        if not len(self.texts) == len(self.document_names) == len(self.domains):
            raise ValueError("lists of equal length")
        return self


def read_propositions(root: Path) -> tuple[Passage, ...]:
    """Return the propositions of the released file in file order, numbered from 0. Repeated texts are kept."""
    content, path = read_json(root, "propositions.json")
    problems = Problems(path, "propositions", "fetch the file again")
    rows = checked(TypeAdapter(tuple[_Propositions]), content, problems)
    problems.raise_if_any()
    return tuple(
        Passage(f"proposition-{number}", text, name)
        for row in rows or ()
        for number, (text, name) in enumerate(zip(row.texts, row.document_names, strict=True))
    )


class _Rewrite(Fields):
    query_id: str = Field(alias="_id")
    text: Text


def load_rewrites(root: Path, domain: str) -> dict[str, str]:
    """Return task id -> standalone question from `rewrites.jsonl`, which the sample or a user provides.

    Neither data set contains rewrites. The file is JSON lines with `_id` and `text` for the tasks of all domains.
    """
    check_domain(domain, _ALL_DOMAINS)
    path = files_root(root) / "rewrites.jsonl"
    if not path.is_file():
        raise ConfigurationError(f"no rewritten questions at {path}; use the query form 'llm_rewrite' with a model")
    problems = Problems(path, "rewritten questions", "correct the file")
    rows = rows_by_id(problems, _Rewrite, lambda row: row.query_id, "question")
    problems.raise_if_any()
    return {query_id: row.text for query_id, row in rows.items()}


def _no_gold(missing: str) -> str:
    return (
        f"no {missing} for propositions: the released file does not link answers to propositions.\n"
        "  next step: evaluate passages (multidoc2dial, multidoc2dial_token), or score answers based on propositions"
    )


# MultiDoc2Dial contains goal-oriented dialogues over several pages of four public services (Feng et al. 2021). Its
# tasks are the user turns of the test split. Its units are passages of one section (`structure`, the official
# baseline), passages of 100 blank-separated words (`token`, the second official segmentation), or propositions.
# Propositions are single statements that a model extracted from the documents, released with the OR-CONVQA paper. No
# source links answers to propositions, so there are no reference units and no judgements. Only answers based on
# retrieved propositions can be evaluated (Table 6 of that paper).
#
# Doc2Dial 1.0.1 is the older data set, whose dialogues are based on a single given page (Feng et al. 2020). Its tasks
# are the user turns of the validation split, because the test dialogues were withheld at release. The OR-CONVQA paper
# evaluates passage retrieval on it (Table 5), but no answers, since a system receives the page.

OFFICIAL_DIALOGUES: Mapping[str, int] = {"train": 3474, "validation": 661, "test": 661}
"""Dialogues of each split. Their sum, 4,796, is the number in the OR-CONVQA paper (section 3.1)."""
OFFICIAL_DOCUMENTS: Mapping[str, int] = {"dmv": 149, "ssa": 109, "studentaid": 92, "va": 138}
"""Documents of each domain, 488 in total."""

# The zips are read directly, and unpacked files are supported too. Other projects record the same checksum for the zip
# of MultiDoc2Dial.
_ZIP_SHA256 = "f0c034c249663d7b3cb08b19cf2cc2c3d101372485be982621d4711931a1ce00"
_SOURCE = Source(
    name="multidoc2dial",
    folder="doc2dial-files",
    marker="multidoc2dial",
    repository="https://github.com/doc2dial/multidoc2dial",
    commit="6b7565989ad14858ee2c7498b605dc6d32ffe9e0",
    base_url="https://doc2dial.github.io/multidoc2dial/file/",
    files=(SourceFile("multidoc2dial.zip", _ZIP_SHA256, 6868509, "tasks"),),
)
_OLD_SOURCE = replace(
    _SOURCE,
    name="doc2dial",
    marker="doc2dial",
    repository="https://doc2dial.github.io",
    commit="v1.0.1",
    base_url="https://doc2dial.github.io/file/",
    files=(SourceFile("doc2dial_v1.0.1.zip", None, None, "tasks"),),
)
_PROPOSITIONS_COMMIT = "c4112086d89e7ca5188d37207d30e46dffde6069"
_PROPOSITIONS_SOURCE = replace(
    _SOURCE,
    name="multidoc2dial_propositions",
    repository="https://github.com/christosvhs/Document-Grounded-Conversational-QA",
    commit=_PROPOSITIONS_COMMIT,
    base_url="https://raw.githubusercontent.com/christosvhs/Document-Grounded-Conversational-QA/"
    f"{_PROPOSITIONS_COMMIT}/",
    # Stored in the folder of `multidoc2dial`: download both.
    files=(SourceFile("data/propositions.json", None, 3049634, "tasks"),),
)

COLLECTION = Segmentation(
    "multidoc2dial",
    "multidoc2dial_doc.json",
    "multidoc2dial_dial_test.json",
    STRUCTURE,
    _SOURCE.commit,
    n_dialogues=OFFICIAL_DIALOGUES["test"],
    n_documents=sum(OFFICIAL_DOCUMENTS.values()),
)
"""The test split of MultiDoc2Dial, with one passage per section."""
_OLD = Segmentation("doc2dial", "doc2dial_doc.json", "doc2dial_dial_validation.json", STRUCTURE, _OLD_SOURCE.commit)


def _definition(source: Source, collection: Segmentation) -> BenchmarkDefinition:
    named = replace(collection, name=source.name)
    return BenchmarkDefinition(source, named.load, named.retrieval())


MULTIDOC2DIAL = _definition(_SOURCE, COLLECTION)
MULTIDOC2DIAL_TOKEN = _definition(replace(_SOURCE, name="multidoc2dial_token"), replace(COLLECTION, unit=TOKEN))
MULTIDOC2DIAL_PROPOSITIONS = _definition(_PROPOSITIONS_SOURCE, replace(COLLECTION, unit=PROPOSITIONS))
DOC2DIAL = _definition(_OLD_SOURCE, _OLD)


# Conversion of dialogues to tasks. Every user turn followed by an agent turn is a task, as in the official preparation,
# with two differences. First, the official task omits answers that state that there is no solution. Here they are
# `UNANSWERABLE` tasks, so that a refusal can be correct, and metrics that compare texts omit them. Second, consecutive
# utterances of one speaker are joined into one message, since chat models require alternating speakers. The task then
# follows the last of them.

NO_SOLUTION = "respond_no_solution"
"""Dialogue act of an agent who states that the documents contain no answer."""

_ROLES = {"user": Role.USER, "agent": Role.ASSISTANT}


def tasks_of(
    dialogues: Sequence[GroundedDialogue],
    documents: Mapping[str, WebPage],
    passages: Mapping[str, tuple[Passage, ...]] | None,
) -> tuple[Task, ...]:
    """Return the tasks of all dialogues, in file order.

    Their `extra` contains `official_id` (`<dialogue>_<turn>`), `document_id`, `grounding`, `user_act` and `agent_act`.
    """
    return tuple(task for dialogue in dialogues for task in _tasks_in(dialogue, documents, passages))


def _tasks_in(
    dialogue: GroundedDialogue, documents: Mapping[str, WebPage], passages: Mapping[str, tuple[Passage, ...]] | None
) -> Iterator[Task]:
    messages: list[Message] = []
    for turn, reply in pairwise(dialogue.turns):
        role = _ROLES[turn.role]
        if messages and messages[-1].role is role:
            messages[-1] = Message(role, f"{messages[-1].text}\n{turn.text}")
        else:
            messages.append(Message(role, turn.text))
        if (turn.role, reply.role) != ("user", "agent"):
            continue
        number = sum(message.role is Role.USER for message in messages)
        is_answered = reply.act != NO_SOLUTION
        document_id, grounding = _grounding(dialogue.spans_of(reply), documents) if is_answered else ("", "")
        candidates = passages[document_id] if passages is not None and grounding else ()
        yield Task(
            task_id=task_id(dialogue.dialogue_id, number),
            conversation_id=dialogue.dialogue_id,
            turn=number,
            domain=dialogue.domain,
            messages=tuple(messages),
            target=reply.text,
            answerability=Answerability.ANSWERABLE if is_answered else Answerability.UNANSWERABLE,
            question_types=(turn.act,),
            references=gold_passages(grounding, candidates),
            extra={
                "official_id": f"{dialogue.dialogue_id}_{turn.turn_id}",
                "document_id": document_id,
                "grounding": grounding,
                "user_act": turn.act,
                "agent_act": reply.act,
            },
        )


def _grounding(references: Sequence[tuple[str, str]], documents: Mapping[str, WebPage]) -> tuple[str, str]:
    """Return (document id, text from the start of the first to the end of the last referenced span).

    If a reply refers to several documents, only spans of the first one count, as in the official script. Returns ("",
    "") without references.
    """
    if not references:
        return "", ""
    document_id = references[0][0]
    document = documents[document_id]
    spans = [document.spans[span_id] for name, span_id in references if name == document_id]
    return document_id, document.text[min(span.start for span in spans) : max(span.end for span in spans)]
