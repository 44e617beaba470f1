"""What an environment of the walks holds, and what it does not."""

from __future__ import annotations

import subprocess
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.documents._environments import build_wheel, closure, make_environment

_LOOK = """
import importlib.metadata, importlib.util, sys
found = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
print(*found, len(list(importlib.metadata.distributions())))
"""


def test_extras_of_extras_are_in_it() -> None:
    ours = distribution("ragtasks")
    base, judge, api, hf = (closure(ours, extras) for extras in ([], ["judge"], ["api"], ["hf"]))
    light = closure(ours, ["semantic-light"])
    assert {"lm-eval", "typer"} <= base
    assert not {"torch", "openai", "pytest"} & base
    assert {"openai", "aiohttp"} <= judge
    assert {"accelerate", "torch", "onnxruntime"} <= hf  # of lm-eval's own extra, and of ours within ours
    assert {"tenacity", "transformers"} <= api
    assert "onnxruntime" in light
    assert not {"torch", "sentence-transformers"} & (api | light | judge)


@pytest.mark.slow
def test_nothing_else_can_be_imported(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path)
    programs = make_environment(tmp_path / "venv", wheel, ["judge"])
    names = ["ragtasks", "retrieval_cache", "lm_eval", "openai", "torch", "pytest", "tests"]
    done = subprocess.run(
        [programs / "python", "-c", _LOOK, *names], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    n_expected = len(closure(distribution("ragtasks"), ["judge"])) + 1
    assert done.stdout.split() == ["ragtasks", "retrieval_cache", "lm_eval", "openai", str(n_expected)]
    assert (
        "Usage" in subprocess.run([programs / "ragtasks", "--help"], capture_output=True, text=True, check=True).stdout
    )
