"""TREC iKAT 2023 to 2025: conversations with a user of whom some facts are known (Aliannejadi et al. 2024).

A task is a user turn; the earlier turns come with the track's own responses. `extra["facts"]` is what is known of the
user, numbered from 1 (the track's PTKB), and `extra["relevant_facts"]` the numbers of those that the turn needs, as the
topics say; where NIST judged them for 2023, as NIST says. The track has no label of answerability: every task is
`ANSWERABLE`.

The collection, ClueWeb22-B, needs a licence. The texts of the passages that the responses rest on are published for
2023 alone, so that year has the setting `reference`; the others take a stored run.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragtasks.benchmarks._definition import Benchmark, BenchmarkDefinition, has_references, official_file, read_edition
from ragtasks.benchmarks.sources import Source, SourceFile
from ragtasks.errors import ConfigurationError
from ragtasks.files import Problems, json_array, json_lines
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
    """Texts of the passages that responses rest on; None where none are published."""
    judged: SourceFile | None = None
    """NIST's judgements of the facts; None where none are published."""
    turns_key: str = "turns"
    utterance_key: str = "utterance"
    facts_key: str = "ptkb_provenance"
    passages_key: str = "response_provenance"

    def load(self, root: Path) -> Benchmark:
        """Return the benchmark whose files lie under `root` (a checkout, a fetched copy, or the sample)."""
        read = functools.partial(_counts, self.name)
        is_sample, revision, counts = read_edition(root, _COMMIT, (self.n_topics, self.n_turns), read)
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
            expected="a run of your own: the track publishes no such passages",
            found="no run",
            next_step="name a stored run over your licensed copy of ClueWeb22-B (`--run NAME`), or show none "
            "(`--run closed_book`)",
        )

    def _read_tasks(self, root: Path, counts: tuple[int, int]) -> tuple[Task, ...]:
        texts = _read_texts(root / self.texts.path, self.name) if self.texts else {}
        judged = _read_judgements(root / self.judged.path, self.name) if self.judged else {}
        reader = _Reader(self, texts, judged, _problems(root / self.topics.path, self.name, "topics"))
        return reader.tasks(counts)

    def load_facts(self, root: Path) -> Benchmark:
        """Return the same turns as a benchmark of choosing facts: only the conversation and the facts are read."""
        found = self.load(root)
        own = {task.task_id: () for task in found.tasks}
        return replace(
            found,
            name=f"{self.name}_facts",
            tasks=tuple(replace(task, target=_listed(task.extra["relevant_facts"])) for task in found.tasks),
            suite="ikat_facts",
            read_contexts=lambda setting: Contexts("official", setting, dict(own)),
            belongs=lambda _task, setting: setting is Setting.REFERENCE,
        )

    def definition(self, *, facts: bool = False) -> BenchmarkDefinition:
        """Return what the registry lists: the answers to the turns, or the choice of facts for them."""
        files = tuple(file for file in (self.topics, self.texts, self.judged) if file is not None)
        name = f"{self.name}_facts" if facts else self.name
        source = Source(name, "iKAT", "2023", "https://github.com/irlabamsterdam/iKAT", _COMMIT, _BASE_URL, files)
        return BenchmarkDefinition(source, self.load_facts if facts else self.load, sample=_SAMPLE)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the topics of a year; what is wrong with one is noted."""

    year: Year
    texts: Mapping[str, str]
    judged: Mapping[str, Mapping[int, int]]
    problems: Problems

    def tasks(self, counts: tuple[int, int]) -> tuple[Task, ...]:
        """Return the tasks of all topics, which are (topics, turns)."""
        topics = json_array(self.problems)
        tasks = tuple(task for topic in topics for task in self._tasks_of(topic) if task is not None)
        self.problems.raise_if_any()
        if (len(topics), len(tasks)) != counts:
            self.problems.add(0, f"{counts[0]} topics with {counts[1]} turns", f"{len(topics)} with {len(tasks)}")
        self.problems.raise_if_any()
        return tasks

    def _tasks_of(self, topic: Any) -> Iterator[Task | None]:
        year, fields = self.year, topic if isinstance(topic, dict) else {}
        number, turns, facts = str(fields.get("number")), fields.get(year.turns_key), _facts(fields.get("ptkb"))
        if "number" not in fields or not isinstance(turns, list) or not facts:
            self.problems.add(0, f"a topic with `number`, `ptkb` and `{year.turns_key}`", topic)
            return
        messages: list[Message] = []
        for turn, row in enumerate(turns, start=1):
            texts = [row.get(key) for key in (year.utterance_key, "response")] if isinstance(row, dict) else [None]
            if not all(isinstance(text, str) and text.strip() for text in texts) or row.get("turn_id") != turn:
                expected = f"turn {turn} with `{year.utterance_key}` and `response`"
                self.problems.add(0, expected, row, f"topic {number}")
                return
            messages.append(Message(Role.USER, str(texts[0])))
            yield self._task(number, tuple(messages), row, facts)
            messages.append(Message(Role.ASSISTANT, str(texts[1])))

    def _task(
        self, number: str, messages: tuple[Message, ...], row: Mapping[str, Any], facts: Sequence[str]
    ) -> Task | None:
        year, turn = self.year, row["turn_id"]
        ids = row.get(year.passages_key)
        relevant = _numbers(row.get(year.facts_key), facts)
        missing = [name for name in ids if name not in self.texts] if isinstance(ids, list) and year.texts else []
        if not isinstance(ids, list) or relevant is None or missing:
            expected = f"`{year.facts_key}` of facts in `ptkb`, and `{year.passages_key}` of passages with a text"
            self.problems.add(0, expected, missing or row.get(year.facts_key), f"topic {number}, turn {turn}")
            return None
        graded = self.judged.get(f"{number}_{turn}")
        if graded is not None:
            relevant = sorted(fact for fact, grade in graded.items() if grade > 0)
        return Task(
            task_id=task_id(number, turn),
            conversation_id=number,
            turn=turn,
            domain=DOMAIN,
            messages=messages,
            target=row["response"],
            answerability=Answerability.ANSWERABLE,
            question_types=("personal" if relevant else "general",),
            multi_turn="N/A" if turn == 1 else "Follow-up",
            references=tuple(Passage(name, self.texts[name]) for name in dict.fromkeys(ids) if name in self.texts),
            extra={
                "official_id": f"{number}_{turn}",
                "facts": list(facts),
                "relevant_facts": relevant,
                "resolved": row.get("resolved_utterance"),
                "passage_ids": ids,
            },
        )


def _listed(numbers: Sequence[int]) -> str:
    """Return numbers of facts as the prompt asks for them."""
    return ", ".join(map(str, numbers)) or "none"


def _facts(raw: Any) -> list[str]:
    """Return the facts in the order of their numbers, from 1; [] where they are not as the format says."""
    texts = raw if isinstance(raw, list) else []
    if isinstance(raw, dict) and list(raw) == [str(number) for number in range(1, len(raw) + 1)]:
        texts = list(raw.values())
    return texts if all(isinstance(text, str) and text.strip() for text in texts) else []


def _numbers(raw: Any, facts: Sequence[str]) -> list[int] | None:
    """Return the numbers of some facts, named by number or by text; None where one is not among them."""
    if not isinstance(raw, list):
        return None
    by_text = {" ".join(text.split()): number for number, text in enumerate(facts, start=1)}
    numbers = [by_text.get(" ".join(item.split())) if isinstance(item, str) else item for item in raw]
    found = [item for item in numbers if isinstance(item, int) and 1 <= item <= len(facts)]
    return found if len(found) == len(raw) else None


def _problems(path: Path, name: str, what: str) -> Problems:
    return Problems(official_file(path, "iKAT", name), f"iKAT {what}", _NEXT_STEP)


def _read_texts(path: Path, name: str) -> dict[str, str]:
    """Return passage id -> text."""
    problems = _problems(path, name, "passages")
    texts: dict[str, str] = {}
    for line, row in json_lines(problems):
        parts = [row.get(key) for key in ("doc_id", "passage_id", "passage_text")]
        if all(isinstance(part, str) and part.strip() for part in parts):
            texts[f"{parts[0]}:{parts[1]}"] = str(parts[2]).strip()
        else:
            problems.add(line, "`doc_id`, `passage_id` and `passage_text`", row)
    problems.raise_if_any()
    return texts


def _read_judgements(path: Path, name: str) -> dict[str, dict[int, int]]:
    """Return turn -> number of a fact -> its grade, as in qrels: turn, 0, fact, grade."""
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


def _counts(name: str, raw: Any) -> tuple[int, int]:
    """Return topics and turns of a year, as a sample says."""
    topics, turns = raw[name]
    return int(topics), int(turns)


# A reply that chooses facts, as the prompt `generation/ikat_facts` asks for it.

_LIST = re.compile(r"[\[(]?\s*(\d+(?:[\s,;]+(?:and\s+)?\d+)*)\s*[\])]?\.?")


def chosen_facts(reply: str, n_facts: int) -> list[int] | None:
    """Return the numbers that a reply names, each once, best first; [] for `none`, None where it cannot be read.

    The last line counts: models like to think aloud before.
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
    turns_key="responses",
    utterance_key="user_utterance",
    facts_key="relevant_ptkbs",
    passages_key="citations",
)
YEAR_2023, YEAR_2024, YEAR_2025 = (year.definition() for year in (IKAT23, IKAT24, IKAT25))
FACTS_2023, FACTS_2024, FACTS_2025 = (year.definition(facts=True) for year in (IKAT23, IKAT24, IKAT25))
