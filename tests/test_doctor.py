"""`ragtasks doctor` with a real loopback server, and with data folders in every state."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from ragtasks.benchmarks import SAMPLE, benchmark_folder, source_of
from ragtasks.benchmarks.download import adopt
from ragtasks.cli import doctor
from ragtasks.cli.doctor import diagnose
from ragtasks.harness import extras
from tests.benchmarks._server import Behaviour, FileServer, drop_after, serving, status

KEY = "sk-a-secret-key"
MODELS = json.dumps({"object": "list", "data": [{"id": "org/model-1"}, {"id": "model-2"}]}).encode()

STEP = "Next step: start the server, or correct its address or key"


@pytest.fixture
def server() -> Iterator[FileServer]:
    bodies = {"v1": MODELS, "short": MODELS, "page": b"<html>", "list": b"[1]", "null": b'{"data": null}'}
    with serving({f"{path}/models": body for path, body in bodies.items()}) as found:
        failing: dict[str, Behaviour] = {str(code): status(code) for code in (401, 404, 500)} | {
            "redirect": status(302, Location=f"{found.url}v1/models"),
            "hang": lambda handler, _: handler.files.released.wait(20),
            "drop": lambda *_: None,
            "babble": lambda handler, _: handler.wfile.write(b"no HTTP at all\r\n\r\n"),
            "short": drop_after(20),
        }
        found.behaviours = {f"{path}/models": [behaviour] for path, behaviour in failing.items()}
        yield found


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder and a key, so that tests do not depend on the machine."""
    monkeypatch.setenv("RAGTASKS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "data"


def endpoint_line(endpoint: str) -> str:
    lines = diagnose([endpoint])
    assert KEY not in "\n".join(lines)
    (line,) = [line for line in lines if line.startswith("endpoint")]
    return line


def test_an_endpoint_that_answers_names_its_models(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}v1")
    for slash in ("", "/"):
        line = endpoint_line(f"{server.url}v1{slash}")
        assert line == f"endpoint {server.url}v1{slash}: answers, models: org/model-1, model-2"
        assert server.authorization == f"Bearer {KEY}"
    assert server.log == [("v1/models", None)] * 2


def test_the_key_of_openai_goes_to_no_other_server(server: FileServer) -> None:
    assert "answers" in endpoint_line(f"{server.url}v1")
    assert (server.log, server.authorization) == ([("v1/models", None)], "")


def test_no_key_is_sent_without_a_key(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "answers" in endpoint_line(f"{server.url}v1")
    assert (server.log, server.authorization) == ([("v1/models", None)], "")


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("401", "HTTP 401"),
        ("404", "HTTP 404"),
        ("500", "HTTP 500"),
        ("page", "no answer (JSONDecodeError)"),
        ("list", "no answer (TypeError)"),
        ("null", "no answer (TypeError)"),
        ("short", "no answer (IncompleteRead)"),
        ("drop", "no answer (RemoteDisconnected)"),
        ("babble", "no answer (BadStatusLine)"),
    ],
)
def test_a_failing_endpoint_is_reported_with_its_error(server: FileServer, path: str, answer: str) -> None:
    assert endpoint_line(f"{server.url}{path}").endswith(f": {answer}. {STEP}")


def test_a_redirect_is_shown_and_not_followed_with_the_key(server: FileServer) -> None:
    assert endpoint_line(f"{server.url}redirect").endswith(f"HTTP 302. {STEP}")
    assert server.log == [("redirect/models", None)]


def test_a_hanging_endpoint_times_out(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_TIMEOUT_SECONDS", 0.2)
    assert endpoint_line(f"{server.url}hang").endswith(f"no answer (TimeoutError). {STEP}")


def test_a_closed_port_is_reported() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert endpoint_line(f"http://127.0.0.1:{port}/v1").endswith(f"no answer (ConnectionRefusedError). {STEP}")


def test_user_password_and_query_are_never_shown(server: FileServer) -> None:
    address = server.url.replace("http://", "http://anna:pass-word@")
    line = endpoint_line(f"{address}v1?api_key=hidden")
    assert line == f"endpoint {server.url}v1: answers, models: org/model-1, model-2"


@pytest.mark.parametrize(
    "endpoint", ["anna:pass-word@host/v1", "localhost:8000/v1", "http://[::1/v1", "file:///etc/hosts", "", "http://"]
)
def test_an_invalid_address_is_neither_requested_nor_printed(endpoint: str) -> None:
    line = endpoint_line(endpoint)
    assert line.startswith("endpoint: not an address such as http://localhost:8000/v1")
    assert "pass-word" not in line


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:notaport/v1", "http://127.0.0.1:99999/v1"])
def test_an_impossible_port_is_no_crash(endpoint: str) -> None:
    assert "no answer" in endpoint_line(endpoint)


def test_several_endpoints_are_checked_in_order(server: FileServer) -> None:
    lines = diagnose([f"{server.url}{path}" for path in ("401", "v1")])
    assert [line.rpartition(": ")[2] for line in lines if line.startswith("endpoint")] == [
        STEP.partition(": ")[2],
        "org/model-1, model-2",
    ]
    assert f": HTTP 401. {STEP}" in "\n".join(lines)


def test_no_endpoint_is_checked_by_default() -> None:
    assert "endpoints: not checked (ragtasks doctor --endpoint http://localhost:8000/v1)" in diagnose()


def test_software_and_tasks_are_listed() -> None:
    lines = diagnose()
    assert lines[0].startswith("python 3.")
    assert any(f"lm-eval {version('lm-eval')}" in line for line in lines)
    assert any(line.startswith("task YAMLs: ") for line in lines)
    assert any(line.startswith("stock lm_eval: ") for line in lines)
    assert any(line.startswith("samples inside the package: ") and "mtrag_un" in line for line in lines)


def test_a_missing_extra_is_named_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (doctor, extras):
        monkeypatch.setattr(module, "missing_of", lambda extra: ["accelerate"] if extra == "hf" else [])
    assert "extra hf (--model hf): missing accelerate: pip install 'ragtasks[hf]'" in diagnose()
    assert diagnose()[-1].startswith("next: ragtasks run --model ragtasks-oracle"), "an extra is asked for by a model"
    assert diagnose(model="hf")[-1] == "next: pip install 'ragtasks[hf]'"
    assert any("model litellm: has no extra in ragtasks" in line for line in diagnose(model="litellm"))


def test_the_extra_of_a_model_is_installed() -> None:
    for model in ("hf", "local-chat-completions"):
        lines = diagnose(model=model)
        assert not any("lacks" in line for line in lines), "pip install --editable '.[dev]' renews what is installed"
        assert len([line for line in lines if line.startswith("extra ")]) == 1
        assert lines[-1].startswith(f"next: ragtasks run --model {model} --tasks mtrag --data sample")
        assert "--model_args" in lines[-1]


def test_an_empty_data_folder_names_the_next_step(surroundings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = diagnose()
    assert f"data folder: {surroundings} (RAGTASKS_DATA)" in lines
    (line,) = (line for line in lines if "not fetched" in line)
    assert line.startswith("not fetched: doc2dial, ikat23")
    assert line.endswith("trec_rag25 (ragtasks data fetch NAME)")
    assert len([line for line in lines if line.startswith("next: ")]) == 1
    monkeypatch.delenv("RAGTASKS_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(surroundings))
    monkeypatch.setenv("HOME", str(surroundings))
    assert any("default; RAGTASKS_DATA is not set" in line for line in diagnose())


def test_correct_and_wrong_files_are_distinguished(surroundings: Path, mtrag_root: Path) -> None:
    adopt(source_of("mtrag"), mtrag_root, surroundings, groups=["mtrag_un"])
    (line,) = [line for line in diagnose() if line.startswith("mtrag, mtrag_un: ")]
    assert line.startswith("mtrag, mtrag_un: 5 ok of 5 files")
    assert any(line.startswith("mtrag, tasks, evaluations, corpora, judge_prompts") for line in diagnose())
    wrong = surroundings / source_of("mtrag").folder / "mtragun-human/generation_tasks/reference.jsonl"
    sample = benchmark_folder("mtrag", SAMPLE, surroundings)
    shutil.copy(sample / "mtrag-human/generation_tasks/reference.jsonl", wrong)
    lines = diagnose()
    assert f"  wrong checksum: {wrong}" in lines
    assert lines[-1] == "next: ragtasks data fetch mtrag --group mtrag_un"
    assert any(line.startswith("mtrag, mtrag_un: ") and "1 wrong checksum" in line and "4 ok" in line for line in lines)


def test_the_next_step_without_a_gpu_is_another_kind_of_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed build of vLLM for GPUs, on a machine where torch detects none. A newer build would not help."""
    installed = tmp_path / "vllm-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(extras, "version_of", extras.version_of.__wrapped__)
    lines = diagnose(model="vllm")
    assert any(line.startswith("vLLM 0.1.0 cannot run on this machine: expected a GPU, found none") for line in lines)
    assert "vllm" in extras.missing_of("vllm")
    assert lines[-1].startswith("next: use --model hf")


def test_the_build_for_gpus_is_not_advised_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(extras, "version_of", extras.version_of.__wrapped__)
    lines = diagnose(model="vllm")
    assert any(line.startswith("vLLM is not installed, and its usual build requires a GPU") for line in lines)
    assert lines[-1].startswith("next: use --model hf")
