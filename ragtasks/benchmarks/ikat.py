"""TREC iKAT 2023 to 2025: conversations with users about whom some facts are given (Aliannejadi et al. 2024).

A task is a user turn. The history contains the track's own responses. `extra["facts"]` contains the facts about the
user, numbered from 1 (the track's PTKB). `extra["relevant_facts"]` contains the numbers of the facts that the turn
needs. They come from NIST's judgements of 2023 or, without a judgement of the turn, from the topics. The track has no
answerability labels: every task is `ANSWERABLE`.

The collection, ClueWeb22-B, requires a license. Texts of the passages that responses are based on are published only
for 2023, so only that year has the setting `reference`. The other years require a stored run.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, TypeAdapter, model_validator

from ragtasks.benchmarks._definition import Benchmark, BenchmarkDefinition, has_references, official_file, read_edition
from ragtasks.benchmarks._fields import Fields, Label, Text, Whole, typed_items, typed_lines
from ragtasks.benchmarks.sources import Source, SourceFile
from ragtasks.errors import ConfigurationError
from ragtasks.files import Problems
from ragtasks.records import Answerability, Contexts, Message, Passage, Role, Setting, Task, task_id

DOMAIN = "clueweb22"

_SAMPLE = Path(__file__).resolve().parent / "sample" / "ikat"
_COMMIT = "05399308a3cf4eb56b35bed8bee0771e4f8f1404"
_NEXT_STEP = "fetch the file again, or correct it"
_BASE_URL = f"https://raw.githubusercontent.com/irlabamsterdam/iKAT/{_COMMIT}/"


@dataclass(frozen=True, slots=True)
class Year:
    """The test topics of one year."""

    name: str
    topics: SourceFile
    n_topics: int
    """Counted in the official file."""
    n_turns: int
    """Counted in the official file."""
    texts: SourceFile | None = None
    """Texts of the passages that responses are based on; None if unpublished."""
    judged: SourceFile | None = None
    """NIST's judgements of the facts; None if unpublished."""

    def load(self, root: Path) -> Benchmark:
        """Return the benchmark with files under `root` (a checkout, a downloaded copy, or the sample)."""
        read = TypeAdapter(tuple[int, int]).validate_python
        is_sample, revision, counts = read_edition(
            root, _COMMIT, (self.n_topics, self.n_turns), lambda raw: read(raw[self.name])
        )
        tasks = self._read_tasks(root, counts)
        return Benchmark(
            self.name,
            root,
            is_sample,
            revision,
            "answerability",
            tasks,
            functools.partial(self._contexts, tasks),
            belongs=has_references,
        )

    def _contexts(self, tasks: tuple[Task, ...], setting: Setting) -> Contexts:
        if setting is Setting.REFERENCE and self.texts is not None:
            return Contexts("official", setting, {task.task_id: task.references for task in tasks if task.references})
        raise ConfigurationError(
            f"passages of {self.name}",
            where=f"setting {setting.value}",
            expected="your own run: the track publishes no such passages",
            found="no run",
            next_step="name a stored run over your licensed copy of ClueWeb22-B (`--run NAME`), or use no passages "
            "(`--run closed_book`)",
        )

    def _read_tasks(self, root: Path, counts: tuple[int, int]) -> tuple[Task, ...]:
        texts = _read_texts(root / self.texts.path, self.name) if self.texts else None
        judged = _read_judgements(root / self.judged.path, self.name) if self.judged else {}
        problems = _problems(root / self.topics.path, self.name, "topics")
        topics = [topic for _, topic in typed_items(problems, _Topic)]
        problems.raise_if_any()
        tasks = tuple(task for topic in topics for task in _tasks_of(topic, texts, judged, problems))
        problems.raise_if_any()
        if (len(topics), len(tasks)) != counts:
            problems.add(0, f"{counts[0]} topics with {counts[1]} turns", f"{len(topics)} with {len(tasks)}")
        problems.raise_if_any()
        return tasks

    def load_facts(self, root: Path) -> Benchmark:
        """Return the same turns as a benchmark of fact selection, which uses only the conversation and the facts."""
        benchmark = self.load(root)
        no_passages = {task.task_id: () for task in benchmark.tasks}
        return replace(
            benchmark,
            name=f"{self.name}_facts",
            tasks=tuple(
                replace(task, target=", ".join(map(str, task.extra["relevant_facts"])) or "none")
                for task in benchmark.tasks
            ),
            suite="ikat_facts",
            read_contexts=lambda setting: Contexts("official", setting, dict(no_passages)),
            belongs=lambda _task, setting: setting is Setting.REFERENCE,
        )

    def definition(self, *, facts: bool = False) -> BenchmarkDefinition:
        """Return the registry entry for answers to the turns or for the selection of facts."""
        files = tuple(file for file in (self.topics, self.texts, self.judged) if file is not None)
        name = f"{self.name}_facts" if facts else self.name
        source = Source(name, "iKAT", "2023", "https://github.com/irlabamsterdam/iKAT", _COMMIT, _BASE_URL, files)
        return BenchmarkDefinition(source, self.load_facts if facts else self.load, sample=_SAMPLE)


def _fact_list(facts: object) -> object:
    """Return an object of facts numbered from 1 as a list."""
    if not isinstance(facts, dict):
        return facts
    if list(facts) != [str(number) for number in range(1, len(facts) + 1)]:
        raise ValueError("facts with the numbers from 1 as keys")
    return list(facts.values())


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _UserTurn(Fields):
    """A turn. The topics of 2025 use other key names than earlier years."""

    turn_id: Whole
    utterance: Text = Field(validation_alias=AliasChoices("utterance", "user_utterance"))
    response: Text
    facts: list[Whole | str] = Field(validation_alias=AliasChoices("ptkb_provenance", "relevant_ptkbs"))
    """The facts that the turn needs, by number or by text."""
    passage_ids: list[str] = Field(validation_alias=AliasChoices("response_provenance", "citations"))
    resolved: Any = Field(None, alias="resolved_utterance")


class _Topic(Fields):
    number: Label
    facts: Annotated[list[Text], BeforeValidator(_fact_list)] = Field(alias="ptkb", min_length=1)
    turns: list[_UserTurn] = Field(validation_alias=AliasChoices("turns", "responses"))

    @model_validator(mode="after")
    def _numbered(self) -> _Topic:
        if [turn.turn_id for turn in self.turns] != list(range(1, len(self.turns) + 1)):
            raise ValueError("turns with the numbers from 1 as `turn_id`")
        for turn in self.turns:
            self.numbers_of(turn)
        return self

    def numbers_of(self, turn: _UserTurn) -> list[int]:
        """Return the numbers of the facts that a turn needs, from 1."""
        by_text = {_one_line(text): number for number, text in enumerate(self.facts, start=1)}
        numbers = [by_text.get(_one_line(fact), 0) if isinstance(fact, str) else fact for fact in turn.facts]
        if not all(1 <= number <= len(self.facts) for number in numbers):
            raise ValueError(f"facts of `ptkb` in turn {turn.turn_id}, not {turn.facts}")
        return numbers


def _tasks_of(
    topic: _Topic, texts: Mapping[str, str] | None, judged: Mapping[str, Mapping[int, int]], problems: Problems
) -> Iterator[Task]:
    """Yield the tasks of a topic. If the year publishes texts, passages without one are added to `problems`."""
    messages: list[Message] = []
    for turn in topic.turns:
        official_id = f"{topic.number}_{turn.turn_id}"
        messages.append(Message(Role.USER, turn.utterance))
        if texts is not None and (missing := [name for name in turn.passage_ids if name not in texts]):
            problems.add(0, "passages with a text", missing, official_id)
        graded = judged.get(official_id)
        relevant = sorted(n for n, grade in graded.items() if grade > 0) if graded else topic.numbers_of(turn)
        yield Task(
            task_id=task_id(topic.number, turn.turn_id),
            conversation_id=topic.number,
            turn=turn.turn_id,
            domain=DOMAIN,
            messages=tuple(messages),
            target=turn.response,
            answerability=Answerability.ANSWERABLE,
            question_types=("personal" if relevant else "general",),
            multi_turn="N/A" if turn.turn_id == 1 else "Follow-up",
            references=tuple(
                Passage(name, texts[name]) for name in dict.fromkeys(turn.passage_ids) if texts and name in texts
            ),
            extra={
                "official_id": official_id,
                "facts": topic.facts,
                "relevant_facts": relevant,
                "resolved": turn.resolved,
                "passage_ids": turn.passage_ids,
            },
        )
        messages.append(Message(Role.ASSISTANT, turn.response))


def _problems(path: Path, name: str, content: str) -> Problems:
    return Problems(official_file(path, "iKAT", name), f"iKAT {content}", _NEXT_STEP)


class _PassageText(Fields):
    doc_id: Text
    passage_id: Text
    text: Text = Field(alias="passage_text")


def _read_texts(path: Path, name: str) -> dict[str, str]:
    problems = _problems(path, name, "passages")
    texts = {f"{row.doc_id}:{row.passage_id}": row.text.strip() for _, row in typed_lines(problems, _PassageText)}
    problems.raise_if_any()
    return texts


def _read_judgements(path: Path, name: str) -> dict[str, dict[int, int]]:
    """Return turn -> number of a fact -> its grade. The lines are those of qrels: turn, 0, fact, grade."""
    problems = _problems(path, name, "judgements of facts")
    judged: dict[str, dict[int, int]] = {}
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        parts = text.split()
        if len(parts) == 4 and parts[2].isdecimal() and parts[3].lstrip("-").isdecimal():
            judged.setdefault(parts[0], {})[int(parts[2])] = int(parts[3])
        elif parts:
            problems.add(line, "a turn, 0, the number of a fact, and its grade", text)
    problems.raise_if_any()
    return judged


# Replies of fact selection, in the format that the prompt `generation/ikat_facts` requests.

_LIST = re.compile(r"[\[(]?\s*(\d+(?:[\s,;]+(?:and\s+)?\d+)*)\s*[\])]?\.?")


def chosen_facts(reply: str, n_facts: int) -> list[int] | None:
    """Return the distinct numbers in a reply, best first; [] for `none`, None for an invalid reply.

    Only the last line counts, because models often reason before it.
    """
    lines = [line.strip(" *`") for line in reply.strip().splitlines() if line.strip(" *`")]
    text = lines[-1].rpartition(":")[2].strip(" *`") if lines else ""
    if text.lower().strip(".") == "none":
        return []
    match = _LIST.fullmatch(text)
    numbers = list(dict.fromkeys(map(int, re.findall(r"\d+", match[1])))) if match else []
    return numbers if numbers and all(1 <= number <= n_facts for number in numbers) else None


def _file(path: str, sha256: str, n_bytes: int) -> SourceFile:
    return SourceFile(path, sha256, n_bytes, "tasks")


IKAT23 = Year(
    "ikat23",
    _file(
        "2023/data/2023_test_topics.json", "ff0c1fe67af03cab4b563f628736ca924b9b450212e0dd66daa2d9a7d1e1a883", 362388
    ),
    n_topics=25,
    n_turns=332,
    texts=_file(
        "2023/data/2023_test_topics_psg_text.jsonl",
        "78117e71ed31806337dc02218b29bb8c709cfc818f2f153fff15eaa30abb4717",
        993224,
    ),
    judged=_file(
        "2023/evaluation/ptkb_rel_nist", "a77b50c238df21e44e303f00bc22bfecf5823704c792a6d5387c970d04a5cc00", 13762
    ),
)
IKAT24 = Year(
    "ikat24",
    _file(
        "2024/data/2024_test_topics.json", "c8d5bd52dc59ac49b99a7bdb593be00d889ed27547b1b01ecb422fb7b43da6e3", 277603
    ),
    n_topics=17,
    n_turns=218,
)
IKAT25 = Year(
    "ikat25",
    _file(
        "2025/data/2025_test_topics.json", "fe148f732ebc8ea5c1569070eb3b424510da333cb43692375ba5e0ad078fa4ee", 234733
    ),
    n_topics=17,
    n_turns=188,
)
YEAR_2023, YEAR_2024, YEAR_2025 = (year.definition() for year in (IKAT23, IKAT24, IKAT25))
FACTS_2023, FACTS_2024, FACTS_2025 = (year.definition(facts=True) for year in (IKAT23, IKAT24, IKAT25))
