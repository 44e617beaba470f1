from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import Benchmark
from ragtasks.errors import ConfigurationError
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.tasks import task_folder
from ragtasks.results import read_evaluations
from ragtasks.submissions import SubmissionTask
from ragtasks.submissions.mtrageval import Submission, submit
from retrieval_cache import searcher
from tests._commands import CommandResult
from tests._messages import raises
from tests._shared import harness_without_tasks
from tests.clients._server import Action, chat_server, completion, refusal
from tests.harness.conftest import SAMPLE
from tests.harness.test_resuming import evaluations

DOMAINS = ("clapnq", "fiqa", "govt", "cloud")
TASK = "mtrag_live_reference_govt"
N_TASKS = 27

Evaluate = Callable[..., dict[str, Any]]


def own_answer(question: str, _: int = 0) -> Action:
    return completion(f"<think>Never shown.</think> Own answer to: {question} It opens at nine.")


def arguments(base_url: str, output: Path, task: str = TASK, n_concurrent: int = 4) -> list[str]:
    model = {
        "base_url": f"{base_url}/chat/completions", "model": "loopback", "eos_string": "</s>",
        "num_concurrent": n_concurrent, "max_retries": 1,
    }  # fmt: skip
    return [
        "--model", "local-chat-completions", "--apply_chat_template", "--tasks", task, "--log_samples",
        "--model_args", json.dumps(model), "--output_path", str(output),
    ]  # fmt: skip


def logged(output: Path, task: str = TASK) -> list[dict[str, Any]]:
    (file,) = output.rglob(f"samples_{task}_*.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def history_in(results: Mapping[str, Any], task: str = TASK) -> dict[str, Any]:
    history: dict[str, Any] = results["configs"][task]["metadata"]["ragtasks"]["history"]
    return history


def assert_own_history(bodies: list[dict[str, Any]]) -> None:
    """Assert that every reply in a prompt is the model's own answer to the question before it."""
    for body in bodies:
        system, *turns = body["messages"]
        assert system["role"] == "system"
        for question, reply in zip(turns[:-1:2], turns[1::2], strict=True):
            assert (question["role"], reply["role"]) == ("user", "assistant")
            assert reply["content"] == f"Own answer to: {question['content']} It opens at nine."


def test_the_oracle_reproduces_the_gold_conversations(evaluate: Evaluate) -> None:
    results = evaluate(
        "ragtasks-oracle", "mtrag_reference", "mtrag_live_reference", limit=None, apply_chat_template=True
    )
    for domain in DOMAINS:
        gold, live = ({item["doc"]["task_id"]: item for item in results["samples"][f"mtrag_{setting}_{domain}"]}
                      for setting in ("reference", "live_reference"))  # fmt: skip
        assert gold.keys() == live.keys()
        for task_id, sample in gold.items():
            same = ("arguments", "resps", "target", "prompt_hash", "metrics")
            assert [live[task_id][key] for key in same] == [sample[key] for key in same]
    gold, live = (results["results"][f"mtrag_{setting}_govt"] for setting in ("reference", "live_reference"))
    names = [key for key in gold if key.endswith(",sample")]
    assert names
    assert [repr(live[name]) for name in names] == [repr(gold[name]) for name in names]


def test_each_turn_contains_the_models_own_answers(command: Callable[..., CommandResult], tmp_path: Path) -> None:
    with chat_server(own_answer) as server:
        done = command(*arguments(server.base_url, tmp_path))
    assert done.status == 0, done.err
    assert len(server.bodies) == N_TASKS
    assert_own_history(server.bodies)
    samples = logged(tmp_path)
    assert len(samples) == N_TASKS
    sent = {json.dumps(body["messages"]) for body in server.bodies}
    for sample in samples:
        messages = json.loads(sample["arguments"]["gen_args_0"]["arg_0"][0])
        assert json.dumps(messages) in sent
        assert sample["doc"]["history"] == messages[1:-1]
    (file,) = tmp_path.rglob("results_*.json")
    assert [evaluation.model for evaluation in read_evaluations([tmp_path])] == ["loopback (own history)"]
    counts = {"turns_not_scored": 0, "turns_not_asked": 0}
    assert history_in(json.loads(file.read_text())) == {"answers": "own", "counts": counts}


def test_live_answers_are_checked_separately(command: Callable[..., CommandResult], tmp_path: Path) -> None:
    with chat_server(lambda *_: completion("It opens at nine on most days.")) as server:
        done = command(*arguments(server.base_url, tmp_path, f"{TASK},mtrag_reference_govt"))
    for setting in ("reference", "reference, own history"):
        assert f"in {setting}: implausible: {N_TASKS} of {N_TASKS} answers" in " ".join(done.err.split())


@pytest.mark.parametrize("task", [TASK, "mtrag_live_agentic_govt"])
def test_conversations_do_not_wait_for_each_other(
    command: Callable[..., CommandResult], benchmark_sample: Benchmark, tmp_path: Path, task: str
) -> None:
    """A first turn is answered after another conversation has reached its last turn."""
    slow, *_ = (task.question for task in benchmark_sample.tasks if task.conversation_id.endswith("govt-01"))
    *_, last = (task.question for task in benchmark_sample.tasks if task.conversation_id.endswith("govt-02"))
    is_last, was_last = threading.Event(), []

    def script(question: str, _: int) -> Action:
        if question == last:
            is_last.set()
        if question == slow:
            was_last.append(is_last.wait(60))
        return own_answer(question)

    with chat_server(script) as server:
        done = command(*arguments(server.base_url, tmp_path, task))
    assert done.status == 0, done.err
    assert was_last == [True]
    assert len(logged(tmp_path, task)) == len(server.asked) == N_TASKS


def test_a_failed_turn_ends_its_conversation_and_the_next_run_resumes(
    command: Callable[..., CommandResult], benchmark_sample: Benchmark, tmp_path: Path
) -> None:
    own = [task for task in benchmark_sample.tasks if task.conversation_id.endswith("govt-02")]
    failing = own[1].question
    with chat_server(lambda question, _: refusal(400) if question == failing else own_answer(question)) as server:
        first = command(*arguments(server.base_url, tmp_path))
        assert not {task.question for task in own[2:]} & {*server.asked}
        assert len(server.asked) == N_TASKS - (len(own) - 2)
        server.script = own_answer
        n_before, scored = len(server.asked), {sample["doc"]["task_id"]: sample for sample in logged(tmp_path)}
        second = command(*arguments(server.base_url, tmp_path))
    assert (first.status, second.status) == (1, 0)
    assert f"1 of {N_TASKS - (len(own) - 2)} requests got no answer: HTTP 400: no" in first.err
    assert f"{TASK}: {len(own) - 2} turns were not requested and are unscored" in first.err
    reasons = [scored[task.task_id]["doc"].get("no_answer") for task in own]
    later = "not sent: turn 2 of its conversation has no answer"
    assert reasons == [None, "HTTP 400: no", *[later] * (len(own) - 2)]
    assert server.asked[n_before:] == [task.question for task in own[1:]]


def test_an_empty_answer_is_an_answer(command: Callable[..., CommandResult], tmp_path: Path) -> None:
    with chat_server(lambda *_: completion("<think>All of it is cut off")) as server:
        done = command(*arguments(server.base_url, tmp_path), "--limit", "1")
    assert done.status == 0, done.err
    replies = [turn["content"] for body in server.bodies for turn in body["messages"] if turn["role"] == "assistant"]
    assert len(server.bodies) == 7
    assert set(replies) == {""}


@pytest.mark.engine
def test_killed_runs_lose_no_answer(tmp_path: Path) -> None:
    running: list[int] = []
    kill_at = [6, 15]

    def script(question: str, _: int) -> Action:
        if kill_at and len(server.asked) >= kill_at[0] and running:
            kill_at.pop(0)
            os.kill(running.pop(), signal.SIGKILL)
        return own_answer(question)

    with chat_server(script) as server:
        statuses = []
        options = [*arguments(server.base_url, tmp_path, n_concurrent=2), "--metadata", json.dumps(SAMPLE)]
        with evaluations(options) as begin:
            while not statuses or statuses[-1] == -signal.SIGKILL:
                process, ended = begin()
                running[:] = [process]
                statuses.append(ended())
    assert statuses == [-signal.SIGKILL, -signal.SIGKILL, 0]
    assert len(server.asked) <= N_TASKS + 2 * 2  # requests in progress when the process was killed
    assert len({json.dumps(body["messages"]) for body in server.bodies}) == N_TASKS
    assert_own_history([json.loads(text) for text in dict.fromkeys(map(json.dumps, server.bodies))])
    assert len(logged(tmp_path)) == N_TASKS
    assert not list(tmp_path.glob("unfinished*"))


@pytest.mark.engine
def test_the_stock_harness_retrieves_with_the_models_history(tmp_path: Path, benchmark_sample: Benchmark) -> None:
    task = "mtrag_live_full_rag_govt"
    metadata = {**SAMPLE, "queries": "full_conversation"}
    with chat_server(own_answer) as server:
        options = arguments(server.base_url, tmp_path / "out", task)
        options += ["--metadata", json.dumps(metadata), "--include_path", str(task_folder()), "--limit", "1"]
        variables = {"RAGTASKS_RUNS": str(tmp_path / "store"), "HF_HUB_OFFLINE": "1"}
        environment = os.environ | variables | {"PYTHONPATH": harness_without_tasks(tmp_path / "harness")}
        done = subprocess.run(
            [sys.executable, "-m", "lm_eval", *options], capture_output=True, text=True, env=environment, check=False
        )
    assert done.returncode == 0, done.stderr
    assert_own_history(server.bodies)
    samples = logged(tmp_path / "out", task)
    assert len(samples) == len(server.bodies) == 7
    search = searcher(benchmark_sample, "govt", "bm25", tmp_path / "store")
    for sample, body in zip(samples, server.bodies, strict=True):
        doc, (system, *conversation) = sample["doc"], body["messages"]
        assert doc["query"] == "\n".join(message["content"] for message in conversation)
        passages = search(doc["query"])
        assert [row["passage_id"] for row in doc["passages"]] == [passage.passage_id for passage in passages]
        assert all(passage.text in system["content"] for passage in passages)


def test_a_rewriter_receives_the_models_history(evaluate: Evaluate) -> None:
    rewrite = json.dumps({"class": "non-standalone", "reworded version": "deck permit cost"})
    with chat_server(lambda *_: completion(rewrite)) as server:
        rewriter = {"model": "m", "base_url": server.base_url}
        results = evaluate(
            "ragtasks-refuse", "mtrag_live_full_rag_govt", metadata={"queries": "llm_rewrite", "rewriter": rewriter}
        )
    samples = results["samples"]["mtrag_live_full_rag_govt"]
    assert len(samples) == 7
    assert [sample["doc"]["query"] for sample in samples[1:]] == ["deck permit cost"] * 6
    assert all("I do not have specific information." in text for text in server.asked)
    history = history_in(results, "mtrag_live_full_rag_govt")
    assert history["rewriter"] == "m"
    assert history["counts"] == {"turns_not_scored": 0, "turns_not_asked": 0, "rewrites_asked": 6, "fallbacks": {}}


@pytest.mark.parametrize(("n_rewritten", "is_enough"), [(0, False), (5, False), (6, True)])
def test_too_few_rewrites_fail_the_evaluation(
    command: Callable[..., CommandResult], tmp_path: Path, n_rewritten: int, is_enough: bool
) -> None:
    """Falling back to last turns is another retrieval method, so at least 95 % must be rewritten."""
    rewrite = json.dumps({"class": "non-standalone", "reworded version": "deck permit cost"})
    replies = [rewrite] * n_rewritten + ["not what was wanted"] * (6 - n_rewritten)
    with chat_server(lambda *_: completion(replies[len(server.asked) - 1])) as server:
        metadata = {
            "queries": "llm_rewrite",
            "rewriter": {"model": f"m{n_rewritten}", "base_url": server.base_url, "slots": 1},
        }
        task = "mtrag_live_full_rag_govt"
        options = ["--model", "ragtasks-refuse", "--tasks", task, "--limit", "1", "--output_path", str(tmp_path)]
        done = command(*options, metadata=metadata)
    assert len(server.asked) == 6
    assert (done.status == 0) == is_enough, done.err
    problem = f"{task}: the rewriter rewrote {n_rewritten} of 6 questions, the others are last turns"
    assert (problem in done.err) != is_enough


def test_the_fingerprint_depends_on_the_retrieval_settings(load_task: Callable[..., ConversationTask]) -> None:
    task, rewriter = "mtrag_live_full_rag_govt", {"model": "m", "base_url": "http://127.0.0.1:9/v1"}
    ways: list[dict[str, Any]] = [
        {},
        {"retriever": "bm25s"},
        {"retriever": "rank_bm25"},
        {"queries": "full_conversation"},
        {"queries": "llm_rewrite", "rewriter": rewriter},
        {"queries": "llm_rewrite", "rewriter": {**rewriter, "model": "n"}},
    ]
    prints = [load_task(task, **way).fingerprint() for way in ways]
    assert len(set(prints)) == len(ways)
    assert [load_task(task, **way).fingerprint() for way in ways] == prints


def test_a_prompt_that_does_not_fit_is_a_failed_turn(command: Callable[..., CommandResult], tmp_path: Path) -> None:
    long_answer = "word " * 2000
    with chat_server(lambda *_: completion(long_answer)) as server:
        options = [*arguments(server.base_url, tmp_path), "--limit", "1"]
        done = command(*options, metadata={"context_tokens": 4096})
    assert done.status == 1
    assert len(server.bodies) == 1
    assert f"{TASK}: 1 prompts did not fit the model's context and were not sent" in done.err
    assert f"{TASK}: 5 turns were not requested" in done.err
    reasons = [sample["doc"].get("no_answer", "") for sample in logged(tmp_path)]
    assert reasons[1] == "the prompt and its answer do not fit the model's context"
    assert set(reasons[2:]) == {"not sent: turn 2 of its conversation has no answer"}


def test_samples_limit_the_scores_and_not_the_conversation(evaluate: Evaluate) -> None:
    results = evaluate("ragtasks-extractive", TASK, limit=None, samples={TASK: [3]})
    (sample,) = results["samples"][TASK]
    replies = [turn["content"] for turn in sample["doc"]["history"] if turn["role"] == "assistant"]
    complete = evaluate("ragtasks-extractive", TASK, limit=1)["samples"][TASK]
    assert replies == [item["resps"][0][0] for item in complete[:3]]
    assert history_in(results)["counts"]["turns_not_scored"] == 3


def test_a_conversational_turn_is_answered_and_not_scored(
    evaluate: Evaluate, benchmark_sample: Benchmark, tmp_path: Path
) -> None:
    """The model also answers thanks in the middle of a conversation, and continues from that answer."""
    shutil.copytree(benchmark_sample.root, tmp_path, dirs_exist_ok=True)
    tasks = tmp_path / "mtrag-human/generation_tasks/reference.jsonl"
    rows = [json.loads(line) for line in tasks.read_text(encoding="utf-8").splitlines()]
    (thanks,) = (row for row in rows if row["task_id"] == "sample-govt-01<::>2")
    thanks |= {"Answerability": ["CONVERSATIONAL"], "contexts": []}
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    about = json.loads((tmp_path / "sample.json").read_text(encoding="utf-8"))
    about["counts"]["by_answerability"] |= {"ANSWERABLE": 79, "CONVERSATIONAL": 5}
    (tmp_path / "sample.json").write_text(json.dumps(about), encoding="utf-8")
    results = evaluate("ragtasks-extractive", TASK, limit=None, metadata={"data": str(tmp_path)})
    (third,) = (sample for sample in results["samples"][TASK] if sample["doc"]["task_id"] == "sample-govt-01<::>3")
    assert len(results["samples"][TASK]) == N_TASKS - 1
    assert [turn["role"] for turn in third["doc"]["history"]] == ["user", "assistant"] * 2
    assert history_in(results)["counts"] == {"turns_not_scored": 1, "turns_not_asked": 0}


def test_no_stored_passages_are_read(load_task: Callable[..., ConversationTask]) -> None:
    assert {len(passages) for passages in load_task("mtrag_full_rag_govt").dataset["test"]["passages"]} != {0}
    assert {len(passages) for passages in load_task("mtrag_live_full_rag_govt").dataset["test"]["passages"]} == {0}


def test_requests_default_to_one_process(load_task: Callable[..., ConversationTask]) -> None:
    task = load_task(TASK)
    task.build_all_requests(limit=1)
    assert len(task.instances) == 7


def test_several_processes_are_rejected(load_task: Callable[..., ConversationTask]) -> None:
    with raises(ConfigurationError):
        load_task(TASK).build_all_requests(world_size=2)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"run": "bm25.last_turn"}, "cannot use a stored run"),
        ({"queries": "rewrite"}, "published rewrites belong to the benchmark's own history"),
        ({"queries": "last_trun"}, "last_turn"),
        ({"queries": "llm_rewrite"}, "requires a rewriter"),
        ({"rewriter": {"model": "m", "base_url": "http://127.0.0.1:9/v1"}}, "no other form accepts one"),
        ({"retriever": "bm26"}, "bm25"),
    ],
)
def test_impossible_retrieval_is_an_error_before_the_model_runs(
    metadata: dict[str, Any], message: str, load_task: Callable[..., ConversationTask]
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_task("mtrag_live_full_rag_govt", **metadata)


def test_the_harness_cache_answers_every_turn(evaluate: Evaluate, tmp_path: Path) -> None:
    def run() -> list[Any]:
        results = evaluate(
            "local-chat-completions", TASK, limit=1, apply_chat_template=True, use_cache=str(tmp_path / "cache"),
            model_args={"base_url": f"{server.base_url}/chat/completions", "model": "loopback", "eos_string": "</s>"},
        )  # fmt: skip
        return [sample["resps"] for sample in results["samples"][TASK]]

    with chat_server(own_answer) as server:
        first = run()
        assert run() == first
    assert_own_history(server.bodies)
    assert len(server.bodies) == len(first)


def test_live_conversations_cannot_be_submitted(
    command: Callable[..., CommandResult], benchmark_sample: Benchmark, tmp_path: Path
) -> None:
    out, answers = tmp_path / "out", tmp_path / "b.jsonl"
    request = Submission(SubmissionTask.B, answers, results=out, allow_missing=True)
    options = ["--model", "ragtasks-oracle", "--output_path", str(out), "--log_samples", "--tasks"]
    assert command(*options, TASK).status == 0
    with raises(ConfigurationError):
        submit(request, benchmark_sample, tmp_path)
    shutil.rmtree(out)
    assert command(*options, f"{TASK},mtrag_reference_govt").status == 0
    submit(request, benchmark_sample, tmp_path)
    assert answers.is_file()
