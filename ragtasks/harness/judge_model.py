"""A judge in this process: a model of the harness that is loaded when it is first asked something.

What is in the reply cache costs no loading, and a model that cannot be loaded loses its own verdicts only, as an
endpoint does that nobody answers at.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ragtasks.clients import Decoding, Journal, Progress, Prompt, Reply, no_progress
from ragtasks.config import HarnessModel
from ragtasks.errors import ConfigurationError, JudgeError, clear_error, close_matches
from ragtasks.weights import refuse_pickles

if TYPE_CHECKING:
    from ragtasks.harness._model_client import ModelClient

# Models share one machine, and libraries under them are not made for several at once.
_ONE_AT_A_TIME = threading.Lock()
# What libraries raise for memory, devices (torch asserts that it has them), files and tokens that do not fit.
_FAILURES = (RuntimeError, ValueError, OSError, LookupError, MemoryError, AssertionError)


class JudgeModel:
    """Answers prompts with a model that the harness loads, one model at a time."""

    def __init__(self, model: HarnessModel, decoding: Decoding | None = None) -> None:
        """Take the model's description.

        Raises:
            ConfigurationError: the harness has no model of that kind.
        """
        _check_kind(model.lm_eval)
        self._model, self._decoding = model, decoding or Decoding()
        self._client: ModelClient | None = None

    @property
    def name(self) -> str:
        """Kind and weights, such as `hf/Qwen/Qwen2.5-7B-Instruct`."""
        return self._model.model

    def describe(self) -> dict[str, Any]:
        """Return what decides its replies: model, arguments (a revision, a precision) and decoding without a seed."""
        decoding = self._decoding.describe()
        del decoding["seed"]
        return {"model": self.name, "arguments": self._model.arguments, "decoding": decoding}

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply a prompt, in order (see `Client.answer`); no prompts load no model.

        Raises:
            JudgeError: the model cannot be loaded, or fails on the way; what came before is in the journal.
        """
        if not prompts:
            return []
        with _ONE_AT_A_TIME:
            client = self._loaded()
            try:
                return client.answer(prompts, progress, journal)
            except _FAILURES as error:
                raise JudgeError(self._fatal(error)) from error

    def _loaded(self) -> ModelClient:
        if self._client is None:
            from ragtasks.harness._model_client import load_model_client

            try:
                refuse_pickles("model in this process", str(self._model.arguments.get("pretrained", "")) or self.name)
                self._client = load_model_client(self._model.lm_eval, self._model.arguments, self._decoding)
            except ConfigurationError as error:
                raise JudgeError(str(error)) from error
            except Exception as error:  # libraries of ten formats raise all kinds of errors for files that are damaged
                raise JudgeError(self._fatal(error)) from error
        return self._client

    def _fatal(self, error: Exception) -> str:
        return clear_error(
            "model in this process",
            where=self.name,
            expected="a model that loads and replies",
            found=f"{type(error).__name__}: {error}",
            next_step="check model_args, the model's files and the memory, then ask again: replies are kept",
        )


def _check_kind(kind: str) -> None:
    import lm_eval.models  # noqa: F401 (registers the harness's own)
    from lm_eval.api.registry import MODEL_REGISTRY

    if kind not in MODEL_REGISTRY:
        raise ConfigurationError(f"judges: unknown kind of model {kind!r}: {close_matches(kind, MODEL_REGISTRY)}")


__all__ = ["JudgeModel"]
