"""Something of ours in the place of a name of the harness, for as long as it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    """Put something in the place of a name that the harness looks up while it runs."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


__all__ = ["replaced"]
