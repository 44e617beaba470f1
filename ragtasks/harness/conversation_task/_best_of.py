"""Best of n inside the harness: n samples of every request, one of which becomes the answer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from lm_eval.api.instance import Instance

from ragtasks.config import EvaluationConfig
from ragtasks.harness.judge_model import JudgeModel
from ragtasks.records import Response
from ragtasks.scoring import Picked, pick_best, ready_judge

_LOGGER = logging.getLogger(__name__)


class BestOf:
    """Picks one of the samples of each request, once, and remembers what there was to pick from."""

    def __init__(self, config: EvaluationConfig) -> None:
        """Take the number of samples and the judge, and warn of a judge that scores what it picked.

        Raises:
            RagtasksError: the judge lacks a library or a key.
        """
        self.n = config.best_of
        self._picker = config.picker
        self._judge = ready_judge(config.picker, JudgeModel) if config.picker else None
        self._min_coverage = config.min_judge_coverage
        self._scores_too = self._picker is not None and self._picker.model in {judge.model for judge in config.judges}
        self._picks: dict[str, Picked] = {}
        self._n_different = 0
        if self._scores_too:
            _LOGGER.warning(
                "best of %d: %s picks the answers and scores them too, so its scores favour what it picked. Next step: "
                "name another model as picker or as judge",
                self.n,
                config.picker and config.picker.model,
            )

    def settle(self, instances: Sequence[Instance], response_to: Callable[[Instance, Any], Response]) -> None:
        """Put the picked reply of each request first; the second call does nothing.

        Args:
            instances: the requests of one task with all their replies.
            response_to: (request, reply) -> the response that it is.
        """
        if self._judge is None or self._picks or not instances:
            return
        candidates = [[response_to(instance, reply) for reply in instance.resps] for instance in instances]
        for instance, picked in zip(instances, pick_best(candidates, self._judge, self._min_coverage), strict=True):
            self._picks[instance.doc["task_id"]] = picked
            self._n_different += len(set(map(str, instance.resps)))
            instance.resps.insert(0, instance.resps.pop(picked.index))
        if self._n_different == len(instances):
            _LOGGER.warning(
                "best of %d: all samples of each request are equal, so there was nothing to pick. Next step: sample, "
                "such as --gen_kwargs do_sample=true,temperature=0.7",
                self.n,
            )

    def forget(self) -> None:
        """Begin anew: other requests are asked."""
        self._picks, self._n_different = {}, 0

    def note(self, task_id: str) -> dict[str, Any]:
        """Return what a log keeps about one answer; nothing where none was picked."""
        picked = self._picks.get(task_id)
        if picked is None or self._picker is None:
            return {}
        return {"picked": {"by": self._picker.model, "index": picked.index, "ratings": list(picked.ratings)}}

    def provenance(self) -> dict[str, Any]:
        """Return what results say of the picking; nothing where there is one sample a request."""
        if self._picker is None:
            return {}
        picks = self._picks.values()
        return {
            "best_of": {
                "n": self.n,
                "by": self._picker.model,
                "scores_too": self._scores_too,
                "n_picked": len(picks),
                "n_unrated": sum(not picked.is_rated for picked in picks),
                "n_not_first": sum(picked.index > 0 for picked in picks),
                "different_samples": self._n_different / len(picks) if picks else None,
            }
        }


__all__ = ["BestOf"]
