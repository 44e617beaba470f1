"""A replacement package for vLLM, for machines without a GPU: its signatures, its checks, and a scripted model."""

from __future__ import annotations

import importlib.machinery
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

VERSION = "0.33.0"
CONTEXT = 65_536
BOS, EOS = "<s>", "</s>"

_ENGINE_ARGUMENTS = {
    *("disable_log_stats", "distributed_executor_backend", "download_dir", "enable_chunked_prefill", "enable_lora"),
    *("enable_prefix_caching", "kv_cache_dtype", "load_format", "max_lora_rank", "max_model_len"),
    *("max_num_batched_tokens", "max_num_seqs", "pipeline_parallel_size"),
}
"""Parameters of `EngineArgs` that users and the harness pass, in addition to the named parameters of `LLM`."""

TokensPrompt = dict  # a typed dictionary in vLLM


@dataclass
class SamplingParams:
    """The parameters that vLLM accepts. Those without effect here are checked only by name."""

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    include_stop_str_in_output: bool = False


@dataclass
class LoRARequest:
    """Unused; the harness imports it."""

    lora_name: str
    lora_int_id: int
    lora_path: str = ""


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
        runner: str = "auto",
        convert: str = "auto",
        tokenizer: str | None = None,
        tokenizer_mode: str = "auto",
        skip_tokenizer_init: bool = False,
        trust_remote_code: bool = False,
        tensor_parallel_size: int = 1,
        dtype: str = "auto",
        quantization: str | None = None,
        revision: str | None = None,
        tokenizer_revision: str | None = None,
        chat_template: str | None = None,
        seed: int = 0,
        gpu_memory_utilization: float = 0.92,
        cpu_offload_gb: float = 0,
        enforce_eager: bool = False,
        disable_custom_all_reduce: bool = False,
        hf_token: bool | str | None = None,
        hf_overrides: Any = None,
        **engine_arguments: Any,
    ) -> None:
        unknown = engine_arguments.keys() - _ENGINE_ARGUMENTS
        if unknown:
            raise TypeError(f"EngineArgs.__init__() got an unexpected keyword argument {sorted(unknown)[0]!r}")
        self.arguments = {
            **{"model": model, "tensor_parallel_size": tensor_parallel_size, "dtype": dtype, "seed": seed},
            **{"trust_remote_code": trust_remote_code, "gpu_memory_utilization": gpu_memory_utilization},
            **engine_arguments,
        }
        self.calls: list[Call] = []
        self._tokenizer = get_tokenizer(tokenizer or model)
        max_model_len = engine_arguments.get("max_model_len") or CONTEXT
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=max_model_len))
        LLM.made.append(self)

    def generate(
        self,
        prompts: Any,
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_tqdm: bool = True,
        lora_request: Any = None,
        priority: Any = None,
        tokenization_kwargs: dict[str, Any] | None = None,
        mm_processor_kwargs: dict[str, Any] | None = None,
    ) -> list[Any]:
        """Answer all prompts of a call, each with its own parameters."""
        assert isinstance(sampling_params, list), "the harness pairs each prompt with its own"
        assert len(sampling_params) == len(prompts)
        token_ids = [list(prompt["prompt_token_ids"]) for prompt in prompts]
        limit = self.llm_engine.model_config.max_model_len
        for ids in token_ids:
            if not ids:
                raise ValueError("The decoder prompt cannot be empty")
            if len(ids) > limit:
                raise ValueError(f"The decoder prompt (length {len(ids)}) is longer than the maximum length of {limit}")
        texts = [self._tokenizer.decode(ids) for ids in token_ids]
        self.calls.append(Call(token_ids, texts, list(sampling_params)))
        return [self._output(text, chosen) for text, chosen in zip(texts, sampling_params, strict=True)]

    def _output(self, prompt: str, sampling: SamplingParams) -> Any:
        written = LLM.script(prompt)
        stops = [sampling.stop] if isinstance(sampling.stop, str) else sampling.stop or []
        ends = [position for stop in stops if (position := written.find(stop)) >= 0]
        ids = self._tokenizer(written[: min(ends, default=len(written))], add_special_tokens=False).input_ids
        kept = ids[: sampling.max_tokens]
        reason = "length" if len(kept) < len(ids) else "stop"
        output = SimpleNamespace(index=0, text=self._tokenizer.decode(kept), token_ids=kept, finish_reason=reason)
        return SimpleNamespace(outputs=[output], prompt_logprobs=None, finished=True)


def get_tokenizer(
    tokenizer_name: str, *args: Any, trust_remote_code: bool = False, revision: str | None = None, **options: Any
) -> Any:
    """Return the tokenizer of a folder, as vLLM loads it."""
    options.pop("tokenizer_mode", None)
    return AutoTokenizer.from_pretrained(tokenizer_name, trust_remote_code=trust_remote_code, **options)


def resolve_chat_template(
    tokenizer: Any, chat_template: str | None, tools: list[dict[str, Any]] | None, *, model_config: Any
) -> str | None:
    """Return the tokenizer's own template if none is given."""
    return chat_template or tokenizer.chat_template


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[LLM]]:
    """The replacement, importable as `vllm` and with a version, for one test."""
    modules: dict[str, dict[str, Any]] = {
        "vllm": {"LLM": LLM, "SamplingParams": SamplingParams, "TokensPrompt": TokensPrompt, "__path__": []},
        "vllm.lora": {"__path__": []},
        "vllm.lora.request": {"LoRARequest": LoRARequest},
        "vllm.renderers": {"__path__": []},
        "vllm.renderers.hf": {"resolve_chat_template": resolve_chat_template},
        "vllm.tokenizers": {"get_tokenizer": get_tokenizer},
    }
    for name, content in modules.items():
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
    """A folder for `pretrained`, with configuration and tokenizer."""

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
    return ModelFolder(path, 0, made.apply_chat_template)
