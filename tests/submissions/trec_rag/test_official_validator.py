"""Findings compared with the organizers' validator, on real answer files and on files invalid in every way."""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragtasks.benchmarks.trec_rag import read_topics
from ragtasks.submissions import Severity
from ragtasks.submissions.trec_rag import check_answers, write_rows
from tests.conftest import MTRAG_CHECKOUT, REAL_DATA

REAL = REAL_DATA / "trec_rag"
SCRIPTS = MTRAG_CHECKOUT.parent / "ragnarok" / "src" / "ragnarok" / "scripts"
FILES = [*sorted((REAL / "validator").glob("*.json")), *sorted((REAL / "answers").glob("*.jsonl"))]
ABSENT = [pytest.param(REAL, marks=pytest.mark.skip(reason=f"no real answer files at {REAL}"))]
Found = tuple[int, bool, str]

OFFICIAL = {
    "Error parsing JSON": "json",
    "Entry is missing": "key",
    "Run tag inconsistent": "run",
    "Unknown topic": "topic",
    "Topic text": "text",
    "Invalid reference": "reference",
    "Duplicate document": "repeated reference",
    "Too many references": "references",
    "Reported response_length is too long": "long length",
    "RAG answer is too long": "long",
    "Reported RAG answer": "length",
    "Response sentence has duplicate citations": "repeated citation",
    "Response sentence has invalid citation": "citation",
    "No response returned": "missing",
    "Too many responses": "twice",
}
OURS = {
    "json": "json",
    "field": "key",
    "run_id": "run",
    "unknown_topic": "topic",
    "topic_text": "text",
    "reference_id": "reference",
    "duplicate_reference": "repeated reference",
    "n_references": "references",
    "reported_length": "long length",
    "n_words": "long",
    "response_length": "length",
    "duplicate_citation": "repeated citation",
    "citation": "citation",
    "missing_topic": "missing",
    "duplicate_topic": "twice",
}
REPAIRS = ("Attempting to fix", "Removing a sentence", "Updated length")  # its action on a finding
DOUBLED = "Response sentence has a citation that is out of bounds"  # always together with the error "invalid citation"
OF_THE_FILE = {"missing", "twice"}


class Log:
    """Log for the validator's findings."""

    def __init__(self) -> None:
        self.error_count = 0
        self.found: Counter[Found] = Counter()

    def error(self, line: int, msg: str) -> None:
        self.found[finding_type(line, True, msg)] += 1

    def warn(self, line: int, msg: str) -> None:
        if not msg.startswith((*REPAIRS, DOUBLED)):
            self.found[finding_type(line, False, msg)] += 1


def finding_type(line: int, is_error: bool, text: str) -> Found:
    name = next(name for pattern, name in OFFICIAL.items() if text.startswith(pattern))
    topic = text.rsplit(maxsplit=1)[-1] if name == "missing" else ""
    return (0 if name in OF_THE_FILE else line, is_error, f"{name}{topic}")


def found_by_us(path: Path, topics: Path) -> Counter[Found]:
    findings: Counter[Found] = Counter()
    for finding in check_answers(path, read_topics(topics)).findings:
        name = OURS[finding.rule]
        line = 0 if name in OF_THE_FILE else finding.line
        topic = finding.task_id if name == "missing" else ""
        findings[line, finding.severity is Severity.PROBLEM, f"{name}{topic}"] += 1
    return findings


@pytest.fixture
def validate(tmp_path: Path) -> Callable[[Path, Path], Counter[Found]]:
    """The validator of 2024 in castorini/ragnarok, executed unchanged on a copy of a file, or a skip."""
    script = SCRIPTS / "rag24_validation.py"
    if not script.is_file():
        pytest.skip(f"no checkout of castorini/ragnarok: nothing at {script}")
    spec = importlib.util.spec_from_file_location("rag24_validation", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(path: Path, topics: Path) -> Counter[Found]:
        copy = tmp_path / "copy.jsonl"
        copy.write_bytes(path.read_bytes())
        log = Log()
        module.check_rag24_run(topicfile=str(topics), runfile=str(copy), log=log)
        return log.found

    return run


def topics_of(path: Path) -> Path:
    return REAL / ("validator" if path.parent.name == "validator" else "topics") / "topics.rag24.test.txt"


@pytest.mark.parametrize("path", FILES or ABSENT, ids=lambda path: path.stem[:40])
def test_real_answer_files_have_the_findings_of_the_official_validator(
    path: Path, validate: Callable[[Path, Path], Counter[Found]]
) -> None:
    findings = found_by_us(path, topics_of(path))
    assert findings == validate(path, topics_of(path))
    log = path.with_name(f"{path.name}.errlog")
    if log.is_file():  # its output when the participant ran it
        text = log.read_text(encoding="utf-8", errors="replace")
        official_findings = re.findall(r"^(ERROR|WARNING) Line (-?\d+): (.*)$", text, re.MULTILINE)
        rows = [(int(line), level == "ERROR", message) for level, line, message in official_findings]
        kept = [row for row in rows if not row[2].startswith((*REPAIRS, DOUBLED))]
        assert findings == Counter(finding_type(*row) for row in kept)


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.parent.name == "validator"] or ABSENT, ids=lambda path: path.stem
)
def test_check_writes_the_same_bytes_as_the_official_validator(path: Path, tmp_path: Path) -> None:
    checked = check_answers(path, read_topics(topics_of(path)))
    write_rows(tmp_path / "fixed", checked.repaired, is_ascii=True)
    assert (tmp_path / "fixed").read_bytes() == path.with_name(f"{path.name}.fixed").read_bytes()


@given(citations=st.lists(st.lists(st.integers(0, 19), max_size=8), min_size=1, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_citations_have_the_order_of_the_official_validator(
    citations: list[list[int]], tmp_path: Path, validate: Callable[[Path, Path], Counter[Found]]
) -> None:
    topics, path = tmp_path / "topics.txt", tmp_path / "answers.jsonl"
    topics.write_text("2024-1\twhat is it\n", encoding="utf-8")
    references = [f"msmarco_v2.1_doc_00_{n}#0_0" for n in range(20)]
    row = {"run_id": "r", "topic_id": "2024-1", "topic": "what is it", "references": references, "response_length": 9}
    answer = [{"text": "wörd " * 99, "citations": own, "more": 1} for own in citations]
    path.write_text(json.dumps({**row, "answer": answer, "kept": True}), encoding="utf-8")
    validate(path, topics)
    write_rows(tmp_path / "fixed", check_answers(path, read_topics(topics)).repaired, is_ascii=True)
    assert (tmp_path / "fixed").read_bytes() == (tmp_path / "copy.jsonl.fixed").read_bytes()


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.parent.name == "answers"] or ABSENT, ids=lambda path: path.stem
)
def test_sentences_of_an_answer_file_are_unchanged(path: Path) -> None:
    """Our own rule for sentences is not used: scores by sentence follow the boundaries in the file."""
    answers = check_answers(path, read_topics(topics_of(path))).answers
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row, answer in zip(rows, answers, strict=True):
        expected = [(sentence["text"], tuple(dict.fromkeys(sentence["citations"]))) for sentence in row["answer"]]
        assert [(sentence.text, sentence.citations) for sentence in answer.sentences] == expected


def broken(rows: list[dict[str, Any]]) -> list[Any]:
    """Return real answers, each invalid in one way that the validator reports."""
    first = rows[0]
    breaks: list[dict[str, Any]] = [
        {"run_id": "other"},
        {"topic_id": "2024-0"},
        {"topic": "another text"},
        {"references": [*first["references"][:1] * 2], "answer": []},
        {"references": ["msmarco_v2.1_doc_1"], "answer": []},
        {"references": [f"msmarco_v2.1_doc_00_{n}#0_0" for n in range(21)], "answer": []},
        {"response_length": 401},
        {"answer": [{"text": "word " * 300, "citations": [0, 0]}, {"text": "word " * 101, "citations": []}]},
        {"answer": [{"text": "Word.", "citations": [99, -1]}, {"text": "ﬁve ½", "citations": [0, 1, 0]}]},
        {"answer": [], "response_length": 0},
    ]
    changed: list[Any] = [{**row, **change} for row, change in zip(rows[1:], breaks, strict=False)]
    without = [{key: value for key, value in rows[20].items() if key != name} for name in rows[20]]
    return [first, *changed, *without, rows[0], "{"]


def test_files_broken_in_every_way_have_the_findings_of_the_official_validator(
    tmp_path: Path, validate: Callable[[Path, Path], Counter[Found]]
) -> None:
    source = REAL / "answers" / "gpt-4o.jsonl"
    if not source.is_file():
        pytest.skip(f"no real answer file at {source}")
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    path = tmp_path / "broken.jsonl"
    lines = (row_or_text if isinstance(row_or_text, str) else json.dumps(row_or_text) for row_or_text in broken(rows))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    findings = found_by_us(path, topics_of(source))
    assert findings == validate(path, topics_of(source))
    assert len({name.rstrip("-0123456789") for _, _, name in findings}) == len(OURS)
