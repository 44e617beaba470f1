"""The files of MultiDoc2Dial and Doc2Dial: found unpacked or in the official zip, read whole.

A file is one JSON object, so an error names the document or dialogue instead of a line.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragtasks.errors import BenchmarkFileError, clear_error
from ragtasks.files import Violations, parse_json

DOMAINS = ("dmv", "ssa", "studentaid", "va")
"""The four domains of both data sets."""
EXTRA_DOMAINS = ("cdccovid",)
"""Domains of further files of MultiDoc2Dial: its unseen dialogues, whose documents the release may lack."""

_FOLDERS = ("", "multidoc2dial", "doc2dial/v1.0.1", "doc2dial", "data")
NEXT_STEP = "unpack the official zip again"
"""Where a file is not what the format says."""


def read_json(root: Path, name: str) -> tuple[Any, Path]:
    """Return the parsed file of a name below `root` and where it was found: unpacked, or in a zip of `root`.

    Raises:
        BenchmarkFileError: it is not there, or is not JSON.
    """
    path = next((root / folder / name for folder in _FOLDERS if (root / folder / name).is_file()), None)
    try:
        if path is not None:
            return parse_json(path.read_bytes()), path
        for archive in sorted(root.glob("*.zip")):
            with zipfile.ZipFile(archive) as opened:
                member = next((item for item in opened.namelist() if item.rpartition("/")[2] == name), None)
                if member is not None:
                    path = archive / member
                    return parse_json(opened.read(member)), path
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise _unreadable(path or root, "JSON, or a zip with it", str(error)) from error
    raise _unreadable(root / name, "the file, unpacked or in the official zip", "no such file")


def _unreadable(path: Path, expected: str, found: str) -> BenchmarkFileError:
    step = "run `ragtasks fetch multidoc2dial`, or put the official zip there"
    return BenchmarkFileError(
        clear_error("Doc2Dial data", where=str(path), expected=expected, found=found, next_step=step)
    )


def by_domain(content: Any, key: str, kind: type, violations: Violations) -> Iterator[tuple[str, Any]]:
    """Yield (domain, what it holds) of a file, after noting what has no such shape."""
    domains = content.get(key) if isinstance(content, dict) else None
    if not isinstance(domains, dict) or not domains:
        violations.add(0, f"an object with `{key}` by domain", domains)
        return
    for domain, inner in domains.items():
        if domain in {*DOMAINS, *EXTRA_DOMAINS} and isinstance(inner, kind):
            yield domain, inner
        else:
            known = ", ".join((*DOMAINS, *EXTRA_DOMAINS))
            violations.add(0, f"`{key}` with one of {known} and a {kind.__name__}", domain)


__all__ = ["DOMAINS", "EXTRA_DOMAINS", "NEXT_STEP", "by_domain", "read_json"]
