"""BERTScore on two Ray nodes, one of them killed in the middle: the scores are those of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.config import EvaluationConfig
from ragtasks.errors import ConfigurationError
from ragtasks.metrics import BertScorer, resolve_encoder
from ragtasks.scoring import ResponseScorer
from retrieval_cache import RayBertScorer

pytest.importorskip("ray")

from tests.retrieval_cache.test_ray_encoding import Nodes, nodes

__all__ = ["nodes"]
pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray", "ignore::DeprecationWarning:ray"),
]

SENTENCES = [f"The ferry to island {number} leaves at {number % 12 + 1} o'clock." for number in range(40)]
PAIRS = [(one, other) for one in SENTENCES for other in SENTENCES[:4]] + [("word " * 900, SENTENCES[0]), ("", "x")]


def test_scores_are_those_of_one_process_though_a_node_dies(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrieval_cache.ray_workers._RUN", 8)
    spec, told = resolve_encoder("minilm"), list[tuple[int, int]]()

    def tell(done: int, of: int) -> None:
        told.append((done, of))
        if len(told) == 3:
            nodes.kill_second()

    alone, on_ray = BertScorer(spec, device="cpu"), RayBertScorer(spec, "ray,workers=2", device="cpu", progress=tell)
    expected, found = alone.score(PAIRS), on_ray.score(PAIRS)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.precision, one.recall, one.f1) == pytest.approx((other.precision, other.recall, other.f1), abs=1e-6)
    assert (on_ray.n_texts, on_ray.n_truncated) == (alone.n_texts, alone.n_truncated)
    assert told[-1] == (alone.n_texts, alone.n_texts)


def test_another_form_is_refused_with_the_default_encoder_too() -> None:
    sample = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())
    with pytest.raises(ConfigurationError, match="another form"):
        ResponseScorer(sample, EvaluationConfig(encode_with="spark"))


def test_no_pairs_start_nothing_and_another_form_is_refused() -> None:
    spec = resolve_encoder("minilm")
    assert RayBertScorer(spec, "ray:127.0.0.1:1").score([]) == []
    with pytest.raises(ConfigurationError, match="another form"):
        RayBertScorer(spec, "spark")


# The fixture: where Ray is connected already, an address that nobody answers at is refused all the same.
def test_a_cluster_that_is_not_there_is_told_before_anything_is_scored(nodes: Nodes) -> None:
    scorer = RayBertScorer(resolve_encoder("minilm"), "ray:127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="a cluster that answers"):
        scorer.connect()
