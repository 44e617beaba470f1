"""INSCIT: conversations in which the agent answers, says what is near, or asks back (Wu et al. 2023).

A task is an agent's turn. One or two people labelled it with a response type, a response and the passages that it
rests on; the type gives the answerability. The first label is the task's own, a second one stands in
`extra["other_labels"]`, and each score takes the better of the two, as the official script does. The reference
passages are those of all labels.

The corpus is Wikipedia of 2022-04-20. Where the official download is unpacked below the data folder, passages can be
retrieved from it.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ragtasks.benchmarks._definition import (
    Benchmark,
    BenchmarkDefinition,
    RetrievalSide,
    derived_file,
    official_file,
    read_edition,
    reference_contexts,
    reference_qrels,
)
from ragtasks.benchmarks.sources import Source, SourceFile
from ragtasks.errors import BenchmarkFileError
from ragtasks.files import Problems, parse_json, read_whole
from ragtasks.records import Answerability, Message, Passage, Role, Task, task_id

ANSWERABILITY: Mapping[str, Answerability] = {
    "directAnswer": Answerability.ANSWERABLE,
    "noAnswerButRelevantInfo": Answerability.PARTIAL,
    "clarification": Answerability.UNDERSPECIFIED,
    "noAnswerNoRelevantInfo": Answerability.UNANSWERABLE,
}
"""Response type of a label -> what it says of the question."""

DOMAIN = "wikipedia"

_SAMPLE = Path(__file__).resolve().parent / "sample" / "inscit"
_CORPUS_FOLDER = "data/text_0420_processed"
_COMMIT = "2319fb85932b9528a13417223ffc6fc629ae8087"
_OFFICIAL_ID = re.compile(r"\w+_dial\d+")
_NEXT_STEP = "fetch the file again, or correct it"


@dataclass(frozen=True, slots=True)
class Counts:
    """What a file must hold."""

    conversations: int
    tasks: int
    labels: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Split:
    """One file of conversations."""

    name: str
    file: SourceFile
    counts: Counts | None
    """Counted in the official file; None where it was not at hand."""

    def load(self, root: Path) -> Benchmark:
        """Return the benchmark whose files lie under `root` (a checkout, a fetched copy, or the sample)."""
        read = functools.partial(_counts, self.file.path)
        is_sample, revision, counts = read_edition(root, _COMMIT, self.counts, read)
        tasks = _read_tasks(root / self.file.path, self.name, counts, is_official=not is_sample)
        return Benchmark(
            self.name,
            root,
            is_sample,
            revision,
            "answerability",
            tasks,
            functools.partial(reference_contexts, self.name, f"{self.name}_reference", tasks),
            suite="inscit",
        )

    def definition(self) -> BenchmarkDefinition:
        """Return what the registry lists."""
        side = RetrievalSide(
            (DOMAIN,), corpus_file, functools.partial(reference_qrels, self.load), document_of=document_of
        )
        return BenchmarkDefinition(replace(_SOURCE, name=self.name, files=(self.file,)), self.load, side, _SAMPLE)


_SOURCE = Source(
    name="inscit",
    folder="INSCIT",
    marker="data",
    repository="https://github.com/ellenmellon/INSCIT",
    commit=_COMMIT,
    base_url=f"https://raw.githubusercontent.com/ellenmellon/INSCIT/{_COMMIT}/",
    files=(),
)

_TEST_FILE = SourceFile("data/test.json", None, None, "tasks", "d0c71dfec171e393ebed5352b40ddd231f246ce8")
TEST = Split("inscit", _TEST_FILE, None)
"""The split that the paper reports on; its bytes were not at hand, so it has no counts."""
DEV = Split(
    "inscit_dev",
    SourceFile("data/dev.json", "00d8760bbf42637a8628d52af88f32441b3d4cea32e0fe26d5c9dbe7e1aa4243", 4176926, "tasks"),
    Counts(
        conversations=86,
        tasks=502,
        labels={
            "directAnswer": 578,
            "clarification": 116,
            "noAnswerButRelevantInfo": 115,
            "noAnswerNoRelevantInfo": 26,
        },
    ),
)
"""The split that the official predictions are published for."""


def _counts(file: str, raw: Any) -> Counts:
    """Return what a sample says of one of its files."""
    return TypeAdapter(Counts).validate_python(raw[file])


def _read_tasks(path: Path, name: str, counts: Counts | None, *, is_official: bool) -> tuple[Task, ...]:
    """Return the tasks of a file, in its order."""
    problems = Problems(official_file(path, "INSCIT", name), "INSCIT file", _NEXT_STEP)
    tasks = tuple(task for place, turn in _turns(problems) if (task := _task(*place, turn, problems)) is not None)
    for other in dict.fromkeys(task.conversation_id for task in tasks):
        if is_official and not _OFFICIAL_ID.fullmatch(other):
            problems.add(0, "official ids of conversations, such as food_level1_dial24", other)
    problems.raise_if_any()
    if counts is not None:
        _check_counts(tasks, counts, problems)
    return tasks


def _turns(problems: Problems) -> Iterator[tuple[tuple[str, int], Mapping[str, Any]]]:
    """Yield ((conversation id, turn from 1), turn with the conversation's seed article), after noting other shapes."""
    try:
        content = parse_json(read_whole(problems))
    except ValueError as error:
        problems.add(0, "one JSON object", str(error))
        problems.raise_if_any()
    if not isinstance(content, dict) or not content:
        problems.add(0, "an object: conversation id -> `seedArticle` and `turns`", content)
        return
    for name, conversation in content.items():
        turns = conversation.get("turns") if isinstance(conversation, dict) else None
        if not isinstance(turns, list) or not turns:
            problems.add(0, "`turns` with at least one", turns, name)
            continue
        for number, turn in enumerate(turns, start=1):
            if isinstance(turn, dict):
                yield (name, number), {**turn, "seedArticle": conversation.get("seedArticle")}
            else:
                problems.add(0, "an object", turn, f"{name}, turn {number}")


def _task(name: str, turn: int, row: Mapping[str, Any], problems: Problems) -> Task | None:
    """Return the task of one turn, or None after noting what is wrong with it."""
    before, place = len(problems), f"{name}, turn {turn}"
    context = row.get("context")
    texts = context if isinstance(context, list) else []
    if len(texts) % 2 == 0 or not all(isinstance(text, str) and text.strip() for text in texts):
        problems.add(0, "`context` of texts, user and agent in turn, that ends with the user", context, place)
    raw = row.get("labels")
    labels = [_label(item, place, problems) for item in raw] if isinstance(raw, list) else []
    if not labels:
        problems.add(0, "`labels` with at least one", raw, place)
    if len(problems) > before:
        return None
    first, *others = labels
    passages = {passage.passage_id: passage for label in labels for passage in label.evidence}
    return Task(
        task_id=task_id(name, turn),
        conversation_id=name,
        turn=turn,
        domain=DOMAIN,
        messages=tuple(Message((Role.USER, Role.ASSISTANT)[n % 2], text) for n, text in enumerate(texts)),
        target=first.response,
        answerability=ANSWERABILITY[first.response_type],
        question_types=tuple(dict.fromkeys(label.response_type for label in labels)),
        multi_turn="N/A" if turn == 1 else "Follow-up",
        references=tuple(passages.values()),
        extra={
            "seed_article": row["seedArticle"],
            "response_types": [label.response_type for label in labels],
            "evidence": [[passage.passage_id for passage in label.evidence] for label in labels],
            "other_labels": [
                {"target": label.response, "answerability": ANSWERABILITY[label.response_type].value}
                for label in others
            ],
        },
    )


@dataclass(frozen=True, slots=True)
class _Label:
    response_type: str
    response: str
    evidence: tuple[Passage, ...]


def _label(row: Any, place: str, problems: Problems) -> _Label:
    """Return one person's label; what is wrong with it is noted."""
    label = row if isinstance(row, dict) else {}
    kind, response, evidence = label.get("responseType"), label.get("response"), label.get("evidence")
    if kind not in ANSWERABILITY:
        problems.add(0, f"`responseType` as one of {', '.join(ANSWERABILITY)}", kind, place)
    if not isinstance(response, str) or not response.strip():
        problems.add(0, "`response` with a text", response, place)
    if not isinstance(evidence, list):
        problems.add(0, "`evidence` as a list of passages", evidence, place)
    passages = [_passage(item, place, problems) for item in evidence] if isinstance(evidence, list) else []
    return _Label(str(kind), str(response), tuple(item for item in passages if item is not None))


def _passage(row: Any, place: str, problems: Problems) -> Passage | None:
    fields = row if isinstance(row, dict) else {}
    name, text, titles = fields.get("passage_id"), fields.get("passage_text"), fields.get("passage_titles")
    is_titled = isinstance(titles, list) and all(isinstance(title, str) for title in titles)
    if not isinstance(name, str) or not name or not isinstance(text, str) or not is_titled:
        problems.add(0, "`passage_id`, `passage_text` and `passage_titles`", row, place)
        return None
    return Passage(passage_id(name), text, _title(titles or ()))


def passage_id(official: str) -> str:
    """Return the id of a passage, `Article:position`, with `_` for blanks: runs and qrels are cut at those."""
    return "_".join(official.split())


def _title(titles: Sequence[str]) -> str:
    """Return the article's title and those of its sections above a passage as one."""
    return " - ".join(titles)


def _check_counts(tasks: Sequence[Task], counts: Counts, problems: Problems) -> None:
    labels = Counter(name for task in tasks for name in task.extra["response_types"])
    conversations = len({task.conversation_id for task in tasks})
    found = Counts(conversations, len(tasks), dict(labels))
    if found != replace(counts, labels=dict(counts.labels)):
        problems.add(0, f"{counts}", found)
    problems.raise_if_any()


# The corpus: a folder of JSON files, each a list of articles with `passages` of `id`, `text` and `titles`.


def document_of(passage_id: str) -> str:
    """Return the title of the article that a passage was cut from."""
    return passage_id.rpartition(":")[0]


def corpus_file(root: Path, domain: str) -> Path:
    """Return the corpus as rows, made now where it is not there."""
    folder = root / _CORPUS_FOLDER
    files = sorted(path for path in folder.glob("*") if path.is_file()) if folder.is_dir() else []
    if not files:
        raise BenchmarkFileError(
            "corpus of INSCIT",
            where=str(folder),
            expected="the folder of the official download `wiki_corpus`",
            found="no files",
            next_step="download it as the README of https://github.com/ellenmellon/INSCIT says, and unpack it there",
        )
    return derived_file(root, f"{domain}.jsonl", lambda: _corpus_rows(files))


def _corpus_rows(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        problems = Problems(path, "INSCIT corpus", _NEXT_STEP)
        try:
            articles = parse_json(read_whole(problems))
            yield from (
                {"_id": passage_id(passage["id"]), "title": _title(passage["titles"]), "text": passage["text"]}
                for article in articles
                for passage in article["passages"]
            )
        except (LookupError, TypeError, ValueError) as error:
            problems.add(0, "a list of articles with `passages` of `id`, `text` and `titles`", str(error))
            problems.raise_if_any()


INSCIT = TEST.definition()
INSCIT_DEV = DEV.definition()
