"""Official wording of prompts, read from the user's copy of the official repository. ragtasks ships none of it.

A record contains the file and name of each text, a hash of the texts, and the paper's section for benchmarks whose
repository has no prompt. A text with another hash is from another commit and is refused. The layout (order, headings,
separators) is a template of ours in `ragtasks/prompts/official`. Files are parsed, never executed.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ragtasks.errors import ConfigurationError
from ragtasks.files import UnreadablePdfError, pdf_text, read_yaml
from ragtasks.prompts._templates import PromptTemplate, shipped_template


@dataclass(frozen=True, slots=True)
class OfficialPrompt:
    """The official prompt of a benchmark for models."""

    template: PromptTemplate
    """The layout with the official texts. Its fields are `passages` and, if `has_question`, `question`."""
    has_question: bool
    """The template is the last user message and contains the question. Otherwise it is the system message."""
    system: str
    """The system message next to a prompt with the question; empty without one."""


@dataclass(frozen=True, slots=True)
class _PromptSource:
    """Source location and hash of the texts of a prompt."""

    repository: str
    commit: str
    file: str
    fetch: str
    """Command that downloads the file."""
    texts: Mapping[str, str | tuple[str, str]]
    """Field of the layout -> name of a Python constant or YAML key, or the words before and after the text in a PDF.

    The field `system` is the system message of a prompt that has the question.
    """
    sha256: str
    """Hash of the texts, in order, one per line."""
    layout: str
    """Template in `ragtasks/prompts/official`."""
    has_question: bool = True


def _ragnarok(benchmark: str, prompt_mode: str, sha256: str) -> _PromptSource:
    """Return the prompt of the organizers' baseline for a TREC RAG track."""
    return _PromptSource(
        "castorini/ragnarok",
        "7233fa7",
        f"src/ragnarok/prompts/prompt_templates/{prompt_mode}.yaml",
        f"ragtasks data fetch {benchmark} --group generation_prompts",
        {"system": "system_message", "instruction": "instruction"},
        sha256,
        "trec_rag",
    )


_SOURCES: Mapping[str, _PromptSource] = {
    "mtrag_un": _PromptSource(
        "IBM/mt-rag-benchmark",
        "cc5b1d4",
        "mtragun-human/MTRAG-UN-arxiv.pdf",
        "ragtasks data fetch mtrag_un --group generation_prompts",
        {"instruction": ("of underspecified questions:", "In the reference task")},
        "e83b34794c0b0858392e1dd7ad9b417dc8203bdb209705c3d436cc1eaf10e020",
        "mtrag_un",
        has_question=False,
    ),
    "multihop_rag": _PromptSource(
        "yixuantt/MultiHop-RAG",
        "3dd4d4e",
        "qa_llama.py",
        "ragtasks data fetch multihop_rag --group generation_prompts",
        {"instruction": "prefix"},
        "309476182c4a3b595e0f84da0ffd3635297da1b379e5ddb6eb733917463096f9",
        "multihop_rag",
    ),
    "trec_rag24": _ragnarok("trec_rag24", "chatqa", "592f1e0ed077a8e65c1f47ca53d3a95a320038663aa43799b1cc3b99e3e2b781"),
    "trec_rag25": _ragnarok(
        "trec_rag25", "ragnarok_v4", "e7dbe0aa4d83c8a7e0635fc0e408dfbac181217fb3a8e310ce1a16ccc1dba79d"
    ),
}
_MTRAG_PAPER = "only in the MTRAG paper (arXiv 2501.03468), appendix"
_IKAT = "none: the baseline is a fine-tuned summarizer (irlabamsterdam/iKAT, 2023/scripts/baselines)"
_DOC2DIAL = "none: the models are fine-tuned (IBM/multidoc2dial). The OR-CONVQA paper has one in appendix B.3"
_ELSEWHERE: Mapping[str, str] = {
    "mtrag": f"{_MTRAG_PAPER} D.2",
    "mtrag_s": f"{_MTRAG_PAPER} D.2",
    "rewriting tasks": f"{_MTRAG_PAPER} C.1",
    "inscit": "none: the models are fine-tuned (INSCIT paper, arXiv 2207.00746, section 5)",
    "inscit_dev": "none: the models are fine-tuned (INSCIT paper, arXiv 2207.00746, section 5)",
    "ikat23": _IKAT,
    "ikat24": _IKAT,
    "ikat25": _IKAT,
    "doc2dial": _DOC2DIAL,
    "multidoc2dial": _DOC2DIAL,
    "multidoc2dial_propositions": _DOC2DIAL,
}
"""Benchmark or kind of tasks -> source of its official prompt, or of its models, outside its data folder."""


def official_prompt(benchmark: str, root: Path) -> OfficialPrompt:
    """Return the official prompt of a benchmark, with the wording of the files under `root`.

    Raises:
        ConfigurationError: if there is no official prompt, or its file is missing or different.
        MissingExtraError: if the file is a PDF and pypdf is not installed.
    """
    source = _SOURCES.get(benchmark)
    if source is None:
        raise ConfigurationError(
            f"official prompt of {benchmark}",
            where="system_prompt=official",
            expected=f"a benchmark whose repository contains its prompt for models: {', '.join(_SOURCES)}",
            found=_ELSEWHERE.get(benchmark, "none is known"),
            next_step="name a Jinja file as system_prompt (docs/background/official.md), or leave it out",
        )
    path = root / source.file
    next_step = f"run `{source.fetch}` and evaluate the fetched files, or leave system_prompt out"

    def refused(found: str) -> ConfigurationError:
        expected = f"the file of {source.repository} at commit {source.commit}"
        return ConfigurationError(
            f"official prompt of {benchmark}",
            where=str(path),
            expected=expected,
            found=found + other_commit(root, source.repository, source.commit),
            next_step=next_step,
        )

    try:
        texts = {field: _text_in(path, name) for field, name in source.texts.items()}
    except UnreadableWordingError as error:
        raise refused(str(error)) from error
    if hashlib.sha256("\n".join(texts.values()).encode()).hexdigest() != source.sha256:
        raise refused("another text")
    # A JSON string is also a string in Jinja. The texts are part of the source, and therefore of its hash.
    constants = "".join(
        f"{{% set {field} = {json.dumps(text, ensure_ascii=False)} %}}\n" for field, text in texts.items()
    )
    layout = shipped_template(f"official/{source.layout}").source
    template = PromptTemplate(f"official/{benchmark}", constants + layout)
    return OfficialPrompt(template, source.has_question, texts.get("system", ""))


# Reading of texts, for prompts of models and of judges.


class UnreadableWordingError(Exception):
    """A file is missing, cannot be parsed, or does not contain the text."""


def parsed_source(path: Path) -> ast.Module:
    """Return the syntax tree of a Python file.

    Raises:
        UnreadableWordingError: the file is missing or not Python.
    """
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        # The exception for a null byte depends on the version of Python.
        problem = "no Python" if isinstance(error, (ValueError, SyntaxError)) else type(error).__name__
        raise UnreadableWordingError(f"{problem}: {getattr(error, 'strerror', None) or error}") from error


def constant_text(tree: ast.Module, name: str) -> str | None:
    """Return the text of a constant of a module; None without a constant of this name."""
    for node in tree.body:
        names = [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
        if isinstance(node, ast.Assign) and name in names and isinstance(node.value, ast.Constant):
            return str(node.value.value)
    return None


def other_commit(root: Path, repository: str, commit: str) -> str:
    """Return the commit of a checkout of `repository` as the end of a message; "" if it is `commit` or unknown."""
    try:
        git = _git_folder(root)
        shared = _linked(git / "commondir", "") if (git / "commondir").is_file() else git
        if repository not in (shared / "config").read_text(encoding="utf-8"):
            return ""
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if head.startswith("ref: "):
            head = _commit_of(shared, head.removeprefix("ref: "))
    except (OSError, ValueError, StopIteration):
        return ""
    return "" if head.startswith(commit) else f"; the checkout is at commit {head[:7]}"


def _git_folder(root: Path) -> Path:
    """Return the folder of git's files. In a linked worktree, `.git` is a file with its path."""
    git = root / ".git"
    return _linked(git, "gitdir: ") if git.is_file() else git


def _linked(file: Path, prefix: str) -> Path:
    """Return the path in a file, which may be relative to the folder of the file."""
    return file.parent / file.read_text(encoding="utf-8").strip().removeprefix(prefix)


def _commit_of(git: Path, branch: str) -> str:
    """Return the commit of a branch, such as `refs/heads/main`, from its own file or from `packed-refs`."""
    if (git / branch).is_file():
        return (git / branch).read_text(encoding="utf-8").strip()
    lines = (git / "packed-refs").read_text(encoding="utf-8").splitlines()
    return next(line.split()[0] for line in lines if line.endswith(f" {branch}"))


def _text_in(path: Path, name: str | tuple[str, str]) -> str:
    if isinstance(name, tuple):
        return _text_between(path, *name)
    if path.suffix == ".yaml":
        return _text_of_key(path, name)
    text = constant_text(parsed_source(path), name)
    if text is None:
        raise UnreadableWordingError(f"no text under the name {name}")
    return text


def _text_of_key(path: Path, key: str) -> str:
    try:
        _, content = read_yaml(path.read_text(encoding="utf-8"))
        return str(content[key])
    except OSError as error:
        raise UnreadableWordingError(f"{type(error).__name__}: {error.strerror}") from error
    except Exception as error:  # YAML's own errors have no common class with the others
        raise UnreadableWordingError(f"no YAML with the key {key}: {type(error).__name__}") from error


def _text_between(path: Path, before: str, after: str) -> str:
    """Return the text of a PDF between two texts, with single spaces."""
    try:
        pages, _ = pdf_text(path.read_bytes(), "pdf", "the official prompt in a PDF")
    except OSError as error:
        raise UnreadableWordingError(f"{type(error).__name__}: {error.strerror}") from error
    except UnreadablePdfError as error:
        raise UnreadableWordingError(str(error)) from error
    text = " ".join(" ".join(pages).split())
    _, found, remainder = text.partition(before)
    prompt, end, _ = remainder.partition(after)
    if not found or not end:
        raise UnreadableWordingError("a PDF without the section of the prompt")
    return prompt.strip()
