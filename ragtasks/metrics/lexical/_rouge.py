"""Word overlap between a response and its target: ROUGE-L and token recall.

The numbers are those of the rouge-score package, which checks every token again after cutting and fills a table in
Python loops, one pair at a time. Here each unique text is cut once, by one table look-up a byte, and rapidfuzz finds
the longest common subsequence with machine-word operations. The package itself is the tests' oracle.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from rapidfuzz.distance import LCSseq

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_TOKEN_BYTES = (string.ascii_lowercase + string.digits).encode()
_TO_TOKEN_BYTES = bytes(byte if byte in _TOKEN_BYTES else 32 for byte in range(256))
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def rouge_l(response: str, target: str) -> float:
    """Return the ROUGE-L F-measure of `response` against `target`, from 0 to 1, higher is better.

    Tokens are runs of a-z and 0-9 after lower-casing, without stemming; other scripts and accented letters are
    therefore lost, as in rouge-score. The order of the arguments does not change the value.

    Args:
        response: the model's answer.
        target: the benchmark's answer.

    Returns:
        Twice precision times recall over their sum, both taken from the longest common subsequence of tokens; 0 where
        either text has no token, also where both have none.

    Source: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", section 3.1; MTRAG paper, section
    6.3.1; agrees with `rougeL` of rouge-score 0.1.2, as used in the official `run_algorithmic.py` at cc5b1d4.
    """
    return rouge_l_batch([response], [target])[0]


def rouge_l_batch(responses: Sequence[str], targets: Sequence[str]) -> list[float]:
    """Return `rouge_l` of each response against the target at the same place, cutting each unique text once.

    Args:
        responses: the models' answers.
        targets: the benchmark's answers, as many as `responses`.

    Returns:
        One F-measure a pair, in order; nothing for no pairs.

    Raises:
        ValueError: the two lists differ in length.
    """
    tokens = {text: _rouge_tokens(text) for text in {*responses, *targets}}
    return [_f_measure(tokens[left], tokens[right]) for left, right in zip(responses, targets, strict=True)]


def token_recall(response: str, target: str) -> float:
    """Return the share of the target's tokens that the response holds, from 0 to 1, higher is better.

    Both texts are lower-cased, stripped of ASCII punctuation and of the articles a, an and the, and cut at white
    space. A token counts as often as it occurs in both.

    Args:
        response: the model's answer.
        target: the benchmark's answer.

    Returns:
        The recall. A target without tokens gives 0: nothing is shared, and a vacuous 1 would let missing targets raise
        a mean. An empty response gives 0.

    Source: the recall of SQuAD's token F1 (Rajpurkar et al. 2016, section 6.1), computed as in the official
    `run_algorithmic.py` at cc5b1d4.
    """
    wanted = Counter(normalised_tokens(target))
    if not wanted:
        return 0.0
    shared = wanted & Counter(normalised_tokens(response))
    return shared.total() / wanted.total()


def _rouge_tokens(text: str) -> list[str]:
    """Return the tokens that rouge-score's `tokenize` gives without a stemmer.

    One table look-up a byte: what is not a-z or 0-9 becomes a blank, and so does every character beyond ASCII.
    """
    return text.lower().encode("ascii", "replace").translate(_TO_TOKEN_BYTES).decode("ascii").split()


def _f_measure(response: list[str], target: list[str]) -> float:
    """Return the ROUGE-L F-measure of two lists of tokens."""
    n_common = LCSseq.similarity(response, target)
    if n_common == 0:
        return 0.0
    # The order of these operations is rouge-score's, so that the values are equal bit for bit.
    precision, recall = n_common / len(response), n_common / len(target)
    return 2 * precision * recall / (precision + recall)


def normalised_tokens(text: str) -> list[str]:
    """Return the lower-cased words of a text without punctuation and articles."""
    return _ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


__all__ = ["normalised_tokens", "rouge_l", "rouge_l_batch", "token_recall"]
