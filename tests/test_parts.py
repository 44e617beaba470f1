"""The core does not name its optional parts, and works without them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests._modules import FOLDERS, ROOT

PARTS = ("ragtasks/arena", "ragtasks/synthesis", "retrieval_cache/engines")
NAMES = re.compile(
    r"(?<![a-z])(arenas?|synthe(?:si|ti)\w*|milvus|elser|ray)(?![a-z])"
    r"|ragtasks (review|train)\b|ragtasks\.(?:arena|synthesis)|retrieval_cache\.engines",
    re.IGNORECASE,
)
ALLOWED = {
    # The retriever of the scores in the MTRAG paper.
    ("elser", "ragtasks/published/_tables.py"),
    ("elser", "ragtasks/reports/tables/_paper.py"),
    ("elser", "retrieval_cache/evaluation.py"),
    # Published data written by a model.
    ("synthetic", "ragtasks/benchmarks/mtrag/_mtrag_s.py"),
    ("synthetictask", "ragtasks/benchmarks/mtrag/_mtrag_s.py"),
    ("synthetic", "task_yamls/mtrag_s/README.md"),
    ("synthetic", "task_yamls/multidoc2dial/README.md"),
}
"""(name, file) pairs in which the word has another meaning."""


def core_files() -> Iterator[Path]:
    """Yield code, prompts and task YAMLs of the core."""
    for folder in (*FOLDERS, "task_yamls"):
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in {".py", ".jinja", ".yaml", ".md"} and not name.startswith(PARTS):
                yield path


def test_the_core_names_no_optional_part() -> None:
    found = {
        (match[0].lower(), path.relative_to(ROOT).as_posix())
        for path in core_files()
        for match in NAMES.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == ALLOWED


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project without the parts and their entry points, like a wheel; return the folder.

    First on the path, the copy hides the project itself, and its metadata hides the project's entry points.
    """
    folder = tmp_path_factory.mktemp("core")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "task_yamls", folder / "ragtasks" / "task_yamls")
    for part in PARTS:
        shutil.rmtree(folder / part)
    ours = distribution("ragtasks")
    metadata = folder / f"ragtasks-{ours.version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ragtasks\nVersion: {ours.version}\n")
    modules = tuple(part.replace("/", ".") for part in PARTS)
    kept = [entry for entry in ours.entry_points if not entry.value.startswith(modules)]
    assert len(kept) < len(ours.entry_points)
    lines = [f"[{entry.group}]\n{entry.name} = {entry.value}" for entry in kept]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def printed(without: Path, place: Path, *arguments: str) -> str:
    """Return the output of a command in a process without the parts."""
    code = f"import sys; sys.path = [path for path in sys.path if path != {str(ROOT)!r}]; import ragtasks.cli as cli; "
    code += f"assert cli.__file__.startswith({str(without)!r}); from importlib.util import find_spec; "
    code += "assert find_spec('ragtasks.arena') is None; cli.main(sys.argv[1:])"
    variables = {"PYTHONPATH": str(without), "HF_HUB_OFFLINE": "1", "RAGTASKS_RUNS": str(place / "runs")}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=place,
        env=os.environ | variables,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_without_the_parts_the_sample_is_evaluated_reported_searched_and_submitted(
    without: Path, tmp_path: Path
) -> None:
    listed = printed(without, tmp_path, "--help")
    assert "evaluate-run" in listed
    assert not re.search(r"│ (arena|review|synthesize|train) ", listed)
    sample, run = ("--data", "sample"), ("run", "--model", "ragtasks-oracle", "--output", "results")
    printed(without, tmp_path, "retrieve", "--retriever", "bm25", "--name", "mine", "--no-probe", *sample)
    assert "| mine |" in printed(without, tmp_path, "evaluate-run", "mine", *sample)
    printed(without, tmp_path, *run, "--tasks", "mtrag_reference", "--log_samples", "--encoder", "none", *sample)
    assert "reference" in printed(without, tmp_path, "report", "results", "--full")
    submission = ("submit", "--task", "A", "--run", "mine", "--output", "a.jsonl")
    printed(without, tmp_path, *submission, *sample)
    assert (tmp_path / "a.jsonl").stat().st_size
    assert ": 0 problems" in printed(without, tmp_path, "check", "a.jsonl", "--task", "A", *sample)
