"""IDK labels of a batch of responses: by judges, or by the offline detector for responses without a verdict.

Without the detector, a weak judge that gives no verdict would leave the dependent scores unscored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragtasks.config import EvaluationConfig
from ragtasks.judges import IDK, Verdicts
from ragtasks.metrics import EncoderIdk, IdkLabel, NgramIdk
from ragtasks.records import Response
from ragtasks.requirements import Requirement
from ragtasks.suites import Suite


class Refusals:
    """The IDK detectors of one configuration; counts the labels of each."""

    def __init__(self, suite: Suite, config: EvaluationConfig, judges: str) -> None:
        """Choose the offline detector; `judges` names the deciding judges, empty if they do not decide."""
        self._config, self._judges = config, judges
        self._offline: EncoderIdk | NgramIdk = (
            EncoderIdk(suite.known_refusals, config.encoder_device)
            if config.idk == "encoder"
            else NgramIdk(suite.known_refusals)
        )
        self._n_labels = self._n_by_judges = self._n_stand_ins = 0

    @staticmethod
    def requirements(config: EvaluationConfig) -> list[Requirement]:
        """Return the requirements of the offline detector: those of its encoder, if it has one."""

        def check() -> str:
            EncoderIdk(device=config.encoder_device).check()
            return "the packaged encoder is installed"

        return [Requirement("encoder", 'IDK detector "encoder"', check)] if config.idk == "encoder" else []

    def prepare(self) -> None:
        """Check that the offline detector can run."""
        for requirement in self.requirements(self._config):
            requirement.check()

    def score(self, responses: Sequence[Response], verdicts: Verdicts | None) -> list[IdkLabel]:
        """Return the label of each response, and count its source."""
        labels = self.labels(responses, verdicts)
        self._n_labels += len(labels)
        if verdicts is not None and self._judges:
            n_stand_ins = len(_unlabelled(verdicts))
            self._n_stand_ins += n_stand_ins
            self._n_by_judges += len(labels) - n_stand_ins
        return labels

    def labels(self, responses: Sequence[Response], verdicts: Verdicts | None) -> list[IdkLabel]:
        """Return the label of each response, with the reason if the offline detector replaces a judge."""
        if verdicts is None or not self._judges:
            return self._offline.detect(responses)
        labels = verdicts.idk_labels()
        missing = _unlabelled(verdicts)
        for index, label in zip(missing, self._offline.detect([responses[index] for index in missing]), strict=True):
            why = labels[index].reason
            labels[index] = replace(label, reason=f"{self._offline.name} instead of a judge ({why}): {label.reason}")
        return labels

    def provenance(self) -> dict[str, Any]:
        """Return the detector, and the number of labels for which it replaced judges."""
        has_only_stand_ins = self._n_labels > 0 == self._n_by_judges
        by_judges = self._judges and not has_only_stand_ins
        return {
            "idk_detector": f"judge {self._judges}" if by_judges else self._offline.name,
            **({"idk_by_stand_in": self._n_stand_ins} if self._n_stand_ins else {}),
        }


def _unlabelled(verdicts: Verdicts) -> list[int]:
    return [index for index in range(len(verdicts.responses)) if verdicts.score(index, IDK).value is None]
