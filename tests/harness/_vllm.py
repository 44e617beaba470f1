"""A replacement package for vLLM, for tests without an engine: the parts that lm_eval uses, and a scripted model.

`make vllm-test` compares its signatures and its errors with the real package.
"""

from __future__ import annotations

import importlib.machinery
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, field_validator
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

VERSION = "0.32.0+cpu"
CONTEXT = 65_536
BOS, EOS = "<s>", "</s>"

ENGINE_ARGUMENTS = {"enable_lora", "max_lora_rank", "max_model_len", "max_num_seqs"}
"""Parameters of `EngineArgs` that lm_eval always passes, in addition to the named parameters of `LLM`."""

TokensPrompt = dict  # a typed dictionary in vLLM


class VLLMError(Exception):
    """Base class of vLLM's errors. It is neither a ValueError nor a RuntimeError."""


class VLLMValidationError(VLLMError):
    """A request that vLLM rejects."""


class EngineDeadError(VLLMError):
    """The engine's process has ended."""


for _error in (VLLMError, VLLMValidationError):
    _error.__module__ = "vllm.exceptions"
EngineDeadError.__module__ = "vllm.v1.engine.exceptions"


@dataclass
class StructuredOutputsParams:
    """A constraint on a reply."""

    json: str | dict[str, Any] | None = None
    regex: str | None = None


@dataclass
class SamplingParams:
    """The parameters that are used here, with vLLM's defaults and limits."""

    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: str | list[str] | None = None
    max_tokens: int | None = 16
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    structured_outputs: StructuredOutputsParams | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= 2.0:
            raise VLLMValidationError(f"temperature must be in [0, 2], got {self.temperature}.")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise VLLMValidationError(f"max_tokens must be at least 1, got {self.max_tokens}.")
        self.stop = [self.stop] if isinstance(self.stop, str) else self.stop or []


@dataclass
class LoRARequest:
    """Unused; the harness imports it."""

    lora_name: str
    lora_int_id: int
    lora_path: str = ""


class ModelConfig(BaseModel):
    """vLLM's configuration of a model, which rejects a context that the model does not have."""

    max_model_len: int = CONTEXT

    @field_validator("max_model_len")
    @classmethod
    def _is_within(cls, value: int) -> int:
        if value > CONTEXT:
            raise ValueError(
                f"User-specified max_model_len ({value}) is greater than the derived max_model_len "
                f"(max_position_embeddings={CONTEXT}.0 or model_max_length=None in model's config.json)."
            )
        return value


@dataclass
class Call:
    """One call of `generate`."""

    token_ids: list[list[int]]
    texts: list[str]
    sampling: list[SamplingParams]


class LLM:
    """vLLM's engine with a script for a model."""

    script: ClassVar[Callable[[str], str]] = lambda _: "An answer."
    """Prompt -> reply of the model."""
    made: ClassVar[list[LLM]] = []
    """All engines of the current test."""

    def __init__(
        self,
        model: str,
        *,
        tokenizer: str | None = None,
        tokenizer_mode: str = "auto",
        trust_remote_code: bool = False,
        tensor_parallel_size: int = 1,
        dtype: str = "auto",
        quantization: str | None = None,
        revision: str | None = None,
        tokenizer_revision: str | None = None,
        seed: int = 0,
        gpu_memory_utilization: float = 0.92,
        enforce_eager: bool = False,
        **kwargs: Any,
    ) -> None:
        if unknown := kwargs.keys() - ENGINE_ARGUMENTS:
            raise TypeError(f"EngineArgs.__init__() got an unexpected keyword argument {sorted(unknown)[0]!r}")
        self.arguments = {
            **{"model": model, "tensor_parallel_size": tensor_parallel_size, "dtype": dtype, "seed": seed},
            **{"trust_remote_code": trust_remote_code, "gpu_memory_utilization": gpu_memory_utilization},
            **kwargs,
        }
        self.calls: list[Call] = []
        self._tokenizer = get_tokenizer(tokenizer or model)
        self.llm_engine = SimpleNamespace(
            model_config=ModelConfig(max_model_len=kwargs.get("max_model_len") or CONTEXT)
        )
        LLM.made.append(self)

    def generate(
        self,
        prompts: Any,
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        lora_request: Any = None,
    ) -> list[Any]:
        """Answer all prompts of a call, each with its own parameters."""
        assert isinstance(sampling_params, list), "the harness pairs each prompt with its own"
        assert len(sampling_params) == len(prompts)
        token_ids = [list(prompt["prompt_token_ids"]) for prompt in prompts]
        for ids in token_ids:
            self._check_length(len(ids))
        texts = [self._tokenizer.decode(ids) for ids in token_ids]
        self.calls.append(Call(token_ids, texts, list(sampling_params)))
        return [self._output(*parts) for parts in zip(token_ids, texts, sampling_params, strict=True)]

    def _check_length(self, n_tokens: int) -> None:
        limit = self.llm_engine.model_config.max_model_len
        if not n_tokens:
            raise VLLMValidationError("The decoder prompt cannot be empty")
        if n_tokens > limit:
            raise VLLMValidationError(
                f"This model's maximum context length is {limit} tokens. However, your prompt contains at least "
                f"{n_tokens} input tokens, which exceeds this limit even without any output tokens."
            )
        if n_tokens == limit:
            raise VLLMValidationError(
                f"The decoder prompt (length {n_tokens}) plus the number of requested output tokens (at least 1) is "
                f"longer than the maximum model length of {limit}."
            )

    def _output(self, prompt_token_ids: list[int], prompt: str, sampling: SamplingParams) -> Any:
        """Return the script's reply, cut at the limit, at the EOS token, or before the first stop string."""
        ids = self._tokenizer(LLM.script(prompt) + self._tokenizer.eos_token, add_special_tokens=False).input_ids
        n_before_end = ids.index(self._tokenizer.eos_token_id)
        kept = ids[: min(n_before_end, sampling.max_tokens or len(ids))]
        text = self._tokenizer.decode(kept)
        assert isinstance(sampling.stop, list)
        stop_at = min((position for stop in sampling.stop if (position := text.find(stop)) >= 0), default=math.inf)
        is_stopped = stop_at < len(text) or len(kept) < (sampling.max_tokens or math.inf)
        output = SimpleNamespace(
            index=0,
            text=text[: int(min(stop_at, len(text)))],
            token_ids=kept,
            finish_reason="stop" if is_stopped else "length",
        )
        return SimpleNamespace(prompt_token_ids=prompt_token_ids, outputs=[output], prompt_logprobs=None, finished=True)


def get_tokenizer(
    tokenizer_name: str | Path, *args: Any, trust_remote_code: bool = False, revision: str | None = None, **kwargs: Any
) -> Any:
    """Return the tokenizer of a folder, as vLLM loads it."""
    kwargs.pop("tokenizer_mode", None)
    return AutoTokenizer.from_pretrained(tokenizer_name, trust_remote_code=trust_remote_code, **kwargs)


def resolve_chat_template(
    tokenizer: Any, chat_template: str | None, tools: list[dict[str, Any]] | None, *, model_config: Any
) -> str | None:
    """Return the tokenizer's own template if none is given."""
    return chat_template or tokenizer.chat_template


REPLACED: dict[str, dict[str, Any]] = {
    "vllm": {"LLM": LLM, "SamplingParams": SamplingParams, "TokensPrompt": TokensPrompt, "__path__": []},
    "vllm.exceptions": {"VLLMError": VLLMError, "VLLMValidationError": VLLMValidationError},
    "vllm.lora": {"__path__": []},
    "vllm.lora.request": {"LoRARequest": LoRARequest},
    "vllm.renderers": {"__path__": []},
    "vllm.renderers.hf": {"resolve_chat_template": resolve_chat_template},
    "vllm.sampling_params": {"SamplingParams": SamplingParams, "StructuredOutputsParams": StructuredOutputsParams},
    "vllm.tokenizers": {"get_tokenizer": get_tokenizer},
}
"""Module -> its content."""


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[LLM]]:
    """The replacement, importable as `vllm` and with a version, for one test."""
    for name, content in REPLACED.items():
        module = ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package="__path__" in content)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    metadata = tmp_path / "site" / f"vllm-{VERSION}.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(metadata.parents[1]))
    monkeypatch.delitem(sys.modules, "lm_eval.models.vllm_causallms", raising=False)
    monkeypatch.setattr(LLM, "made", [])
    yield LLM
    sys.modules.pop("lm_eval.models.vllm_causallms", None)


@dataclass(frozen=True)
class ModelFolder:
    """A folder for `pretrained`, with configuration, tokenizer and a file of weights that is never opened."""

    path: Path
    bos_id: int
    render: Callable[..., str] = field(repr=False)


def model_folder(path: Path, chat_template: str | None) -> ModelFolder:
    """Write a folder with a real byte tokenizer, which begins every text with one BOS itself."""
    alphabet = [BOS, EOS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    core = Tokenizer(models.BPE({symbol: index for index, symbol in enumerate(alphabet)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 0)])
    made = PreTrainedTokenizerFast(tokenizer_object=core, bos_token=BOS, eos_token=EOS, pad_token=EOS)
    made.chat_template = chat_template
    made.save_pretrained(path)
    (path / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": len(alphabet)}), "utf-8")
    (path / "model.safetensors").touch()
    return ModelFolder(path, 0, made.apply_chat_template)
