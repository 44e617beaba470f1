"""Writes constraints.txt: the installed versions of all requirements named in pyproject.toml.

.venv/bin/python scripts/constraints.py      # after `make test` has passed in that environment
python scripts/constraints.py --lowest       # prints the lower bounds instead, for `make lowest-test`
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
# Versions with which the tests last passed on Python {python}, for the requirements named in pyproject.toml only.
# Written by `python scripts/constraints.py` in the environment of `make test`. To install these versions:
#     pip install --constraint constraints.txt --editable '.[dev]'
# To use them in every pip that a command starts: PIP_CONSTRAINT=constraints.txt make test
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
    listed = [Requirement(line) for line in (*project["dependencies"], *extras)]
    return [
        requirement
        for requirement in listed
        if requirement.name != project["name"] and (not requirement.marker or requirement.marker.evaluate())
    ]


def pins(required: list[Requirement]) -> list[str]:
    """Return `name==version` of each installed requirement, sorted, without local parts such as `+cpu`."""
    lines = set()
    for requirement in required:
        try:
            installed = version(requirement.name).partition("+")[0]
        except PackageNotFoundError:
            continue
        if requirement.specifier.contains(installed):
            lines.add(f"{canonicalize_name(requirement.name)}=={installed}")
    return sorted(lines)


def lowest(required: list[Requirement]) -> list[str]:
    """Return `name==version` of each lower bound, sorted."""
    bounds = [(item.name, clause.version) for item in required for clause in item.specifier if clause.operator == ">="]
    return sorted({f"{canonicalize_name(name)}=={version}" for name, version in bounds})


def main() -> None:
    """Write the file, or print the lower bounds."""
    required = requirements(read_pyproject())
    if sys.argv[1:] == ["--lowest"]:
        print(*lowest(required), sep="\n")
        return
    head = HEAD.format(python=f"{sys.version_info.major}.{sys.version_info.minor}")
    TARGET.write_text(head + "\n".join(pins(required)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
