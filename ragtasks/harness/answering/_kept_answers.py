"""A model of the harness whose answers are kept as they come, and that is asked only what is not answered yet."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from ragtasks.harness.answering._answer_log import AnswerLog, Asked
from ragtasks.harness.answering._failing_requests import FailingRequests
from ragtasks.harness.answering._no_answer import NoAnswer
from ragtasks.scoring import record_failure

_LOGGER = logging.getLogger(__name__)
_SHOWN = 3
_ASK_AGAIN = "Next step: run the same command again: only these are asked"


class KeptAnswers:
    """Stands for a model where the harness asks it; everything else is the model's own."""

    def __init__(self, model: LM, log: AnswerLog | None, failing: FailingRequests | None = None) -> None:
        """Put a log before a model.

        Args:
            model: the harness's model.
            log: where its answers are kept; None: nowhere.
            failing: what tells which of its requests failed; None for a model in this process.
        """
        self._model, self._log, self._failing = model, log, failing
        self._reported: set[str] = set()
        model.set_cache_hook(_Hook(self))

    def __getattr__(self, name: str) -> Any:
        """Return what the model has under this name."""
        return getattr(self._model, name)

    def generate_until(self, requests: list[Instance], **options: Any) -> list[Any]:
        """Return the text that answers each request; `NoAnswer` where none came.

        Raises:
            ModelError: the server answers nobody any more; what came before is kept.
        """
        answers = self._answers("generate_until", requests, options)
        reasons = Counter(answer.reason for answer in answers if isinstance(answer, NoAnswer))
        if reasons:
            shown = "; ".join(f"{reason} ({n} times)" for reason, n in reasons.most_common(_SHOWN))
            more = f"; {len(reasons) - _SHOWN} other reasons" if len(reasons) > _SHOWN else ""
            again = f". {_ASK_AGAIN}" if self._log is not None else ""
            record_failure(f"{reasons.total()} of {len(answers)} requests got no answer: {shown}{more}{again}")
        return answers

    def loglikelihood(self, requests: list[Instance], **options: Any) -> list[Any]:
        """Return what the model returns."""
        return [tuple(answer) for answer in self._answers("loglikelihood", requests, options)]

    def loglikelihood_rolling(self, requests: list[Instance], **options: Any) -> list[Any]:
        """Return what the model returns."""
        return self._answers("loglikelihood_rolling", requests, options)

    def _answers(self, method: str, requests: Sequence[Instance], options: dict[str, Any]) -> list[Any]:
        asked: list[Asked] = [(method, request.args) for request in requests]
        answers = self._log.look_up(asked) if self._log is not None else [None] * len(asked)
        missing = [index for index, answer in enumerate(answers) if answer is None]
        if self._log is not None and len(missing) < len(asked):
            n_known = len(asked) - len(missing)
            _LOGGER.info("%d of %d requests are answered in %s; the rest is asked", n_known, len(asked), self._log.path)
        if not missing:
            return answers
        self._reported.clear()
        _LOGGER.info("asking for %d answers", len(missing))
        given = getattr(self._model, method)([requests[index] for index in missing], **options)
        for index, answer in zip(missing, given, strict=True):
            answers[index] = answer
            if repr(asked[index]) not in self._reported:  # models that other people made may tell no hook
                self._keep(asked[index], answer)
        if self._failing is not None:
            self._failing.raise_if_ended(len(asked) - sum(isinstance(answer, NoAnswer) for answer in answers))
        return answers

    def tell(self, asked: Asked, answer: Any) -> None:
        """Keep an answer that the model has just given."""
        self._reported.add(repr(asked))
        self._keep(asked, answer)

    def _keep(self, asked: Asked, answer: Any) -> None:
        if self._log is not None and not isinstance(answer, NoAnswer):
            self._log.record(asked, answer)


class _Hook:
    """What the harness's models tell of each answer as it comes."""

    def __init__(self, kept: KeptAnswers) -> None:
        self._kept = kept

    def add_partial(self, method: str, arguments: Sequence[Any], answer: Any) -> None:
        self._kept.tell((method, tuple(arguments)), answer)


__all__ = ["KeptAnswers"]
