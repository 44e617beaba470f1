"""The rubrics: each turns a response into a question to a judge, and a reply into a label and a value.

A prompt shows only the texts that its question needs. Other texts would cost tokens, and would give two models' equal
answers different prompts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import accumulate
from typing import Any, Protocol, TypeVar, runtime_checkable

from ragtasks.judges._parsers import (
    HIGHEST_RATING,
    YES_NO,
    UnparsableReplyError,
    read_coded_label,
    read_coded_object,
    read_coded_rating,
    read_labels,
    read_texts,
    read_yes_no,
)
from ragtasks.judges._question import Finding, Question, Rubric, ask, rating_finding
from ragtasks.judges._verdicts import CLARIFICATION, IDK, VerdictOutcome, Verdicts
from ragtasks.metrics import CitedSentence, nugget_scores, parse_cited, support_precision
from ragtasks.plugins import ExtensionPoint
from ragtasks.prompts import PromptTemplate, shipped_template
from ragtasks.records import Answerability, Grade, Importance, Nugget, Passage, Qrel, Response, Support, Task

_Label = TypeVar("_Label", bound=Enum)
LABEL_FORM = "Verdict CODE: LABEL"


def _task_of(response: Response) -> dict[str, Any]:
    """Return the task's fields of a prompt: the conversation and its last message."""
    return {"conversation": response.task.messages[:-1], "question": response.task.question}


def titled(passage: Passage) -> str:
    """Return the text of a passage after its title."""
    return f"{passage.title}\n{passage.text}".strip()


def _share_finding(verdicts: list[bool]) -> Finding:
    return Finding(f"{sum(verdicts)}/{len(verdicts)}", sum(verdicts) / len(verdicts))


Texts = Callable[[Response], Mapping[str, Any]]
"""Response -> template variables of the prompt."""


def _one_question(name: str, description: str, form: str, read: Callable[[str, str], Finding], texts: Texts) -> Rubric:
    """Return a rubric with one question from the template of its name; `read` gets the reply and its code."""
    prompt = shipped_template(f"judges/{name}")
    return Rubric(name, description, lambda response: ask(prompt, form, read, **texts(response)), (prompt.source,))


def _labelled(name: str, description: str, values: Mapping[str, float], texts: Texts) -> Rubric:
    """Return a rubric with one question whose verdict is one of several labels, each with a value."""

    def read(reply: str, code: str) -> Finding:
        label = read_coded_label(reply, code, tuple(values))
        return Finding(label, values[label])

    return replace(_one_question(name, description, LABEL_FORM, read, texts), labels=values)


def _rated(name: str, description: str, *, with_reference: bool = False) -> Rubric:
    """Return a rubric that rates the last answer; the judge sees conversation, passages and response."""

    def texts(response: Response) -> Mapping[str, Any]:
        reference = {"reference": response.task.target} if with_reference else {}
        passages = [passage.text for passage in response.passages]
        return {"passages": passages, **_task_of(response), **reference, "answer": response.text}

    def read(reply: str, code: str) -> Finding:
        return rating_finding(read_coded_rating(reply, code))

    needs = ("contexts", "reference") if with_reference else ("contexts",)
    rubric = _one_question(name, description, "Rating CODE: N", read, texts)
    return replace(rubric, highest=HIGHEST_RATING, needs=needs)


# RL_MTB and RL_R, the MTRAG paper's other reference-less judges (Table 7). Both are the paper's own counterexamples:
# they agree little with people's preferences. The official repository has no prompt for either, so the only wording is
# ours.

RL_MTB = "rl_mtb"
RL_R = "rl_r"

N_QUESTIONS = 3
"""Number of questions derived from an answer, as in RAGAS."""

_REPLY_FORM = '{"id": "CODE", "questions": [QUESTION, QUESTION, QUESTION], "evades": LABEL}'
_SAME_FORM = '{"id": "CODE", "same": {"1": LABEL, ...}}'


def rl_mtb() -> Rubric:
    """Return the rubric `rl_mtb`: the last answer as one rating, 1 to 10, over 10, without a reference answer.

    The judge sees conversation, passages and response. Source: RL_MTB of the MTRAG paper, appendix F.2, which adapts
    the judge of MT-Bench (Zheng et al. 2023). Higher is better.
    """
    return _rated(RL_MTB, "rating of the last answer without a reference by judges, over 10")


def rl_r() -> Rubric:
    """Return the rubric `rl_r`: the share of three questions derived from the response that match the user's question.

    Range 0 to 1, higher is better. An evasive or empty response is 0. The user's question is the last message alone, as
    in the paper, so the measure suits conversations badly. Source: answer relevance of RAGAS (Es et al. 2024; MTRAG
    paper, section 8). Known difference: RAGAS compares the questions by the cosine of an embedding model, which the
    paper does not name; here the judge compares them.
    """
    first, second = shipped_template("judges/asked_questions"), shipped_template("judges/same_question")
    description = "share of three questions derived from the answer that ask what the user asked, judged"

    def open_(response: Response) -> Question | Finding:
        if not response.text.strip():
            return Finding("empty", 0.0)

        def read(reply: str, code: str) -> Question | Finding:
            if not (questions := _questions(reply, code)):
                return Finding("evades", 0.0)
            return ask(second, _SAME_FORM, read_same, question=response.task.question, statements=questions)

        return ask(first, _REPLY_FORM, read, answer=response.text)

    def read_same(reply: str, code: str) -> Finding:
        return _share_finding(read_yes_no(reply, code, "same", N_QUESTIONS))

    return Rubric(RL_R, description, open_, (first.source, second.source))


def _questions(reply: str, code: str) -> list[str]:
    content = read_coded_object(reply, code)
    questions, evades = content.get("questions"), content.get("evades")
    if evades not in ("yes", "no"):
        raise UnparsableReplyError('"evades" is neither yes nor no')
    if evades == "yes":
        return []
    texts = (
        [" ".join(text.split()) for text in questions if isinstance(text, str)] if isinstance(questions, list) else []
    )
    if len(texts) != N_QUESTIONS or not all(texts):
        raise UnparsableReplyError(f'"questions" does not contain {N_QUESTIONS} texts')
    return texts


# RL_F: the share of an answer's statements that the passages support, in two questions. The first splits the answer
# into statements; the second asks for each whether the evidence alone makes it true. The measure is RAGAS faithfulness
# (Es et al. 2024; MTRAG paper, section 6.3.2), with our own prompts and parsers. Known differences from ragas 0.3.3,
# which the official scripts call: a reply must contain exactly one verdict per statement (ragas divides by the number
# of verdicts returned, and counts any number but 0 as support), and an answer without statements has a reason instead
# of NaN.

RL_F = "rl_f"
RL_F_CONVERSATION = "rl_f_conversation"

# Deliberately invalid JSON: a judge that only repeats the format has given no verdict.
_STATEMENTS_FORM = '{"id": "CODE", "statements": [STATEMENT, ...]}'
_SUPPORT_FORM = '{"id": "CODE", "supported": {"1": LABEL, ...}}'
_NO_STATEMENTS = Finding(None, None, VerdictOutcome.NO_STATEMENTS, "the answer has no statement to check")


def rl_f() -> Rubric:
    """Return the rubric `rl_f`: supported statements / statements, with the passages shown to the model as evidence.

    Range 0 to 1, higher is better. Without statements, it has no value. With statements but no passages, it is 0, and
    the second question is not sent.
    """
    first, second = shipped_template("judges/statements"), shipped_template("judges/support")

    def open_(response: Response) -> Question | Finding:
        if not response.text.strip():
            return _NO_STATEMENTS

        def read(reply: str, code: str) -> Question | Finding:
            return _support_question(second, response, read_texts(reply, code, "statements"))

        return ask(first, _STATEMENTS_FORM, read, **_task_of(response), answer=response.text)

    description = "share of the answer's statements that the passages support, judged"
    return Rubric(RL_F, description, open_, (first.source, second.source), needs=("contexts",))


_EARLIER = "Earlier in the conversation, by the {speaker}: {text}"


def rl_f_conversation() -> Rubric:
    """Return the rubric `rl_f_conversation`: `rl_f` with earlier turns as further evidence, after the passages.

    A claim based on an earlier turn is no hallucination. The first question is that of `rl_f`, so one reply serves
    both.
    """
    base = rl_f()

    def open_(response: Response) -> Question | Finding:
        earlier = (
            Passage(f"turn-{number}", _EARLIER.format(speaker=message.role.value, text=message.text))
            for number, message in enumerate(response.task.messages[:-1], start=1)
        )
        return base.open(replace(response, passages=(*response.passages, *earlier)))

    description = "share of the answer's statements that the passages or earlier turns support, judged"
    return Rubric(RL_F_CONVERSATION, description, open_, (*base.prompts, _EARLIER), needs=base.needs)


def _support_question(template: PromptTemplate, response: Response, statements: list[str]) -> Question | Finding:
    if not statements:
        return _NO_STATEMENTS
    passages = [passage.text for passage in response.passages]
    if not passages:
        return _share_finding([False] * len(statements))

    def read(reply: str, code: str) -> Finding:
        return _share_finding(read_yes_no(reply, code, "supported", len(statements)))

    # The code is derived from the conversation, although it is not shown, so that prompts about one task share a
    # prefix.
    return ask(template, _SUPPORT_FORM, read, **_task_of(response), passages=passages, statements=statements)


# Context precision and recall by a judge: the quality of the passages that a model received, independent of its answer.
# Only tasks with an answer are judged. Source: context precision and context recall of RAGAS 0.3.3 with a reference;
# prompts and parsers are our own. Known difference: the judge sees all passages of a task at once, in their order;
# RAGAS asks about one passage at a time.

CONTEXT_PRECISION = "context_precision"
CONTEXT_RECALL = "context_recall"

_CONTEXTS_FORM = '{"id": "CODE", "useful": {"1": LABEL, ...}}'
_NO_ANSWER = Finding(None, None, VerdictOutcome.NOT_ASKED, "only answerable and partial tasks have passages to find")


def _has_answer(response: Response) -> bool:
    return response.task.answerability in {Answerability.ANSWERABLE, Answerability.PARTIAL}


def context_precision() -> Rubric:
    """Return the rubric `context_precision`: the average precision of the passages, by judged usefulness.

    It is the mean, over useful passages, of the share of useful passages up to their rank. Range 0 to 1, higher is
    better; 0 without useful passages.
    """
    prompt = shipped_template("judges/context_precision")

    def open_(response: Response) -> Question | Finding:
        if not response.passages:
            return Finding("0/0", 0.0)
        return ask(
            prompt,
            _CONTEXTS_FORM,
            lambda reply, code: _precision_finding(read_yes_no(reply, code, "useful", len(response.passages))),
            **_task_of(response),
            passages=[passage.text for passage in response.passages],
            reference=response.task.target,
        )

    description = "average precision of the passages, by judges"
    rubric = Rubric(CONTEXT_PRECISION, description, open_, (prompt.source,), needs=("contexts", "reference"))
    return rubric.only_where(_has_answer, _NO_ANSWER)


def _precision_finding(useful: list[bool]) -> Finding:
    cumulative = list(accumulate(map(int, useful)))
    shares = [
        count / rank for rank, (count, is_useful) in enumerate(zip(cumulative, useful, strict=True), 1) if is_useful
    ]
    return Finding(f"{len(shares)}/{len(useful)}", sum(shares) / len(shares) if shares else 0.0)


def context_recall() -> Rubric:
    """Return the rubric `context_recall`: the share of the reference answer's statements that the passages support.

    Range 0 to 1, higher is better; 0 without passages. Its prompts are those of `rl_f`, applied to the reference
    answer, so one reply serves all models with the same passages.
    """
    base = rl_f()
    description = "share of the reference answer's statements that the passages support, judged"
    rubric = replace(
        base,
        name=CONTEXT_RECALL,
        description=description,
        open=lambda response: base.open(replace(response, text=response.task.target)),
        needs=("contexts", "reference"),
    )
    return rubric.only_where(_has_answer, _NO_ANSWER)


RB_LLM = "rb_llm"

LABEL_VALUES = {"yes": 1.0, "partial": 0.5, "no": 0.0}
"""Label -> number, ordered for a median over judges."""
_YES_NO_VALUES = {label: LABEL_VALUES[label] for label in YES_NO}
NOT_UNDERSPECIFIED = Finding(
    None, None, VerdictOutcome.NOT_ASKED, "only underspecified questions need a clarifying question"
)


def rb_llm() -> Rubric:
    """Return the rubric `rb_llm`: faithfulness, appropriateness and completeness as one rating, 1 to 10, over 10.

    The judge sees conversation, passages, reference answer and response. Higher is better. An empty response is rated
    like any other. Source: RB_llm of the MTRAG paper, section 6.3.2.
    """
    description = "rating of faithfulness, appropriateness and completeness by judges, over 10"
    return _rated(RB_LLM, description, with_reference=True)


def idk() -> Rubric:
    """Return the rubric `idk`: whether the response states that it does not know the answer; yes 1, partial 0.5, no 0.

    The judge sees the user's last message and the response. Labels: MTRAG paper, section 6.3.3 and appendix F.3.
    """
    return _labelled(
        IDK,
        "whether the response says that it does not know",
        LABEL_VALUES,
        lambda response: {"question": response.task.question, "answer": response.text},
    )


def clarification() -> Rubric:
    """Return the rubric `clarification`: whether the response asks back instead of answering; yes 1, no 0.

    Only for questions labelled underspecified (MTRAG-UN, INSCIT); no other score depends on it.
    """
    rubric = _labelled(
        CLARIFICATION,
        "whether the response asks what is meant",
        _YES_NO_VALUES,
        lambda response: {**_task_of(response), "answer": response.text},
    )
    return rubric.only_where(_is_underspecified, NOT_UNDERSPECIFIED)


def _is_underspecified(response: Response) -> bool:
    return any(task.answerability is Answerability.UNDERSPECIFIED for task in response.task.variants)


def label_finding(label: str) -> Finding:
    """Return the finding of a label."""
    return Finding(label, LABEL_VALUES[label])


@runtime_checkable
class RubricMaker(Protocol):
    """A callable that returns a rubric."""

    def __call__(self) -> Rubric:
        """Return the rubric, whose name is that of the entry point."""


RUBRICS = ExtensionPoint(
    "ragtasks.rubrics",
    "rubric",
    RubricMaker,  # type: ignore[type-abstract]  # a protocol: any callable
    {
        RB_LLM: "ragtasks.judges.rubrics:rb_llm",
        IDK: "ragtasks.judges.rubrics:idk",
        CLARIFICATION: "ragtasks.judges.rubrics:clarification",
        RL_F: "ragtasks.judges.rubrics:rl_f",
        RL_F_CONVERSATION: "ragtasks.judges.rubrics:rl_f_conversation",
        RL_MTB: "ragtasks.judges.rubrics:rl_mtb",
        RL_R: "ragtasks.judges.rubrics:rl_r",
        CONTEXT_PRECISION: "ragtasks.judges.rubrics:context_precision",
        CONTEXT_RECALL: "ragtasks.judges.rubrics:context_recall",
    },
)
"""Rubrics by name; other packages add more."""


def rubrics_named(names: Iterable[str]) -> list[Rubric]:
    """Return the rubrics of these names with their shipped prompts, in order; [] for no names."""
    return [_rubric(name) for name in names]


def _rubric(name: str) -> Rubric:
    rubric = RUBRICS.build(name, Rubric, lambda make: make())
    if rubric.name != name:
        raise RUBRICS.refusal(name, f"a rubric named {name!r}", f"one named {rubric.name!r}")
    return rubric


def added_rubric_names() -> list[str]:
    """Return the names of the rubrics that other packages add, without importing them."""
    return RUBRICS.plugin_names()


# Judged accuracy of MultiHop-RAG: whether a reply gives the reference answer, in any wording.

MULTIHOP_ANSWER = "multihop_answer"


def multihop_answer() -> Rubric:
    """Return the rubric `multihop_answer`: whether the reply gives the reference answer; yes 1, no 0.

    The judge sees question, reference answer and reply. It sees no passages, since truth is not judged.
    """
    rubric = _labelled(
        MULTIHOP_ANSWER,
        "whether the reply gives the reference answer",
        _YES_NO_VALUES,
        lambda response: {
            "question": response.task.question,
            "reference": response.task.target,
            "answer": response.text,
        },
    )
    return replace(rubric, needs=("reference",))


# Questions about nuggets: which nuggets an answer contains, how important each is, and which nuggets a topic has.
#
# Lists are judged in windows of ten, one question after the other, as in the track's own tool (castorini/nuggetizer at
# d00dc3e). The wording is ours. If a judge gives no readable reply for one window, it has no verdict on the answer: a
# nugget without a grade is never counted as missing.

NUGGET_ASSIGNMENT = "nugget_assignment"
NUGGET_CREATION = "nugget_creation"

WINDOW = 10
"""Number of nuggets or segments in one question."""
MOST_NUGGETS = 30
"""Maximum number of nuggets created for a topic."""

NO_NUGGETS = Finding(None, None, VerdictOutcome.NOT_ASKED, "the topic has no nuggets")
"""For a topic without nuggets."""
_NOTHING_FOUND = Finding(None, None, VerdictOutcome.NO_STATEMENTS, "no segment answers the topic")

# Deliberately invalid JSON: a judge that only repeats the format has given no verdict.
_NUGGETS_FORM = '{"id": "CODE", "nuggets": [FACT, ...]}'


def nuggets_of(task: Task) -> tuple[Nugget, ...]:
    """Return the nuggets of a task; () without any."""
    rows = task.extra.get("nuggets", ())
    return tuple(Nugget(row["text"], Importance(row["importance"]), row.get("sub_narrative", "")) for row in rows)


def plain_answer(response: Response) -> str:
    """Return the text of a response for assignment: its sentences without citations, joined by spaces."""
    return " ".join(sentence.text for sentence in parse_cited(response.text, 0))


def nugget_assignment(shown: Callable[[Response], str] = plain_answer) -> Rubric:
    """Return the rubric `nugget_assignment`: a grade for every nugget of the topic.

    The label is a JSON list with one grade per nugget; the value is their `all_score`, 0 to 1, higher is better. An
    empty answer supports no nugget, without a question. A topic without nuggets is not judged.
    """
    prompt = shipped_template("judges/nugget_assignment")

    def open_(response: Response) -> Question | Finding:
        nuggets = nuggets_of(response.task)
        answer = shown(response)
        if not answer.strip():
            return _assignment_finding(nuggets, [Grade.NOT_SUPPORT] * len(nuggets))
        # A nugget with line ends could pass for several in a numbered list.
        texts = [" ".join(nugget.text.split()) for nugget in nuggets]
        end = partial(_assignment_finding, nuggets)
        return _window_question(prompt, "grades", Grade, texts, end, question=response.task.question, answer=answer)

    rubric = Rubric(NUGGET_ASSIGNMENT, "which nuggets of the topic the answer states, judged", open_, (prompt.source,))
    return rubric.only_where(lambda response: bool(nuggets_of(response.task)), NO_NUGGETS)


def _window_question(
    prompt: PromptTemplate,
    key: str,
    label_type: type[_Label],
    nuggets: Sequence[str],
    end: Callable[[list[_Label]], Finding],
    *,
    done: Sequence[_Label] = (),
    **variables: Any,
) -> Question | Finding:
    """Return the question on the first nuggets without a label, or the finding if all have one."""
    if len(done) == len(nuggets):
        return end(list(done))
    window = nuggets[len(done) : len(done) + WINDOW]

    def read(reply: str, code: str) -> Question | Finding:
        labels = read_labels(reply, code, key, [member.value for member in label_type], len(window))
        return _window_question(
            prompt, key, label_type, nuggets, end, done=[*done, *map(label_type, labels)], **variables
        )

    # Deliberately invalid JSON: a judge that only repeats the format has given no verdict.
    form = f'{{"id": "CODE", "{key}": {{"1": LABEL, ...}}}}'
    return ask(prompt, form, read, **variables, nuggets=window)


def _assignment_finding(nuggets: Sequence[Nugget], grades: list[Grade]) -> Finding:
    scores = nugget_scores([nugget.importance for nugget in nuggets], grades)
    return Finding(json.dumps([grade.value for grade in grades]), scores["all_score"].value)


def nugget_creation() -> Rubric:
    """Return the rubric `nugget_creation`: nuggets created from a response's passages; its text is ignored.

    The label is a JSON list of at most 30 objects with `text` and `importance`; the value is the share of vital
    nuggets. Without passages that answer the topic, it has no value.
    """
    creation, importance = shipped_template("judges/nugget_creation"), shipped_template("judges/nugget_importance")

    def open_(response: Response) -> Question | Finding:
        question = response.task.question

        def weigh(nuggets: list[str]) -> Question | Finding:
            end = partial(_importance_finding, nuggets)
            return _window_question(importance, "importance", Importance, nuggets, end, question=question)

        return _creation_question(creation, weigh, question, list(map(titled, response.passages)), [])

    prompts = (creation.source, importance.source)
    return Rubric(NUGGET_CREATION, "nuggets made from the passages of a topic", open_, prompts)


def _creation_question(
    prompt: PromptTemplate,
    weigh: Callable[[list[str]], Question | Finding],
    question: str,
    passages: Sequence[str],
    nuggets: list[str],
) -> Question | Finding:
    """Return the question on the first remaining passages, or the result of `weigh` after the last."""
    if not passages:
        return weigh(nuggets) if nuggets else _NOTHING_FOUND

    def read(reply: str, code: str) -> Question | Finding:
        return _creation_question(prompt, weigh, question, passages[WINDOW:], _read_nuggets(reply, code))

    return ask(
        prompt,
        _NUGGETS_FORM,
        read,
        passages=passages[:WINDOW],
        question=question,
        nuggets=nuggets,
        most=str(MOST_NUGGETS),
    )


def _importance_finding(nuggets: Sequence[str], importance: Sequence[Importance]) -> Finding:
    rows = [{"text": text, "importance": level.value} for text, level in zip(nuggets, importance, strict=True)]
    return Finding(json.dumps(rows, ensure_ascii=False), importance.count(Importance.VITAL) / len(importance))


def _read_nuggets(reply: str, code: str) -> list[str]:
    """Return the first 30 nuggets of `{"id": "CODE", "nuggets": [text, ...]}`, without duplicates."""
    texts: dict[str, str] = {}
    for text in read_texts(reply, code, "nuggets"):
        texts.setdefault(text.casefold(), text)
    return list(texts.values())[:MOST_NUGGETS]


# Questions about citations: how far the first passage that a sentence cites supports it. Each question has one sentence
# and one passage, as the track's judges saw them. If a judge gives no readable reply to one pair of an answer, it has
# no verdict on that answer. Source: arXiv 2504.15205, section 3 (TREC RAG 2024). The wording is ours.

CITATION_SUPPORT = "citation_support"

NOTHING_CITED = Finding(None, None, VerdictOutcome.NOT_ASKED, "no sentence cites a passage")
"""For an answer without citations, which needs no judge: its recall is 0, its precision undefined."""


Sentences = Callable[[Response], Sequence[CitedSentence]]


def sentences_of(response: Response) -> tuple[CitedSentence, ...]:
    """Return the sentences of a free text that cites the passages shown to the model."""
    return parse_cited(response.text, len(response.passages))


def citation_support(sentences: Sentences = sentences_of) -> Rubric:
    """Return the rubric `citation_support`: how far each sentence's first citation supports it.

    The label is a JSON list with an entry per sentence: full, partial, no, or null without a citation. The value is the
    weighted precision, 0 to 1, higher is better. An answer without citations is not judged.
    """
    prompt = shipped_template("judges/citation_support")

    def open_(response: Response) -> Question | Finding:
        return _citation_question(prompt, sentences(response), response.passages, [])

    description = "how far each sentence's first citation supports it, judged"
    rubric = Rubric(CITATION_SUPPORT, description, open_, (prompt.source,))
    return rubric.only_where(
        lambda response: any(sentence.citations for sentence in sentences(response)), NOTHING_CITED
    )


def _citation_question(
    prompt: PromptTemplate,
    sentences: Sequence[CitedSentence],
    passages: Sequence[Passage],
    done: list[Support | None],
) -> Question | Finding:
    """Return the question on the next sentence with a citation, or the finding after the last."""
    remaining = sentences[len(done) :]
    n_uncited = next((n for n, sentence in enumerate(remaining) if sentence.citations), len(remaining))
    done = [*done, *[None] * n_uncited]
    if len(done) == len(sentences):
        cites = [bool(sentence.citations) for sentence in sentences]
        label = json.dumps([level.value if level else None for level in done])
        return Finding(label, support_precision(cites, done).value)
    cited = passages[sentences[len(done)].citations[0]]

    def read(reply: str, code: str) -> Question | Finding:
        level = Support(read_coded_label(reply, code, [member.value for member in Support]))
        return _citation_question(prompt, sentences, passages, [*done, level])

    return ask(prompt, LABEL_FORM, read, passage=titled(cited), sentence=sentences[len(done)].text)


# Pairwise comparison: which of two answers to one task serves the user better.
#
# A pair is a response whose task contains the other answer, so that panel, cache and coverage treat it like any
# response. Judges see blinded names and both assistants' passages. For both orders, the caller sends both pairs.

PAIRWISE = "pairwise"
PREFERENCES = {"a": 1.0, "tie": 0.5, "b": 0.0}
"""Label -> share of the first answer: 1 if it is preferred."""

SECOND_ANSWER = "answer_2"
"""Name of the second answer of a pair in labelled rows and in templates of users."""
_OTHER = "other_answer"


def pair_of(first: Response, second: Response) -> Response:
    """Return two answers to one task as input of the rubric `pairwise`; the judge sees them in this order."""
    passages = [[passage.title, passage.text] for passage in second.passages]
    task = replace(first.task, extra={**first.task.extra, _OTHER: {"text": second.text, "passages": passages}})
    return Response(task, first.passages, first.text)


def second_text(pair: Response) -> str:
    """Return the text of the second answer of a pair; empty for a single answer."""
    return str(pair.task.extra.get(_OTHER, {}).get("text", ""))


def pairwise() -> Rubric:
    """Return the rubric `pairwise`: a (1), tie (0.5) or b (0), as the judge prefers the first or the second answer.

    Two equal texts are a tie without a question.

    Faithfulness, appropriateness, naturalness and completeness are MTRAG's (paper, section 3.2), the win-rate question
    is from its section 7; a tournament of pairs with visible citations is Ragnarök's RAG-bench (paper, section 6).
    """

    def texts(response: Response) -> Mapping[str, Any]:
        second = response.task.extra[_OTHER]
        first_passages = list(map(titled, response.passages))
        second_passages = [f"{title}\n{text}".strip() for title, text in second["passages"]]
        all_passages = list(dict.fromkeys([*first_passages, *second_passages]))
        return {
            **_task_of(response),
            "passages": all_passages,
            "answer_a": response.text,
            "answer_b": second["text"],
            "shown_a": _passage_numbers(first_passages, all_passages),
            "shown_b": _passage_numbers(second_passages, all_passages),
        }

    rubric = _labelled(PAIRWISE, "which of two answers serves the user better", PREFERENCES, texts)
    rubric = replace(rubric, needs=(SECOND_ANSWER,))
    tie = Finding("tie", PREFERENCES["tie"])
    return rubric.only_where(lambda response: second_text(response) != response.text, tie)


def _passage_numbers(own: list[str], all_passages: list[str]) -> str:
    """Return the numbers of the passages shown to an assistant, in its order, as text."""
    if not own:
        return "no passage"
    return "passages " + ", ".join(str(all_passages.index(passage) + 1) for passage in own)


# Judges as relevance assessors: the relevance of a passage to a question, 0 to 3, and the resulting qrels.
#
# The scale is that of UMBRELA (arXiv 2406.06519) and of TREC's deep learning and RAG tracks; the wording is ours. Each
# prompt has one question and one passage. A pair without a verdict, or on whose grade the judges disagree, is unjudged.

RELEVANCE = "relevance"
GRADES = ("0", "1", "2", "3")


@dataclass(frozen=True, slots=True)
class JudgedPassages:
    """Relevance grades by judges."""

    qrels: tuple[Qrel, ...]
    """Grades, 0 to 3, of the judged pairs, in the order of the pairs."""
    unjudged: tuple[tuple[str, str, str], ...]
    """(query, passage, reason) of the unjudged pairs."""
    verdicts: Verdicts

    def n_by_grade(self) -> dict[int, int]:
        """Return grade -> number of pairs."""
        counts = Counter(qrel.relevance for qrel in self.qrels)
        return {int(grade): counts[int(grade)] for grade in GRADES}


def relevance() -> Rubric:
    """Return the rubric `relevance`: how much the passage of a response helps to answer the question.

    The response has one passage, and its text is ignored. The label is a grade, 0 to 3; the value is a third of it, 0
    to 1, higher is better.
    """
    return _labelled(
        RELEVANCE,
        "how relevant the passage is to the question, judged",
        {grade: int(grade) / int(GRADES[-1]) for grade in GRADES},
        lambda response: {**_task_of(response), "passage": titled(response.passages[0])},
    )


def judge_passages(
    pairs: Iterable[tuple[Task, Passage]], judge: Callable[[Sequence[Response], Sequence[Rubric]], Verdicts]
) -> JudgedPassages:
    """Return the grades of passages for questions; with several judges, their median."""
    responses = [Response(task, (passage,), "") for task, passage in pairs]
    verdicts = judge(responses, [relevance()])
    qrels: list[Qrel] = []
    unjudged: list[tuple[str, str, str]] = []
    for response, (label, reason) in zip(responses, verdicts.labels(RELEVANCE), strict=True):
        query_id, passage_id = response.task.task_id, response.passages[0].passage_id
        if label is None:
            unjudged.append((query_id, passage_id, reason))
        else:
            qrels.append(Qrel(query_id, passage_id, int(label)))
    return JudgedPassages(tuple(qrels), tuple(unjudged), verdicts)
