"""Loads and runs the scripts of a checkout of IBM/mt-rag-benchmark, for comparison only.

Imports that the judges' functions do not need (torch, transformers, LangChain, the Azure client; ragas if it is not
installed) are replaced by stubs during loading.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import importlib
import importlib.util
import io
import json
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtasks.judges.official import FOLDER

_STAND_INS = ("torch", "transformers", "huggingface_client", "azure_openai_client")
_LANGCHAIN = ("langchain", "langchain_openai")
RAGAS = "ragas"


@dataclass(frozen=True)
class Scripts:
    """The modules of the checkout."""

    utils: Any
    underspecified: Any
    wrapper: Any


def load_scripts(checkout: Path) -> Scripts:
    """Return the official modules, loaded with stubs for unneeded imports."""
    if importlib.util.find_spec(RAGAS):
        importlib.import_module("ragas.metrics")  # requires the real LangChain
    replaced = [*_STAND_INS, *_LANGCHAIN, *([] if importlib.util.find_spec(RAGAS) else [RAGAS])]
    before = dict(sys.modules)
    sys.path.insert(0, str(checkout / FOLDER))
    sys.meta_path.insert(0, _StandIns(replaced))
    for name in [name for name in before if name.partition(".")[0] in replaced]:
        del sys.modules[name]
    try:
        with warnings.catch_warnings():  # a script disables all warnings
            names = ("judge_utils", "underspecified_eval", "judge_wrapper")
            return Scripts(*(importlib.import_module(name) for name in names))
    finally:
        sys.path.pop(0)
        sys.meta_path.pop(0)
        for name in [name for name in sys.modules if name.partition(".")[0] in replaced and name not in before]:
            del sys.modules[name]
        sys.modules.update({name: module for name, module in before.items() if name.partition(".")[0] in replaced})


class _StandIns:
    """Import finder for stub modules with arbitrary attributes."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in self._names:
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__["__all__"] = ()


class _StandIn(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"is_available": staticmethod(lambda: False)})


def multihop_prompt(checkout: Path, question: str, texts: Sequence[str]) -> str:
    """Return the prompt of qa_llama.py, by its own statements. The script itself loads a model when it is imported."""
    tree = ast.parse((checkout / "qa_llama.py").read_text(encoding="utf-8"))
    names = ("prefix", "context", "prompt")
    found = {
        node.targets[0].id: ast.unparse(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names
    }
    retrieved = [{"text": text} for text in texts]
    values: dict[str, Any] = {"d": {"query": question, "retrieval_list": retrieved}, "retrieval_list": retrieved}
    for name in names:
        values[name] = eval(found[name], values)
    return str(values["prompt"])


def ragnarok_messages(
    checkout: Path, mode: str, question: str, passages: Sequence[Mapping[str, str]]
) -> list[dict[str, str]]:
    """Return the messages of castorini/ragnarok for GPT, without a limit on passages and ftfy's repairs of Unicode."""
    before = dict(sys.modules)
    stubs = {"ftfy": {"fix_text": str}, "dacite": {"from_dict": None}}
    for name, members in stubs.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(members)
    sys.path.insert(0, str(checkout / "src"))
    try:
        llm = importlib.import_module("ragnarok.generate.llm")
        templates = importlib.import_module("ragnarok.generate.templates.ragnarok_templates")
    finally:
        sys.path.pop(0)
        for name in sys.modules.keys() - before.keys():
            del sys.modules[name]
        sys.modules.update(before)
    model = types.SimpleNamespace()
    for method in ("convert_doc_to_prompt_content", "_replace_number"):
        setattr(model, method, types.MethodType(getattr(llm.LLM, method), model))
    documents = [types.SimpleNamespace(doc={"title": row["title"], "segment": row["text"]}) for row in passages]
    request = types.SimpleNamespace(candidates=documents)
    context = llm.LLM.build_ranked_context(model, request, len(documents), sys.maxsize)
    messages: list[dict[str, str]] = templates.RagnarokTemplates(llm.PromptMode(mode))(question, context, "gpt")
    return messages


def run_quietly(scripts: Scripts, reply: Callable[[str], str], work: Callable[[], None]) -> None:
    """Run a function of the scripts with a judge that replies by `reply`, without its output."""
    scripts.wrapper.load_chat_openai_llm = lambda *_: lambda prompt: types.SimpleNamespace(content=reply(prompt))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        work()


def run_retrieval_script(checkout: Path, predictions: Path, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the output of run_retrieval_eval.py for a file: means over all collections, and scores by task.

    Args:
        checkout: the official repository.
        predictions: JSON lines with `task_id`, `Collection` and `contexts`.
        folder: an empty folder. The script reads the judgements from a path that the repository no longer has, so it
            is run from a tree of links with this path.
    """
    (folder / FOLDER).mkdir(parents=True)
    (folder / "human").mkdir()
    for name in ("run_retrieval_eval.py", "judge_utils.py"):
        (folder / FOLDER / name).symlink_to(checkout / FOLDER / name)
    (folder / "human" / "retrieval_tasks_convid").symlink_to(checkout / "mtrag-human" / "retrieval_tasks")
    output = folder / "scores.jsonl"
    # Python adds the folder of the link's target to the path; the script uses the link's.
    command = [sys.executable, folder / FOLDER / "run_retrieval_eval.py"]
    subprocess.run([*command, "--input_file", predictions, "--output_file", output], check=True, capture_output=True)
    with (folder / "scores_aggregate.csv").open(encoding="utf-8", newline="") as stream:
        total = next(row for row in csv.DictReader(stream) if row["collection"] == "all")
    means = {name: json.loads(total[name]) for name in ("Recall", "nDCG")}
    return means, {row["task_id"]: row["retriever_scores"] for row in rows_of(output)}


@contextlib.contextmanager
def task_file(rows: Sequence[Mapping[str, Any]]) -> Iterator[Path]:
    """Yield a file of these rows in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        yield path


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines, which are separated by line feeds only."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
