"""Nothing that no code uses stays in the packages: tests alone, and lists of exported names, keep nothing alive."""

from __future__ import annotations

import re
from pathlib import Path

from vulture import Vulture

import ragtasks

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ragtasks", "retrieval_cache")
# What is called by whom it was handed to: typer, pydantic, FastAPI.
TAKEN = [
    *("@*.command", "@*.callback", "@field_validator", "@model_validator"),
    *("@router.get", "@router.post", "@app.exception_handler"),
]
# What names code by a text: tables of `module:name`, task YAMLs, templates and the page's script.
NAMED_IN_TABLE = re.compile(r"[\w.]+:(\w+)\"")
NAMED_IN_YAML = re.compile(r"!function [\w.]+\.(\w+)")
EXPORTS = re.compile(r"^__all__\b.*= \[[^\]]*\]", re.MULTILINE)
WORD = re.compile(r"\w+")
NAMED_IN_TEMPLATE = re.compile(r"\.(\w+)")

# Names that somebody else uses, or that are part of a definition; no line without its reason.
ALLOWED = {
    # The interpreter, on modules and on context managers; pydantic, on its models.
    *("__dir__", "__getattr__", "trace", "model_config", "_as_object", "_value_"),
    # Named by lm_eval or by a library: its parameters, and what it calls on what we derive from it.
    *("_filters", "fewshot_docs", "doc_to_text", "num_fewshot", "fewshot_as_multiturn", "gen_prefix"),
    *("tokenizer_name", "disable_tqdm", "add_generation_prompt", "loglikelihood", "loglikelihood_rolling"),
    *("add_partial", "redirect_request", "map_wn", "enable_progress_bars"),
    *("intra_op_num_threads", "inter_op_num_threads", "log_severity_level", "data_location"),
    *("rich_help_panel", "epilog", "on_epoch_end", "control", "padding_side"),
    # The values of an option, and what a function of another package is called by.
    *("FIRST_PARTY", "THIRD_PARTY", "COLLABORATIVE", "__call__"),
    # Told of by docs/python.md.
    *("to_pandas", "to_polars"),
    # What `ragtasks.ground` gives to notebooks and services.
    *("share_with_conversation", "from_conversation", "not_found", "cited", "GroundedSentence"),
    # Read by `ragtasks gate` as its section, and checked by the model of the file.
    "gate",
    # Checked by the model that holds them: keys of a results file, members that a value finds, columns of a table.
    *("idk_detector", "judge_prompts", "setting_tasks", "OKAY", "INVERSE_FREQUENCY_RANKS", "majority"),
    "eval_response",
    # The third number of BERTScore: its tests compare all three with the bert-score package.
    "f1",
    # Said by the arena's interface, field by field.
    *("is_live", "response_length", "rating_at_equal_length"),
    # Of models that search while they answer: what servers and tool calls offer them.
    "schemas",
    # What is read or kept and has no command yet.
    *("needs_rewriting", "read_assignments", "sub_narrative"),
}


def without_exports(code: str) -> str:
    """Return a module without its `__all__`, whose names vulture would take for used; lines keep their numbers."""
    return EXPORTS.sub(lambda found: "\n" * found[0].count("\n"), code)


def named_by_text() -> set[str]:
    """Return the names that something else than code of the packages calls."""
    found: set[str] = set()
    for pattern, files in (
        (NAMED_IN_TABLE, [ROOT / "pyproject.toml", *(p for name in PACKAGES for p in (ROOT / name).rglob("*.py"))]),
        (NAMED_IN_YAML, (ROOT / "task_yamls").rglob("*.yaml")),
        (NAMED_IN_TEMPLATE, (p for p in (ROOT / "ragtasks").rglob("*") if p.suffix in {".jinja", ".js"})),
    ):
        for path in files:
            found.update(pattern.findall(path.read_text(encoding="utf-8")))
    return found


def unused(sources: dict[str, str], named: set[str]) -> list[str]:
    """Return `path:line kind name` of what no code uses and nothing else names; imports are ruff's affair."""
    vulture = Vulture(ignore_decorators=TAKEN)
    for path, code in sources.items():
        vulture.scan(without_exports(code), Path(path))
    found = (item for item in vulture.get_unused_code() if item.typ != "import" and item.name not in named)
    return [f"{item.filename}:{item.first_lineno} {item.typ} {item.name}" for item in found]


def test_all_code_is_used() -> None:
    files = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}
    assert unused(sources, {*named_by_text(), *ragtasks.__all__, *ALLOWED}) == []


def test_every_name_that_is_allowed_is_there() -> None:
    words = {
        word
        for name in PACKAGES
        for path in (ROOT / name).rglob("*.py")
        for word in WORD.findall(path.read_text("utf-8"))
    }
    assert words >= ALLOWED


def test_being_exported_or_imported_is_no_use() -> None:
    face = "from part._code import dead\n\n__all__ = ['dead']\n"
    code = "def dead() -> None:\n    return\n\n\n__all__ = ['dead']\n"
    assert unused({"part/__init__.py": face, "part/_code.py": code}, set()) == ["part/_code.py:1 function dead"]
    assert unused({"part/__init__.py": face, "part/_code.py": code, "part/_user.py": "dead()"}, set()) == []
