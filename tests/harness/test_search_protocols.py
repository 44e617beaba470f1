"""Protocols for tool calls: the same agent has the same score in each, and errors have the same result."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests._commands import CommandResult
from tests.clients._server import Action, chat_server, completion, refusal, tool_call
from tests.harness._agents import IN_PROCESS, AgentRunner, Calls, ids_in
from tests.harness._vllm import LLM, vllm
from tests.harness.conftest import SAMPLE
from tests.harness.test_agentic import TASK, logged, scores
from tests.harness.test_live_task import arguments

__all__ = ["vllm"]  # the fixture

PROTOCOLS = ("text", "tool_calls")
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)

Command = Callable[..., CommandResult]


@pytest.fixture
def run_agent(command: Command, vllm: type[LLM], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AgentRunner:
    return AgentRunner(command, vllm, monkeypatch, tmp_path)


def explorer(question: str, results: Sequence[str]) -> Calls | str:
    """Search, then read and search again in one reply, then answer; answer short questions without a search."""
    query = {"query": question}
    if len(question) < 66:
        return "I do not have specific information"
    if not results:
        return Calls([("search", query)], "I look. ")
    if len(results) == 1:
        first = ids_in(results[0])[0]
        return Calls([("read", {"passage_id": first}), ("search", {**query, "k": 2}), ("search", query)])
    return f"It costs $95, as [{len(ids_in(results[1]))}] says."


def steps_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the calls of a task, with numbers as text, because tags contain only text."""
    return [{**step, "arguments": {name: str(value) for name, value in step["arguments"].items()}}
            for step in row["doc"]["trajectory"]["steps"]]  # fmt: skip


def without_cost(values: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if not name.endswith(("tokens", "seconds"))}


@pytest.mark.slow
def test_the_same_agent_scores_the_same_in_every_protocol(run_agent: AgentRunner) -> None:
    by_protocol: dict[str, Any] = {}
    for protocol in PROTOCOLS:
        output = run_agent(protocol, explorer, TASK, limit=10)
        (file,) = output.rglob("results_*.json")
        tools = json.loads(file.read_text())["configs"][TASK]["metadata"]["ragtasks"]["tools"]
        assert tools["protocol"] == protocol
        rows = [(steps_of(row), row["filtered_resps"], row["doc"]["passages"]) for row in logged(output)]
        by_protocol[protocol] = without_cost(scores(output)), rows
    values, rows = by_protocol["text"]
    assert 0 < values["unsearched"] < 1
    assert values["searches"] > values["reads"] > 0
    assert any(step.get("is_repeat") for steps, *_ in rows for step in steps)
    assert by_protocol["tool_calls"] == by_protocol["text"]


def test_tool_calls_are_returned_in_openai_form(run_agent: AgentRunner) -> None:
    run_agent("tool_calls", explorer, TASK, limit=8)
    last = [body for body in run_agent.bodies if body["messages"][-1]["role"] == "tool"][-1]
    assert [tool["function"]["name"] for tool in last["tools"]] == ["search", "read"]
    assert "stop" not in last
    assert "<search>" not in last["messages"][0]["content"]
    question, first, result, second, *results = last["messages"][-7:]
    assert question["role"] == "user"
    assert (first["role"], first["content"], len(first["tool_calls"])) == ("assistant", "I look.", 1)
    assert [json.loads(call["function"]["arguments"]).keys() for call in second["tool_calls"]] == [
        {"passage_id"}, {"query", "k"}, {"query"},
    ]  # fmt: skip
    calls = [*first["tool_calls"], *second["tool_calls"]]
    assert [row["tool_call_id"] for row in (result, *results)] == [call["id"] for call in calls]
    assert result["content"].endswith("7 searches are left.")


def patient(question: str, results: Sequence[str]) -> Calls | str:
    """Make one call per reply (search, read, answer), because servers and models stop after the first."""
    if not results:
        return Calls([("search", {"query": question})], "I look. ")
    if len(results) == 1:
        return Calls([("read", {"passage_id": ids_in(results[0])[0]})])
    return f"It costs $95, as [{len(ids_in(results[1]))}] says."


@pytest.mark.slow
@pytest.mark.parametrize("task", [TASK, "mtrag_live_agentic_govt"])
def test_a_local_model_scores_as_the_same_model_behind_a_server(run_agent: AgentRunner, task: str) -> None:
    outcomes = []
    for way in ("text", IN_PROCESS):
        output = run_agent(way, patient, task, limit=5, keep_searches="live" in task)
        rows = [(steps_of(row), row["filtered_resps"], row["doc"]["passages"]) for row in logged(output, task)]
        outcomes.append((without_cost(scores(output, task)), rows))
    served, local = outcomes
    assert served[0]["searches"] == served[0]["reads"] == 1
    assert local == served


def text_as_call(*_: Any) -> Action:
    return completion('<tool_call>{"name": "search", "arguments": {"query": "ferry"}}</tool_call>')


def calling(*calls: Any, content: Any = None, n_tokens: int = 999, **message: Any) -> Action:
    return completion(content, tool_calls=list(calls), usage={"prompt_tokens": n_tokens}, **message)


def without_results(body: Mapping[str, Any]) -> Action:
    """Reply as llama-cpp-python with `chatml-function-calling`, whose template omits tool results."""
    shown = [row["content"] for row in body["messages"] if row["role"] != "tool"]
    return calling(tool_call("search", {"query": "ferry"}), n_tokens=99 + len(" ".join(shown).split()))


SERVERS = {
    "refuses": (lambda body: refusal(400) if "tools" in body else completion("fine"), "HTTP 400: no with tools"),
    "fails": (lambda body: refusal(500) if "tools" in body else completion("fine"), "HTTP 500: no with tools"),
    "leaves out": (lambda _: completion("I cannot."), "7 prompt tokens, fewer than the words of the tools"),
    "as text": (text_as_call, "the model's call as text"),
    "no results": (without_results, "the server drops tool results"),
    "refuses results": (
        lambda body: refusal(422) if body["messages"][-1]["role"] == "tool" else without_results(body),
        "HTTP 422: no for a tool result",
    ),
}


@pytest.mark.parametrize("case", SERVERS)
def test_a_server_without_tools_is_rejected_before_the_run(command: Command, tmp_path: Path, case: str) -> None:
    reply, reported = SERVERS[case]
    with chat_server(lambda *_: reply(server.bodies[-1]), is_tested=True) as server:
        options = arguments(server.base_url, tmp_path, TASK)
        done = command(
            *options, "--metadata", json.dumps({**SAMPLE, "search_protocol": "tool_calls", "system_role": "user"})
        )
    assert done.status == 1
    assert reported in done.err
    assert "--metadata search_protocol=text" in done.err
    assert "Traceback" not in done.err
    assert len(server.bodies) <= 3


@pytest.mark.parametrize("is_refused", [False, True])
def test_tools_are_offered_in_the_form_of_each_server(command: Command, tmp_path: Path, *, is_refused: bool) -> None:
    """vLLM and llama.cpp accept `tool_choice`, llama-cpp-python ignores tools without it, others reject it."""

    def script(text: str, _: int) -> Action:
        if is_refused and "ferry ferry" in text:
            return refusal(500)  # the test of tool results had no reply, which does not count against the server
        if ("tool_choice" in server.bodies[-1]) is is_refused:
            return refusal(400) if is_refused else completion("I cannot.")
        if "id: " in text:
            return completion("done")
        return calling(tool_call("search", {"query": "permit"}), n_tokens=len(json.dumps(server.bodies[-1]).split()))

    with chat_server(script, is_tested=True) as server:
        options = arguments(server.base_url, tmp_path, TASK, n_concurrent=1)
        metadata = {**SAMPLE, "search_protocol": "tool_calls", "system_role": "user"}
        done = command(*options, "--limit", "1", "--metadata", json.dumps(metadata))
    assert done.status == 0, done.err
    assert scores(tmp_path)["searches"] == 1


def test_the_tool_choice_of_the_user_is_sent(command: Command, tmp_path: Path) -> None:
    def script(*_: object) -> Action:
        return calling(tool_call("search", {"query": "permit"}), n_tokens=1000)

    with chat_server(script) as server:
        options = arguments(server.base_url, tmp_path, TASK, n_concurrent=1)
        metadata = json.dumps({**SAMPLE, "search_protocol": "tool_calls", "search_calls": 1})
        done = command(*options, "--limit", "1", "--gen_kwargs", "tool_choice=required", "--metadata", metadata)
    assert done.status == 0, done.err
    assert [body["tool_choice"] for body in server.bodies] == ["required"] * 2
    assert {tool["function"]["name"] for tool in server.bodies[0]["tools"]} == {"search", "read"}


def test_tool_calls_need_a_chat_server(command: Command, tmp_path: Path) -> None:
    options = ["--tasks", TASK, "--metadata", json.dumps({**SAMPLE, "search_protocol": "tool_calls"})]
    done = command("--model", "ragtasks-agent-once", *options)
    assert done.status == 1
    assert "expected: `ragtasks run` with --model local-chat-completions" in done.err
    assert "--metadata search_protocol=text" in done.err


def test_earlier_searches_follow_their_question_as_calls(run_agent: AgentRunner) -> None:
    run_agent("tool_calls", explorer, "mtrag_live_agentic_govt", limit=1, keep_searches=True)
    messages = max((body["messages"] for body in run_agent.bodies if "tools" in body), key=len)
    calls = [call["id"] for row in messages for call in row.get("tool_calls", ())]
    assert len(calls) == len(set(calls)) > 4
    assert calls == [row["tool_call_id"] for row in messages if row["role"] == "tool"]
    roles = [row["role"] for row in messages[1:]]
    first = roles.index("tool")
    assert roles[first - 2 : first + 1] == ["user", "assistant", "tool"]
    assert "user" in roles[first:]  # from an earlier turn
    behind = [roles[index + 1] for index, role in enumerate(roles[:-1]) if role == "tool"]
    assert set(behind) == {"tool", "assistant"}


LONG = "word " * 2048
GOOD = ("search", {"query": "permit", "k": 2})
BAD: list[tuple[tuple[str, Any], str | None]] = [
    (("search", {"query": LONG}), "query_too_long"),
    (("search", {"query": "permit park city", "k": 1_000_000}), None),
    (("read", {"passage_id": "made-up"}), "unknown_passage"),
    (("search", {"query": " "}), "malformed"),
    (("search", {"query": "permit", "k": -1}), "malformed"),
]
BAD_OBJECTS: list[tuple[tuple[str, Any], str | None]] = [
    (("search", '{"query": "perm'), "malformed"),
    (("search", "[" * 10_000), "malformed"),
    (("search", '["permit"]'), "malformed"),
    (("search", {"query": 5}), "malformed"),
    (("search", {"query": "half \ud83d of a sign"}), None),
    (("web_search", {"query": "permit"}), "unknown_tool"),
    (("rm -rf / \U0001f600", {}), "unknown_tool"),
]


@each_protocol
def test_bad_calls_are_counted_and_the_task_continues(run_agent: AgentRunner, protocol: str) -> None:
    cases = [*BAD, *(BAD_OBJECTS if protocol != "text" else ())]

    def agent(question: str, results: Sequence[str]) -> Calls | str:
        return "done" if results else Calls([call for call, _ in cases], "It is 7, I think. ")

    output = run_agent(protocol, agent, TASK, limit=2, reply_tokens=30_000, search_calls=20)
    for row in logged(output):
        steps = row["doc"]["trajectory"]["steps"]
        assert [step.get("problem") for step in steps] == [problem for _, problem in cases]
        assert (steps[1]["is_bounded"], len(steps[1]["passages"])) == (True, 20)
        assert (row["filtered_resps"], row["doc"]["trajectory"]["ending"]) == (["done"], "answered")
    n_failed = sum(problem is not None for _, problem in cases)
    assert scores(output)["failed_calls"] == pytest.approx(n_failed / len(cases))
    if protocol == "tool_calls":
        rows = [row for body in run_agent.bodies for row in body["messages"] if "tool_calls" in row]
        calls = [call["function"] for row in rows for call in row["tool_calls"]]
        assert all(isinstance(json.loads(call["arguments"]), dict) for call in calls)
        assert all(call["name"].replace("_", "").replace("-", "").isalnum() for call in calls)


@each_protocol
def test_endless_calls_end_at_the_limit(run_agent: AgentRunner, protocol: str) -> None:
    output = run_agent(protocol, lambda *_: Calls([GOOD, GOOD]), TASK, limit=2, search_calls=3)
    for row in logged(output):
        trajectory = row["doc"]["trajectory"]
        problems = [step.get("problem") for step in trajectory["steps"]]
        assert problems == [None, None, None, *["out_of_calls"] * 3]
        assert (trajectory["ending"], trajectory["n_rounds"], row["filtered_resps"]) == ("out_of_calls", 3, [""])
    assert scores(output)["out_of_calls"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [*PROTOCOLS, IN_PROCESS])
def test_results_over_the_context_are_shortened_and_counted(run_agent: AgentRunner, protocol: str) -> None:
    words = ("permit", "park", "credit", "recycling", "water")

    def agent(question: str, results: Sequence[str]) -> Calls | str:
        return "done" if len(results) == 5 else Calls([("search", {"query": words[len(results)]})])

    room = 14_000 if protocol == IN_PROCESS else 4500  # its tokens are bytes
    output = run_agent(protocol, agent, TASK, limit=2, search_calls=5, context_tokens=room)
    trajectories = [row["doc"]["trajectory"] for row in logged(output)]
    assert {trajectory["ending"] for trajectory in trajectories} == {"answered"}
    assert all(len(trajectory["steps"]) == 5 for trajectory in trajectories)
    assert any(trajectory["n_shortened"] for trajectory in trajectories)


ARGUMENTS = {"query": "permit"}
REPLIES: dict[str, dict[str, Any]] = {
    "as OpenAI": {"content": None, "tool_calls": [tool_call("search", ARGUMENTS)], "finish_reason": "tool_calls"},
    "without ids": {"tool_calls": [{"function": {"name": "search", "arguments": json.dumps(ARGUMENTS)}}]},
    "arguments as an object": {"tool_calls": [{"id": 0, "function": {"name": "search", "arguments": ARGUMENTS}}]},
    "what was not given as null": {"tool_calls": [tool_call("search", {**ARGUMENTS, "k": None})]},
    "no text": {"content": "", "tool_calls": [tool_call("search", ARGUMENTS)], "refusal": None},
    "the older form beside": {
        "tool_calls": [tool_call("search", ARGUMENTS)], "function_call": {"name": "", "arguments": "{}"},
    },
    "another word for the end": {"tool_calls": [tool_call("search", ARGUMENTS)], "finish_reason": "tool_use"},
}  # fmt: skip


@pytest.mark.parametrize("case", REPLIES)
def test_calls_are_parsed_in_the_form_of_each_server(command: Command, tmp_path: Path, case: str) -> None:
    def script(text: str, _: int) -> Action:
        if "id: " in text:
            return completion("done", tool_calls=None)
        return completion(**REPLIES[case])

    with chat_server(script) as server:
        options = arguments(server.base_url, tmp_path, TASK, n_concurrent=1)
        done = command(*options, "--limit", "1", "--metadata", json.dumps({**SAMPLE, "search_protocol": "tool_calls"}))
    assert done.status == 0, done.err
    (row,) = logged(tmp_path)
    (step,) = row["doc"]["trajectory"]["steps"]
    assert (step["arguments"]["query"], len(step["passages"]), row["filtered_resps"]) == ("permit", 5, ["done"])
    assert [message["role"] for message in server.bodies[-1]["messages"][-3:]] == ["user", "assistant", "tool"]


def test_a_call_in_a_truncated_reply_is_not_executed(command: Command, tmp_path: Path) -> None:
    cut = completion("", tool_calls=[tool_call("search", ARGUMENTS)], finish_reason="length")
    with chat_server(lambda *_: cut) as server:
        options = arguments(server.base_url, tmp_path, TASK, n_concurrent=1)
        done = command(*options, "--limit", "1", "--metadata", json.dumps({**SAMPLE, "search_protocol": "tool_calls"}))
    assert done.status == 1
    assert "the reply reached the token limit (1 times)" in done.err
    assert "--gen_kwargs max_gen_toks=N" in done.err
    (row,) = logged(tmp_path)
    assert (row["doc"]["no_answer"], row["doc"]["trajectory"]["ending"]) == (
        "the reply reached the token limit",
        "error",
    )


@pytest.mark.parametrize(
    "calls", [[{}], [None], ["search"], [{"function": None}], [{"function": {"name": None, "arguments": None}}]]
)
def test_calls_of_any_form_are_accepted(command: Command, tmp_path: Path, calls: list[Any]) -> None:
    def script(text: str, n_before: int) -> Action:
        return completion("done") if text.startswith("There is no tool") else completion(None, tool_calls=calls)

    with chat_server(script) as server:
        options = arguments(server.base_url, tmp_path, TASK, n_concurrent=1)
        metadata = json.dumps({**SAMPLE, "search_protocol": "tool_calls"})
        done = command(*options, "--limit", "1", "--metadata", metadata)
    assert done.status == 0, done.err
    (row,) = logged(tmp_path)
    assert row["filtered_resps"] == ["done"]
    assert [step["problem"] for step in row["doc"]["trajectory"]["steps"]] == ["unknown_tool"]
