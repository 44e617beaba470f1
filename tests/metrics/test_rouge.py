from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragtasks.metrics import rouge_l
from ragtasks.metrics.lexical import rouge_l_batch, token_recall

with warnings.catch_warnings():
    # nltk, which the oracle imports, may warn; our module imports neither.
    warnings.simplefilter("ignore")
    from rouge_score.rouge_scorer import RougeScorer

ORACLE = RougeScorer(["rougeL"])
WORDS = st.sampled_from(
    ["the", "cat", "Cat's", "sat", "on", "a", "mat.", "İstanbul", "é", "42", "K", "\n", "\u200b", "-"]
)
TEXTS = st.one_of(st.text(max_size=80), st.lists(WORDS, max_size=60).map(" ".join))


def rouge_score(response: str, target: str) -> float:
    return float(ORACLE.score(target, response)["rougeL"].fmeasure)


@given(TEXTS, TEXTS)
@example("", "")
@example("...", "word")
@example("\u0130 \u212a \u017f", "i k s")  # capitals whose lower case is ASCII, and a letter that only resembles ASCII
def test_rouge_l_is_bit_equal_to_rouge_score(response: str, target: str) -> None:
    assert rouge_l(response, target) == rouge_score(response, target)


def test_rouge_l_gives_the_published_values(mtrag_root: Path) -> None:
    path = mtrag_root / "mtrag-human" / "evaluations" / "reference_subset_with_human_evaluations.json"
    published = json.loads(path.read_text(encoding="utf-8"))
    targets = {task["task_id"]: task["targets"][0]["text"] for task in published["tasks"]}
    evaluations = published["evaluations"]
    values = rouge_l_batch(
        [evaluation["model_response"] for evaluation in evaluations],
        [targets[evaluation["task_id"]] for evaluation in evaluations],
    )
    assert len(values) == 477
    assert values == pytest.approx([e["annotations"]["RougeL"]["system"]["value"] for e in evaluations], abs=1e-9)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=6))
def test_a_batch_equals_single_calls(pairs: list[tuple[str, str]]) -> None:
    batch = rouge_l_batch([response for response, _ in pairs], [target for _, target in pairs])
    assert batch == [rouge_l(response, target) for response, target in pairs]


def test_a_batch_requires_lists_of_equal_length() -> None:
    with pytest.raises(ValueError, match="shorter"):
        rouge_l_batch(["one", "two"], ["one"])


@given(TEXTS)
def test_a_perfect_answer_has_the_maximum(text: str) -> None:
    assert rouge_l(text, text) == (1.0 if any(c.isascii() and c.isalnum() for c in text.lower()) else 0.0)
    assert token_recall(text, text) in (0.0, 1.0)
    assert token_recall(f"{text} word", f"{text} word") == 1.0


@pytest.mark.parametrize(
    ("response", "target", "expected"),
    [
        ("The cat sat.", "a cat, sat!", 1.0),
        ("cat", "cat cat dog dog", 0.25),
        ("cat cat cat", "cat dog", 0.5),
        ("dont", "don't", 1.0),
        ("banana another", "nothing", 0.0),
        ("theatre", "the theatre", 1.0),
        ("anything", "", 0.0),
        ("", "", 0.0),
        ("anything", "the a an!", 0.0),
        ("", "word", 0.0),
    ],
)
def test_token_recall_counts_normalized_tokens(response: str, target: str, expected: float) -> None:
    assert token_recall(response, target) == expected


@given(TEXTS, TEXTS, TEXTS)
def test_token_recall_is_in_range_and_grows_with_the_response(response: str, more: str, target: str) -> None:
    value = token_recall(response, target)
    assert 0 <= value <= token_recall(f"{response} {more}", target) <= 1


@given(
    st.lists(st.sampled_from(["cat", "dog", "the", "mat"])).flatmap(lambda w: st.tuples(st.just(w), st.permutations(w)))
)
def test_token_recall_ignores_word_order(words: tuple[list[str], list[str]]) -> None:
    ordered, shuffled = (" ".join(part) for part in words)
    assert token_recall(shuffled, "cat dog bird") == token_recall(ordered, "cat dog bird")


def test_importing_the_module_does_not_import_slow_packages() -> None:
    code = "import sys, ragtasks.metrics.lexical as m; sys.exit(any(n in sys.modules for n in ('nltk', 'torch')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
