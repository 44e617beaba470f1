"""Refusals in twelve languages, by what was learned, and short texts whose language nothing tells."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perf.idk_agreement import response_of
from ragtasks.metrics import RuleBasedIdk
from ragtasks.metrics.idk_languages import (
    HELD_BACK,
    LANGUAGES,
    Sentence,
    classify,
    labelled_sentences,
    read,
    table_of,
)
from ragtasks.records import Answerability, IdkVerdict

FLOORS = {8: (720, 620), 10: (720, 680), 11: (720, 668), 12: (420, 378), 13: (720, 655)}
"""Held-back round -> how many sentences it has, and how many of them are read right at least."""
YES, PARTIAL, NO = IdkVerdict.YES, IdkVerdict.PARTIAL, IdkVerdict.NO


def _detect(text: str) -> IdkVerdict | None:
    (label,) = RuleBasedIdk().detect([response_of("c<::>1", Answerability.ANSWERABLE, text)])
    return label.verdict


def _labelled(*, held_back: bool) -> list[Sentence]:
    return [row for row in labelled_sentences() if (row.round in HELD_BACK) is held_back]


def test_refusals_and_what_looks_like_them_are_told_apart_in_twelve_languages() -> None:
    rows = _labelled(held_back=False)[::20]
    assert {row.language for row in rows} == set(LANGUAGES)
    right: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        verdict = _detect(row.text)
        right[row.language].append(verdict is not None and verdict.value == row.idk)
    assert Counter(row.idk for row in rows)["yes"] >= 0.4 * len(rows)
    assert all(sum(of_one) >= 0.9 * len(of_one) for of_one in right.values())


@pytest.mark.parametrize("number", sorted(HELD_BACK))
def test_of_sentences_that_nothing_was_changed_for_most_are_read(number: int) -> None:
    rows = [row for row in _labelled(held_back=True) if row.round == number]
    right = [(_detect(row.text) is YES) is (row.idk == "yes") for row in rows]
    n_sentences, floor = FLOORS[number]
    assert len(right) == n_sentences
    assert sum(right) >= floor


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Ich weiß es nicht.", YES),
        ("Er sagte, ich weiß es nicht.", NO),
        ("Sie antwortete „Ich weiß es nicht“.", NO),
        ("Le pont a été inauguré en 1889. Les documents ne disent pas qui l'a construit.", PARTIAL),
        ("Ich weiß nicht, wer sie gebaut hat, aber eröffnet wurde die Brücke 1889.", PARTIAL),
        ("No lo sé.", YES),
        ("我不知道。", YES),
        ("Nein.", NO),
        ("Москва стоит на реке.", NO),
    ],
)
def test_who_lacks_information_decides_in_other_languages(text: str, verdict: IdkVerdict) -> None:
    assert _detect(text) is verdict


def test_the_reason_quotes_the_clause_that_refuses() -> None:
    refusal = "Das weiß ich leider nicht. Am besten fragen Sie im Rathaus nach."
    assert classify(refusal, "de") == (YES, "(de) clause 1 of 2: das weiß ich leider nicht.")
    remark = "Die Fähre fährt um 9 Uhr. Zum Fahrpreis steht in den Unterlagen leider nichts."
    verdict, reason = classify(remark, "de")
    assert (verdict, reason.split(":")[0]) == (PARTIAL, "(de) clause 2 of 2")


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_long_answer_that_denies_much_is_no_refusal(code: str) -> None:
    plain = [row.text for row in labelled_sentences() if (row.language, row.idk, row.round) == (code, "no", 5)]
    assert classify(" ".join(plain), code)[0] is not YES
    assert classify(" ".join(plain[:4]), code)[0] is not YES


def test_a_language_without_a_table_is_not_read() -> None:
    verdict, reason = read("Jag kan tyvärr inte hitta någon information om detta i dokumenten som du gav mig.") or (
        NO,
        "",
    )
    assert (verdict, reason) == (None, "not read: its language is sv, which has no table")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        *(("de", text) for text in ("Berlin.", "Im Jahr 1889.", "Ja.", "Fünf Euro.", "Das Handbuch.")),
        *(("fr", text) for text in ("Victor Hugo.", "En 1889.", "Oui.", "Le rapport.")),
        *(("es", text) for text in ("Madrid.", "En 1990.", "Sí.", "La carta.")),
        *(("it", text) for text in ("Roma.", "Nel 1990.", "Sì.", "Il rapporto.")),
        *(("pt", text) for text in ("Lisboa.", "Em 1990.", "Sim.", "O relatório.")),
        *(("nl", text) for text in ("Amsterdam.", "In 1990.", "Ja.", "Het verslag.")),
        *(("ru", text) for text in ("Москва.", "В 1990 году.", "Да.")),  # noqa: RUF001
        *(("ar", text) for text in ("القاهرة.", "نعم.")),
        *(("hi", text) for text in ("दिल्ली।", "हाँ।")),
        *(("zh", text) for text in ("北京。", "1990年。")),
        *(("ja", text) for text in ("東京です。", "はい。")),
        *(("ko", text) for text in ("서울입니다.", "네.")),
    ],
)
def test_a_short_answer_is_no_refusal(code: str, text: str) -> None:
    assert classify(text, code)[0] is NO


def test_a_short_text_in_a_script_of_several_languages_is_not_read_unless_it_refuses() -> None:
    assert read("Москва.") == (None, "not read: it is no English, and too short to tell its language")
    assert _detect("Не знаю.") is YES  # noqa: RUF001
    assert _detect("Это столица.") is NO  # only Russian has this letter


@pytest.mark.parametrize(
    "text",
    [
        "Paris.",
        "Rio de Janeiro",
        "No.",
        "1990",
        "Die Hard",
        "I do not know.",
        "No information.",
        "So beware.",
        "Half a year later, so in December.",
    ],
)
def test_what_may_be_english_is_read_as_english(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize("code", LANGUAGES)
def test_tables_are_patterns(code: str) -> None:
    table = table_of(code)
    assert re.compile(table.contrast)
    assert re.compile(table.sure)
    assert {"neg", "src", "say", "know", "silent", "lost", "open", "puzzle", "sorry"} <= table.words.keys()


@given(st.text(max_size=80), st.sampled_from(LANGUAGES))
def test_any_text_gets_a_verdict_and_a_reason(text: str, code: str) -> None:
    verdict, reason = classify(text, code)
    assert verdict in IdkVerdict
    assert code in reason
