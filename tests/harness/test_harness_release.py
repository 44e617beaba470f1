"""Assumptions about the harness and its proposed plugin mechanism, so that a release that breaks them fails a test."""

from __future__ import annotations

import inspect
import itertools
import sys
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path

import lm_eval._cli.run
import lm_eval.api.registry
import lm_eval.config.evaluate_config
import lm_eval.evaluator
import lm_eval.tasks
import pytest
from lm_eval.api.group import Group
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ragtasks.harness import endpoint_model, models
from ragtasks.harness.conversation_task import ConversationTask
from ragtasks.harness.link import HARNESS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
RUN = inspect.getsource(lm_eval._cli.run)
CONFIG = inspect.getsource(lm_eval.config.evaluate_config)
EVALUATOR = inspect.getsource(lm_eval.evaluator)
# Names that `ragtasks run` replaces: their module, and the line that looks them up at run time.
REPLACED = {
    "TaskManager": (lm_eval.tasks, CONFIG, "import TaskManager"),
    "EvaluatorConfig": (
        lm_eval.config.evaluate_config,
        RUN,
        "from lm_eval.config.evaluate_config import EvaluatorConfig",
    ),
    "get_model": (lm_eval.api.registry, EVALUATOR, "lm_eval.api.registry.get_model("),
    "add_env_info": (lm_eval.evaluator, EVALUATOR, "add_env_info(results)"),
    "set_torch_seed": (lm_eval.evaluator, EVALUATOR, "set_torch_seed(torch_random_seed)"),
}


def declared_models() -> dict[str, str]:
    """Return the entry points for the harness's models that the project declares."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    declared: dict[str, str] = project["entry-points"]["lm_eval.models"]
    return declared


@pytest.mark.parametrize("name", REPLACED)
def test_replaced_names_are_looked_up_at_run_time(name: str) -> None:
    module, source, line = REPLACED[name]
    assert hasattr(module, name), f"lm_eval {version('lm-eval')}: {module.__name__} has no {name}; see run.py"
    lines = [row for row in source.splitlines() if line in row]
    assert lines, f"lm_eval {version('lm-eval')} comes to {name} in another way than {line!r}; see run.py"
    # A module-level import would bind the name before it is replaced.
    assert all(row.startswith(" ") for row in lines), f"{name} is imported at the top now; see run.py"


@pytest.mark.parametrize(
    "name",
    [
        "aggregation",
        "apply_filters",
        "build_all_requests",
        "download",
        "fewshot_context",
        "fewshot_docs",
        "process_results",
    ],
)
def test_overridden_methods_exist_with_compatible_parameters(name: str) -> None:
    theirs = inspect.signature(getattr(ConfigurableTask, name)).parameters
    ours = inspect.signature(getattr(ConversationTask, name)).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in ours.values())
    assert takes_any or theirs.keys() <= ours.keys(), f"lm_eval {version('lm-eval')}: {name} takes {list(theirs)}"


def test_groups_still_average_by_the_known_formula() -> None:
    assert "aggregate_subtask_metrics(" in inspect.getsource(Group.aggregate)


def test_every_requirement_and_error_names_the_tested_range() -> None:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    listed = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    ranges = [required.specifier for line in listed if (required := Requirement(line)).name == "lm-eval"]
    assert ranges == [SpecifierSet(">=0.4.12,<0.4.14")] * 4
    assert Requirement(HARNESS.strip("'")).specifier == ranges[0]


def test_the_installed_version_is_in_the_tested_range() -> None:
    assert Requirement(HARNESS.strip("'")).specifier.contains(version("lm-eval"), prereleases=True)


def test_baselines_are_declared_as_plugins_of_the_harness() -> None:
    """Pull request 4013 of lm_eval registers each entry point as a placeholder and loads it on first use."""
    registered = {name for name in lm_eval.api.registry.MODEL_REGISTRY if name.startswith("ragtasks-")}
    assert declared_models().keys() == registered
    for name, value in declared_models().items():
        entry = EntryPoint(name, value, "lm_eval.models")
        model = entry.load()
        assert issubclass(model, LM)
        assert model is lm_eval.api.registry.get_model(name)
        assert model.__module__ in (models.__name__, endpoint_model.__name__)


def test_the_current_registry_resolves_a_placeholder() -> None:
    registry = lm_eval.api.registry.Registry("models of a test", base_cls=LM)
    registry.register("ragtasks-oracle", target=EntryPoint("x", declared_models()["ragtasks-oracle"], "lm_eval.models"))
    assert registry.get("ragtasks-oracle") is models.Oracle


def test_installed_metadata_has_the_same_entry_points() -> None:
    installed = {entry.name: entry.value for entry in entry_points(group="lm_eval.models") if "ragtasks" in entry.value}
    if not installed:
        pytest.skip("ragtasks was installed here before it declared entry points; `pip install -e .` renews them")
    assert installed == declared_models()
