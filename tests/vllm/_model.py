"""A real small model in the files that vLLM reads, with and without a chat template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_MESSAGES = (
    "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
WITH_SYSTEM = "{{ bos_token }}" + _MESSAGES
"""A chat template for a base model: the messages as labelled lines after one BOS token."""
WITHOUT_SYSTEM = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + _MESSAGES
)
"""The same template for a model without a system role."""


def save_model(packed: Path, folder: Path) -> None:
    """Write the safetensors and the tokenizer of a GGUF file.

    transformers dequantizes the weights, but keeps the file's quantization in the configuration. vLLM would look for
    quantized weights then, so the configuration is saved without it. The tokenizer adds the BOS token, which the model
    needs and the file's tokenizer does not add.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source: dict[str, Any] = {"pretrained_model_name_or_path": packed.parent, "gguf_file": packed.name}
    packed_model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    settings = packed_model.config.to_dict()
    settings.pop("quantization_config", None)
    model = type(packed_model)(type(packed_model.config)(**settings))
    model.load_state_dict(packed_model.state_dict())
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(**source)
    tokenizer.add_bos_token = True
    tokenizer.save_pretrained(folder)


def with_template(model: Path, folder: Path, chat_template: str) -> Path:
    """Return a folder with links to the files of a model, and a chat template."""
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).symlink_to(file)
    (folder / "chat_template.jinja").write_text(chat_template, encoding="utf-8")
    return folder
