"""Nonsense is named before it is averaged, and what only looks odd is left in peace."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.cli import main
from ragtasks.metrics import answer_text
from ragtasks.records import Answerability, Passage, Response, Setting, Task
from ragtasks.results import read_evaluations
from ragtasks.scoring import CheckedAnswers, checked_again, find_implausible

BENCHMARK = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()))
TASKS = [task for task in BENCHMARK.tasks if task.answerability is not Answerability.CONVERSATIONAL]
GERMAN = "Leider habe ich dazu in den Unterlagen keine Informationen gefunden."


def checked(replies: Sequence[str], tasks: Sequence[Task] = TASKS) -> dict[str, float]:
    """Return check -> share of replies that it finds."""
    responses = [
        Response(task, task.references, answer_text(reply, "</think>"))
        for task, reply in zip(tasks, replies, strict=True)
    ]
    found = find_implausible(responses, replies)
    pairs = zip(tasks, found, strict=True)
    summary = CheckedAnswers("", tuple((task.task_id, names) for task, names in pairs)).summary
    return {item.name: item.share for item in summary}


def conversation(task: Task) -> str:
    return "\n".join(f"{message.role.value}: {message.text}" for message in task.messages)


NONSENSE: dict[str, tuple[Callable[[int, Task], str], str, float]] = {
    "nothing": (lambda *_: "", "empty", 1.0),
    "dots": (lambda *_: "...", "empty", 1.0),
    "a thought without an end": (lambda *_: "<think>The user wants", "emptied", 1.0),
    "a thought and nothing": (lambda *_: "<think>The user wants</think>\n", "emptied", 1.0),
    "a refused request": (lambda *_: "Error code: 429 - {'error': {'message': 'slow down'}}", "error", 1.0),
    "a broken server": (lambda *_: "502 Bad Gateway", "error", 1.0),
    "a traceback": (lambda *_: "Traceback (most recent call last):\n  File", "error", 1.0),
    "a late reply": (lambda *_: "Request timed out.", "error", 1.0),
    "an object's error": (lambda *_: '{"error": {"code": 500}}', "error", 1.0),
    "one text": (lambda *_: "The library opens at nine on every working day.", "identical", 1.0),
    "one refusal": (lambda *_: "I do not have specific information.", "identical", 1.0),
    "German": (lambda *_: GERMAN, "language", 1.0),
    "JSON": (lambda _, task: json.dumps({"answer": task.target}), "wrapped", 1.0),
    "a list in JSON": (lambda _, task: json.dumps([{"text": task.target}]), "wrapped", 1.0),
    "a printed dictionary": (lambda _, task: str({"answer": task.target}), "wrapped", 1.0),
    "JSON in a fence": (lambda _, task: f"```json\n{json.dumps({'answer': task.target})}\n```", "wrapped", 1.0),
    "a fence": (lambda _, task: f"```\n{task.target}\n```", "wrapped", 0.9),
    "tags": (lambda _, task: f"<answer>{task.target}</answer>", "wrapped", 1.0),
    "the answer of the line before": (lambda place, _: TASKS[place - 1].target, "misplaced", 0.7),
    "the first 40 characters": (lambda _, task: task.target[:40], "cut_off", 0.3),
    "the first dozen words": (lambda _, task: " ".join(task.target.split()[:12]), "cut_off", 0.2),
    "the conversation first": (lambda _, task: f"{conversation(task)}\nassistant: {task.target}", "echo", 0.9),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_is_named(kind: str) -> None:
    reply, name, least = NONSENSE[kind]
    assert checked([reply(place, task) for place, task in enumerate(TASKS)]).get(name, 0.0) >= least


CLEAN: dict[str, Callable[[int, Task], str]] = {
    "reference answers": lambda _, task: task.target,
    "a thought before": lambda _, task: f"<think>Let me see.</think>{task.target}",
    "yes and no": lambda place, _: ("Yes.", "No.")[place % 2],
    "a courtesy around": lambda _, task: f"Certainly! {task.target} Let me know if you need more.",
    "a half of refusals word for word": lambda place, task: (
        "I do not have specific information." if place % 2 else task.target
    ),
    "lists": lambda _, task: "Here is what I found:\n" + "\n".join(f"- {part}" for part in task.target.split(". ")),
    "code": lambda _, task: f"{task.target}\n\n```bash\ncurl -X GET https://example.org/v1/items\n```",
    "nothing but code": lambda place, _: f"```bash\nls -la /srv/data{place}\nrm old{place}.log\n```",
    "without a full stop": lambda _, task: task.target.rstrip("."),
    "an address at the end": lambda place, task: f"{task.target} See https://example.org/help/{place}",
    "citations": lambda _, task: f"{task.target} [1][2]",
    "the passage": lambda _, task: task.references[0].text if task.references else task.target,
    "names from everywhere": lambda place, task: f"{task.target} Author {place}: Øystein Müller-Łukasz, São Paulo.",
    "names alone": lambda place, _: f"Universidad Nacional Autónoma de México, Instituto de Física {place}",
    "about errors": lambda place, _: f"Error code {400 + place} means that the server refused the request.",
}


@pytest.mark.parametrize("kind", CLEAN)
def test_what_an_answer_can_be_is_left_in_peace(kind: str) -> None:
    reply = CLEAN[kind]
    assert checked([reply(place, task) for place, task in enumerate(TASKS)]) == {}


def test_a_german_answer_to_a_german_question_is_no_other_language() -> None:
    question = replace(TASKS[0].messages[-1], text="Welche Unterlagen muss ich für meinen Antrag mitbringen?")
    task = replace(TASKS[0], messages=(question,))
    assert "language" not in checked([GERMAN], [task])
    assert checked([GERMAN], TASKS[:1]) == {"language": 1.0}


def test_requests_that_failed_are_no_answers() -> None:
    failed = Response(TASKS[0], (), "", no_answer="HTTP 500")
    assert find_implausible([failed, Response(TASKS[1], (), "")]) == [{}, {"empty": ""}]


def with_passages(passages: Callable[[Task], Sequence[Passage]], setting: Setting) -> dict[str, float]:
    responses = [Response(task, tuple(passages(task)), task.target) for task in TASKS]
    found = find_implausible(responses, setting=setting, benchmark=BENCHMARK)
    pairs = zip(TASKS, found, strict=True)
    summary = CheckedAnswers("", tuple((task.task_id, names) for task, names in pairs)).summary
    return {item.name: item.share for item in summary}


def test_passages_that_are_not_the_tasks_are_named() -> None:
    retrieved = BENCHMARK.read_contexts(Setting.FULL_RAG).passages
    of_domain = {task.domain: retrieved[task.task_id] for task in TASKS}
    domains = list(of_domain)

    def elsewhere(task: Task) -> Sequence[Passage]:
        return of_domain[domains[domains.index(task.domain) - 1]]

    def foreign(task: Task) -> Sequence[Passage]:
        return [replace(item, passage_id=f"mine-{item.passage_id}") for item in retrieved[task.task_id]]

    def textless(task: Task) -> Sequence[Passage]:
        return [replace(item, text=" ") for item in retrieved[task.task_id]]

    assert with_passages(lambda task: retrieved[task.task_id], Setting.FULL_RAG) == {}
    assert with_passages(lambda task: retrieved[task.task_id][::2], Setting.FULL_RAG) == {}
    assert with_passages(lambda task: [Passage("context-1", "A text.")], Setting.FULL_RAG) == {}
    assert with_passages(lambda task: retrieved[task.task_id], Setting.REFERENCE)["other_setting"] > 0.9
    assert with_passages(lambda task: task.references, Setting.FULL_RAG)["other_setting"] > 0.8
    assert with_passages(elsewhere, Setting.FULL_RAG)["foreign_passages"] == 1.0
    assert with_passages(foreign, Setting.FULL_RAG) == {"unknown_passages": 1.0}
    assert with_passages(textless, Setting.FULL_RAG)["bare_passages"] == 1.0


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return status, standard output and the last line of standard error of a command."""
    status = 0
    try:
        main(list(arguments))
    except SystemExit as stop:
        status = int(stop.code or 0)
    said = capsys.readouterr()
    return status, said.out, (said.err.strip().splitlines() or [""])[-1]


@pytest.fixture
def file(tmp_path: Path) -> Callable[[Callable[[int, Task], str]], str]:
    def write(answer: Callable[[int, Task], str]) -> str:
        rows = [{"id": task.task_id, "answer": answer(place, task)} for place, task in enumerate(TASKS)]
        path = tmp_path / "mine.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    return write


def options(tmp_path: Path, **metadata: Any) -> list[str]:
    own = json.dumps({"data": "sample", "encoder": "none", **metadata})
    return ["--metadata", own, "--output", str(tmp_path / "out")]


def test_score_ends_with_its_own_status_and_saves_everything(
    file: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answers = file(lambda place, task: "" if place % 4 == 0 else task.target)
    status, out, last = ended(capsys, "score", answers, "--setting", "reference", *options(tmp_path))
    n = len([place for place in range(len(TASKS)) if place % 4 == 0])
    line = f"implausible: {n} of {len(TASKS)} answers ({n / len(TASKS):.0%}) are empty, such as {TASKS[0].task_id}"
    assert status == 3
    assert line in out.splitlines()
    assert last.startswith("ragtasks: everything is saved in ")
    assert "more than 20%" in last
    (evaluation,) = read_evaluations([tmp_path / "out"])
    assert sum(bool(row.implausible) for row in evaluation.rows) == n
    stored = [own["plausibility"] for own in evaluation.provenance.values()]
    assert sum(own["n_implausible"] for own in stored) == n
    assert {check["name"] for own in stored for check in own["checks"]} == {"empty"}


def test_the_limit_can_be_set(file: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    answers = file(lambda place, task: "" if place % 4 == 0 else task.target)
    status, out, _ = ended(capsys, "score", answers, "--setting", "reference", *options(tmp_path, max_implausible=0.3))
    assert status == 0
    assert "implausible: " in out


def test_judge_ends_with_the_same_status(
    file: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answers = file(lambda *_: "")
    asked = ["score", answers, "--benchmark", "mtrag", "--setting", "reference"]
    status, _, last = ended(capsys, *asked, *options(tmp_path))
    assert (status, last.startswith("ragtasks: everything is saved in ")) == (3, True)
    assert len(read_evaluations([tmp_path / "out"])) == 1


@pytest.mark.slow
def test_run_ends_with_the_same_status_but_for_declared_baselines(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = ["--tasks", "mtrag_reference", "--data", "sample", "--encoder", "none", "--limit", "5"]
    status, _, last = ended(capsys, "run", "--model", "dummy", *arguments, "--output", str(tmp_path / "dummy"))
    assert (status, "word for word the same" in last) == (3, True)
    (evaluation,) = read_evaluations([tmp_path / "dummy"])
    assert all("identical" in (row.implausible or {}) for row in evaluation.rows)
    assert all(own["plausibility"]["n_implausible"] == 5 for own in evaluation.provenance.values())
    status, _, last = ended(capsys, "run", "--model", "ragtasks-refuse", *arguments, "--output", str(tmp_path / "no"))
    assert status == 0
    (evaluation,) = read_evaluations([tmp_path / "no"])
    assert all(row.implausible is None for row in checked_again(evaluation).rows)


@pytest.mark.slow
def test_a_report_has_the_checks_also_of_results_that_were_saved_without(
    file: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ended(capsys, "score", file(lambda *_: ""), "--setting", "reference", *options(tmp_path))
    _, checked, _ = ended(capsys, "report", str(tmp_path / "out"))
    assert "Not checked" not in checked, "all checks ran with the scores"
    for path in (tmp_path / "out").rglob("samples_*.jsonl"):
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for row in rows:
            del row["doc"]["scoring"]["implausible"]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    page = tmp_path / "page.html"
    status, out, _ = ended(capsys, "report", str(tmp_path / "out"), "--format", "json", "--html", str(page))
    assert status == 0
    tables = json.loads(out[: out.rindex("]") + 1])[0]["tables"]
    (row,) = next(table["rows"] for table in tables if table["title"] == "Plausibility")
    assert (row["check"], row["answers"], row["n"], row["share"]) == ("empty", len(TASKS), len(TASKS), "1.000")
    assert f"{len(TASKS)} of {len(TASKS)} answers (100%) are empty" in tables[0]["note"]
    assert "Not checked: foreign_passages, unknown_passages, other_setting of " in tables[0]["note"]
    assert "Plausibility" in page.read_text("utf-8")


@pytest.mark.parametrize("text", ["", "...", "Error code: 429 - slow down"])
def test_what_is_no_answer_is_neither_an_answer_nor_a_refusal(
    text: str, file: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ended(capsys, "score", file(lambda *_: text), "--setting", "reference", *options(tmp_path))
    (evaluation,) = read_evaluations([tmp_path / "out"])
    assert {row.values["ans_acc"] for row in evaluation.rows} == {0.0}


def test_what_nobody_can_read_is_unscored(
    file: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ended(capsys, "score", file(lambda *_: GERMAN), "--setting", "reference", *options(tmp_path))
    (evaluation,) = read_evaluations([tmp_path / "out"])
    assert {(row.idk, row.values["ans_acc"]) for row in evaluation.rows} == {(None, None)}
