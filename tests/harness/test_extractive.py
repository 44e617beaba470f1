from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.harness.models import N_SENTENCES, extract_answer

PASSAGES = [
    "Permits are issued on Mondays. The fee for a permit is twelve crowns. Dogs are welcome.",
    "A lost permit is replaced at the gate. The gate closes at dusk.",
]
WORDS = st.sampled_from(["permit", "fee", "gate", "dog", "dusk", "crown", "the", "is", "a"])
SENTENCES = st.lists(WORDS, min_size=1, max_size=6).map(lambda words: " ".join(words).capitalize() + ".")
TEXTS = st.lists(st.lists(SENTENCES, min_size=1, max_size=4).map(" ".join), max_size=4)


def test_the_best_sentence_is_quoted_verbatim() -> None:
    answer = extract_answer("How much is the permit fee?", PASSAGES)
    assert answer is not None
    assert "The fee for a permit is twelve crowns." in answer
    assert "Dogs are welcome." not in answer


def test_sentences_keep_the_order_of_the_passages() -> None:
    answer = extract_answer("Which gate closes at dusk, and is there a fee?", PASSAGES) or ""
    assert 0 <= answer.index("The fee") < answer.index("The gate closes")


def test_no_matching_sentence_gives_none() -> None:
    assert extract_answer("Who painted the ceiling?", PASSAGES) is None
    assert extract_answer("How much is the fee?", []) is None
    assert extract_answer("What is it?", PASSAGES) is None  # no content word


@given(question=st.lists(WORDS, max_size=5).map(" ".join), passages=TEXTS)
def test_an_answer_consists_of_sentences_of_the_passages(question: str, passages: list[str]) -> None:
    answer = extract_answer(question, passages)
    if answer is None:
        return
    known = [sentence + "." for text in passages for sentence in text.rstrip(".").split(". ")]
    rest, used = answer, 0
    while rest:
        match = next(sentence for sentence in known if rest.startswith(sentence))
        rest, used = rest[len(match) :].lstrip(), used + 1
    assert 1 <= used <= N_SENTENCES
    assert extract_answer(question, passages) == answer


@pytest.mark.slow
def test_answers_are_the_same_in_every_process() -> None:
    """The order of sets depends on a random seed of the process; sums over them must not."""
    code = (
        "from pathlib import Path\n"
        "from ragtasks.benchmarks import benchmark_folder, open_benchmark\n"
        "from ragtasks.harness.models import extract_answer\n"
        "from ragtasks.records import Setting\n"
        "sample = open_benchmark('mtrag', benchmark_folder('mtrag', 'sample', Path('unused')))\n"
        "passages = sample.read_contexts(Setting.FULL_RAG).passages\n"
        "for task in sample.tasks:\n"
        "    print(extract_answer(task.question, [item.text for item in passages[task.task_id]]))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
        ).stdout
        for seed in range(1, 6)
    }
    assert len(outputs) == 1
