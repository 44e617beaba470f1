"""Requirements of an evaluation with the harness, one by one. `tests/evaluation` tests the commands that check them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.harness import extras
from ragtasks.harness.model_folder import check_model_folder
from ragtasks.harness.preflight import run_requirements, server_of
from ragtasks.harness.run import Request
from ragtasks.requirements import checked
from tests._messages import same_message
from tests.clients._server import Action, ChatServer, chat_server, closed_port, completion, refusal

KEY = "OPENAI_API_KEY"
LIGHT = {"data": "sample", "encoder": "none"}


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (KEY, "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path / "data"))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(lambda _text, _n: completion("fine")) as running:
        yield running


def request(**changes: Any) -> Request:
    fields: dict[str, Any] = {
        "model": "local-chat-completions",
        "model_args": {"model": "m", "base_url": "http://x/v1/chat/completions"},
        "tasks": ["mtrag_reference"],
        "metadata": {**LIGHT, "dtype": "x"},
        "output": None,
        "limit": 3,
        **changes,
    }
    return Request(**fields)


def served(address: str, **arguments: Any) -> Request:
    return request(model_args={"model": "m", "base_url": address, **arguments})


def problems(wanted: Request, *, probes: bool = True) -> list[str]:
    results = checked(run_requirements(wanted, with_requests=probes), with_requests=probes)
    return [result.problem for result in results if result.problem]


def test_only_openai_models_need_a_key(server: ChatServer) -> None:
    of_openai = request(model="openai-chat-completions", model_args={"model": "m"})
    assert problems(of_openai) == [
        "model m: OPENAI_API_KEY is not set, and OpenAI requires a key. Next step: export OPENAI_API_KEY"
    ]
    assert server.asked == []
    address = f"{server.base_url}/chat/completions"
    assert problems(served(address, header={"Authorization": "Bearer x"})) == []
    assert problems(served(address)) == []
    assert [headers.get("authorization") for headers in server.headers] == ["Bearer x", "Bearer no-key"]
    assert {body["model"] for body in server.bodies} == {"m"}
    assert server.asked == ["Reply with the word ready."] * 2


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_server_error_is_quoted_with_a_next_step(status: int, server: ChatServer) -> None:
    server.script = lambda *_: refusal(status, "closed for today")
    address = f"{server.base_url}/chat/completions"
    (problem,) = problems(served(address))
    assert problem.startswith(f"model m at {address}: ")
    assert f"HTTP {status}: " in problem
    assert "closed for today" in problem
    steps = {401: "export OPENAI_API_KEY", 404: "correct the model's name, or the address"}
    assert problem.endswith(steps.get(status, "correct address, model or key (docs/endpoints.md)"))


def test_an_error_in_a_200_is_a_problem_before_the_first_request(server: ChatServer) -> None:
    for body in (b'{"error": "index not ready"}', b'{"choices": []}'):
        server.script = lambda *_, body=body: Action(body)
        (problem,) = problems(served(f"{server.base_url}/chat/completions"))
        assert ("index not ready" in problem) or ("its choices are empty" in problem)


def test_a_model_with_an_unsupported_setting_passes(server: ChatServer) -> None:
    words = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    server.script = lambda *_: refusal(400, words) if "max_tokens" in server.bodies[-1] else completion()
    assert problems(served(f"{server.base_url}/chat/completions")) == []
    assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 16]


def test_a_redirect_receives_no_key() -> None:
    with chat_server(lambda *_: completion()) as other, chat_server(lambda *_: completion()) as server:
        server.script = lambda *_: Action(status=307, headers={"Location": f"{other.base_url}/chat/completions"})
        (problem,) = problems(served(f"{server.base_url}/chat/completions", header={"Authorization": "Bearer x"}))
        assert "HTTP 307" in problem
        assert other.asked == []


def test_an_unreachable_server_is_a_problem_and_a_slow_one_is_not(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"http://127.0.0.1:{closed_port()}/v1/chat/completions"
    (problem,) = problems(served(address))
    assert problem.startswith(f"model m at {address}: ")
    assert "no server answers at the address" in problem
    assert "Next step: start the server" in problem
    monkeypatch.setattr("ragtasks.harness.preflight._SECONDS", 0.2)
    server.script = lambda *_: Action(completion().body, delay_seconds=0.6)
    assert problems(served(f"{server.base_url}/chat/completions")) == []


def test_the_users_system_is_probed_and_unusual_replies_pass(server: ChatServer) -> None:
    system = request(model="ragtasks-endpoint", model_args={"base_url": server.base_url, "num_concurrent": 4})
    assert problems(system) == []
    server.script = lambda *_: refusal(400, "what?")
    (problem,) = problems(system)
    assert problem.startswith(f"endpoint {server.base_url} (openai protocol): HTTP 400: ")


def n_long(
    metadata: Sequence[tuple[str, object]] = (), tasks: Sequence[str] = ("mtrag_reference",), **more: Any
) -> int:
    """Return the number of prompts that are reported to exceed the context."""
    wanted = request(metadata={**LIGHT, **dict(metadata)}, tasks=tasks, limit=None, **more)
    long_prompts = problems(wanted, probes=False)
    return int(long_prompts[0].split()[1]) if long_prompts else 0


def test_prompts_must_fit_the_context_if_it_is_known() -> None:
    few = ("context_tokens", 2048)
    assert 0 < n_long([few]) < 108
    assert n_long() == 0
    assert n_long([("context_tokens", 100_000)]) == 0
    assert n_long([few, ("too_long", "drop_passages")]) == 0
    assert n_long([few], ["mtrag_rewrite"]) == 0, "rewrites are prompts of another kind"
    assert n_long([few], model="ragtasks-oracle") == 0


def weights(folder: Path, content: object) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    for name in ("model.safetensors", "tokenizer.json"):
        (folder / name).touch()
    return str(folder)


@pytest.mark.slow
def test_the_context_of_weights_is_read_from_their_configuration(tmp_path: Path) -> None:
    def long(name: str) -> int:
        return n_long(model="hf", model_args={"pretrained": name})

    expected = n_long([("context_tokens", 2048)])
    # Tokens of weights are only estimated here, so a quarter more is accepted.
    assert long(weights(tmp_path / "w", {"max_position_embeddings": 2048})) < expected
    assert long(weights(tmp_path / "w", {"max_position_embeddings": 1639})) == expected
    unknown: object
    for unknown in ({"max_position_embeddings": 0}, {"max_position_embeddings": "many"}, {}, [], "{broken"):
        assert long(weights(tmp_path / "w", unknown)) == 0
    assert long("nobody/has-this") == 0


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gpt-4o", "use openai/gpt-4o"),
        ("hf", "write `kind: hf`"),
        ("results", "contains no model"),
        ("./result", "no such file or folder. Next step: check the path; did you mean results?"),
    ],
)
def test_a_name_without_weights_is_reported(
    name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    (problem,) = problems(request(model="hf", model_args={"pretrained": name}))
    assert problem.startswith(f"model {name}: ")
    assert why in problem


COMPLETE = ("config.json", "model.safetensors", "tokenizer.json")


def folder_problems(model: str, files: Sequence[str], **arguments: Any) -> list[str]:
    """Return the problems of a folder with these files, in the working folder."""
    folder = Path("weights")
    folder.mkdir()
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}", encoding="utf-8")
    return problems(request(model=model, model_args={"pretrained": "weights", **arguments}))


@pytest.fixture
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder, and the metadata of vLLM for CPUs."""
    installed = tmp_path / "packages" / "vllm-0.32.0+cpu.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")
    monkeypatch.syspath_prepend(installed.parent)
    monkeypatch.setattr(extras, "version_of", extras.version_of.__wrapped__)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_inside")
@pytest.mark.parametrize("model", ["hf", "vllm"])
@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("config.json", "expected config.json, found model.safetensors, tokenizer.json"),
        ("model.safetensors", "expected weights (*.safetensors or *.bin), found config.json, tokenizer.json"),
        (
            "tokenizer.json",
            "expected a tokenizer, such as tokenizer.json, found config.json, model.safetensors, tokenizer_config.json",
        ),
    ],
    ids=COMPLETE,
)
def test_a_model_folder_without_a_part_is_refused(model: str, missing: str, expected: str) -> None:
    """transformers and vLLM replace a missing tokenizer with an empty one, and the answers are nonsense."""
    found = COMPLETE if missing == "model.safetensors" else [*COMPLETE, "tokenizer_config.json"]
    (problem,) = folder_problems(model, [name for name in found if name != missing])
    assert problem.startswith(f"model {str(Path('weights').resolve())!r}: {expected}")
    assert len(problem) < 300 + len(str(Path("weights").resolve()))
    same_message(problem)


@pytest.mark.usefixtures("_inside")
def test_another_tokenizer_is_checked_instead() -> None:
    Path("other").mkdir()
    without = ("config.json", "model.safetensors")
    (problem,) = folder_problems("hf", without, tokenizer="other")
    assert f"model {str(Path('other').resolve())!r}: expected a tokenizer" in problem
    assert "found no file" in problem
    (Path("other") / "tokenizer.model").touch()
    assert problems(request(model="hf", model_args={"pretrained": "weights", "tokenizer": "other"})) == []
    assert problems(request(model="hf", model_args={"pretrained": "weights", "tokenizer": "some/name"})) == []


@pytest.mark.usefixtures("_inside")
@pytest.mark.parametrize(
    ("model", "files", "arguments"),
    [
        ("hf", COMPLETE, {}),
        ("vllm", COMPLETE, {}),
        ("hf", ("config.json", "pytorch_model.bin", "vocab.txt"), {}),
        ("hf", ("config.json", "model-00001-of-00002.safetensors", "spiece.model"), {}),
        ("hf", ("sub/config.json", "sub/model.safetensors", "sub/tokenizer.json"), {"subfolder": "sub"}),
        ("hf", (*COMPLETE, "adapter_config.json"), {"peft": "weights"}),
        ("hf", (*COMPLETE, "pytorch_model.bin.index.json"), {}),
        ("vllm", ("params.json", "consolidated.safetensors", "tekken.json"), {}),
        ("hf", ("model.gguf",), {"gguf_file": "model.gguf"}),
        ("hf", ("config.json",), {"trust_remote_code": True}),
        ("vllm", ("config.json", "consolidated.safetensors", "tekken.json"), {}),
        ("vllm", ("config.json", "tokenizer.json"), {"load_format": "dummy"}),
        ("sglang", ("config.json",), {}),
    ],
)
def test_a_model_folder_that_may_load_is_accepted(model: str, files: Sequence[str], arguments: dict[str, Any]) -> None:
    assert folder_problems(model, files, **arguments) == []


@pytest.mark.usefixtures("_inside")
@pytest.mark.parametrize(("model", "option"), [("hf", "peft"), ("vllm", "lora_local_path")])
def test_an_adapter_is_no_model(model: str, option: str) -> None:
    """lm_eval reads the configuration of the base model in the folder, and vLLM loads no adapter on its own."""
    (problem,) = folder_problems(model, ("adapter_config.json", "adapter_model.safetensors", "tokenizer.json"))
    assert f"an adapter without its base model. Next step: --model_args pretrained=BASE,{option}=weights" in problem
    Path("other").mkdir()
    (problem,) = problems(request(model=model, model_args={"pretrained": "some/name", option: "other"}))
    assert "expected adapter_config.json, found no file" in problem


@pytest.mark.usefixtures("_inside")
@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_pointers_of_git_lfs_are_no_files(name: str) -> None:
    assert folder_problems("hf", COMPLETE) == []
    (Path("weights") / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n")
    (problem,) = problems(request(model="hf", model_args={"pretrained": "weights"}))
    assert f"found pointers of Git LFS ({name}). Next step: `git lfs pull` in the folder" in problem
    (Path("weights") / "pytorch_model.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    (Path("weights") / name).write_text("{}")
    assert problems(request(model="hf", model_args={"pretrained": "weights"})) == [], "other weights are complete"


@pytest.mark.usefixtures("_inside")
def test_missing_shards_are_named() -> None:
    shards = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]
    index = Path("weights/model.safetensors.index.json")
    assert folder_problems("vllm", ("config.json", "tokenizer.json", *shards, index.name)) == []
    index.write_text(json.dumps({"weight_map": dict(zip("abc", shards, strict=True))}), encoding="utf-8")
    assert problems(request(model="hf", model_args={"pretrained": "weights"})) == []
    (Path("weights") / shards[1]).unlink()
    (problem,) = problems(request(model="hf", model_args={"pretrained": "weights"}))
    assert f"expected {shards[1]}, found config.json" in problem
    (Path("weights") / "model.safetensors").touch()
    assert problems(request(model="hf", model_args={"pretrained": "weights"})) == [], "one file is preferred"


@pytest.mark.usefixtures("_inside")
def test_a_judge_in_this_process_is_checked_before_the_model_answers() -> None:
    (problem,) = problems(
        request(
            model="ragtasks-oracle",
            model_args={},
            metadata={**LIGHT, "judges": [{"lm_eval": "hf", "model_args": {"pretrained": "./nothing"}}]},
        )
    )
    assert problem.startswith("model ./nothing: no such file or folder")


def test_a_folder_below_home_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    name = Path(weights(tmp_path / "w", {})).name
    (problem,) = problems(request(model="hf", model_args={"pretrained": f"~/{name}"}))
    assert problem.endswith(f"loaders do not expand `~`. Next step: write {tmp_path / 'w'}")


@pytest.mark.usefixtures("_inside")
def test_a_tokenizer_without_files_is_accepted() -> None:
    assert len(folder_problems("hf", ("config.json", "model.safetensors"))) == 1
    Path("weights/config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}', encoding="utf-8")
    assert problems(request(model="hf", model_args={"pretrained": "weights"})) == []


def test_every_tokenizer_of_transformers_has_a_known_file(tmp_path: Path) -> None:
    package = find_spec("transformers")
    assert package
    assert package.origin
    files = Path(package.origin).parent.rglob("tokenization_*.py")
    tables = [table for file in files for table in re.findall(r"_FILES_NAMES = (\{[^}]*\})", file.read_text("utf-8"))]
    assert len(tables) > 40
    weights(tmp_path, {})
    (tmp_path / "tokenizer.json").unlink()
    check = partial(check_model_folder, "hf", {"pretrained": str(tmp_path)})
    for names in {tuple(re.findall(r': *"([^"]+)"', table)) for table in tables} - {()}:
        with pytest.raises(ConfigurationError):
            check()
        for name in names:
            (tmp_path / name).touch()
        check()
        for name in names:
            (tmp_path / name).unlink()


@pytest.mark.parametrize(
    ("changes", "address"),
    [
        ({}, "http://x/v1/chat/completions"),
        (
            {"model": "local-completions", "model_args": {"model": "m", "base_url": "http://x/v1/completions"}},
            "http://x/v1/completions",
        ),
        (
            {"model": "openai-chat-completions", "model_args": {"model": "m"}},
            "https://api.openai.com/v1/chat/completions",
        ),
        ({"model": "ragtasks-oracle"}, None),
        ({"model_args": {"model": "m"}}, None),
        ({"model_args": {"base_url": "http://x"}}, None),
        ({"model": "hf", "model_args": {"pretrained": "some/weights"}}, None),
    ],
)
def test_each_model_type_has_its_server(changes: dict[str, Any], address: str | None) -> None:
    assert server_of(request(**changes)) == (None if address is None else (address, {}))


def test_the_key_is_sent_as_the_harness_sends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "sk-of-a-test-0123456789")
    assert server_of(request()) == (
        "http://x/v1/chat/completions",
        {"Authorization": "Bearer sk-of-a-test-0123456789"},
    )
    assert server_of(served("http://x", header={"X": "y"})) == ("http://x", {"X": "y"})


def test_a_missing_client_library_names_the_extra_of_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    problems = [check.problem for check in checked(run_requirements(request())) if check.problem]
    assert problems == ["model m needs openai, which is not installed. Next step: pip install 'ragtasks[api]'"]
