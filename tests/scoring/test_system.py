"""Answers of the user's own system: their source, counts, and files on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark, benchmark_folder, build_doc, open_benchmark
from ragtasks.clients import no_secrets, system_endpoint
from ragtasks.config import EvaluationConfig
from ragtasks.errors import BenchmarkFileError, ConfigurationError, ImplausibleError, ModelError
from ragtasks.records import Answerability, Ending, Passage, Setting, ToolStep, Trajectory
from ragtasks.reports.outcome import score_notes
from ragtasks.results import GivenAnswer, own_rows, read_evaluations
from ragtasks.scoring import (
    Folders,
    ScoredSystem,
    System,
    SystemAnswers,
    SystemScores,
    ask_endpoint,
    request_body,
    rows_to_score,
    score_answers,
    system_to_score,
    take_failures,
)
from ragtasks.scoring._system import unfinished_file
from tests._messages import raises
from tests.clients._server import Action, ChatServer, Script, chat_server, completion, refusal
from tests.judges._demo import QUICK

OPTIONS = {"data": "sample", "encoder": "none", "max_implausible": 1.0}
PASSAGE = Passage("lending-02", "Power tools are lent for 5 days.")


@pytest.fixture(scope="module")
def sample() -> Benchmark:
    return open_benchmark("custom", benchmark_folder("custom", "sample", Path()).resolve())


def giving(given: Mapping[str, GivenAnswer]) -> Callable[..., Mapping[str, GivenAnswer]]:
    return lambda *_: given


def every(sample: Benchmark, answer: GivenAnswer) -> dict[str, GivenAnswer]:
    return {task.task_id: answer for task in sample.tasks}


def answers_of(
    given: Mapping[str, GivenAnswer], folders: Folders, output: Path, setting: Setting | None = None, **more: Any
) -> SystemAnswers:
    named = {"name": "my system", "benchmark": "custom", "source": output / "mine.jsonl", **more.pop("system", {})}
    options = {**OPTIONS, **more.pop("options", {})}
    system = ScoredSystem(setting=setting, **named)
    return system_to_score(system, giving(given), options, output, folders, **more)


def scored(given: Mapping[str, GivenAnswer], folders: Folders, output: Path, *more: Any, **named: Any) -> SystemScores:
    return score_answers(answers_of(given, folders, output, *more, **named), folders)


def test_every_type_of_answer_is_counted(sample: Benchmark, folders: Folders, tmp_path: Path) -> None:
    ids = [task.task_id for task in sample.tasks if task.answerability is not Answerability.CONVERSATIONAL]
    (talk,) = (task.task_id for task in sample.tasks if task.answerability is Answerability.CONVERSATIONAL)
    given = {
        ids[0]: GivenAnswer("For 5 days."),
        ids[1]: GivenAnswer("Half a florin.", (PASSAGE,)),
        ids[2]: GivenAnswer("Nobody says so.", ()),
        ids[3]: GivenAnswer("By post.", (PASSAGE,), trajectory=Trajectory((), Ending.ANSWERED, 1, 0)),
        ids[4]: GivenAnswer("", no_answer="HTTP 500"),
        talk: GivenAnswer("You are welcome."),
    }
    found = scored(given, folders, tmp_path, Setting.REFERENCE)
    assert (found.n_tasks, found.n_answers, found.n_failed) == (9, 4, 1)
    assert (found.n_own_contexts, found.n_without, found.n_searched) == (3, 1, 1)
    assert dict(found.missing) == {"workshop": 4}
    assert found.n_left_out == 1
    assert "left out: answers to conversational tasks, which do not count (1)" in list(score_notes(found))
    assert found.problems == ()
    assert (found.is_agentic, found.is_own_rows) == (False, False)
    assert found.max_implausible == 1.0
    assert [item.label for item in found.checked] == ["custom (sample) in reference"]
    rows = read_evaluations([tmp_path])[0].rows
    assert [row.task.task_id for row in rows] == ids[:5]
    talking = scored(given, folders, tmp_path / "talk", Setting.REFERENCE, options={"conversational": True})
    assert (talking.n_tasks, talking.n_answers) == (10, 5)


def test_answers_in_the_agentic_setting_are_scored_by_their_searches(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    step = ToolStep("search", {"query": "drill"}, 1, ("lending-02",), (), None)
    answer = GivenAnswer("For 5 days.", (PASSAGE,), trajectory=Trajectory((step,), Ending.ANSWERED, 1, 0))
    assert scored(every(sample, answer), folders, tmp_path, Setting.AGENTIC).is_agentic
    assert {row.setting for row in read_evaluations([tmp_path])[0].rows} == {"agentic"}


@pytest.mark.parametrize(
    ("name", "setting", "file"),
    [
        ("my system", None, "my-system/results_my-system-custom-full-rag-sample.json"),
        ("a/b_c.1", Setting.AGENTIC, "a-b-c.1/results_a-b-c.1-custom-agentic-sample.json"),
        ("..", Setting.REFERENCE, "system/results_system-custom-reference-sample.json"),
    ],
)
def test_results_are_named_by_system_benchmark_and_setting(
    folders: Folders, tmp_path: Path, name: str, setting: Setting | None, file: str
) -> None:
    given = {"loans-1<::>1": GivenAnswer("For 5 days.", (PASSAGE,))}
    found = answers_of(given, folders, tmp_path, setting, system={"name": name})
    assert found.file == tmp_path / file
    assert found.evaluation.folder == found.file.parent
    assert found.evaluation.source == tmp_path / "mine.jsonl"
    assert f"results_{found.evaluation.time}.json" == found.file.name
    assert found.evaluation.results["model_name"] == name


def test_without_a_setting_every_answer_must_name_its_contexts(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    given = every(sample, GivenAnswer("For 5 days.", ()))
    ids = list(given)
    given[ids[0]] = GivenAnswer("", no_answer="HTTP 500")
    found = answers_of(given, folders, tmp_path)
    assert found.contexts.setting is Setting.FULL_RAG
    given[ids[1]] = given[ids[2]] = GivenAnswer("For 5 days.")
    with raises(ConfigurationError):
        answers_of(given, folders, tmp_path)
    assert answers_of(given, folders, tmp_path, Setting.REFERENCE).contexts.setting is Setting.REFERENCE


def test_an_answer_without_contexts_has_the_passages_of_the_setting(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    given = {
        sample.tasks[0].task_id: GivenAnswer("For 5 days."),
        sample.tasks[1].task_id: GivenAnswer("Half a florin.", (replace(PASSAGE, passage_id="own"),)),
    }
    scored(given, folders, tmp_path, Setting.REFERENCE)
    rows = read_evaluations([tmp_path])[0].rows
    expected = [item.passage_id for item in sample.tasks[0].references]
    (file,) = tmp_path.rglob("samples_*.jsonl")
    docs = [json.loads(line)["doc"] for line in file.read_text().splitlines()]
    assert len(rows) == 2
    assert [[item["passage_id"] for item in doc["passages"]] for doc in docs] == [expected, ["own"]]


def test_existing_results_need_permission_unless_they_are_incomplete(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    given = every(sample, GivenAnswer("For 5 days.", (PASSAGE,)))
    file = scored(given, folders, tmp_path).file
    with pytest.raises(ConfigurationError, match="--force"):
        answers_of(given, folders, tmp_path)
    answers_of(given, folders, tmp_path, may_replace=lambda files: files == [file])
    unfinished_file(file).touch()
    answers_of(given, folders, tmp_path)
    assert scored(given, folders, tmp_path).file == file
    assert not unfinished_file(file).exists(), "everything is saved"


def test_replies_are_kept_with_the_results_until_all_are_scored(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    given = every(sample, GivenAnswer("For 5 days.", (PASSAGE,)))
    answers = answers_of(given, folders, tmp_path)
    file = unfinished_file(answers.file)
    assert file.name == "unfinished_my-system-custom-full-rag-sample.sqlite"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"replies")
    assert score_answers(answers, folders).problems == ()
    assert not file.exists()


@pytest.mark.parametrize(
    ("failed", "reason"),
    [
        ({"answer": "", "error": "no index yet", "contexts": []}, "an error in place of a reply: no index yet"),
        ({"answer": "Half of", "finish_reason": "SAFETY"}, "a content filter stopped the reply"),
        ({"answer": "Half of", "status": "failed"}, "an error in place of a reply: status failed"),
    ],
)
def test_an_error_of_the_system_itself_is_requested_again_by_the_same_command(
    folders: Folders, tmp_path: Path, failed: dict[str, Any], reason: str
) -> None:
    is_ready = False
    with chat_server(lambda text, _: said("For 5 days.") if is_ready or "drill" in text else said(**failed)) as server:
        found = score_answers(asked_of(server, folders, tmp_path), folders)
        assert (found.n_answers, found.n_failed) == (2, 7)
        assert found.problems[0].startswith(f"7 of 9 requests got no answer: {reason} (7 times)")
        is_ready, n_before = True, len(server.asked)
        again = score_answers(asked_of(server, folders, tmp_path, may_replace=lambda _: False), folders)
    assert (again.n_answers, again.n_failed, len(server.asked) - n_before) == (9, 0, 7)


def test_a_failure_is_a_problem_and_the_same_command_requests_only_missing_answers(
    folders: Folders, tmp_path: Path
) -> None:
    is_down = True

    def script(text: str, _: int) -> Action:
        return refusal(400, "broken") if is_down and "drill" not in text else said("For 5 days.")

    with chat_server(script) as server:
        found = score_answers(asked_of(server, folders, tmp_path), folders)
        assert (found.n_answers, found.n_failed) == (2, 7)
        (problem,) = found.problems
        assert problem.startswith("7 of 9 requests got no answer: ")
        assert "broken" in problem
        assert problem.endswith("(7 times). Next step: run the same command again: only these are requested")
        assert unfinished_file(found.file).exists()
        assert take_failures() == []
        is_down = False
        again = score_answers(asked_of(server, folders, tmp_path, may_replace=lambda _: False), folders)
        assert (again.n_answers, again.n_failed, again.problems) == (9, 0, ())
        assert len(server.asked) == 9 + 7
    assert not unfinished_file(again.file).exists()


def said(answer: str, **more: Any) -> Action:
    return Action(json.dumps({"answer": answer, **more}).encode())


def system_at(server: ChatServer, protocol: str = "plain", **endpoint: Any) -> System:
    return System(*system_endpoint({"base_url": server.base_url, **QUICK, **endpoint}, "mine", protocol), no_secrets)


def asked_of(
    server: ChatServer, folders: Folders, output: Path, setting: Setting = Setting.REFERENCE, **more: Any
) -> SystemAnswers:
    answering = ask_endpoint(system_at(server), setting, folders.run_store)
    system = ScoredSystem("mine", "custom", setting, output)
    return system_to_score(system, answering, OPTIONS, output, folders, **{"may_replace": lambda _: True, **more})


def test_a_system_is_sent_the_passages_of_a_setting_unless_it_retrieves(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    tasks = {task.task_id: task for task in sample.tasks}
    for setting in (Setting.REFERENCE, Setting.FULL_RAG, Setting.AGENTIC):
        with chat_server(lambda *_: said("For 5 days.")) as server:
            answers = asked_of(server, folders, tmp_path, setting)
        assert len(server.bodies) == 9, "conversational tasks are not asked"
        for body in server.bodies:
            task = tasks[body["id"]]
            assert body["messages"] == [{"role": item.role.value, "content": item.text} for item in task.messages]
            shown = [(item["id"], item["text"]) for item in body.get("contexts", [])]
            given = setting is Setting.REFERENCE
            assert ("contexts" in body) == given
            assert shown == ([(item.passage_id, item.text) for item in task.references] if given else [])
        assert list(answers.by_task) == [name for name in tasks if name in answers.by_task]
        assert {answer.passages for answer in answers.by_task.values()} == {None if given else ()}
        assert {answer.text for answer in answers.by_task.values()} == {"For 5 days."}


def test_each_task_has_the_answer_to_its_own_question(sample: Benchmark, folders: Folders, tmp_path: Path) -> None:
    with chat_server(lambda text, _: said(f"About {text}")) as server:
        answers = asked_of(server, folders, tmp_path)
    questions = {task.task_id: task.question for task in sample.tasks}
    assert {name: answer.text for name, answer in answers.by_task.items()} == {
        name: f"About {questions[name]}" for name in answers.by_task
    }


def test_a_chat_system_has_no_field_for_passages(folders: Folders) -> None:
    with chat_server(lambda *_: completion("x")) as server:
        system = system_at(server, "openai")
        assert not system.gives_passages(Setting.FULL_RAG)
        assert not system.gives_passages(Setting.AGENTIC)
        for setting in (Setting.REFERENCE, Setting.REFERENCE_RAG):
            assert system_at(server).gives_passages(setting)
            with raises(ConfigurationError):
                ask_endpoint(system, setting, folders.run_store)
        assert not system_at(server).gives_passages(Setting.FULL_RAG)


TASKS: list[dict[str, Any]] = [
    {"id": "a", "messages": [{"role": "user", "content": "How long?"}]},
    {"id": "b", "messages": [{"role": "user", "content": "How much?"}], "contexts": []},
]


def test_passages_searches_and_cost_reported_by_a_system_are_kept() -> None:
    contexts = [{"id": "p", "text": "Two days."}]
    searches = [{"query": "days", "passages": contexts}]
    replies: dict[str, Action] = {
        "How long?": said("Two days.", contexts=contexts, searches=searches, seconds=2.5),
        "How much?": said("Nothing."),
    }
    with chat_server(lambda text, _: replies[text]) as server:
        first, second = system_at(server).ask(TASKS)
    assert (first.text, first.no_answer) == ("Two days.", "")
    assert first.passages == (Passage("p", "Two days."),)
    assert [step.arguments for step in first.trajectory.steps] == [{"query": "days"}]
    assert first.usage["seconds"] == 2.5
    assert (second.text, second.passages, second.trajectory) == ("Nothing.", None, None), "it was sent some"
    with chat_server(lambda *_: said("Nothing.")) as server:
        assert system_at(server).ask(TASKS[:1])[0].passages == (), "it was sent none and names none"


def test_usage_of_replies_has_the_price_of_the_endpoint() -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    with chat_server(lambda *_: completion("Two days.", usage=usage)) as server:
        (answer,) = system_at(server, "openai", price=[2.0, 8.0]).ask(TASKS[:1])
        (free,) = system_at(server, "openai").ask(TASKS[:1])
    (call,) = answer.usage["calls"]
    assert (call["input_tokens"], call["output_tokens"]) == (1000, 100)
    assert call["dollars"] == pytest.approx(0.0028)
    assert "dollars" not in free.usage["calls"][0]


def test_a_missing_answer_has_a_reason_and_affects_no_other() -> None:
    script: Script = lambda text, _: refusal(400, "too long") if text == "How long?" else said("Nothing.")  # noqa: E731
    with chat_server(script) as server:
        failed, answered = system_at(server).ask(TASKS)
    assert (failed.text, failed.passages) == ("", None)
    assert "too long" in failed.no_answer
    assert (answered.text, answered.no_answer) == ("Nothing.", "")


def test_a_missing_answer_may_still_have_a_cost() -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    with chat_server(lambda *_: completion(None, refusal="I will not", usage=usage)) as server:
        (answer,) = system_at(server, "openai", price=[2.0, 8.0]).ask(TASKS[:1])
    assert answer.no_answer == "the model refused"
    (call,) = answer.usage["calls"]
    assert (call["input_tokens"], call["output_tokens"], call["dollars"]) == (1000, 100, pytest.approx(0.0028))


def test_a_refused_system_key_is_a_model_error() -> None:
    with chat_server(lambda *_: refusal(401, "no key")) as server, pytest.raises(ModelError, match="key"):
        system_at(server).ask(TASKS)


def test_cached_replies_are_not_requested_again(tmp_path: Path) -> None:
    with chat_server(lambda text, _: said(text)) as server:
        first = system_at(server).ask(TASKS[:1], cache=tmp_path / "kept.sqlite")
        both = system_at(server).ask(TASKS, cache=tmp_path / "kept.sqlite")
        assert (len(server.asked), [answer.text for answer in both]) == (2, ["How long?", "How much?"])
        assert both[0].text == first[0].text
        system_at(server).ask(TASKS)
        assert len(server.asked) == 4, "without a file nothing is kept"


def test_a_doc_is_sent_like_an_exported_task(sample: Benchmark) -> None:
    task = sample.tasks[1]
    doc = build_doc(sample, task, Setting.REFERENCE, "official", task.references)
    body = request_body(doc, with_passages=False)
    messages = [{"role": item.role.value, "content": item.text} for item in task.messages]
    assert body == {"id": task.task_id, "messages": messages}
    contexts = [{"id": item.passage_id, "title": item.title, "text": item.text} for item in task.references]
    assert request_body(doc, with_passages=True) == {**body, "contexts": contexts}


def test_too_many_implausible_answers_are_refused_after_everything_is_saved(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    found = scored(every(sample, GivenAnswer("")), folders, tmp_path, Setting.REFERENCE)
    found.require_plausible()
    strict = scored(
        every(sample, GivenAnswer("")),
        folders,
        tmp_path / "strict",
        Setting.REFERENCE,
        options={"max_implausible": 0.5},
    )
    with pytest.raises(ImplausibleError, match=f"everything is saved in {strict.file}, but 9 of 9 answers"):
        strict.require_plausible()


def test_own_rows_are_scored_under_their_name(folders: Folders, tmp_path: Path) -> None:
    def note(*problem: object) -> None:
        raise AssertionError(problem)

    rows = own_rows(
        enumerate([{"question": "How long?", "answer": "Two days.", "contexts": ["For two days."]}], 1), note
    )

    def to_score(**more: Any) -> SystemAnswers:
        leave = {"may_replace": lambda _: False, **more}
        return rows_to_score(rows, OPTIONS, tmp_path, name="my rows", source=tmp_path / "rows.jsonl", **leave)

    answers = to_score()
    assert answers.file == tmp_path / "my-rows" / "results_my-rows-rows.json"
    assert answers.evaluation.source == tmp_path / "rows.jsonl"
    found = score_answers(answers, folders, notes={"asked_by": "hand"})
    assert (found.n_tasks, found.n_answers, found.is_own_rows, found.is_agentic) == (1, 1, True, True)
    assert json.loads(found.file.read_text())["asked_by"] == "hand"
    assert read_evaluations([tmp_path])[0].model == "my rows"
    with pytest.raises(ConfigurationError, match="--force"):
        to_score()
    assert to_score(may_replace=lambda files: files == [found.file]).file == found.file


def test_earlier_failures_are_no_problem_of_these_answers(sample: Benchmark, folders: Folders, tmp_path: Path) -> None:
    from ragtasks.scoring import record_failure

    record_failure("an earlier evaluation's")
    given = every(sample, GivenAnswer("For 5 days.", (PASSAGE,)))
    assert scored(given, folders, tmp_path).problems == ()


def test_the_answering_function_gets_benchmark_configuration_and_file(
    sample: Benchmark, folders: Folders, tmp_path: Path
) -> None:
    calls: list[tuple[Benchmark, EvaluationConfig, Path]] = []

    def answering(benchmark: Benchmark, config: EvaluationConfig, file: Path) -> Mapping[str, GivenAnswer]:
        calls.append((benchmark, config, file))
        return every(sample, GivenAnswer("For 5 days.", ()))

    system = ScoredSystem("mine", "custom", None, tmp_path)
    answers = system_to_score(system, answering, OPTIONS, tmp_path, folders)
    ((benchmark, config, file),) = calls
    assert (benchmark.label, config.data, config.encoder, file) == ("custom (sample)", "sample", "none", answers.file)
    with pytest.raises(BenchmarkFileError):
        system_to_score(system, answering, {"encoder": "none"}, tmp_path, Folders(tmp_path / "nowhere", tmp_path))
