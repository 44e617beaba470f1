"""Who keeps what in one evaluation: the model that the harness loads is put behind a log of its answers."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from lm_eval.api.model import LM

from ragtasks.harness.answering._answer_log import AnswerLog
from ragtasks.harness.answering._failing_requests import survive_failing_requests
from ragtasks.harness.answering._kept_answers import KeptAnswers

_LOGGER = logging.getLogger(__name__)
_IN_USE: list[LM] = []


def model_in_use() -> LM | None:
    """Return the model of the evaluation that `ragtasks run` runs in this process; None under the stock command."""
    return _IN_USE[0] if _IN_USE else None


class AnswerKeeper(AbstractContextManager["AnswerKeeper"]):
    """Keeps the answers of the models of one evaluation, until it is saved or, where a file is named, for good."""

    def __init__(self, output_path: str | None, use_cache: str | None) -> None:
        """Choose where.

        Args:
            output_path: as the harness's option; answers that are not saved yet lie in its folder.
            use_cache: as the harness's option: a file, to which the process's rank is added, that stays.
        """
        self._lasting = f"{use_cache}_rank{{rank}}.sqlite" if use_cache else ""
        folder = Path(output_path or "")
        folder = folder.parent if folder.suffix == ".json" else folder
        self._unsaved = str(folder / "unfinished_rank{rank}.sqlite") if output_path else ""
        self._logs: list[AnswerLog] = []
        _IN_USE.clear()

    def keep(self, kind: str, model: LM, arguments: dict[str, Any]) -> Any:
        """Return the model with its answers kept; baselines cost nothing.

        Raises:
            CacheError: the file cannot be used.
        """
        _IN_USE[:] = [model]
        _LOGGER.info("%s is loaded; building the prompts", kind)
        if kind == "dummy" or (kind.startswith("ragtasks-") and kind != "ragtasks-endpoint"):
            return model
        log = None
        if name := self._lasting or self._unsaved:
            path = Path(name.replace("{rank}", str(model.rank)))
            log = AnswerLog(path, kind, arguments, is_lasting=bool(self._lasting))
            self._logs.append(log)
        return KeptAnswers(model, log, survive_failing_requests(model))

    def finish(self) -> None:
        """Let go of what is saved elsewhere by now."""
        for log in self._logs:
            log.finish()
        self._logs = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _IN_USE.clear()
        for log in self._logs:
            log.close()
            if kind is not None and log.n_kept:
                _LOGGER.warning("%d answers are kept in %s: the same command asks only the rest", log.n_kept, log.path)


__all__ = ["AnswerKeeper", "model_in_use"]
