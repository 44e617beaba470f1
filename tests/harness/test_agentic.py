"""Agentic tasks: scripted agents with known scores, limits, resumed runs, logs and scores."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from ragtasks.benchmarks import Benchmark, retrieval_side
from ragtasks.errors import ConfigurationError
from ragtasks.harness.agentic import Search
from ragtasks.harness.protocols import Exchange, ParsedReply
from retrieval_cache import searcher
from tests._messages import raises
from tests.clients._server import Action, chat_server, completion, refusal
from tests.harness.conftest import CHATML, NO_SYSTEM, SAMPLE, CommandResult
from tests.harness.test_live_task import arguments
from tests.harness.test_live_task import logged as samples_of
from tests.harness.test_resuming import evaluations

TASK = "mtrag_agentic_govt"
N_TASKS = 27
N_FEW = 8
"""A subset of tasks for faster tests."""
RESULTS = "<results>"
CALL = "<search>deck</search>"

Evaluate = Callable[..., dict[str, Any]]
Command = Callable[..., CommandResult]


def once(text: str, _: int = 0) -> Action:
    """Search for the question, then answer."""
    return completion("<answer>It costs $95.</answer>" if RESULTS in text else f"I look. <search>{text}</search>")


def logged(output: Path, task: str = TASK) -> list[dict[str, Any]]:
    return samples_of(output, task)


def run(
    command: Command, url: str, output: Path, task: str = TASK, limit: int = N_FEW, **metadata: Any
) -> CommandResult:
    options = [*arguments(url, output, task), "--limit", str(limit)]
    return command(*options, "--metadata", json.dumps({**SAMPLE, **metadata}))


def scores(output: Path, task: str = TASK) -> dict[str, float]:
    (file,) = output.rglob("results_*.json")
    values = json.loads(file.read_text())["results"][task]
    return {key.partition(",")[0]: value for key, value in values.items() if key.endswith(",sample")}


def test_an_agent_receives_its_results_and_is_scored_on_retrieved_passages(
    command: Command, benchmark_sample: Benchmark, tmp_path: Path
) -> None:
    with chat_server(once) as server:
        done = run(command, server.base_url, tmp_path, limit=N_TASKS)
    assert done.status == 0, done.err
    assert len(server.bodies) == 2 * N_TASKS
    search = searcher(benchmark_sample, "govt", "bm25", tmp_path / "store")
    tasks = {task.task_id: task for task in benchmark_sample.tasks}
    samples = logged(tmp_path)
    for sample in samples:
        doc = sample["doc"]
        passages = search(tasks[doc["task_id"]].question)
        assert [row["passage_id"] for row in doc["passages"]] == [passage.passage_id for passage in passages]
        (step,) = doc["trajectory"]["steps"]
        assert step["arguments"] == {"query": " ".join(doc["question"].split())}
        assert (doc["trajectory"]["ending"], doc["trajectory"]["n_rounds"]) == ("answered", 2)
        assert [call["input_tokens"] for call in doc["usage"]["calls"]] == [7, 7]
        assert sample["filtered_resps"] == ["It costs $95."]
        messages = json.loads(sample["arguments"]["gen_args_0"]["arg_0"][0])
        roles = [message["role"] for message in messages[-3:]]
        assert roles == ["user", "assistant", "user"]
        assert messages[-2]["content"].startswith("I look.\n<search>")
        assert all(passage.text.strip() in messages[-1]["content"] for passage in passages)
    values = scores(tmp_path)
    side = retrieval_side("mtrag")
    relevant: dict[str, set[str]] = {}
    for qrel in side.load_qrels(benchmark_sample.root, "govt"):
        relevant.setdefault(qrel.query_id, set()).add(qrel.passage_id)
    retrieved = {
        row["doc"]["task_id"]: {passage["passage_id"] for passage in row["doc"]["passages"]} for row in samples
    }
    recalls = [len(retrieved[name] & ids) / len(ids) for name, ids in relevant.items() if name in retrieved]
    assert values["recall_seen"] == values["recall_last"] == pytest.approx(fmean(recalls))
    assert (values["searches"], values["unsearched"], values["gave_up"], values["out_of_calls"]) == (1, 0, 0, 0)


def test_an_endless_query_ends_at_the_call_limit(command: Command, tmp_path: Path) -> None:
    with chat_server(lambda *_: completion("<search>deck permit</search>")) as server:
        done = run(command, server.base_url, tmp_path, search_calls=3)
    assert done.status == 0, done.err
    assert len(server.bodies) == 4 * N_FEW
    last = [body["messages"][-1]["content"] for body in server.bodies if len(body["messages"]) >= 8]
    assert any("No searches are left. Give your answer now" in text for text in last)
    values = scores(tmp_path)
    assert (values["out_of_calls"], values["searches"], values["repeated_calls"]) == (1, 3, 0.75)
    assert (values["failed_calls"], values["empty"]) == (0.25, 1)
    assert {sample["doc"]["trajectory"]["ending"] for sample in logged(tmp_path)} == {"out_of_calls"}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("It costs $95.", {"unsearched": 1, "searches": 0, "gave_up": 0, "recall_seen": 0}),
        ("<answer> </answer>", {"unsearched": 1, "gave_up": 1, "empty": 1}),
        ("<think>hm</think><answer>Yes.</answer>", {"unsearched": 1, "gave_up": 0}),
    ],
)
def test_an_agent_without_a_search(command: Command, tmp_path: Path, reply: str, expected: Mapping[str, float]) -> None:
    with chat_server(lambda *_: completion(reply)) as server:
        done = run(command, server.base_url, tmp_path)
    assert done.status == 0, done.err
    assert len(server.bodies) == N_FEW
    values = scores(tmp_path)
    assert {name: values[name] for name in expected} == expected


def test_broken_calls_are_reported_to_the_model_and_counted(command: Command, tmp_path: Path) -> None:
    def script(text: str, _: int) -> Action:
        if RESULTS in text:
            return completion("<answer>done</answer>")
        long, many = "word " * 2048, '<search k="1000000">permit park city</search>'
        return completion(f"<search>{long}</search>{many}<read>made-up</read><search></search>")

    with chat_server(script) as server:
        done = run(command, server.base_url, tmp_path)
    assert done.status == 0, done.err
    steps = logged(tmp_path)[0]["doc"]["trajectory"]["steps"]
    assert [step.get("problem") for step in steps] == ["query_too_long", None, "unknown_passage", "malformed"]
    assert (len(steps[1]["passages"]), steps[1]["is_bounded"]) == (20, True)
    assert scores(tmp_path)["failed_calls"] == 0.75


def test_results_over_the_context_are_shortened_before_the_task_ends(command: Command, tmp_path: Path) -> None:
    def script(text: str, _: int) -> Action:
        words = ("permit", "park", "credit", "recycling", "water")
        left = next((n for n in range(5) if f"{n} searches are left" in text or f"{n} search is left" in text), 5)
        return completion("<answer>x</answer>" if "No searches" in text else f"<search>{words[left - 1]}</search>")

    with chat_server(script) as server:
        done = run(command, server.base_url, tmp_path, search_calls=5, context_tokens=4500)
        assert done.status == 0, done.err
        trajectories = [sample["doc"]["trajectory"] for sample in logged(tmp_path)]
        assert any(trajectory["n_shortened"] for trajectory in trajectories)
        assert {trajectory["ending"] for trajectory in trajectories} == {"answered"}
        assert all(len(trajectory["steps"]) == 5 for trajectory in trajectories)
        n_before = len(server.bodies)
        small = run(command, server.base_url, tmp_path / "small", context_tokens=1030)
        assert len(server.bodies) == n_before
    assert small.status == 1
    assert f"{TASK}: {N_FEW} prompts did not fit the model's context and were not sent" in small.err


def test_the_last_result_is_shortened_last_and_keeps_its_ids() -> None:
    exchanges = [Exchange(ParsedReply((), "", "")) for _ in range(3)]
    search, levels = Search({}, None, {1: exchanges[:1]}, exchanges[1:]), []  # type: ignore[arg-type]
    while search.shorten():
        levels.append([exchange.level for exchange in exchanges])
    assert levels == [[1, 0, 0], [1, 1, 0], [2, 1, 0], [2, 2, 0], [2, 2, 1], [2, 2, 2]]
    assert search.n_shortened == 6
    (only,) = exchanges = [Exchange(ParsedReply((), "", ""))]
    assert [Search({}, None, {}, exchanges).shorten() for _ in range(3)] == [True, True, False]  # type: ignore[arg-type]
    assert only.level == 2


def test_a_full_context_ends_a_task_with_an_empty_answer_and_its_usage(command: Command, tmp_path: Path) -> None:
    with chat_server(lambda *_: completion(f"{'word ' * 3000}<search>deck permit</search>")) as server:
        done = run(command, server.base_url, tmp_path, context_tokens=4500)
    assert done.status == 0, done.err
    assert len(server.bodies) == N_FEW
    for sample in logged(tmp_path):
        doc = sample["doc"]
        assert (doc["trajectory"]["ending"], sample["filtered_resps"]) == ("context_full", [""])
        assert [call["input_tokens"] for call in doc["usage"]["calls"]] == [7]
    assert scores(tmp_path)["empty"] == 1


class Plain(LM):  # type: ignore[misc]  # the harness has no types
    """A model without a chat template that searches once."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[str] = []

    def generate_until(self, requests: list[Instance]) -> list[str]:
        self.prompts += [request.args[0] for request in requests]
        return ["<answer>x</answer>" if CALL in item.args[0] else CALL for item in requests]

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        raise NotImplementedError


def test_a_plain_prompt_has_instruction_history_question_and_search(evaluate: Evaluate) -> None:
    model = Plain()
    samples = evaluate(model, TASK, system_instruction="Be brief.", limit=N_FEW)["samples"][TASK]
    docs = [sample["doc"] for sample in samples]
    assert any(doc["history"] for doc in docs)
    assert len(model.prompts) == 2 * N_FEW
    for doc, first, second in zip(docs, model.prompts[:N_FEW], model.prompts[N_FEW:], strict=True):
        parts = ["Be brief.", *(turn["content"] for turn in doc["history"]), doc["question"]]
        assert_in_order(parts, first)
        assert_in_order([*parts, CALL, RESULTS], second)


def assert_in_order(parts: Sequence[str], text: str) -> None:
    """Assert that the parts occur in a text in this order."""
    position = 0
    for part in parts:
        position = text.index(part, position) + len(part)


def test_only_failed_requests_are_sent_again(command: Command, tmp_path: Path) -> None:
    with chat_server(lambda text, _: refusal(400) if "deck" in text and RESULTS in text else once(text)) as server:
        first = run(command, server.base_url, tmp_path)
        assert first.status == 1
        n_failed = sum("no_answer" in sample["doc"] for sample in logged(tmp_path))
        assert 0 < n_failed < N_FEW
        server.script, n_before = once, len(server.bodies)
        for file in (*tmp_path.rglob("results_*"), *tmp_path.rglob("samples_*")):
            file.unlink()
        second = run(command, server.base_url, tmp_path)
    assert second.status == 0, second.err
    assert len(server.bodies) == n_before + n_failed


def test_the_usage_of_a_failed_task_is_kept(command: Command, tmp_path: Path) -> None:
    with chat_server(lambda text, _: refusal(400) if RESULTS in text else once(text)) as server:
        assert run(command, server.base_url, tmp_path).status == 1
    for sample in logged(tmp_path):
        assert sample["doc"]["trajectory"]["ending"] == "error"
        assert [call["input_tokens"] for call in sample["doc"]["usage"]["calls"]] == [7]


def by_results(text: str, _: int = 0) -> Action:
    """Search for the question, then answer with a hash of the results and of the number of remaining calls."""
    if RESULTS not in text:
        return completion(f"<search>{text}</search>")
    return completion(f"<answer>{sha256(text.encode()).hexdigest()}</answer>")


@pytest.mark.parametrize(
    ("change", "is_asked_at_once"),
    [
        ({"retriever": "bm25-standard"}, False),
        ({"search_k": 2}, True),
        ({"search_calls": 3}, True),
    ],
)
def test_saved_answers_are_used_only_with_the_same_settings(
    command: Command, tmp_path: Path, change: dict[str, Any], is_asked_at_once: bool
) -> None:
    n_tasks, saved = 2, str(tmp_path / "saved")

    def answered(folder: str, cache: str, **metadata: Any) -> list[Any]:
        options = [*arguments(server.base_url, tmp_path / folder, TASK), "--limit", str(n_tasks), "--use_cache", cache]
        done = command(*options, "--metadata", json.dumps({**SAMPLE, **metadata}))
        assert done.status == 0, done.err
        return [
            (sample["resps"], sample["doc"]["passages"], sample["doc"]["trajectory"])
            for sample in logged(tmp_path / folder)
        ]

    with chat_server(by_results) as server:
        first = answered("first", saved)
        n_before = len(server.bodies)
        changed = answered("changed", saved, **change)
        assert len(server.bodies) == n_before + n_tasks * (2 if is_asked_at_once else 1)
        assert changed == answered("fresh", str(tmp_path / "other"), **change)
    assert changed != first


def test_the_fingerprint_depends_on_every_setting_of_an_agent(load_task: Callable[..., Any]) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"retriever": "bm25-standard"},
        {"search_k": 4},
        {"search_calls": 3},
        {"search_protocol": "tool_calls"},
        {"injected": 0.5},
        {"max_words": 50},
    ]
    fingerprints = [load_task(TASK, **change).fingerprint() for change in changes]
    assert len(set(fingerprints)) == len(changes)
    assert load_task(TASK).fingerprint() == fingerprints[0]
    live = [load_task("mtrag_live_agentic_govt", keep_searches=keeps).fingerprint() for keeps in (False, True)]
    assert len({fingerprints[0], *live}) == 3


@pytest.mark.slow
@pytest.mark.parametrize("task", [TASK, "mtrag_live_agentic_govt"])
def test_killed_runs_lose_no_answer_and_change_no_score(tmp_path: Path, task: str) -> None:
    running: list[int] = []
    kill_at = [8, 20, 33, 45]

    def twice(text: str, _: int = 0) -> Action:
        if kill_at and running and len(server.asked) >= kill_at[0]:
            kill_at.pop(0)
            os.kill(running.pop(), signal.SIGKILL)
        return once(text)

    def complete(folder: Path) -> list[Any]:
        statuses: list[int] = []
        options = [
            *arguments(server.base_url, folder, task, n_concurrent=2),
            "--metadata",
            json.dumps({**SAMPLE, "max_implausible": 1}),
        ]
        with evaluations(options) as begin:
            while not statuses or statuses[-1] == -signal.SIGKILL:
                process, ended = begin()
                running[:] = [process]
                statuses.append(ended())
        assert statuses[-1] == 0
        return [(sample["doc"]["trajectory"], sample["doc"]["passages"], sample["resps"], sample["arguments"])
                for sample in logged(folder, task)]  # fmt: skip

    with chat_server(twice) as server:
        killed = complete(tmp_path / "killed")
        assert kill_at == []
        assert len(server.asked) <= 2 * N_TASKS + 4 * 2  # requests in progress when the process was killed
        assert len({json.dumps(body["messages"]) for body in server.bodies}) == 2 * N_TASKS
        assert complete(tmp_path / "whole") == killed


@pytest.mark.slow
def test_baselines_give_floor_and_ceiling(evaluate: Evaluate) -> None:
    by_model = {
        name: evaluate(f"ragtasks-agent-{name}", "mtrag_agentic", limit=None)["results"]["mtrag_agentic"]
        for name in ("once", "rewrite", "oracle")
    }
    recall = {name: row["recall_seen,sample"] for name, row in by_model.items()}
    assert recall["once"] < recall["rewrite"] < recall["oracle"] == 1
    assert by_model["once"]["searches,sample"] == 1
    assert by_model["oracle"]["searches_unanswerable,sample"] == 0


@pytest.mark.parametrize("template", [CHATML, NO_SYSTEM], ids=["system role", "no system role"])
def test_the_chat_template_of_local_weights_contains_the_tags(
    template: str, evaluate: Evaluate, tiny_model: Callable[[str], Path]
) -> None:
    options = {"device": "cpu", "apply_chat_template": True, "gen_kwargs": {"max_gen_toks": 2}}
    results = evaluate("hf", TASK, model_args={"pretrained": str(tiny_model(template)), "dtype": "float32"}, **options)
    for sample in results["samples"][TASK]:
        prompt = sample["arguments"][0][0]
        assert prompt.startswith("<|system|>" if template is CHATML else "<|user|>Answer the user")
        assert "<search>query</search>" in prompt
        assert f"{sample['doc']['question']}</s>" in prompt
        assert prompt.endswith("<|assistant|>")
        assert sample["doc"]["trajectory"]["ending"] in {"answered", "gave_up"}  # random weights write no tags
    tools = results["configs"][TASK]["metadata"]["ragtasks"]["tools"]
    assert tools["protocol"] == "text"


def test_an_agent_with_passages_answers_from_them(evaluate: Evaluate) -> None:
    task = "mtrag_full_rag_govt"
    once, extractive = (evaluate(f"ragtasks-{name}", task)["samples"][task] for name in ("agent-once", "extractive"))
    assert [sample["resps"] for sample in once] == [sample["resps"] for sample in extractive]


def test_an_agentic_task_rejects_a_stored_run(evaluate: Evaluate) -> None:
    with raises(ConfigurationError):
        evaluate("ragtasks-refuse", TASK, metadata={"run": "closed_book"})


def test_a_live_agent_receives_its_own_answers(command: Command, tmp_path: Path) -> None:
    task = "mtrag_live_agentic_govt"
    with chat_server(once) as server:
        done = run(command, server.base_url, tmp_path, task)
    assert done.status == 0, done.err
    samples = logged(tmp_path, task)
    assert len(samples) >= N_FEW  # complete conversations
    replies = {
        turn["content"] for sample in samples for turn in sample["doc"]["history"] if turn["role"] == "assistant"
    }
    assert replies == {"It costs $95."}
    assert all(len(sample["doc"]["trajectory"]["steps"]) == 1 for sample in samples)


@pytest.mark.parametrize("is_kept", [False, True])
def test_later_turns_contain_earlier_searches_only_with_keep_searches(
    command: Command, tmp_path: Path, *, is_kept: bool
) -> None:
    task = "mtrag_live_agentic_govt"
    with chat_server(once) as server:
        done = run(command, server.base_url, tmp_path, task, **({"keep_searches": True} if is_kept else {}))
    assert done.status == 0, done.err
    by_turn = {sample["doc"]["turn"]: sample["doc"] for sample in logged(tmp_path, task)[:3]}
    first, second = ({passage["passage_id"] for passage in by_turn[turn]["passages"]} for turn in (1, 2))
    assert (first <= second) is is_kept
    assert all(len(doc["trajectory"]["steps"]) == 1 for doc in by_turn.values())
    bodies = [body["messages"] for body in server.bodies if body["messages"][-1]["content"] == by_turn[2]["question"]]
    (messages,) = bodies
    roles = [message["role"] for message in messages]
    turn = ["user", "assistant"]
    assert roles == ["system", *turn, *(turn if is_kept else []), "user"]
    assert (RESULTS in "".join(message["content"] for message in messages[1:])) is is_kept
    assert messages[-2]["content"] == "It costs $95."
    (file,) = tmp_path.rglob("results_*.json")
    history = json.loads(file.read_text())["configs"][task]["metadata"]["ragtasks"]["history"]
    assert ("searches" in history) is is_kept
    if is_kept:  # numbers continue, so that a citation identifies one passage
        later = [body["messages"] for body in server.bodies if len(body["messages"]) == len(messages) + 2]
        (prompt,) = (prompt for prompt in later if prompt[: len(messages)] == messages)
        new = [name for name in by_turn[2]["trajectory"]["steps"][0]["passages"] if name not in first]
        assert new
        assert f"[{len(first) + 1}] id: {new[0]}" in prompt[-1]["content"]


def test_an_earlier_search_follows_the_question_of_its_turn(
    command: Command, benchmark_sample: Benchmark, tmp_path: Path
) -> None:
    opening = {task.question for task in benchmark_sample.tasks if task.turn == 1}
    with chat_server(lambda text, n: completion("It is open.") if text in opening else once(text, n)) as server:
        run(command, server.base_url, tmp_path, "mtrag_live_agentic_govt", keep_searches=True)
    third = [body["messages"][1:] for body in server.bodies if len(body["messages"]) == 8]
    assert len(third) > 1
    for messages in third:
        roles = [message["role"] for message in messages]
        assert roles == ["user", "assistant", "user", "assistant", "user", "assistant", "user"]
        assert [RESULTS in message["content"] for message in messages] == [False] * 4 + [True, False, False]


def test_results_name_retriever_limits_protocol_and_prompt(evaluate: Evaluate) -> None:
    results = evaluate("ragtasks-agent-once", TASK, metadata={"retriever": "rank_bm25", "search_calls": 2})
    metadata = results["configs"][TASK]["metadata"]["ragtasks"]
    tools = metadata["tools"]
    assert (tools["protocol"], tools["retriever"], tools["calls"], tools["k"]) == ("text", "rank_bm25", 2, 5)
    assert list(tools["searches"]) == ["govt"]
    assert metadata["prompts"]["system"].startswith("generation/agentic (")
