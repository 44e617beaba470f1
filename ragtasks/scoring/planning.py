"""What judges will be asked, counted before any is: calls, tokens, replies.

Tokens of a prompt are counted by a tokeniser that the user names, with its chat template, and otherwise estimated from
its words. What judges reply is counted on the form that they are asked for.
"""

from __future__ import annotations

import json
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ragtasks.benchmarks import ROWS, Benchmark, rows_benchmark
from ragtasks.clients import Progress, no_progress
from ragtasks.config import EvaluationConfig
from ragtasks.files import NO_CODE, from_cache, loading
from ragtasks.judges import Finding, Question, UnparsableReplyError, read_anchors
from ragtasks.metrics import NgramIdk, is_settled, parse_cited
from ragtasks.records import IdkVerdict, Response
from ragtasks.results import SavedTask
from ragtasks.scoring._judge import Place, open_named
from ragtasks.scoring._scoring import given_metrics
from ragtasks.suites import Suite, suite_named

# Tokens of a word, a mark, a letter and a digit: fitted to three tokenisers (two of today's models, one of an encoder)
# on MTRAG's passages, conversations and answers and on judge prompts, whose blocks it meets within 12 %. Words of other
# languages than English are cut into smaller pieces, and other scripts into smaller still.
_A_WORD, _A_MARK, _A_LETTER, _A_DIGIT = 0.44, 0.64, 0.135, 1.22
_MARKS_OF_JSON = ('":', '",', '{"', '"}')  # one token each
_A_FOREIGN_LETTER, _AN_ACCENT, _AN_IDEOGRAPH, _OF_ANOTHER_SCRIPT = 0.24, 1.0, 0.7, 0.31
_ENGLISH = re.compile(r" (?:the|of|and|to|in|is|a) ")
_ENGLISH_SHARE = 0.08  # of words, from which on a text is English
_FEW_WORDS = 20  # of which nobody can tell the language
_FRAME = 4  # tokens around a message
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_EXPLANATION = (
    "The answer follows the passages in what it states and leaves out one condition that the reference names. " * 2
)
Count = Callable[[list[dict[str, str]]], int]
"""Messages -> tokens of the prompt."""


@dataclass(frozen=True, slots=True)
class SettingPlan:
    """What one setting of one benchmark takes."""

    name: str
    tokens: tuple[int, ...]
    """Tokens of each prompt, ascending."""
    reply_tokens: int
    """The longest reply that is allowed, in tokens."""
    answer_tokens: int = 0
    """Tokens of all answers, if they are as long as the reference answers."""

    @property
    def context(self) -> int:
        """The context that holds the longest prompt with the longest reply."""
        return (self.tokens[-1] if self.tokens else 0) + self.reply_tokens

    def quantile(self, share: float) -> int:
        """Return the tokens that this share of the prompts does not exceed; 0 without prompts."""
        return self.tokens[min(len(self.tokens) - 1, int(share * len(self.tokens)))] if self.tokens else 0

    def share_within(self, context: int) -> float:
        """Return the share of prompts, 0 to 1, that a context holds together with the longest reply."""
        fitting = sum(count + self.reply_tokens <= context for count in self.tokens)
        return fitting / len(self.tokens) if self.tokens else 1.0


@dataclass(frozen=True, slots=True)
class JudgingPlan:
    """What judges will be asked, each of them."""

    n_calls: int
    """Prompts, a second step of a rubric included."""
    tokens: int
    reply_tokens: int = 0
    """Tokens of all replies, in the form that is asked for."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A response that judges are asked about."""

    response: Response
    states: bool
    """Whether it says something that can be judged sentence by sentence."""
    verdict: IdkVerdict | None


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """Responses that judges are asked the same of."""

    suite: Suite
    benchmark: Benchmark
    config: EvaluationConfig
    answers: Sequence[Answered]


def judging_of(tasks: Sequence[SavedTask], count: Count, place: Place, progress: Progress = no_progress) -> JudgingPlan:
    """Return what judges will be asked of answers that are there, which the offline detector reads for refusals."""
    groups = []
    for task in tasks:
        opened = rows_benchmark(()) if task.benchmark == ROWS else open_named(task.benchmark, task.config.data, place)
        suite = suite_named(task.provenance.get("suite") or opened.suite)
        given = [response for response in task.responses if not response.no_answer]
        verdicts = [label.verdict for label in NgramIdk(suite.known_refusals).detect(given)]
        answers = [
            Answered(response, verdict is not IdkVerdict.YES, verdict)
            for response, verdict in zip(given, verdicts, strict=True)
        ]
        groups.append(JudgedAnswers(suite, opened, task.config, answers))
    return judging_plan(groups, count, progress)


def judging_plan(groups: Sequence[JudgedAnswers], count: Count, progress: Progress) -> JudgingPlan:
    """Return what each judge will be asked of some answers."""
    totals = [0.0, 0.0, 0.0]
    n_done, n_answers = 0, sum(len(group.answers) for group in groups)
    for group in groups:
        counts = [0, 0, 0]
        config, settled = group.config, group.suite.settled if group.config.skip_settled else ()
        rubrics = group.suite.rubrics_in(config.prompts, group.benchmark)
        for answer in group.answers:
            n_done += 1
            progress("counting what judges will be sent", n_done, n_answers)
            is_known = is_settled(answer.response.task.answerability, answer.verdict)
            statements = [one.text for one in parse_cited(answer.response.text, 0)] if answer.states else []
            for rubric in rubrics:
                if is_known and rubric.name in settled:
                    continue
                for question, reply in _questions(rubric.open(answer.response), statements):
                    found = 1, count([{"role": "user", "content": question.text}]), tokens_of_text(count, reply)
                    counts = [before + more for before, more in zip(counts, found, strict=True)]
        judgings = 1 + (config.repeats - 1) * config.repeat_share
        totals = [total + judgings * n for total, n in zip(totals, counts, strict=True)]
    # Anchors are other answers; what judges are asked about one of them is taken to be as much as about a task.
    share = _n_anchors(groups[0].config) / n_answers if n_answers else 0.0
    return JudgingPlan(*(math.ceil((1 + share) * total) for total in totals))


def _n_anchors(config: EvaluationConfig) -> int:
    named = config.anchors
    if isinstance(named, str):
        return len(read_anchors(Path(named).expanduser()).responses)
    return named or 0


def _questions(first: Question | Finding, statements: Sequence[str]) -> Iterator[tuple[Question, str]]:
    """Yield what a judge is asked with what it replies, if it takes each sentence for a statement."""
    question = first
    while isinstance(question, Question):
        reply = _reply_to(question, statements)
        yield question, reply
        try:
            question = question.read(reply)
        except UnparsableReplyError:  # a form of official words, or of another package: one step, as far as is known
            return


def _reply_to(question: Question, statements: Sequence[str]) -> str:
    """Return a reply in the form that a question asks for; a rating has an explanation before it."""
    fields = (question.schema or {}).get("properties") or {}
    if "id" not in fields:
        is_label = question.form.endswith("LABEL")
        return ("" if is_label else _EXPLANATION) + question.form.replace(": LABEL", ": no").replace(": N", ": 7")
    kinds: Mapping[str, Any] = {
        "array": list(statements) if "statements" in fields else ["What does the answer say about it?"] * 3,
        "object": {str(number): "yes" for number in range(1, max(len(statements), 1) + 1)},
    }
    reply = {name: kinds.get(kind.get("type"), "no") for name, kind in fields.items()}
    return json.dumps(reply | {"id": fields["id"]["const"]})


def tokens_of_text(count: Count, text: str) -> int:
    """Return the tokens of a text alone."""
    return count([{"role": "user", "content": text}]) - count([{"role": "user", "content": ""}])


def estimated_tokens(messages: list[dict[str, str]]) -> int:
    """Return an estimate of a prompt's tokens from its words, a few for each message's frame."""
    return round(sum(_estimated(message["content"]) + _FRAME for message in messages))


def _estimated(text: str) -> float:
    n_words = len(text.split())
    n_marks, n_digits = (sum(map(text.count, signs)) for signs in (string.punctuation, string.digits))
    n_letters = len(text) - n_marks - sum(map(text.count, string.whitespace))
    n_marks -= sum(map(text.count, _MARKS_OF_JSON))
    others = "" if text.isascii() else "".join(_NOT_ASCII.findall(text))
    kinds = Counter(map(_script, others))
    n_letters -= kinds["ideograph"] + kinds["other"]
    english = min(1.0, len(_ENGLISH.findall(text)) / max(1.0, _ENGLISH_SHARE * n_words))
    a_letter = _A_LETTER if n_words < _FEW_WORDS else english * _A_LETTER + (1 - english) * _A_FOREIGN_LETTER
    n_latin = _A_WORD * n_words + _A_MARK * n_marks + a_letter * n_letters + _A_DIGIT * n_digits
    foreign = _AN_IDEOGRAPH * kinds["ideograph"] + _OF_ANOTHER_SCRIPT * kinds["other"] + _AN_ACCENT * kinds["accent"]
    return n_latin + foreign


def _script(letter: str) -> str:
    """Return which kind a letter beyond ASCII is: of a Latin word, of a script of whole syllables or words, another."""
    if letter < "\u0250" or not letter.isalpha():
        return "accent" if letter.isalpha() else "mark"
    return "ideograph" if "\u3040" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7af" else "other"


def counter(tokenizer: str | None) -> Count:
    """Return what counts tokens: a tokeniser by its name or path, or the estimate."""
    if tokenizer is None:
        return estimated_tokens
    next_step = "name a folder or a model of the hub, or leave it out for an estimate"
    with loading(
        "--tokenizer", tokenizer, expected="a tokeniser that can be loaded", next_step=next_step, has_weights=False
    ):
        from transformers import AutoTokenizer

        loaded = AutoTokenizer.from_pretrained(tokenizer, **NO_CODE, **from_cache(tokenizer))
    return partial(_counted, loaded)


def _counted(tokenizer: Any, messages: list[dict[str, str]]) -> int:
    if tokenizer.chat_template is None:
        return len(tokenizer("\n\n".join(message["content"] for message in messages))["input_ids"])
    return len(tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False))


def scores_note(tasks: Iterable[SavedTask]) -> dict[str, str]:
    """Return which scores answers will have, and which not, as nobody is named who judges."""
    suites = {(task.provenance.get("suite"), task.config) for task in tasks}
    metrics = {metric.name: metric for name, _ in suites if name for metric in suite_named(name).metrics}
    given = {name for _, config in suites for name in given_metrics(metrics.values(), config)}
    left_out = [name for name, metric in metrics.items() if name not in given and not metric.needs_official_prompts]
    note = {"scores": ", ".join(name for name in metrics if name in given)}
    return {**note, **({"only with --judge": ", ".join(left_out)} if left_out else {})}
