"""Your own benchmark: a folder with conversations and passages, read, checked, searched."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtasks.benchmarks._bm25 import BUILT_IN_RUN, bm25_rankings
from ragtasks.benchmarks._definition import Benchmark, BenchmarkDefinition, RetrievalSide, derived_file, with_languages
from ragtasks.benchmarks.sources import Source
from ragtasks.errors import BenchmarkFileError, ConfigurationError, close_matches, missing_path
from ragtasks.files import (
    SAMPLE_STATISTICS,
    Misfit,
    Ranked,
    bounded_lines,
    in_rank_order,
    listed_error,
    qrel_lines,
    run_lines,
)
from ragtasks.languages import settled
from ragtasks.records import (
    Answerability,
    Contexts,
    Message,
    Passage,
    Qrel,
    Role,
    Setting,
    Task,
    normalise_task_id,
    task_id,
)

# `conversations.jsonl` and `passages.jsonl` read into records, with every error of both noted by line.
# A line that has an error still counts as being there: a passage with an empty text can be referred to, so that one
# error does not bring others along.

CONVERSATIONS = "conversations.jsonl"
PASSAGES = "passages.jsonl"
DEFAULT_DOMAIN = "custom"
REWRITE = "rewrite"
"""Key of a question's standalone form, in the file and in `Task.extra`."""

CONVERSATION_KEYS = ("conversation_id", "domain", "language", "turns")
TURN_KEYS = ("question", "answer", "answerability", "references", "question_types", "multi_turn", REWRITE, "scored")
PASSAGE_KEYS = ("_id", "passage_id", "text", "title", "url", "domain")

_WITHOUT_PASSAGE = (Answerability.UNANSWERABLE, Answerability.CONVERSATIONAL)

_DOMAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_LANGUAGE = re.compile("[a-z]{2}")
_MANY = 20_000  # close matches among more ids than these take seconds each


@dataclass(slots=True)
class Corpus:
    """The passages of a folder."""

    passages: dict[str, Passage] = field(default_factory=dict)
    """Passage id -> passage, in the order of the file."""
    domains: dict[str, str] = field(default_factory=dict)
    """Passage id -> domain; empty where that has an error."""
    lines: dict[str, int] = field(default_factory=dict)

    def of_domain(self, domain: str) -> tuple[Passage, ...]:
        """Return the passages of a domain, in the order of the file."""
        return tuple(passage for key, passage in self.passages.items() if self.domains[key] == domain)

    def problem_of(self, passage_id: str, domain: str) -> str | None:
        """Return why a task of a domain cannot have a passage, None where it can."""
        if passage_id not in self.passages:
            near = close_matches(passage_id, self.passages) if len(self.passages) < _MANY else ""
            hint = f": {near}" if near.startswith("did") else ""
            return f"no passage {rendered(passage_id)} in {PASSAGES}{hint}"
        actual = self.domains[passage_id]
        if actual in {"", domain}:
            return None
        return f"passage {rendered(passage_id)} is in the domain {rendered(actual)}, the question in {rendered(domain)}"


def read_passages(root: Path, problems: FolderProblems) -> Corpus:
    """Return the passages of a folder; what is wrong with them is noted."""
    corpus = Corpus()
    for line, row in json_objects(root / PASSAGES, problems):
        item = Item(problems, PASSAGES, line, row, only=PASSAGE_KEYS)
        passage_id = _passage_id(item)
        passage = _passage(item, passage_id)
        domain = _domain(item)
        if not passage_id:
            continue
        first = corpus.lines.setdefault(passage_id, line)
        if first != line:
            item.note(f"the id {rendered(passage_id)} again; first in line {first}")
            continue
        corpus.passages[passage_id], corpus.domains[passage_id] = passage, domain
    return corpus


def _passage_id(item: Item) -> str:
    if "_id" in item.content and "passage_id" in item.content:
        item.note("'_id' and 'passage_id' mean the same: keep one of them")
    return item.name("passage_id" if "passage_id" in item.content else "_id")


def _passage(item: Item, passage_id: str) -> Passage:
    """Return a passage whose text begins with its title, as models and retrievers are to see both."""
    # Exports write an empty text where there is none.
    title, url = (item.text(key) if item.content.get(key) else "" for key in ("title", "url"))
    text = item.text("text")
    whole = text if text.lstrip().startswith(title.strip()) else f"{title}\n{text}"
    return Passage(passage_id, whole, title, url)


def _domain(item: Item) -> str:
    domain = item.text("domain", DEFAULT_DOMAIN)
    if not domain or _DOMAIN.fullmatch(domain):
        return domain
    item.expected("'domain' in lower-case letters, digits, '-' and '_'", domain)
    return ""


def read_tasks(root: Path, corpus: Corpus, problems: FolderProblems) -> tuple[Task, ...]:
    """Return one task for each user turn; what is wrong with the conversations is noted."""
    tasks: list[Task] = []
    first_lines: dict[str, int] = {}
    languages: dict[str, str] = {}
    for line, row in json_objects(root / CONVERSATIONS, problems):
        item = Item(problems, CONVERSATIONS, line, row, only=CONVERSATION_KEYS)
        conversation_id = item.name("conversation_id")
        if conversation_id and first_lines.setdefault(conversation_id, line) != line:
            item.note(f"the id {rendered(conversation_id)} again; first in line {first_lines[conversation_id]}")
        languages[conversation_id] = _language(item)
        domain = _domain(item)
        domains = set(corpus.domains.values()) - {""}
        if domains and domain and domain not in domains:
            item.note(f"no passage is in the domain {rendered(domain)}: {close_matches(domain, domains)}")
        tasks += _tasks(item, conversation_id, domain if domain in domains else "", corpus)
    return with_languages(tasks, languages)


def _language(item: Item) -> str:
    """Return the code of a conversation's language, empty where the file does not say it."""
    code = item.text("language", "")
    if not code or _LANGUAGE.fullmatch(code):
        return code
    item.expected("'language' as a code of ISO 639-1, such as 'de'", code)
    return ""


def _tasks(item: Item, conversation_id: str, domain: str, corpus: Corpus) -> list[Task]:
    turns = item.content.get("turns")
    if not isinstance(turns, list) or not turns:
        item.expected("'turns' as a list with at least one turn", turns)
        return []
    tasks: list[Task] = []
    messages: list[Message] = []
    for number, row in enumerate(turns, start=1):
        place = f"turn {number} of {conversation_id}" if conversation_id else f"turn {number}"
        if not isinstance(row, dict):
            Item(item.problems, item.file, item.line, {}, place).expected("an object", row)
            continue
        turn = Item(item.problems, item.file, item.line, row, place, TURN_KEYS)
        messages.append(Message(Role.USER, turn.text("question")))
        task = _task(turn, (conversation_id, number, domain), tuple(messages), corpus)
        messages.append(Message(Role.ASSISTANT, task.target))
        if turn.is_scored():
            tasks.append(task)
    return tasks


def _task(turn: Item, identity: tuple[str, int, str], messages: tuple[Message, ...], corpus: Corpus) -> Task:
    conversation_id, number, domain = identity
    answerability = _answerability(turn)
    rewrite = turn.text(REWRITE, "")
    return Task(
        task_id=task_id(conversation_id, number),
        conversation_id=conversation_id,
        turn=number,
        domain=domain,
        messages=messages,
        target=turn.text("answer"),
        answerability=answerability,
        question_types=turn.texts("question_types"),
        multi_turn=turn.text("multi_turn", "N/A"),
        references=_references(turn, domain, answerability, corpus),
        extra={REWRITE: rewrite} if rewrite else {},
    )


def _answerability(turn: Item) -> Answerability:
    label = turn.text("answerability", Answerability.ANSWERABLE.value).upper()
    labels: Collection[str] = [member.value for member in Answerability]
    if label in labels:
        return Answerability(label)
    if label:
        turn.note(f"unknown answerability {rendered(turn.content['answerability'])}: {close_matches(label, labels)}")
    return Answerability.ANSWERABLE


def _references(turn: Item, domain: str, answerability: Answerability, corpus: Corpus) -> tuple[Passage, ...]:
    named = turn.texts("references")
    if named and answerability in _WITHOUT_PASSAGE:
        turn.note(f"a question that is {answerability.value} rests on no passage, yet 'references' names {named[0]!r}")
    if not corpus.passages or not domain:
        return ()
    for passage_id in named:
        if problem := corpus.problem_of(passage_id, domain):
            turn.note(problem)
    return tuple(corpus.passages[passage_id] for passage_id in named if passage_id in corpus.passages)


def rewrites_of(tasks: Collection[Task]) -> Mapping[str, str]:
    """Return task id -> standalone form of the question, for the tasks that have one."""
    return {task.task_id: task.extra[REWRITE] for task in tasks if REWRITE in task.extra}


# Your own benchmark: a folder with conversations and passages in the format of `task_yamls/custom/README.md`.
# Every user turn is one task. `retrieved.trec` is what the tasks of `full_rag` are given; where there is none, a
# plain BM25 searches at once, so that a folder of two files can be run. Relevant is what `qrels.tsv` says, else the
# references.

SOURCE = Source("custom", "custom", CONVERSATIONS, "", "", "", files=())
"""No file comes from anywhere else."""

N_PASSAGES = 5
"""Retrieved passages that a task is given."""

_ANSWERED = (Answerability.ANSWERABLE, Answerability.PARTIAL)
_DEPTH = 100
_DERIVED_VERSION = 1
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Folder:
    """What a folder holds, in records."""

    root: Path
    tasks: tuple[Task, ...]
    """One for each user turn, in the order of the file."""
    corpus: Corpus
    qrels: tuple[Qrel, ...] | None
    """Judgements; None without a file of them."""
    retrieved: Mapping[str, tuple[str, ...]] | None
    """Task id -> passage ids, best first; None without a file of them."""

    @property
    def domains(self) -> tuple[str, ...]:
        """The domains of the tasks, in the order of the file."""
        return tuple(dict.fromkeys(task.domain for task in self.tasks))

    @property
    def referring(self) -> tuple[Task, ...]:
        """The tasks that can be given their reference passages: all but questions with an answer that name none."""
        return tuple(task for task in self.tasks if _belongs(task, Setting.REFERENCE))

    def judgements(self) -> tuple[Qrel, ...]:
        """Return what is relevant: the judgements, else every reference."""
        if self.qrels is not None:
            return self.qrels
        return tuple(Qrel(task.task_id, item.passage_id, 1) for task in self.tasks for item in task.references)


def read_folder(root: Path) -> tuple[Folder, tuple[Problem, ...]]:
    """Return what a folder holds and everything that is wrong with it; with errors, the former is not to be used."""
    problems = FolderProblems(root)
    return _read(root, problems), problems.all()


def _read(root: Path, problems: FolderProblems) -> Folder:
    corpus = read_passages(root, problems)
    tasks = read_tasks(root, corpus, problems)
    by_id = {task.task_id: task for task in tasks}
    qrels = read_qrels(root, by_id, corpus, problems)
    return Folder(root, tasks, corpus, qrels, read_retrieved(root, by_id, corpus, problems))


@functools.lru_cache(maxsize=2)
def _checked(root: Path) -> Folder:
    """Return what a folder holds, read once for all that asks."""
    if not root.is_dir():
        found, next_step = missing_path(root)
        raise BenchmarkFileError(
            "your own data", where=str(root), expected="a folder", found=found, next_step=next_step
        )
    problems = FolderProblems(root)
    folder = _read(root, problems)
    command = shlex.join(["ragtasks", "check", str(root)])
    problems.raise_if_any(f"run `{command}`, which lists every error; `data` names another folder")
    return folder


def load(root: Path) -> Benchmark:
    """Return the benchmark in a folder of your own, or the sample."""
    folder = _checked(root)
    is_sample = (root / SAMPLE_STATISTICS).is_file()
    return Benchmark(
        "custom",
        root,
        is_sample,
        _digest(root / CONVERSATIONS, root / PASSAGES)[:16],
        "answerability",
        folder.tasks,
        functools.partial(_read_contexts, folder),
        n_passages=N_PASSAGES,
        copy="" if is_sample else _NOT_IN_A_NAME.sub("-", root.resolve().name) or "root",
        belongs=_belongs,
    )


def _belongs(task: Task, setting: Setting) -> bool:
    """Return whether a task has a part in a setting: a question with an answer needs references to be given any."""
    return setting is not Setting.REFERENCE or bool(task.references) or task.answerability not in _ANSWERED


def _digest(*paths: Path) -> str:
    """Return a hash of whole files: what of a folder a stored run rests on."""
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in paths)).hexdigest()


def _read_contexts(folder: Folder, setting: Setting) -> Contexts:
    """Return the passages of a setting: the references, or the first five of the folder's own ranking."""
    if setting is Setting.REFERENCE:
        return Contexts("references", setting, {task.task_id: task.references for task in folder.referring})
    if setting is Setting.REFERENCE_RAG:
        raise ConfigurationError("custom has no setting reference_rag: take custom_reference or custom_full_rag")
    rankings = _rankings(folder)
    contexts = {task.task_id: rankings[task.task_id][:N_PASSAGES] for task in folder.tasks}
    return Contexts(_rankings_name(folder), setting, contexts)


def _rankings_name(folder: Folder) -> str:
    return BUILT_IN_RUN if folder.retrieved is None else RETRIEVED


def _rankings(folder: Folder) -> dict[str, tuple[Passage, ...]]:
    """Return task id -> passages, best first: those of the folder's file, else those that a plain BM25 finds."""
    ids = _searched(folder) if folder.retrieved is None else folder.retrieved
    return {
        task.task_id: tuple(folder.corpus.passages[key] for key in ids.get(task.task_id, ())) for task in folder.tasks
    }


def _searched(folder: Folder) -> dict[str, tuple[str, ...]]:
    """Return task id -> passage ids that BM25 finds for the question, or for its standalone form where there is one."""
    queries = {task.task_id: task.question for task in folder.tasks} | dict(rewrites_of(folder.tasks))
    found: dict[str, tuple[str, ...]] = {}
    for domain in folder.domains:
        tasks = [task for task in folder.tasks if task.domain == domain]
        texts = {task.task_id: queries[task.task_id] for task in tasks}
        languages = (settled(task.language, queries[task.task_id]) for task in tasks)
        ((language, _),) = Counter(languages).most_common(1)
        found |= bm25_rankings(texts, folder.corpus.of_domain(domain), _DEPTH, language)
    return found


def corpus_file(root: Path, domain: str) -> Path:
    """Return the file with the passages of a domain, written below the folder where it is not there.

    Its name holds a hash of the passages, so a stale one is not found.
    """
    folder = _checked(root)
    key = hashlib.sha256(b"%d:" % _DERIVED_VERSION + (root / PASSAGES).read_bytes()).hexdigest()[:12]
    return derived_file(root, f"{domain}-{key}.jsonl", lambda: _corpus_rows(folder.corpus.of_domain(domain)))


def _corpus_rows(passages: Iterable[Passage]) -> Iterator[dict[str, Any]]:
    for item in passages:
        yield {"_id": item.passage_id, "title": item.title, "text": item.text, "url": item.url}


def load_qrels(root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return the judgements of the questions of one domain: those of `qrels.tsv`, else every reference."""
    folder = _checked(root)
    task_ids = {task.task_id for task in folder.tasks if task.domain == domain}
    return tuple(qrel for qrel in folder.judgements() if qrel.query_id in task_ids)


def load_rewrites(root: Path, domain: str) -> dict[str, str]:
    """Return task id -> standalone form of the question, for the questions of one domain that have one."""
    return dict(rewrites_of([task for task in _checked(root).tasks if task.domain == domain]))


def load_rankings(root: Path) -> dict[str, tuple[Passage, ...]]:
    """Return task id -> retrieved passages, best first: the folder's own, at most 100 where BM25 had to search."""
    return _rankings(_checked(root))


def labelled_conversations(root: Path, labels: Mapping[str, tuple[str, ...]]) -> bytes:
    """Return `conversations.jsonl` with question types by task id, where a turn has none yet."""
    lines = []
    for line in (root / CONVERSATIONS).read_text(encoding="utf-8-sig").splitlines():
        if not line.strip():
            continue
        row = json.loads(line)
        for number, turn in enumerate(row["turns"], start=1):
            found = labels.get(task_id(row["conversation_id"], number))
            if found and not turn.get("question_types"):
                turn["question_types"] = list(found)
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines).encode()


RETRIEVAL = RetrievalSide(
    (),
    corpus_file,
    load_qrels,
    load_rewrites=load_rewrites,
    load_rankings=load_rankings,
    rankings_name=lambda root: _rankings_name(_checked(root)),
)
"""Corpora and judgements; the folder says what domains there are."""

DEFINITION = BenchmarkDefinition(SOURCE, load, RETRIEVAL)


# `qrels.tsv` and `retrieved.trec`: what is relevant, and what a retriever found, both optional and by ids alone.
# Every id must be that of a task or a passage of the folder, and of one domain: an error in an id would else read
# as a retriever's miss.

QRELS = "qrels.tsv"
RETRIEVED = "retrieved.trec"


class _Ids:
    """The ids that a line may name; a folder whose tasks or passages have errors is checked against what it has."""

    def __init__(self, file: str, tasks: Mapping[str, Task], corpus: Corpus, problems: FolderProblems) -> None:
        self._file, self._tasks, self._corpus, self._problems = file, tasks, corpus, problems

    def pair(self, line: int, query: str, passage_id: str) -> tuple[str, str] | None:
        """Return (task id, passage id) of a line, None after noting that there is no such pair."""
        task = self._task(query)
        if task is None:
            near = close_matches(query, self._tasks) if self._tasks else ""
            hint = f": {near}" if near.startswith("did") else ""
            self.note(line, f"no task {rendered(query)}, which is a conversation id, '<::>' and a turn{hint}")
            return None
        if task.domain and (problem := self._corpus.problem_of(passage_id, task.domain)):
            self.note(line, problem)
            return None
        return task.task_id, passage_id

    def _task(self, query: str) -> Task | None:
        try:
            return self._tasks.get(normalise_task_id(query))
        except ValueError:
            return None

    def expected(self, line: int, misfit: Misfit) -> None:
        """Note what is wrong with a line."""
        self.note(line, f"expected {misfit.expected}, found {rendered(misfit.found)}")

    def note(self, line: int, text: str) -> None:
        """Note an error of the file."""
        self._problems.add(self._file, line, text)


def read_qrels(
    root: Path, tasks: Mapping[str, Task], corpus: Corpus, problems: FolderProblems
) -> tuple[Qrel, ...] | None:
    """Return the judgements of the folder, None where it has no file of them; what is wrong with it is noted.

    A line has three cells as in BEIR (query, passage, grade; its header may stand first), or four as in TREC (query, a
    column that nobody reads, passage, grade).
    """
    if not (root / QRELS).exists():
        return None
    ids = _Ids(QRELS, tasks, corpus, problems)
    found: dict[tuple[str, str], Qrel] = {}
    for line, judged in qrel_lines(_lines(root / QRELS, problems), {3, 4}):
        if isinstance(judged, Misfit):
            ids.expected(line, judged)
        elif pair := ids.pair(line, judged.query_id, judged.passage_id):
            if pair in found:
                ids.note(line, f"{rendered(pair[1])} is judged twice for {pair[0]}")
            found.setdefault(pair, Qrel(*pair, judged.relevance))
    return tuple(found.values())


def read_retrieved(
    root: Path, tasks: Mapping[str, Task], corpus: Corpus, problems: FolderProblems
) -> dict[str, tuple[str, ...]] | None:
    """Return task id -> passage ids, best first, None where the folder has no such file; its errors are noted.

    The score decides, not the rank that the file writes, as in trec_eval; a task without a line is left out.
    """
    if not (root / RETRIEVED).exists():
        return None
    ids = _Ids(RETRIEVED, tasks, corpus, problems)
    scores: dict[str, dict[str, float]] = {}
    for line, found in run_lines(_lines(root / RETRIEVED, problems)):
        if isinstance(found, Misfit):
            ids.expected(line, found)
        elif pair := ids.pair(line, found.query_id, found.passage_id):
            ranking = scores.setdefault(pair[0], {})
            if pair[1] in ranking:
                ids.note(line, f"{rendered(pair[1])} appears twice for {pair[0]}")
            ranking.setdefault(pair[1], found.score)
    return {key: best_first(ranking) for key, ranking in scores.items()}


def best_first(scores: Mapping[str, float]) -> tuple[str, ...]:
    """Return passage ids in the rank order of all runs."""
    return tuple(item.passage_id for item in in_rank_order(Ranked(*item) for item in scores.items()))


def _lines(path: Path, problems: FolderProblems) -> Iterator[tuple[int, str]]:
    yield from ((number, text) for number, text, _ in text_lines(path, problems))


# Output of `ragtasks check` for your own folder: every error, or what is in it and the commands to run next.

_READ = (CONVERSATIONS, PASSAGES, QRELS, RETRIEVED)


@dataclass(frozen=True, slots=True)
class FolderCheck:
    """The outcome of a check."""

    passes: bool
    """Whether the folder can be run."""
    lines: tuple[str, ...]


def check_folder(root: Path) -> FolderCheck:
    """Return every error of a folder by file and line, or, where there is none, counts and what to run next."""
    folder, problems = read_folder(root)
    if problems:
        n_files = len({problem.file for problem in problems})
        heading = f"{root}: {plural(len(problems), 'error')} in {plural(n_files, 'file')}"
        return FolderCheck(False, (heading, *map(str, problems), *_unread(root)))
    return FolderCheck(True, (f"{root}: no error", *_contents(folder), *_unread(root), *_next_steps(folder)))


def _contents(folder: Folder) -> Iterator[str]:
    n_conversations = len({task.conversation_id for task in folder.tasks})
    n_passages = len(folder.corpus.passages)
    yield (
        f"{plural(n_conversations, 'conversation')}, {plural(len(folder.tasks), 'task')} (one for each question), "
        f"{plural(n_passages, 'passage')}"
    )
    yield from _table(folder)
    if folder.qrels is None:
        yield f"judgements: the references, {len(folder.judgements())} (no {QRELS})"
    else:
        yield f"judgements: {len(folder.qrels)} in {QRELS}"
    if folder.retrieved is None:
        yield f"retrieved passages: none (no {RETRIEVED}); custom_full_rag takes those of {BUILT_IN_RUN}"
    else:
        yield f"retrieved passages: {RETRIEVED}, for {len(folder.retrieved)} of {plural(len(folder.tasks), 'task')}"
    if n_left_out := len(folder.tasks) - len(folder.referring):
        yield f"left out of custom_reference: {plural(n_left_out, 'task')} with an answer but without references"


def _table(folder: Folder) -> Iterator[str]:
    """Yield passages and tasks of each domain, with the labels that occur."""
    occurring = {task.answerability for task in folder.tasks}
    labels = [label.value for label in Answerability if label in occurring]
    rows = [["domain", "passages", "tasks", *labels]]
    n_passages = Counter(folder.corpus.domains.values())
    for domain in dict.fromkeys((*folder.domains, *n_passages)):
        counts = Counter(task.answerability.value for task in folder.tasks if task.domain == domain)
        rows.append([domain, str(n_passages[domain]), str(counts.total()), *(str(counts[label]) for label in labels)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for name, *cells in rows:
        padded = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join(["", name.ljust(widths[0]), *padded])


def _unread(root: Path) -> Iterator[str]:
    """Yield a line for each file that nobody reads: an error in an optional file's name would else go unseen."""
    names = sorted(path.name for path in root.glob("[!.]*") if path.is_file())
    for name in names:
        if name not in (*_READ, SAMPLE_STATISTICS):
            near = close_matches(name, _READ)
            yield f"not read: {name}{f' ({near})' if near.startswith('did') else ''}"


def _next_steps(folder: Folder) -> Iterator[str]:
    root = str(folder.root)
    tasks = "custom_reference,custom_full_rag" if folder.referring else "custom_full_rag"
    place = shlex.join(["--benchmark", "custom", "--data", root])
    data = shlex.join(["--data", root])
    form = " --queries rewrite" if rewrites_of(folder.tasks) else ""
    yield "next:"
    yield f"  ragtasks run --model ragtasks-extractive --tasks {tasks} {data}"
    yield f"  ragtasks retrieve {place} --retriever bm25{form} --name mine"
    yield f"  ragtasks evaluate-run official mine {place}"
    yield f"  ragtasks run --model ragtasks-extractive --tasks custom_full_rag {data} --run mine"


# The lines of files that people write themselves, and what is wrong with them: every error, with its file and line.
# The official files are made by programs, so one expected shape is enough there. What is typed or exported by hand
# goes wrong in other ways (another encoding, a key twice, a misspelt key), and each is named here for itself. The
# mark that some editors put before UTF-8 is no error: it is read as if it were not there.

_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")
_MAX_LENGTH = 80


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong."""

    file: str
    line: int
    """Its line, from 1; 0 for the file as a whole."""
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.text}"


class FolderProblems:
    """What is wrong with the files of one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._found: list[Problem] = []

    def add(self, file: str, line: int, text: str) -> None:
        """Note one error; line 0 means the file as a whole."""
        self._found.append(Problem(file, line, text))

    def all(self) -> tuple[Problem, ...]:
        """Return every error, those of a file in the order of its lines."""
        return tuple(sorted(self._found, key=lambda problem: (problem.file, problem.line)))

    def raise_if_any(self, next_step: str) -> None:
        """Raise one error with the first errors, and how many there are."""
        if self._found:
            raise listed_error(f"files of your own in {self.root}", [str(item) for item in self.all()], next_step)


@dataclass(frozen=True, slots=True)
class Item:
    """One JSON object with its place; its readers note what is wrong and return something harmless in its stead."""

    problems: FolderProblems
    file: str
    line: int
    content: Mapping[str, Any]
    """The object. A key whose value is null counts as missing where it may be."""
    place: str = ""
    """What of the line is meant, such as `turn 2`."""
    only: Collection[str] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        for key in self.content:
            if key not in self.only:
                self.note(f"unknown key {rendered(key)}: {close_matches(key, self.only)}")

    def note(self, text: str) -> None:
        """Note an error of this object."""
        self.problems.add(self.file, self.line, f"{self.place}: {text}" if self.place else text)

    def expected(self, what: str, value: object) -> None:
        """Note that something else was expected."""
        self.note(f"expected {what}, found {rendered(value)}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text that says something; without `default` it must be there."""
        value = self.content.get(key)
        if value is None and default is not None:
            return default
        if key not in self.content:
            self.note(f"no {key!r}")
        elif not isinstance(value, str) or not value.strip():
            self.expected(f"{key!r} as a text that is not blank", value)
        else:
            return value
        return ""

    def name(self, key: str) -> str:
        """Return an id: a text without white space, since a run's line is cut there."""
        value = self.text(key)
        if value and value.split() != [value]:
            self.expected(f"{key!r} without white space", value)
            return ""
        return value

    def is_scored(self) -> bool:
        """Return what the key `scored` says, true or false; true where it is not there."""
        value = self.content.get("scored")
        if value is not None and not isinstance(value, bool):
            self.expected("'scored' as true or false", value)
        return value is not False

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, each once; a text alone is a list of one, and nothing is an empty one."""
        value = self.content.get(key)
        values = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(item, str) and item.strip() for item in values):
            self.expected(f"{key!r} as a list of texts", value)
            return ()
        for repeated in sorted({item for item in values if values.count(item) > 1}):
            self.note(f"{rendered(repeated)} appears twice in {key!r}")
        return tuple(dict.fromkeys(values))


def json_objects(path: Path, problems: FolderProblems) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) of a file of JSON lines; all that is no object is noted and left out."""
    for number, text, is_corrupt in text_lines(path, problems):
        try:
            value = _parsed(text)
        except ValueError as error:
            corrupt = "the file breaks off inside this line: " if is_corrupt else ""
            problems.add(path.name, number, f"{corrupt}expected one JSON object, found {error}")
            continue
        if isinstance(value, dict):
            yield number, value
        else:
            problems.add(path.name, number, f"expected one JSON object, found {rendered(value)}")


def text_lines(path: Path, problems: FolderProblems) -> Iterator[tuple[int, str, bool]]:
    """Yield (line number from 1, text, whether the line has no end) of each line that is not blank and is UTF-8."""
    for number, line in enumerate(_raw_lines(path, problems), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            problems.add(path.name, number, f"expected UTF-8, found byte {line[error.start]:#04x} at {error.start + 1}")
            continue
        if text.strip():
            yield number, text.rstrip("\r\n"), not line.endswith((b"\n", b"\r"))


def _raw_lines(path: Path, problems: FolderProblems) -> Iterator[bytes]:
    """Yield the lines of a file without a byte order mark; nothing after noting that it cannot be used.

    A carriage return ends a line too: some editors write no line feed.
    """
    number = n_filled = 0
    try:
        with path.open("rb") as stream:
            for ended in bounded_lines(stream):
                first = number == 0
                if first and ended.startswith(_WIDE_BOMS):
                    problems.add(path.name, 1, "expected UTF-8, found UTF-16: save the file as UTF-8")
                    return
                for line in ended.removeprefix(_BOM if first else b"").splitlines(keepends=True):
                    number += 1
                    n_filled += bool(line.strip())
                    yield line
    except FileNotFoundError:
        others = sorted(file.name for file in path.parent.glob("*") if file.is_file()) if path.parent.is_dir() else []
        found = f"; there: {', '.join(others)}" if others else ""
        problems.add(path.name, 0, f"no such file{found}")
    except OSError as error:
        problems.add(path.name, 0, f"cannot be read: {error.strerror or error}")
    except ValueError as error:
        problems.add(path.name, number + 1, f"expected one JSON object, found {error}")
    else:
        if not n_filled:
            problems.add(path.name, 0, "the file is empty")


def _parsed(text: str) -> Any:
    """Return the parsed JSON."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("half of a surrogate pair, which no file can hold") from error
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise ValueError(f"the key {rendered(twice[0])} twice in one object")
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name}, which is not JSON")


def rendered(value: object) -> str:
    """Return a value for a message, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 3] + "..."


def plural(number: int, noun: str) -> str:
    """Return a count with its noun, such as `2 errors`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
