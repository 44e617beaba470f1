from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.idk_agreement import Labelled, agreement_of, confusion, read_labelled, read_mtrag
from ragtasks.metrics import NO_VERDICT, IdkDetector, RuleBasedIdk, answerability_accuracy
from ragtasks.metrics._answerability import answerability_correct
from ragtasks.records import Answerability, IdkVerdict, Message, Response, Role, Task
from tests.conftest import REAL_DATA

YES, PARTIAL, NO = IdkVerdict.YES, IdkVerdict.PARTIAL, IdkVerdict.NO

# Replies written for this test. The last group holds what looks like a refusal and is none.
GOLDEN: list[tuple[IdkVerdict, str]] = [
    (YES, "I do not have specific information."),
    (YES, "I do not have specific information"),
    (YES, "I do not have specific information about the tides at Saint-Malo."),
    (YES, "I do not have specific information on whether the U.S. Mint still strikes steel pennies for collectors."),
    (YES, "**I do not have specific information.**"),
    (YES, '"I do not have specific information."'),
    (YES, "I DON'T KNOW!!"),
    (YES, "i dont know"),
    (YES, "I don’t know, sorry."),  # noqa: RUF001
    (YES, "Sorry, I really couldn't find anything on that."),
    (YES, "Don't know."),
    (YES, "IDK"),
    (YES, "No idea."),
    (YES, "Unanswerable"),
    (YES, "No information available."),
    (YES, "Not mentioned in the passages."),
    (YES, "Unable to answer based on the given context."),
    (YES, "I am unable to provide an answer regarding how to tune a harpsichord. However, I can assist with pianos."),
    (YES, "The documents do not provide an answer to the question."),
    (YES, "The provided passages don't mention the price of a season ticket."),
    (YES, "None of the retrieved documents mention who built the lighthouse."),
    (YES, "There is no information about the ferry timetable in the passages."),
    (YES, "The ferry timetable is not mentioned in the provided documents."),
    (YES, "Based on the provided context, the question cannot be answered."),
    (YES, "It is not possible to determine the winner from the text."),
    (YES, "The context does not contain enough information to answer this question."),
    (YES, "Unfortunately, the text only discusses bees and does not say anything about wasps."),
    (YES, "I'm afraid I can't answer that. If you have other questions, feel free to ask!"),
    (YES, "I have no information on opening hours. You may want to check the museum's website for the latest details."),
    (YES, "We were unable to find this in the available sources. Please contact the clerk's office directly."),
    (
        YES,
        "I cannot find the cause. Could you tell me more about the error message you saw on your screen at the time?",
    ),
    (YES, "While I don't have information about Norway, I can help with other Nordic countries."),
    (YES, "I haven't been given any passage about volcanoes, and I can't speculate."),
    (YES, "As an AI, I do not have access to live prices. I'd recommend checking a broker's page."),
    (YES, "The exact launch date is not specified."),
    (YES, "I'm not sure whether the rule applies to cyclists."),
    (YES, "That is beyond my knowledge."),
    (YES, "It's unclear from the documents whether pets are allowed."),
    (YES, "The article doesn't give any scores. [1][2]"),
    (YES, "The passages lack details about the funding."),
    (
        PARTIAL,
        "The bridge opened in 1931 and was then the longest steel arch in the whole country, but I do not know who "
        "designed it.",
    ),
    (
        PARTIAL,
        "While the documents do not say when, they do say that it closed in 1974 after a fire and then reopened.",
    ),
    (
        PARTIAL,
        "I don't have the exact number. However, the 1990 census counted about four thousand people in the valley, "
        "and the number has been falling since.",
    ),
    (
        PARTIAL,
        "To reset the pump, hold both buttons for ten seconds and wait for the green light to come on.\n\nThe manual "
        "number is not mentioned in the provided passages.",
    ),
    (
        PARTIAL,
        "Oak: hard, heavy, takes stain well and resists wear.\nPine: soft, light, cheap, dents easily.\n"
        "Larch: I could not find any information.",
    ),
    (
        PARTIAL,
        "There is no information about a fee; applicants must bring two photographs, a passport and proof of address "
        "to the counter.",
    ),
    (
        PARTIAL,
        "For more than forty years the town has run its own trams, free of charge to all residents. However, I have "
        "no details about buses.",
    ),
    (
        PARTIAL,
        "I'm unable to give a full history, but I can tell you that the mill was built by monks, burned down twice, "
        "and now houses a library.",
    ),
    (
        PARTIAL,
        "I do not know the rate for 2019. Shares of the company rose by a fifth in 2018 and fell back a year later.",
    ),
    (YES, "There is no information about the tides in the documents."),
    (YES, "No information is provided on the tides."),
    (YES, "The documents make no mention of tides."),
    (YES, "This is not available."),
    (YES, "I lack the details to say."),
    (YES, "N/A"),
    (YES, "No passages were provided."),
    (YES, "The passages do not say when the harbour froze. To answer, I would need the log of the harbour master."),
    (YES, "The passages do not give the depth of the lake. The text discusses its fish and birds instead."),
    (PARTIAL, "The minimum age is 18. The passages don't specify a maximum age."),
    (NO, ""),
    (NO, " \n "),
    (NO, "42"),
    (NO, "No."),
    (NO, "Yes, you do not have to file the form twice."),
    (NO, "The form does not contain information about your income, so it can be shared."),
    (NO, "If you do not have information on the seller, call the office."),
    (NO, "If the documents do not mention a date, use the postmark."),
    (NO, 'Pyrrho answered "I don\'t know" to every question.'),
    (NO, "Her catchphrase, 'I do not know', was printed on shirts."),
    (NO, "Socrates claimed that he knew nothing."),
    (NO, "You're welcome! Let me know if you have any other questions."),
    (NO, "I am sorry if that was not what you were looking for."),
    (NO, "Of course! Could you please give me more details about your question?"),
    (NO, "Glad I could help. Goodbye!"),
    (NO, "There is no limit on the number of uploads."),
    (NO, "There is no evidence that garlic cures colds."),
    (NO, "The plan does not cover dental care, and it does not include glasses."),
    (NO, "The court does not provide forms in Latin."),
    (NO, "Users cannot access the console without a key."),
    (NO, "The detector cannot identify specific individuals."),
    (NO, "When the region is not specified, the default is used."),
    (NO, "Whether you win depends on the judge; you may want to ask a lawyer."),
    (NO, "It is better not to provide information about your bank account on the phone."),
    (NO, "I could not agree more: the second edition is the better one."),
    (NO, "Do not share any information with callers whom you do not know."),
    (NO, "The cause of the fire remains unknown to historians."),
    (NO, "The document does not mention a fee, so it is free."),
    (NO, "N/A in the table means that the plan has no such limit."),
    (NO, "The feature is not available in the Sydney region yet."),
]


def _response(text: str) -> Response:
    question = Message(Role.USER, "And what about that?")
    task = Task("c<::>1", "c", 1, "clapnq", (question,), "", Answerability.ANSWERABLE, (), "N/A", ())
    return Response(task, (), text)


def _verdict(text: str) -> IdkVerdict | None:
    return RuleBasedIdk().detect([_response(text)])[0].verdict


@pytest.mark.parametrize(("expected", "text"), GOLDEN, ids=[text[:50] for _, text in GOLDEN])
def test_golden_replies(expected: IdkVerdict, text: str) -> None:
    assert _verdict(text) is expected


def test_a_known_refusal_is_one_whatever_it_says() -> None:
    sentence = "See the library for that."
    texts = [sentence, f' "{sentence.upper()[:-1]}"\n', f"{sentence} It opens at nine.", "It opens at nine."]
    labels = RuleBasedIdk((sentence,)).detect([_response(text) for text in texts])
    assert [label.verdict for label in labels] == [YES, YES, NO, NO]
    assert "benchmark" in labels[0].reason
    assert _verdict(sentence) is NO


def test_reason_is_the_matched_phrase() -> None:
    label = RuleBasedIdk().detect([_response("Well, I don't know who won.")])[0]
    assert label.reason == "i do not know"


def test_empty_response_says_why_it_is_no_refusal() -> None:
    assert "empty" in RuleBasedIdk().detect([_response("  ")])[0].reason


def test_another_script_has_no_verdict_and_a_reason() -> None:
    label = RuleBasedIdk().detect([_response("ᐊᐅᓚᓂᖅ ᖃᐅᔨᒪᙱᓚᖓ ᑭᓇᐅᖕᒪᖔᑦ.")])[0]
    assert label.verdict is None
    assert label.reason


def test_labels_come_in_the_order_of_the_responses() -> None:
    detector: IdkDetector = RuleBasedIdk()
    labels = detector.detect([_response("I don't know."), _response("It is blue."), _response("I don't know.")])
    assert [label.verdict for label in labels] == [YES, NO, YES]
    assert detector.detect([]) == []
    assert detector.name == "rules-5"


@given(st.text())
def test_any_text_has_a_reason(text: str) -> None:
    assert RuleBasedIdk().detect([_response(text)])[0].reason


@given(st.sampled_from([text for expected, text in GOLDEN if expected is YES]), st.sampled_from([" ", "\n", "\t\n"]))
def test_blanks_around_a_refusal_change_nothing(text: str, blank: str) -> None:
    assert _verdict(blank + text + blank) is YES


# A reply that is one quotation is read without its marks; with text after it, it is a quotation again.
# "N/A" refuses only where it is all that is said.
@given(st.sampled_from([text for expected, text in GOLDEN if expected is YES and text[0] != '"' and text != "N/A"]))
def test_an_answer_after_a_refusal_makes_it_partial(text: str) -> None:
    answer = "The harbour was dug by hand between 1802 and 1809, and the stone came from the old town wall."
    assert _verdict(f"{text}\n{answer}") is PARTIAL


def test_a_long_reply_is_read_quickly_enough_to_finish() -> None:
    assert _verdict("the " * 5000 + "really " * 5000 + "information provided, " * 3000) is NO


# Sentences in many styles of models, written for this test before the rules were; a third was left alone until they
# were done (`final`). Floors of F1 of `yes`, F1 of `partial`, a little below what was measured.
@pytest.mark.parametrize(("final", "floors"), [(False, (0.98, 0.95)), (True, (0.96, 0.85))])
def test_sentences_that_were_not_written_for_the_rules(final: bool, floors: tuple[float, float]) -> None:
    lines = Path(__file__).with_name("idk_sentences.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["final"] is final]
    table = confusion(RuleBasedIdk(), [Labelled(_response(row["text"]), row["idk"]) for row in rows])
    assert len(rows) == (107 if final else 471)
    for verdict, floor in zip(("yes", "partial"), floors, strict=True):
        assert agreement_of(table, verdict).f1 >= floor


@pytest.mark.parametrize("system", ["system_a", "system_b"])
def test_agreement_with_a_judge_on_real_systems(system: str) -> None:
    path = REAL_DATA / "idk" / f"{system}.jsonl"
    if not path.is_file():
        pytest.skip(f"no labelled answers at {path}")
    rows = read_labelled(path)
    assert len(rows) == 507
    table = confusion(RuleBasedIdk(), rows)
    floors = {"system_a": (0.97, 0.7), "system_b": (0.74, 0.76)}[system]
    assert agreement_of(table, "yes").kappa >= floors[0]
    assert agreement_of(table, "partial").kappa >= floors[1] - 0.02


@pytest.mark.parametrize("answerability", list(Answerability))
@pytest.mark.parametrize("verdict", [*IdkVerdict, None])
def test_answerability_accuracy_over_the_whole_table(answerability: Answerability, verdict: IdkVerdict | None) -> None:
    right = {
        (Answerability.ANSWERABLE, NO),
        (Answerability.ANSWERABLE, PARTIAL),
        (Answerability.PARTIAL, NO),
        (Answerability.PARTIAL, PARTIAL),
        (Answerability.UNANSWERABLE, YES),
    }
    undefined = answerability in (Answerability.CONVERSATIONAL, Answerability.UNDERSPECIFIED) or verdict is None
    expected = None if undefined else (answerability, verdict) in right
    assert answerability_correct(answerability, verdict) is expected
    score = answerability_accuracy(answerability, verdict)
    assert score.value == (None if expected is None else float(expected))
    assert bool(score.reason) is (expected is None)


def test_reason_without_a_verdict_is_the_shared_one() -> None:
    assert answerability_accuracy(Answerability.UNANSWERABLE, None).reason == NO_VERDICT


# Floors a little below what `perf/idk_agreement.py` printed when the rules were set: kappa, recall of `yes`.
FLOORS = {"reference": (0.91, 0.92), "judge": (0.89, 0.93), "mtrag_un": (0.96, 0.95)}


@pytest.mark.parametrize(("name", "n_rows"), [("reference", 842), ("judge", 471), ("mtrag_un", 507)])
def test_agreement_with_mtrag(mtrag_root: Path, name: str, n_rows: int) -> None:
    rows = read_mtrag(mtrag_root)[name]
    assert len(rows) == n_rows
    found = agreement_of(confusion(RuleBasedIdk(), rows), "yes")
    assert found.kappa >= FLOORS[name][0]
    assert found.recall >= FLOORS[name][1]


def test_agreement_counts_only_labels_that_say_what_is_right() -> None:
    table = Counter(
        {("yes", "yes"): 3, ("yes", "no"): 1, ("no", "yes"): 1, ("partial", "partial"): 5, ("CONVERSATIONAL", "yes"): 9}
    )
    found = agreement_of(table, "yes")
    assert (found.n_rows, found.prevalence, found.precision, found.recall, found.f1) == (10, 0.4, 0.75, 0.75, 0.75)
    assert found.agreement == 0.8
    assert found.kappa == pytest.approx((0.8 - 0.52) / 0.48)


def test_agreement_without_a_denominator_is_not_a_number() -> None:
    found = agreement_of(Counter({("no", "no"): 2}), "yes")
    assert math.isnan(found.precision)
    assert math.isnan(found.recall)
    assert math.isnan(found.kappa)
