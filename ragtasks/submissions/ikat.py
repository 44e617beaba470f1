"""TREC iKAT submissions: run files built from logged answers, and checked like the track's validators.

A run of 2023 or 2024 is a JSON object; a run of 2025 is JSON lines. Problems are errors at which the validator of that
year stops. Warnings are its warnings, and a few errors that all validators accept. Only the track can check whether
passages exist.

Source: `2023/scripts/run_validation`, `2024/scripts/run_validation` and `2025/scripts/validate_trec_ikat25.py` of
irlabamsterdam/iKAT at 0539930.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ragtasks.benchmarks import Benchmark
from ragtasks.benchmarks.ikat import chosen_facts
from ragtasks.errors import BenchmarkFileError
from ragtasks.files import parse_json, write_atomically, written_lines
from ragtasks.metrics import n_words, parse_cited
from ragtasks.records import Response
from ragtasks.results import evaluation_files, read_results
from ragtasks.submissions._findings import Diagnostic, Report, Severity, Words, reading, refuse_problems, rules
from ragtasks.submissions._forms import FileForm

BENCHMARKS: Mapping[FileForm, str] = {
    FileForm.IKAT_2023: "ikat23",
    FileForm.IKAT_2024: "ikat24",
    FileForm.IKAT_2025: "ikat25",
}
"""Form of a run -> benchmark of its turns."""
MAX_WORDS = 250
"""Maximum words of an answer in 2025."""
MAX_PASSAGES = 1000

_MOST_NAMED = 5
_STOPS = "the track's validator stops"
_WARNS = "the track's validator prints a warning; it stops at the 2,001st warning"
_RULES = rules(
    (Severity.PROBLEM, _STOPS, "json field missing_turn unknown_turn fact citation"),
    (Severity.WARNING, _WARNS, "run_name run_type rank text passage_order fact_order passage_id n_passages no_fact"),
    (Severity.WARNING, "the track uses the first five as the answer's passages", "unused"),
    (Severity.WARNING, "the track's validator accepts it", "duplicate_turn"),
    (Severity.WARNING, "the track's validator cuts it", "n_words"),
)
_TYPES = {
    FileForm.IKAT_2023: ("automatic", "manual"),
    FileForm.IKAT_2024: ("automatic", "manual", "only_response"),
    FileForm.IKAT_2025: ("automatic", "manual", "generation-only"),
}
_PASSAGE_ID = re.compile(r"clueweb22-[^:\s]+:[^:\s]+")
_PASSAGE_ID_2025 = re.compile(r"clueweb22-en\d{4}-\d{2}-\d{5}:\d+")


class _Strict(BaseModel):
    """Objects that the track reads with protocol buffers: unknown fields are errors, and missing fields are empty."""

    model_config = ConfigDict(extra="forbid")


FactOrNumber = TypeVar("FactOrNumber")


class _Provenance(_Strict):
    id: str = ""
    text: str = ""
    score: float = 0.0
    used: bool = False


class _Fact(_Strict):
    id: str = ""
    text: str = ""
    score: float = 0.0


class _TurnAnswer(_Strict, Generic[FactOrNumber]):
    text: str = ""
    rank: int = 0
    passage_provenance: list[_Provenance] = []
    ptkb_provenance: list[FactOrNumber] = []


class _RunTurn(_Strict, Generic[FactOrNumber]):
    turn_id: str = ""
    responses: list[_TurnAnswer[FactOrNumber]] = []


class _Run2023(_Strict, Generic[FactOrNumber]):
    run_name: str
    run_type: str
    turns: list[_RunTurn[FactOrNumber]]


class _Run2024(_Run2023[int]):
    eval_response: bool = False


class _RunInfo(BaseModel):
    team_id: Any
    run_id: Any
    run_type: str


class _Sentence(BaseModel):
    text: str
    citations: dict[str, float]
    ptkb_provenance: Any


class _Answer2025(BaseModel):
    turn_id: str
    metadata: _RunInfo
    references: dict[str, float]
    responses: list[_Sentence] = []


@dataclass(slots=True)
class _Check:
    form: FileForm
    facts: Mapping[str, Sequence[str]] | None
    """Turn -> facts about its user; None without the topics."""
    findings: list[Diagnostic] = field(default_factory=list)
    n_turns: int = 0

    def add(self, rule: str, turn: str, expected: str, found: object, line: int = 0) -> None:
        self.findings.append(_RULES[rule].finding(line, turn, expected, found))

    def add_invalid_fields(self, error: ValidationError, line: int = 0) -> None:
        """Add a finding for every invalid field."""
        for details in error.errors():
            self.add(
                "field",
                "",
                f"{'.'.join(map(str, details['loc']))}: {details['msg'].lower()}",
                details.get("input"),
                line,
            )

    def check_turns(self, turns: Sequence[str]) -> None:
        """Add findings for turns that are missing, unknown or repeated."""
        self.n_turns = len(turns)
        counts = Counter(turns)
        for turn in [turn for turn, n in counts.items() if n > 1]:
            self.add("duplicate_turn", turn, "each turn once", counts[turn])
        if self.facts is None:
            return
        if missing := [turn for turn in self.facts if turn not in counts]:
            first = ", ".join(missing[:_MOST_NAMED]) + (", ..." if len(missing) > _MOST_NAMED else "")
            self.add("missing_turn", "", f"all {len(self.facts)} turns", Words(f"none for {len(missing)}: {first}"))
        for turn in [turn for turn in counts if turn not in self.facts]:
            self.add("unknown_turn", turn, "a turn of the topics", turn)

    def report(self, name: str) -> Report:
        """Return the report. Warnings do not fail a file, as in the validators."""
        unchecked = ["whether the passages exist"]
        if self.facts is None:
            unchecked.append(f"turns and facts: `ragtasks data fetch {BENCHMARKS[self.form]}` downloads the topics")
        findings = tuple(sorted(self.findings, key=lambda finding: finding.line))
        return Report(
            name, self.form.value, self.n_turns, findings, tuple(unchecked), warnings_fail=False, unit="turns"
        )


def check_run(path: Path, form: FileForm, benchmark: Benchmark | None) -> Report:
    """Check a run. Without a benchmark (None), turns and facts are not checked."""
    facts = None if benchmark is None else {task.extra["official_id"]: task.extra["facts"] for task in benchmark.tasks}
    with reading("iKAT run", path) as stream:
        content = stream.read()
    return _checked(content, form, facts).report(path.name)


def _checked(content: bytes, form: FileForm, facts: Mapping[str, Sequence[str]] | None) -> _Check:
    check = _Check(form, facts)
    if form is FileForm.IKAT_2025:
        check.check_turns(list(_check_lines(content, check)))
        return check
    try:
        run_type = _Run2023[_Fact] if form is FileForm.IKAT_2023 else _Run2024
        run = run_type.model_validate(parse_json(content))
    except ValidationError as error:
        check.add_invalid_fields(error)
    except ValueError as error:
        check.add("json", "", "one JSON object", str(error))
    else:
        _check_object(run, check)
    return check


def _check_object(run: _Run2023[Any], check: _Check) -> None:
    """Check a run of 2023 or 2024 whose fields are valid."""
    if not run.run_name:
        check.add("run_name", "", "a name", run.run_name)
    if run.run_type not in _TYPES[check.form]:
        check.add("run_type", "", f"one of {', '.join(_TYPES[check.form])}", run.run_type)
    check.check_turns([turn.turn_id for turn in run.turns])
    for turn in run.turns:
        previous = 0
        for answer in turn.responses:
            if answer.rank <= previous:
                check.add("rank", turn.turn_id, f"a rank above {previous}", answer.rank)
            if not answer.text and run.run_type != "only_response":
                check.add("text", turn.turn_id, "an answer", answer.text)
            _check_passages(answer.passage_provenance, turn.turn_id, check)
            _check_facts(answer.ptkb_provenance, turn.turn_id, check)


def _check_passages(passages: Sequence[_Provenance], turn: str, check: _Check) -> None:
    if not 1 <= len(passages) <= MAX_PASSAGES:
        check.add("n_passages", turn, f"1 to {MAX_PASSAGES:,} passages", len(passages))
    if not any(passage.used for passage in passages):
        check.add("unused", turn, "`used` of at least one passage", False)
    _check_order("passage_order", passages, turn, check)
    for passage in passages:
        if not _PASSAGE_ID.fullmatch(passage.id):
            check.add("passage_id", turn, "clueweb22-...:NUMBER", passage.id)


def _check_order(rule: str, ranked: Sequence[_Provenance | _Fact], turn: str, check: _Check) -> None:
    for first, second in pairwise(ranked):
        if second.score > first.score:
            check.add(rule, turn, f"a score of {first.score} at most", second.score)


def _check_facts(chosen: Sequence[_Fact | int], turn: str, check: _Check) -> None:
    if not chosen:
        check.add("no_fact", turn, "the facts that the answer uses", [])
    facts = (check.facts or {}).get(turn)
    for fact in chosen if facts is not None else ():
        number = fact if isinstance(fact, int) else int(fact.id) if fact.id.isdecimal() else 0
        if not 1 <= number <= len(facts or ()):
            fact_id = fact if isinstance(fact, int) else fact.id
            check.add("fact", turn, f"the number of a fact, 1 to {len(facts or ())}", fact_id)
        elif isinstance(fact, _Fact) and fact.text != (facts or ())[number - 1]:
            check.add("fact", turn, "the text of the topics", fact.text)
    _check_order("fact_order", [fact for fact in chosen if isinstance(fact, _Fact)], turn, check)


def _check_lines(content: bytes, check: _Check) -> Iterator[str]:
    """Check the lines of a run of 2025, and yield the turn of each valid line."""
    for line, text in enumerate(content.splitlines(), start=1):
        if not text.strip():
            continue
        try:
            answer = _Answer2025.model_validate(parse_json(text))
        except ValidationError as error:
            check.add_invalid_fields(error, line)
        except ValueError as error:
            check.add("json", "", "a JSON object", str(error), line)
        else:
            _check_line(answer, check, line)
            yield answer.turn_id


def _check_line(answer: _Answer2025, check: _Check, line: int) -> None:
    turn, types = answer.turn_id, _TYPES[FileForm.IKAT_2025]
    if answer.metadata.run_type not in types:
        check.add("field", turn, f"`run_type` of {', '.join(types)}", answer.metadata.run_type, line)
    if len(answer.references) > MAX_PASSAGES:
        check.add("n_passages", turn, f"{MAX_PASSAGES:,} references at most", len(answer.references), line)
    for name in answer.references:
        if not _PASSAGE_ID_2025.fullmatch(name):
            check.add("passage_id", turn, "clueweb22-enNNNN-NN-NNNNN:N", name, line)
    for name in [name for sentence in answer.responses for name in sentence.citations if name not in answer.references]:
        check.add("citation", turn, "a passage of `references`", name, line)
    if (length := n_words(sentence.text for sentence in answer.responses)) > MAX_WORDS:
        check.add("n_words", turn, f"{MAX_WORDS} words at most", length, line)


# Runs built from logged answers.


def build_run(results: Path, run_id: str, team_id: str, output: Path) -> list[str]:
    """Write a run and return the lines of the report. Problems raise an error, and nothing is written.

    The results must contain one model and one year. Facts come from the results of `ikat24_facts` (or of another year),
    if they were evaluated.
    """
    form, answers, facts = _logged_answers(results)
    rows = [_row(form, answer, facts.get(answer.task.extra["official_id"], ()), run_id, team_id) for answer in answers]
    if form is FileForm.IKAT_2025:
        content = written_lines(rows)
    else:
        head = {"run_name": run_id, "run_type": "automatic"}
        eval_option = {"eval_response": True} if form is FileForm.IKAT_2024 else {}
        content = json.dumps({**head, **eval_option, "turns": rows}, ensure_ascii=False).encode() + b"\n"
    facts_of = {answer.task.extra["official_id"]: answer.task.extra["facts"] for answer in answers}
    checked = _checked(content, form, facts_of)
    next_step = "fix the listed problems and build it again; nothing was written"
    refuse_problems("iKAT run", output, checked.findings, next_step)
    write_atomically(output, content)
    n_facts = sum(answer.task.extra["official_id"] in facts for answer in answers)
    lines = [f"wrote {output}: {form.value}, {len(rows)} turns, facts chosen for {n_facts}; run type automatic"]
    for rule, n in Counter(finding.rule for finding in checked.findings).items():
        lines.append(f"warning {rule}: {n} times [{_RULES[rule].consequence}]; `ragtasks check FILE` lists them")
    return lines


def _logged_answers(path: Path) -> tuple[FileForm, list[Response], dict[str, list[int]]]:
    """Return (form, logged answers to the turns of one year, turn -> facts selected in the same results)."""
    files, _ = evaluation_files(path)
    tasks = [task for file in files for task in read_results(file, Path(), {}).tasks]
    evaluations = [(form, task) for form, name in BENCHMARKS.items() for task in tasks if task.benchmark == name]
    if len(evaluations) != 1:
        raise BenchmarkFileError(
            "logged answers",
            where=str(path),
            expected="one evaluation of one of " + ", ".join(f"{name}_full_rag" for name in BENCHMARKS.values()),
            found=f"{len(evaluations)} evaluations",
            next_step="name a single evaluation; evaluate with --tasks ikat24_full_rag,ikat24_facts --log_samples",
        )
    ((form, task_of_year),) = evaluations
    facts = {
        response.task.extra["official_id"]: numbers
        for task in tasks
        if task.benchmark == f"{task_of_year.benchmark}_facts"
        for response in task.responses
        if (numbers := chosen_facts(response.text, len(response.task.extra["facts"]))) is not None
    }
    return form, list(task_of_year.responses), facts


def _row(form: FileForm, answer: Response, facts: Sequence[int], run_id: str, team_id: str) -> dict[str, Any]:
    """Return a turn of a run. Scores of passages are 1/rank, since tasks only contain their order."""
    turn, scores = answer.task.extra["official_id"], [1 / rank for rank in range(1, len(answer.passages) + 1)]
    if form is FileForm.IKAT_2025:
        names = [passage.passage_id for passage in answer.passages]
        return {
            "metadata": {"team_id": team_id, "run_id": run_id, "run_type": "automatic"},
            "turn_id": turn,
            "references": dict(zip(names, scores, strict=True)),
            "responses": [
                {
                    "text": sentence.text,
                    "citations": {names[index]: scores[index] for index in sentence.citations},
                    "ptkb_provenance": list(facts),
                }
                for sentence in parse_cited(answer.text, len(names))
            ],
        }
    passages = [
        {"id": passage.passage_id, "text": passage.text, "score": score, "used": True}
        for passage, score in zip(answer.passages, scores, strict=True)
    ]
    texts = answer.task.extra["facts"]
    fact_rows = (
        [
            {"id": str(number), "text": texts[number - 1], "score": 1 / rank}
            for rank, number in enumerate(facts, start=1)
        ]
        if form is FileForm.IKAT_2023
        else list(facts)
    )
    response = {"rank": 1, "text": answer.text, "passage_provenance": passages, "ptkb_provenance": fact_rows}
    return {"turn_id": turn, "responses": [response]}
