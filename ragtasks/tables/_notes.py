"""Notes on several things at once: what is true of many is said once."""

from __future__ import annotations

from collections.abc import Iterable


def notes_once(notes: Iterable[tuple[str, str]], n_named: int) -> tuple[str, ...]:
    """Return notes, each once, behind the names of those that it is about; their order is that of the first of a kind.

    Args:
        notes: (name, note); a note that begins with the name is about it, another stands for itself.
        n_named: how many there are in all: what is true of more than one and of all begins with `every run`.
    """
    about: dict[str, list[str]] = {}
    for name, note in notes:
        text = note.removeprefix(name)
        about.setdefault(text, []).extend([name] if text != note else [])
    return tuple(
        f"every run{text}" if 1 < len(names) == n_named else f"{', '.join(names)}{text}"
        for text, names in about.items()
    )


__all__ = ["notes_once"]
