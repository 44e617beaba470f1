"""Refusal detection by a linear model over n-grams, for English and twelve other languages.

Each sentence gets two scores: information is missing (the gap), and something is answered. About thirty numbers of the
complete response (the highest gap, the words that answer before and after it, lengths) then enter a multinomial
logistic regression over `yes`, `partial` and `no`. `perf/train_refusals.py` learns both from labelled sentences and
measures them. Question and passages are not read. numpy is the only library.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from ragtasks.languages import ENGLISH, language_of
from ragtasks.records import IdkVerdict

LANGUAGES = (ENGLISH, "ar", "de", "es", "fr", "hi", "it", "ja", "ko", "nl", "pt", "ru", "zh")
"""ISO 639-1 codes of the languages with labelled sentences."""
VERDICTS = (IdkVerdict.YES, IdkVerdict.PARTIAL, IdkVerdict.NO)
WEIGHTS = Path(__file__).with_name("weights") / "refusals.npz"
MEANINGS = WEIGHTS.with_name("meanings.json")
Probabilities = tuple[float, float, float]
"""Probabilities of `VERDICTS`, in order, with the sum 1."""
N_FEATURES = 1 << 20
"""Buckets of the feature hash."""

_SHORT_REPLIES = re.compile(
    r"(?:n/?a|none|nothing|null|nil|unknown|unanswerable|not sure|no idea|no clue|idk|dunno|\?+|-+"
    r"|(?:nothing|none|not|never) (?:found|known|available|mentioned|specified|stated|given|provided|applicable|listed)"
    r"|no (?:data|answer|info|information|results?|match(?:es)?|hits?|records?|details?|entry|entries))\W*"
)
"""Complete replies, in lower case, that are refusals, although the words may mean something else in a longer text."""
_MOST_WORDS = 200  # per sentence
_LONGEST_WORD = 60
_ENOUGH_TO_DETECT = 60  # characters; language detection is unreliable in shorter texts
_CLOSE = frozenset({"bg", "uk", "sr", "mk", "ca", "gl", "fa", "ur", "mr"})
"""Languages that language detection confuses with one of `LANGUAGES`; their texts get a verdict."""

# A response as sentences and tokens.
_FOLDED = re.compile("[\u0300-\u036f\u064b-\u0652\u0640\u093c\u200b-\u200f\ufeff]")
_STRAIGHT = str.maketrans({"\u2018": "'", "\u2019": "'", "\u0901": "\u0902"})
_MARKUP = re.compile(r"\[[\d, ^]{1,12}\]|[*_`#>]+|^\s*(?:[-\u2022\u2013]|\d{1,2}[.)])\s+", re.MULTILINE)
_QUOTE_SIGNS = "\"'\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d"
_WHOLE_QUOTE = re.compile(rf"[{_QUOTE_SIGNS}]((?:[^{_QUOTE_SIGNS}]|(?<=\w)'(?=\w))+)[{_QUOTE_SIGNS}]")
_QUOTE = re.compile(
    r"\"[^\"\n]{1,300}\"|(?<!\w)'[^'\n]{2,80}'(?!\w)|\u00ab[^\u00bb\n]{0,300}\u00bb|\u201e[^\u201c\u201d\n]{0,300}[\u201c\u201d]"
    r"|\u201c[^\u201d\n]{0,300}\u201d|\u300c[^\u300d]{0,300}\u300d|\u300e[^\u300f]{0,300}\u300f"
)
_SENTENCE_END = re.compile(
    r"\n+|(?<=[\u3002\uff01\uff1f])|;\s+|\s*\|\s*|(?<=[.!?\u061f\u0964])(?<!\b[a-z]\.)(?<!\bmr\.)(?<!\bdr\.)(?<!\bst\.)"
    r"(?<!\bvs\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bno\.)(?<!\bca\.)[\"')\]]*\s+"
)
_TOKEN = re.compile(
    "[\u3040-\u30ff\u3400-\u9fff]|(?:[^\\W\\d_]|[\u0900-\u0903\u093a-\u094d])+(?:'[^\\W\\d_]+)*|\\d+|[?!:,\u2026%/]"
)
_IDEOGRAM = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
_KANA = re.compile("[\u3040-\u30ff]")
_READ_SCRIPTS = re.compile(
    "[a-z\u00aa-\u024f\u1e00-\u1eff\u0400-\u052f\u0600-\u06ff\u0900-\u097f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)


def sentences_of(text: str) -> list[str]:
    """Return lower-case sentences, lines and table cells of a response without markup; quotations become `xx`."""
    plain = unicodedata.normalize("NFKD", text.lower().translate(_STRAIGHT))
    plain = _MARKUP.sub(" ", unicodedata.normalize("NFC", _FOLDED.sub("", plain))).strip()
    if quoted := _WHOLE_QUOTE.fullmatch(plain):
        plain = quoted[1]
    sentences = _SENTENCE_END.split(_QUOTE.sub(" xx ", plain))
    return [sentence.strip() for sentence in sentences if sentence and _TOKEN.search(sentence)]


def tokens_of(sentence: str) -> list[str]:
    """Return words, ideograms and some signs of a sentence, truncated to a maximum length; numbers become `0`."""
    return ["0" if token.isdigit() else token[:_LONGEST_WORD] for token in _TOKEN.findall(sentence)[:_MOST_WORDS]]


# Features: hashed n-grams of words, of characters in a word, and the meanings of words in other languages.
_PATTERNS = ((0,), (0, 1), (0, 1, 2), (0, 2), (0, 3), (0, 1, 3), (0, 2, 3))
"""Positions of the words of an n-gram; words in between are skipped."""
_FIRST, _SECOND, _SHIFT = np.uint32(0x9E3779B1), np.uint32(0x85EBCA77), np.uint32(12)
_BLOCKS = (1.4, 1.3, 1.3)
"""Weights of the feature blocks: words, characters, meanings."""
_LEAST_OF_BLOCK = 8
_NEAR = 4
_ENGLISH_WORDS = (
    "the a an of in on at to for from by with and or but not no nor none nothing neither never without i you we he she "
    "it they me my our your his her its their us them this that these those is are was were be been am do does did "
    "have has had can could may might will would should must there here what which who when where why how if whether "
    "any some all only just so as than more less most about into over under out up down also because don't doesn't "
    "didn't can't cannot couldn't isn't aren't wasn't weren't won't wouldn't haven't hasn't"
)
_ENGLISH = frozenset(_ENGLISH_WORDS.split())


def _bucket(name: str) -> int:
    return _hash(name) & (N_FEATURES - 1)


def _hash(name: str) -> int:
    return zlib.crc32(name.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=1 << 16)
def _characters(token: str) -> Any:
    """Return the buckets of a word's character n-grams of length 2 to 5."""
    word = f"<{token}>" if len(token) > 1 else ""
    return np.array([_bucket(word[at : at + n]) for n in (2, 3, 4, 5) for at in range(len(word) - n + 1)], np.int64)


def features_of(sentences: Sequence[str]) -> tuple[Any, Any, Any]:
    """Return (sentence, bucket, value) of each feature, as arrays of equal length."""
    tokens = [tokens_of(sentence) for sentence in sentences]
    english = [_is_english(sentence_tokens) for sentence_tokens in tokens]
    meanings = [
        [] if skip else _meanings(sentence, sentence_tokens)
        for sentence, sentence_tokens, skip in zip(sentences, tokens, english, strict=True)
    ]
    blocks = (
        _ngrams([[_hash(token) for token in sentence_tokens] for sentence_tokens in tokens]),
        _joined([[_characters(token) for token in sentence_tokens] for sentence_tokens in tokens]),
        _joined([[np.array([_bucket(name) for name in names], np.int64)] for names in meanings]),
    )
    features = []
    for (rows, buckets), weight in zip(blocks, _BLOCKS, strict=True):
        counts = np.maximum(np.bincount(rows, minlength=len(sentences)), _LEAST_OF_BLOCK)
        features.append((rows, buckets, (weight / np.sqrt(counts))[rows]))
    rows, buckets, values = (np.concatenate(columns) for columns in zip(*features, strict=True))
    return rows, buckets, values


def _ngrams(hashes: Sequence[Sequence[int]]) -> tuple[Any, Any]:
    """Return (sentence, bucket) of each word n-gram; every sentence has an edge marker at both ends."""
    edges = (_hash("^"), _hash("$"))
    flat = np.array([code for row in hashes if row for code in (edges[0], *row, edges[1])], np.uint32)
    lengths = [len(row) + 2 if row else 0 for row in hashes]
    rows, blocks = np.repeat(np.arange(len(hashes)), lengths), []
    for number, offsets in enumerate(_PATTERNS):
        n = len(flat) - offsets[-1]
        if n <= 0:
            continue
        mixed = np.full(n, number, np.uint32)
        for offset in offsets:
            mixed = mixed * _SECOND + flat[offset : offset + n]
        mixed = (mixed ^ (mixed >> np.uint32(15))) * _FIRST
        within = rows[:n] == rows[offsets[-1] :]
        blocks.append((rows[:n][within], (mixed >> _SHIFT)[within].astype(np.int64)))
    if not blocks:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([block_rows for block_rows, _ in blocks]), np.concatenate([buckets for _, buckets in blocks])


def _joined(buckets: Sequence[Sequence[Any]]) -> tuple[Any, Any]:
    """Return (sentence, bucket) from lists of buckets per sentence."""
    rows = np.repeat(np.arange(len(buckets)), [sum(map(len, row)) for row in buckets])
    return rows, np.concatenate([array for row in buckets for array in row] or [np.zeros(0, np.int64)])


def _is_english(tokens: Sequence[str]) -> bool:
    return sum(token in _ENGLISH for token in tokens) >= max(1, 0.15 * len(tokens))


Table = dict[str, set[str]]
"""Word -> its meanings: `neg` (not, nothing), `src` (the document), `find` and so on."""


@cache
def _meaning_words() -> dict[str, Table]:
    """Return the tables of `meanings.json`: `whole` words, `beginnings`, `inner` parts of words, and `ja`, `zh`."""
    tables: dict[str, Table] = {name: {} for name in ("whole", "beginnings", "inner", "ja", "zh")}
    for code, meanings in json.loads(MEANINGS.read_text(encoding="utf-8")).items():
        for meaning, words in meanings.items():
            for word in _FOLDED.sub("", unicodedata.normalize("NFKD", words.lower().translate(_STRAIGHT))).split():
                # Korean words, and German and Dutch compounds, contain the word inside a longer one.
                is_inner = code == "ko" or word.startswith("*")
                name = "inner" if is_inner else "beginnings" if word.endswith("*") else "whole"
                table = tables[code if code in tables else name]
                table.setdefault(unicodedata.normalize("NFC", word.strip("*")), set()).add(meaning)
    return tables


@cache
def _ideogram_words(code: str) -> re.Pattern[str]:
    return re.compile("|".join(sorted(map(re.escape, _meaning_words()[code]), key=len, reverse=True)))


@lru_cache(maxsize=1 << 16)
def _meanings_of_word(word: str) -> frozenset[str]:
    tables = _meaning_words()
    meanings = set(tables["whole"].get(word, ()))
    for end in range(1, len(word) + 1):
        meanings.update(tables["beginnings"].get(word[:end], ()))
        for start in range(end):
            meanings.update(tables["inner"].get(word[start:end], ()))
    return frozenset(meanings)


def _meanings(sentence: str, tokens: Sequence[str]) -> list[str]:
    """Return features common to all languages: combinations of meanings, and the share of words without a meaning."""
    if _IDEOGRAM.search(sentence):
        code = "ja" if _KANA.search(sentence) else "zh"
        words = _meaning_words()[code]
        with_meaning = [
            (match.start() / 2, frozenset(words[match[0]])) for match in _ideogram_words(code).finditer(sentence)
        ]
        n_words = len(_IDEOGRAM.findall(sentence)) / 2
    else:
        all_words = [
            (position, _meanings_of_word(token)) for position, token in enumerate(tokens) if token[0].isalpha()
        ]
        n_words, with_meaning = (
            len(all_words),
            [(position, meanings) for position, meanings in all_words if meanings],
        )
    n_new = max(0.0, n_words - len(with_meaning))
    names = sorted({name for _, meanings in with_meaning for name in meanings})
    other_names = [name for name in names if name != "neg"]
    features = [*names, *(f"{first}+{second}" for first, second in combinations(other_names, 2))]
    if "neg" in names:
        negated = [position for position, meanings in with_meaning if "neg" in meanings]
        for name in other_names:
            gap = min(
                abs(position - negation)
                for position, meanings in with_meaning
                if name in meanings
                for negation in negated
            )
            features += [
                f"neg+{name}",
                *([f"neg~{name}"] if gap <= _NEAR else []),
                *([f"neg={name}"] if gap <= 1 else []),
            ]
        features += [f"neg+{first}+{second}" for first, second in combinations(other_names, 2)]
    else:
        features.append("no neg")
    features += [f"words {min(int(n_words / 3), 5)}", f"new {min(int(n_new / 2), 5)}"]
    features += [
        f"share {int(min(n_new / max(n_words, 1), 0.99) * 4)}",
        *(token for token in ("0", "?") if token in tokens),
    ]
    return [f"meaning {name}" for name in features]


# From sentences to a verdict.
@dataclass(frozen=True)
class Model:
    """Learned weights."""

    table: Any
    """Buckets by 2: weights for gap and answer."""
    bias: Any
    centre: Any
    spread: Any
    weights: Any
    """Verdicts by response features."""
    intercepts: Any


def unpacked(arrays: Mapping[str, Any]) -> Model:
    """Return the model of a weights file: `steps` between buckets, and 8-bit square roots of weights with a `scale`."""
    table = np.zeros((N_FEATURES, 2), np.float32)
    roots = arrays["values"] * arrays["scale"]
    table[np.cumsum(arrays["steps"].astype(np.int64))] = roots * np.abs(roots)
    return Model(table, *(arrays[name] for name in ("bias", "centre", "spread", "weights", "intercepts")))


@cache
def packaged_model() -> Model:
    """Return the model in the package."""
    with np.load(WEIGHTS) as file:
        return unpacked(file)


def sentence_scores(sentences: Sequence[str], table: Any, bias: Any) -> Any:
    """Return an array, sentences by 2: log odds that information is missing, and that something is answered."""
    rows, buckets, values = features_of(sentences)
    sums = [np.bincount(rows, values * table[buckets, column], len(sentences)) for column in (0, 1)]
    return np.stack(sums, axis=1) + bias


def _probability(score: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))


def response_features(scores: Iterable[Sequence[float]], sentences: Sequence[str]) -> list[float]:
    """Return the inputs of the verdict on a response of one or more sentences."""
    pairs = [(float(gap), float(answer)) for gap, answer in scores]
    gaps, answers = [gap for gap, _ in pairs], [answer for _, answer in pairs]
    missing, answering = [_probability(score) for score in gaps], [_probability(score) for score in answers]
    words = [max(1, len(tokens_of(sentence))) for sentence in sentences]
    n, n_words, at = len(gaps), sum(words), max(range(len(gaps)), key=gaps.__getitem__)
    highest = [*sorted(gaps, reverse=True), -6.0, -6.0]
    substance = [(1 - gap) * answer * size for gap, answer, size in zip(missing, answering, words, strict=True)]
    before, after, share = sum(substance[:at]), sum(substance[at + 1 :]), sum(substance) / n_words
    gap = missing[at]
    return [
        *(gaps[at], highest[1], highest[2], gaps[0], gaps[-1], sum(gaps) / n, max(0.0, gaps[at]), max(0.0, highest[1])),
        *(answers[at], max(answers), answers[0], answers[-1]),
        *(math.log1p(before), math.log1p(after), math.log1p(words[at]), math.log1p(n_words), math.log(n)),
        sum(chance * size for chance, size in zip(missing, words, strict=True)) / n_words,
        sum(chance * size for chance, size in zip(answering, words, strict=True)) / n_words,
        *(share, max(first * second for first, second in zip(missing, answering, strict=True))),
        *(1 - math.prod(1 - chance for chance in missing), math.log1p(sum(missing)), sum(missing) / n),
        *(
            float(at == 0),
            float(at == n - 1),
            at / n,
            float(n == 1),
            sum(sentence.endswith("?") for sentence in sentences) / n,
        ),
        *(gap * math.log1p(before + after), gap * answering[at], gap * math.log1p(answering[at] * words[at])),
        *(gap * (n == 1), gap * math.log1p(n_words), gap * share, gap * max(answers)),
    ]


def probabilities(texts: Sequence[str], model: Model | None = None) -> list[tuple[Probabilities, str]]:
    """Return, for each text, the probabilities of `VERDICTS` and the sentence with the strongest sign of a refusal.

    A text without words is `no` with probability 1 and an empty sentence. `model`: None selects the packaged model.
    """
    learned, sentences_by_text = model or packaged_model(), [sentences_of(text) for text in texts]
    scores = sentence_scores(
        [sentence for sentences in sentences_by_text for sentence in sentences], learned.table, learned.bias
    )
    results: list[tuple[Probabilities, str]] = []
    start = 0
    for sentences in sentences_by_text:
        scores_of_text = scores[start : start + len(sentences)]
        start += len(sentences)
        if not sentences:
            results.append(((0.0, 0.0, 1.0), ""))
        elif len(sentences) == 1 and _SHORT_REPLIES.fullmatch(sentences[0]):
            results.append(((1.0, 0.0, 0.0), sentences[0]))
        else:
            features = (np.array(response_features(scores_of_text, sentences)) - learned.centre) / learned.spread
            exponentials = np.exp(np.clip(learned.weights @ features + learned.intercepts, -50, 50))
            yes, partial, no = (float(value) for value in exponentials / exponentials.sum())
            results.append(((yes, partial, no), sentences[int(scores_of_text[:, 0].argmax())]))
    return results


def is_english(text: str) -> bool:
    """Return whether most sentences of a text are English, judged by function words."""
    sentences = sentences_of(text)
    return 2 * sum(_is_english(tokens_of(sentence)) for sentence in sentences) > len(sentences)


def unreadable(text: str) -> str | None:
    """Return why the language of a text cannot be read; None if it can."""
    plain = unicodedata.normalize("NFKC", text.lower())
    letters = [sign for sign in plain if sign.isalpha()]
    if letters and sum(bool(_READ_SCRIPTS.match(sign)) for sign in letters) < len(letters) / 2:
        return "not read: no labelled sentences in its script"
    if len(text) > _ENOUGH_TO_DETECT and (code := language_of(text)) and code not in (*LANGUAGES, *_CLOSE):
        return f"not read: its language is {code}, for which there are no labelled sentences"
    return None
