"""The one line that says who encodes a corpus: `ray[:ADDRESS][,workers=8][,cpus=1][,gpus=1]`.

`workers=4-8` starts no work before there is room for four.
"""

from __future__ import annotations

from ragtasks.errors import ConfigurationError, clear_error
from retrieval_cache.engines._ray_encoding import RayWorkers

_FORM = "ray[:ADDRESS][,workers=8][,cpus=1][,gpus=1]"


def encoding_workers(line: str) -> RayWorkers:
    """Return the workers that a line names; nothing is connected.

    Raises:
        ConfigurationError: another form, an unknown option, or a number that is not one.
    """
    head, *options = line.split(",")
    kind, _, address = head.partition(":")
    given = dict(option.partition("=")[::2] for option in options)
    try:
        if kind != "ray" or not given.keys() <= {"workers", "cpus", "gpus"}:
            raise ValueError
        workers = _workers(given["workers"]) if "workers" in given else None
        found = RayWorkers(address or None, workers, float(given.get("cpus", 1)), float(given.get("gpus", 0)))
        if min(found.cpus, found.gpus) < 0:
            raise ValueError
    except ValueError:
        message = clear_error(
            "--encode-with", where=line, expected=_FORM, found="another form", next_step="correct it (docs/scale.md)"
        )
        raise ConfigurationError(message) from None
    return found


def _workers(text: str) -> tuple[int, int]:
    """Return fewest and most: `8` is 1 to 8, `4-8` a range."""
    fewest, most = (int(part) for part in (text if "-" in text else f"1-{text}").split("-"))
    if not 1 <= fewest <= most:
        raise ValueError
    return fewest, most


__all__ = ["encoding_workers"]
