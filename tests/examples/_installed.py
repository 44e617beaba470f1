"""A package of examples/, installed into a folder of its own as pip installs any package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def install(name: str, folders: pytest.TempPathFactory) -> Path:
    """Return the folder that `examples/NAME` was installed into, without a network and without its dependencies."""
    pytest.importorskip("pip", reason="no pip here")
    pytest.importorskip("hatchling", reason="hatchling (extra dev) is not installed")
    copy, target = folders.mktemp("source") / "package", folders.mktemp("installed")
    shutil.copytree(EXAMPLES / name, copy)
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(copy)], check=True)
    return target
