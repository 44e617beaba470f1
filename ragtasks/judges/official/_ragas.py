"""RL_F as the official score is made: by the prompts and readers of the `ragas` package, asked through our clients.

The package is used for its two prompts and their reply models only; its own runner, and with it LangChain's clients,
is not. Its prompts do not mark where the judged answer ends, so they cannot be kept from obeying it.

Source: ragas 0.3.3, faithfulness, as called by IBM/mt-rag-benchmark, scripts/evaluation, commit cc5b1d4: the question
is the whole conversation as `speaker: text` lines, the passages are joined by a line end. Known differences: a reply
that cannot be read is asked for once more by our panel (ragas asks up to three times to repair it), and what ragas
calls NaN is a verdict without a value.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from pydantic import ValidationError

from ragtasks.errors import MissingExtraError
from ragtasks.judges._ibm_conversation import ibm_conversation
from ragtasks.judges._parsers import UnparsableReplyError
from ragtasks.judges._question import Finding, Question, Rubric
from ragtasks.judges._verdicts import VerdictOutcome
from ragtasks.judges.rubrics import RL_F
from ragtasks.records import Response

_NO_STATEMENTS = Finding(None, None, VerdictOutcome.NO_STATEMENTS, "ragas finds no statement in the answer")


def ragas_rl_f() -> Rubric:
    """Return the rubric `rl_f` with the prompts of ragas: verdicts that are not 0 / verdicts that came back.

    Range 0 to 1, higher is better. No statements: no value. It divides by the verdicts, not by the statements, and
    counts every number but 0 as support, as ragas does.

    Raises:
        MissingExtraError: ragas is not installed, or not with libraries that it can be imported with.
    """
    try:
        prompts = importlib.import_module("ragas.metrics._faithfulness")
        extract_json = importlib.import_module("ragas.prompt.utils").extract_json
    except ImportError as error:
        raise MissingExtraError("ragas", "ragas", "RL_F by the prompts of ragas") from error
    first, second = prompts.StatementGeneratorPrompt(), prompts.NLIStatementPrompt()
    step = partial(_statements, first, second, extract_json)
    description = "share of the answer's statements that the passages support, by ragas's prompts"
    return Rubric(RL_F, description, step, (first.instruction, second.instruction))


def unasked_rl_f(reason: str) -> Rubric:
    """Return the rubric `rl_f` that asks nothing, for where ragas cannot be had: no other wording takes its place."""
    finding = Finding(None, None, VerdictOutcome.NOT_ASKED, reason)
    return Rubric(RL_F, "not asked, as ragas is missing", lambda _: finding, ("none",))


def _statements(first: Any, second: Any, extract_json: Any, response: Response) -> Question:
    question = ibm_conversation(response.task.messages)
    answer = response.text if response.verbatim is None else response.verbatim
    shown = first.input_model(question=_whole(question), answer=_whole(answer))

    def read(reply: str) -> Question | Finding:
        statements = _output(first, extract_json(reply)).statements
        return _verdicts(second, extract_json, response, statements) if statements else _NO_STATEMENTS

    return Question(first.to_string(shown), read)


def _verdicts(prompt: Any, extract_json: Any, response: Response, statements: list[str]) -> Question:
    context = _whole("\n".join(passage.text for passage in response.passages))

    def read(reply: str) -> Finding:
        verdicts = [bool(item.verdict) for item in _output(prompt, extract_json(reply)).statements]
        if not verdicts:
            raise UnparsableReplyError("the list of verdicts is empty")
        return Finding(f"{sum(verdicts)}/{len(verdicts)}", sum(verdicts) / len(verdicts))

    return Question(prompt.to_string(prompt.input_model(context=context, statements=statements)), read)


def _whole(text: str) -> str:
    """Return a text whose halves of a character are replaced: ragas writes it as JSON, which holds none."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def _output(prompt: Any, found: str) -> Any:
    try:
        return prompt.output_model.model_validate_json(found)
    except ValidationError as error:
        raise UnparsableReplyError(f"not the JSON of {prompt.output_model.__name__}") from error


__all__ = ["ragas_rl_f", "unasked_rl_f"]
