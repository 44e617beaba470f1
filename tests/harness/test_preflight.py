"""What is looked at before the first request, part by part; as users see it: `tests/evaluation/test_preflight.py`."""

from __future__ import annotations

import json
import shutil
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import SystemProtocol, endpoint_of
from ragtasks.config import EvaluationConfig, config_from_options
from ragtasks.errors import ConfigurationError
from ragtasks.harness.preflight import Intention, ServedModel, intention_of, problems_of, require
from ragtasks.harness.run import Request
from ragtasks.records import Setting
from tests.clients._server import Action, ChatServer, chat_server, closed_port, completion, refusal

PARTS = (("mtrag", Setting.REFERENCE),)
KEY = "OPENAI_API_KEY"


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (KEY, "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path / "data"))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(lambda _text, _n: completion("fine")) as running:
        yield running


def config(**options: Any) -> EvaluationConfig:
    return config_from_options({"data": "sample", "encoder": "none", **options})


SAMPLE = Intention(PARTS, config())


def test_an_evaluation_that_lacks_nothing_has_no_problem() -> None:
    assert problems_of(SAMPLE) == []
    require(SAMPLE)


def test_what_is_known_already_is_said_with_what_is_found() -> None:
    known = replace(SAMPLE, problems=("one. Next step: two",))
    with pytest.raises(ConfigurationError) as caught:
        require(known)
    assert str(caught.value) == "1 problem before the first request; nothing was evaluated:\n- one. Next step: two"
    with pytest.raises(ConfigurationError, match=r"^2 problems before .*\n- no such\n- one$"):
        require(replace(known, problems=("no such", "one")))


@pytest.mark.parametrize(("free", "is_enough"), [(212_000_000, True), (210_000_000, False)])
def test_results_take_so_much_for_each_answer(
    free: int, is_enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample has 112 tasks in a setting, whose answers take 100 kB each; 200 MB are to spare."""
    looked: list[Path] = []
    usage = namedtuple("usage", "free")

    def disk(place: Path) -> usage:
        looked.append(place)
        return usage(free)

    monkeypatch.setattr(shutil, "disk_usage", disk)
    found = problems_of(replace(SAMPLE, output=tmp_path / "not" / "there"))
    assert looked == [tmp_path]
    assert [f"{tmp_path} has 0.21 GB left, and results of this size take about 0.21 GB" in line for line in found] == (
        [] if is_enough else [True]
    )
    looked.clear()
    problems_of(SAMPLE)
    assert not looked


def test_only_a_score_that_needs_an_encoder_asks_for_one() -> None:
    wanted = replace(SAMPLE, config=config(encoder="nobody/has-this"))
    (found,) = problems_of(replace(wanted, parts=(*PARTS, ("mtrag", Setting.FULL_RAG))))
    assert found.startswith("encoder nobody/has-this: the main score rb_alg would be unscored: it is in no folder here")
    assert "HF_HUB_OFFLINE forbids to ask the hub for it. Next step: `hf download nobody/has-this`" in found
    assert problems_of(replace(wanted, is_scored=False)) == []
    assert problems_of(replace(wanted, suites={"mtrag": "rewriting"})) == []


def test_a_benchmark_without_an_encoder_hides_none_behind_it() -> None:
    parts = (("multihop_rag", Setting.REFERENCE), *PARTS)
    wanted = replace(SAMPLE, parts=parts, config=config(encoder="nobody/has-this"))
    (found,) = problems_of(wanted)
    assert found.startswith("encoder nobody/has-this: the main score rb_alg would be unscored")


def test_answers_to_each_benchmark_count_where_no_passages_are_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """112 tasks of MTRAG's sample and 20 of MultiHop-RAG's, whose answers take 100 kB each; 200 MB are to spare."""
    usage = namedtuple("usage", "free")
    parts = (*PARTS, ("multihop_rag", Setting.REFERENCE))
    wanted = replace(SAMPLE, parts=parts, needs_passages=False, output=tmp_path)
    for free, is_enough in ((213_000_000, False), (214_000_000, True)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage(free))
        assert (problems_of(wanted) == []) is is_enough


@pytest.mark.parametrize(
    ("options", "who"),
    [
        ({"judges": ["openai/j"]}, "judge openai/j"),
        ({"rewriter": "openai/r"}, "rewriter openai/r"),
    ],
)
def test_whoever_is_of_openai_needs_a_key(options: dict[str, Any], who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    intention = replace(SAMPLE, config=config(**options))
    found = problems_of(intention, probes=False)
    assert found[-1] == (
        f"{who}: OPENAI_API_KEY is not set, and https://api.openai.com/v1 wants a key. Next step: export "
        "OPENAI_API_KEY, or name the variable that holds it by api_key_env"
    )
    without_scores = problems_of(replace(intention, is_scored=False), probes=False)
    assert without_scores == [line for line in found if line.startswith("rewriter")]
    monkeypatch.setenv(KEY, "sk-of-a-test-0123456789")
    assert problems_of(intention, probes=False) == []


def test_a_judge_of_this_process_needs_no_key() -> None:
    local = {"lm_eval": "hf", "model_args": {"pretrained": "x"}}
    assert problems_of(replace(SAMPLE, config=config(judges=[local]))) == []


def test_a_model_of_openai_needs_a_key_and_one_elsewhere_none(server: ChatServer) -> None:
    model = ServedModel("m", f"{server.base_url}/chat/completions", is_of_openai=True)
    assert problems_of(replace(SAMPLE, model=model)) == [
        "model m: OPENAI_API_KEY is not set, and OpenAI wants a key. Next step: export OPENAI_API_KEY"
    ]
    assert server.asked == []
    assert problems_of(replace(SAMPLE, model=replace(model, headers={"Authorization": "Bearer x"}))) == []
    assert problems_of(replace(SAMPLE, model=replace(model, is_of_openai=False))) == []
    assert [sorted(body.keys() - {"messages", "model"}) for body in server.bodies] == [
        ["max_completion_tokens"],
        ["max_tokens"],
    ]
    assert [headers.get("authorization") for headers in server.headers] == ["Bearer x", "Bearer no-key"]
    assert {body["model"] for body in server.bodies} == {"m"}
    assert server.asked == ["Reply with the word ready."] * 2


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_the_refusal_of_a_model_s_server_is_quoted_with_a_next_step(status: int, server: ChatServer) -> None:
    server.script = lambda *_: refusal(status, "closed for today")
    address = f"{server.base_url}/chat/completions"
    (found,) = problems_of(replace(SAMPLE, model=ServedModel("m", address)))
    assert found.startswith(f"model m at {address}: ")
    assert f"HTTP {status}: " in found
    assert "closed for today" in found
    assert found.endswith("correct address, model or key (docs/endpoints.md)")


def test_a_model_that_refuses_a_setting_has_no_problem(server: ChatServer) -> None:
    words = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    server.script = lambda *_: refusal(400, words) if "max_tokens" in server.bodies[-1] else completion()
    assert problems_of(replace(SAMPLE, model=ServedModel("m", f"{server.base_url}/chat/completions"))) == []
    assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 16]


def test_a_redirect_gets_no_key() -> None:
    with chat_server(lambda *_: completion()) as other, chat_server(lambda *_: completion()) as server:
        server.script = lambda *_: Action(status=307, headers={"Location": f"{other.base_url}/chat/completions"})
        address = f"{server.base_url}/chat/completions"
        (found,) = problems_of(replace(SAMPLE, model=ServedModel("m", address, {"Authorization": "Bearer x"})))
        assert "HTTP 307" in found
        assert other.asked == []


def test_nobody_at_a_model_s_address_is_a_problem_and_a_slow_one_is_none(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"http://127.0.0.1:{closed_port()}/v1/chat/completions"
    (found,) = problems_of(replace(SAMPLE, model=ServedModel("m", address)))
    assert found.startswith(f"model m at {address}: ")
    assert "no server answers at the address" in found
    assert "Next step: start the server" in found
    monkeypatch.setattr("ragtasks.harness.preflight._SECONDS", 0.2)
    server.script = lambda *_: Action(completion().body, delay_seconds=0.6)
    assert problems_of(replace(SAMPLE, model=ServedModel("m", f"{server.base_url}/chat/completions"))) == []


@pytest.mark.parametrize(
    ("role", "who"), [("judges", "judge"), ("rewriter", "rewriter")], ids=["a judge", "a rewriter"]
)
def test_an_endpoint_is_asked_once(role: str, who: str, server: ChatServer) -> None:
    named = {"model": "j", "base_url": server.base_url, "attempts": 5}
    intention = replace(SAMPLE, config=config(**{role: named}))
    server.script = lambda *_: refusal(500, "boom")
    (found,) = problems_of(intention)
    assert found.startswith(f"{who} j at {server.base_url}: HTTP 500: ")
    assert found.count("Next step: ") == 1
    assert server.asked == ["Reply with the word ready."]
    server.script = lambda *_: refusal(404)
    (found,) = problems_of(intention)
    assert found.startswith(f"{who} j at {server.base_url}: ")
    assert "does not know the model, or the address" in found
    assert found.count("Next step: ") == 1
    for odd in (completion(""), completion("anything")):
        server.script = lambda *_, odd=odd: odd
        assert problems_of(intention) == []
    n_asked = len(server.asked)
    assert problems_of(intention, probes=False) == []
    assert len(server.asked) == n_asked
    problems_of(replace(intention, is_scored=False))
    assert len(server.asked) == n_asked + (role == "rewriter"), "rankings have no judges"


def test_ones_own_system_is_asked_and_what_is_odd_is_left_to_the_evaluation(server: ChatServer) -> None:
    system = (endpoint_of({"model": "mine", "base_url": server.base_url}), SystemProtocol.OPENAI)
    assert problems_of(replace(SAMPLE, system=system)) == []
    server.script = lambda *_: refusal(400, "what?")
    (found,) = problems_of(replace(SAMPLE, system=system))
    assert found.startswith(f"endpoint {server.base_url} (openai protocol): HTTP 400: ")


def test_two_benchmarks_are_looked_at_each_with_its_own_problem(tmp_path: Path) -> None:
    parts = (("mtrag", Setting.FULL_RAG), *PARTS, ("mtrag_un", Setting.REFERENCE), ("mtrag_un", Setting.FULL_RAG))
    found = problems_of(Intention(parts, config_from_options({"encoder": "none"})))
    assert [line.partition(":")[0] for line in found] == ["data of mtrag", "data of mtrag_un"]
    missing = replace(SAMPLE, parts=(("mtrag", Setting.FULL_RAG),), config=config(run="nothere"))
    (line,) = problems_of(missing)
    assert line.startswith("no run 'nothere' in ")
    assert problems_of(replace(missing, needs_passages=False)) == []


def weights(folder: Path, content: object) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(folder)


def test_prompts_must_fit_the_context_where_it_is_known(tmp_path: Path) -> None:
    intention = replace(SAMPLE, tasks=("mtrag_reference",), options={"data": "sample", "encoder": "none"})

    def long(**changes: Any) -> int:
        found = problems_of(replace(intention, **changes))
        return int(found[0].split()[1]) if found else 0

    n_long = long(config=config(context_tokens=2048))
    assert 0 < n_long < 108
    assert long() == 0
    assert long(config=config(context_tokens=100_000)) == 0
    assert long(config=config(context_tokens=2048, too_long="drop_passages")) == 0
    assert long(config=config(context_tokens=2048), tasks=()) == 0
    (other,) = problems_of(replace(intention, config=config(context_tokens=2048), problems=("first this",)))
    assert other == "first this"


@pytest.mark.slow
def test_the_context_of_weights_is_that_of_their_configuration(tmp_path: Path) -> None:
    intention = replace(SAMPLE, tasks=("mtrag_reference",), options={"data": "sample", "encoder": "none"})

    def long(**changes: Any) -> int:
        found = problems_of(replace(intention, **changes))
        return int(found[0].split()[1]) if found else 0

    n_long = long(config=config(context_tokens=2048))
    # The tokens of weights are only estimated here: a quarter more is let pass.
    assert long(weights=weights(tmp_path / "w", {"max_position_embeddings": 2048})) < n_long
    assert long(weights=weights(tmp_path / "w", {"max_position_embeddings": 1639})) == n_long
    unknown: object
    for unknown in ({"max_position_embeddings": 0}, {"max_position_embeddings": "many"}, {}, [], "{broken"):
        assert long(weights=weights(tmp_path / "w", unknown)) == 0
    for nothing in (str(tmp_path / "nothing"), "nobody/has-this", "no name of the hub: //"):
        assert long(weights=nothing) == 0


def request(**changes: Any) -> Request:
    given: dict[str, Any] = {
        "model": "local-chat-completions",
        "model_args": {"model": "m", "base_url": "http://x/v1/chat/completions"},
        "tasks": ["mtrag_reference"],
        "metadata": {"data": "sample", "encoder": "none", "dtype": "x"},
        "output": Path("out"),
        **changes,
    }
    return Request(**given)


def test_arguments_of_the_harness_are_an_intention() -> None:
    found = intention_of(request())
    assert (list(found.parts), found.output, found.config) == ([("mtrag", Setting.REFERENCE)], Path("out"), config())
    assert found.model == ServedModel("m", "http://x/v1/chat/completions")
    assert (found.system, found.weights, found.suites) == (None, None, {})
    assert (found.tasks, found.options) == (["mtrag_reference"], {"data": "sample", "encoder": "none"})


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"model": "ragtasks-oracle"}, lambda found: (found.tasks, found.model) == ((), None)),
        ({"limit": 3}, lambda found: found.tasks == ()),
        ({"tasks": ["mtrag_rewrite"]}, lambda found: found.tasks == () and set(found.suites) == {"mtrag"}),
        ({"tasks": ["hellaswag"]}, lambda found: (found.tasks, list(found.parts)) == ((), [])),
        (
            {"model": "hf", "model_args": {"pretrained": "some/weights"}},
            lambda found: (found.weights, found.model) == ("some/weights", None),
        ),
        (
            {"model": "local-completions", "model_args": {"model": "m", "base_url": "http://x/v1/completions"}},
            lambda found: found.model == ServedModel("m", "http://x/v1/completions", is_chat=False),
        ),
        (
            {"model": "openai-chat-completions", "model_args": {"model": "m"}},
            lambda found: (
                found.model == ServedModel("m", "https://api.openai.com/v1/chat/completions", is_of_openai=True)
            ),
        ),
        ({"model_args": {"model": "m"}}, lambda found: found.model is None),
        ({"model_args": {"base_url": "http://x"}}, lambda found: found.model is None),
        (
            {"model": "ragtasks-endpoint", "model_args": {"base_url": "http://x", "num_concurrent": 4}},
            lambda found: (found.system[0].address, found.system[1].value) == ("http://x", "openai"),
        ),
    ],
)
def test_each_kind_of_model_is_looked_at_in_its_way(changes: dict[str, Any], what: Callable[[Intention], bool]) -> None:
    found = intention_of(request(**changes))
    assert what(found), found


def test_the_key_goes_to_the_model_s_server_as_the_harness_sends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "sk-of-a-test-0123456789")
    found = intention_of(request())
    assert found.model is not None
    assert found.model.headers == {"Authorization": "Bearer sk-of-a-test-0123456789"}
    assert "sk-of" not in repr(found)
    own = intention_of(request(model_args={"model": "m", "base_url": "http://x", "header": {"X": "y"}}))
    assert own.model is not None
    assert own.model.headers == {"X": "y"}
