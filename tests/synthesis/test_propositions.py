"""Units of dialogues: complete sentences, and statements supported by their passages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from ragtasks.records import Passage
from ragtasks.synthesis.asking import Asker
from ragtasks.synthesis.cutting import DocumentPassage
from ragtasks.synthesis.documents import Document, LeftOut
from ragtasks.synthesis.propositions import Unit, cut_sentences, extract_propositions, sublists
from tests.judges._scripted import ScriptedClient
from tests.synthesis._scripted import sections

TEXT = "The mill grinds.  The port sleeps. The fair sells."
DOCUMENT = Document("a.txt", "custom", "Places", TEXT)


def cut(start: int, end: int, document: Document = DOCUMENT) -> DocumentPassage:
    name = f"{document.document_id}-{start}-{end}"
    return DocumentPassage(
        Passage(name, document.text[start:end], document.title), document.document_id, document.domain
    )


@pytest.mark.parametrize(
    ("passages", "held"),
    [
        ([cut(0, 50)], {"The mill grinds.": ["a.txt-0-50"], "The port sleeps.": ["a.txt-0-50"]}),
        ([cut(0, 16), cut(18, 34)], {"The mill grinds.": ["a.txt-0-16"], "The port sleeps.": ["a.txt-18-34"]}),
        ([cut(0, 33), cut(18, 34)], {"The mill grinds.": ["a.txt-0-33"], "The port sleeps.": ["a.txt-18-34"]}),
        ([cut(0, 33), cut(19, 34)], {"The mill grinds.": ["a.txt-0-33"]}),
        ([cut(1, 33)], {}),
        ([cut(0, 34), cut(0, 40)], {"The port sleeps.": ["a.txt-0-34", "a.txt-0-40"]}),
        ([], {}),
    ],
)
def test_a_sentence_belongs_to_passages_that_contain_it_completely(
    passages: Sequence[DocumentPassage], held: Mapping[str, Sequence[str]]
) -> None:
    units = cut_sentences([DOCUMENT], passages)
    result = {unit.text: list(unit.passage_ids) for unit in units}
    assert {text: result[text] for text in held} == dict(held)
    assert ("The port sleeps." in result) == ("The port sleeps." in held)
    assert [unit.unit_id for unit in units] == [f"s{number}" for number in range(1, len(units) + 1)]


def test_a_sentence_never_belongs_to_another_documents_passages() -> None:
    other = Document("b.txt", "south", "Other places", TEXT)
    units = cut_sentences([DOCUMENT, other], [cut(0, 16, other)])
    assert [(unit.text, unit.document_id, unit.domain) for unit in units] == [("The mill grinds.", "b.txt", "south")]


def extracted(
    passages: Sequence[DocumentPassage], statements: Mapping[str, Sequence[str]]
) -> tuple[list[Unit], list[LeftOut], Counter[str]]:
    """Return the extraction for a model that replies with the given statements by passage text."""

    def reply_to(prompt: str, n_before: int) -> str:
        return json.dumps({"propositions": statements.get(sections(prompt)["passage"][0], [])})

    return extract_propositions(passages, Asker(ScriptedClient(reply_to)))


def passage(name: str, text: str, *, document: str = "a.txt", domain: str = "custom") -> DocumentPassage:
    return DocumentPassage(Passage(name, text, "Arden"), document, domain)


MADE_UP = "propositions with words missing from their passage (invented, or in another language)"


@pytest.mark.parametrize(
    ("statement", "stays"),
    [
        ("mill grinds aa bb cc", True),  # two words of five
        ("mill grinds aa bb cc dd", False),  # two of six
        ("Mill Arden aa bb cc", True),  # its title counts
        ("aa bb cc", False),
    ],
)
def test_a_statement_must_share_two_fifths_of_its_words_with_its_passage(statement: str, stays: bool) -> None:
    text = "The mill grinds corn."
    units, _, counts = extracted([passage("one", text)], {text: [statement, "The mill grinds"]})
    assert [unit.text for unit in units] == ([statement] if stays else []) + ["The mill grinds"]
    assert counts == ({} if stays else {MADE_UP: 1})


@pytest.mark.parametrize(("n_words", "is_held"), [(10, True), (9, True), (8, False)])
def test_an_adjacent_passage_with_nine_tenths_of_the_words_also_supports_a_statement(
    n_words: int, is_held: bool
) -> None:
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    statement = " ".join(words)
    near, far = " ".join([*words[:n_words], "and", "so", "on"]), f"{statement} far away"
    passages = [
        passage("before", near),
        passage("its", statement),
        passage("after", f"{near} again"),
        passage("second after", far),
    ]
    (unit,), *_ = extracted(passages, {statement: [statement]})
    assert unit.passage_ids == (("its", "before", "after") if is_held else ("its",))


def test_an_adjacent_passage_of_another_document_never_supports_a_statement() -> None:
    first, other = "The mill of Arden grinds corn.", "The mill of Arden grinds corn. It does."
    units, *_ = extracted([passage("one", first), passage("two", other, document="b.txt")], {first: [first]})
    assert [unit.passage_ids for unit in units] == [("one",)]


def test_a_statement_is_listed_once_per_domain_with_all_its_passages() -> None:
    texts = ["The mill grinds corn.", "A port sleeps.", "THE MILL grinds corn.", "The mill grinds corn. So."]
    passages = [
        passage("one", texts[0]),
        passage("two", texts[1]),
        passage("three", texts[2], document="b.txt"),
        passage("four", texts[3], document="c.txt", domain="south"),
    ]
    statements = {texts[0]: [texts[0]], texts[2]: [texts[2]], texts[3]: [texts[0]], texts[1]: []}
    units, _, counts = extracted(passages, statements)
    assert [(unit.unit_id, unit.text, unit.passage_ids, unit.document_id, unit.domain) for unit in units] == [
        ("p1", texts[0], ("one", "three"), "a.txt", "custom"),
        ("p2", texts[0], ("four",), "c.txt", "south"),
    ]
    assert counts == {"passages without propositions": 1}


@pytest.mark.parametrize(("n", "is_read"), [(200, True), (201, False)])
def test_a_reply_with_too_many_statements_is_left_out(n: int, is_read: bool) -> None:
    text = " ".join(f"w{number}" for number in range(n))
    units, left_out, _ = extracted([passage("one", text)], {text: [f"w{number}" for number in range(n)]})
    assert len(units) == (n if is_read else 0)
    assert [omitted.name for omitted in left_out] == ([] if is_read else ["one"])


def test_lists_partition_the_adjacent_units_of_a_domain() -> None:
    texts = [f"word{n} stays here" for n in range(5)]
    passages = [passage(f"n{n}", text, domain="north" if n != 1 else "south") for n, text in enumerate(texts)]
    units, *_ = extracted(passages, {text: [text] for text in texts})
    assert [[unit.text[:5] for unit in part] for part in sublists(units, 3)] == [
        ["word0", "word2", "word3"],
        ["word4"],
        ["word1"],
    ]
