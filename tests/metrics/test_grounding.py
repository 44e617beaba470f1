"""Grounding: unusual answers, spans, sources, and tokenization."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragtasks.errors import ConfigurationError
from ragtasks.metrics import GROUNDED, Grounding, Source, Span, copied, ground, grounded
from ragtasks.metrics.grounding import GroundedAnswer, share_in
from ragtasks.records import Message, Passage, Role
from tests._messages import raises

LOAN = "Books are lent for three weeks. A loan can be renewed twice, at the desk."
GOLDEN = json.loads((Path(__file__).parent / "golden_grounding.json").read_text(encoding="utf-8"))


def share(answer: str, *passages: str) -> float | None:
    return ground(answer, passages).share


ODD: list[tuple[str, str, str, float | None]] = [
    ("copied whole", LOAN, LOAN, 1.0),
    ("inflected", "Book lent three week; renewing loans twice", LOAN, 1.0),
    ("a function word of it", "Fines must be paid in cash.", LOAN, 1 / 9),
    ("nothing of it", "Fines must stay cash.", LOAN, 0.0),
    ("empty", "", LOAN, None),
    ("only marks", "?! ...", LOAN, None),
    ("only function words", "It is not there.", LOAN, None),
    ("code", "```python\nloan = renew(book)\n```", "Call `renew(book)`, which gives a loan.", 1.0),
    ("code of no words", "~~~\n{}\n~~~", LOAN, None),
    ("HTML", "<ul><li>Books are <b>lent</b></li><li class='x'>for weeks<br/></li></ul>", LOAN, 1.0),
    ("what is no tag", "loan <b and c> weeks </d>", LOAN, 2 / 5),
    ("link", "Ask at the [desk](https://lib.example/desks/(main)?at=9 'Riverton').", LOAN, 4 / 6),
    ("link to a place", "[Loan](#loans) and [desk](/desk).", LOAN, 4 / 5),
    ("link cited", "Books are lent [1](https://lib.example/loans).", LOAN, 1.0),
    ("links at the end", "Books are lent [as here][a].\n\n[a]: https://lib.example/loans 'All loans'", LOAN, 6 / 8),
    ("what is no link", "A loan [of books](at the desk)", LOAN, 9 / 10),
    ("table", "| item | weeks |\n|---|---|\n| book | 3 |", "Item, weeks: a book, 3.", 1.0),
    ("list", "- books\n- weeks\n1. loan", LOAN, 1.0),
    ("quotes", "“A loan can be renewed twice”, it says: 'at the desk'.", LOAN, 13 / 16),
    ("separators", "1,234,567 and 1 234 567 and 1'234'567.0", "We count 1.234.567 books.", 6 / 8),
    ("decimals", "It is 2.50, or 2,5.", "The price is 2.5 euros.", 5 / 7),
    ("scales", "1.5 million books", "1,500,000 books", 1.0),
    ("words of numbers", "twelve books, thirty weeks", "12 books, 30 weeks", 1.0),
    ("percent", "20 percent of books", "20% of books", 1.0),
    ("another number", "for 4 weeks", "for 3 weeks", 3 / 5),
    ("units apart", "10GB of books", "10 GB of books", 1.0),
    ("short units", "5 kg, 3 km and 2 hrs", "5 kilograms, 3 kilometers and 2 hours", 1.0),
    ("zero", "0.0 weeks", "0 weeks", 1.0),
    (
        "German",
        "Die Verträge liefen drei Jahre und wurden verlängert.",
        "Ein Vertrag läuft drei Jahre und wird verlängert.",
        9 / 13,
    ),
    ("name with its accent apart in the passage", "Zürich", "Die Stadt Zu\u0308rich liegt am See.", 1.0),
    ("name with its accent apart", "Zu\u0308rich", "Die Stadt Zürich liegt am See.", 1.0),
    ("Chinese", "北京是中国的首都。", "中国的首都是北京。", 13 / 15),
    ("Japanese", "東京は日本の首都です。", "日本の首都は東京です。", 16 / 19),
    ("Thai", "กรุงเทพเป็นเมืองหลวง", "เมืองหลวงคือกรุงเทพ", 31 / 39),
    ("no stemmer", "Столиця України місто Київ", "Столицею України є Київ, велике місто.", 1.0),
    ("emoji", "Books 📚 are lent 👍 for weeks", LOAN, 1.0),
    ("addresses", "See https://example.org/loans?book=3", "https://example.org/loans?book=3", 6 / 7),
    ("citations are no words", "Books are lent for three weeks [1, 7][12].", LOAN, 1.0),
    ("abbreviations", "In the U.S. and in D.C. at 5 p.m., e.g. a loan etc.", "US, DC: a loan at 5 pm", 11 / 17),
    ("abbreviations of a passage", "US, DC: a loan at 5 pm", "In the U.S. and in D.C. at 5 p.m., e.g. a loan", 1.0),
    ("initials", "J. R. Smith", "J.R. Smith", 1.0),
    ("curly apostrophes", "the book\u2019s loan", "the book's loan", 1.0),
    ("a null character", "Books are\0lent", LOAN, 1.0),
]


@pytest.mark.parametrize(("answer", "passage", "expected"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
def test_shares_of_unusual_answers(answer: str, passage: str, expected: float | None) -> None:
    result = share(answer, passage)
    assert result == (expected if expected is None else pytest.approx(expected))


def test_abbreviations_do_not_end_sentences_and_match_the_passage() -> None:
    answer = "See Art. 6, No. 5 and Fig. 2. Dr. Xavier of the U.S. comes at 5 p.m., i.e. late."
    result = ground(answer, [answer.lower().replace(".", "")])
    assert [
        (sentence.text.split()[0], sentence.not_found, sentence.numbers_not_found) for sentence in result.sentences
    ] == [
        ("See", (), ()),
        ("Dr.", (), ()),
    ]


@pytest.mark.parametrize(("answer", "content"), GOLDEN["content of other languages"])
def test_function_words_of_other_languages_are_not_content_words(answer: str, content: str) -> None:
    (sentence,) = ground(answer, ["zzz"]).sentences
    assert " ".join(answer[span.start : span.end] for span in sentence.not_found) == content


@pytest.mark.parametrize("text", [row[1] for row in GOLDEN["pdf text"]], ids=[row[0] for row in GOLDEN["pdf text"]])
def test_text_extracted_from_pdf_has_the_visible_words(text: str) -> None:
    plain = "The office offers flexible workflows to affiliated staff here."
    plain = plain.replace("here", "h\u00e9re") if "\u0301" in text else plain
    for answer, passage in ((plain, text), (text, plain), (text, text)):
        result = ground(answer, [passage])
        assert (result.share, result.copied) == (1.0, 1.0)
        assert [sentence.not_found for sentence in result.sentences] == [()]
        assert all(answer[sentence.span.start : sentence.span.end] == sentence.text for sentence in result.sentences)


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("long-term loans", "long-\nterm loans"),
        ("longterm loans", "long-term loans"),
        ("information on loans", "infor- mation on loans"),
    ],
)
def test_a_hyphen_at_a_line_end_may_be_part_of_the_word(answer: str, passage: str) -> None:
    assert share(answer, passage) == 1.0


def test_two_words_joined_by_a_dash_stay_separate() -> None:
    assert share("books loans", "books -\nloans") == 1.0
    assert share("booksloans", "books\nloans") == 0.0


@pytest.mark.parametrize(("answer", "passage"), GOLDEN["same numbers"])
def test_a_number_matches_in_any_notation(answer: str, passage: str) -> None:
    assert [sentence.numbers_not_found for sentence in ground(answer, [passage]).sentences] == [()]


@pytest.mark.parametrize("hour", ["8 pm", "8 p.m.", "8pm"])
def test_hours_match_between_12_and_24_hour_clocks(hour: str) -> None:
    (sentence,) = ground(f"It opens at {hour}", ["It opens at 20:00."]).sentences
    assert sentence.not_found == ()
    (other,) = ground(f"It opens at {hour}", ["It opens at 8:00."]).sentences
    assert other.not_found != ()


@pytest.mark.parametrize(("answer", "passage", "wrong"), GOLDEN["other numbers"])
def test_a_similar_number_does_not_match(answer: str, passage: str, wrong: str) -> None:
    assert [sentence.numbers_not_found for sentence in ground(answer, [passage]).sentences] == [(wrong,)]


def test_the_metrics_have_no_direction() -> None:
    assert (GROUNDED.higher_is_better, GROUNDED.in_groups) == (None, False)


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        ("1. Ask for a loan.\n2. Keep the book for 9 weeks.", ["9"]),
        ("1) Ask for a loan.\n\n2) Keep the book.\n   3) Renew it.", []),
        ("**1.** Ask.\n- 2. Renew.\n### 3. Return\n> 4. Pay", []),
        ("1. Ask.\n1. Renew.", []),
        ("To renew: (1) ask, (2) wait, and (3) pay 4 euros.", ["4"]),
        ("Do this: 1. Ask at the desk. 2. Wait.", []),
        ("9. Ask.\n10. Renew.\n11. Pay.", []),
        ("40. That is how many are lent.", ["40"]),
        ("They lend 40. Then 50. No more.", ["40", "50"]),
        ("There are 7) or 8. No more.", ["7", "8"]),
    ],
)
def test_list_numbers_do_not_count_as_numbers(answer: str, numbers: list[str]) -> None:
    result = ground(answer, [LOAN])
    assert [number for sentence in result.sentences for number in sentence.numbers_not_found] == numbers
    assert all(answer[sentence.span.start : sentence.span.end] == sentence.text for sentence in result.sentences)


def test_a_number_missing_from_all_passages_is_listed() -> None:
    result = ground("A loan can be renewed 5 times. It takes 1,000 days.", [LOAN], ["In 1000 days?"])
    assert [sentence.numbers_not_found for sentence in result.sentences] == [("5",), ()]


@pytest.mark.parametrize(("answer", "passage", "flipped"), GOLDEN["negations"])
def test_a_flipped_negation_is_reported(answer: str, passage: str, flipped: str | None) -> None:
    spans = [sentence.flipped for sentence in ground(answer, [passage]).sentences if sentence.flipped]
    assert [answer[span.start : span.end] for span in spans] == ([flipped] if flipped else [])


def test_each_sentence_has_its_passage_and_span() -> None:
    passages = ["Magazines are lent for a week.", f"Opening hours are nine to five. {LOAN} Fines are low."]
    answer = "Opening hours: nine to five.\n\nRenew a loan twice at the desk [2]! Whatever."
    result = ground(answer, passages)
    assert [sentence.text for sentence in result.sentences] == [
        "Opening hours: nine to five.",
        "Renew a loan twice at the desk [2]!",
        "Whatever.",
    ]
    assert all(answer[sentence.span.start : sentence.span.end] == sentence.text for sentence in result.sentences)
    best_spans = [sentence.best for sentence in result.sentences]
    assert best_spans[0] is not None
    assert best_spans[1] is not None
    assert best_spans[2] is None
    texts = [passages[best.passage][best.span.start : best.span.end] for best in best_spans if best]
    assert texts == ["Opening hours are nine to five", "loan can be renewed twice, at the desk"]
    assert [sentence.cited for sentence in result.sentences] == [(), (2,), ()]
    assert [answer[span.start : span.end] for span in result.sentences[2].not_found] == ["Whatever"]


def test_a_span_has_at_most_three_times_the_words_of_its_sentence() -> None:
    """Otherwise a passage that repeats the same words throughout would be one span."""
    passage = "A book is on loan, " * 9
    (sentence,) = ground("Books on loan.", [passage]).sentences
    assert passage[sentence.best.span.start : sentence.best.span.end].split() == passage.split()[1:17]


def test_a_span_omits_sentences_without_new_words() -> None:
    passage = "Hand tools are lent for 21 days. Power tools are lent for 5 days. Tools are lent for days."
    (sentence,) = ground("Power tools are lent for 5 days.", [passage]).sentences
    assert passage[sentence.best.span.start : sentence.best.span.end] == "Power tools are lent for 5 days"


@pytest.mark.parametrize(
    ("passage", "expected"), [("A book shop loan.", "book shop loan"), ("A book shop street loan.", "book")]
)
def test_a_span_skips_one_other_word_but_not_two(passage: str, expected: str) -> None:
    (sentence,) = ground("Book loan.", [passage]).sentences
    assert passage[sentence.best.span.start : sentence.best.span.end] == expected


def test_names_missing_from_all_texts_are_not_supported() -> None:
    passages = ["We met at the desk.", "Anna Berg is at the desk."]
    assert GroundedAnswer("We met Anna Berg at the desk.", passages).is_supported(0.7)
    assert not GroundedAnswer("We met Anna Berg at the desk.", passages[:1]).is_supported(0.7)


def test_words_of_an_earlier_turn_are_from_the_conversation() -> None:
    history = ["Can I borrow films?", "Films cannot be borrowed here.", "How long may I keep a book?"]
    result = ground("Films cannot be borrowed here. A book may be kept three weeks.", [LOAN], history)
    assert [sentence.source for sentence in result.sentences] == [Source.CONVERSATION, Source.PASSAGES]
    assert result.share < result.share_with_conversation
    films = result.sentences[0]
    assert films.from_conversation == films.not_found == (Span(0, 5), Span(16, 24))
    messages = [Message(Role.USER, text) for text in history]
    records = [{"role": "user", "content": text} for text in history]
    assert ground("Films", [LOAN], messages) == ground("Films", [LOAN], records) == ground("Films", [LOAN], history)


def test_words_of_the_question_alone_are_not_in_the_passages() -> None:
    question = "What does parking cost?"
    assert grounded("Parking costs money", [Passage("1", LOAN)]) == 0
    result = ground("Parking costs money", [LOAN], [question])
    assert (result.share, result.share_with_conversation) == (0, pytest.approx(4 / 6))
    assert result.sentences[0].source is Source.QUESTION
    assert result.sentences[0].from_conversation == (Span(0, 7), Span(8, 13))


def test_a_function_word_counts_half() -> None:
    assert share("a loan of the library", LOAN) == pytest.approx((2 + 1 + 1) / (4 + 3))
    assert share("of it", LOAN) is None


def test_a_title_supports_words_but_has_no_span() -> None:
    passage = Passage("1", "Open at nine.", title="Library of Riverton")
    result = ground("Riverton library", [passage])
    assert result.share == 1
    assert result.sentences[0].best is None
    assert ground("Riverton library", [{"text": "Open at nine.", "title": "Library of Riverton"}]) == result


def test_runs_of_five_words_are_copied() -> None:
    assert copied("Books are lent for three weeks, never for good.", [LOAN]) == pytest.approx(6 / 9)
    assert copied("Lent for three weeks", [LOAN]) == 0
    assert copied("", [LOAN]) is None
    assert copied("Books", []) is None


def test_without_passages_there_is_no_share() -> None:
    result = ground("Books are lent.", [], ["Are books lent?"])
    assert (result.share, result.share_with_conversation, result.copied) == (None, None, None)
    assert repr(result) == "<Grounding: no share, 1 sentence>\n  100%  question      Books are lent."
    assert grounded("Books are lent.", []) is None


def test_the_repr_lists_the_source_of_each_sentence() -> None:
    answer = "Books are lent for three weeks. Renewed 9 times."
    assert repr(ground(answer, [LOAN])).splitlines() == [
        "<Grounding: 75% grounded, 67% copied, 2 sentences>",
        "  100%  passage 1     Books are lent for three weeks.",
        "   33%  nothing       Renewed 9 times.  (numbers not found: 9)",
    ]
    many = repr(ground("\n".join(["A book."] * 30), [LOAN])).splitlines()
    assert (len(many), many[-1]) == (22, "  ... and 10 more")


@pytest.mark.parametrize("bad", [{"body": "text"}, 3, {"text": None}])
def test_a_passage_without_text_is_an_error(bad: object) -> None:
    with raises(ConfigurationError):
        ground("Books", [LOAN, bad])  # type: ignore[list-item]


LONG_OF = [
    "Books are lent for 3 weeks [1]. ",
    "U.S. ",
    "a.b.",
    "word ",
    "[1]",
    "不 ",
    "1. a ",
    "[a](/",
    "```\n",
    "a-\n",
    "(a.pdf) ",
    "<cite ",
]


@pytest.mark.parametrize("repeated", LONG_OF)
def test_fifty_kilobytes_take_linear_time(repeated: str) -> None:
    def seconds(characters: int) -> float:
        text = repeated * (characters // len(repeated))
        start = time.process_time()
        ground(text, [text, LOAN])
        return time.process_time() - start

    small = max(0.1, seconds(12_500))
    # 4 times if linear, 16 if quadratic; the best of three, since a busy machine slows any single run.
    assert any(seconds(50_000) < 12 * small for _ in range(3))


PIECES = [
    "[1]",
    "<co: 0>",
    "</co: 0>",
    "[^1]",
    "[^1]: a",
    "(doc 2)",
    "\u30101\u2020a\u3011",
    ".\u00b9",
    "not ",
    "1,000 ",
]
TEXTS = st.text(alphabet="ab 1.,!?\n[]不'A%-", max_size=60) | st.lists(
    st.sampled_from([*PIECES, "word ", "\n", "不"]), max_size=12
).map("".join)


@given(TEXTS, st.lists(TEXTS, max_size=3), st.lists(TEXTS, max_size=3))
def test_shares_and_spans_are_valid_for_any_texts(answer: str, passages: list[str], history: list[str]) -> None:
    result: Grounding = ground(answer, passages, history)
    for sentence in result.sentences:
        assert answer[sentence.span.start : sentence.span.end] == sentence.text
        assert all(sentence.span.start <= span.start < span.end <= sentence.span.end for span in sentence.not_found)
    if result.share is not None:
        assert 0 <= result.share <= (result.share_with_conversation or 0) <= 1
    shown = [Passage(str(index), text) for index, text in enumerate(passages)]
    assert grounded(answer, shown) == result.share


@given(TEXTS, st.lists(TEXTS, max_size=3), st.lists(TEXTS, max_size=3), st.sampled_from([0.0, 0.4, 1.0]))
def test_a_supported_answer_has_the_required_share_and_every_number(
    answer: str, passages: list[str], history: list[str], least: float
) -> None:
    result = ground(answer, ["", *passages], history)
    if GroundedAnswer(answer, ["", *passages], history).is_supported(least):
        assert result.share_with_conversation is None or result.share_with_conversation >= least
        assert not [number for sentence in result.sentences for number in sentence.numbers_not_found]


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), st.lists(TEXTS, max_size=3))
def test_results_of_a_grounded_answer_equal_ground(answer: str, passages: list[str], history: list[str]) -> None:
    grounding, grounded_answer = ground(answer, passages, history), GroundedAnswer(answer, passages, history)
    sentences = grounding.sentences
    unsupported = [
        span for sentence in sentences for span in sentence.not_found if span not in sentence.from_conversation
    ]
    assert list(grounded_answer.words_not_found()) == [answer[span.start : span.end] for span in unsupported]
    numbers = [number for sentence in sentences for number in sentence.numbers_not_found]
    assert list(grounded_answer.numbers_not_found()) == numbers
    assert share_in(answer, passages[0]) == (grounded(answer, [Passage("", passages[0])]) or 0.0)


@given(st.text(alphabet="aBkm$ 1,.'%\u2019\u2013\u00e9\u00a0_", max_size=40))
@example("5 million \u2013 6 Million, O\u2019Brien, 1,000.5 and 10\u2013200 or 3\u00a0000")
@example("$5k, 2M and \u20ac5m \u2013 3 Billion, 4bn")
@example("\u201c2 million\u201d \u2013 3 billion\u2014")
def test_ascii_text_has_the_same_words_next_to_other_scripts(text: str) -> None:
    of_both = [ground(f"{text}\n{last}", [text]).sentences for last in ("\u00c9", "E")]
    assert of_both[0][:-1] == of_both[1][:-1]


@given(st.text(alphabet="ab 1.,!?\n不'A%-", max_size=60))
def test_a_complete_copy_is_fully_grounded(text: str) -> None:
    assert share(text, text) in (None, 1.0)
