"""Prompts and parsers of the official scripts."""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from pydantic import ValidationError

from ragtasks.errors import ConfigurationError
from ragtasks.judges._parsers import HIGHEST_RATING, UnparsableReplyError, read_decision, read_label, read_rating
from ragtasks.judges._question import Finding, Question, Rubric, rating_finding
from ragtasks.judges._verdicts import CLARIFICATION, IDK, VerdictOutcome
from ragtasks.judges.rubrics import NOT_UNDERSPECIFIED, RB_LLM, RL_F, label_finding
from ragtasks.prompts import UnreadableWordingError, constant_text, other_commit, parsed_source
from ragtasks.records import Answerability, IdkVerdict, Message, Response, Role
from ragtasks.requirements import importing

# Parsing of judges' replies as in the official scripts, including their quirks: the ibm profile. Source:
# IBM/mt-rag-benchmark, scripts/evaluation (`judge_utils.py`, `judge_wrapper.py`), commit cc5b1d4;
# `perf/official_agreement.py` compares those functions with these. Each quirk is a separate function. Nearly all of
# them return a value even for replies without a verdict; the parsers of `ragtasks.judges` are strict.

IBM = "_ibm"
"""Suffix of rubrics and metrics of the ibm profile."""
UNDECIDED = 0.5
"""Score of the official scripts for a reply without a verdict."""

_DECIMAL = r"([0-9]*\.?[0-9]+)"
_SIGNED = r"([-+]?\d*\.?\d+)"
# In the order of the scripts. There, `\d` matches a digit of any writing system, `[0-9]` does not.
_RATING_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"Rating: \[\[(\d+)\]\]",
        r"Rating: (\d+)",
        r"\[\[(\d+)\]\]",
        r"\[(\d+)\]",
        rf"Rating: \[\[{_DECIMAL}\]\]",
        rf"Overall Rating: {_DECIMAL}",
        rf"Score: {_DECIMAL}/10",
        rf"Score: {_DECIMAL}",
        r"\[Rating\]\n(\d+)",
        r"Rating: \[\[(\d+)/10\]\]",
        rf"Rating: \[\[{_SIGNED}",
        rf"{_SIGNED} out of 10",
    )
)
_EXAMPLE = re.compile(r"for example:.*", re.IGNORECASE)
_FIRST_LETTERS = re.compile(r"\s*([A-Za-z]+)")
_FENCE = "```json"
_IN_FENCE = re.compile(r"```json\s*(.*?)\s*```", re.DOTALL)
_IN_BRACES = re.compile(r"\{\s*(.*?)\s*\}", re.DOTALL)
_STRAY_ESCAPE = re.compile(r"\\(?![\"\\/bfnrt]|u[0-9a-fA-F]{4})")


def ibm_rating(reply: str) -> float:
    """Return the official score of a rating, 0.01 to 1: the number over 10, or 0.5 without a match.

    Known differences from a correct reading: `ibm_last_pattern` and `ibm_rating_in_range`.
    """
    return ibm_rating_in_range(ibm_last_pattern(ibm_without_example(reply)))


def ibm_without_example(reply: str) -> str:
    """Return a reply without the text from `for example:` to the end of its line, ratings included."""
    return _EXAMPLE.sub("", reply)


def ibm_last_pattern(reply: str) -> float | None:
    """Try twelve patterns, and return the first match of the last matching pattern as a number; None without a match.

    So the format decides, not the position: `3 out of 10 claims` overrides `Rating: [[9]]`, a reference `[1]` overrides
    `Rating: 4`, a quoted `[[10]]` overrides a plain `Rating: 2`, and `Rating: 8.5` is 8.
    """
    numbers = [match[1] for pattern in _RATING_PATTERNS if (match := pattern.search(reply))]
    return float(numbers[-1]) if numbers else None


def ibm_rating_in_range(rating: float | None) -> float:
    """Return a rating over 10; 0.5 if it is missing, not above 0, or more than 10."""
    share = UNDECIDED if rating is None else rating / HIGHEST_RATING
    return share if 0 < share <= 1 else UNDECIDED


def ibm_idk(reply: str | None) -> IdkVerdict | None:
    """Return the official IDK label of the first word only; any word but yes and no is `partial`.

    The script's numbers 1, 0.5 and 0 are `yes`, `partial` and `no` here. None corresponds to its text "unknown", for a
    reply that does not begin with a letter (a quote, a star, a digit), and for None.
    """
    match = _FIRST_LETTERS.match(reply) if reply is not None else None
    if match is None:
        return None
    return {"yes": IdkVerdict.YES, "no": IdkVerdict.NO}.get(match[1].lower(), IdkVerdict.PARTIAL)


def ibm_clarification(reply: str) -> float:
    """Return the official value of a clarification: 1 for yes, 0 for no, 0.5 for everything else.

    Case is ignored, but spaces around the word are not. `ibm_first_object` defines the parsed text.
    """
    try:
        decision = json.loads(ibm_first_object(reply)).get("decision", "").lower()
    except (ValueError, AttributeError, RecursionError):
        return UNDECIDED
    return {"yes": 1.0, "no": 0.0}.get(decision, UNDECIDED)


def ibm_first_object(reply: str) -> str:
    """Return the text that the official scripts parse as the judge's JSON object; "" without a match.

    It is the text of the first ```json fence, else the text from the first brace to the next closing brace. A nested
    object is therefore cut, and an earlier object is taken for the judge's own. Invalid JSON escapes lose their
    backslash, and missing outer braces are added.
    """
    match = (_IN_FENCE if _FENCE in reply else _IN_BRACES).search(reply)
    if match is None:
        return ""
    text = _STRAY_ESCAPE.sub("", match[1])
    return ("" if text.startswith("{") else "{") + text + ("" if text.endswith("}") else "}")


def ibm_rating_finding(reply: str) -> Finding:
    """Return `ibm_rating` as a finding."""
    value = ibm_rating(reply)
    return Finding(f"{value * HIGHEST_RATING:g}", value)


def ibm_idk_finding(reply: str) -> Finding:
    """Return `ibm_idk` as a finding; a reply that the scripts label "unknown" has that label and no value."""
    verdict = ibm_idk(reply)
    if verdict is None:
        return Finding("unknown", None, reason="the official scripts label this reply unknown")
    return Finding(verdict.value, _IDK_VALUES[verdict])


def ibm_clarification_finding(reply: str) -> Finding:
    """Return `ibm_clarification` as a finding."""
    value = ibm_clarification(reply)
    return Finding({1.0: "yes", 0.0: "no"}.get(value, "undecided"), value)


_IDK_VALUES = {IdkVerdict.YES: 1.0, IdkVerdict.PARTIAL: UNDECIDED, IdkVerdict.NO: 0.0}


# The official wording of judge prompts is read from the user's own checkout, by parsing its source without executing
# it. ragtasks ships none of the wording. It stores the file and name of each prompt, the fields to fill in, and a hash
# of both. A prompt with another hash is from another commit and is refused. The official prompts do not mark the end of
# the judged answer, so they cannot be protected against instructions in it.
#
# Source: IBM/mt-rag-benchmark, scripts/evaluation, commit cc5b1d4. The text sent to a judge is byte-identical to that
# of the scripts (`perf/official_agreement.py`). It is one user message, as the scripts send it to a vLLM server; for
# Azure they add a system message.

FOLDER = "scripts/evaluation"
"""Folder of the official scripts in the checkout."""
_COMMIT = "cc5b1d4"

Fields = Mapping[str, str]
Fill = Callable[[Fields], str]

# The scripts use Jinja's default environment; this environment gives the same text, and isolates the template.
_JINJA = ImmutableSandboxedEnvironment()
_JINJA_FIELDS = {"response": "answer"}


@dataclass(frozen=True, slots=True)
class _Wording:
    """Source location and hash of a prompt."""

    file: str
    holder: str
    """Function with the prompt as its longest f-string, or constant with a Jinja template."""
    fields: Mapping[str, str]
    """Expression in the source -> name of the field; for a template, variable -> name."""
    sha256: str
    """Hash of the texts and the field names, in order."""


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
        _JINJA_FIELDS,
        "6356596f0a2ee4c52c279b13c3444180431808fd1f9e02936efd0a368dcd498d",
    ),
}


def official_rubrics(root: Path, names: Sequence[str]) -> list[Rubric]:
    """Return two rubrics with the official prompt for each name, in the order of `names`.

    The rubric NAME has a strict parser. The rubric `NAME_ibm` reads the same reply as the official scripts do, which
    nearly always gives a value. Both send the same prompt, so that it is paid for once.
    """
    rubrics: list[Rubric] = []
    for name in names:
        source, fill = official_prompt(root, name)
        for suffix, read in zip(("", IBM), _READERS[name], strict=True):
            description = f"{name} by the official prompt" + (", read as the official scripts do" if suffix else "")
            rubrics.append(Rubric(name + suffix, description, partial(_open, name, fill, read), (source,)))
    return rubrics


def official_prompt(root: Path, name: str) -> tuple[str, Fill]:
    """Return the text of an official prompt in a checkout, with fields in braces, and the function to fill them.

    Raises:
        ConfigurationError: the file or the prompt is missing or different.
    """
    wording = _WORDINGS[name]
    path = root / FOLDER / wording.file
    try:
        tree = parsed_source(path)
    except UnreadableWordingError as error:
        raise _refused(name, path, str(error)) from error
    parts = _function_parts(tree, wording)
    if parts is None:
        text = constant_text(tree, wording.holder)
        if text is None:
            raise _refused(name, path, f"no text under the name {wording.holder}")
        parts = [(True, text)]
    source = "".join(text if is_text else f"{{{text}}}" for is_text, text in parts)
    if hashlib.sha256(source.encode()).hexdigest() != wording.sha256:
        raise _refused(name, path, f"a different text under the name {wording.holder}")
    if len(parts) == 1:
        return source, partial(_render, name, path, source)
    return source, lambda fields: "".join(text if is_text else fields[text] for is_text, text in parts)


def _refused(name: str, path: Path, found: str) -> ConfigurationError:
    return ConfigurationError(
        f"official prompt of {name}",
        where=str(path),
        expected=f"the file of IBM/mt-rag-benchmark at commit {_COMMIT}",
        found=found + other_commit(path.parents[2], "IBM/mt-rag-benchmark", _COMMIT),
        next_step="run `ragtasks data fetch mtrag --group judge_prompts` or check that commit out into the data "
        "folder, or select the shipped prompts: prompts=ours",
    )


Part = tuple[bool, str]
"""(True, text) or (False, name of a field)."""


def _function_parts(tree: ast.Module, wording: _Wording) -> list[Part] | None:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == wording.holder]
    texts = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.JoinedStr)]
    candidates = [[_part(value, wording.fields) for value in text.values] for text in texts]
    return max(candidates, key=lambda parts: sum(len(text) for _, text in parts), default=None)


def _part(value: ast.expr, fields: Mapping[str, str]) -> Part:
    if isinstance(value, ast.Constant):
        return True, str(value.value)
    plain = isinstance(value, ast.FormattedValue) and value.conversion == -1 and value.format_spec is None
    expression = ast.unparse(value.value) if isinstance(value, ast.FormattedValue) else ast.unparse(value)
    # An unknown field changes the hash, which raises the error.
    return False, fields.get(expression, expression) if plain else f"?{expression}"


def _render(name: str, path: Path, source: str, fields: Fields) -> str:
    try:
        values = {variable: fields[field] for variable, field in _JINJA_FIELDS.items()}
        return _JINJA.from_string(source).render(values)
    except TemplateError as error:
        raise _refused(name, path, f"{type(error).__name__}: {error}") from error


def _open(name: str, fill: Fill, read: Callable[[str], Finding], response: Response) -> Question | Finding:
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
        "answer": response.as_given,
    }
    return Question(fill(fields), read)


_READERS: Mapping[str, tuple[Callable[[str], Finding], Callable[[str], Finding]]] = {
    RB_LLM: (lambda reply: rating_finding(read_rating(reply)), ibm_rating_finding),
    IDK: (lambda reply: label_finding(read_label(reply)), ibm_idk_finding),
    CLARIFICATION: (lambda reply: label_finding(read_decision(reply)), ibm_clarification_finding),
}


# RL_F as in the official score: prompts and parsers of the `ragas` package, sent through our clients. Only its two
# prompts and their reply models are used, not its runner or LangChain's clients. Its prompts do not mark the end of the
# judged answer, so they cannot be protected against instructions in it.
#
# Source: ragas 0.3.3, faithfulness, as called by IBM/mt-rag-benchmark, scripts/evaluation, commit cc5b1d4. The question
# is the complete conversation as `speaker: text` lines; the passages are joined by line ends. Known differences: our
# panel requests an unreadable reply once more (ragas requests up to three repairs), and NaN in ragas is a verdict
# without a value here.

_NO_STATEMENTS = Finding(None, None, VerdictOutcome.NO_STATEMENTS, "ragas finds no statement in the answer")


def ragas_rl_f() -> Rubric:
    """Return the rubric `rl_f` with the prompts of ragas: verdicts that are not 0 / verdicts returned.

    Range 0 to 1, higher is better. Without statements, it has no value. As in ragas, the divisor is the number of
    verdicts, not of statements, and every number but 0 counts as support.
    """
    with importing("ragas", "ragas", "RL_F by the prompts of ragas"):
        prompts = importlib.import_module("ragas.metrics._faithfulness")
        extract_json = importlib.import_module("ragas.prompt.utils").extract_json
    first, second = prompts.StatementGeneratorPrompt(), prompts.NLIStatementPrompt()
    step = partial(_statements, first, second, extract_json)
    description = "share of the answer's statements that the passages support, by ragas's prompts"
    return Rubric(RL_F, description, step, (first.instruction, second.instruction))


def unjudged_rl_f(reason: str) -> Rubric:
    """Return a rubric `rl_f` without questions, for evaluations without ragas, whose prompts are not replaced."""
    finding = Finding(None, None, VerdictOutcome.NOT_ASKED, reason)
    return Rubric(RL_F, "not asked, as ragas is missing", lambda _: finding, ("none",))


def _statements(first: Any, second: Any, extract_json: Any, response: Response) -> Question:
    question = ibm_conversation(response.task.messages)
    answer = response.as_given
    prompt_input = first.input_model(question=_without_surrogates(question), answer=_without_surrogates(answer))

    def read(reply: str) -> Question | Finding:
        statements = _output(first, extract_json(reply)).statements
        return _verdicts(second, extract_json, response, statements) if statements else _NO_STATEMENTS

    return Question(first.to_string(prompt_input), read)


def _verdicts(prompt: Any, extract_json: Any, response: Response, statements: list[str]) -> Question:
    context = _without_surrogates("\n".join(passage.text for passage in response.passages))

    def read(reply: str) -> Finding:
        verdicts = [bool(statement.verdict) for statement in _output(prompt, extract_json(reply)).statements]
        if not verdicts:
            raise UnparsableReplyError("the list of verdicts is empty")
        return Finding(f"{sum(verdicts)}/{len(verdicts)}", sum(verdicts) / len(verdicts))

    return Question(prompt.to_string(prompt.input_model(context=context, statements=statements)), read)


def _without_surrogates(text: str) -> str:
    """Return a text with lone surrogates replaced: ragas writes it as JSON, which cannot contain them."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _output(prompt: Any, text: str) -> Any:
    try:
        return prompt.output_model.model_validate_json(text)
    except ValidationError as error:
        raise UnparsableReplyError(f"not the JSON of {prompt.output_model.__name__}") from error


# The conversation in the format of the official judges: one text, and the parts that the scripts split it into. Source:
# IBM/mt-rag-benchmark, scripts/evaluation/judge_utils.py, commit cc5b1d4.

_SPEAKERS = {Role.USER: "user", Role.ASSISTANT: "agent"}
_USER = "user:"
_USER_BLANK = "user: "


def ibm_conversation(messages: Sequence[Message]) -> str:
    """Return the conversation as `speaker: text` lines, question included; a message may have several lines."""
    return "\n".join(f"{_SPEAKERS[message.role]}: {message.text}" for message in messages)


def ibm_split_conversation(conversation: str) -> tuple[str, str]:
    """Return (previous conversation, question) of an `ibm_conversation`, as split by the official scripts.

    The question is the last line that begins with `user:`, from its first `user: ` to the next, stripped. The previous
    conversation is all lines but the last, or empty if only one line begins with `user:`. Known differences from the
    messages: a question of several lines is cut to its first, and its other lines but the last are added to the
    previous conversation; such a line in an answer is taken for a question; other line separators become line ends.
    Where the scripts raise an error (a line `user:` without a space), the question is the text after the colon.
    """
    lines = conversation.splitlines()
    questions = [line for line in lines if line.startswith(_USER)]
    parts = questions[-1].split(_USER_BLANK)
    question = (parts[1] if len(parts) > 1 else questions[-1].removeprefix(_USER)).strip()
    return ("" if len(questions) == 1 else "\n".join(lines[:-1])), question
