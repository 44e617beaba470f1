"""What the detector learned: refusals in words that no rule lists, and prose that looks like one."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perf.idk_agreement import PLAIN_ANSWERS, agreement_of, confusion, read_unseen
from perf.idk_training import SENTENCES, labelled, learn, read_answers, read_prose, read_sentences
from ragtasks.errors import BenchmarkFileError
from ragtasks.metrics import RuleBasedIdk
from ragtasks.metrics.idk_rules import classify, sentences_of
from ragtasks.metrics.idk_rules._classifying import refuses_by_rule
from ragtasks.metrics.idk_rules._learned import (
    FUNCTION_WORDS,
    WORDS,
    Features,
    answer_probabilities,
    features_of,
    gap_probability,
    tokens_of,
)
from ragtasks.metrics.idk_rules._refusals import FAMILIES, WHOLE, patterns_of
from ragtasks.metrics.idk_rules._vocabulary import words_of
from ragtasks.records import IdkVerdict

WEIGHTS = Path(__file__).parents[2] / "ragtasks" / "metrics" / "idk_rules" / "weights.json"

# Written for this test after the weights were; no rule finds a refusal in them.
UNRULED = [
    "Our records don't outline how a season ticket is transferred.",
    "We're sorry, refunds for lost luggage aren't covered by our travel pages.",
    "My search turned up no material on the bridge's architect.",
    "Neither post ventures a figure for the harvest.",
    "We have no listing for night ferries, I'm afraid.",
]
NO_GAP = [
    "The form does not ask for your income.",
    "No ticket is needed on Sundays.",
    "Unless the tank is empty, the pump does not start.",
    "If our records do not list your name, bring your passport.",
    "He never found the treasure, and nobody has since.",
]


@pytest.mark.parametrize("text", UNRULED)
def test_a_refusal_that_no_rule_lists_is_learned(text: str) -> None:
    assert not any(refuses_by_rule(sentences_of(text)))
    verdict, reason = classify(text)
    assert verdict is IdkVerdict.YES
    assert reason == sentences_of(text)[0]


def test_an_answer_beside_a_learned_refusal_makes_it_partial() -> None:
    answer = (
        "The museum opens at nine from Tuesday to Sunday, and a ticket costs 12 euros for adults and 6 for children."
    )
    verdict, _ = classify(f"{answer} The pages do not touch on group rates.")
    assert verdict is IdkVerdict.PARTIAL


@pytest.mark.parametrize("text", NO_GAP)
def test_absence_in_an_answer_is_none_of_information(text: str) -> None:
    assert classify(text)[0] is IdkVerdict.NO


# Each says of somebody in the answer, or of the world, what a refusal says of a source or of the speaker.
@pytest.mark.parametrize(
    ("finding", "refusal"),
    [
        ("The witness could not provide any information about it.", "The passages could not provide any information."),
        ("Her letters contain no information about the war.", "The passages contain no information about the war."),
        ("The policy does not cover water damage.", "The passages do not cover water damage."),
        ("No, towels are not provided.", "That detail is not provided."),
        ("No, the policy is not mentioned.", "No, the passages do not mention the policy."),
        ("Yes. It is impossible to determine.", "It is impossible to determine."),
        ("It is impossible to determine without a test.", "It is impossible to determine without more information."),
        ("It cannot be determined by its colour.", "It cannot be determined by the text."),
        ("The question has never been answered.", "The question is not answered."),
        ("No records of the colony exist.", "No records of the colony are provided."),
        ("Not available in Europe.", "Not available in the passages."),
        ("It is impossible to tell, so breeders wait until autumn.", "The book does not tell us, so I do not know."),
        (
            "It is impossible to say how long it lasts; on average it takes an hour.",
            "It is impossible to say how long.",
        ),
        (
            "There is no definitive answer, though most critics name Vienna.",
            "There is no definitive answer in the text.",
        ),
        (
            "Probably not, I am not aware of any airline that allows it.",
            "I am not aware of any airline that allows it.",
        ),
        ("No mention of it before 1871.", "No mention of it."),
        ("No information on your file is given by telephone.", "No information on your file is given."),
        ("I did not know either, and it helped me a lot.", "I do not know either, I am afraid."),
        ("I could not find a way around it and paid 80 euros.", "I could not find a way of knowing it."),
        ("Never provide any information about your account.", "Our pages never provide any information about it."),
        ("A claim for which no information was given.", "No information was given."),
        ("They searched the archive and found no mention of it.", "The archive has no mention of it."),
        ("No vaccine against it has been found.", "No information on it has been found."),
        ("The treasurer said she had no idea where it went.", "I have no idea where it went."),
        ("The club found no culprit and could not say who did it.", "I looked at it and could not say who did it."),
        ("We do not share details about applicants.", "We do not have details about applicants."),
        ("I can't say it better.", "I can't say it."),
        ("No contemporary source describes the battle.", "No source describes the battle."),
        ("You do not have to say who told you.", "The passages do not say who told you."),
        (
            "It is unclear whether he was born there, but he died in Graz in 1910.",
            "It is unclear whether he was born there.",
        ),
        ("- No pets\n- No smoking\n- No information to the press", "No information"),
    ],
)
def test_who_lacks_information_decides(finding: str, refusal: str) -> None:
    assert (classify(finding)[0], classify(refusal)[0]) == (IdkVerdict.NO, IdkVerdict.YES)


PATTERNS = [*(pattern for family in FAMILIES for pattern in family.patterns), *WHOLE]


def test_each_list_of_needed_words_names_some() -> None:
    for needs, _ in PATTERNS:
        assert 1 <= len(needs.split(" & ")) <= 3
        assert all(map(words_of, needs.split(" & ")))


def test_no_refusal_is_lost_by_a_look_at_its_words() -> None:
    sentences = [one for path in (SENTENCES, PLAIN_ANSWERS) for one in path.read_text(encoding="utf-8").splitlines()]
    clauses = {clause for line in sentences for clause in re.split(r"[.,;] ?", json.loads(line)["text"].lower())}
    found = {pattern: list(filter(re.compile(pattern).search, clauses)) for _, pattern in PATTERNS[: -len(WHOLE)]}
    found |= {pattern: list(filter(re.compile(pattern).match, clauses)) for _, pattern in WHOLE}
    assert sum(map(bool, found.values())) > 50
    assert [text for pattern, texts in found.items() for text in texts if not is_tried(pattern, text)] == []


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [pattern for _, pattern in PATTERNS], ids=range(len(PATTERNS)))
@settings(max_examples=10, suppress_health_check=[*HealthCheck], deadline=None)
@given(st.data())
def test_all_that_a_pattern_reads_has_the_words_that_it_needs(pattern: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True)).lower()
    assert is_tried(pattern, text)


def is_tried(pattern: str, clause: str) -> bool:
    return any(pattern in patterns for patterns in patterns_of(words_of(clause)))


def test_a_gap_beyond_a_reply_of_yes_or_no_is_one() -> None:
    answer = "No, the museum has never charged an entrance fee to anybody"
    assert classify(f"{answer}, but the passages do not say why.")[0] is IdkVerdict.PARTIAL
    assert classify(f"{answer}, but our pages do not touch on group rates.")[0] is not IdkVerdict.NO
    assert classify(f"{answer}, and the pages do not touch it.")[0] is IdkVerdict.NO


def test_plain_answers_in_ten_styles_are_no_refusals() -> None:
    rows = read_unseen(PLAIN_ANSWERS)
    assert Counter(row.label for row in rows) == {"no": 330, "not yes": 10, "yes": 120}
    found = {row.response.text: (row.label, classify(row.response.text)[0]) for row in rows}
    plain = [text for text, (label, verdict) in found.items() if label == "no" and verdict is not IdkVerdict.NO]
    plain += [text for text, (label, verdict) in found.items() if label == "not yes" and verdict is IdkVerdict.YES]
    assert [text[:16] for text in plain] == [  # those that are still taken for one
        "there's no info ",
        "tbh I have no id",
        "no clue who desi",
        "It is uncertain ",
        "A 404 page says ",
        "I have no exact ",
    ]
    assert sum(label == "yes" and verdict is not IdkVerdict.YES for label, verdict in found.values()) == 3


def test_weights_know_words_of_grammar_and_classes_alone() -> None:
    known = {*FUNCTION_WORDS.split(), *" ".join(WORDS.values()).split(), *WORDS}
    names = {name for weights in json.loads(WEIGHTS.read_text(encoding="utf-8")).values() for name in weights}
    words = {word for name in names if name[:1] != "#" for word in re.findall(r"[A-Za-z_'-]+", name)} - {"_"}
    assert words <= known


def test_answers_that_it_learned_from_are_found_again() -> None:
    rows = [labelled(one) for one in read_answers() if one.labels]
    assert Counter(row.label for row in rows) == {"no": 721, "partial": 473, "yes": 405}
    table = confusion(RuleBasedIdk(), rows)
    assert agreement_of(table, "no").kappa >= 0.7
    assert agreement_of(table, "yes").kappa >= 0.45


def test_labels_fit_the_sentences_and_those_kept_for_tests_are_not_learned_from() -> None:
    for answer in [*read_answers(), *read_sentences()]:
        assert len(answer.labels) in (0, len(answer.sentences))
        assert set(answer.labels) <= {"g", "a", "ga", "o"}
    assert len({answer.style for answer in read_answers()}) == 15
    assert len({answer.style for answer in read_answers() if answer.labels}) == 10
    replies = map(json.loads, SENTENCES.read_text(encoding="utf-8").splitlines())
    kept = {reply["text"] for reply in replies if reply["final"]}
    assert len(kept) == 107
    assert kept.isdisjoint(answer.text for answer in [*read_answers(), *read_sentences()])


@pytest.mark.long
def test_the_weights_are_what_the_answers_teach(mtrag_root: Path) -> None:
    learned = learn([*read_answers(), *read_sentences()], read_prose(mtrag_root))
    kept = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    assert learned.keys() == kept.keys()
    for name, weights in kept.items():
        assert learned[name] == pytest.approx(weights, abs=0.01)


def test_a_folder_that_is_no_checkout_teaches_nothing(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError, match="generation_tasks"):
        read_prose(tmp_path)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_any_sentences_have_probabilities(texts: list[str]) -> None:
    assert all(0 <= gap_probability(text) <= 1 for text in texts)
    assert all(0 <= one <= 1 for one in answer_probabilities(texts, [True] * len(texts)))


def test_the_detector_reads_the_features_that_are_weighed_and_no_others() -> None:
    weighed = {"the _ pages", "NOT+SAY", "SOURCE<>SAY", "never there"}
    read = Features(weighed)
    for sentence in ("the zebra pages do not say", "no", "", "the zebra pages do not say"):
        assert read.of(tokens_of(sentence)) == weighed & features_of(tokens_of(sentence))


def test_features_are_those_of_order_and_surroundings() -> None:
    found = features_of(tokens_of("the zebra pages do not say"))
    assert {"the _ pages", "do not say", "NOT+SAY", "SOURCE<", ">SAY", "SOURCE<>SAY", "^+the"} <= found
    assert not any("zebra" in feature for feature in found)
