"""What others' models may bring: numbers, and nothing that runs.

A model's folder can hold Python, which loaders run where they may, and pickles, which run whatever they name. No load
of ours takes either: `NO_CODE` goes into every call of a loader, and what fails in one is one clear error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ragtasks.errors import ConfigurationError, RagtasksError, clear_error

NO_CODE: Mapping[str, bool] = {"trust_remote_code": False}
"""Said outright: left open, transformers asks on the terminal whether a model's own code may run."""

_PICKLES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})
_NO_PICKLE = "openvino_model"  # numbers as they are, and no loader of ours opens them
_WEIGHTS = "*.safetensors"
_MOST_SHOWN = 200


@contextmanager
def loading(
    purpose: str, name: str | Path, *, expected: str, next_step: str, has_weights: bool = True
) -> Iterator[None]:
    """Load a model or a tokeniser inside of the block; what goes wrong there is one error about it.

    Args:
        purpose: what it is for, such as "dense retrieval".
        name: its folder, or its name on the Hugging Face hub.
        expected: what should be there.
        next_step: what helps where it is not there.
        has_weights: whether weights are loaded; a tokeniser has none.

    Raises:
        ConfigurationError: the folder has weights as pickles, or the loader failed, whatever it raised: a library of
            ten formats raises all kinds of errors for files that are damaged.
    """
    if has_weights:
        refuse_pickles(purpose, name)
    try:
        yield
    except RagtasksError:
        raise
    except Exception as error:
        raise ConfigurationError(
            clear_error(
                purpose, where=f"model {str(name)!r}", expected=expected, found=_reason(error), next_step=next_step
            )
        ) from error


def refuse_pickles(purpose: str, name: str | Path) -> None:
    """Refuse a model's folder that has weights as pickles; a name on the hub passes.

    Raises:
        ConfigurationError: it has; the message names them.
    """
    if pickles := _pickles(Path(name)):
        raise ConfigurationError(
            clear_error(
                purpose,
                where=f"model {str(name)!r}",
                expected="weights as .safetensors",
                found=f"{', '.join(pickles)}: a pickle, which can run any program when it is opened",
                next_step="take a version of the model with .safetensors, or, if you trust the folder, convert it "
                "(AutoModel.from_pretrained(FOLDER).save_pretrained(NEW))",
            )
        )


def _pickles(folder: Path) -> list[str]:
    """Return the files of a folder that hold weights as pickles and have no `.safetensors` beside them."""
    if not folder.is_dir():
        return []
    candidates = (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in _PICKLES)
    candidates = (path for path in candidates if not path.name.startswith(_NO_PICKLE))
    return [path.relative_to(folder).as_posix() for path in candidates if not any(path.parent.glob(_WEIGHTS))]


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    told = next((line.strip() for line in lines if line.strip()), "")
    if "trust_remote_code" in str(error):
        return "it asks for Python of its own to be run, which is never done"
    return f"{told[:_MOST_SHOWN]}" if told and isinstance(error, OSError | ValueError) else _with_kind(error, told)


def _with_kind(error: Exception, told: str) -> str:
    kind = type(error).__name__
    return f"{kind}: {told[:_MOST_SHOWN]}" if told else kind


__all__ = ["NO_CODE", "loading", "refuse_pickles"]
