"""Classification of questions by judges: MTRAG's question types, or the topic categories of Ragnarök.

The labels are those of the papers, the definitions are ours. A question has no label if no judge gives a verdict, or if
no label is given by more than half of the judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ragtasks.judges._parsers import UnparsableReplyError, read_coded_object
from ragtasks.judges._question import Finding, Question, Rubric, ask
from ragtasks.judges._verdicts import Verdicts
from ragtasks.prompts import shipped_template
from ragtasks.records import Response, Task

_FORM = '{"id": "CODE", "labels": [LABEL, ...]}'


@dataclass(frozen=True, slots=True)
class Labelling:
    """A set of labels for questions."""

    name: str
    """Name for users: the key in files, and the name of the rubric."""
    labels: Mapping[str, str]
    several: bool
    """Whether a question may have several labels."""

    @property
    def rule(self) -> str:
        """Instruction on the number of labels."""
        if self.several:
            return "Name every kind that fits, one at least; most messages are of one kind, few of more than two."
        return "Name the one kind that fits best."


QUESTION_TYPES = Labelling(
    "question_types",
    {
        "Comparative": "weighs things, or sides of one thing, against each other: differences, pros and cons, which to "
        "take",
        "Composite": "asks more than one thing at once, whether the parts depend on each other or not",
        "Explanation": "wants to understand why or how something is as it is",
        "Factoid": "wants one fact that can be given in a few words: a date, a number, a name, a link, yes or no",
        "How-To": "wants to know how to do something: the steps, the way to go about it",
        "Keyword": "only names its subject in a few words, as one types into a search box, without a sentence",
        "Non-Question": "asks nothing: it answers the assistant, adds information, comments, thanks or greets",
        "Opinion": "wants a view or a judgement, or suggests one and looks for agreement",
        "Summarization": "wants an overview of a subject, a process or a policy",
        "Troubleshooting": "something does not work or has gone wrong, and the user wants it solved",
    },
    several=True,
)
"""The question types of MTRAG, under the names of its files. Source: MTRAG paper, Table 9 of appendix A."""

TOPIC_CATEGORIES = Labelling(
    "topic_categories",
    {
        "Simple": "asks for a simple fact or a plain instruction, without conditions",
        "Simple with condition": "asks for something simple under a condition, such as a time, a place or a special "
        "case",
        "Set": "its answer is a list of several short things",
        "Aggregation": "its answer has to be put together from several sources",
        "Comparison": "two or more things have to be compared",
        "Multi-hop": "one piece of information is needed to find the next",
        "False premise": "it takes something for granted that is wrong",
    },
    several=False,
)
"""The categories used to select TREC-RAGgy's topics.

Source: Ragnarök paper, appendix A. People labelled the topics, and the labels are not published.
"""

LABELLINGS = {labelling.name: labelling for labelling in (QUESTION_TYPES, TOPIC_CATEGORIES)}


@dataclass(frozen=True, slots=True)
class LabelledQuestions:
    """Labels of questions by judges."""

    labels: Mapping[str, tuple[str, ...]]
    """Task id -> its labels, in the labelling's order, for labelled tasks."""
    unlabelled: tuple[tuple[str, str], ...]
    """(task, reason) of unlabelled tasks."""
    judges: tuple[str, ...]


def question_labels(labelling: Labelling) -> Rubric:
    """Return the rubric of a labelling; its prompt shows the conversation up to the question, without an answer."""
    prompt = shipped_template("judges/question_labels")
    meanings = [f"{name}: {meaning}" for name, meaning in labelling.labels.items()]

    def read(reply: str, code: str) -> Finding:
        return Finding(", ".join(_labels_in(read_coded_object(reply, code).get("labels"), labelling)), None)

    def open_(response: Response) -> Question:
        task = response.task
        history = task.messages[:-1]
        return ask(
            prompt, _FORM, read, conversation=history, question=task.question, labels=meanings, rule=labelling.rule
        )

    texts = (prompt.source, *meanings, labelling.rule)
    return Rubric(labelling.name, "type of the question, judged", open_, texts)


def _labels_in(value: object, labelling: Labelling) -> list[str]:
    """Return the labels of a reply in the labelling's order; unknown or missing labels are unparsable."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise UnparsableReplyError('"labels" is not a list of texts')
    words = {word.strip().lower() for word in value}
    labels = [name for name in labelling.labels if name.lower() in words]
    if len(labels) != len(words):
        raise UnparsableReplyError(f'"labels" contains other labels than {", ".join(labelling.labels)}')
    if not labels or (len(labels) > 1 and not labelling.several):
        raise UnparsableReplyError(f'"labels" contains {len(labels)} labels')
    return labels


def label_questions(
    tasks: Sequence[Task], labelling: Labelling, judge: Callable[[Sequence[Response], Sequence[Rubric]], Verdicts]
) -> LabelledQuestions:
    """Return the labels given by more than half of the judges with a verdict."""
    verdicts = judge([Response(task, (), "") for task in tasks], [question_labels(labelling)])
    labels: dict[str, tuple[str, ...]] = {}
    unlabelled: list[tuple[str, str]] = []
    for index, task in enumerate(tasks):
        rows = [verdicts.verdict(index, labelling.name, name) for name in verdicts.judges]
        labelled = [row for row in rows if row.label is not None]
        counts = Counter(name for row in labelled for name in str(row.label).split(", "))
        if chosen := tuple(name for name in labelling.labels if 2 * counts[name] > len(labelled)):
            labels[task.task_id] = chosen
        else:
            split = "the judges are split (" + "; ".join(f"{row.judge}: {row.label}" for row in labelled) + ")"
            reasons = "; ".join(dict.fromkeys(f"{row.judge}: {row.reason}" for row in rows))
            unlabelled.append((task.task_id, split if labelled else reasons))
    return LabelledQuestions(labels, tuple(unlabelled), verdicts.judges)
