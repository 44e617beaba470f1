"""A user's own rubric: one YAML file with a prompt, the labels of a verdict and their scores.

    prompt: |
      A user asked: {{ question }}
      The assistant answered: {{ answer }}
      Does the answer keep to the house rules in these passages?
      {% for context in contexts %}{{ context }}
      {% endfor %}
    labels: {keeps: 1, breaks: 0}

The format of the verdict is appended to the prompt. Panel, cache and parser are those of the shipped rubrics.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, meta

from ragtasks.errors import ConfigurationError, close_matches, missing_path
from ragtasks.files import read_yaml
from ragtasks.judges._parsers import label_in, read_only_label
from ragtasks.judges._question import SPEAKERS, Finding, Question, Rubric, ask
from ragtasks.judges.rubrics import (
    LABEL_FORM,
    MULTIHOP_ANSWER,
    PAIRWISE,
    RUBRICS,
    SECOND_ANSWER,
    multihop_answer,
    pairwise,
    rubrics_named,
    second_text,
    titled,
)
from ragtasks.prompts import PromptTemplate, shipped_template
from ragtasks.records import Response

VARIABLES = ("question", "answer", "contexts", "reference", "history", SECOND_ANSWER)
"""Variables of a template. `history` has objects with `speaker` and `text`, `contexts` texts."""

_KEYS = ("prompt", "labels")
_ENDINGS = (".yaml", ".yml")
_OTHERS = {PAIRWISE: pairwise, MULTIHOP_ANSWER: multihop_answer}
_OPTIONAL = ("contexts", "reference", SECOND_ANSWER)
_EXAMPLE = "labels: {good: 1, bad: 0}"
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def rubric_of(named: str) -> Rubric:
    """Return a rubric by its name, or the user's own from a YAML file.

    Raises:
        ConfigurationError: an unknown name, or a file with an error.
    """
    if named.endswith(_ENDINGS):
        return _read_rubric(Path(named).expanduser())
    names = _rubric_names()
    if named not in names:
        raise ConfigurationError(f"--rubric: unknown rubric {named!r}; {close_matches(named, names)}, or a .yaml file")
    return _OTHERS[named]() if named in _OTHERS else rubrics_named([named])[0]


def _rubric_names() -> list[str]:
    return [*RUBRICS.names(), *_OTHERS]


def _read_rubric(path: Path) -> Rubric:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem, next_step = str(error), "save it as text in UTF-8"
        if isinstance(error, FileNotFoundError):
            problem, next_step = missing_path(path)
        raise ConfigurationError(f"rubric {path}: {problem}. Next step: {next_step}") from error
    content, labels = _parsed(path, text)
    if not _NAME.fullmatch(path.stem) or path.stem in _rubric_names():
        raise _error(path, "a file name of letters and digits that is no name of a shipped rubric", path.name)
    for key in content.keys() - set(_KEYS):
        raise _error(path, "the keys `prompt` and `labels`", str(key))
    prompt = content.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise _error(path, "`prompt`: a Jinja template", "no text")
    for expected, found in _label_problems(labels):
        raise _error(path, expected, found)
    environment = Environment(autoescape=False)  # it parses the prompt and renders nothing
    try:
        used = meta.find_undeclared_variables(environment.parse(prompt)) - environment.globals.keys()
    except (TemplateSyntaxError, RecursionError) as error:
        found = f"{error.message}, in its line {error.lineno}" if isinstance(error, TemplateSyntaxError) else str(error)
        raise _error(path, "`prompt`: a Jinja template", found) from error
    for name in sorted(used - set(VARIABLES)):
        raise _error(path, f"the variables {', '.join(VARIABLES)}", f"`{name}`; {close_matches(name, VARIABLES)}")
    if "answer" not in used:
        raise _error(path, "a prompt that shows `{{ answer }}`", "no such variable")
    lowest, highest = min(labels.values()), max(labels.values())
    values = {label: (score - lowest) / (highest - lowest) for label, score in labels.items()}
    rounded = [round(value, 9) for value in values.values()]
    if SECOND_ANSWER in used and sorted(rounded) != sorted(round(1 - value, 9) for value in rounded):
        raise _error(path, "mirrored scores for a pair, such as `{first: 1, tie: 0, second: -1}`", str(dict(labels)))
    return _own_rubric(path, prompt, values, used)


def _parsed(path: Path, text: str) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Return the content of the file, and its labels as they are written: YAML reads `yes` as true."""
    import yaml

    try:
        node, content = read_yaml(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _error(path, "YAML", " ".join(str(error).split())[:120]) from error
    if not isinstance(content, dict):
        raise _error(path, "the keys `prompt` and `labels`", "no keys with values")
    section = next((value for key, value in node.value if key.value == "labels"), None)
    if section is None or section.id != "mapping":
        raise _error(path, f"labels with their scores, such as `{_EXAMPLE}`", "no label with a score")
    names = [str(key.value) for key, _ in section.value]
    if len(content["labels"]) < len(names):  # YAML also reads yes and true, or 1 and 1.0, as one key
        raise _error(path, "each label once", ", ".join(names)[:120])
    return content, dict(zip(names, content["labels"].values(), strict=True))


def _label_problems(labels: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (expected, found) for labels that a reply could not state clearly, and for scores that are no numbers."""
    for label, score in labels.items():
        if label_in(label) != label.lower() or not label or len(label.splitlines()) > 1:
            yield "labels without marks or blanks around them", repr(label)
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score):
            yield f"a number as the score of {label!r}", repr(score)
    if len(labels) < 2:
        yield f"at least two labels, such as `{_EXAMPLE}`", f"{len(labels)} label{'s' * (len(labels) != 1)}"
    elif len(set(labels.values())) < 2:
        yield "two different scores", f"the score {next(iter(labels.values()))} for all labels"
    for first, second in itertools.permutations(labels, 2):
        if second.lower().startswith(first.lower()):
            yield "labels of which none begins another: a reply that ends early would state it", f"{first}, {second}"


def _error(path: Path, expected: str, found: str) -> ConfigurationError:
    return ConfigurationError(
        "rubric", where=str(path), expected=expected, found=found, next_step="correct the file (docs/judges.md)"
    )


def _own_rubric(path: Path, prompt: str, values: Mapping[str, float], used: Set[str]) -> Rubric:
    own, frame = PromptTemplate(str(path), prompt, is_own=True), shipped_template("judges/own_rubric")

    def open_(response: Response) -> Question:
        text = own.render(**{name: value for name, value in _values_of(response).items() if name in used})
        return ask(frame, LABEL_FORM, read, choices=tuple(values), prompt=text, labels=" or ".join(values))

    def read(reply: str, code: str) -> Finding:
        label = read_only_label(reply, code, tuple(values))
        return Finding(label, values[label])

    return Rubric(
        path.stem,
        f"verdict by the rubric in {path.name}",
        open_,
        (prompt, frame.source, str(dict(values))),
        labels=values,
        needs=tuple(name for name in _OPTIONAL if name in used),
    )


def _values_of(response: Response) -> dict[str, Any]:
    """Return the variables of a template."""
    earlier = response.task.messages[:-1]
    return {
        "question": response.task.question,
        "answer": response.text,
        "contexts": list(map(titled, response.passages)),
        "reference": response.task.target,
        "history": [{"speaker": SPEAKERS[message.role], "text": message.text} for message in earlier],
        SECOND_ANSWER: second_text(response),
    }
