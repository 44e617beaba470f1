"""What stands beside an answer's scores and ranks nobody: how much of it its passages hold, and how much is copied."""

from __future__ import annotations

from ragtasks.metrics import COPIED, GROUNDED, Scores, copied, grounded
from ragtasks.records import Response, Score
from ragtasks.suites._suite import ScoringInputs, Suite, extended


def diagnosed(suite: Suite) -> Suite:
    """Return a suite with `grounded` and `copied` behind its metrics."""
    return extended(suite, (GROUNDED, COPIED), _scores, official_rubrics=suite.official_rubrics)


def _scores(inputs: ScoringInputs) -> list[Scores]:
    return [_score(response) for response in inputs.responses]


def _score(response: Response) -> Scores:
    share = grounded(response.text, response.passages, response.task.question)
    if share is None:
        missing = Score(None, "the answer has no content words" if response.passages else "no passages")
        return {GROUNDED.name: missing, COPIED.name: missing}
    runs = copied(response.text, [passage.text for passage in response.passages])
    return {GROUNDED.name: Score(share), COPIED.name: Score(runs)}
