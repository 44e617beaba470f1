"""A real small language model learns to read refusals in twelve languages."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from perf.idk_agreement import response_of
from ragtasks.metrics import EncoderIdk, RuleBasedIdk
from ragtasks.metrics.idk_languages import labelled_sentences, left_out
from ragtasks.records import Answerability, IdkVerdict

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def folder(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model as transformers has it: from the one file, with its weights as safetensors."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    target = tmp_path_factory.mktemp("model") / "gemma-3-270m"
    read = AutoModel.from_pretrained(weights.parent, gguf_file=weights.name, dtype=torch.bfloat16)
    read.config.__dict__.pop("quantization_config", None)
    whole = type(read)(read.config).to(torch.bfloat16)
    whole.load_state_dict(read.state_dict())
    whole.save_pretrained(target)
    AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name).save_pretrained(target)
    return target


def _right(detector: EncoderIdk | RuleBasedIdk) -> dict[str, float]:
    """Return the share of left-out sentences of each language that are read right, as a refusal or as none."""
    rows = left_out(labelled_sentences())
    labels = detector.detect([response_of("c<::>1", Answerability.ANSWERABLE, row.text) for row in rows])
    found = defaultdict(list)
    for row, label in zip(rows, labels, strict=True):
        found[row.language].append((label.verdict is IdkVerdict.YES) == (row.idk == "yes"))
    return {code: sum(of_one) / len(of_one) for code, of_one in found.items()}


def test_a_multilingual_model_reads_refusals_better_than_the_tables(folder: Path, tmp_path: Path) -> None:
    detector = EncoderIdk(multilingual=str(folder), learned=tmp_path)
    detector.check()
    by_model, by_tables = _right(detector), _right(RuleBasedIdk())
    assert sum(by_model.values()) / len(by_model) >= 0.96
    assert min(by_model.values()) >= 0.93
    assert all(by_model[code] > share for code, share in by_tables.items())
