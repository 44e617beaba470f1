"""Takes the official wording of judge prompts from the user's own checkout, by reading its source and never running it.

None of the wording ships with ragtasks. A prompt is a text of at least 200 characters in `scripts/evaluation/*.py`
(constants, f-strings, and both joined by `+`; docstrings are none) that has a place for the answer and these words:

- rb_llm: faithful, appropriate, complete and rating
- idk: yes, no and partial, and neither "rating" nor "decision"
- clarification: decision and clarif or underspecified

Its places are f-string expressions, or `{name}` in a plain text. Their names say what goes in: the last name of the
expression is compared with the words of `_PLACES`, in that order.

What is not verified: the official files were not at hand when this was written. The rules follow a description of
them and are tested on a file of that shape. Where they do not fit, nothing is guessed: the error says what was found.
The official prompts do not mark where the judged answer ends, so they cannot be kept from obeying it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.judges.ibm_parsers import ibm_clarification, ibm_idk, ibm_rating
from ragtasks.judges.parsers import UnparsableReplyError, read_decision, read_label, read_rating
from ragtasks.judges.question import Finding, Question, Rubric
from ragtasks.judges.rubrics import (
    LABEL_VALUES,
    NOT_UNDERSPECIFIED,
    RB_LLM,
    label_finding,
    rating_finding,
)
from ragtasks.judges.verdicts import CLARIFICATION, IDK
from ragtasks.records import Answerability, Response, Role

FOLDER = "scripts/evaluation"
"""Where the official scripts are, below the folder of the checkout."""
_SHORTEST_PROMPT = 200
_NAMED = re.compile(r"\{([A-Za-z_]\w*)\}")
_SPEAKERS = {Role.USER: "user", Role.ASSISTANT: "agent"}

# rubric -> (all of these beginnings of words, at least one of these, none of these words)
_SIGNS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    RB_LLM: (("faithful", "appropriate", "complete", "rating"), (), ()),
    IDK: (("yes", "no", "partial"), (), ("rating", "decision")),
    CLARIFICATION: (("decision",), ("clarif", "underspecified"), ()),
}
# what goes in -> words in the name of a place; the first that fits counts (`reference_answer` is a reference)
_PLACES: Mapping[str, tuple[str, ...]] = {
    "reference": ("reference", "target", "gold", "ground"),
    "passages": ("passage", "document", "context", "evidence"),
    "conversation": ("history", "conversation", "dialog", "turns"),
    "question": ("question", "inquiry", "query"),
    "answer": ("answer", "response", "prediction", "reply"),
}


@dataclass(frozen=True, slots=True)
class OfficialPrompt:
    """One prompt as it stands in an official file."""

    where: str
    """File and line."""
    parts: tuple[str | ast.expr, ...]
    """Text, and expressions where something goes in."""

    @property
    def text(self) -> str:
        """The words, without what goes in."""
        return "".join(part for part in self.parts if isinstance(part, str))

    def places(self) -> list[str | None]:
        """Return what goes in at each place, None where its name does not tell."""
        return [_meaning(part) for part in self.parts if isinstance(part, ast.expr)]

    def fill(self, fields: Mapping[str, str]) -> str:
        """Return the prompt with `fields` (what goes in -> text) at its places."""
        return "".join(part if isinstance(part, str) else fields[_meaning(part) or ""] for part in self.parts)


def official_rubrics(root: Path, names: Sequence[str], *, profile: str) -> list[Rubric]:
    """Return rubrics with the official prompts of a checkout, in the order of `names`.

    In the paper profile the final verdict is read, else there is none; in the ibm profile the reply is read as the
    official scripts do it, which always gives a figure but for "unknown" IDK labels.

    Args:
        root: folder of the checkout, which holds `scripts/evaluation`.
        names: of rb_llm, idk and clarification.
        profile: `paper` or `ibm`.

    Raises:
        ConfigurationError: no such file, no prompt or several for a name, a place whose name does not tell what goes
            in, or an unknown name or profile.
    """
    if profile not in ("paper", "ibm"):
        raise ConfigurationError(f"judges: unknown profile {profile!r}: known: ibm, paper")
    unknown = [name for name in names if name not in _SIGNS]
    if unknown:
        known = ", ".join(_SIGNS)
        raise ConfigurationError(f"judges: no official prompt for {', '.join(unknown)}: there are prompts for {known}")
    found = official_prompts(root)
    readers = _IBM_READERS if profile == "ibm" else _READERS
    for name in names:
        if name not in found:
            raise ConfigurationError(_not_found(name, root, "no text that fits"))
    described = [(name, f"{name} by the official prompt") for name in names]
    return [
        Rubric(name, words, partial(_open, name, found[name], readers[name]), (found[name].text,))
        for name, words in described
    ]


def official_prompts(root: Path) -> dict[str, OfficialPrompt]:
    """Return rubric name -> prompt for those that a checkout holds.

    Raises:
        ConfigurationError: no source file, one that is no Python, or a prompt that is there twice or has a place
            whose name does not tell what goes in.
    """
    files = sorted((root / FOLDER).glob("*.py"))
    if not files:
        raise ConfigurationError(_not_found("judges", root, "no Python file"))
    texts = [prompt for file in files for prompt in _texts(file)]
    found = {}
    for name, signs in _SIGNS.items():
        fitting = {prompt.text: prompt for prompt in texts if _fits(prompt, *signs)}
        if len(fitting) > 1:
            places = ", ".join(prompt.where for prompt in fitting.values())
            raise ConfigurationError(_not_found(name, root, f"several texts that fit: {places}"))
        for prompt in fitting.values():
            _check_places(name, prompt, root)
            found[name] = prompt
    return found


def _check_places(name: str, prompt: OfficialPrompt, root: Path) -> None:
    expressions = [part for part in prompt.parts if isinstance(part, ast.expr)]
    strange = [ast.unparse(part) for part in expressions if _meaning(part) is None]
    if strange:
        raise ConfigurationError(_not_found(name, root, f"{prompt.where}: what goes in at {', '.join(strange)}?"))


def _not_found(name: str, root: Path, found: str) -> str:
    return clear_error(
        f"official prompt of {name}",
        where=str(root / FOLDER),
        expected="one prompt of IBM/mt-rag-benchmark at commit cc5b1d4",
        found=found,
        next_step="check out that commit with its scripts, or leave out `prompts: official` to use the shipped prompts",
    )


def _fits(prompt: OfficialPrompt, every: Sequence[str], some: Sequence[str], none: Sequence[str]) -> bool:
    text = prompt.text.lower()
    return (
        len(text) >= _SHORTEST_PROMPT
        and "answer" in prompt.places()
        and all(re.search(rf"\b{stem}", text) for stem in every)
        and (not some or any(stem in text for stem in some))
        and not any(re.search(rf"\b{word}\b", text) for word in none)
    )


def _texts(file: Path) -> Iterator[OfficialPrompt]:
    """Yield every text of a source file, joined ones as one."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as error:
        raise ConfigurationError(_not_found("judges", file.parents[2], f"{file.name}: {error}")) from error
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        parts = _parts(node) if isinstance(node, ast.expr) else None
        if parts is not None:
            yield OfficialPrompt(f"{file.name}, line {getattr(node, 'lineno', '?')}", tuple(parts))
        else:
            # A text that stands alone is a docstring; what is inside a joined text was taken with it.
            children = (child for child in ast.iter_child_nodes(node) if not _is_docstring(child))
            stack.extend(children)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _parts(node: ast.expr) -> list[str | ast.expr] | None:
    """Return the texts and expressions of a text, None where a node is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _plain(node.value)
    if isinstance(node, ast.JoinedStr):
        return [_formatted(value) for value in node.values]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _parts(node.left), _parts(node.right)
        # `text + name + text`: the name is a place.
        if left is not None or right is not None:
            return (left or [node.left]) + (right or [node.right])
    return None


def _formatted(value: ast.expr) -> str | ast.expr:
    if isinstance(value, ast.FormattedValue):
        return value.value
    return str(value.value) if isinstance(value, ast.Constant) else value


def _plain(text: str) -> list[str | ast.expr]:
    """Return the parts of a text that `format` fills; braces around anything but a name (JSON) stay text."""
    pieces = _NAMED.split(text)
    if len(pieces) == 1:
        return [text]
    # `format` makes one brace of two.
    return [
        ast.Name(piece) if index % 2 else piece.replace("{{", "{").replace("}}", "}")
        for index, piece in enumerate(pieces)
    ]


def _meaning(place: ast.expr) -> str | None:
    """Return what goes in at a place, by the last name of its expression; None where it does not tell."""
    names = re.findall(r"[A-Za-z_]\w*", ast.unparse(place))
    name = names[-1].lower() if names else ""
    return next((field for field, words in _PLACES.items() if any(word in name for word in words)), None)


def _open(name: str, prompt: OfficialPrompt, read: Callable[[str], Finding], response: Response) -> Question | Finding:
    if name == CLARIFICATION and response.task.answerability is not Answerability.UNDERSPECIFIED:
        return NOT_UNDERSPECIFIED
    history = response.task.messages[:-1]
    fields = {
        "reference": response.task.target,
        "passages": "\n\n".join(passage.text for passage in response.passages),
        "conversation": "\n".join(f"{_SPEAKERS[message.role]}: {message.text}" for message in history),
        "question": response.task.question,
        "answer": response.text,
    }
    return Question(prompt.fill(fields), read)


def _ibm_label(reply: str) -> Finding:
    verdict = ibm_idk(reply)
    if verdict is None:
        raise UnparsableReplyError("the official scripts call this reply unknown")
    return label_finding(verdict.value)


def _ibm_decision(reply: str) -> Finding:
    value = ibm_clarification(reply)
    labels = {number: label for label, number in LABEL_VALUES.items()}
    return Finding(labels[value], value)


def _ibm_rating(reply: str) -> Finding:
    value = ibm_rating(reply)
    return Finding(f"{value * 10:g}", value)


_READERS: Mapping[str, Callable[[str], Finding]] = {
    RB_LLM: lambda reply: rating_finding(read_rating(reply)),
    IDK: lambda reply: label_finding(read_label(reply)),
    CLARIFICATION: lambda reply: label_finding(read_decision(reply)),
}
_IBM_READERS: Mapping[str, Callable[[str], Finding]] = {
    RB_LLM: _ibm_rating,
    IDK: _ibm_label,
    CLARIFICATION: _ibm_decision,
}

__all__ = ["FOLDER", "OfficialPrompt", "official_prompts", "official_rubrics"]
