from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.benchmarks import (
    CONDITIONAL_CONTRACT,
    CONTRACTS,
    NO_REWRITE,
    Contract,
    QuestionClass,
    RewriteReply,
    parse_rewrite,
    read_reply,
)
from ragtasks.benchmarks._rewrite_replies import parse_conditional

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)
QUESTION = "And in  winter?"


def contract(version: object = "v", label: object = "non-standalone") -> str:
    return json.dumps({"class": label, "reworded version": version})


@pytest.mark.parametrize(
    "text",
    [
        contract(),
        f"  {contract()}\n",
        f"```json\n{contract()}\n```",
        f"```\n{contract()}\n```",
        '{\n  "reworded version": "v",\n  "class": "non-standalone"\n}',
        contract(" v\n"),
    ],
)
def test_valid_reply_is_read(text: str) -> None:
    assert parse_rewrite(text) == (QuestionClass.NON_STANDALONE, "v")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not one JSON object"),
        ("v", "not one JSON object"),
        ('"v"', "not one JSON object"),
        (f"[{contract()}]", "not one JSON object"),
        (f"Here it is: {contract()}", "not one JSON object"),
        (f"{contract()} Hope this helps!", "not one JSON object"),
        (f"{contract()}\n{contract()}", "not one JSON object"),
        (f"```json\n{contract()}", "not one JSON object"),
        ("[" * 100_000, "not one JSON object"),
        ('{"class": "standalone"}', "unexpected or missing keys"),
        ('{"class": "standalone", "reworded version": "v", "note": ""}', "unexpected or missing keys"),
        ('{"Class": "standalone", "reworded version": "v"}', "unexpected or missing keys"),
        ('{"class": "standalone", "class": "non-standalone", "reworded version": "v"}', "twice"),
        (contract(label="partly"), "unknown class"),
        (contract(label=["standalone"]), "unknown class"),
        (contract(label=None), "unknown class"),
        (contract(" "), "no reworded version"),
        (contract(None), "no reworded version"),
        (contract({"q": "v"}), "no reworded version"),
        (contract("\ud83d"), "unpaired surrogate"),
    ],
)
def test_an_invalid_reply_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_rewrite(text)


@given(TEXTS, st.sampled_from(QuestionClass))
def test_written_values_are_read_back(version: str, label: QuestionClass) -> None:
    assert parse_rewrite(contract(version, label.value)) == (label, " ".join(version.split()))


@pytest.mark.parametrize(
    "text", ["no_rewrite", " no_rewrite\n", "no_rewrite.", "no_rewrite and a lot more\nthat nobody reads"]
)
def test_no_rewrite_returns_the_question_unchanged(text: str) -> None:
    assert parse_conditional(text, QUESTION) == (QuestionClass.STANDALONE, QUESTION)


@pytest.mark.parametrize("text", ["rewrite: snow  in winter", "rewrite snow in winter", "rewrite:snow in winter\n"])
def test_the_text_after_rewrite_is_the_query(text: str) -> None:
    assert parse_conditional(text, QUESTION) == (QuestionClass.NON_STANDALONE, "snow in winter")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no keyword"),
        ("snow in winter", "no keyword"),
        ("I would say no_rewrite", "no keyword"),
        ("no_rewrites", "no keyword"),
        ("rewritesnow", "no keyword"),
        ("Rewrite: snow", "no keyword"),
        (contract(), "no keyword"),
        ("rewrite", "no reworded version"),
        ("rewrite: ", "no reworded version"),
        ("rewrite: snow\nin winter", "more than one line"),
        ("rewrite: \ud83d", "unpaired surrogate"),
    ],
)
def test_an_invalid_conditional_reply_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_conditional(text, QUESTION)


@given(st.sampled_from(sorted(CONTRACTS)).map(CONTRACTS.__getitem__), TEXTS, TEXTS)
def test_a_written_reply_reads_back_as_its_rewrite(contract: Contract, question: str, rewrite: str) -> None:
    reading = read_reply(contract, contract.write(question, rewrite), question)
    assert not reading.problem
    assert reading.query.split() == rewrite.split()
    assert (reading.question_class is QuestionClass.STANDALONE) == (question == rewrite)


@given(st.sampled_from(sorted(CONTRACTS)).map(CONTRACTS.__getitem__), st.text(), TEXTS)
def test_any_reply_gives_a_query_and_an_invalid_reply_gives_the_question(
    contract: Contract, text: str, question: str
) -> None:
    reading = read_reply(contract, text, question)
    assert reading.query.strip()
    if reading.problem:
        assert reading == RewriteReply(question, None, reading.problem)
        assert reading.problem.startswith("invalid reply: ")


def test_a_standalone_question_is_written_as_no_rewrite() -> None:
    assert CONDITIONAL_CONTRACT.write(QUESTION, QUESTION) == NO_REWRITE
