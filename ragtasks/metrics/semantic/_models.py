"""Checks of a loaded model: its device exists, and all its weights are in its files.

transformers initializes missing weights randomly and only logs it. An embedding model loaded as a reranker would give a
new random ranking at each start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import RLock
from typing import Any

from ragtasks.errors import ConfigurationError

_POOLER = "pooler"
_N_NAMED = 6
_patching = RLock()


def check_device(
    device: str | None, *, purpose: str = "the encoder for BERTScore", option: str = "encoder_device"
) -> None:
    """Check that torch has a device; passes for None, and without torch."""
    if device is None or find_spec("torch") is None:
        return
    problem = _failure_of_device(device)
    if problem:
        raise ConfigurationError(
            f"cannot choose the device of {purpose}",
            where=option,
            expected="an available torch device, such as 'cpu', 'cuda' or 'cuda:1'",
            found=f"{device!r}: {problem}",
            next_step=f"set an available device, or omit {option} to use the GPU if there is one",
        )


def _failure_of_device(device: str) -> str:
    """Return the problem with a torch device; empty if there is none."""
    import torch

    try:
        torch_device = torch.device(device)
        if torch_device.type == "cuda":
            # Counted, not opened: a GPU that this process has opened may prevent vLLM from starting its own process.
            n_gpus: int = torch.cuda.device_count()
            return "" if (torch_device.index or 0) < n_gpus else f"torch detects {n_gpus} GPUs"
        torch.zeros(1, device=torch_device).tolist()
    except (RuntimeError, AssertionError, ImportError) as error:
        return (str(error) or type(error).__name__).splitlines()[0].partition(". ")[0]
    return ""


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Hide the progress bars of transformers for the files that it reads and writes."""
    from transformers.utils import logging

    was_shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_shown:
            logging.enable_progress_bar()


@contextmanager
def require_all_weights(purpose: str, model: str, next_step: str) -> Iterator[list[str]]:
    """Raise ConfigurationError at the end of the block if a transformers model has a weight that is not in its files.

    This also covers models that other libraries load (sentence-transformers passes no loading report on), by patching
    the one method that all of them call. The pooler of a bare encoder is exempt: it is unused, and published encoders
    often have none. It is removed, so that it does not enter a hash of the weights. The block may add names to the
    yielded list.
    """
    from transformers import PreTrainedModel

    missing: list[str] = []
    original = PreTrainedModel.__dict__["from_pretrained"]

    def checked(cls: type[Any], /, *arguments: Any, output_loading_info: bool = False, **options: Any) -> Any:
        loaded, report = original.__func__(cls, *arguments, output_loading_info=True, **options)
        names = {*report["missing_keys"], *(mismatch[0] for mismatch in report["mismatched_keys"])}
        if unread := {name for name in names if name.startswith(f"{_POOLER}.")}:
            loaded.register_module(_POOLER, None)
        missing.extend(sorted(names - unread))
        return (loaded, report) if output_loading_info else loaded

    with _patching, without_progress_bars():
        PreTrainedModel.from_pretrained = classmethod(checked)
        try:
            yield missing
        finally:
            PreTrainedModel.from_pretrained = original
    if missing:
        more = f" and {len(missing) - _N_NAMED} more" if len(missing) > _N_NAMED else ""
        raise ConfigurationError(
            f"{purpose}: weights are missing",
            where=f"model {model!r}",
            expected="every weight in its files",
            found=f"{len(missing)} missing: {', '.join(missing[:_N_NAMED])}{more}",
            next_step=next_step,
        )
