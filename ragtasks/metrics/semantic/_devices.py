"""Whether torch has a device, found out without opening a GPU."""

from __future__ import annotations

from importlib.util import find_spec

from ragtasks.errors import ConfigurationError, clear_error


def check_device(
    device: str | None, *, purpose: str = "the encoder for BERTScore", option: str = "encoder_device"
) -> None:
    """Check that torch has a device; None, or no torch at all, is for others to judge.

    Args:
        device: as torch writes it.
        purpose: what shall run there, for the error.
        option: what the user chose the device by, for the error.

    Raises:
        ConfigurationError: torch does not know the device, or it is not there.
    """
    if device is None or find_spec("torch") is None:
        return
    found = _failure_of_device(device)
    if found:
        raise ConfigurationError(
            clear_error(
                f"cannot choose the device of {purpose}",
                where=option,
                expected="a torch device that is there, such as 'cpu', 'cuda' or 'cuda:1'",
                found=f"{device!r}: {found}",
                next_step=f"name one, or leave {option} out: the GPU if there is one",
            )
        )


def _failure_of_device(device: str) -> str:
    """Return what is wrong with a torch device, empty where nothing is."""
    import torch

    try:
        known = torch.device(device)
        if known.type == "cuda":
            # Counted, not tried: a GPU that this process has opened may keep vLLM from starting its own.
            n_gpus: int = torch.cuda.device_count()
            return "" if (known.index or 0) < n_gpus else f"torch sees {n_gpus} GPUs here"
        torch.zeros(1, device=known).tolist()
    except (RuntimeError, AssertionError, ImportError) as error:
        return (str(error) or type(error).__name__).splitlines()[0].partition(". ")[0]
    return ""


__all__ = ["check_device"]
