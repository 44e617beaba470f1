"""Doc2Dial and MultiDoc2Dial: one data set and one retrieval unit make one benchmark."""

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
from ragtasks.benchmarks._fields import Fields, Text, Whole, checked, once, rows_by_id
from ragtasks.benchmarks.sources import Source, SourceFile
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.files import Problems, parse_json, sample_statistics
from ragtasks.records import Answerability, Contexts, Message, Passage, Qrel, Role, Setting, Task, task_id

# The files of MultiDoc2Dial and Doc2Dial: found unpacked or in the official zip, read whole.
# A file is one JSON object, so an error names the path of the field instead of a line.

DOMAINS = ("dmv", "ssa", "studentaid", "va")
"""The four domains of both data sets."""
EXTRA_DOMAINS = ("cdccovid",)
"""Domains of further files of MultiDoc2Dial: its unseen dialogues, whose documents the release may lack."""
_ALL_DOMAINS = (*DOMAINS, *EXTRA_DOMAINS)

_Domain = Literal["dmv", "ssa", "studentaid", "va", "cdccovid"]
_FOLDERS = ("", "multidoc2dial", "doc2dial/v1.0.1", "doc2dial", "data")
NEXT_STEP = "unpack the official zip again"
"""Where a file is not what the format says."""


def read_json(root: Path, name: str) -> tuple[Any, Path]:
    """Return the parsed file of a name below `root` and where it was found: unpacked, or in a zip of `root`."""
    path = next((root / folder / name for folder in _FOLDERS if (root / folder / name).is_file()), None)
    try:
        if path is not None:
            return parse_json(path.read_bytes()), path
        for archive in sorted(root.glob("*.zip")):
            with zipfile.ZipFile(archive) as opened:
                member = next((item for item in opened.namelist() if item.rpartition("/")[2] == name), None)
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


# Documents of MultiDoc2Dial and Doc2Dial with their marked spans.


class _Title(Fields):
    text: str


class GroundingSpan(Fields):
    """A marked part of a document; dialogues are grounded in these."""

    start: Whole = Field(alias="start_sp", ge=0)
    """Offset of its first character in the document's text."""
    end: Whole = Field(alias="end_sp")
    """Offset behind its last character."""
    text: str = Field(alias="text_sp")
    """Its text, as the file has it beside the offsets."""
    section_id: str = Field(alias="id_sec")
    title: str
    parent_titles: list[_Title]
    """Titles above it, outermost first; empty if the file names none."""


class WebPage(Fields):
    """One page of a public service."""

    title: str
    text: Text = Field(alias="doc_text")
    """Complete text; spans point into it."""
    spans: Mapping[str, GroundingSpan]
    """Span id -> span, in the order of the file."""

    @model_validator(mode="after")
    def _offsets(self) -> WebPage:
        for span_id, span in self.spans.items():
            if not span.start <= span.end <= len(self.text):
                raise ValueError(f"spans with offsets into `doc_text`, unlike span {span_id}")
        return self


class _Documents(Fields):
    by_domain: dict[_Domain, dict[str, WebPage]] = Field(alias="doc_data", min_length=1)


def read_documents(root: Path, name: str) -> dict[str, WebPage]:
    """Return document id -> document, in the order of the file.

    An id may contain `#`, blanks and digits: it is a text that is never taken apart.
    """
    content, path = read_json(root, name)
    problems = Problems(path, "Doc2Dial documents", NEXT_STEP)
    file = checked(TypeAdapter(_Documents), content, problems)
    by_domain = file.by_domain.values() if file else ()
    documents = once(problems, ((0, key, page) for pages in by_domain for key, page in pages.items()), "document")
    problems.raise_if_any()
    return documents


# Dialogues of MultiDoc2Dial and Doc2Dial over their documents.

_LOGGER = logging.getLogger(__name__)


class _Reference(Fields):
    span_id: str = Field(validation_alias=AliasChoices("id_sp", "sp_id"))
    document_id: str = Field("", alias="doc_id")


class DialogueAct(Fields):
    """One utterance of a dialogue."""

    turn_id: Whole
    """Number in the dialogue, from 1, as in the file."""
    role: Literal["user", "agent"]
    act: str = Field(alias="da")
    """Dialogue act, such as `query_condition`."""
    text: str = Field(alias="utterance")
    references: list[_Reference]
    """The spans that it is based on; may be empty."""


class GroundedDialogue(Fields):
    """One dialogue."""

    dialogue_id: Text = Field(alias="dial_id")
    domain: str = ""
    document_id: str = ""
    """The one document of a Doc2Dial dialogue, whose references do not name it."""
    turns: list[DialogueAct] = Field(min_length=1)
    """Utterances in their order; a speaker may have several in a row."""

    def spans_of(self, turn: DialogueAct) -> list[tuple[str, str]]:
        """Return (document id, span id) of what a turn is based on."""
        return [(item.document_id or self.document_id, item.span_id) for item in turn.references]


class _Dialogues(Fields):
    by_domain: Mapping[_Domain, list[GroundedDialogue]] = Field(alias="dial_data", min_length=1)


class _DialoguesByDocument(Fields):
    by_domain: Mapping[_Domain, dict[str, list[GroundedDialogue]]] = Field(alias="dial_data", min_length=1)


def read_dialogues(root: Path, name: str, documents: Mapping[str, WebPage]) -> tuple[GroundedDialogue, ...]:
    """Return the dialogues of a split, in the order of the file.

    A blank utterance is left out, as is a dialogue of `EXTRA_DOMAINS` over missing documents; a warning counts them.
    """
    content, path = read_json(root, name)
    problems = Problems(path, "Doc2Dial dialogues", NEXT_STEP)
    kept: list[GroundedDialogue] = []
    n_left_out: Counter[str] = Counter()
    for dialogue in _all_dialogues(content, name.startswith("doc2dial"), problems):
        spans = [span for turn in dialogue.turns for span in dialogue.spans_of(turn)]
        if dialogue.domain in EXTRA_DOMAINS and not {document_id for document_id, _ in spans} <= documents.keys():
            n_left_out[f"dialogues of {dialogue.domain} over documents that are not there"] += 1
            continue
        for document_id, span_id in spans:
            if document_id not in documents or span_id not in documents[document_id].spans:
                problems.add(0, "references to spans of the documents", (document_id, span_id), dialogue.dialogue_id)
        spoken = [turn for turn in dialogue.turns if turn.text.strip()]
        n_left_out["blank utterances"] += len(dialogue.turns) - len(spoken)
        kept.append(dialogue.model_copy(update={"turns": spoken}))
    dialogues = once(problems, ((0, dialogue.dialogue_id, dialogue) for dialogue in kept), "dialogue")
    counts = ", ".join(f"{n} {what}" for what, n in n_left_out.items() if n)
    if not dialogues and not len(problems):
        problems.add(0, "at least one dialogue", f"no dialogue ({counts} left out)" if counts else "no dialogue")
    problems.raise_if_any()
    if counts:
        _LOGGER.warning("%s: left out: %s", path, counts)
    return tuple(dialogues.values())


def _all_dialogues(content: Any, is_by_document: bool, problems: Problems) -> Iterator[GroundedDialogue]:
    file = checked(TypeAdapter(_DialoguesByDocument if is_by_document else _Dialogues), content, problems)
    for domain, found in file.by_domain.items() if file else ():
        by_document = found if isinstance(found, dict) else {"": found}
        for document_id, dialogues in by_document.items():
            own = {"domain": domain, "document_id": document_id}
            yield from (dialogue.model_copy(update=own) for dialogue in dialogues)


# Retrieval units of the Doc2Dial documents, and which of them hold the grounding of an answer.
# The two segmentations are the official ones, number by number, so that scores compare: `token` cuts every 100
# blank-separated words, `structure` joins the spans of a section behind its titles. Passages are numbered over all
# documents in the order of the file.

STRUCTURE = "structure"
"""Passages of one section each."""
TOKEN = "token"
"""Passages of 100 words each."""

_N_WORDS = 100
_CUT_AT_ENDS = 3
_BLANKS = str.maketrans("", "", " \n\t\r")
_TO_BLANK = str.maketrans(dict.fromkeys("\n\r\t", " "))


def cut(documents: Mapping[str, WebPage], unit: str) -> dict[str, tuple[Passage, ...]]:
    """Return document id -> its passages, in order."""
    numbers = itertools.count()
    texts_of = _token_texts if unit == TOKEN else _structure_texts
    return {
        document_id: tuple(Passage(f"{unit}-{next(numbers)}", text, document.title) for text in texts_of(document))
        for document_id, document in documents.items()
    }


def _token_texts(document: WebPage) -> list[str]:
    words = document.text.split(" ")
    pieces = [" ".join(words[start : start + _N_WORDS]) for start in range(0, len(words), _N_WORDS)]
    return [_one_line(piece) for piece in pieces if piece.strip()]


def _structure_texts(document: WebPage) -> list[str]:
    """Return the texts of runs of neighbouring spans of one section or one title."""
    sections: list[list[GroundingSpan]] = []
    for span in document.spans.values():
        before = sections[-1][-1] if sections else None
        if before and (before.section_id == span.section_id or before.title.strip() == span.title.strip()):
            sections[-1].append(span)
        else:
            sections.append([span])
    return [_section_text(document, spans) for spans in sections]


def _section_text(document: WebPage, spans: Sequence[GroundingSpan]) -> str:
    """Return the titles above a section's last span (the document's where there is one at most), then its spans."""
    above = [title.text for title in spans[-1].parent_titles]
    titles = above if len(above) > 1 else [document.title]
    # The official passages lose what follows a `#`, and slashes separate titles only.
    headings = [title.replace("/", "-").split("#")[0] for title in titles]
    return _one_line(f"{' / '.join(headings)} // {' '.join(span.text for span in spans)}")


def _one_line(text: str) -> str:
    return text.translate(_TO_BLANK).strip()


def gold_passages(grounding: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return the passages of the grounded document that hold an answer's grounding.

    The first passage that holds it alone; else the run of neighbours that holds it and begins latest, as short as it
    can be; else none. A passage holds it as it is, or without blanks and case and three characters at either end.

    Known difference: the official script takes a grounding of at most six characters for one that any passage holds;
    here it must occur as it is.

    Source: `scripts/data_preprocessor.py` of IBM/multidoc2dial at 1f0ab09.
    """
    for passage in passages:
        if _holds(passage.text, grounding):
            return (passage,)
    for start in reversed(range(len(passages))):
        for end in range(start + 2, len(passages) + 1):
            if _holds("".join(passage.text for passage in passages[start:end]), grounding):
                return tuple(passages[start:end])
    return ()


def _holds(text: str, grounding: str) -> bool:
    core = grounding.lower().translate(_BLANKS)[_CUT_AT_ENDS:-_CUT_AT_ENDS]
    return grounding in text or (bool(core) and core in text.lower().translate(_BLANKS))


# What the benchmarks on the Doc2Dial documents share: one data set and one retrieval unit make one benchmark.
# The corpus is pooled: a question of any domain is asked of the passages of all four, as in the papers' main
# tables.

N_PASSAGES = 20
"""Retrieved units a task is given (OR-CONVQA paper, section 4.1)."""
PROPOSITIONS = "proposition"
"""The unit without known gold: single statements, written by a model."""

_LINK = "files_of"
_FETCH = "run `ragtasks data fetch multidoc2dial`, or put the official zip there"


class _Ranking(Fields):
    task_id: str
    passages: list[str]


@dataclass(frozen=True, slots=True)
class Segmentation:
    """One data set, cut into one kind of unit."""

    name: str
    documents: str
    dialogues: str
    """File of the split that is evaluated."""
    unit: str
    """`structure`, `token` or `proposition`."""
    commit: str
    n_dialogues: int | None = None
    """Dialogues of the official split; None where no source says."""
    n_documents: int | None = None
    """Official documents; None where no source says."""

    def load(self, root: Path) -> Benchmark:
        """Return the benchmark whose files lie under `root` (unpacked, as official zips, or the sample)."""
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
        for file, what, expected, n in (
            (self.dialogues, "dialogues", self.n_dialogues, n_dialogues),
            (self.documents, "documents", self.n_documents, len(read_documents(root, self.documents))),
        ):
            problems = Problems(root / file, f"{self.name} file", _FETCH)
            if expected not in {None, n}:
                problems.add(0, f"{expected} {what}", n)
            problems.raise_if_any()

    def retrieval(self) -> RetrievalSide:
        """Return how corpus and judgements are read."""
        return RetrievalSide(_ALL_DOMAINS, self.corpus_file, self.load_qrels, load_rewrites)

    def corpus_file(self, root: Path, domain: str) -> Path:
        """Return the file of units, made now where it is not there; the same for every domain."""
        check_domain(domain, _ALL_DOMAINS)
        own = files_root(root)
        rows = [{"_id": unit.passage_id, "title": unit.title, "text": unit.text} for unit in self._units(own)]
        # The name moves with the content, so that a file made from other documents is not found.
        digest = hashlib.sha256(orjson.dumps(rows)).hexdigest()[:12]
        return derived_file(own, f"{self.unit}-{digest}.jsonl", lambda: rows)

    def _units(self, root: Path) -> Iterator[Passage]:
        if self.unit == PROPOSITIONS:
            yield from read_propositions(root)
            return
        for passages in cut(read_documents(root, self.documents), self.unit).values():
            yield from passages

    def load_qrels(self, root: Path, domain: str) -> tuple[Qrel, ...]:
        """Return the gold passages of a domain's questions; questions whose grounding no passage holds have none."""
        check_domain(domain, _ALL_DOMAINS)
        if self.unit == PROPOSITIONS:
            raise ConfigurationError(_no_gold("relevance judgements"))
        tasks = [task for task in _tasks(self, files_root(root)) if task.domain == domain]
        return tuple(Qrel(task.task_id, passage.passage_id, 1) for task in tasks for passage in task.references)

    def _contexts(self, root: Path, tasks: tuple[Task, ...], setting: Setting) -> Contexts:
        """Return the gold passages; for `full_rag` the sample's own run, the only one that exists."""
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
    """Return the tasks, read once: judgements ask for them again by domain."""
    documents = read_documents(root, collection.documents)
    passages = None if collection.unit == PROPOSITIONS else cut(documents, collection.unit)
    return tasks_of(read_dialogues(root, collection.dialogues, documents), documents, passages)


def files_root(root: Path) -> Path:
    """Return the folder with the files: `root`, or the sample beside it that `root`'s statistics name.

    The samples of two units of one data set are the same files, which ship once.
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
            raise ValueError("lists of one length")
        return self


def read_propositions(root: Path) -> tuple[Passage, ...]:
    """Return the propositions of the released file in its order, numbered by row; a repeated text is kept."""
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
    """Return task id -> question that stands on its own, from `rewrites.jsonl` if a user or the sample has one.

    Neither data set comes with rewrites; the file is JSON lines `_id`, `text`, for the tasks of all domains.
    """
    check_domain(domain, _ALL_DOMAINS)
    path = files_root(root) / "rewrites.jsonl"
    if not path.is_file():
        raise ConfigurationError(f"no rewritten questions at {path}; use the query form 'llm_rewrite' with a model")
    problems = Problems(path, "rewritten questions", "correct the file")
    rows = rows_by_id(problems, _Rewrite, lambda row: row.query_id, "question")
    problems.raise_if_any()
    return {query_id: row.text for query_id, row in rows.items()}


def _no_gold(what: str) -> str:
    return (
        f"no {what} for propositions: the released file does not say which of them an answer rests on.\n"
        "  next step: evaluate passages (multidoc2dial, multidoc2dial_token), or score answers that rest on them"
    )


# The benchmarks on the Doc2Dial documents, a row each: one data set and one retrieval unit make one.
# MultiDoc2Dial holds goal-oriented dialogues, each over several pages of four public services (Feng et al. 2021);
# tasks are the user turns of the test split. Its units are passages of one section each (`structure`), as in the
# official baseline, passages of 100 blank-separated words (`token`, the second official segmentation), or
# propositions: single statements that a model drew from the documents, released with the OR-CONVQA paper. Nothing
# says which propositions an answer rests on, so these have no reference units and no judgements: what can be
# measured is the answers that rest on retrieved ones (Table 6 of that paper).
# Doc2Dial 1.0.1 is the older data set, whose dialogues rest on one given page each (Feng et al. 2020). Tasks are
# the user turns of the validation split: the test dialogues were withheld when the data came out. The OR-CONVQA
# paper evaluates retrieval of passages on it (Table 5) and no answers, since a system is given the page.

OFFICIAL_DIALOGUES: Mapping[str, int] = {"train": 3474, "validation": 661, "test": 661}
"""Dialogues of each split; their sum, 4,796, is the score that the OR-CONVQA paper gives (section 3.1)."""
OFFICIAL_DOCUMENTS: Mapping[str, int] = {"dmv": 149, "ssa": 109, "studentaid": 92, "va": 138}
"""Documents of each domain, 488 in all."""

# The zips are read as they are; unpacked files are found too. Others record the same checksum of the first.
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
    # They land beside the files of `multidoc2dial`: fetch both.
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
"""The test split of MultiDoc2Dial, by sections."""
_OLD = Segmentation("doc2dial", "doc2dial_doc.json", "doc2dial_dial_validation.json", STRUCTURE, _OLD_SOURCE.commit)


def _row(source: Source, collection: Segmentation) -> BenchmarkDefinition:
    named = replace(collection, name=source.name)
    return BenchmarkDefinition(source, named.load, named.retrieval())


MULTIDOC2DIAL = _row(_SOURCE, COLLECTION)
MULTIDOC2DIAL_TOKEN = _row(replace(_SOURCE, name="multidoc2dial_token"), replace(COLLECTION, unit=TOKEN))
MULTIDOC2DIAL_PROPOSITIONS = _row(_PROPOSITIONS_SOURCE, replace(COLLECTION, unit=PROPOSITIONS))
DOC2DIAL = _row(_OLD_SOURCE, _OLD)


# From dialogues to tasks: every user turn that an agent answers is one, as in the official preparation.
# Two differences, both stated. The official task leaves out answers that say there is no solution; here they are
# `UNANSWERABLE` tasks, so that a refusal can be right, and the metrics that compare texts leave them out. And
# utterances that one speaker makes in a row are one message, since chat models want speakers in turn; the task is
# then asked after the last of them.

NO_SOLUTION = "respond_no_solution"
"""The act of an agent who says that the documents hold no answer."""

_ROLES = {"user": Role.USER, "agent": Role.ASSISTANT}


def tasks_of(
    dialogues: Sequence[GroundedDialogue],
    documents: Mapping[str, WebPage],
    passages: Mapping[str, tuple[Passage, ...]] | None,
) -> tuple[Task, ...]:
    """Return the tasks of all dialogues, in the order of the file.

    Their `extra` holds `official_id` (`<dialogue>_<turn>`), `document_id`, `grounding`, `user_act` and `agent_act`.
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
    """Return (document id, text from the first referenced span's start to the last one's end); ("", "") for none.

    If a reply refers to several documents, the first one's spans count: the official script, too, looks into one.
    """
    if not references:
        return "", ""
    document_id = references[0][0]
    document = documents[document_id]
    spans = [document.spans[span_id] for name, span_id in references if name == document_id]
    return document_id, document.text[min(span.start for span in spans) : max(span.end for span in spans)]
