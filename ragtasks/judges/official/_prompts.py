"""Takes the official wording of judge prompts from the user's own checkout, by reading its source and never running it.

None of the wording ships with ragtasks: it knows the file and the name under which each prompt stands, what goes in at
its places, and a hash of both. A checkout whose prompt has another hash is another commit, and is refused.

The official prompts do not mark where the judged answer ends, so they cannot be kept from obeying it.

Source: IBM/mt-rag-benchmark, scripts/evaluation, commit cc5b1d4. What leaves for a judge equals what the scripts build
byte by byte (`perf/official_agreement.py`), as one user message: so they send it to a vLLM server; to Azure they
add a system message.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.judges._ibm_conversation import ibm_conversation, ibm_split_conversation
from ragtasks.judges._parsers import read_decision, read_label, read_rating
from ragtasks.judges._question import Finding, Question, Rubric, rating_finding
from ragtasks.judges._verdicts import CLARIFICATION, IDK
from ragtasks.judges.official._parsers import IBM, ibm_clarification_finding, ibm_idk_finding, ibm_rating_finding
from ragtasks.judges.rubrics import NOT_UNDERSPECIFIED, RB_LLM, label_finding
from ragtasks.records import Answerability, Response

FOLDER = "scripts/evaluation"
"""Where the official scripts are, below the folder of the checkout."""

Fields = Mapping[str, str]
"""Name of a place -> what goes in."""

# The scripts' own environment is Jinja's default one; this is the same, and lets a template reach nothing else.
_JINJA = ImmutableSandboxedEnvironment()
_JINJA_PLACES = {"response": "answer"}


@dataclass(frozen=True, slots=True)
class _Wording:
    """Where a prompt stands, and what it is known by."""

    file: str
    holder: str
    """The function whose longest f-string it is, or the constant that is a Jinja template."""
    places: Mapping[str, str]
    """Expression in the source -> name of what goes in; a template's are names."""
    sha256: str
    """Of the texts and the names of the places, in order."""


_WORDINGS: Mapping[str, _Wording] = {
    RB_LLM: _Wording(
        "judge_utils.py",
        "format_conversation_radbench",
        {
            "row['previous_conversation']": "history",
            "row['current_question']": "question",
            "row['reference_answer']": "reference",
            "row['response']": "answer",
            "document_txt": "passages",
        },
        "422bf13d78b37549e6ded90334b811149f7da97e86c504231caee810bceb2f0b",
    ),
    IDK: _Wording(
        "judge_utils.py",
        "format_idk_judge",
        {"inquiry": "conversation", "response": "answer"},
        "895aa2167dae11aaafd387b1fe6d8a6f326d9c38a10c365550b6dca514d4f1f1",
    ),
    CLARIFICATION: _Wording(
        "underspecified_eval.py",
        "UNDERSPECIFIED_PROMPT",
        _JINJA_PLACES,
        "6356596f0a2ee4c52c279b13c3444180431808fd1f9e02936efd0a368dcd498d",
    ),
}


@dataclass(frozen=True, slots=True)
class OfficialPrompt:
    """One prompt as it stands in an official file."""

    source: str
    """Its words, with the names of its places in braces."""
    fill: Callable[[Fields], str]
    """What goes in -> the prompt."""


def official_rubrics(root: Path, names: Sequence[str]) -> list[Rubric]:
    """Return two rubrics with the official prompt for each name, in the order of `names`.

    The one of that name reads the final verdict, or none. The other, called `NAME_ibm`, reads the same reply as the
    official scripts do, which nearly always gives a value. Both ask the same, so that it is paid for once.

    Args:
        root: folder of the checkout, which holds `scripts/evaluation`.
        names: of rb_llm, idk and clarification.

    Raises:
        ConfigurationError: a prompt is not there, or has another wording than at commit cc5b1d4.
    """
    return [rubric for name in names for rubric in _pair(name, official_prompt(root, name))]


def _pair(name: str, prompt: OfficialPrompt) -> list[Rubric]:
    read, read_ibm = _READERS[name]
    return [
        Rubric(name, f"{name} by the official prompt", partial(_open, name, prompt, read), (prompt.source,)),
        Rubric(
            name + IBM,
            f"{name} by the official prompt, read as the official scripts do",
            partial(_open, name, prompt, read_ibm),
            (prompt.source,),
        ),
    ]


def official_prompt(root: Path, name: str) -> OfficialPrompt:
    """Return the official prompt of a rubric out of a checkout.

    Args:
        root: folder of the checkout.
        name: rb_llm, idk or clarification.

    Raises:
        ConfigurationError: no such file, no such text in it, or another wording than at commit cc5b1d4.
    """
    wording = _WORDINGS[name]
    path = root / FOLDER / wording.file
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise _refused(name, path, f"{type(error).__name__}: {error}") from error
    parts = _function_parts(tree, wording) or _constant_parts(tree, wording)
    if parts is None:
        raise _refused(name, path, f"no text under the name {wording.holder}")
    source = "".join(text if is_text else f"{{{text}}}" for is_text, text in parts)
    if hashlib.sha256(source.encode()).hexdigest() != wording.sha256:
        raise _refused(name, path, f"another text under the name {wording.holder}")
    if len(parts) == 1:
        return OfficialPrompt(source, partial(_render, name, path, source))
    return OfficialPrompt(source, partial(_join, parts))


def _refused(name: str, path: Path, found: str) -> ConfigurationError:
    return ConfigurationError(
        clear_error(
            f"official prompt of {name}",
            where=str(path),
            expected="the file of IBM/mt-rag-benchmark at commit cc5b1d4",
            found=found,
            next_step="run `ragtasks fetch mtrag --group judge_prompts` or check that commit out into the data folder, "
            'or leave "prompts": "official" out to use the shipped prompts',
        )
    )


Part = tuple[bool, str]
"""(True, text) or (False, name of what goes in)."""


def _function_parts(tree: ast.Module, wording: _Wording) -> list[Part] | None:
    """Return the parts of the longest f-string in the function of a wording; None where there is none."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == wording.holder]
    texts = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.JoinedStr)]
    found = [[_part(value, wording.places) for value in text.values] for text in texts]
    return max(found, key=lambda parts: sum(len(text) for _, text in parts), default=None)


def _part(value: ast.expr, places: Mapping[str, str]) -> Part:
    if isinstance(value, ast.Constant):
        return True, str(value.value)
    plain = isinstance(value, ast.FormattedValue) and value.conversion == -1 and value.format_spec is None
    expression = ast.unparse(value.value) if isinstance(value, ast.FormattedValue) else ast.unparse(value)
    # An unknown place makes another hash, and with it the error.
    return False, places.get(expression, expression) if plain else f"?{expression}"


def _constant_parts(tree: ast.Module, wording: _Wording) -> list[Part] | None:
    """Return the one text that is assigned to the constant of a wording; None where there is none."""
    for node in tree.body:
        names = [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
        if isinstance(node, ast.Assign) and wording.holder in names and isinstance(node.value, ast.Constant):
            return [(True, str(node.value.value))]
    return None


def _join(parts: Sequence[Part], fields: Fields) -> str:
    return "".join(text if is_text else fields[text] for is_text, text in parts)


def _render(name: str, path: Path, source: str, fields: Fields) -> str:
    try:
        values = {place: fields[field] for place, field in _JINJA_PLACES.items()}
        return _JINJA.from_string(source).render(values)
    except TemplateError as error:
        raise _refused(name, path, f"{type(error).__name__}: {error}") from error


def _open(name: str, prompt: OfficialPrompt, read: Callable[[str], Finding], response: Response) -> Question | Finding:
    if name == CLARIFICATION and response.task.answerability is not Answerability.UNDERSPECIFIED:
        return NOT_UNDERSPECIFIED
    conversation = ibm_conversation(response.task.messages)
    history, question = ibm_split_conversation(conversation)
    fields = {
        "conversation": conversation,
        "history": history,
        "question": question,
        "reference": response.task.target,
        "passages": "\n\n".join(passage.text for passage in response.passages),
        "answer": response.text if response.verbatim is None else response.verbatim,
    }
    return Question(prompt.fill(fields), read)


_READERS: Mapping[str, tuple[Callable[[str], Finding], Callable[[str], Finding]]] = {
    RB_LLM: (lambda reply: rating_finding(read_rating(reply)), ibm_rating_finding),
    IDK: (lambda reply: label_finding(read_label(reply)), ibm_idk_finding),
    CLARIFICATION: (lambda reply: label_finding(read_decision(reply)), ibm_clarification_finding),
}

__all__ = ["FOLDER", "Fields", "OfficialPrompt", "official_prompt", "official_rubrics"]
