"""For any file content, `ragtasks check` ends with a report: no crash, and a line and a rule for every problem."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ragtasks.submissions import SubmissionTask
from ragtasks.submissions.mtrageval._build import SubmittedTask, build
from ragtasks.submissions.mtrageval._check import RULES
from ragtasks.submissions.mtrageval._inputs import benchmark_inputs
from tests._commands import run_command
from tests.submissions.mtrageval._files import lines_of, sample
from tests.submissions.mtrageval._official import rejections

BENCHMARK = sample()
INPUTS = dict([pair for pair in benchmark_inputs(BENCHMARK).items() if pair[1].contexts][:2])
IDS = [task.task_id for task in INPUTS.values()]
HERE = "@here@"
LINE = re.compile(r"  (?:file|line \d+)(?: \(.+\))?: (problem|warning) (\w+): expected .+, found .+ \[.+\]")
NOTE = re.compile(r"  (note) (\w+): \d+ times \(line \d+(?:, \d+)*(?:, \.\.\.)?\); the first: .+ \[.+\]")
UNCHECKED = "  not checked: whether documents exist: name a --benchmark with local corpora"

# Dotted paths into a row. The first is the row itself.
CONTEXT = ["contexts", "contexts.0", *(f"contexts.0.{key}" for key in ("document_id", "score", "text", "title"))]
PLACES = ["", "task_id", "conversation_id", "turn", "Collection", "dataset", "further", *CONTEXT]
PLACES += ["input", "input.0", "input.0.speaker", "input.0.text"]
ANSWERS = ["predictions", "predictions.0", "predictions.0.text"]

ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=())),  # unpaired surrogates too
    st.sampled_from(
        ["no half \ud800", "c<::>1", "c<::>" + "9" * 5000, "<think>", "govt", "\u2028\x1b[2J", "user", " "]
    ),
)
ANY_KEY = st.sampled_from(["document_id", "score", "text", "speaker"]) | ANY_TEXT
ANY_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(ANY_KEY, inner, max_size=4),
    max_leaves=12,
)
# JSON from Python's writer, and JSON that it cannot write or read back.
ODD_JSON = ["1e999", "-1e39", "1" * 400, "1" * 4300, "1" * 4301, '{"a": 1, "a": 2}', "[1,\r2]", "nul", "", "1}\n{"]
DEEP_JSON = [text for n in (50, 300, 100_000) for text in ("[" * n + "]" * n, '{"a":' * n + "1" + "}" * n)]
ANY_JSON = ANY_VALUE.map(json.dumps) | st.sampled_from(ODD_JSON) | st.sampled_from(DEEP_JSON)
PIECES = [b"{", b"}", b"[", b"]", b'"', b":", b",", b"\n", b"\r", b"\xc2\xa0", b"\x1c", b"\xef\xbb\xbf", b"\xff", b"\0"]
PIECES += [b"null", b"NaN", b"1", b"[]", b'"task_id"', b'"contexts"', b'{"task_id": "c<::>1"}', b"{}"]
ANY_BYTES = (
    st.binary(max_size=200)
    | ANY_TEXT.map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)
)


@pytest.fixture(scope="module")
def input_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks of the sample as an official input file."""
    path = tmp_path_factory.mktemp("any") / "input.jsonl"
    path.write_bytes(b"".join(lines_of(valid("B"))))
    return path


def valid(letter: str) -> list[dict[str, Any]]:
    """Return two valid rows with the given contexts."""
    entries = {key: SubmittedTask(task.contexts or (), None, f"It is {key}.") for key, task in INPUTS.items()}
    return list(build(SubmissionTask(letter), INPUTS, entries).rows)


def spliced(letter: str, place: str, text: str, end: bytes) -> bytes:
    """Return a valid file with any text in place of one JSON value in its second line."""
    first, second = valid(letter)
    inner: Any = {"row": second}
    *path, last = [int(key) if key.isdigit() else key for key in f"row.{place}".strip(".").split(".")]
    outer = inner
    for key in path:
        inner = inner[key]
    inner[last] = HERE
    line = json.dumps(outer["row"]).replace(json.dumps(HERE), text)
    return json.dumps(first).encode() + end + line.encode() + end


def rules_broken(content: bytes, letter: str, input_file: Path) -> set[str]:
    """Return the rules in the findings of a check, after comparing its output with the official rules."""
    path = input_file.with_name("file.jsonl")
    path.write_bytes(content)
    done = run_command("check", path, "--task", letter, "--input", input_file, "--all")
    assert done.err == ""
    head, *lines, last = done.out.split("\n")[:-1]
    assert last == UNCHECKED
    problems = [match for line in lines if (match := LINE.fullmatch(line) or NOTE.fullmatch(line))]
    assert len(problems) == len(lines), lines
    assert all(map(str.isprintable, lines))
    graded = [match[1] for match in problems]
    n_problems, n_warnings = graded.count("problem"), graded.count("warning")
    assert re.fullmatch(
        rf"file\.jsonl: task {letter}, \d+ lines: {n_problems} problems, {n_warnings} warnings, .*", head
    )
    assert (done.status or 0) == int(bool(n_problems + n_warnings))
    objections = rejections(content, letter, IDS)
    assert bool(n_problems) == bool(objections)
    rules = {match[2] for match in problems}
    if "line_end" not in rules:  # the official rules do not state the parts of such a line
        assert any("stops at it]" in line for line in lines) == any(
            objection.startswith("stopped") for objection in objections
        )
    return rules


ANYTHING = settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@ANYTHING
@given(content=ANY_BYTES, letter=st.sampled_from("ABC"))
@example(content=b"", letter="A")
@example(content=b" null\r", letter="B")
@example(content=b"1" * 5000, letter="C")
def test_any_bytes_get_a_report(content: bytes, letter: str, input_file: Path) -> None:
    whole = b"".join(lines_of(valid(letter)))
    for file in (content, whole + content, content + whole):
        assert rules_broken(file, letter, input_file) <= RULES.keys()


@pytest.mark.parametrize("letter", ["A", "B", "C"])
def test_any_value_in_any_field_gets_a_report(letter: str, input_file: Path) -> None:
    places = PLACES if letter == "A" else PLACES + ANSWERS

    @ANYTHING
    @given(place=st.sampled_from(places), text=ANY_JSON, end=st.sampled_from([b"\n", b"\r", b"\r\n"]))
    @example(place="task_id", text=json.dumps("line\n\ud800<::>1"), end=b"\n")
    @example(place="contexts.0.document_id", text=json.dumps("no half \ud800"), end=b"\n")
    @example(place="contexts.0.score", text="true", end=b"\r")
    def attack(place: str, text: str, end: bytes) -> None:
        assert rules_broken(spliced(letter, place, text, end), letter, input_file) <= RULES.keys()

    attack()


@pytest.mark.parametrize("letter", ["A", "B", "C"])
def test_the_mutated_file_is_valid_and_mutated(letter: str, input_file: Path) -> None:
    assert rules_broken(b"".join(lines_of(valid(letter))), letter, input_file) == set()
    for place, text, rule in [
        ("contexts.0.score", '"@"', "score"),
        ("contexts", "1", "field_type"),
        ("", "1", "object"),
    ]:
        assert rule in rules_broken(spliced(letter, place, text, b"\n"), letter, input_file)
