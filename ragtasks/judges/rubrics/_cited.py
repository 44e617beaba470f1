"""What judges are asked about nuggets: which an answer states, how much each matters, which a topic has.

Lists are worked through in windows of ten, one question after the other, as the track's own tool does
(castorini/nuggetizer at d00dc3e). The wording is ours. Where a judge gives no readable reply to one window, the whole
answer has no verdict of that judge: a nugget without a grade is never taken for one that is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragtasks.judges._parsers import UnparsableReplyError, read_coded_label, read_coded_object
from ragtasks.judges._question import Finding, Question, Rubric, ask
from ragtasks.judges._verdicts import VerdictOutcome
from ragtasks.metrics import CitedSentence, nugget_scores, parse_cited, support_precision
from ragtasks.prompts import PromptTemplate, shipped_template
from ragtasks.records import Grade, Importance, Nugget, Passage, Response, Support, Task

NUGGET_ASSIGNMENT = "nugget_assignment"
NUGGET_CREATION = "nugget_creation"

WINDOW = 10
"""Nuggets, or segments, that one question shows."""
MOST_NUGGETS = 30
"""Longest list that is created for a topic."""

NO_NUGGETS = Finding(None, None, VerdictOutcome.NOT_ASKED, "the topic has no nuggets")
"""For a topic that nobody made nuggets for."""
_NOTHING_FOUND = Finding(None, None, VerdictOutcome.NO_STATEMENTS, "no segment answers the topic")

# Not JSON as they stand: a judge that only repeats the form has given no verdict.
_GRADES_FORM = '{"id": "CODE", "grades": {"1": LABEL, ...}}'
_IMPORTANCE_FORM = '{"id": "CODE", "importance": {"1": LABEL, ...}}'
_NUGGETS_FORM = '{"id": "CODE", "nuggets": [FACT, ...]}'


def nuggets_of(task: Task) -> tuple[Nugget, ...]:
    """Return the nuggets that a task carries; () for none."""
    rows = task.extra.get("nuggets", ())
    return tuple(Nugget(row["text"], Importance(row["importance"]), row.get("sub_narrative", "")) for row in rows)


def plain_answer(response: Response) -> str:
    """Return a free text as it is shown for assignment: its sentences without citations, joined by blanks."""
    return " ".join(sentence.text for sentence in parse_cited(response.text, 0))


def nugget_assignment(
    template: PromptTemplate | None = None, shown: Callable[[Response], str] = plain_answer
) -> Rubric:
    """Return the rubric `nugget_assignment`: a grade for every nugget of the topic.

    The label is a JSON list of grades, one a nugget; the value is their `all_score`, 0 to 1, higher is better. An
    answer that says nothing supports nothing, without a question. A topic without nuggets is not asked about.
    """
    prompt = template or shipped_template("judges/nugget_assignment")

    def open_(response: Response) -> Question | Finding:
        nuggets = nuggets_of(response.task)
        if not nuggets:
            return NO_NUGGETS
        answer = shown(response)
        if not answer.strip():
            return _assigned(nuggets, [Grade.NOT_SUPPORT] * len(nuggets))
        return _assign(prompt, response.task.question, answer, nuggets, [])

    return Rubric(NUGGET_ASSIGNMENT, "which nuggets of the topic the answer states, judged", open_, (prompt.source,))


def _assign(
    prompt: PromptTemplate, question: str, answer: str, nuggets: Sequence[Nugget], done: list[Grade]
) -> Question | Finding:
    """Return the question on the first nuggets without a grade, or the finding where all have one."""
    if len(done) == len(nuggets):
        return _assigned(nuggets, done)
    window = [_one_line(nugget.text) for nugget in nuggets[len(done) : len(done) + WINDOW]]

    def read(reply: str, code: str) -> Question | Finding:
        labels = _read_labels(reply, code, "grades", [grade.value for grade in Grade], len(window))
        return _assign(prompt, question, answer, nuggets, [*done, *map(Grade, labels)])

    return ask(prompt, _GRADES_FORM, read, question=question, answer=answer, nuggets=window)


def _assigned(nuggets: Sequence[Nugget], grades: list[Grade]) -> Finding:
    scores = nugget_scores([nugget.importance for nugget in nuggets], grades)
    return Finding(json.dumps([grade.value for grade in grades]), scores["all_score"].value)


@dataclass(frozen=True, slots=True)
class _Templates:
    """The two prompts of creation."""

    creation: PromptTemplate
    importance: PromptTemplate


def nugget_creation(creation: PromptTemplate | None = None, importance: PromptTemplate | None = None) -> Rubric:
    """Return the rubric `nugget_creation`: nuggets made from a response's passages; its text is not looked at.

    The label is a JSON list of {`text`, `importance`}, at most 30; the value is the share of vital ones. No passages,
    or none that answers: no value, with that reason.
    """
    templates = _Templates(
        creation or shipped_template("judges/nugget_creation"),
        importance or shipped_template("judges/nugget_importance"),
    )

    def open_(response: Response) -> Question | Finding:
        passages = [f"{passage.title}\n{passage.text}".strip() for passage in response.passages]
        return _create(templates, response.task.question, passages, [])

    prompts = (templates.creation.source, templates.importance.source)
    return Rubric(NUGGET_CREATION, "nuggets made from the passages of a topic", open_, prompts)


def _create(templates: _Templates, question: str, passages: Sequence[str], found: list[str]) -> Question | Finding:
    """Return the question on the first passages that were not read yet, or what follows after the last."""
    if not passages:
        return _weigh(templates, question, found, []) if found else _NOTHING_FOUND

    def read(reply: str, code: str) -> Question | Finding:
        return _create(templates, question, passages[WINDOW:], _read_nuggets(reply, code))

    return ask(
        templates.creation,
        _NUGGETS_FORM,
        read,
        passages=passages[:WINDOW],
        question=question,
        nuggets=found,
        most=str(MOST_NUGGETS),
    )


def _weigh(templates: _Templates, question: str, nuggets: list[str], done: list[Importance]) -> Question | Finding:
    """Return the question on the first nuggets without importance, or the finding where all have it."""
    if len(done) == len(nuggets):
        rows = [{"text": text, "importance": item.value} for text, item in zip(nuggets, done, strict=True)]
        return Finding(json.dumps(rows, ensure_ascii=False), done.count(Importance.VITAL) / len(done))
    window = nuggets[len(done) : len(done) + WINDOW]

    def read(reply: str, code: str) -> Question | Finding:
        labels = _read_labels(reply, code, "importance", [item.value for item in Importance], len(window))
        return _weigh(templates, question, nuggets, [*done, *map(Importance, labels)])

    return ask(templates.importance, _IMPORTANCE_FORM, read, question=question, nuggets=window)


def _read_labels(reply: str, code: str, key: str, labels: Sequence[str], n_items: int) -> list[str]:
    """Return one of `labels` for each of the items 1 to `n_items`, from `{"id": "CODE", key: {"1": label, ...}}`."""
    found = read_coded_object(reply, code).get(key)
    numbers = [str(number) for number in range(1, n_items + 1)]
    if not isinstance(found, dict) or set(found) != set(numbers):
        raise UnparsableReplyError(f'"{key}" does not hold the facts 1 to {n_items}, each once')
    words = [str(found[number]).strip().lower() for number in numbers]
    if not set(words) <= set(labels):
        raise UnparsableReplyError(f'"{key}" holds something else than {", ".join(labels)}')
    return words


def _read_nuggets(reply: str, code: str) -> list[str]:
    """Return the first 30 nuggets of `{"id": "CODE", "nuggets": [text, ...]}`, each text once, blank ones left out."""
    found = read_coded_object(reply, code).get("nuggets")
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise UnparsableReplyError('"nuggets" is no list of texts')
    texts: dict[str, str] = {}
    for item in found:
        texts.setdefault(_one_line(item).casefold(), _one_line(item))
    return [text for text in texts.values() if text][:MOST_NUGGETS]


def _one_line(text: str) -> str:
    """Return a text without line ends: one with lines of its own could pass for several in a numbered list."""
    return " ".join(text.split())


# What judges are asked about citations: how far the first passage that a sentence cites supports it.
# One sentence and one passage at a time, as the track's judges saw them. Where a judge gives no readable reply to
# one of an answer's pairs, it has no verdict on that answer.
# Source: arXiv 2504.15205, section 3 (TREC RAG 2024). The wording is ours.

CITATION_SUPPORT = "citation_support"

NOTHING_CITED = Finding(None, None, VerdictOutcome.NOT_ASKED, "no sentence cites a passage")
"""For an answer that needs no judge: its recall is 0, its precision is not defined."""

_LABEL_FORM = "Verdict CODE: LABEL"


Sentences = Callable[[Response], Sequence[CitedSentence]]
"""What a response says and cites."""


def sentences_of(response: Response) -> tuple[CitedSentence, ...]:
    """Return the sentences of a free text, which cites the passages that the model was shown."""
    return parse_cited(response.text, len(response.passages))


def citation_support(template: PromptTemplate | None = None, sentences: Sentences = sentences_of) -> Rubric:
    """Return the rubric `citation_support`: how far each sentence's first citation supports it.

    The label is a JSON list with one item a sentence: full, partial, no, or null where the sentence does not cite. The
    value is the weighted precision, 0 to 1, higher is better. An answer that cites nothing is not asked about.
    """
    prompt = template or shipped_template("judges/citation_support")

    def open_(response: Response) -> Question | Finding:
        cited = sentences(response)
        if not any(sentence.citations for sentence in cited):
            return NOTHING_CITED
        return _judge(prompt, cited, response.passages, [])

    return Rubric(
        CITATION_SUPPORT, "how far each sentence's first citation supports it, judged", open_, (prompt.source,)
    )


def _judge(
    prompt: PromptTemplate,
    sentences: Sequence[CitedSentence],
    passages: Sequence[Passage],
    done: list[Support | None],
) -> Question | Finding:
    """Return the question on the next sentence that cites, or the finding after the last."""
    rest = sentences[len(done) :]
    n_uncited = next((n for n, sentence in enumerate(rest) if sentence.citations), len(rest))
    done = [*done, *[None] * n_uncited]
    if len(done) == len(sentences):
        cites = [bool(sentence.citations) for sentence in sentences]
        label = json.dumps([level.value if level else None for level in done])
        return Finding(label, support_precision(cites, done).value)
    cited = passages[sentences[len(done)].citations[0]]

    def read(reply: str, code: str) -> Question | Finding:
        level = Support(read_coded_label(reply, code, [item.value for item in Support]))
        return _judge(prompt, sentences, passages, [*done, level])

    shown = f"{cited.title}\n{cited.text}".strip()
    return ask(prompt, _LABEL_FORM, read, passage=shown, sentence=sentences[len(done)].text)
