"""What is wrong with an answer file, line by line: problems, for which the track refuses it, and warnings.

Both are those of the organisers' validator for 2024, except that every problem of a line is named, not the first only,
and that types are checked: there, a list in the place of a text ends the validation.

Source: castorini/ragnarok at 7233fa7, `scripts/`, and the track's guidelines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtasks.benchmarks.trec_rag import MAX_WORDS, N_PASSAGES, SEGMENT_ID
from ragtasks.errors import BenchmarkFileError, ConfigurationError, first_ones
from ragtasks.files import bounded_lines, parse_json, write_atomically, written_lines
from ragtasks.metrics import CitedSentence, n_words, parse_cited, within
from ragtasks.records import Response
from ragtasks.submissions._findings import Finding, Problem, Report, Rule, Severity, Words, reading, rules

_KEYS = {"run_id": str, "topic_id": str, "topic": str, "references": list, "response_length": int, "answer": list}
_MAX_LISTED = 20
_FORM = "TREC RAG 2024"
_REFUSES = "the track refuses the file"
_CORRECTS = "the track corrects it"
_WARNS = "the track warns of it"

RULES = rules(
    (Severity.PROBLEM, _REFUSES, "json field run_id unknown_topic duplicate_topic topic_text n_references"),
    (Severity.PROBLEM, _REFUSES, "reference_id duplicate_reference sentence citation no_answers"),
    (Severity.WARNING, _CORRECTS, "reported_length response_length duplicate_citation"),
    (Severity.WARNING, "the track cuts sentences off the end", "n_words"),
    (Severity.WARNING, _WARNS, "missing_topic"),
)
"""For files of 2024."""


@dataclass(slots=True)
class CheckedFile:
    """An answer file and its problems."""

    form: str
    rules: Mapping[str, Rule]
    answers: list[CitedAnswer] = field(default_factory=list)
    """The answers without problems, in the order of the file."""
    findings: list[Finding] = field(default_factory=list)
    repaired: list[dict[str, Any]] = field(default_factory=list)
    """The same answers as the track of 2024 repairs them, as the objects of their lines; empty for 2025."""
    n_rows: int = 0
    """Lines that are not blank."""
    unchecked: tuple[str, ...] = ()

    def add(self, line: int, topic_id: str, problem: Problem) -> None:
        """Note a problem in a line, 0 for the file as a whole."""
        rule, expected, found = problem
        self.findings.append(self.rules[rule].finding(line, topic_id, expected, found))

    def problems(self) -> list[Finding]:
        """Return what the track refuses the file for."""
        return [finding for finding in self.findings if finding.severity is Severity.PROBLEM]

    def report(self, name: str) -> Report:
        """Return the report of the file; the track repairs or passes what is a warning."""
        return Report(name, self.form, self.n_rows, tuple(self.findings), self.unchecked, warnings_fail=False)


def check_answers(path: Path, topics: Mapping[str, str] | None, *, is_2025: bool = False) -> CheckedFile:
    """Return the answers of a file and all that is wrong with it; without topics, as far as that can be told."""
    with reading("answer file", path) as stream:
        lines = [line for ended in bounded_lines(stream) for line in ended.splitlines()]
    return (check_lines_2025 if is_2025 else check_lines)(lines, topics)


def check_lines(lines: list[bytes], topics: Mapping[str, str] | None) -> CheckedFile:
    """Return the answers in some lines and all that is wrong with them; blank lines are passed over."""
    checked = CheckedFile(_FORM, RULES)
    line_of: dict[str, int] = {}
    run_id: str | None = None
    for number, content in enumerate(lines, start=1):
        if not content.strip():
            continue
        checked.n_rows += 1
        line = _AnswerLine(number, topics, checked)
        row = line.row(content)
        if row is None:
            continue
        run_id = row["run_id"] if run_id is None else run_id
        if row["run_id"] != run_id:
            line.add("run_id", f"{run_id!r}, as in the lines before", row["run_id"])
        if line_of.setdefault(row["topic_id"], number) != number:
            line.add("duplicate_topic", "each topic once", Words(f"the topic of line {line_of[row['topic_id']]} again"))
        line.take(row)
    if not line_of:
        checked.add(0, "", ("no_answers", "at least one answer", Words("none")))
    for topic_id in topics or ():
        if topic_id not in line_of:
            checked.add(0, topic_id, ("missing_topic", "an answer to this topic", Words("none")))
    checked.unchecked = _without(topics, "topic", "trec_rag24")
    return checked


def _without(topics: object, what: str, benchmark: str) -> tuple[str, ...]:
    """Return what cannot be told without the topics; () with them."""
    ids = f"whether each {what} is one of the track's, with its text, and none is missing"
    return () if topics is not None else (f"{ids}: no {what}s are here (`ragtasks data fetch {benchmark}`)",)


def read_answers(path: Path, topics: Mapping[str, str], *, is_2025: bool = False) -> list[CitedAnswer]:
    """Return the answers of a file, which has no problems; warnings are passed over."""
    checked = check_answers(path, topics, is_2025=is_2025)
    if problems := checked.problems():
        raise BenchmarkFileError(
            "answer file",
            where=str(path),
            expected="a file that the track takes",
            found=f"{len(problems)} problems\n    " + first_ones(list(map(str, problems)), _MAX_LISTED, "\n    "),
            next_step="fix these lines; `ragtasks check` lists all",
        )
    return checked.answers


class _AnswerLine:
    """One line under examination."""

    def __init__(self, number: int, topics: Mapping[str, str] | None, checked: CheckedFile) -> None:
        self._number, self._topics, self._checked = number, topics, checked
        self._topic_id = ""
        self._is_good = True

    def add(self, rule: str, expected: str, found: object) -> None:
        """Note a problem of this line."""
        self._checked.add(self._number, self._topic_id, (rule, expected, found))
        self._is_good &= self._checked.rules[rule].severity is not Severity.PROBLEM

    def row(self, content: bytes) -> dict[str, Any] | None:
        """Return the object of a line with all keys in the right types, None after noting what is wrong."""
        try:
            row = parse_json(content)
        except ValueError as error:
            self.add("json", "one JSON object", Words(str(error)))
            return None
        if not isinstance(row, dict):
            self.add("json", "one JSON object", row)
            return None
        self._topic_id = row["topic_id"] if isinstance(row.get("topic_id"), str) else ""
        for key, kind in _KEYS.items():
            value = row.get(key)
            if not isinstance(value, kind) or isinstance(value, bool):
                self.add("field", f"`{key}` as {kind.__name__}", row.get(key, Words("no such field")))
        return row if self._is_good else None

    def take(self, row: Mapping[str, Any]) -> None:
        """Examine an object and keep its answer where nothing is wrong."""
        topic_id = row["topic_id"]
        text = row["topic"] if self._topics is None else self._topics.get(topic_id)
        if text is None:
            self.add("unknown_topic", "a known topic_id", topic_id)
            return
        if row["topic"] != text:
            self.add("topic_text", f"`topic` as {text!r}", row["topic"])
        self._references(row["references"])
        sentences = tuple(self._sentences(row))
        answer = CitedAnswer(row["run_id"], topic_id, row["topic"], tuple(row["references"]), sentences)
        if row["response_length"] > MAX_WORDS:
            self.add("reported_length", f"response_length of at most {MAX_WORDS}", row["response_length"])
        if answer.length > MAX_WORDS:  # the track's repair sets response_length right as well
            self.add("n_words", f"at most {MAX_WORDS} words", answer.length)
        elif row["response_length"] != answer.length:
            self.add("response_length", f"response_length {answer.length}", row["response_length"])
        if self._is_good:
            self._checked.answers.append(answer)
            self._checked.repaired.append(_repaired(row, answer))

    def _references(self, references: list[Any]) -> None:
        if len(references) > N_PASSAGES:
            self.add("n_references", f"at most {N_PASSAGES} references", len(references))
        for index, segment_id in enumerate(references):
            if not isinstance(segment_id, str) or not SEGMENT_ID.fullmatch(segment_id):
                self.add("reference_id", f"references[{index}] as the id of a segment", segment_id)
            elif segment_id in references[:index]:
                self.add("duplicate_reference", "each reference once", segment_id)

    def _sentences(self, row: Mapping[str, Any]) -> Iterator[CitedSentence]:
        for index, item in enumerate(row["answer"]):
            text = item.get("text") if isinstance(item, dict) else None
            citations = item.get("citations") if isinstance(item, dict) else None
            if not isinstance(text, str) or not isinstance(citations, list):
                self.add("sentence", f"answer[{index}] with `text` and a list `citations`", item)
                continue
            n_references = len(row["references"])
            for citation in citations:
                is_whole = isinstance(citation, int) and not isinstance(citation, bool)
                if not is_whole or not 0 <= citation < n_references:
                    self.add("citation", f"answer[{index}]: citations from 0 to {n_references - 1}", citation)
            unique = list(dict.fromkeys(map(repr, citations)))
            if len(unique) < len(citations):
                self.add("duplicate_citation", f"answer[{index}]: each citation once", citations)
            whole = [citation for citation in citations if isinstance(citation, int)]
            yield CitedSentence(text, tuple(dict.fromkeys(whole)))


def _repaired(row: Mapping[str, Any], answer: CitedAnswer) -> dict[str, Any]:
    """Return an object with citations in order and once, cut to 400 words by whole sentences, its length right."""
    sentences = within(answer.sentences, MAX_WORDS)
    items = [{**item, "citations": _in_order(item["citations"])} for item in row["answer"][: len(sentences)]]
    return {**row, "response_length": n_words(sentence.text for sentence in sentences), "answer": items}


def _in_order(citations: list[int]) -> list[int]:
    """Return citations once each in the order of the track's tool: that of Python's sets of integers, mostly ascending.

    The tool makes a set of every sentence's citations, and one more before it where some stand twice: [15, 7] and
    [15, 7, 7] come out in different orders, since both numbers compete for one place in the set's table.
    """
    once = list(set(citations)) if len(set(citations)) < len(citations) else citations
    return list(set(once))


# What is wrong with an answer file of TREC RAG 2025: what the organisers' checker finds, and what the guidelines
# ask.
# The checker looks at one line after the other, and passes longer answers, more references, a narrative that is
# answered twice or not at all; for these the guidelines' limits are warnings of their own.
# Source: castorini/ragnarok at 7233fa7, `scripts/rag25_validation.py`, and the track's guidelines 2.0.

MAX_REFERENCES = 100
"""Most references of an answer (guidelines)."""
TYPES = ("manual", "automatic")

_REQUIRED = ("team_id", "run_id", "narrative_id")
_OPTIONAL = ("type", "narrative", "prompt")

GUIDELINES = "against the guidelines; the track's checker passes it"
"""What follows from exceeding a limit of the guidelines."""

RULES_2025 = rules(
    (Severity.PROBLEM, _REFUSES, "json metadata unknown_narrative type field sentence citation no_answers"),
    (Severity.WARNING, _WARNS, "optional_metadata reference_id"),
    (Severity.WARNING, GUIDELINES, "n_words n_references duplicate_reference no_sentences narrative_text"),
    (Severity.WARNING, GUIDELINES, "duplicate_narrative missing_narrative"),
)
"""For files of 2025."""


def check_lines_2025(lines: Sequence[bytes], narratives: Mapping[str, str] | None) -> CheckedFile:
    """Return the answers in some lines and all that is wrong with them; `topic_id` is the narrative's id.

    Citations may be positions in the references or ids of segments; the file's first one says which.
    """
    checked = CheckedFile("TREC RAG 2025", RULES_2025)
    rows = [(number, _row(line)) for number, line in enumerate(lines, start=1) if line.strip()]
    checked.n_rows = len(rows)
    by_id = _cites_ids([row for _, row in rows])
    line_of: dict[str, int] = {}
    for number, row in rows:
        if not isinstance(row, dict):
            checked.add(number, "", ("json", "one JSON object", row if row is not None else Words("no JSON")))
            continue
        metadata = row.get("metadata")
        errors = [*_metadata_errors(metadata, narratives), *_content_errors(row, by_id=by_id)]
        problems = [*errors, *_metadata_warnings(metadata), *_reference_warnings(row.get("references"))]
        if not errors:
            answer = _answer(row, narratives)
            first = line_of.setdefault(answer.topic_id, number)
            problems += _limits(answer, row)
            if first == number:
                checked.answers.append(answer)
            else:
                again = Words(f"the narrative of line {first} again")
                problems.append(("duplicate_narrative", "each narrative once", again))
        topic_id = metadata.get("narrative_id", "") if isinstance(metadata, dict) else ""
        for problem in problems:
            checked.add(number, str(topic_id), problem)
    if not rows:
        checked.add(0, "", ("no_answers", "at least one answer", Words("none")))
    for one in narratives or ():
        if one not in line_of:
            checked.add(0, one, ("missing_narrative", "an answer to this narrative", Words("none")))
    checked.unchecked = _without(narratives, "narrative", "trec_rag25")
    return checked


def row_2025(answer: CitedAnswer, team_id: str) -> dict[str, Any]:
    """Return an answer as the JSON object of its line, citations as positions."""
    metadata = {
        "team_id": team_id,
        "run_id": answer.run_id,
        "type": "automatic",
        "narrative_id": answer.topic_id,
        "narrative": answer.topic,
    }
    sentences = [{"text": item.text, "citations": list(item.citations)} for item in answer.sentences]
    return {"metadata": metadata, "references": list(answer.references), "answer": sentences}


def _row(line: bytes) -> Any:
    try:
        return parse_json(line)
    except ValueError:
        return None


def _cites_ids(rows: Sequence[Any]) -> bool:
    """Return whether the first citation of a file is an id."""
    items = (item for row in rows if isinstance(row, dict) for item in _list(row.get("answer")))
    cited = (one for item in items if isinstance(item, dict) for one in _list(item.get("citations")))
    return isinstance(next(cited, 0), str)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _metadata_errors(metadata: object, narratives: Mapping[str, str] | None) -> Iterator[Problem]:
    if not isinstance(metadata, dict):
        yield "metadata", "`metadata` as an object", metadata
        return
    if missing := [key for key in _REQUIRED if key not in metadata]:
        yield "metadata", f"metadata with {', '.join(missing)}", Words("no such field")
    elif narratives is not None and str(metadata["narrative_id"]) not in narratives:
        yield "unknown_narrative", "a known narrative_id", metadata["narrative_id"]
    if "type" in metadata and metadata["type"] not in TYPES:
        yield "type", f"metadata.type of {' or '.join(TYPES)}", metadata["type"]


def _metadata_warnings(metadata: object) -> Iterator[Problem]:
    if isinstance(metadata, dict):
        for key in _OPTIONAL:
            if key not in metadata:
                yield "optional_metadata", f"metadata.{key}", Words("no such field")


def _reference_warnings(references: object) -> Iterator[Problem]:
    for index, one in enumerate(_list(references)):
        if not isinstance(one, str) or not SEGMENT_ID.fullmatch(one):
            yield "reference_id", f"references[{index}] as the id of a segment", one


def _content_errors(row: Mapping[str, Any], *, by_id: bool) -> Iterator[Problem]:
    references = row.get("references")
    if not isinstance(references, list):
        yield "field", "a list `references`", references
    if not isinstance(row.get("answer", []), list):
        yield "field", "a list `answer`", row["answer"]
    for index, item in enumerate(_list(row.get("answer"))):
        if not isinstance(item, dict):
            yield "sentence", f"answer[{index}] as an object", item
            continue
        if not isinstance(item.get("text"), str):
            yield "sentence", f"answer[{index}] with a `text`", item.get("text")
        citations = item.get("citations")
        if not isinstance(citations, list):
            yield "sentence", f"answer[{index}] with a list `citations`", citations
            continue
        kind = str if by_id else int
        if not all(isinstance(one, kind) for one in citations):
            expected = "ids of segments" if by_id else "positions in the references"
            yield "citation", f"answer[{index}]: citations as {expected}", citations
            continue
        targets = _list(references) if by_id else range(len(_list(references)))
        yield from (
            ("citation", f"answer[{index}]: a citation of a reference", one) for one in citations if one not in targets
        )


def _answer(row: Mapping[str, Any], narratives: Mapping[str, str] | None) -> CitedAnswer:
    """Return the answer of a line without problems."""
    metadata, references = row["metadata"], [str(one) for one in row["references"]]
    sentences = tuple(
        CitedSentence(
            item["text"],
            tuple(dict.fromkeys(references.index(one) if isinstance(one, str) else one for one in item["citations"])),
        )
        for item in row.get("answer", [])
    )
    narrative_id = str(metadata["narrative_id"])
    text = str(metadata.get("narrative", "")) if narratives is None else narratives[narrative_id]
    return CitedAnswer(str(metadata["run_id"]), narrative_id, text, tuple(references), sentences)


def _limits(answer: CitedAnswer, row: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what the guidelines ask for and the checker lets pass."""
    if answer.length > MAX_WORDS:
        yield "n_words", f"at most {MAX_WORDS} words", answer.length
    if len(answer.references) > MAX_REFERENCES:
        yield "n_references", f"at most {MAX_REFERENCES} references", len(answer.references)
    if len(set(answer.references)) < len(answer.references):
        yield "duplicate_reference", "each reference once", Words("one twice")
    if not answer.sentences:
        yield "no_sentences", "an answer", Words("none")
    text = row["metadata"].get("narrative", answer.topic)
    if text != answer.topic:
        yield "narrative_text", f"metadata.narrative as the text of narrative {answer.topic_id}", text


# Answers in the track's format: sentences that cite positions in a list of segment ids.
# Source: guidelines of TREC RAG 2024 and the organisers' validator.


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """One line of an answer file."""

    run_id: str
    topic_id: str
    topic: str
    references: tuple[str, ...]
    """Segment ids, at most 20, best first."""
    sentences: tuple[CitedSentence, ...]
    """What is said; citations are positions in `references`."""

    @property
    def text(self) -> str:
        """The sentences joined by blanks, as they are searched for nuggets."""
        return " ".join(sentence.text for sentence in self.sentences)

    @property
    def length(self) -> int:
        """Words, as the track counts them."""
        return n_words(sentence.text for sentence in self.sentences)

    def row(self) -> dict[str, Any]:
        """Return the answer as the JSON object of its line."""
        return {
            "run_id": self.run_id,
            "topic_id": self.topic_id,
            "topic": self.topic,
            "references": list(self.references),
            "response_length": self.length,
            "answer": [{"text": item.text, "citations": list(item.citations)} for item in self.sentences],
        }


def answer_of(response: Response, run_id: str, *, cut: bool = False) -> CitedAnswer:
    """Return a model's free text as an answer; citations that name no passage are left out."""
    references = tuple(passage.passage_id for passage in response.passages)
    if len(references) > N_PASSAGES:
        raise ConfigurationError(
            "answer for TREC RAG",
            where=f"topic {response.task.task_id}",
            expected=f"at most {N_PASSAGES} passages, which become its references",
            found=f"{len(references)} passages",
            next_step="evaluate with a run of fewer passages",
        )
    # Half a character, which models do write now and then, can stand in no file.
    text = response.text.encode("utf-8", errors="replace").decode("utf-8")
    sentences = parse_cited(text, len(references))
    kept = within(sentences, MAX_WORDS) if cut else sentences
    return CitedAnswer(run_id, response.task.task_id, response.task.question, references, kept)


def write_rows(path: Path, rows: Iterable[dict[str, Any]], *, is_ascii: bool = False) -> None:
    """Write JSON lines, atomically; other characters as escapes where `is_ascii`, as Python's own writer has them."""
    write_atomically(path, written_lines(rows, is_ascii=is_ascii))
