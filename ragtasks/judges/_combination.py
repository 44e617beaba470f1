"""Judges and free scores together: a linear prediction of people's ratings, fitted on answers that people rated.

It is a prediction and no rating: what it is worth is how often it prefers the answer that people prefer, on
conversations that it was not fitted on. It holds for the judges and prompts that it was fitted with, and for no others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.files import parse_json, write_atomically
from ragtasks.metrics import Scores
from ragtasks.records import Score

JUDGED_INPUTS = ("rb_llm", "rl_f")
"""Scores of judges that a combination rests on."""
_SUPPORTED, _LENGTH = "k_precision", "length"
INPUTS = (*JUDGED_INPUTS, "ans_acc", _SUPPORTED, _LENGTH)
"""All that it rests on: the rest costs nothing. The length counts by its logarithm."""
TARGETS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"all": (1.0, 4.0), "faithfulness": (1.0, 4.0), "completeness": (1.0, 4.0), "win_rate": (0.0, 100.0)}
)
"""What people rated -> its scale; `all` is the mean of the four properties."""
PREDICTED = "predicted_"
"""How the metrics begin that a combination gives."""
_PENALTY = 10.0
_CONSTANT = "constant"
_NEXT_STEP = "make it with `ragtasks judges calibrate --judge ... --combination FILE`"


def _columns(inputs: Mapping[str, Sequence[float]]) -> NDArray[np.float64]:
    return np.column_stack([[_taken(name, value) for value in inputs[name]] for name in INPUTS]).astype(np.float64)


def _taken(name: str, value: float) -> float:
    """Return a score as it counts."""
    return math.log1p(value) if name == _LENGTH else value


def _ridge(columns: NDArray[np.float64], people: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return the constant and the weight of each column: ridge regression on columns of unit variance.

    Source: A. E. Hoerl and R. W. Kennard, Ridge regression: biased estimation for nonorthogonal problems (1970).
    """
    means, spreads = columns.mean(axis=0), columns.std(axis=0)
    scaled = (columns - means) / np.where(spreads > 0, spreads, 1.0)
    penalty = _PENALTY * np.eye(columns.shape[1])
    found = np.linalg.solve(scaled.T @ scaled + penalty, scaled.T @ (people - people.mean()))
    weights = found / np.where(spreads > 0, spreads, 1.0)
    return float(people.mean() - means @ weights), weights


def weights_of(inputs: Mapping[str, Sequence[float]], people: Sequence[float]) -> dict[str, float]:
    """Return the constant and the weight of each of `INPUTS` that predict people's ratings of the same answers."""
    constant, weights = _ridge(_columns(inputs), np.asarray(people, dtype=np.float64))
    return {_CONSTANT: constant, **dict(zip(INPUTS, weights.tolist(), strict=True))}


def left_out_predictions(
    inputs: Mapping[str, Sequence[float]], people: Sequence[float], conversations: Sequence[str]
) -> list[float]:
    """Return the prediction of each answer by the answers of all other conversations."""
    columns, rated, names = _columns(inputs), np.asarray(people, dtype=np.float64), np.asarray(conversations)
    found = np.zeros(len(rated))
    for name in np.unique(names):
        inside = names == name
        constant, weights = _ridge(columns[~inside], rated[~inside])
        found[inside] = constant + columns[inside] @ weights
    return [float(value) for value in found]


class Combination(BaseModel):
    """What predicts people's ratings, what it was fitted on, and what it is worth."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    version: Literal[1] = 1
    time: str
    data: str
    """The rated answers, in words."""
    fingerprint: str
    """A hash of their scores and ratings."""
    judges: tuple[str, ...]
    """Judges, of several the median."""
    rubrics: dict[str, str]
    """Rubric -> fingerprint of its words."""
    ranges: dict[str, tuple[float, float]]
    """Input -> its least and largest value among the rated answers: nothing is extrapolated."""
    weights: dict[str, dict[str, float]]
    """A name of `TARGETS` -> the constant and the weight of each input."""
    without: dict[str, str]
    """A name of `TARGETS` -> why there is no prediction of it."""
    card: dict[str, Any]

    def predictions(self, scores: Scores) -> Scores:
        """Return the predicted ratings of an answer by its scores; unscored, with the reason, where one is missing."""
        found = {name: scores.get(name, Score(None, "these answers have none")) for name in INPUTS}
        missing = [name for name, score in found.items() if score.value is None and name != _SUPPORTED]
        if missing:
            return {PREDICTED + name: Score(None, f"{missing[0]}: {found[missing[0]].reason}") for name in TARGETS}
        # Without passages none of the answer's words are in them, in the fit too.
        values = {name: min(max(found[name].value or 0.0, low), high) for name, (low, high) in self.ranges.items()}
        return {PREDICTED + name: self._prediction(name, values) for name in TARGETS}

    def _prediction(self, target: str, values: Mapping[str, float]) -> Score:
        weights = self.weights.get(target)
        if weights is None:
            return Score(None, self.without.get(target, "the combination has none"))
        found = weights[_CONSTANT] + sum(weights[name] * _taken(name, values[name]) for name in INPUTS)
        low, high = TARGETS[target]
        return Score(min(max(found, low), high))

    def require(self, judges: Sequence[str], rubrics: Mapping[str, str], path: str) -> None:
        """Raise ConfigurationError unless these are the judges and the words that it was fitted with."""
        changed = sorted(name for name, words in self.rubrics.items() if rubrics.get(name) != words)
        if set(judges) != set(self.judges) or changed:
            words = f", other prompts of {', '.join(changed)}" if changed else ""
            raise ConfigurationError(
                "combination",
                where=path,
                expected=f"the judges that it was fitted with, {', '.join(self.judges)}, asked in the same words",
                found=f"{', '.join(judges) or 'no judge'}{words}",
                next_step=_NEXT_STEP + " and these judges",
            )


def write_combination(path: Path, combination: Combination) -> None:
    """Write a combination as JSON."""
    write_atomically(path, combination.model_dump_json(indent=1).encode() + b"\n")


def read_combination(path: Path) -> Combination:
    """Return the combination in a file."""
    try:
        found = Combination.model_validate(parse_json(path.read_bytes()))
    except OSError as error:
        raise _error(path, "a file that can be read", error.strerror or str(error)) from error
    except ValidationError as error:
        problem = error.errors()[0]
        raise _error(path, "a combination", f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from error
    except ValueError as error:
        raise _error(path, "one JSON object", str(error)) from error
    names = {_CONSTANT, *INPUTS}
    if set(found.ranges) != set(INPUTS) or any(set(weights) != names for weights in found.weights.values()):
        raise _error(path, f"a range and a weight of each of {', '.join(INPUTS)}", "others: it was edited")
    return found


def _error(path: Path, expected: str, found: str) -> BenchmarkFileError:
    return BenchmarkFileError("combination", where=str(path), expected=expected, found=found, next_step=_NEXT_STEP)
