"""What is looked at before a harness task asks anything: its YAML's metrics, and keys among the model's arguments."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.secrets import masked

_LOGGER = logging.getLogger(__name__)


def check_metric_list(what: str, listed: Iterable[Mapping[str, Any]], declared: Iterable[str]) -> None:
    """Refuse a list of metrics that is not the declared one: names that are missing, names that nothing computes.

    Raises:
        ConfigurationError: it names others.
    """
    names, known = {str(item.get("metric")) for item in listed}, set(declared)
    if names == known:
        return
    found = [f"missing {', '.join(sorted(known - names))}"] if known - names else []
    found += [f"unknown {', '.join(sorted(names - known))}"] if names - known else []
    raise ConfigurationError(
        clear_error(
            f"metric_list of {what}",
            where="its YAML",
            expected="no such list: the suite declares the metrics; or exactly these",
            found="; ".join(found),
            next_step="take `metric_list` out of the YAML",
        )
    )


def warn_of_secrets(metadata: Mapping[str, Any]) -> None:
    """Warn of the model's arguments that hold a key and are not masked: the stock harness merges them in as they are.

    Said once, before the model runs.
    """
    _warn(tuple(sorted(str(key) for key, value in metadata.items() if masked({key: value}) != {key: value})))


@functools.lru_cache(maxsize=1)
def _warn(names: tuple[str, ...]) -> None:
    if names:
        _LOGGER.warning(
            "--model_args %s: lm_eval writes this with its results, and prints it. Next step: name keys in the "
            "environment (OPENAI_API_KEY), or take `ragtasks run`, which masks them",
            ", ".join(names),
        )


__all__ = ["check_metric_list", "warn_of_secrets"]
