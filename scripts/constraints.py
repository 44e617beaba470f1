"""Writes constraints.txt: the installed versions of all requirements named in pyproject.toml.

.venv/bin/python scripts/constraints.py      # after `make test` has passed in that environment
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "constraints.txt"
HEAD = """\
# The versions that the tests last passed with, on Python {python}: of what pyproject.toml asks for by name, not of what
# these ask for in turn. Made by `python scripts/constraints.py` in the environment of `make test`. Used by
#     pip install --constraint constraints.txt --editable '.[dev]'
# or, for every pip that a command starts, by PIP_CONSTRAINT=constraints.txt make test
"""


def read_pyproject() -> dict[str, Any]:
    """Return the parsed pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def requirements(pyproject: dict[str, Any]) -> list[Requirement]:
    """Return the requirements of the base and every extra, without own extras and requirements of other systems.

    Args:
        pyproject: the parsed pyproject.toml.
    """
    project = pyproject["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    found = [Requirement(line) for line in (*project["dependencies"], *extras)]
    return [item for item in found if item.name != project["name"] and (not item.marker or item.marker.evaluate())]


def pins(found: list[Requirement]) -> list[str]:
    """Return `name==version` of each installed requirement, sorted, without local parts such as `+cpu`."""
    lines = set()
    for item in found:
        try:
            installed = version(item.name).partition("+")[0]
        except PackageNotFoundError:
            continue
        if item.specifier.contains(installed):
            lines.add(f"{canonicalize_name(item.name)}=={installed}")
    return sorted(lines)


def main() -> None:
    """Write the file."""
    found = requirements(read_pyproject())
    head = HEAD.format(python=f"{sys.version_info.major}.{sys.version_info.minor}")
    TARGET.write_text(head + "\n".join(pins(found)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
