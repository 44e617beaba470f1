"""Doc2Dial and MultiDoc2Dial: one data set and one retrieval unit make one benchmark."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import orjson

from ragtasks.benchmarks._definition import Benchmark, BenchmarkDefinition, RetrievalSide
from ragtasks.benchmarks._derived import derived_file
from ragtasks.benchmarks.doc2dial_files import (
    DOMAINS,
    EXTRA_DOMAINS,
    STRUCTURE,
    TOKEN,
    Dialogue,
    Document,
    Turn,
    cut,
    gold_passages,
    proposition_passages,
    read_dialogues,
    read_documents,
    read_json,
)
from ragtasks.benchmarks.download import Source, SourceFile
from ragtasks.errors import ConfigurationError, clear_error, close_matches
from ragtasks.files import Problems, json_lines, sample_statistics
from ragtasks.records import Answerability, Contexts, Message, Passage, Qrel, Role, Setting, Task, task_id

# What the benchmarks on the Doc2Dial documents share: one data set and one retrieval unit make one benchmark.
# The corpus is pooled: a question of any domain is asked of the passages of all four, as in the papers' main
# tables.

N_PASSAGES = 20
"""Retrieved units a task is given (OR-CONVQA paper, section 4.1)."""
PROPOSITIONS = "proposition"
"""The unit without known gold: single statements, written by a model."""

_COLUMNS = ("Propositions", "Document_names", "Domains")
_LINK = "files_of"
_FETCH = "run `ragtasks data fetch multidoc2dial`, or put the official zip there"


@dataclass(frozen=True, slots=True)
class Collection:
    """One data set, cut into one kind of unit."""

    name: str
    """Name of the benchmark."""
    documents: str
    """File of the documents."""
    dialogues: str
    """File of the split that is evaluated."""
    unit: str
    """`structure`, `token` or `proposition`."""
    commit: str
    """Revision of the official files."""
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
        dialogues, documents = (
            Problems(root / name, f"{self.name} file", _FETCH) for name in (self.dialogues, self.documents)
        )
        found = {
            "dialogues": (dialogues, self.n_dialogues, len({task.conversation_id for task in tasks})),
            "documents": (documents, self.n_documents, len(read_documents(root, self.documents))),
        }
        for what, (problems, expected, n) in found.items():
            if expected not in {None, n}:
                problems.add(0, f"{expected} {what}", n)
            problems.raise_if_any()

    def retrieval(self) -> RetrievalSide:
        """Return how corpus and judgements are read."""
        return RetrievalSide((*DOMAINS, *EXTRA_DOMAINS), self.corpus_file, self.load_qrels, load_rewrites)

    def corpus_file(self, root: Path, domain: str) -> Path:
        """Return the file of units, made now where it is not there; the same for every domain."""
        _check_domain(domain)
        own = files_root(root)
        rows = [{"_id": unit.passage_id, "title": unit.title, "text": unit.text} for unit in self._units(own)]
        # The name moves with the content, so that a file made from other documents is not found.
        digest = hashlib.sha256(orjson.dumps(rows)).hexdigest()[:12]
        return derived_file(own, f"{self.unit}-{digest}.jsonl", lambda: rows)

    def _units(self, root: Path) -> Iterator[Passage]:
        if self.unit == PROPOSITIONS:
            yield from proposition_passages(read_propositions(root))
            return
        for passages in cut(read_documents(root, self.documents).values(), self.unit).values():
            yield from passages

    def load_qrels(self, root: Path, domain: str) -> tuple[Qrel, ...]:
        """Return the gold passages of a domain's questions; questions whose grounding no passage holds have none."""
        _check_domain(domain)
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
        message = clear_error(
            f"retrieved passages of {self.name}",
            where=f"setting {setting.value}",
            expected="a run of your own: none is published",
            found="no run",
            next_step=f"ragtasks retrieve --benchmark {self.name} --retriever bm25, then --metadata "
            "'{\"run\": NAME}'",
        )
        raise ConfigurationError(message)

    def _ranked(self, root: Path, ranking: Path) -> dict[str, tuple[Passage, ...]]:
        units = {passage.passage_id: passage for passage in self._units(files_root(root))}
        problems = Problems(ranking, "ranking", "restore the sample")
        found: dict[str, tuple[Passage, ...]] = {}
        for line, row in json_lines(problems):
            ids = row.get("passages")
            ids = ids if isinstance(ids, list) else [None]
            if not isinstance(row.get("task_id"), str) or not all(isinstance(one, str) and one in units for one in ids):
                problems.add(line, "`task_id` and ids of units as `passages`", row)
            elif row["task_id"] in found:
                problems.add(line, "each task once", "this task again", row["task_id"])
            else:
                found[row["task_id"]] = tuple(units[name] for name in ids[:N_PASSAGES])
        problems.raise_if_any()
        return found


@functools.lru_cache(maxsize=4)
def _tasks(collection: Collection, root: Path) -> tuple[Task, ...]:
    """Return the tasks, read once: judgements ask for them again by domain."""
    documents = read_documents(root, collection.documents)
    passages = None if collection.unit == PROPOSITIONS else cut(documents.values(), collection.unit)
    return tasks_of(read_dialogues(root, collection.dialogues, documents), documents, passages)


def files_root(root: Path) -> Path:
    """Return the folder with the files: `root`, or the sample beside it that `root`'s statistics name.

    The samples of two units of one data set are the same files, which ship once.
    """
    name = (sample_statistics(root) or {}).get(_LINK)
    return root.parent / name if isinstance(name, str) else root


def read_propositions(root: Path) -> Mapping[str, list[str]]:
    """Return the parallel lists `Propositions`, `Document_names` and `Domains` of the released file."""
    content, path = read_json(root, "propositions.json")
    problems = Problems(path, "propositions", "fetch the file again")
    row = content[0] if isinstance(content, list) and len(content) == 1 else None
    columns = {name: row.get(name) if isinstance(row, dict) else None for name in _COLUMNS}
    for name, values in columns.items():
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            problems.add(0, f"one object with a list of texts as `{name}`", values)
    problems.raise_if_any()
    lengths = {name: len(values or ()) for name, values in columns.items()}
    if len(set(lengths.values())) != 1 or not lengths[_COLUMNS[0]]:
        problems.add(0, "lists of one length, not empty", lengths)
    problems.raise_if_any()
    return {name: list(values or ()) for name, values in columns.items()}


def load_rewrites(root: Path, domain: str) -> dict[str, str]:
    """Return task id -> question that stands on its own, from `rewrites.jsonl` where a user or the sample has one.

    Neither data set comes with rewrites; the file is JSON lines `_id`, `text`, for the tasks of all domains.
    """
    _check_domain(domain)
    path = files_root(root) / "rewrites.jsonl"
    if not path.is_file():
        raise ConfigurationError(f"no rewritten questions at {path}; use the query form 'llm_rewrite' with a model")
    problems = Problems(path, "rewritten questions", "correct the file")
    rewrites: dict[str, str] = {}
    for line, row in json_lines(problems):
        query_id, text = row.get("_id"), row.get("text")
        if isinstance(query_id, str) and isinstance(text, str) and text.strip() and query_id not in rewrites:
            rewrites[query_id] = text
        else:
            problems.add(line, "`_id`, each once, and `text`", row)
    problems.raise_if_any()
    return rewrites


def _no_gold(what: str) -> str:
    return (
        f"no {what} for propositions: the released file does not say which of them an answer rests on.\n"
        "  next step: evaluate passages (multidoc2dial, multidoc2dial_token), or score answers that rest on them"
    )


def _check_domain(domain: str) -> None:
    if domain not in {*DOMAINS, *EXTRA_DOMAINS}:
        raise ConfigurationError(f"unknown domain {domain!r}: {close_matches(domain, DOMAINS)}")


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
    files=(SourceFile("multidoc2dial.zip", _ZIP_SHA256, 6868509, "dialogues"),),
)
_OLD_SOURCE = replace(
    _SOURCE,
    name="doc2dial",
    marker="doc2dial",
    repository="https://doc2dial.github.io",
    commit="v1.0.1",
    base_url="https://doc2dial.github.io/file/",
    files=(SourceFile("doc2dial_v1.0.1.zip", None, None, "dialogues"),),
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
    files=(SourceFile("data/propositions.json", None, 3049634, "propositions"),),
)

COLLECTION = Collection(
    "multidoc2dial",
    "multidoc2dial_doc.json",
    "multidoc2dial_dial_test.json",
    STRUCTURE,
    _SOURCE.commit,
    n_dialogues=OFFICIAL_DIALOGUES["test"],
    n_documents=sum(OFFICIAL_DOCUMENTS.values()),
)
"""The test split of MultiDoc2Dial, by sections."""
_OLD = Collection("doc2dial", "doc2dial_doc.json", "doc2dial_dial_validation.json", STRUCTURE, _OLD_SOURCE.commit)


def _row(source: Source, collection: Collection) -> BenchmarkDefinition:
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
    dialogues: Sequence[Dialogue],
    documents: Mapping[str, Document],
    passages: Mapping[str, tuple[Passage, ...]] | None,
) -> tuple[Task, ...]:
    """Return the tasks of all dialogues, in the order of the file.

    Their `extra` holds `official_id` (`<dialogue>_<turn>`), `document_id`, `grounding`, `user_act` and `agent_act`.
    """
    return tuple(_task(moment, documents, passages) for dialogue in dialogues for moment in _moments(dialogue))


@dataclass(frozen=True, slots=True)
class _Moment:
    """A dialogue up to a user turn, and the reply."""

    dialogue: Dialogue
    messages: tuple[Message, ...]
    turn: Turn
    reply: Turn


def _moments(dialogue: Dialogue) -> Iterator[_Moment]:
    messages: list[Message] = []
    for turn, reply in pairwise(dialogue.turns):
        _append(messages, turn)
        if turn.role == "user" and reply.role == "agent":
            yield _Moment(dialogue, tuple(messages), turn, reply)


def _append(messages: list[Message], turn: Turn) -> None:
    """Add an utterance, to the last message where the same speaker goes on."""
    role = _ROLES[turn.role]
    if messages and messages[-1].role is role:
        messages[-1] = Message(role, f"{messages[-1].text}\n{turn.text}")
    else:
        messages.append(Message(role, turn.text))


def _task(
    moment: _Moment, documents: Mapping[str, Document], passages: Mapping[str, tuple[Passage, ...]] | None
) -> Task:
    dialogue, turn, reply = moment.dialogue, moment.turn, moment.reply
    number = sum(message.role is Role.USER for message in moment.messages)
    is_answered = reply.act != NO_SOLUTION
    document_id, grounding = _grounding(reply, documents) if is_answered else ("", "")
    candidates = passages[document_id] if passages is not None and grounding else ()
    return Task(
        task_id=task_id(dialogue.dialogue_id, number),
        conversation_id=dialogue.dialogue_id,
        turn=number,
        domain=dialogue.domain,
        messages=moment.messages,
        target=reply.text,
        answerability=Answerability.ANSWERABLE if is_answered else Answerability.UNANSWERABLE,
        question_types=(turn.act,),
        multi_turn="N/A",
        references=gold_passages(grounding, candidates),
        extra={
            "official_id": f"{dialogue.dialogue_id}_{turn.turn_id}",
            "document_id": document_id,
            "grounding": grounding,
            "user_act": turn.act,
            "agent_act": reply.act,
        },
    )


def _grounding(reply: Turn, documents: Mapping[str, Document]) -> tuple[str, str]:
    """Return (document id, text from the first referenced span's start to the last one's end); ("", "") for none.

    Where a reply refers to several documents, the first one's spans count: the official script, too, looks into one.
    """
    if not reply.references:
        return "", ""
    document_id = reply.references[0][0]
    document = documents[document_id]
    spans = [document.spans[span_id] for name, span_id in reply.references if name == document_id]
    return document_id, document.text[min(span.start for span in spans) : max(span.end for span in spans)]
