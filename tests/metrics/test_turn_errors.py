"""Each turn error on an answer that has it, and no error on correct answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.metrics import TurnErrorKind, copied, grounded, turn_error
from ragtasks.metrics._words import words_of_text
from ragtasks.records import Answerability, IdkVerdict, Message, Passage, Response, Role, Task

FEES = Passage(
    "fees", "A library card costs 12 euros a year. Children do not pay. A lost card is replaced for 5 euros."
)
HOURS = Passage("hours", "The library opens at nine on weekdays and is closed on Sundays and on public holidays.")
FIRST, FIRST_ANSWER = "When does the library open?", "The library opens at nine o'clock on weekdays, never on Sundays."
QUESTION, TARGET = "And what is the price of a card?", "A card costs 12 euros a year; children do not pay anything."
MESSAGES = (Message(Role.USER, FIRST), Message(Role.ASSISTANT, FIRST_ANSWER), Message(Role.USER, QUESTION))
TASK = Task("c<::>2", "c", 2, "library", MESSAGES, TARGET, Answerability.ANSWERABLE, (), "Follow-up", (FEES,))
KIND = TurnErrorKind


def kind_of(
    text: str,
    task: Task = TASK,
    shown: tuple[Passage, ...] = (FEES, HOURS),
    idk: IdkVerdict | None = IdkVerdict.NO,
    implausible: dict[str, str] | None = None,
) -> TurnErrorKind | None:
    error = turn_error(Response(task, shown, text), idk, implausible)
    assert error is None or error.reason
    return error.kind if error else None


def test_each_text_is_tokenized_once_for_all_measures() -> None:
    answer = "A lost card is replaced for 80 euros."
    words_of_text.cache_clear()
    for shown in ((FEES, HOURS), (HOURS, FEES), (FEES,)):
        grounded(answer, shown)
        copied(answer, shown)
        kind_of(answer, shown=shown)
    texts = {answer, TARGET, "", FEES.text, HOURS.text, *(message.text for message in MESSAGES)}
    assert words_of_text.cache_info().misses == len(texts)


def labelled(answerability: Answerability) -> Task:
    return replace(TASK, answerability=answerability, references=(), target="I have no information about that.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TARGET, None),
        ("It is twelve euros a year, and nothing for children.", None),
        ("The library opens at nine o'clock on weekdays, never on Sundays.", KIND.REPEATED),
        ("A lost card is replaced for 80 euros.", KIND.INVENTED),
        (
            "Members enjoy unlimited streaming, museum tickets and discounts at selected bakeries downtown.",
            KIND.INVENTED,
        ),
        ("Which card do you mean?", KIND.ASKED_BACK),
        ("...", KIND.BROKEN),
    ],
)
def test_turn_errors_of_example_answers(text: str, expected: TurnErrorKind | None) -> None:
    assert kind_of(text) is expected


def test_words_of_earlier_answers_are_repeated_unless_in_the_reference_answer() -> None:
    rules = (
        Message(Role.USER, "Who may borrow?"),
        Message(Role.ASSISTANT, "Everybody with a valid passport may borrow books."),
    )
    task = replace(TASK, messages=(*rules, *MESSAGES))
    text = "Everybody with a valid passport may borrow. The library opens on weekdays at nine o'clock."
    assert kind_of(text, task) is KIND.REPEATED
    assert kind_of(text, replace(task, target=text)) is None


def test_an_answer_close_to_the_reference_is_repeated_only_if_verbatim() -> None:
    task = replace(
        TASK,
        target="The library opens at nine o'clock: a bell rings, doors unlock, staff greet early visitors outside.",
    )
    assert kind_of("The library opens at nine o'clock on weekdays, never on Sundays.", task) is KIND.REPEATED
    assert kind_of("On Sundays never; the library opens at nine o'clock on weekdays.", task) is not KIND.REPEATED


def test_a_question_to_the_user_may_be_followed_by_an_offer() -> None:
    question = "It seems that your message got cut off. Could you please provide more context or clarify what you want?"
    assert kind_of(f"{question} I'm here to help!") is KIND.ASKED_BACK
    assert kind_of(f"{TARGET} It is also {TARGET} Could you tell me your age?") is None


def test_a_short_paraphrase_is_not_invented() -> None:
    short = "The children can borrow for free, and all grown visitors hand over 12 euros."
    assert kind_of(short) is None
    long = (
        f"{short} Members stream films, visit museums, taste pastries and ride trams downtown for nothing all summer."
    )
    assert kind_of(long) is KIND.INVENTED


TREES = "alder birch cedar daphne elder fir ginkgo hazel ivy juniper larch maple oak poplar quince rowan spruce willow"
TOOLS = "adze bellows chisel drill easel file gimlet hammer iron jigsaw kiln lathe mallet needle pliers rasp saw trowel"


@pytest.mark.parametrize(
    ("n_held", "n_words", "expected"),
    [
        (18, 26, None),  # 68 % of a long answer's words must be in the passages
        (17, 26, KIND.INVENTED),
        (5, 12, None),  # 40 % of a short answer's words
        (4, 12, KIND.INVENTED),
        (0, 7, None),  # seven words are too few to decide
    ],
)
def test_an_answer_with_too_few_words_from_passages_is_invented(
    n_held: int, n_words: int, expected: TurnErrorKind | None
) -> None:
    text = " ".join([*TREES.split()[:n_held], *TOOLS.split()[: n_words - n_held]]) + "."
    assert len(text.split()) == n_words
    task = replace(TASK, references=(), target="Nothing of the kind.")
    assert kind_of(text, task, (Passage("trees", f"They plant {TREES} there."),)) is expected


def test_an_answer_with_half_of_the_reference_answer_is_not_invented() -> None:
    """The other words and numbers may be from passages that were not shown."""
    added = f"Since 1995 they lend {TOOLS}."
    assert kind_of(added, shown=(HOURS,), task=replace(TASK, references=())) is KIND.INVENTED
    assert kind_of(f"{TARGET} {added}", shown=(HOURS,), task=replace(TASK, references=())) is None


def test_a_refusal_depends_on_the_passages_shown() -> None:
    text = "I do not know the price."
    assert kind_of(text, idk=IdkVerdict.YES) is KIND.REFUSED_KNOWN
    assert kind_of(text, shown=(HOURS,), idk=IdkVerdict.YES) is KIND.MISSED
    assert kind_of(text, labelled(Answerability.UNANSWERABLE), idk=IdkVerdict.YES) is None


def test_missed_passages_count_only_if_the_answer_lacks_their_content() -> None:
    assert kind_of("Cards are sold at the desk near the entrance.", shown=(HOURS,)) is KIND.MISSED
    assert kind_of(TARGET, shown=(HOURS,)) is None


def test_an_unanswerable_question_may_be_refused_or_asked_back() -> None:
    task = labelled(Answerability.UNANSWERABLE)
    assert kind_of("A card costs 12 euros.", task) is KIND.ANSWERED_UNKNOWN
    assert kind_of("Which card do you mean?", task) is None
    assert kind_of("Which card do you mean?", labelled(Answerability.UNDERSPECIFIED)) is None


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        *((name, KIND.BROKEN) for name in ("empty", "emptied", "error", "wrapped", "echo")),
        ("language", KIND.WRONG_LANGUAGE),
        ("cut_off", KIND.CUT_OFF),
    ],
)
def test_replies_without_an_answer_have_their_own_error(check: str, expected: TurnErrorKind) -> None:
    assert kind_of(TARGET, implausible={check: "what it shows"}) is expected
    assert kind_of(TARGET, implausible={check: "what it shows", "echo": "the question"}) is KIND.BROKEN, (
        "the first kind"
    )


def test_a_failed_request_has_no_turn_error() -> None:
    assert turn_error(Response(TASK, (FEES,), "", "the server refused"), None) is None


@given(st.text(max_size=300), st.sampled_from([*IdkVerdict, None]), st.sampled_from(list(Answerability)))
def test_any_text_is_accepted(text: str, idk: IdkVerdict | None, answerability: Answerability) -> None:
    kind_of(text, replace(TASK, answerability=answerability), idk=idk)


@pytest.mark.parametrize("name", ["mtrag", "mtrag_un"])
def test_reference_answers_of_the_sample_have_no_errors(name: str) -> None:
    benchmark = open_benchmark(name, benchmark_folder(name, "sample", Path()).resolve())
    answerable = [task for task in benchmark.tasks if task.answerability is Answerability.ANSWERABLE]
    result = {task.task_id: kind_of(task.target, task, task.references) for task in answerable}
    assert {task_id: kind for task_id, kind in result.items() if kind} == {}


YES, NO = IdkVerdict.YES, IdkVerdict.NO


@pytest.mark.parametrize(
    ("text", "idk", "changed", "shown", "expected"),
    [
        # A refusal counts neither if a part can be answered, nor if the answer is also given.
        ("I do not know the price.", YES, {"answerability": Answerability.PARTIAL}, (FEES,), None),
        ("I do not know, but a card costs 12 euros a year; children do not pay.", YES, {}, (FEES,), None),
        ("I cannot say; a lost card is replaced for 80 euros.", YES, {}, (FEES,), KIND.REFUSED_KNOWN),
        # Numbers: of two digits, in no passage and not in the reference answer.
        ("A lost card is replaced for 8 euros.", NO, {}, (FEES,), None),
        ("A lost card is replaced for 80 euros.", NO, {}, (FEES,), KIND.INVENTED),
        ("A lost card is replaced for 80 euros.", None, {}, (FEES,), None),
        ("It is 75 euros.", NO, {}, (FEES,), KIND.INVENTED),
        ("It is 75 euros.", NO, {"target": "Seventy-five, so 75 euros."}, (FEES,), None),
        # Invention requires an answer that claims something in more than a few words.
        ("Unlimited streaming everywhere.", NO, {}, (FEES,), None),
        ("Members enjoy unlimited streaming, museum tickets and discounts downtown.", None, {}, (FEES,), None),
        # A repeated answer is correct if the reference answer repeats it too.
        (FIRST_ANSWER, NO, {"target": FIRST_ANSWER}, (FEES, HOURS), None),
        # A question that contains the answer does not count.
        ("Does a card cost 12 euros a year, and do children not pay anything?", NO, {}, (FEES,), None),
        # A task without reference passages has no missed passages.
        ("It is closed on Sundays and on public holidays.", NO, {}, (HOURS,), KIND.MISSED),
        ("It is closed on Sundays and on public holidays.", NO, {"references": ()}, (HOURS,), None),
        # Unscored verdicts, and small talk.
        ("It is 12.", None, {"answerability": Answerability.UNANSWERABLE, "references": ()}, (FEES,), None),
        ("It is 12.", NO, {"answerability": Answerability.CONVERSATIONAL, "references": ()}, (FEES,), None),
    ],
)
def test_errors_exclude_answers_that_may_be_right(
    text: str,
    idk: IdkVerdict | None,
    changed: dict[str, Any],
    shown: tuple[Passage, ...],
    expected: TurnErrorKind | None,
) -> None:
    assert kind_of(text, replace(TASK, **changed), shown, idk) is expected


@pytest.mark.parametrize(
    ("text", "idk", "reason"),
    [
        ("A lost card is replaced for 80 euros.", NO, "unsupported numbers: 80"),
        ("It is 75 euros.", NO, "unsupported numbers: 75"),
        ("I cannot say.", YES, "1 of 1 reference passages were shown"),
    ],
)
def test_the_reason_names_the_evidence(text: str, idk: IdkVerdict, reason: str) -> None:
    error = turn_error(Response(TASK, (FEES, HOURS), text), idk)
    assert error.reason == reason
