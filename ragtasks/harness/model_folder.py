"""Check of a local model folder before its weights are loaded.

transformers replaces a missing tokenizer with an empty one, and the answers are nonsense. A clone without Git LFS
contains small text files, its pointers, with the names of the real files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragtasks.errors import ConfigurationError, shortened_list
from ragtasks.harness.extras import extra_of

_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.gguf", "*.h5", "*.msgpack")
_TOKENIZERS = (
    *("tokenizer.*", "*vocab*", "*.model", "*.spm", "*.tiktoken", "*.tokenizer", "tekken.json", "tokenization_*.py"),
    *("merges.txt", "bpe.codes", "dict.txt", "byte_maps.json", "*.gguf"),
)
_BYTES = re.compile("(ByT5|Canine|Perceiver)Tokenizer")  # tokenizers without files
_POINTER = b"version https://git-lfs"
_POINTER_BYTES = 1024  # maximum size of a pointer


def check_model_folder(model: str, arguments: Mapping[str, Any]) -> None:
    """Refuse a local folder that certainly has no configuration, no weights, not all of them, or no tokenizer.

    Names on the hub, GGUF files and models with code of their own are accepted.

    Raises:
        ConfigurationError: with the missing file and the names of the others.
    """
    if extra_of(model) not in {"hf", "vllm"} or arguments.get("gguf_file") or arguments.get("trust_remote_code"):
        return
    inner = str(arguments.get("subfolder") or "")
    folder = Path(str(arguments.get("pretrained"))) / inner
    tokenizer = Path(str(arguments.get("tokenizer") or arguments.get("pretrained"))) / inner
    is_vllm = extra_of(model) == "vllm"
    configurations = ("config.json", "params.json", "*.gguf") if is_vllm else ("config.json", "*.gguf")
    if not arguments.get("hf_config_path") and not _has(folder, configurations):
        if (folder / "adapter_config.json").is_file():
            option = "lora_local_path" if is_vllm else "peft"
            raise ConfigurationError(
                f"model {str(folder.resolve())!r}: an adapter without its base model. Next step: --model_args "
                f"pretrained=BASE,{option}={folder}"
            )
        _refuse(folder, "config.json", "")
    has_own_format = arguments.get("load_format", "auto") not in {"auto", "hf", "safetensors"}  # of vLLM
    if not has_own_format and not _has(folder, _WEIGHTS):
        _refuse(folder, "weights (*.safetensors or *.bin)", "")
    if not has_own_format and (shards := _missing_shards(folder)):
        _refuse(folder, shortened_list(shards, 2), "")
    adapter = Path(str(arguments.get("peft") or arguments.get("lora_local_path") or ""))
    if adapter.name and not _has(adapter, ["adapter_config.json"]):
        _refuse(adapter, "adapter_config.json", "")
    if not _has(tokenizer, _TOKENIZERS) and not _reads_bytes(tokenizer):
        _refuse(tokenizer, "a tokenizer, such as tokenizer.json", ", or add tokenizer=NAME to --model_args")


def _has(folder: Path, patterns: Sequence[str]) -> bool:
    """Return whether a folder contains a file of a pattern; True for a name on the hub."""
    return not folder.is_dir() or any(_is_complete(file) for pattern in patterns for file in folder.glob(pattern))


def _is_complete(file: Path) -> bool:
    return file.is_file() and not _is_pointer(file)


def _is_pointer(file: Path) -> bool:
    """Return whether a file is a pointer of Git LFS."""
    return file.is_file() and file.stat().st_size < _POINTER_BYTES and file.read_bytes().startswith(_POINTER)


def _missing_shards(folder: Path) -> list[str]:
    """Return the missing files of weights in several files, if others of them exist. An index alone may be a leftover.

    Loaders prefer safetensors to other weights, and weights in one file to several.
    """
    form = "safetensors" if _has(folder, ["*.safetensors"]) else "bin"
    for index in folder.glob(f"*.{form}.index.json"):
        try:
            shards = {folder / name for name in json.loads(index.read_bytes())["weight_map"].values()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # the loader reports it
        missing = sorted(shard.name for shard in shards if not _is_complete(shard))
        if len(missing) < len(shards) and not _is_complete(folder / index.name.removesuffix(".index.json")):
            return missing
    return []


def _reads_bytes(folder: Path) -> bool:
    """Return whether the configuration names a tokenizer without files."""
    files = [folder / name for name in ("config.json", "tokenizer_config.json")]
    return any(file.is_file() and _BYTES.search(file.read_text("utf-8", "replace")) for file in files)


def _refuse(folder: Path, expected: str, further: str) -> None:
    pointers = sorted(file.name for file in folder.iterdir() if _is_pointer(file))
    names = sorted(path.name for path in folder.iterdir())
    found = f"pointers of Git LFS ({shortened_list(pointers, 4)})" if pointers else shortened_list(names, 4)
    step = "`git lfs pull` in the folder" if pointers else f"copy the missing files from the model's source{further}"
    raise ConfigurationError(
        f"model {str(folder.resolve())!r}: expected {expected}, found {found or 'no file'}. Next step: {step}"
    )
