"""What `retrieval_cache` gives to `ragtasks` is there, each name from one module, and importing the face loads none."""

from __future__ import annotations

import subprocess
import sys

import pytest

import retrieval_cache


@pytest.mark.parametrize("name", retrieval_cache.__all__)
def test_a_name_of_the_face_is_there(name: str) -> None:
    assert getattr(retrieval_cache, name) is not None
    assert name in dir(retrieval_cache)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = retrieval_cache.nothing


def test_the_face_imports_nothing_by_itself() -> None:
    code = "import sys, retrieval_cache; print([name for name in sys.modules if name.startswith('retrieval_cache.')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
