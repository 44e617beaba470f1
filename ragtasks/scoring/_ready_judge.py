"""Judges before anything is asked: what is missing is said before a model answers."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from ragtasks.clients import Client, Endpoint, credentials_for
from ragtasks.config import HarnessModel, Judge
from ragtasks.environment import secret
from ragtasks.errors import ConfigurationError, MissingExtraError

LocalJudge = Callable[[HarnessModel], Client]
"""Loads a judge that is a model of this process: handed in by who may import the harness."""


def ready_judge(judge: Judge, local_judge: LocalJudge | None) -> Endpoint | Client:
    """Return what can be asked: an endpoint as it is, a model of this process as a client.

    Raises:
        RagtasksError: a library or a key is missing, or nothing loads a model of this process.
    """
    if isinstance(judge, Endpoint):
        for library in ("openai", "aiohttp"):
            if find_spec(library) is None:
                raise MissingExtraError(library, "judge", f"the judge {judge.model}")
        credentials_for(judge, secret)  # a key that is not set is said before the model answers
        return judge
    if local_judge is None:
        raise ConfigurationError(f"judges: {judge.model} is a model of this process, and nothing here loads one")
    return local_judge(judge)


__all__ = ["LocalJudge", "ready_judge"]
