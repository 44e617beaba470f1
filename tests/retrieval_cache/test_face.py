"""The names that `ragtasks` imports from `retrieval_cache` exist; importing it loads no engine and no model library."""

from __future__ import annotations

import subprocess
import sys


def test_the_package_imports_no_engine_and_no_model_library() -> None:
    late = [
        "torch",
        "transformers",
        "sentence_transformers",
        "datasets",
        "faiss",
        "tantivy",
        "pymilvus",
        "ray",
        "openai",
    ]
    code = f"import sys, retrieval_cache; print(*(name for name in {late} if name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
