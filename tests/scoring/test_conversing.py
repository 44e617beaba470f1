"""Simulated users: they rank systems of known quality, give nothing away, and are asked nothing twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark
from ragtasks.cli import main
from ragtasks.clients import ChatMessage, Outcome, Reply, endpoint_of
from ragtasks.config import PERSONAS, EvaluationConfig, UserConfig, user_of
from ragtasks.records import Answerability, Message, Passage, Role, Task
from ragtasks.reports.tables import report_sections
from ragtasks.results import Evaluation, GivenAnswer, read_evaluations, row_of
from ragtasks.scoring import planned_messages
from ragtasks.scoring._conversing import (
    Next,
    Situation,
    Step,
    UserTurn,
    _Conversation,
    _conversations,
    _Need,
    _UserReply,
    common_words,
    gives_away,
)
from ragtasks.tables import Table, Value
from tests.clients._server import Action, refusal
from tests.scoring._users import ScriptedSystem, ScriptedUser, complete, half, wrong

Score = Callable[..., tuple[int, str, str]]
SYSTEMS = {"complete": complete, "half": half, "wrong": wrong}


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())


@pytest.fixture
def user() -> Iterator[ScriptedUser]:
    scripted = ScriptedUser()
    with scripted.running():
        yield scripted


@pytest.fixture
def score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Score:
    """Score a running system; into `results`, without an encoder, and whatever its answers look like."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))

    def ended(system: ScriptedSystem, *arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(command(system, *arguments))
        out = capsys.readouterr()
        return int(stop.value.code or 0), out.out, out.err

    return ended


def command(system: ScriptedSystem, *arguments: str) -> list[str]:
    common = ["--data", "sample", "--encoder", "none", "--max-implausible", "1", "--no-probe"]
    return ["score", "--endpoint", system.named(), *common, "--output", "results", *arguments]


def docs(name: str = "rag-system") -> dict[str, dict[str, Any]]:
    """Return task id -> doc of the conversations with a system."""
    files = sorted(Path("results", name).glob("samples_*-user.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    return {row["doc"]["task_id"]: row["doc"] for row in rows}


def needs(name: str = "rag-system") -> list[dict[str, Any]]:
    return [doc["need"] for doc in docs(name).values()]


def mean(evaluation: Evaluation, metric: str) -> float:
    found = [value for row in evaluation.rows if (value := row.values.get(metric)) is not None]
    return sum(found) / len(found)


def table(evaluations: list[Evaluation], title: str) -> Table:
    (section,) = report_sections(evaluations)
    return next(item for item in section.tables if item.title.startswith(title))


@pytest.mark.slow
def test_a_user_talks_with_a_system_until_it_is_satisfied(
    score: Score, user: ScriptedUser, benchmark: Benchmark
) -> None:
    user.noise = 0
    with (system := ScriptedSystem(benchmark, half)).running():
        status, out, err = score(system, "--user", user.named(personas=["terse", "verbose"], seed=4))
    assert status == 0, err
    assert "Needs of the simulated user (experimental)" in out
    assert "left: " in out
    found = docs()
    assert len(found) == 108
    recovered = next(doc for doc in found.values() if doc["need"]["turns"] == 2 and doc["need"]["met"])
    assert [one["met"] for one in recovered["need"]["exchanges"]] == [False, True]
    assert recovered["question"] == recovered["need"]["exchanges"][0]["user"]
    assert {need["end"] for need in needs()} <= {"satisfied", "finished", "out of patience", "out of turns"}
    assert {need["persona"] for need in needs()} == {"terse", "verbose"}
    (evaluation,) = read_evaluations([Path("results")])
    assert evaluation.model == "rag-system (simulated user scripted)"
    assert next(iter(evaluation.provenance.values()))["history"]["user"] == {
        "model": "scripted",
        "personas": ["terse", "verbose"],
        "seed": 4,
        "turns": 20,
        "patience": 2,
        "prompt": next(iter(evaluation.provenance.values()))["history"]["user"]["prompt"],
        "experimental": True,
    }
    # The answer that is scored is all that was said to the need.
    (row,) = [row for row in evaluation.rows if row.task_id == recovered["task_id"]]
    assert row.values["token_recall"] == 1
    assert (row.values["need_met"], row.values["need_turns"], row.values["need_recovered"]) == (1, 2, 1)


@pytest.mark.slow
def test_the_system_never_sees_the_goal(score: Score, user: ScriptedUser, benchmark: Benchmark) -> None:
    with (system := ScriptedSystem(benchmark, wrong)).running():
        score(system, "--user", user.named())
    targets = [task.target for task in benchmark.tasks]
    tasks = {task.task_id for task in benchmark.tasks}
    for body in system.bodies:
        assert body.keys() == {"id", "messages"}
        assert body["id"] not in tasks
        assert not any(target in json.dumps(body, ensure_ascii=False) for target in targets)
    assert all(targets[0] in prompt for prompt in user.prompts if benchmark.tasks[0].question in prompt)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_three_systems_rank_right_by_twenty_seeds(
    part: int, score: Score, user: ScriptedUser, benchmark: Benchmark
) -> None:
    with ExitStack() as running:
        systems = {name: ScriptedSystem(benchmark, answer) for name, answer in SYSTEMS.items()}
        for system in systems.values():
            running.enter_context(system.running())
        for seed in range(5 * part, 5 * part + 5):
            for name, system in systems.items():
                score(system, "--name", f"{name}-{seed}", "--user", user.named(seed=seed), "--min-judge-coverage", "0")
    found = {item.model.split()[0]: mean(item, "need_met") for item in read_evaluations([Path("results")])}
    assert len(found) == 15
    for seed in range(5 * part, 5 * part + 5):
        assert found[f"complete-{seed}"] > found[f"half-{seed}"] > found[f"wrong-{seed}"]


@pytest.mark.slow
def test_the_report_sets_users_beside_replays(score: Score, user: ScriptedUser, benchmark: Benchmark) -> None:
    for name, answer in SYSTEMS.items():
        with (system := ScriptedSystem(benchmark, answer)).running():
            score(system, "--name", name)
            score(system, "--name", name, "--user", user.named(), "--min-judge-coverage", "0")
    evaluations = read_evaluations([Path("results")])
    assert len(evaluations) == 6
    ranks = table(evaluations, "Do systems rank alike")
    ((who, n_systems, _, tau, reason),) = ranks.rows
    assert (who, n_systems, reason) == ("(simulated user scripted)", 3, "")
    assert isinstance(tau, Value)
    assert tau.value is not None
    assert tau.value > 0.8  # half of a refusal refuses too, so two of the systems may tie in the replay
    assert tau.low is not None
    talked = table(evaluations, "With a simulated user")
    assert [row[0] for row in talked.rows] == [f"{name} (simulated user scripted)" for name in SYSTEMS]
    by_name = dict(zip(talked.columns, talked.rows[1], strict=True))
    met, unmet = by_name["token_recall where met"], by_name["token_recall where not"]
    assert isinstance(met, Value)
    assert isinstance(unmet, Value)
    assert (met.value or 0) > (unmet.value or 0)
    with pytest.raises(SystemExit) as stop:
        main(["compare", "results", "--metric", "need_met"])
    assert not stop.value.code
    (section,) = report_sections(evaluations)
    assert section.conclusion is not None
    assert [row[1] for row in section.conclusion.rows] == list(SYSTEMS)  # what is experimental does not lead
    few = table([item for item in evaluations if "wrong" not in item.model], "Do systems rank alike")
    assert few.rows[0][-1] == "too few systems: 2 of 3"


def test_a_user_that_cannot_be_read_breaks_off_and_invents_nothing(
    score: Score, user: ScriptedUser, benchmark: Benchmark
) -> None:
    user.change = lambda *_: "I would rather not say."
    with (system := ScriptedSystem(benchmark, complete)).running():
        status, out, err = score(system, "--user", user.named())
    assert status == 1
    assert "16 of 16 conversations broke off: no message of the user could be used: no JSON object" in err
    assert "undecided: 108 of 108 needs" in out
    assert system.n_asked == 0
    assert user.n_asked == 32  # each of them twice
    assert all(row.values["need_met"] is None for item in read_evaluations([Path("results")]) for row in item.rows)


@pytest.mark.slow
def test_a_message_that_gives_the_answer_away_is_refused_and_asked_for_again(
    score: Score, user: ScriptedUser, benchmark: Benchmark
) -> None:
    task = benchmark.tasks[0]

    def telling(found: dict[str, Any], prompt: str, n_before: int) -> str | None:
        is_first = found["message"] == f"Could you tell me: {task.question}" and "could not be used" not in prompt
        return json.dumps({**found, "message": f"Is it so that {task.target}"}) if is_first else None

    user.change = telling
    user.noise = 0
    with (system := ScriptedSystem(benchmark, complete)).running():
        status, _, _ = score(system, "--user", user.named())
    assert status == 0
    need = docs()[task.task_id]["need"]
    assert need["exchanges"][0]["refused"] == ["the message gives the expected answer away"]
    assert need["met"] is True
    assert any("could not be used: the message gives the expected answer away" in text for text in user.prompts)
    assert not any(task.target in body["messages"][-1]["content"] for body in system.bodies)


@pytest.mark.slow
def test_a_system_that_fails_in_the_middle_is_asked_the_rest_by_the_same_command(
    score: Score, user: ScriptedUser, benchmark: Benchmark
) -> None:
    user.noise = 0
    task = next(task for task in benchmark.tasks if task.turn == 2)
    is_down = True

    def failing(target: str, message: str, n: int) -> str | Action:
        return refusal(400, "broken") if is_down and target == task.target else complete(target, message, n)

    with (system := ScriptedSystem(benchmark, failing)).running():
        status, _, err = score(system, "--user", user.named())
        assert status == 1
        assert "1 of 16 conversations broke off" in err
        first = docs()
        of_one = [doc["need"]["met"] for doc in first.values() if doc["conversation_id"] == task.conversation_id]
        assert of_one[:2] == [True, None]
        assert not any(of_one[1:])
        is_down, n_before = False, system.n_asked
        status, _, err = score(system, "--user", user.named())
        assert status == 0, err
        assert system.n_asked - n_before == len(of_one) - 1
    assert all(need["met"] for need in needs())


def test_a_system_that_always_asks_back_ends_in_the_users_patience(
    score: Score, user: ScriptedUser, benchmark: Benchmark
) -> None:
    user.noise = 0
    with (system := ScriptedSystem(benchmark, lambda *_: "Which one do you mean?")).running():
        status, out, _ = score(system, "--user", user.named(patience=1))
    assert status == 0
    assert "left: 92 of 108 needs never came up" in out
    assert "undecided" not in out
    assert {need["end"] for need in needs()} == {"out of patience"}
    assert system.n_asked == 32  # a question and a follow-up, in each of 16 conversations
    assert not any(need["met"] for need in needs())


def test_a_conversation_is_no_longer_than_its_turns(score: Score, user: ScriptedUser, benchmark: Benchmark) -> None:
    user.noise = 0
    with (system := ScriptedSystem(benchmark, complete)).running():
        score(system, "--user", user.named(turns=3))
    assert system.n_asked == 48
    assert {need["end"] for need in needs()} == {"out of turns"}
    assert sum(need["met"] for need in needs()) == 48
    assert {need["turns"] for need in needs()} == {0, 1}


@pytest.mark.slow
def test_a_second_run_asks_nobody_and_writes_the_same(score: Score, user: ScriptedUser, benchmark: Benchmark) -> None:
    with (system := ScriptedSystem(benchmark, half)).running():
        score(system, "--user", user.named(), "--min-judge-coverage", "0")
        asked, first = (system.n_asked, user.n_asked), docs()
        status, _, err = score(system, "--user", user.named(), "--force", "--min-judge-coverage", "0")
        assert status == 0, err
        broken = {task for task, doc in first.items() if doc["need"]["end"] == "user unreadable"}
        assert not broken
        assert (system.n_asked, user.n_asked) == asked
    for doc in (*first.values(), *(again := docs()).values()):
        doc.pop("usage", None)  # says that the replies were cached
        doc["need"].pop("calls", None)
    assert again == first


@pytest.mark.slow
def test_a_killed_run_goes_on_and_asks_nothing_twice(
    score: Score, user: ScriptedUser, benchmark: Benchmark, tmp_path: Path
) -> None:
    user.noise = 0
    with (system := ScriptedSystem(benchmark, complete)).running():
        for n in (5, 30, 70, 100):
            arguments = [sys.executable, "-m", "ragtasks", *command(system, "--user", user.named(slots=2))]
            with subprocess.Popen(arguments, cwd=tmp_path, env=dict(os.environ), stderr=subprocess.DEVNULL) as process:
                while system.n_asked < n and process.poll() is None:
                    time.sleep(0.005)
                process.send_signal(signal.SIGKILL)
        status, _, err = score(system, "--user", user.named(slots=2))
    assert status == 0, err
    asked = [json.dumps(body) for body in system.bodies]
    # What was on its way when a process was killed may be asked again: the 64 open requests of its last round at most.
    assert len(asked) - len(set(asked)) <= 4 * 16
    assert len(set(asked)) == 108
    assert all(need["met"] for need in needs())


def task_of(question: str, target: str, answerability: Answerability = Answerability.ANSWERABLE) -> Task:
    message = Message(Role.USER, question)
    return Task("c<::>1", "c", 1, "d", (message,), target, answerability, (), "N/A", ())


@pytest.mark.parametrize(
    ("message", "target", "known", "is_away"),
    [
        ("When was the bridge built?", "The bridge was built in 1874 by Ann Harrow.", (), False),
        ("Was the bridge built in 1874?", "The bridge was built in 1874 by Ann Harrow.", (), True),
        ("Was the bridge built in 1874?", "The bridge was built in 1874 by Ann Harrow.", ("1874",), False),
        ("And by whom? Harrow?", "The bridge was built in 1874 by Ann Harrow.", (), False),
        ("Is it Harrow?", "Harrow.", (), True),
        ("You do not know that, sorry?", "Sorry, I do not know that.", (), False),
    ],
)
def test_what_gives_an_answer_away(message: str, target: str, known: tuple[str, ...], is_away: bool) -> None:
    task = task_of("Who built the bridge?", target)
    if target.startswith("Sorry"):
        task = task_of("Who built the bridge?", target, Answerability.UNANSWERABLE)
    assert gives_away(message, task, frozenset(known)) == is_away


def test_words_of_more_than_one_conversation_in_five_are_common() -> None:
    conversations = [[task_of("what about ships", f"answer number{n}")] for n in range(10)]
    assert common_words(conversations) == {"what", "about", "ships", "answer"}


def test_a_need_that_was_never_come_to_is_not_met_and_has_no_other_value() -> None:
    doc = {
        **dict.fromkeys(("task_id", "conversation_id", "domain", "setting", "answerability", "multi_turn"), "x"),
        **{"turn": 1, "question_types": [], "references": [], "passages": []},
        "need": {"met": False, "turns": 0, "exchanges": [], "end": "out of patience"},
    }
    values = row_of({"doc": doc, "metrics": [], "filtered_resps": [""]}).values
    assert {name: value for name, value in values.items() if value is not None} == {"need_met": 0.0}


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ('{"model": "openai/x", "persona": "terse"}', "did you mean 'personas'"),
        ('{"model": "openai/x", "personas": "tersse"}', "no persona 'tersse': did you mean 'terse'"),
        ('{"model": "openai/x", "patience": -1}', "patience: expected 0 or more"),
        ("{model", "user: expected a name, or a JSON object"),
        ("gpt", "needs base_url"),
    ],
)
def test_a_user_that_cannot_be_named_is_one_clear_error(
    score: Score, benchmark: Benchmark, named: str, expected: str
) -> None:
    with (system := ScriptedSystem(benchmark, complete)).running():
        status, _, err = score(system, "--user", named)
    assert status == 1
    assert expected in err
    assert system.n_asked == 0


def test_a_user_needs_a_running_system(score: Score, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["score", "answers.jsonl", "--user", "openai/x"])
    assert stop.value.code == 1
    assert "--user talks to a running system" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["converse", "--endpoint", "http://127.0.0.1:1"])
    assert "`converse` is now `ragtasks score --endpoint ADDRESS --user JUDGE`" in capsys.readouterr().err


@pytest.mark.slow
def test_an_evaluation_file_names_a_user(user: ScriptedUser, benchmark: Benchmark, score: Score) -> None:
    user.noise = 0
    with (system := ScriptedSystem(benchmark, complete)).running():
        content = {
            "endpoint": json.loads(system.named()),
            "user": json.loads(user.named(seed=2)),
            "data": "sample",
            "options": {"encoder": "none", "max_implausible": 1},
            "output": "results",
            "report": {"html": None},
        }
        Path("evaluation.yaml").write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(SystemExit) as stop:
            main(["eval", "evaluation.yaml", "--no-probe"])
    assert not stop.value.code
    assert all(need["met"] for need in needs())
    (evaluation,) = read_evaluations([Path("results")])
    assert next(iter(evaluation.provenance.values()))["history"]["user"]["seed"] == 2


NEEDS = (
    task_of("Who built the bridge?", "Ann Harrow built it in 1874."),
    task_of("How long is it?", "It has 300 metres."),
)
TALK = (
    ChatMessage("user", "Who built the bridge over the river?"),
    ChatMessage("assistant", "It was built in 1874."),
)


def situation(at: int = 0, messages: tuple[ChatMessage, ...] = TALK) -> Situation:
    """Return that of a user who has asked about the first need, and goes on to the second where it is met."""
    met = Step(Next.ASK, 1) if at == 0 else Step(Next.ASK, 0)
    return Situation(NEEDS, at, messages, "plainly", met, Step(Next.STAY, 0))


def reply_of(where: Situation, message: str, **labels: str) -> str:
    code = where.prompt(0).messages[-1].content.split("[")[1].split()[0]
    given = {"met": "yes", "wrong": "no", "contradicts": "no", **labels} if where.at >= 0 else {}
    return json.dumps({"id": code, **given, "message": message})


@pytest.mark.parametrize(
    ("message", "labels", "problem"),
    [
        ("And how long is the bridge?", {}, ""),
        ("Who was that builder, please?", {"met": "no"}, ""),
        ("And how long is it: 300 metres?", {}, "the message gives the expected answer away"),
        ("Thanks a lot!", {}, "the message has no word of what it should ask about"),
        ("Thanks, and the rest?", {"met": "no"}, ""),
        ("who built the BRIDGE over the river", {"met": "no"}, "the message repeats an earlier one word for word"),
        ("It was built in 1874.", {"met": "no"}, ""),
        (" ", {}, '"message" is no text, or empty'),
        ("And how long is the bridge?", {"met": "maybe"}, '"met" is neither yes nor no'),
        ("And how long is the bridge?", {"wrong": "maybe"}, '"wrong" is neither yes nor no'),
    ],
)
def test_a_message_that_no_user_should_send_is_refused(message: str, labels: dict[str, str], problem: str) -> None:
    where = situation()
    assert where.problem(reply_of(where, message, **labels)) == problem


def test_only_a_message_that_can_be_sent_is_kept_in_the_cache_of_replies() -> None:
    where = situation()
    prompt = where.prompt(1)
    good = reply_of(where, "And how long is the bridge?", met="yes", wrong="no", contradicts="no")
    assert prompt.is_readable(good)
    assert not prompt.is_readable(good.replace("yes", "perhaps"))


def test_what_a_user_made_of_an_answer_is_read_and_an_opening_has_nothing_to_judge() -> None:
    where = situation()
    found = where.read(reply_of(where, " And how long is the bridge? ", met="Yes", wrong="no", contradicts="yes"))
    assert (found.message, found.met, found.wrong, found.contradicts) == (
        "And how long is the bridge?",
        True,
        False,
        True,
    )
    opening = situation(-1, ())
    found = opening.read(reply_of(opening, "Who built the bridge?"))
    assert (found.met, found.wrong, found.contradicts) == (None, None, None)


def conversation(*met: bool | None, at: int, n_exchanges: int = 1, n_turns: int = 1, **changed: Any) -> _Conversation:
    """Return a conversation whose user asked about the need at a place so often, of two needs with these labels."""
    needs = [_Need(task, met=label) for task, label in zip(NEEDS, met, strict=True)]
    if at >= 0:
        needs[at].exchanges += [{"user": "x"}] * n_exchanges
    config = UserConfig(model=endpoint_of("openai/x"), turns=6, patience=2)
    made = _Conversation("c", needs, "terse", config, frozenset(), "", [], at=at, n_turns=n_turns)
    for name, value in changed.items():
        setattr(made, name, value)
    return made


END, ASK, STAY = Next.END, Next.ASK, Next.STAY


@pytest.mark.parametrize(
    ("of", "met", "expected"),
    [
        (conversation(None, None, at=-1), False, Step(ASK, 0)),
        (conversation(None, None, at=0), True, Step(ASK, 1)),
        (conversation(None, None, at=0, n_exchanges=2), False, Step(STAY, 0)),
        (conversation(None, None, at=0, n_exchanges=3), False, Step(ASK, 1)),
        (conversation(None, None, at=0, n_exchanges=3, n_given_up=1), False, Step(END, why="out of patience")),
        (conversation(True, None, at=1), True, Step(END, why="satisfied")),
        (conversation(False, None, at=1), True, Step(END, why="finished")),
        (conversation(True, None, at=1, n_exchanges=3), False, Step(END, why="finished")),
        (conversation(None, None, at=0, n_turns=5), False, Step(STAY, 0)),
        (conversation(None, None, at=0, n_turns=6), True, Step(END, why="out of turns")),
        (conversation(True, None, at=1, n_turns=6), True, Step(END, why="satisfied")),
    ],
)
def test_what_a_user_does_next_follows_from_its_turns_and_its_patience(
    of: _Conversation, met: bool, expected: Step
) -> None:
    assert of.step(met=met) == expected


def test_a_need_that_is_met_gives_the_user_new_patience() -> None:
    talk = conversation(None, None, at=0, n_given_up=1, messages=list(TALK))
    talk.take_turn(_UserReply(UserTurn("And how long is it?", met=True, wrong=False, contradicts=True), (), ()))
    assert (talk.needs[0].met, talk.n_given_up, talk.at, talk.n_turns) == (True, 0, 1, 2)
    assert talk.needs[0].exchanges[-1]["contradicts"] is None, "with one answer there is none to contradict"
    assert talk.needs[1].opening[-1].text == "And how long is it?"
    assert len(talk.needs[1].opening) == 3


def test_a_user_is_satisfied_only_where_every_need_before_was_met() -> None:
    config = UserConfig(model=endpoint_of("openai/x"), turns=9, patience=2)
    for met, why in (((True, False), "finished"), ((False, True), "finished"), ((True, True), "satisfied")):
        needs = [*(_Need(NEEDS[0], met=label) for label in met), _Need(NEEDS[1])]
        made = _Conversation("c", needs, "terse", config, frozenset(), "", [], at=2, n_turns=3)
        assert made.step(met=True) == Step(END, why=why)


def test_what_was_said_to_a_need_is_one_answer_with_its_passages_and_calls() -> None:
    talk = conversation(True, None, at=1, persona="terse", end="out of turns")
    talk.needs[1].task = replace(NEEDS[1], task_id="c<::>2")
    first, second = Passage("p", "one"), Passage("q", "two")
    call = {"input_tokens": 3}
    talk.needs[0].answers = [
        GivenAnswer("A.", (first,), usage={"calls": [call]}),
        GivenAnswer("B.", (first, second), usage={"calls": [call, call]}),
    ]
    talk.needs[0].exchanges = [{"user": "x", "answer": "A."}, {"user": "y", "answer": "B."}]
    talk.needs[0].opening = (Message(Role.USER, "x"),)
    talk.needs[0].calls = [{"output_tokens": 5}]
    met, left = (talk.given()[need.task.task_id] for need in talk.needs)
    about = {"persona": "terse", "end": "out of turns", "by": "openai/x"}
    assert met == GivenAnswer(
        "A.\n\nB.",
        (first, second),
        usage={"calls": [call, call, call]},
        need={
            **about,
            "met": True,
            "turns": 2,
            "exchanges": talk.needs[0].exchanges,
            "calls": [{"output_tokens": 5}],
        },
        messages=(Message(Role.USER, "x"),),
    )
    assert left == GivenAnswer(
        "",
        no_answer="not asked: the user had left (out of turns)",
        need={**about, "met": False, "turns": 1, "exchanges": [{"user": "x"}]},
    )


def test_a_need_that_a_broken_conversation_leaves_open_has_no_answer_with_the_reason() -> None:
    talk = conversation(None, None, at=0, end="broken", reason="no reply")
    found = talk.given()[NEEDS[0].task_id]
    assert (found.no_answer, found.need["met"]) == ("the conversation broke off: no reply", None)


def test_what_a_user_is_asked_says_how_it_writes_and_a_second_time_what_was_wrong() -> None:
    asked = conversation(None, None, at=0, messages=list(TALK)).situation()
    first = asked.prompt(7)
    assert PERSONAS["terse"] in first.messages[-1].content
    assert (first.kind, first.key_parts, first.earlier) == ("user", ("seed 7",), ())
    second = asked.prompt(7, (first, Reply(Outcome.ANSWERED, "?"), "it was no JSON"))
    assert "it was no JSON" in second.messages[-1].content
    assert "it was no JSON" not in first.messages[-1].content
    assert second.earlier == ((first, Reply(Outcome.ANSWERED, "?")),)


def test_with_two_answers_the_last_may_contradict_the_first() -> None:
    messages = [*TALK, ChatMessage("user", "And how long is it?"), ChatMessage("assistant", "In 1900.")]
    talk = conversation(True, None, at=1, messages=messages)
    talk.take_turn(_UserReply(UserTurn("", met=True, wrong=True, contradicts=True), (), ()))
    assert talk.needs[1].exchanges[-1] == {"user": "x", "met": True, "wrong": True, "contradicts": True}
    assert talk.end == "satisfied"


def test_conversations_begin_as_the_benchmark_s_do_up_to_the_first_task(benchmark: Benchmark) -> None:
    config = user_of({"model": "openai/m", "personas": ["terse", "verbose"], "seed": 3})
    found = {item.name: item for item in _conversations(benchmark, EvaluationConfig(), config)}
    assert {item.persona for item in found.values()} == {"terse", "verbose"}
    again = {item.name: item.persona for item in _conversations(benchmark, EvaluationConfig(), config)}
    assert again == {name: item.persona for name, item in found.items()}
    for name, item in found.items():
        tasks = [need.task for need in item.needs]
        assert {task.conversation_id for task in tasks} == {name}
        assert [task.turn for task in tasks] == sorted(task.turn for task in tasks)
        assert item.messages == [ChatMessage(one.role.value, one.text) for one in tasks[0].messages[:-1]]
        assert item.end_of_thinking == "</think>"
    assert item.request() == {
        "id": f"{item.name}/user-0",
        "messages": [{"role": one.role, "content": one.content} for one in item.messages],
    }


def test_the_form_of_a_reply_asks_for_labels_once_there_is_an_answer() -> None:
    opening = situation(-1, ()).prompt(1).messages[-1].content
    later = situation(0).prompt(1).messages[-1].content
    assert '"contradicts"' not in opening
    assert '"contradicts"' in later


def test_a_word_of_just_one_conversation_in_five_is_not_common() -> None:
    others = [[task_of(f"thing{number} {number}", "none")] for number in range(10)]
    assert "bridge" not in common_words([*others[:8], *[[task_of("bridge", "none")]] * 2])
    assert "bridge" in common_words([*others[:7], *[[task_of("bridge", "none")]] * 3])


def messages_sent(n_needs: int, config: UserConfig, met: Callable[[], bool]) -> int:
    """Return how many messages a user sends whose needs are met as chance will have it."""
    needs = [_Need(task_of("q", "t")) for _ in range(n_needs)]
    made = _Conversation("c", needs, "terse", config, frozenset(), "</think>", [])
    while not made.end:
        made.take_turn(_UserReply(UserTurn("m", met=met()), (), ()))
        if not made.end:
            made.take_answer(GivenAnswer("a"))
    return made.n_turns


@pytest.mark.parametrize("patience", [0, 1, 2, 3])
@pytest.mark.parametrize("turns", [3, 20])
def test_the_planned_messages_bound_every_conversation(benchmark: Benchmark, patience: int, turns: int) -> None:
    config = user_of({"model": "openai/m", "patience": patience, "turns": turns})
    planned = planned_messages(benchmark, EvaluationConfig(), config)
    assert (len(planned), sum(n for n, _, _ in planned)) == (16, 108)
    chance = random.Random(1)
    for n_needs, least, most in sorted(set(planned)):
        sent = {messages_sent(n_needs, config, lambda share=share: chance.random() < share)
                for share in (0.1, 0.5, 0.9) for _ in range(50)}  # fmt: skip
        assert least <= min(sent) <= max(sent) <= most
        tries = iter(range(10**6))
        assert messages_sent(n_needs, config, lambda it=tries: next(it) % (patience + 1) == 0) == most
        assert least in {messages_sent(n_needs, config, lambda always=always: always) for always in (True, False)}


def test_a_dry_run_plans_the_user_s_conversations_and_no_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    user = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "patience": 2}
    file = {"endpoint": "http://127.0.0.1:9", "data": "sample", "user": user, "options": {"encoder": "none"}}
    Path("evaluation.yaml").write_text(json.dumps(file))
    with pytest.raises(SystemExit) as stop:
        main(["eval", "evaluation.yaml", "--dry-run"])
    out = capsys.readouterr().out
    assert not stop.value.code
    assert "## Prompts" not in out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("| ")]
    assert rows[1:] == [
        ["conversations", "16", "16"],
        ["needs", "108", "108"],
        ["requests to the system", "95", "307"],
        ["replies of the user", "111", "646"],
    ]
