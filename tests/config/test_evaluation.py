"""The configuration of an evaluation: the keys of ragtasks, and rejected values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ragtasks.config import KEYS, EvaluationConfig, config_from_metadata, config_from_options
from ragtasks.errors import ConfigurationError
from tests._messages import raises

# Arguments of lm_eval 0.4.13's models, which its metadata contains next to our keys. fmt: off
MODEL_ARGUMENTS = (
    "add_bos_token",
    "auth_token",
    "autogptq",
    "base_url",
    "batch_size",
    "chat_template",
    "chat_template_args",
    "config",
    "config_source",
    "custom_prefix_token_id",
    "data_parallel_size",
    "delta",
    "device",
    "dtype",
    "enable_thinking",
    "eos_string",
    "gguf_file",
    "gptqmodel",
    "gpu_memory_utilization",
    "header",
    "logits_cache",
    "lora_local_path",
    "max_batch_size",
    "max_cpu_memory",
    "max_gen_toks",
    "max_length",
    "max_memory_per_gpu",
    "max_model_len",
    "max_retries",
    "model",
    "num_concurrent",
    "offload_folder",
    "parallelize",
    "peft",
    "prefix_token_id",
    "pretrained",
    "prompt",
    "quantization",
    "revision",
    "seed",
    "softmax_dtype",
    "subfolder",
    "swap_space",
    "system_instruction",
    "tensor_parallel_size",
    "think_end_token",
    "timeout",
    "tokenized_requests",
    "tokenizer",
    "tokenizer_backend",
    "truncate",
    "truncation",
    "trust_remote_code",
    "use_fast",
    "use_fast_tokenizer",
    "verify_certificate",
    "version",
)
# fmt: on


def test_defaults_follow_the_paper() -> None:
    config = config_from_metadata({})
    assert config == EvaluationConfig()
    assert (config.conversational, config.max_words, config.end_of_thinking) == (False, None, "</think>")


def test_our_keys_are_extracted_from_metadata() -> None:
    metadata = {"data": "sample", "encoder": "none", "version": 1.0, "pretrained": "x", "config": {"a": 1}}
    assert config_from_metadata(metadata) == EvaluationConfig(data="sample", encoder="none")


def test_keys_of_the_harness_and_its_models_are_ignored() -> None:
    assert config_from_metadata(dict.fromkeys(MODEL_ARGUMENTS, "anything")) == EvaluationConfig()


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("encodr", "encoder"),
        ("Encoder", "encoder"),
        ("encoders", "encoder"),
        ("encoder-device", "encoder_device"),
        ("conversation", "conversational"),
        ("system_promt", "system_prompt"),
        ("plain_promt", "plain_prompt"),
        ("max_word", "max_words"),
        ("end_of_thinkin", "end_of_thinking"),
        ("datas", "data"),
        ("retreiver", "retriever"),
        ("idks", "idk"),
        ("RUN", "run"),
        ("Judges", "judges"),
        ("JUDGE", "judges"),
        ("judge_prompts", "prompts"),
        ("idk_detector", "idk"),
        ("retrieval_run", "run"),
    ],
)
def test_a_misspelt_key_is_rejected_with_a_suggestion(key: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=f"unknown metadata key: '{key}' \\(did you mean '{meant}'\\?\\)"):
        config_from_metadata({key: "x", "data": "sample"})


@pytest.mark.parametrize("read", [config_from_metadata, config_from_options])
def test_duplicate_judges_are_rejected(read: Callable[[dict[str, Any]], EvaluationConfig]) -> None:
    model = {"lm_eval": "hf", "model_args": {"pretrained": "x"}}
    judges = ["openai/a", {"model": "openai/a", "base_url": "http://127.0.0.1:1/v1"}, model, "openai/b", model]
    with raises(ConfigurationError):
        read({"judges": judges})
    assert len(read({"judges": judges[1:4]}).judges) == 3


def test_all_problems_are_reported_in_order() -> None:
    with pytest.raises(ConfigurationError) as caught:
        config_from_metadata({"max_word": 1, "encodr": "x"})
    text = str(caught.value)
    assert text.index("'encodr'") < text.index("'max_word'")


def test_options_reject_every_unknown_key() -> None:
    assert config_from_options({"max_words": 90}).max_words == 90
    with pytest.raises(ConfigurationError) as caught:
        config_from_options({"quantization": "x", "encodr": "y"})
    text = str(caught.value)
    assert "'encodr', did you mean 'encoder'" in text
    assert "'quantization', known: anchors, context_tokens" in text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_words", 0),
        ("max_words", "many"),
        ("max_words", 1.5),
        ("conversational", "perhaps"),
        ("end_of_thinking", ""),
        ("idk", "no one"),
        ("data", 3),
        ("encoder", ["a"]),
    ],
)
def test_an_invalid_value_is_reported_with_its_key(key: str, value: object) -> None:
    for read in (config_from_metadata, config_from_options):
        with pytest.raises(ConfigurationError, match=f"evaluation options: {key}: expected ") as caught:
            read({key: value})
        assert repr(value) in str(caught.value)


def test_all_invalid_values_are_reported_together() -> None:
    with pytest.raises(ConfigurationError, match=r"max_words: .*; idk: "):
        config_from_options({"max_words": 0, "idk": "x"})


def test_a_configuration_is_frozen() -> None:
    config = EvaluationConfig()
    with pytest.raises(ValidationError, match="frozen"):
        config.max_words = 3


def test_every_key_is_described() -> None:
    assert EvaluationConfig.model_fields.keys() == KEYS
    assert all(field.description for field in EvaluationConfig.model_fields.values())


@settings(derandomize=True, database=None, deadline=None)
@given(st.dictionaries(st.text(max_size=12), st.none() | st.integers() | st.text(max_size=5), max_size=4))
def test_any_metadata_gives_a_configuration_or_a_clear_error(metadata: dict[str, Any]) -> None:
    try:
        config = config_from_metadata(metadata)
    except ConfigurationError:
        return
    assert config == EvaluationConfig(**{key: metadata[key] for key in metadata.keys() & KEYS})


@pytest.mark.parametrize(
    "judges",
    [
        "openai/any,prompts=official,temperature=1",
        ["openai/any,prompts=official", {"model": "m", "base_url": "http://x/v1", "prompts": "official"}],
        {"model": "openai/any", "prompts": "official"},
    ],
)
def test_the_official_prompts_can_be_named_with_a_judge(judges: Any) -> None:
    config = config_from_options({"judges": judges})
    assert (config.prompts, config.judges[0].model) == ("official", "openai/any")
    assert config == config_from_options({"judges": config.judges, "prompts": "official"})


def test_a_preset_of_a_judge_selects_the_official_prompts() -> None:
    preset = "mtrag-un-official,base_url=http://x/v1"
    assert config_from_options({"judges": preset}).prompts == "official"
    assert config_from_options({"judges": f"{preset},prompts=ours"}).prompts == "ours"
    assert config_from_options({"judges": preset, "prompts": "ours"}).prompts == "ours"


@pytest.mark.parametrize(
    "options",
    [
        {"judges": ["openai/a,prompts=official", "openai/b,prompts=ours"]},
        {"judges": "openai/a,prompts=official", "prompts": "ours"},
    ],
)
def test_different_prompts_of_judges_are_rejected(options: dict[str, Any]) -> None:
    with raises(ConfigurationError) as caught:
        config_from_options(options)
    assert "official and ours" in str(caught.value)


def test_unknown_prompts_are_one_error_with_a_next_step() -> None:
    with pytest.raises(ConfigurationError) as caught:
        config_from_options({"prompts": "material_first"})
    assert "prompts: expected 'ours' or 'official', found 'material_first'" in str(caught.value)
    assert "next step: " in str(caught.value)
