"""Several reference answers: each score is the best over them."""

from __future__ import annotations

from ragtasks import score_rows


def test_each_metric_uses_the_best_reference() -> None:
    row = {"question": "What does it cost?", "answer": "Five euros for a card.", "contexts": ["x"]}
    references = ["It costs five euros", "Five euros for one card and for each copy of it.", "nothing"]

    def scores(reference: object) -> dict[str, float]:
        (answer,) = score_rows([{**row, "reference": reference}], encoder="none").rows
        return {name: value for name, value in answer.items() if isinstance(value, float)}

    alone = [scores(reference) for reference in references]
    best = scores(references)
    for name in ("rouge_l", "token_recall"):
        assert best[name] == max(scores_of_one[name] for scores_of_one in alone)
    assert best["rouge_l"] != alone[0]["rouge_l"]
    assert best["k_precision"] == alone[0]["k_precision"]
