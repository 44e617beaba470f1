"""TopiOCQA: conversations over Wikipedia with changing topics and short answers (Adlakha et al. 2022).

A task is a question of the published dev split. It has one answer, and three more in turns answered by several people;
`extra["answers"]` contains all, starting with the task's own. The answer `UNANSWERABLE` is a label of unanswerable
questions. Each question has one gold passage, which is also the relevance judgement.

The corpus is 25,700,592 segments of Wikipedia of 2020-10-20, in a separate dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from ragtasks.benchmarks import (
    Benchmark,
    BenchmarkDefinition,
    Fields,
    RetrievalSide,
    Text,
    Whole,
    derived_file,
    reference_qrels,
    typed_lines,
)
from ragtasks.benchmarks.sources import SourceFile
from ragtasks.errors import BenchmarkFileError
from ragtasks.files import Problems, parquet_rows
from ragtasks.metrics import Metric, Scores, normalised_tokens, token_f1
from ragtasks.records import Answerability, Message, Passage, Role, Score, Task, task_id
from ragtasks.suites import ScoringInputs, extended, suite_named
from ragtasks_more_benchmarks.hub import PACKAGE, Sizes, hub_source, load_tasks

DOMAIN = "wikipedia"
PROMPT = str(PACKAGE / "prompts" / "short_answer.jinja")
UNANSWERABLE = "UNANSWERABLE"
"""The answer to an unanswerable question."""
SIZES = Sizes(conversations=205, tasks=2514)
"""The dev split as counted in the paper (Table 3)."""

_CORPUS_FOLDER = "wiki_corpus"

SOURCE = hub_source(
    "topiocqa",
    "TopiOCQA",
    "McGill-NLP/TopiOCQA",
    "47baa2cc8e6f36caa486d314cb5d34b11fbda388",
    SourceFile(
        "data/topiocqa_valid.jsonl",
        "1bba9512b24b2e5de22704766dd80b1dc497bb7262799f66c3912e6f413ac1c6",
        7650455,
        "tasks",
    ),
)
"""The official file, with size and checksum from its pointer in the repository."""


def load(root: Path) -> Benchmark:
    """Return the benchmark in `root` (a fetched copy, or the sample)."""
    return load_tasks(root, SOURCE, SIZES, _tasks)


def _in_turn(texts: list[str]) -> list[str]:
    if len(texts) % 2:
        raise ValueError("texts, questions and answers in turn")
    return texts


class _Answer(Fields):
    text: Text = Field(alias="Answer")


class _GoldPassage(Fields):
    passage_id: Text = Field(alias="id")
    title: str
    text: str


class _Question(_Answer):
    conversation: Whole = Field(alias="Conversation_no")
    turn: Whole = Field(alias="Turn_no", ge=1)
    question: Text = Field(alias="Question")
    context: Annotated[list[Text], AfterValidator(_in_turn)] = Field(alias="Context")
    further_answers: list[_Answer] = Field(alias="Additional_answers")
    gold: _GoldPassage = Field(alias="Gold_passage")
    topic: str | None = Field(None, alias="Topic")
    section: str | None = Field(None, alias="Topic_section")
    rationale: str | None = Field(None, alias="Rationale")


def _tasks(problems: Problems) -> Iterator[Task]:
    yield from (_task(row) for _, row in typed_lines(problems, _Question))


def _task(row: _Question) -> Task:
    answers = [answer.text.strip() for answer in (row, *row.further_answers)]
    texts = [*row.context, row.question]
    gold = Passage(row.gold.passage_id, row.gold.text, row.gold.title.replace(" [SEP] ", " - "))
    return Task(
        task_id=task_id(str(row.conversation), row.turn),
        conversation_id=str(row.conversation),
        turn=row.turn,
        domain=DOMAIN,
        messages=tuple(Message((Role.USER, Role.ASSISTANT)[n % 2], text) for n, text in enumerate(texts)),
        target=answers[0],
        answerability=_answerability(answers[0]),
        question_types=(),
        multi_turn="N/A" if row.turn == 1 else "Follow-up",
        references=(gold,),
        extra={
            "answers": answers,
            "topic": row.topic,
            "section": row.section,
            "rationale": row.rationale,
            "other_labels": [{"target": text, "answerability": _answerability(text).value} for text in answers[1:]],
        },
    )


def _answerability(answer: str) -> Answerability:
    return Answerability.UNANSWERABLE if answer == UNANSWERABLE else Answerability.ANSWERABLE


def corpus_file(root: Path, domain: str) -> Path:
    """Return the corpus as rows, which are written if missing."""
    folder = root / _CORPUS_FOLDER
    shards = sorted(folder.glob("*.parquet"))
    if not shards:
        raise BenchmarkFileError(
            "corpus of TopiOCQA",
            where=str(folder),
            expected="the Parquet files of the dataset McGill-NLP/TopiOCQA-wiki-corpus",
            found="no files",
            next_step="download its folder `data` from the Hugging Face hub (27 files, about 7 GB), and name it so",
        )
    return derived_file(root, f"{domain}.jsonl", lambda: _corpus_rows(shards))


def _corpus_rows(shards: list[Path]) -> Iterator[dict[str, Any]]:
    for path in shards:
        try:
            for row in parquet_rows(path):
                yield {"_id": row["id"], "title": f"{row['title']} - {row['sub_title']}", "text": row["contents"]}
        except (LookupError, OSError, ValueError) as error:
            raise BenchmarkFileError(
                "corpus of TopiOCQA",
                where=str(path),
                expected="columns `id`, `title`, `sub_title` and `contents`",
                found=str(error),
                next_step="download the file again",
            ) from error


DEFINITION = BenchmarkDefinition(
    SOURCE,
    load,
    RetrievalSide((DOMAIN,), corpus_file, partial(reference_qrels, load)),
    PACKAGE / "sample" / "topiocqa",
)


# The suite: MTRAG's scores, and exact match and F1 as in the paper (Adlakha et al. 2022, 5.2). MTRAG's scores use the
# best of several answers. The official ones do not: see `official_scores`.

METRICS = (
    Metric("em", "exact match as officially scored: with several answers, the mean of leaving each out in turn"),
    Metric("f1", "F1 of normalised tokens as officially scored: with several answers, the mean of leaving each out"),
    Metric("em_best", "exact match with the best of several answers"),
    Metric("f1_best", "F1 of normalised tokens with the best of several answers"),
)


def scores(inputs: ScoringInputs) -> list[Scores]:
    """Return TopiOCQA's additional scores of each response, in order."""
    return [_score(response.text, response.task.extra["answers"]) for response in inputs.responses]


def _score(text: str, answers: Sequence[str]) -> Scores:
    em, f1 = official_scores(text, answers)
    return {
        "em": Score(em),
        "f1": Score(f1),
        "em_best": Score(max(exact_match(text, answer) for answer in answers)),
        "f1_best": Score(max(_f1(text, answer) for answer in answers)),
    }


def official_scores(text: str, answers: Sequence[str]) -> tuple[float, float]:
    """Return exact match and F1, 0 to 1, higher is better, as computed by the official script.

    With several answers, each is left out in turn, the best score against the others is used, and the score is the
    mean. People are scored against the others' answers, so models get equally many chances. A model that repeats one of
    the answers verbatim may therefore score below 1.

    Source: `evaluate_reader.py` of McGill-NLP/topiocqa at 49b710e, divided by 100 and not rounded.
    """
    subsets = [[*answers[:index], *answers[index + 1 :]] for index in range(len(answers))] if answers[1:] else [answers]

    def mean(value: Callable[[str, str], float]) -> float:
        return fmean(max(value(text, answer) for answer in subset) for subset in subsets)

    return mean(exact_match), mean(_f1)


def exact_match(text: str, answer: str) -> float:
    """Return 1 if two texts have the same tokens in the same order, normalized as for `token_f1`, else 0.

    Source: SQuAD 1.1 (Rajpurkar et al. 2016, section 6.1).
    """
    return float(normalised_tokens(text) == normalised_tokens(answer))


def _f1(text: str, answer: str) -> float:
    """Return F1 of tokens; 1 for two texts that are empty after normalization, as in the official script."""
    return max(token_f1(text, answer), exact_match(text, answer))


SUITE = extended(suite_named("mtrag"), METRICS, scores, known_refusals=(UNANSWERABLE,))
