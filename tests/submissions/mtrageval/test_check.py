"""The check: valid files pass, each invalid file is reported by line and rule, and official facts are reproduced."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import open_benchmark
from ragtasks.errors import BenchmarkFileError
from ragtasks.records import Setting
from ragtasks.submissions import Report, Severity, SubmissionTask, render_text
from ragtasks.submissions.mtrageval._build import SubmittedTask, build
from ragtasks.submissions.mtrageval._check import MAX_BYTES, RULES, Comparison, check_file, check_lines
from ragtasks.submissions.mtrageval._inputs import benchmark_inputs, document_ids_by_domain, read_inputs
from tests._messages import raises, same_message
from tests.submissions.mtrageval._files import lines_of, sample
from tests.submissions.mtrageval._official import rejections

N_TASKS = 6
Rows = list[dict[str, Any]]
Found = set[tuple[int, str]]

BENCHMARK = sample()
INPUTS = {key: given for key, given in benchmark_inputs(BENCHMARK).items() if given.contexts}
INPUTS = dict(list(INPUTS.items())[4 : 4 + N_TASKS])
INPUT_IDS = [given.task_id for given in INPUTS.values()]
DOCUMENTS = document_ids_by_domain(BENCHMARK)
AGAINST = Comparison(INPUTS, DOCUMENTS)
DOMAIN = "clapnq"
ELSEWHERE = min(DOCUMENTS["govt"])


def valid(letter: str) -> Rows:
    """Return the rows of a valid submission. Rows of task B have the given contexts."""
    task = SubmissionTask(letter)
    setting = Setting.REFERENCE if task is SubmissionTask.B else Setting.FULL_RAG
    passages = BENCHMARK.read_contexts(setting).passages
    return list(build(task, INPUTS, {key: SubmittedTask(passages[key], None, f"It is {key}.") for key in INPUTS}).rows)


def checked(content: bytes, letter: str, name: str = "file.jsonl", n_bytes: int | None = None) -> Report:
    lines = content.splitlines(keepends=True) if b"\r" not in content else content.split(b"\n")
    size = len(content) if n_bytes is None else n_bytes
    return check_lines(lines, name, SubmissionTask(letter), AGAINST, n_bytes=size)


def problems(report: Report) -> Found:
    return {(finding.line, finding.rule) for finding in report.findings if finding.severity is not Severity.NOTE}


@pytest.mark.parametrize("letter", ["A", "B", "C"])
def test_a_valid_file_passes_without_a_note(letter: str) -> None:
    content = b"".join(lines_of(valid(letter)))
    assert checked(content, letter).findings == ()
    assert rejections(content, letter, INPUT_IDS) == []


@dataclass(frozen=True)
class Broken:
    """A valid file with one change, and the expected findings."""

    name: str
    letter: str
    change: Callable[[Rows], object]
    found: Found


def at(path: str, value: Any, row: int = 2) -> Callable[[Rows], object]:
    """Set a value in a row (from 0), such as `contexts.0.score`; Ellipsis removes it."""

    def change(rows: Rows) -> None:
        *above, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        target: Any = rows[row]
        for key in above:
            target = target[key]
        if value is ...:
            del target[last]
        else:
            target[last] = value

    return change


def scores(*values: float, row: int = 2) -> Callable[[Rows], object]:
    """Set the scores of a row's first contexts, and remove the others."""

    def change(rows: Rows) -> None:
        old = rows[row]["contexts"]
        rows[row]["contexts"] = [{**context, "score": score} for context, score in zip(old, values, strict=False)]

    return change


def repeated(n: int, row: int = 2) -> Callable[[Rows], object]:
    """Set `n` contexts of a row: documents of its corpus."""

    def change(rows: Rows) -> None:
        ids = sorted(DOCUMENTS[DOMAIN])[:n]
        rows[row]["contexts"] = [{"document_id": d, "score": 1.0 - i / 100, "text": "t"} for i, d in enumerate(ids)]

    return change


def other_context(rows: Rows) -> None:
    rows[2]["contexts"].append({"document_id": max(DOCUMENTS[DOMAIN]), "score": -9.0, "text": "t"})


def first_document_twice(rows: Rows) -> None:
    rows[2]["contexts"][1]["document_id"] = rows[2]["contexts"][0]["document_id"]


def swap_case(rows: Rows) -> None:
    rows[2]["collection"] = rows[2].pop("Collection")


def problems_in_two_lines(rows: Rows) -> None:
    rows[0]["Collection"] = 1
    rows[4]["contexts"][0]["score"] = "x"


def with_surrogate(rows: Rows) -> None:
    rows[2]["predictions"][0]["text"] = "half of a pair: \ud800"


MISSING = (0, "missing_task")
BROKEN = [
    # Tasks.
    Broken("task left out", "A", lambda rows: rows.pop(), {MISSING}),
    Broken("task twice", "A", lambda rows: rows.append(rows[1]), {(7, "duplicate_task")}),
    Broken(
        "task twice, other one missing",
        "C",
        lambda rows: rows.__setitem__(3, rows[1]),
        {(4, "duplicate_task"), MISSING},
    ),
    Broken(
        "unknown task",
        "B",
        at("task_id", "nobody<::>99"),
        {(3, "unknown_task"), MISSING, (3, "conversation_id"), (3, "turn")},
    ),
    Broken("other separator", "A", at("task_id", INPUT_IDS[2].replace("<::>", "::")), {(3, "task_spelling")}),
    Broken("id of no shape", "A", at("task_id", "four"), {(3, "unknown_task"), (3, "task_id_shape"), MISSING}),
    Broken("empty id", "A", at("task_id", ""), {(3, "unknown_task"), (3, "task_id_shape"), MISSING}),
    Broken("no tasks", "A", lambda rows: rows.clear(), {MISSING, (0, "no_tasks")}),
    Broken("turn 0", "A", at("task_id", "c<::>0"), {(3, "unknown_task"), (3, "task_id_shape"), MISSING}),
    # Fields.
    Broken("no task_id", "A", at("task_id", ...), {(3, "required_field"), MISSING}),
    Broken("task_id a number", "A", at("task_id", 7), {(3, "field_type"), MISSING}),
    Broken("no Collection", "A", at("Collection", ...), {(3, "required_field")}),
    Broken("collection in lower case", "C", swap_case, {(3, "required_field")}),
    Broken("Collection null", "C", at("Collection", None), {(3, "field_type")}),
    Broken("another Collection", "A", at("Collection", "mt-rag-govt"), {(3, "collection")}),
    Broken("no contexts field", "A", at("contexts", ...), {(3, "required_field")}),
    Broken("contexts an object", "C", at("contexts", {}), {(3, "field_type")}),
    Broken("contexts null", "A", at("contexts", None), {(3, "field_type")}),
    Broken("no input", "C", at("input", ...), {(3, "required_field")}),
    Broken("input a text", "B", at("input", "who?"), {(3, "field_type")}),
    Broken("no predictions", "B", at("predictions", ...), {(3, "required_field")}),
    Broken("predictions a text", "C", at("predictions", "this"), {(3, "field_type")}),
    Broken("other turn", "A", at("turn", "99"), {(3, "turn")}),
    Broken("turn a list", "C", at("turn", [1]), {(3, "turn")}),
    Broken("other conversation", "C", at("conversation_id", "x"), {(3, "conversation_id")}),
    # Contexts.
    Broken("eleven contexts", "A", repeated(11), {(3, "too_many_contexts")}),
    Broken("a context is a text", "A", at("contexts.1", "d"), {(3, "context_object")}),
    Broken("no document_id", "A", at("contexts.1.document_id", ...), {(3, "document_id")}),
    Broken("document_id a number", "C", at("contexts.0.document_id", 12), {(3, "document_id")}),
    Broken("document_id null", "A", at("contexts.0.document_id", None), {(3, "document_id")}),
    Broken("blank document_id", "A", at("contexts.0.document_id", " "), {(3, "blank_document_id")}),
    Broken("unknown document", "A", at("contexts.0.document_id", "nowhere-0-1"), {(3, "unknown_document")}),
    Broken("document of another corpus", "A", at("contexts.0.document_id", ELSEWHERE), {(3, "unknown_document")}),
    Broken("document twice", "A", first_document_twice, {(3, "duplicate_document")}),
    Broken("no score", "A", at("contexts.0.score", ...), {(3, "score")}),
    Broken("score a text", "A", at("contexts.0.score", "5.0"), {(3, "score")}),
    Broken("score null", "C", at("contexts.0.score", None), {(3, "score")}),
    Broken("score true", "A", at("contexts.0.score", True), {(3, "score_boolean")}),
    Broken("score NaN", "A", at("contexts.0.score", float("nan")), {(3, "score_not_finite")}),
    Broken("score infinite", "B", at("contexts.0.score", float("inf")), {(3, "score_not_finite")}),
    Broken("score beyond 32 bits", "A", at("contexts.0.score", 1e39), {(3, "score_not_finite")}),
    Broken("score a huge whole number", "A", at("contexts.0.score", 10**400), {(3, "score_not_finite")}),
    Broken("scores rise", "A", scores(1.0, 2.0), {(3, "scores_unordered")}),
    Broken("scores equal", "A", scores(1.0, 1.0), {(3, "scores_tied")}),
    Broken("scores equal in 32 bits", "A", scores(1.0 + 1e-9, 1.0), {(3, "scores_tied")}),
    Broken("scores rise and tie", "A", scores(1.0, 2.0, 2.0), {(3, "scores_unordered"), (3, "scores_tied")}),
    Broken("context without text", "C", at("contexts.0.text", ...), {(3, "context_text")}),
    Broken("context with a blank text", "C", at("contexts.1.text", "\u00a0"), {(3, "context_text")}),
    Broken("given context with an empty text", "B", at("contexts.0.text", ""), {(3, "context_text")}),
    Broken("given context with another text", "B", at("contexts.0.text", "So."), {(3, "other_context_text")}),
    Broken("a given context left out", "B", at("contexts", []), {(3, "other_contexts")}),
    Broken("a context beside those given", "B", other_context, {(3, "other_contexts")}),
    # Predictions.
    Broken("two predictions", "B", lambda rows: rows[2]["predictions"].append({"text": "or"}), {(3, "n_predictions")}),
    Broken("predictions empty", "C", at("predictions", []), {(3, "n_predictions")}),
    Broken("a prediction is a text", "C", at("predictions.0", "this"), {(3, "prediction_object")}),
    Broken("prediction without text", "B", at("predictions.0.text", ...), {(3, "prediction_text")}),
    Broken("prediction null", "C", at("predictions.0.text", None), {(3, "prediction_text")}),
    Broken("prediction blank", "C", at("predictions.0.text", " \n"), {(3, "empty_prediction")}),
    Broken("half a surrogate pair", "C", with_surrogate, {(3, "encoding")}),
    # Conversations.
    Broken("another question", "C", at("input.0.text", "And?", row=0), {(1, "other_input")}),
    Broken("input empty", "B", at("input", []), {(3, "message")}),
    Broken("unknown speaker", "C", at("input.0.speaker", "system"), {(3, "message")}),
    Broken("message without text", "B", at("input.0.text", ...), {(3, "message")}),
    Broken("message is a text", "C", at("input.0", "hello"), {(3, "message")}),
    # Two problems at once.
    Broken("two lines", "A", problems_in_two_lines, {(1, "field_type"), (5, "score")}),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_an_invalid_file_is_reported_by_line_and_graded_like_the_official_checker(broken: Broken) -> None:
    rows = copy.deepcopy(valid(broken.letter))
    broken.change(rows)
    content = b"".join(lines_of(rows))
    report = checked(content, broken.letter)
    assert problems(report) == broken.found
    assert report.passes is False
    has_problem = any(finding.severity is Severity.PROBLEM for finding in report.findings)
    assert has_problem == bool(rejections(content, broken.letter, INPUT_IDS))
    same_message("\n".join(map(str, report.findings)))


def raw(number: int, change: Callable[[bytes], bytes]) -> bytes:
    lines = lines_of(valid("A"))
    return b"".join([*lines[: number - 1], change(lines[number - 1]), *lines[number:]])


@pytest.mark.parametrize(
    ("change", "rule", "task_is_lost"),
    [
        (lambda line: line[:-9] + b"\n", "json", True),
        (lambda line: b"\xef\xbb\xbf" + line, "json", True),
        (lambda line: line.replace(b"contexts", b"cont\xffxts"), "utf8", True),
        (lambda _: b"[]\n", "object", True),
        (lambda _: b" null\n", "object", True),
        (lambda _: b"[" * 100_000 + b"\n", "json_limit", True),
        (lambda _: b"1" * 5000 + b"\n", "json_limit", True),
        (lambda line: line.replace(b', "contexts"', b',\r "contexts"'), "line_end", True),
        (lambda line: line.replace(b'{"task_id"', b'{"turn": 5, "task_id"'), "duplicate_key", False),
    ],
    ids=[
        "corrupt",
        "byte-order mark",
        "latin-1",
        "list",
        "null",
        "deep",
        "long number",
        "carriage return",
        "key twice",
    ],
)
def test_lines_without_a_valid_object(change: Callable[[bytes], bytes], rule: str, task_is_lost: bool) -> None:
    content = raw(4, change)
    report = checked(content, "A")
    assert problems(report) == {(4, rule), *([MISSING] if task_is_lost else [])}
    objections = rejections(content, "A", INPUT_IDS)
    assert bool(objections) == task_is_lost
    (consequence,) = (finding.consequence for finding in report.findings if finding.line)
    stops = any(objection.startswith("stopped") for objection in objections)
    assert (consequence == "the official checker stops at it") == stops


def test_at_least_forty_invalid_files_cover_every_rule() -> None:
    assert len(BROKEN) >= 40
    by_table = {rule for broken in BROKEN for _, rule in broken.found}
    by_others = {"json", "json_limit", "utf8", "object", "line_end", "duplicate_key"}
    by_others |= {"carriage_returns", "file_name", "file_size"}
    noted = {"no_contexts", "many_contexts", "thinking_text"}
    assert by_table | by_others | noted == set(RULES)


def test_the_name_and_the_size_of_a_file() -> None:
    content = b"".join(lines_of(valid("A")))
    assert problems(checked(content, "A", name="file.json")) == {(0, "file_name")}
    assert rejections(content, "A", INPUT_IDS, name="file.json") == ["name"]
    assert problems(checked(content, "A", n_bytes=MAX_BYTES + 1)) == {(0, "file_size")}
    assert problems(checked(content, "A", n_bytes=MAX_BYTES)) == set()
    assert rejections(content + b" " * MAX_BYTES, "A", INPUT_IDS) == ["size"]


def test_line_ends_and_blank_lines_are_accepted() -> None:
    lines = [line.strip() for line in lines_of(valid("C"))]
    ends = b"\r\n".join(lines) + b"\r\n\r\n \n"
    # The official checker strips lines as text, so it also strips Unicode white space.
    blanks = "\u00a0\n\x1c\n\u2003 \n".encode() + b"\n".join(f"\x1f{x.decode()}\u00a0".encode() for x in lines)
    for content in (ends, blanks):
        assert checked(content, "C").findings == ()
        assert rejections(content, "C", INPUT_IDS) == []


@pytest.mark.parametrize("last", [b"", b"\r", b"\r\n"], ids=["no end", "carriage return", "both"])
def test_carriage_returns_end_lines_and_give_one_warning(last: bytes) -> None:
    content = b"\r".join(line.strip() for line in lines_of(valid("B"))) + last
    report = checked(content, "B")
    assert report.n_rows == N_TASKS
    (finding,) = report.findings
    assert (finding.line, finding.rule, finding.severity) == (0, "carriage_returns", Severity.WARNING)
    assert finding.found == f"only a carriage return {N_TASKS - 1} times"
    assert rejections(content, "B", INPUT_IDS) == []


def test_a_problem_between_carriage_returns_is_found_in_its_line() -> None:
    lines = [line.strip() for line in lines_of(valid("A"))]
    lines[2] = lines[2][:-3]
    report = checked(b"\r".join(lines), "A")
    assert problems(report) == {(0, "carriage_returns"), (3, "json"), MISSING}
    assert problems(checked(b"\r" + b"\n".join([*lines[:2], lines[3] + b"\r", *lines[4:]]), "A")) == {MISSING}


@pytest.mark.slow
@pytest.mark.parametrize("field", ["turn", "Collection", "conversation_id", "further"])
def test_deeply_nested_json_does_not_crash(field: str) -> None:
    """In this range of depths, Python's JSON writer fails first, then its reader."""
    for depth in range(900, 1001):
        raw = lines_of([{**valid("A")[0], field: "@"}])[0].replace(b'"@"', b"[" * depth + b"]" * depth)
        report = checked(raw, "A")
        rules = {finding.rule for finding in report.findings if finding.line}
        assert rules <= {"json_limit"} or rules == {"field_type" if field == "Collection" else field} - {"further"}
        assert all(str(finding) for finding in report.findings)


@pytest.mark.parametrize(
    ("letter", "change", "rule"),
    [
        ("A", at("contexts", []), "no_contexts"),
        ("C", repeated(6), "many_contexts"),
        ("C", at("predictions.0.text", "Let me see.</think>It is."), "thinking_text"),
        ("B", at("predictions.0.text", "<think>cut off"), "thinking_text"),
        ("C", at("predictions.0.text", "Let me see.</THINK>It is."), "thinking_text"),
    ],
)
def test_possibly_intended_values_are_notes_and_pass(letter: str, change: Callable[[Rows], object], rule: str) -> None:
    rows = valid(letter)
    change(rows)
    report = checked(b"".join(lines_of(rows)), letter)
    assert {(finding.rule, finding.severity) for finding in report.findings} == {(rule, Severity.NOTE)}
    assert report.passes
    assert f"note {rule}: 1 times (line 3)" in "\n".join(render_text(report))


def test_the_order_of_scores_is_a_note_for_unranked_tasks() -> None:
    rows = valid("C")
    rows[0]["contexts"].reverse()
    report = checked(b"".join(lines_of(rows)), "C")
    assert [(finding.rule, finding.severity) for finding in report.findings] == [("scores_unordered", Severity.NOTE)]


def test_without_an_input_only_the_names_of_collections_are_checked() -> None:
    rows = valid("A")[:2]
    rows[0]["Collection"] = "wikipedia"
    report = check_lines(lines_of(rows), "f.jsonl", SubmissionTask.A, Comparison(unchecked=("ids",)), n_bytes=1)
    assert problems(report) == {(1, "collection")}
    assert list(render_text(report))[-1] == "  not checked: ids"


def test_a_report_has_one_line_per_finding_and_quotes_values() -> None:
    rows = valid("A")
    rows[0]["contexts"][0]["score"] = "no such field"
    rows[1]["contexts"][0]["document_id"] = "no \x1b[31m\ud800"
    rows[2]["task_id"] = "line\nbreak\ud800" * 20
    lines = list(render_text(checked(b"".join(lines_of(rows)), "A")))
    assert all(line.isprintable() for line in lines)
    assert any('score, found "no such field" [' in line for line in lines)
    assert any(r'found "no \u001b[31m\ud800" [' in line for line in lines)
    assert any(r"line 3 (line\nbreak\ud800line\nbreak" in line and "...): problem" in line for line in lines)


def test_a_changed_context_text_is_printed_from_its_first_difference() -> None:
    rows = valid("B")
    text = rows[1]["contexts"][0]["text"]
    rows[1]["contexts"][0]["text"] = f"{text[:50]}; not so."
    (finding,) = checked(b"".join(lines_of(rows)), "B").findings
    assert (finding.line, finding.rule, finding.severity) == (2, "other_context_text", Severity.WARNING)
    assert (finding.expected.endswith("from character 51 on too"), finding.found) == (True, '"; not so."')


def test_capitals_and_white_space_do_not_change_a_text() -> None:
    rows = valid("B")
    context = rows[1]["contexts"][0]
    context["text"] = "  ".join(context["text"].upper().split()) + "\n"
    assert checked(b"".join(lines_of(rows)), "B").findings == ()


def test_context_texts_of_tasks_a_and_c_are_not_compared() -> None:
    for letter in "AC":
        rows = valid(letter)
        for context in rows[1]["contexts"]:
            context["text"] = "" if letter == "A" else "own words"
        assert checked(b"".join(lines_of(rows)), letter).findings == ()


def test_an_unreadable_file_is_a_clear_error(tmp_path: Path) -> None:
    with raises(BenchmarkFileError):
        check_file(tmp_path / "nowhere.jsonl", SubmissionTask.A, Comparison())


# Official files.


def test_the_official_sample_is_valid_for_task_b(mtrag_root: Path) -> None:
    """One text contains `Collection` in the input file, but `collection` in the sample and the corpus."""
    folder = mtrag_root / "scripts/evaluation/sample_data"
    inputs = read_inputs(folder / "taskb_input.jsonl")
    report = check_file(folder / "responses-10.jsonl", SubmissionTask.B, Comparison(inputs))
    assert report.n_rows == 10
    assert problems(report) == set()
    notes = [(finding.line, finding.rule) for finding in report.findings if finding.severity is Severity.NOTE]
    assert notes == [(n, "scores_unordered") for n in (5, 8, 10)]
    content = (folder / "responses-10.jsonl").read_bytes()
    assert rejections(content, "B", [given.task_id for given in inputs.values()]) == []


def test_the_official_sample_spells_collection_so_that_task_c_rejects_it(mtrag_root: Path) -> None:
    folder = mtrag_root / "scripts/evaluation/sample_data"
    inputs = read_inputs(folder / "taskac_input.jsonl")
    report = check_file(folder / "responses-10.jsonl", SubmissionTask.C, Comparison(inputs))
    assert problems(report) == {(n, "required_field") for n in range(1, 11)}
    content = (folder / "responses-10.jsonl").read_bytes()
    assert len(rejections(content, "C", [given.task_id for given in inputs.values()])) == 10


def test_mtrag_un_s_reference_file_has_the_1187_officially_known_problems(mtrag_root: Path) -> None:
    path = mtrag_root / "mtragun-human/generation_tasks/reference.jsonl"
    inputs = benchmark_inputs(open_benchmark("mtrag_un", mtrag_root))
    report = check_file(path, SubmissionTask.A, Comparison(inputs))
    problems = Counter(finding.rule for finding in report.findings if finding.severity is Severity.PROBLEM)
    assert problems == {"score": 1180, "too_many_contexts": 7}
    assert len(rejections(path.read_bytes(), "A", [given.task_id for given in inputs.values()])) == 1187
