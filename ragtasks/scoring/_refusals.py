"""Who says that a response does not know: the judges, and rules where no judge says anything.

Scores that rest on it would else be unscored wherever a weak judge gave no verdict, because of that judge alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragtasks.judges import IDK, JudgeIdk, Verdicts
from ragtasks.metrics import IdkDetector, IdkLabel
from ragtasks.records import Response


@dataclass(frozen=True, slots=True)
class RefusalLabels:
    """One label a response, and who gave them."""

    labels: Sequence[IdkLabel]
    """In the order of the responses; one of the rules that stands in says so in its reason."""
    n_by_judges: int = 0
    """Labels that judges gave."""
    n_stand_ins: int = 0
    """Labels of the rules in the place of a judge's."""


def refusal_labels(responses: Sequence[Response], verdicts: Verdicts | None, rules: IdkDetector) -> RefusalLabels:
    """Return who refuses to answer.

    Args:
        responses: what was answered.
        verdicts: of judges that were asked about it; None: the rules decide.
        rules: decide where there are no verdicts, and on each response that no judge gave one on. Judges that are split
            gave some, and leave the response without a label.
    """
    if verdicts is None:
        return RefusalLabels(rules.detect(responses))
    labels = JudgeIdk(verdicts).detect(responses)
    unsaid = [index for index in range(len(responses)) if verdicts.score(index, IDK).value is None]
    for index, label in zip(unsaid, rules.detect([responses[index] for index in unsaid]), strict=True):
        why = labels[index].reason
        labels[index] = replace(label, reason=f"{rules.name} stand in ({why}): {label.reason}")
    return RefusalLabels(labels, len(labels) - len(unsaid), len(unsaid))


__all__ = ["RefusalLabels", "refusal_labels"]
