"""Code that is not used by the packages is removed. Uses in tests and in lists of exported names do not count."""

from __future__ import annotations

import re
from pathlib import Path

from vulture import Vulture

import ragtasks

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("ragtasks", "retrieval_cache")
# Decorators and base classes whose functions are called by typer, pydantic or FastAPI.
TAKEN = [
    *("@*.command", "@*.callback", "@field_validator", "@model_validator"),
    *("@router.get", "@router.post", "@app.exception_handler"),
]
# Text that names code: tables of `module:name`, task YAMLs, templates and the page's script.
NAMED_IN_TABLE = re.compile(r"[\w.]+:(\w+)\"")
NAMED_IN_YAML = re.compile(r"!function [\w.]+\.(\w+)")
EXPORTS = re.compile(r"^__all__\b.*= \[[^\]]*\]", re.MULTILINE)
NAMED_IN_TEMPLATE = re.compile(r"\.(\w+)")

# Names used outside the packages, or required by a definition. Every line needs a reason.
ALLOWED = {
    # Called by the interpreter, on modules and context managers; by pydantic, on its models.
    *("__dir__", "__getattr__", "trace", "model_config", "_as_object", "_value_"),
    # Defined by lm_eval or a library: parameters, and methods of subclasses.
    *("_filters", "fewshot_docs", "doc_to_text", "num_fewshot", "fewshot_as_multiturn", "gen_prefix"),
    *("tokenizer_name", "disable_tqdm", "add_generation_prompt", "loglikelihood_rolling"),
    *("redirect_request", "map_wn", "enable_progress_bars", "list_commands", "get_help_option_names"),
    *("intra_op_num_threads", "inter_op_num_threads", "log_severity_level", "data_location"),
    *("on_epoch_end", "control", "padding_side"),
    # Values of an option, and arguments of functions of other packages.
    "__call__",
    # Documented in docs/python.md for notebooks, and in docs/grounding.md.
    *("to_pandas", "to_polars", "_repr_html_", "citation_kinds"),
    # Validated by a model: keys of a results file or manifest, members found by value, columns of a table.
    *("idk_detector", "judge_prompts", "setting_tasks", "scored_by", "OKAY"),
    *("eval_response", "start_char", "end_char", "author", "configuration", "asked"),
    # Keys of logged verdicts, written from the fields of a record.
    *("prompt_tokens", "completion_tokens"),
    # Fields in the output of the arena's interface.
    *("is_live", "response_length", "rating_at_equal_length"),
}


def without_exports(code: str) -> str:
    """Return a module without its `__all__`, which vulture would count as use; line numbers are unchanged."""
    return EXPORTS.sub(lambda found: "\n" * found[0].count("\n"), code)


def named_by_text() -> set[str]:
    """Return the names that are called from outside Python code."""
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
    """Return `path:line kind name` of unused code, except imports, which ruff checks."""
    vulture = Vulture(ignore_decorators=TAKEN)
    for path, code in sources.items():
        vulture.scan(without_exports(code), Path(path))
    found = (item for item in vulture.get_unused_code() if item.typ != "import" and item.name not in named)
    return [f"{item.filename}:{item.first_lineno} {item.typ} {item.name}" for item in found]


def test_all_code_is_used_except_listed_names() -> None:
    files = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}
    lines = {line: line.rsplit(" ", 1)[1] for line in unused(sources, {*named_by_text(), *ragtasks.__all__})}
    assert [line for line, name in lines.items() if name not in ALLOWED] == []
    assert set(lines.values()) >= ALLOWED, "allowed, though it is used or gone"


PRIVATE_CONSTANT = re.compile(r"^(_[A-Za-z]\w*)(?:: [^=\n]+)? = ", re.MULTILINE)


def test_private_constants_are_used_in_their_module() -> None:
    """Vulture counts every variable with a leading underscore as used."""
    codes = [path.read_text(encoding="utf-8") for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    names = [(name, code) for code in codes for name in PRIVATE_CONSTANT.findall(code)]
    assert [name for name, code in names if len(re.findall(rf"\b{name}\b", code)) < 2] == []


def test_being_exported_or_imported_is_no_use() -> None:
    face = "from part._code import dead\n\n__all__ = ['dead']\n"
    code = "def dead() -> None:\n    return\n\n\n__all__ = ['dead']\n"
    assert unused({"part/__init__.py": face, "part/_code.py": code}, set()) == ["part/_code.py:1 function dead"]
    assert unused({"part/__init__.py": face, "part/_code.py": code, "part/_user.py": "dead()"}, set()) == []
