"""Fixtures of the harness tests: a loopback endpoint, tiny models, and the harness called in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lm_eval.tasks
import pytest
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml

from ragtasks.benchmarks import Benchmark, benchmark_folder, open_benchmark
from ragtasks.harness import models
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.tasks import task_folder
from tests._commands import CommandResult, run_command
from tests.harness._endpoint import Endpoint, Server
from tests.scoring._limits import take_any_answers

SAMPLE = {"data": "sample", "encoder": "none"}
"""The sample without BERTScore, which is slow and irrelevant for most tests here."""

CHATML = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHATML
QUESTION_ONLY = "<|user|>{{ messages[-1].content }}<|assistant|>"


@pytest.fixture(scope="session", autouse=True)
def _no_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Block the model hub, where the harness looks for a tokenizer of its dummy model, in this process and children."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        # Indexes of the samples must not be written to the user's run store.
        patch.setenv("RAGTASKS_RUNS", str(tmp_path_factory.mktemp("store")))
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        # Otherwise the harness's first log handler keeps the error stream of the first test, which is closed later.
        patch.setattr("lm_eval.utils._LOGGING_CONFIGURED", True)
        # The stock function, which `evaluate` calls in this process, imports torch and starts pip.
        patch.setattr("lm_eval.evaluator.add_env_info", lambda _: None)
        # For each cell of the harness's tables, this module makes a deep copy of a list of 90 names.
        patch.setattr("mbstrdecoder._mbstrdecoder.copy", SimpleNamespace(deepcopy=list))
        # The harness's command line sets this variable for its process.
        patch.setenv("TOKENIZERS_PARALLELISM", "false")
        yield


@pytest.fixture(autouse=True)
def _any_answers_are_plausible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the limit on implausible answers, which tests/scoring/test_plausibility.py tests.

    Models here repeat one reply.
    """
    monkeypatch.setattr("ragtasks.harness.run.require_plausible", lambda *_: None)
    take_any_answers(monkeypatch)


@pytest.fixture(scope="session", autouse=True)
def _tasks_are_parsed_once() -> Iterator[None]:
    """Parse the harness's own 14,000 YAML files and ours once per process, which takes seconds."""
    built_in, ours, parsed = Path(lm_eval.tasks.__file__).parent, task_folder().absolute(), {}
    linked = built_in / "ragtasks"

    def load(path: Path, **options: Any) -> dict[str, Any]:
        is_ours = ours in path.parents
        if not is_ours and (built_in not in path.parents or linked in path.parents):
            return load_yaml(path, **options)
        key = (path, *sorted(options.items()))
        if key not in parsed:
            parsed[key] = load_yaml(path, **options)
        return deepcopy(parsed[key]) if is_ours else parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lm_eval.tasks._index.load_yaml", load)
        yield


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A new loopback endpoint."""
    server = Server()
    try:
        yield server.endpoint
    finally:
        server.close()


@pytest.fixture(scope="session")
def benchmark_sample() -> Benchmark:
    """The sample, as its loader reads it."""
    return open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())


@pytest.fixture(scope="session")
def load_task() -> Callable[..., ConversationTask]:
    """Return a function that builds a harness task by name with the harness's task manager."""

    def load(name: str, **metadata: Any) -> ConversationTask:
        manager = TaskManager(include_path=task_folder(), include_defaults=False, metadata={**SAMPLE, **metadata})
        task = manager.load([name])["tasks"][name]
        assert isinstance(task, ConversationTask)
        return task

    return load


@pytest.fixture(scope="session")
def evaluate() -> Callable[..., dict[str, Any]]:
    """Return a function that runs the stock harness in this process and returns its results."""
    assert models  # imported because it registers models

    def run(model: Any, *tasks: str, metadata: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        arguments = options.get("model_args")
        merged = {**(arguments if isinstance(arguments, dict) else {}), **SAMPLE, **(metadata or {})}
        manager = TaskManager(include_path=task_folder(), include_defaults=False, metadata=merged)
        results = simple_evaluate(
            model, tasks=list(tasks), task_manager=manager, **{"bootstrap_iters": 0, "limit": 2, **options}
        )
        return dict(results)

    return run


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., CommandResult]:
    """Return a function that runs `ragtasks run --full --no-probe` in this process, on the sample, in a new folder."""
    # In a shared folder, results with the name of a model could be mistaken for its weights.
    monkeypatch.chdir(tmp_path_factory.mktemp("called_in"))

    def run(*arguments: str, metadata: dict[str, Any] | None = None) -> CommandResult:
        sample_metadata = json.dumps({**SAMPLE, **(metadata or {})})
        return run_command("run", "--full", "--no-probe", "--metadata", sample_metadata, *arguments)

    return run


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that saves a language model with a few thousand random weights and a chat template."""
    folders: dict[str, Path] = {}

    def build(chat_template: str) -> Path:
        if chat_template not in folders:
            folders[chat_template] = _save_tiny_model(tmp_path_factory.mktemp("model"), chat_template)
        return folders[chat_template]

    return build


def _save_tiny_model(folder: Path, chat_template: str) -> Path:
    """Write a one-layer Llama with byte tokens."""
    pytest.importorskip("accelerate", reason="the harness's hf model needs accelerate (extra: dev)")
    import torch
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokens = ["<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    core = Tokenizer(BPE({token: index for index, token in enumerate(tokens)}, []))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="</s>")
    tokenizer.chat_template = chat_template or None
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=8192,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder
