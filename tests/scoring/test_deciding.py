"""Judges get requests until a decision between saved systems, and no more; cached verdicts are not requested again."""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import ragtasks
from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.cli import app
from ragtasks.errors import ConfigurationError, JudgeError, RagtasksError
from ragtasks.files import canonical_hash
from ragtasks.reports.outcome import decision_text
from ragtasks.results import read_evaluations
from ragtasks.scoring import Folders, RaceOptions
from ragtasks.scoring import decide as decide_between
from ragtasks.scoring._deciding import _require_verdicts
from ragtasks.suites import suite_named
from tests.clients._server import Action, ChatServer, Script, chat_server, completion, refusal
from tests.judges._demo import QUICK

GOOD, POOR = "The reply is sound.", "The reply is poor."
_RATING = re.compile(r"Rating [0-9a-f]+: ")
Ratings = Callable[[str], int]
"""Prompt -> rating from 1 to 10."""


def by_word(prompt: str) -> int:
    """Return a noisy rating, better for answers of the good system."""
    return random.Random(prompt).choice((7, 8, 9, 10) if GOOD in prompt else (1, 2, 3, 4))


def coin(prompt: str) -> int:
    return random.Random(prompt).choice((2, 5, 9))


def rating(of: Ratings) -> Script:
    def reply(prompt: str, _: int) -> Any:
        code = re.findall(r"\b[0-9a-f]{8}\b", prompt)[-1]
        if _RATING.search(prompt) or "Rating" in prompt:
            return completion(f"Counted.\nRating {code}: {of(prompt)}")
        if "Verdict" in prompt:
            return completion(f"Verdict {code}: no")
        if '"supported"' in prompt:
            return completion(json.dumps({"id": code, "supported": {"1": "yes"}}))
        return completion(json.dumps({"id": code, "statements": ["One statement."]}))

    return reply


def served(action: Action, model: str) -> Action:
    return replace(action, body=json.dumps({**json.loads(action.body), "model": model}).encode())


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for results that several tests copy."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def saved(tmp_path: Path, made: Path) -> Callable[..., Path]:
    """Make results of a system that answers the sample's first questions with the target and a sentence."""

    def make(
        name: str, sentence: str, tasks: slice = slice(None), answer: str = "", setting: str = "reference"
    ) -> Path:
        benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", tmp_path))
        first = [task for task in benchmark.tasks if task.turn == 1][tasks]
        rows = [{"task_id": task.task_id, "answer": answer or f"{task.target} {sentence}"} for task in first]
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        output, first_output = tmp_path / name, made / canonical_hash([rows, name, setting])
        options = [
            "--data",
            "sample",
            "--encoder",
            "none",
            "--setting",
            setting,
            "--name",
            name,
            "--metadata",
            "max_implausible=1",
        ]
        if not first_output.exists():
            done = CliRunner().invoke(app, ["score", str(file), *options, "--output", str(first_output)])
            assert done.exit_code == 0, done.output
        shutil.copytree(first_output, output, dirs_exist_ok=True)
        return output

    return make


@pytest.fixture
def judge() -> Iterator[Callable[[Ratings], tuple[ChatServer, str]]]:
    """Start a judge that rates by a script; return the server and its options."""
    from contextlib import ExitStack

    with ExitStack() as running:

        def start(of: Ratings | Script, *, is_script: bool = False) -> tuple[ChatServer, str]:
            server = running.enter_context(chat_server(of if is_script else rating(of)))  # type: ignore[arg-type]
            return server, json.dumps({"model": "scripted", "base_url": server.base_url, **QUICK})

        yield start


def decide(*arguments: object) -> str:
    command = ["compare", *map(str, arguments), "--metric", "rb_llm"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_clear_difference_needs_part_of_the_requests_and_a_repeated_call_none(saved: Any, judge: Any) -> None:
    good, poor = saved("good", GOOD), saved("poor", POOR)
    server, named = judge(by_word)
    text = decide(poor, good, "--judge", named)
    assert "good is better than poor in rb_llm\n" in text
    assert "10 of 16 tasks, decided: good minus poor: +0." in text
    assert re.search(r"\nrequested: 40 verdicts of scripted, on 20 of 32 answers \(62 %\) in reference\n", text)
    assert "\nnot judged: 12 answers (38 %), on 6 of 16 tasks\n" in text
    n_asked = len(server.asked)
    assert n_asked == 40  # the IDK verdict and the rating; clarification is not judged here
    assert len(set(server.asked)) == n_asked
    again = decide(poor, good, "--judge", named)
    assert len(server.asked) == n_asked
    assert again.partition("good is better")[2] == text.partition("good is better")[2]


@pytest.mark.slow
def test_the_rules_can_detect_refusals_so_that_judges_only_rate(saved: Any, judge: Any) -> None:
    good, poor = saved("good", GOOD), saved("poor", POOR)
    server, named = judge(by_word)
    assert "\nrequested: 20 verdicts of scripted, on 20 of 32 answers" in decide(
        poor, good, "--judge", named, "--metadata", "idk=ngrams"
    )
    assert len(server.asked) == 20
    done = CliRunner().invoke(app, ["compare", str(poor), str(good), "--metadata", "idk=ngrams"])
    assert (done.exit_code, "--metadata is used with --judge only" in str(done.exception)) == (1, True)


@pytest.mark.slow
@pytest.mark.parametrize("idk", ["judges", "ngrams"])
def test_settled_answers_are_not_counted_as_requested(saved: Any, judge: Any, idk: str) -> None:
    good, refusing = saved("good", GOOD), saved("refusing", "", answer="I do not know.")
    server, named = judge(by_word)
    given = {"judges": [json.loads(named)], "skip_settled": True, "encoder": "none", "data": "sample"}
    given |= {"idk": "ngrams"} if idk == "ngrams" else {}
    folders = Folders(Path("data"), Path("runs"))
    found = decide_between([refusing, good], given, RaceOptions("rb_llm"), Path("decided"), folders)
    assert found.n_verdicts == len(server.asked) > 0
    assert found.n_settled == (found.n_asked["good"] if idk == "ngrams" else 0)
    assert found.n_asked["refusing"] == (0 if idk == "ngrams" else found.n_asked["good"])
    assert ("settled without a judge: 10 more" in decision_text(found)) == (idk == "ngrams")


@pytest.mark.slow
def test_judged_answers_are_saved_as_results_and_listed_in_a_file(saved: Any, judge: Any, tmp_path: Path) -> None:
    good, poor = saved("good", GOOD), saved("poor", POOR)
    decide(poor, good, "--judge", judge(by_word)[1])
    found = json.loads((tmp_path / "decided" / "decision.json").read_text())
    assert found["question"] == {
        **{"systems": ["poor", "good"], "metric": "rb_llm", "setting": "reference", "judges": ["scripted"]},
        **{"margin": 0.05, "seed": 0, "level": 0.05, "is_gate": False, "answers": found["question"]["answers"]},
    }
    assert len(found["question"]["answers"]) == 2
    assert (found["verdict"], found["reason"], found["left"]) == ("better", "", ["good"])
    assert (len(found["asked"]), len(found["not_asked"])) == (10, 6)
    for file in (tmp_path / "decided").rglob("results_*.json"):
        counts = json.loads(file.read_text())["n-samples"].values()
        assert sum(count["effective"] for count in counts) == 10, "what was asked, and not what there is"
        assert sum(count["original"] for count in counts) == 16
    for evaluation in read_evaluations([tmp_path / "decided"]):
        assert {row.task.task_id for row in evaluation.rows} == set(found["asked"])
        assert all(row.values["rb_llm"] is not None for row in evaluation.rows)


def test_reports_and_comparisons_state_that_the_judging_stopped_early(saved: Any, judge: Any) -> None:
    decide(saved("poor", POOR), saved("good", GOOD), "--judge", judge(by_word)[1])
    stopped = "10 of 16 tasks were judged, without rl_f, until a decision: good is better than poor"
    first = CliRunner().invoke(app, ["report", "decided"], catch_exceptions=False)
    assert "Missing tasks: not comparable with complete evaluations" in first.output
    for command, opening in (("report --full", "Partial judging of "), ("compare", "good: ")):
        done = CliRunner().invoke(app, [*command.split(), "decided"], catch_exceptions=False)
        assert opening in done.output
        assert stopped in done.output


def test_judges_get_only_the_rubrics_of_the_deciding_metric(saved: Any, judge: Any, tmp_path: Path) -> None:
    server, named = judge(by_word)
    text = decide(saved("poor", POOR), saved("good", GOOD), "--judge", named)
    assert "not requested: rl_f, which rb_llm does not use" in text
    assert not any('"statements"' in prompt for prompt in server.asked)
    for evaluation in read_evaluations([tmp_path / "decided"]):
        assert {row.values["rl_f"] for row in evaluation.rows} == {None}
        assert {row.unscored["rl_f"] for row in evaluation.rows} == {"not sent to judges: rb_llm decides"}


def test_every_judged_metric_of_a_suite_names_its_rubrics() -> None:
    for name in ("mtrag", "mtrag_s", "multidoc2dial", "multihop_rag", "rows", "trec_rag24", "trec_rag25"):
        suite = suite_named(name)
        asked = {rubric.name for rubric in suite.rubrics()}
        for metric in suite.metrics:
            if metric.needs_judges and metric.name != "judge_coverage":
                assert metric.rubrics & asked, f"{name}: {metric.name}"


def test_a_random_judge_decides_nothing(saved: Any, judge: Any) -> None:
    text = decide(saved("one", GOOD), saved("two", POOR), "--judge", judge(coin)[1])
    assert "cannot decide which of one and two is better in rb_llm" in text
    assert "with less than 80 % power" in text
    assert "is better than" not in text


def test_without_a_metric_the_first_judged_metric_decides(saved: Any, judge: Any) -> None:
    good, poor = saved("good", GOOD), saved("poor", POOR)
    command = ["compare", str(good), str(poor), "--judge", judge(by_word)[1]]
    assert "good is better than poor in rb_llm\n" in CliRunner().invoke(app, command, catch_exceptions=False).output


def test_three_systems_race_for_the_best(saved: Any, judge: Any) -> None:
    folders = [saved(name, text) for name, text in (("good", GOOD), ("poor", POOR), ("odd", "The reply is odd."))]
    text = decide(*folders, "--judge", judge(by_word)[1])
    assert "good is better than each of the others in rb_llm" in text
    assert re.search(r"\| poor .* out after 1\d tasks: 0\.\d+ behind good", text)
    assert re.search(r"\| good .* best ", text)


def test_one_of_several_settings_is_decided_over_its_shared_tasks(saved: Any, judge: Any) -> None:
    _, named = judge(by_word)
    good, poor = saved("good", GOOD), saved("poor", POOR)
    saved("good", POOR, slice(0, 11), setting="full_rag")
    saved("poor", GOOD, slice(0, 11), setting="full_rag")
    with pytest.raises(ConfigurationError, match=r"2 settings \(full_rag, reference\).*--metadata setting"):
        decide(poor, good, "--judge", named)
    text = decide(poor, good, "--judge", named, "--metadata", "setting=full_rag")
    assert "poor is better than good in rb_llm\n" in text
    assert "10 of 11 tasks" in text


def test_an_interrupted_race_continues_in_its_folder(saved: Any, judge: Any) -> None:
    good, poor = saved("good", GOOD), saved("poor", POOR)
    broken, answered = {"is": True}, set()
    rate = rating(by_word)

    def sometimes(prompt: str, n: int) -> Any:
        if broken["is"] and len(answered) >= 20:
            return refusal(401, "no key")
        answered.add(prompt)
        return rate(prompt, n)

    server, named = judge(sometimes, is_script=True)
    named = json.dumps(json.loads(named) | {"slots": 4})
    with pytest.raises(RagtasksError, match=r"(?s)saved in decided"):
        decide(good, poor, "--judge", named)
    before = set(answered)
    server.asked.clear()
    broken["is"] = False
    assert "good is better than poor" in decide(good, poor, "--judge", named)
    assert len(before & set(server.asked)) < 4  # in flight when the judge was lost


def test_a_decision_with_other_options_replaces_scores_only_with_force(saved: Any, judge: Any) -> None:
    good, poor, named = saved("good", GOOD), saved("poor", POOR), judge(by_word)[1]
    decide(good, poor, "--judge", named)
    with pytest.raises(ConfigurationError, match="--force"):
        decide(good, poor, "--judge", named, "--metadata", "margin=0.2")
    decide(good, poor, "--judge", named, "--metadata", "margin=0.2", "--force")


@pytest.mark.slow
def test_a_constant_or_silent_judge_decides_nothing(saved: Any, judge: Any) -> None:
    good, poor = saved("good", GOOD), saved("poor", POOR)
    with pytest.raises(JudgeError, match="gives every answer the same rb_llm"):
        decide(good, poor, "--judge", judge(lambda _: 7)[1])
    raw = ["--judge", judge(lambda _: 7)[1], "--metric", "rb_llm_raw", "--output", "raw"]
    with pytest.raises(JudgeError, match="gives every answer the same rb_llm"):
        CliRunner().invoke(app, ["compare", str(good), str(poor), *raw], catch_exceptions=False)
    with pytest.raises(JudgeError, match=r"(?s)scripted, rb_llm.*found: 0 of 20 \(unparsable"):
        decide(good, poor, "--judge", judge(lambda *_: completion("Nice."), is_script=True)[1], "--output", "never")


def test_a_judge_with_more_than_one_unparsable_reply_in_twenty_decides_nothing(saved: Any, judge: Any) -> None:
    good, poor = saved("good", GOOD), saved("poor", POOR)
    for index, reply in enumerate(("Die Antwort ist gut. Bewertung: sieben von zehn.", "Fine.\nRating 0badc0de: 7")):
        named = judge(lambda *_, reply=reply: completion(reply), is_script=True)[1]
        with pytest.raises(JudgeError, match=r"(?s)scripted, rb_llm.*of the requested verdicts.*unparsable"):
            decide(good, poor, "--judge", named, "--output", f"out{index}")
    rate = rating(by_word)

    def but_one(prompt: str, n: int) -> Action:
        is_lost = "Rating" in prompt and "At their closest" in prompt and GOOD in prompt
        return completion("Nice.") if is_lost else rate(prompt, n)

    text = decide(poor, good, "--judge", judge(but_one, is_script=True)[1], "--output", "one missing")
    assert "11 of 16 tasks, decided" in text
    assert "10 tasks of 10 conversations, 1 without a score" in text


@pytest.mark.parametrize("share", [0.94, 0.5, 0.15])
def test_a_judge_that_leaves_out_more_than_1_verdict_in_20_decides_nothing(
    saved: Any, judge: Any, share: float
) -> None:
    """This holds however far apart the systems are in the remaining verdicts: 94 % of them may be missing."""
    good, poor = saved("good", GOOD), saved("poor", POOR)
    rate, n_seen = rating(by_word), itertools.count()

    def sometimes(prompt: str, n: int) -> Action:
        is_rating = "Rating" in prompt
        is_lost = is_rating and n == 0 and int((index := next(n_seen)) * share) < int((index + 1) * share)
        if is_lost:
            lost.add(prompt)
        return completion("Nice.") if prompt in lost or any(one in prompt for one in lost) else rate(prompt, n)

    lost: set[str] = set()
    with pytest.raises(JudgeError, match=r"(?s)scripted, rb_llm.*at least 95% of the requested verdicts"):
        decide(good, poor, "--judge", judge(sometimes, is_script=True)[1])
    content = json.loads(Path("decided/decision.json").read_text())
    assert (content["verdict"], content["asked"]) == (None, [])


def verdicts(**counts: int) -> Any:
    """Return an answer with a number of verdicts of one judge, by outcome."""
    rows = [
        {"judge": "j", "rubric": "rb_llm", "outcome": outcome.replace("_", " "), "value": value, "reason": "r",
         "served_model": "m"}
        for outcome, n in counts.items()
        for value in ([None] * n if outcome != "given" else [index / n for index in range(n)])
    ]  # fmt: skip
    return {(0, 0, 0): (SimpleNamespace(verdicts=rows), None)}


@pytest.mark.parametrize(
    ("counts", "is_enough"),
    [
        ({"given": 95, "unparsable": 5}, True),
        ({"given": 94, "unparsable": 6}, False),
        ({"given": 6, "unparsable": 94}, False),
        ({"no_statements": 95, "failed": 5}, True),
        # Answers without requests do not compensate for missing verdicts.
        ({"given": 3, "unparsable": 3, "settled": 994}, False),
        ({"given": 3, "unparsable": 3, "not_asked": 994}, False),
        ({"given": 3, "unparsable": 1, "settled": 10}, True),
        ({"settled": 10}, True),
    ],
)
def test_missing_verdicts_are_counted_among_the_requested_ones(
    counts: dict[str, int], is_enough: bool, tmp_path: Path
) -> None:
    config = SimpleNamespace(min_judge_coverage=0.95)
    pool: Any = SimpleNamespace(
        evaluations=[SimpleNamespace(tasks=[SimpleNamespace(config=config)])],
        judges=("j",),
        metric=SimpleNamespace(name="rb_llm"),
        systems={"a": {}, "b": {}},
        conversation_of=dict.fromkeys(map(str, range(500)), "c"),
    )
    if is_enough:
        _require_verdicts(pool, verdicts(**counts), tmp_path)
        return
    n_asked = sum(n for outcome, n in counts.items() if outcome not in {"settled", "not_asked"})
    with pytest.raises(JudgeError, match=f"found: {counts['given']} of {n_asked} "):
        _require_verdicts(pool, verdicts(**counts), tmp_path)


def test_a_judge_that_changes_its_model_during_the_run_decides_nothing(saved: Any, judge: Any) -> None:
    good, poor = saved("good", GOOD), saved("poor", POOR)
    rate, n = rating(coin), itertools.count()
    named = judge(lambda *asked: served(rate(*asked), "old" if next(n) < 30 else "new"), is_script=True)[1]
    with pytest.raises(JudgeError, match=r"scripted was served by 2 models, old \(\d+ verdicts\), new"):
        decide(good, poor, "--judge", named)


def test_incomparable_systems_cost_no_request(saved: Any, judge: Any) -> None:
    server, named = judge(by_word)
    good, poor = saved("good", GOOD), saved("poor", POOR)
    first, last = saved("first", POOR, slice(0, 8)), saved("last", GOOD, slice(8, 16))
    for folders, text in (
        ((good, saved("same", GOOD)), "the same answer, word for word, to all 16 tasks"),
        ((first, last), "no task in common"),
        ((good, first), "fewer than 10 conversations"),
        ((good,), "answers of two systems or more"),
        ((good, poor, "--metadata", "setting=full_rag"), "reference"),
        ((good, poor, "--metadata", "margin=0"), "margin 0"),
        ((good, poor, "--metadata", "margin=much"), "margin: expected a number"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            decide(*folders, "--judge", named)
    for options, text in (
        (("--judge", named, "--baseline", "good"), "--baseline"),
        (("--judge", named, "--metric", "rouge_l"), "needs no judge"),
        (("--judge", named, "--metric", "rb_lm"), "rb_llm"),
        (("--judge", named, "--metric", "rl_f", "--metric", "rb_llm"), "at most one --metric"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            CliRunner().invoke(app, ["compare", str(good), str(poor), *options], catch_exceptions=False)
    assert server.asked == []


@pytest.mark.parametrize(
    ("make", "expected", "found"),
    [
        (lambda saved: [saved("good", GOOD)], "answers of two systems or more", "good"),
        (
            lambda saved: [saved("good", GOOD), saved("same", GOOD)],
            "systems that differ",
            "the same answer, word for word, to all 16 tasks",
        ),
        (
            lambda saved: [saved("first", POOR, slice(0, 8)), saved("last", GOOD, slice(8, 16))],
            "tasks that all systems answered",
            "no task in common",
        ),
    ],
)
def test_an_impossible_decision_is_reported_in_full(
    saved: Any, make: Callable[[Any], list[Path]], expected: str, found: str
) -> None:
    folders = make(saved)
    given = {"judges": [{"model": "never", "base_url": "http://127.0.0.1:9"}], "encoder": "none"}
    with pytest.raises(ConfigurationError) as caught:
        decide_between(folders, given, RaceOptions("rb_llm"), Path("decided"), Folders(Path("data"), Path("runs")))
    assert str(caught.value) == (
        f"comparison: {', '.join(map(str, folders))}\n"
        f"  expected: {expected}\n"
        f"  found: {found}\n"
        "  next step: name the results of two different systems on the same tasks; no request was sent to judges"
    )


def test_answers_to_other_data_are_not_compared(saved: Any) -> None:
    folders = [saved("good", GOOD), saved("poor", POOR)]
    (file,) = folders[1].rglob("results_*.json")
    content = json.loads(file.read_text("utf-8"))
    for config in content["configs"].values():
        config["metadata"]["ragtasks"]["revision"] = "other"
    file.write_text(json.dumps(content), "utf-8")
    given = {"judges": [{"model": "never", "base_url": "http://127.0.0.1:9"}], "encoder": "none", "data": "sample"}
    with pytest.raises(ConfigurationError) as caught:
        decide_between(folders, given, RaceOptions("rb_llm"), Path("decided"), Folders(Path("data"), Path("runs")))
    assert f"comparison: {folders[0]}, {folders[1]}\n" in str(caught.value)
    assert "expected: answers to the same data\n" in str(caught.value)
    assert "mtrag (sample) (other, metrics: mtrag)" in str(caught.value) or "(other, metrics: mtrag)" in str(
        caught.value
    )


def test_a_raw_metric_cannot_decide_without_its_verdicts(saved: Any) -> None:
    folders = [saved("good", GOOD), saved("poor", POOR)]
    given = {
        "judges": [{"model": "never", "base_url": "http://127.0.0.1:9"}],
        "encoder": "none",
        "data": "sample",
        "skip_settled": True,
    }
    with pytest.raises(ConfigurationError) as caught:
        decide_between(folders, given, RaceOptions("rb_llm_raw"), Path("decided"), Folders(Path("data"), Path("runs")))
    assert str(caught.value) == (
        "metric 'rb_llm_raw' needs the verdicts that skip_settled leaves out. Next step: remove it, or decide by rb_llm"
    )


# The same for a gate.


def gate(*arguments: object, vouched: bool = True) -> tuple[int, str]:
    """Run the gate, in which the judge `scripted` may decide if it is vouched for."""
    if vouched:
        Path("vouched.yaml").write_text("gate: {anchored_judges: [scripted]}", encoding="utf-8")
        arguments += ("--config", "vouched.yaml")
    done = CliRunner().invoke(app, ["gate", *map(str, arguments)], catch_exceptions=False)
    return done.exit_code, done.output


@pytest.mark.slow
def test_a_gate_stops_at_worse_and_at_not_worse_with_its_exit_status(saved: Any, judge: Any) -> None:
    good, poor = saved("good", GOOD), saved("poor", POOR)
    server, named = judge(by_word)
    options = ("--margin", "rb_llm=0.3", "--judge", named)
    status, text = gate(poor, "--baseline", good, *options, "--output", "first")
    assert (status, "worse: poor lost more than 0.3 against good in rb_llm" in text) == (1, True), text
    assert "not judged: " in text
    n = len(server.asked)
    status, text = gate(good, "--baseline", poor, *options, "--output", "second")
    assert (status, "not worse: good lost less than 0.3 against poor in rb_llm" in text) == (0, True), text
    assert len(server.asked) == n


def test_a_gate_sends_no_request_for_an_unchanged_system_or_an_impossible_test(saved: Any, judge: Any) -> None:
    good, same, poor = saved("good", GOOD), saved("same", GOOD), saved("poor", POOR)
    server, named = judge(by_word)
    judged = ("--judge", named)
    status, text = gate(same, "--baseline", good, "--margin", "rb_llm=0.1", *judged)
    assert (status, "not worse: all answers are identical" in text) == (0, True), text
    for options, part in (
        (("--margin", "rb_llm=0.1", "--margin", "rl_f=0.1", *judged), "one metric of judges"),
        (("--margin", "rouge_l=0.1", *judged), "needs no judge calls"),
        (("--margin", "rb_llm=0.1", "--junit", "x.xml", *judged), "leave out --junit"),
    ):
        with pytest.raises(ConfigurationError, match=part) as error:
            gate(poor, "--baseline", good, *options)
        assert error.value.exit_status == 2
    assert server.asked == []


def test_a_gate_sends_no_request_to_a_judge_without_a_card(saved: Any, judge: Any) -> None:
    good, poor = saved("good", GOOD), saved("poor", POOR)
    server, named = judge(by_word)
    options = ("--baseline", good, "--margin", "rb_llm=0.3", "--judge", named)
    status, text = gate(poor, *options, vouched=False)
    assert (status, server.asked) == (3, [])
    assert "cannot say: no judge may decide: scripted, idk: no card; scripted, rb_llm: no card" in text


def test_a_gate_with_a_random_judge_stays_undecided(saved: Any, judge: Any) -> None:
    status, text = gate(
        *(saved("one", GOOD), "--baseline", saved("two", POOR), "--margin", "rb_llm=0.05"),
        *("--judge", judge(coin)[1]),
    )
    assert (status, "cannot decide whether one lost 0.05 against two in rb_llm" in text) == (3, True), text


# The same at the end of an evaluation, and from Python.


def test_a_new_evaluation_is_judged_against_saved_results_until_decided(saved: Any, judge: Any, tmp_path: Path) -> None:
    saved("poor", POOR)
    saved("good", GOOD)  # for its file of answers
    server, named = judge(by_word)
    file = tmp_path / "evaluation.yaml"
    content = {
        "data": "sample",
        "answers": {"file": "good.jsonl", "name": "mine"},
        "settings": ["reference"],
        "judges": [json.loads(named)],
        "options": {"encoder": "none"},
        "until_decided": {"against": "poor", "metric": "rb_llm"},
        "output": "results/mine",
        "report": {"html": None},
    }
    file.write_text(json.dumps(content), encoding="utf-8")
    done = CliRunner().invoke(app, ["eval", str(file), "--no-probe"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "mine is better than poor in rb_llm" in done.output
    assert len(server.asked) <= 10 * 2 * 3
    assert json.loads(Path("results/mine-decided/decision.json").read_text())["verdict"] == "better"
    file.write_text(json.dumps({**content, "until_decided": "none", "output": "results/other"}), encoding="utf-8")
    with pytest.raises(RagtasksError, match="none"):
        CliRunner().invoke(app, ["eval", str(file), "--no-probe"], catch_exceptions=False)
    assert not Path("results/other").exists()


def test_a_decision_from_python_prints_the_output_of_the_command(saved: Any, judge: Any) -> None:
    good, poor = saved("good", GOOD), saved("poor", POOR)
    named = judge(by_word)[1]
    found = ragtasks.compare_until_decided([good, poor], [json.loads(named)], metric="rb_llm")
    assert (found.verdict, found.better, found.decided.n_asked["good"]) == ("better", "good", 10)
    assert str(found) in decide(good, poor, "--judge", named)
    assert repr(found) == "<Decision: good is better than poor in rb_llm>"


def test_the_arena_fights_no_more_battles_than_a_decision_needs(saved: Any, judge: Any, tmp_path: Path) -> None:
    def better_of_two(prompt: str, _: int) -> Any:
        code = re.findall(r"\b[0-9a-f]{8}\b", prompt)[-1]
        return completion(f"Verdict {code}: {'A' if prompt.find(GOOD) < prompt.find(POOR) else 'B'}")

    server, named = judge(better_of_two, is_script=True)
    command = ["arena", "battle", str(saved("poor", POOR)), str(saved("good", GOOD)), "--judge", named]
    done = CliRunner().invoke(app, [*command, "--output", "votes.jsonl", "--until-decided"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "good is better than poor in win rate" in done.output
    (n, n_left) = map(
        int, re.findall(r"judged: (\d+) of 16 battles, each in both orders; not judged: (\d+)", done.output)[0]
    )
    assert (n + n_left, len(server.asked)) == (16, 2 * n)
    assert n_left
    assert len(Path("votes.jsonl").read_text().splitlines()) == n
    with pytest.raises(ConfigurationError, match="omit --max-battles"):
        CliRunner().invoke(
            app, [*command, "--output", "v.jsonl", "--until-decided", "--max-battles", "3"], catch_exceptions=False
        )
