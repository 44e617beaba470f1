"""MTRAG: 110 conversations, 842 tasks, four domains (Katsis et al. 2025), in the layout of the official repository.

The reference file contains the tasks with their reference passages. Two further files contain the passages of the other
settings, each for exactly the tasks of its setting.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import Field, TypeAdapter

from ragtasks.benchmarks._definition import (
    Benchmark,
    BenchmarkDefinition,
    RepairedAnswer,
    RetrievalSide,
    check_domain,
    official_file,
)
from ragtasks.benchmarks._fields import Fields, TaskId, Text, rows_by_id, typed_file
from ragtasks.benchmarks._registry import retrieval_side
from ragtasks.benchmarks._rewrite_replies import Contract
from ragtasks.benchmarks.mtrag._rows import (
    DOMAINS,
    ContextRow,
    Counts,
    domain_of,
    edition_of,
    official_problems,
    read_tasks,
)
from ragtasks.benchmarks.sources import Source, source_files
from ragtasks.errors import ConfigurationError
from ragtasks.files import Misfit, Problems, Run, json_lines, labels_of, qrel_lines, read_content, read_run
from ragtasks.records import Contexts, Passage, Qrel, Setting, Task, normalise_task_id

# Retrieval files of MTRAG: corpora, rewritten questions, relevance judgements.

_OFFSETS = re.compile(r"-\d+-\d+$")
_SECTION = re.compile(r"_\d+-\d+$")
_SPEAKER_MARK = "|user|: "
_NEXT_STEP = "delete the file and run `ragtasks data fetch mtrag`"


def load_rewrites(root: Path, domain: str) -> dict[str, str]:
    """Return query id -> rewritten question of a domain."""
    check_domain(domain, DOMAINS)
    return read_queries(root / "mtrag-human/retrieval_tasks" / domain / f"{domain}_rewrite.jsonl")


class _Query(Fields):
    query_id: TaskId = Field(alias="_id")
    text: Text


def read_queries(path: Path) -> dict[str, str]:
    """Return query id -> text of an official query file, without speaker marks, in file order."""
    problems = official_problems(path, "mtrag", "queries")
    rows = rows_by_id(problems, _Query, lambda row: row.query_id, "query")
    problems.raise_if_any()
    return {
        query_id: "\n".join(part.removeprefix(_SPEAKER_MARK) for part in row.text.split("\n"))
        for query_id, row in rows.items()
    }


def load_qrels(root: Path, domain: str) -> tuple[Qrel, ...]:
    """Return the relevance judgements of a domain, in file order (2,128 in the official four)."""
    check_domain(domain, DOMAINS)
    return read_qrels(root / "mtrag-human/retrieval_tasks" / domain / "qrels" / "dev.tsv", "mtrag")


def read_qrels(path: Path, benchmark: str) -> tuple[Qrel, ...]:
    """Return the relevance judgements in a file of MTRAG or MTRAG-UN, in file order."""
    problems = official_problems(path, benchmark, "qrels")
    qrels: dict[tuple[str, str], Qrel] = {}
    lines = (line.decode("utf-8", errors="replace") for line in read_content(problems).splitlines())
    for number, judged in qrel_lines(enumerate(lines, start=1), {3}):
        query_id = _query_id(judged.query_id) if isinstance(judged, Qrel) else None
        if isinstance(judged, Misfit) or query_id is None or not judged.passage_id:
            found = judged.found if isinstance(judged, Misfit) else (judged.query_id, judged.passage_id)
            problems.add(number, "query id, passage id and a whole number, separated by tabs", found)
        elif (query_id, judged.passage_id) in qrels:
            problems.add(number, "each judgement once", judged.passage_id, query_id)
        else:
            qrels[query_id, judged.passage_id] = Qrel(query_id, judged.passage_id, judged.relevance)
    problems.raise_if_any()
    return tuple(qrels.values())


def _query_id(text: object) -> str | None:
    """Return a normalized query id; None for an invalid id."""
    try:
        return normalise_task_id(text) if isinstance(text, str) else None
    except ValueError:
        return None


def corpus_file(root: Path, domain: str) -> Path:
    """Return the corpus file of a domain."""
    check_domain(domain, DOMAINS)
    return official_file(root / "corpora/passage_level" / f"{domain}.jsonl.zip", "MTRAG", "mtrag")


def document_of(passage_id: str) -> str:
    """Return the id of a passage's document, without offsets of the passage and of its section.

    `822086267_6698-7277-0-579` belongs to the document 822086267, `ibmcld_00007-7-2159` to ibmcld_00007.
    """
    document = _OFFSETS.sub("", passage_id)
    return _SECTION.sub("", document)


# The official files of MTRAG and MTRAG-UN, pinned to one commit of IBM/mt-rag-benchmark. Checksums and sizes refer to
# the bytes in that commit. Six large files were not available: the two task files with retrieved passages and the four
# corpora. They are pinned by their blob ids in the commit's tree.

_COMMIT = "cc5b1d481b391181b89f7ced860308482e785463"

MTRAG_SOURCE = Source(
    name="mtrag",
    folder="mt-rag-benchmark",
    marker="mtrag-human",
    repository="https://github.com/IBM/mt-rag-benchmark",
    commit=_COMMIT,
    base_url=f"https://raw.githubusercontent.com/IBM/mt-rag-benchmark/{_COMMIT}/",
    files=source_files(Path(__file__).with_name("files.csv")),
)
"""Groups of files: `tasks`, `evaluations`, `corpora`, `judge_prompts`, `generation_prompts` and `mtrag_un`.

`tasks` contains generation tasks, conversations, and retrieval tasks with qrels. `evaluations` contains the human
evaluation, and `corpora` the passages. `judge_prompts` contains scripts with prompts, which are read and never run.
`generation_prompts` contains the paper of MTRAG-UN, with its prompt for models.
"""

MTRAG_UN_SOURCE = replace(
    MTRAG_SOURCE,
    name="mtrag_un",
    marker="mtragun-human",
    # `ragtasks data fetch` downloads the group `tasks` by default.
    files=(
        *(replace(file, group="tasks") for file in MTRAG_SOURCE.in_groups(["mtrag_un"])),
        *MTRAG_SOURCE.in_groups(["generation_prompts"]),
    ),
)
"""MTRAG-UN alone, with the same repository, commit and folder, so that both benchmarks share downloads."""


# MTRAG's answers with the model's drafts (paper, Table 8 and appendix B.3), from its conversations.

CONVERSATION_FILE = "mtrag-human/conversations/conversations.json"
"""Path in a checkout of IBM/mt-rag-benchmark."""


class _Message(Fields):
    speaker: str
    text: str
    original_text: str | None = None


class _Conversation(Fields):
    domain: str
    messages: list[_Message]


def repaired_answers(benchmark: Benchmark) -> Sequence[RepairedAnswer]:
    """Return the agent's answers in all conversations; () without the file of conversations."""
    path = benchmark.root / CONVERSATION_FILE
    if not path.is_file():
        return ()
    problems = Problems(path, "MTRAG conversations", _NEXT_STEP)
    conversations = typed_file(problems, TypeAdapter(list[_Conversation]))
    return tuple(
        RepairedAnswer(
            domain_of(conversation.domain) or conversation.domain, index, message.text, message.original_text
        )
        for index, conversation in enumerate(conversations)
        for message in conversation.messages
        if message.speaker == "agent"
    )


MAX_REFERENCES_FOR_RAG = 2
"""`reference_rag` includes tasks with at most this many reference passages (paper, section 6.1)."""

_TASK_FILES = {
    Setting.REFERENCE: "mtrag-human/generation_tasks/reference.jsonl",
    Setting.REFERENCE_RAG: "mtrag-human/generation_tasks/reference+RAG.jsonl",
    Setting.FULL_RAG: "mtrag-human/generation_tasks/RAG.jsonl",
}


def load_run(root: Path) -> Run:
    """Return the published rankings by score. In 37 of the 842 lists the passages are not in score order."""
    return read_run(root / _TASK_FILES[Setting.FULL_RAG])


RETRIEVAL = RetrievalSide(DOMAINS, corpus_file, load_qrels, load_rewrites, load_run=load_run, document_of=document_of)
"""Corpora, relevance judgements, and the passages retrieved for the paper."""

OFFICIAL_COUNTS = Counts(
    tasks=842,
    by_domain={"clapnq": 224, "fiqa": 199, "govt": 214, "cloud": 205},
    by_answerability={"ANSWERABLE": 709, "PARTIAL": 68, "UNANSWERABLE": 55, "CONVERSATIONAL": 10},
)
"""Paper, section 4.4 and Figure 2."""


def load(root: Path) -> Benchmark:
    """Return the benchmark with files under `root` (a checkout, a downloaded copy, or the sample)."""
    is_sample, revision, counts = edition_of(root, MTRAG_SOURCE.commit, OFFICIAL_COUNTS)
    tasks = read_tasks(root / _TASK_FILES[Setting.REFERENCE], "mtrag", counts)
    read_contexts = functools.cache(functools.partial(_read_contexts, root, tasks))
    return Benchmark("mtrag", root, is_sample, revision, "Answerability", tasks, read_contexts, belongs=_belongs)


def _read_contexts(root: Path, tasks: tuple[Task, ...], setting: Setting) -> Contexts:
    """Return the published passages of a setting, for exactly the tasks of that setting."""
    if setting is Setting.REFERENCE:
        return Contexts("official", setting, {task.task_id: task.references for task in tasks})
    problems = official_problems(root / _TASK_FILES[setting], "mtrag")
    rows = rows_by_id(problems, ContextRow, lambda row: row.task_id, "task", "task_id")
    expected = {task.task_id for task in tasks if _belongs(task, setting)}
    for task_id in sorted(expected - rows.keys()):
        problems.add(0, "a line for this task", "no line", task_id)
    for task_id in sorted(rows.keys() - expected):
        problems.add(0, "only tasks of this setting", "a line for this task", task_id)
    problems.raise_if_any()
    return Contexts("official", setting, {task_id: row.passages() for task_id, row in rows.items()})


def _belongs(task: Task, setting: Setting) -> bool:
    return setting is not Setting.REFERENCE_RAG or len(task.references) <= MAX_REFERENCES_FOR_RAG


DEFINITION = BenchmarkDefinition(MTRAG_SOURCE, load, RETRIEVAL, answers=repaired_answers)


# Questions with relevance judgements as tasks for rewriting models, which write a query instead of an answer.


def rewriting_tasks(benchmark: Benchmark, contract: Contract) -> Benchmark:
    """Return the benchmark with only the tasks that have relevance judgements, without passages, for query rewriting.

    The target of each task is the reply that contains the benchmark's own rewrite. `extra["rewrite"]` is that rewrite
    as text, or the question if the files contain no rewrite, as in the query form `rewrite`. `extra["standalone"]` is
    whether the question is standalone; None without a label, as for most tasks of MTRAG.
    """
    side = retrieval_side(benchmark.name)
    if side.load_rewrites is None:
        raise ConfigurationError(f"{benchmark.name} publishes no rewritten queries to compare with")
    labels = (read_standalone_labels(benchmark.root) if benchmark.name == MTRAG_SOURCE.name else NO_LABELS).labels
    domains = side.domains_of(benchmark.tasks)
    judged_ids = {qrel.query_id for domain in domains for qrel in side.load_qrels(benchmark.root, domain)}
    official_rewrites: dict[str, str] = {}
    for domain in domains:
        official_rewrites |= side.load_rewrites(benchmark.root, domain)
    tasks = tuple(
        replace(
            task,
            target=contract.write(task.question, rewrite),
            extra={"rewrite": rewrite, "standalone": labels.get(task.task_id)},
        )
        for task in benchmark.tasks
        if task.task_id in judged_ids
        for rewrite in [official_rewrites.get(task.task_id, task.question)]
    )
    no_passages: dict[str, tuple[Passage, ...]] = {task.task_id: () for task in tasks}
    return replace(benchmark, tasks=tasks, read_contexts=lambda setting: Contexts("official", setting, no_passages))


# Published labels of standalone questions. No label is inferred. MTRAG's task file labels seven tasks. The paper's own
# split of the later turns (555 and 120) is not published. A rewriting model with the paper's contract classifies every
# question that it rewrites.

_STANDALONE = {"Standalone": True, "Non-standalone": False}


@dataclass(frozen=True, slots=True)
class StandaloneLabels:
    """Labels of standalone questions and their source."""

    source: str
    labels: Mapping[str, bool]
    """Query id -> whether it is standalone; queries without a label are missing."""


NO_LABELS = StandaloneLabels("no labels", {})


def read_standalone_labels(root: Path) -> StandaloneLabels:
    """Return the labels in MTRAG's task file (`Standalone Type`: seven tasks in the official file)."""
    problems = Problems(root / _TASK_FILES[Setting.REFERENCE], "MTRAG file", _NEXT_STEP)
    labels: dict[str, bool] = {}
    for line, row in json_lines(problems):
        for label in labels_of(row.get("Standalone Type")):
            task_id = row.get("task_id")
            if label in _STANDALONE and isinstance(task_id, str):
                labels[normalise_task_id(task_id)] = _STANDALONE[label]
            else:
                problems.add(line, f"a task id and a `Standalone Type` of {sorted(_STANDALONE)}", (task_id, label))
    problems.raise_if_any()
    return StandaloneLabels("the benchmark's task file", labels)
