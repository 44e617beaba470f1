"""The two folders that a link joins: that of our harness task YAMLs, and that of the harness's own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ragtasks.errors import ConfigurationError, clear_error

_PACKAGE = Path(__file__).absolute().parents[2]  # not resolved: some installers link single files into a cache


def task_folder() -> Path:
    """Return the folder that holds our harness task YAMLs: the path for lm_eval's `--include_path`.

    A checkout comes first: an editable install copies the YAMLs into the package once, and that copy ages.

    Raises:
        ConfigurationError: neither the checkout nor the installed package has the folder.
    """
    checkout, installed = _PACKAGE.parent, _PACKAGE / "task_yamls"
    # Beside an installed package any `task_yamls` belongs to somebody else.
    if (checkout / "pyproject.toml").is_file() and (checkout / "task_yamls").is_dir():
        return checkout / "task_yamls"
    if installed.is_dir():
        return installed
    raise ConfigurationError(
        clear_error(
            "the harness task YAMLs of ragtasks",
            where=str(_PACKAGE),
            expected=f"{checkout / 'task_yamls'} (a checkout) or {installed} (an install)",
            found="neither folder",
            next_step="reinstall: pip install --force-reinstall --no-deps ragtasks",
        )
    )


def harness_tasks_folder() -> Path:
    """Return the tasks folder of the lm_eval that `import lm_eval` would load here, without importing it.

    Raises:
        ConfigurationError: lm_eval is not installed, is a folder without `__init__.py`, or has no tasks folder.
    """
    spec = find_spec("lm_eval")
    if spec is None:
        raise _harness_error("no module lm_eval", "pip install 'lm-eval>=0.4.13,<0.4.14'")
    if spec.origin is None:
        places = ", ".join(spec.submodule_search_locations or ())
        remedy = f"delete what is left of an earlier install ({places}), then pip install 'lm-eval>=0.4.13,<0.4.14'"
        raise _harness_error(f"a folder without __init__.py: {places}", remedy)
    folder = Path(spec.origin).absolute().parent / "tasks"
    if not folder.is_dir():
        raise _harness_error(f"no folder {folder}", "pip install --force-reinstall --no-deps 'lm-eval>=0.4.13,<0.4.14'")
    return folder


def _harness_error(found: str, next_step: str) -> ConfigurationError:
    """Return the error for an lm_eval that cannot be linked."""
    return ConfigurationError(
        clear_error(
            "the harness's tasks folder",
            where="import lm_eval",
            expected="an installed lm_eval with a folder `tasks`",
            found=found,
            next_step=next_step,
        )
    )


__all__ = ["harness_tasks_folder", "task_folder"]
