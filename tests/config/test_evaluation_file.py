"""`evaluation.yaml` as it is read: every problem at once, `--set`, no secret, and the schema for editors."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from ragtasks.cli import main
from ragtasks.config import FILE_KEYS, EvaluationConfig, EvaluationFile, json_schema, read_evaluation_file
from ragtasks.config._evaluation_file import BASELINES, AnswersSection, ModelSection, RetrieverSection
from ragtasks.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(text: str, *overrides: str) -> EvaluationFile:
    Path("evaluation.yaml").write_text(text, encoding="utf-8")
    return read_evaluation_file(Path("evaluation.yaml"), overrides).evaluation


def problems(text: str, *overrides: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read(text, *overrides)
    return [line.strip() for line in str(caught.value).splitlines()]


def test_every_problem_is_named_at_once_with_its_line_and_the_nearest_key() -> None:
    found = problems(
        "benchmrk: mtrag\nmodel:\n  name: m\n  servr: http://x\noptions:\n  encodr: none\nsettings: [refrence]\n"
    )
    assert found[0] == "evaluation.yaml:"
    assert found[1:3] == [
        "line 1: benchmrk: no such key; did you mean 'benchmark'?",
        "line 4: model.servr: no such key; did you mean 'server'?",
    ]
    assert found[3].startswith("line 6: options.encodr: no such option; did you mean 'encoder'")
    assert found[4].startswith("line 7: settings.0: Input should be 'reference'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("benchmark: mtrag\nmodel: [", "line 2: not YAML"),
        ("- a", "expected keys with values"),
        ("model: m\nanswers: a.jsonl\n", "names model and answers: one file evaluates one of"),
        ("answers: a.jsonl\ntasks: [mtrag]\n", "harness tasks are for a model"),
        ("model: m\ntasks: [mtrag]\nsettings: [reference]\n", "name either"),
        ("model: m\noptions: {max_words: many}\n", "options: max_words: Input should be a valid integer"),
        ("model: m\ndata: sample\noptions: {data: sample}\n", "stands at the top and in options"),
        ("endpoint: {base_url: 'http://x', slotz: 3}\n", "did you mean 'slots'?"),
        ("endpoint: {base_url: 'http://x', protocol: soap}\n", "unknown protocol 'soap'"),
        ("retriever: {line: bm25, dept: 3}\n", "did you mean 'depth'?"),
        ("model: m\njudges: [gpt-4o-mini]\n", "needs base_url"),
    ],
)
def test_a_problem_says_what_is_wrong(text: str, message: str) -> None:
    assert message in "\n".join(problems(text))


def test_a_file_holds_no_key() -> None:
    secret = "sk-" + "a1b2c3d4" * 4
    for text in (
        f"model: {{name: m, server: 'http://x', api_key: {secret}}}\n",
        f"model: {{name: m, arguments: {{header: {{Authorization: {secret}}}}}}}\n",
        f"endpoint: {{base_url: 'http://x', extra_body: {{api_key: {secret}}}}}\n",
        f"model: {{name: m, server: 'http://me:{secret}@x/v1'}}\n",
    ):
        said = "\n".join(problems(text))
        assert "environment" in said
        assert secret not in said


def test_set_overrides_a_key_and_makes_the_sections_that_it_needs() -> None:
    text = "model: m\nsettings: [reference]\n"
    found = read(text, "model.limit=3", "settings=[full_rag]", "options.encoder=none", 'judges=["openai/x"]')
    assert found.model is not None
    assert (found.model.name, found.model.limit) == ("m", 3)
    assert [setting.value for setting in found.settings] == ["full_rag"]
    assert (found.config.encoder, found.config.judges[0].model) == ("none", "openai/x")
    assert problems(text, "model.limt=3") == ["evaluation.yaml: line 1: model.limt: no such key; did you mean 'limit'?"]
    assert "expected key=value" in problems(text, "model.limit")[0]


def test_a_model_is_named_as_the_harness_wants_it() -> None:
    def of(text: str) -> tuple[str, dict[str, object]]:
        model = read(text).model
        assert model is not None
        return model.harness_kind, model.harness_arguments

    assert of("model: ragtasks-oracle") == ("ragtasks-oracle", {})
    assert of("model: Qwen/Qwen2.5-7B-Instruct") == ("hf", {"pretrained": "Qwen/Qwen2.5-7B-Instruct"})
    assert of("model: openai/gpt-4o-mini") == (
        "openai-chat-completions",
        {"model": "gpt-4o-mini", "num_concurrent": 32},
    )
    named = {"model": "m", "num_concurrent": 4, "base_url": "http://x/v1/chat/completions"}
    for server in ("http://x/v1", "http://x/v1/", "http://x/v1/chat/completions"):
        assert of(f"model: {{name: m, server: '{server}', concurrent: 4}}") == ("local-chat-completions", named)
    plain = {"model": "m", "num_concurrent": 32, "base_url": "http://x/v1/completions"}
    assert of("model: {name: m, server: 'http://x/v1', chat: false}") == ("local-completions", plain)


def test_the_baselines_are_those_that_the_harness_knows() -> None:
    from lm_eval.api.registry import MODEL_REGISTRY

    from ragtasks.harness import models

    assert models
    ours = {name for name in MODEL_REGISTRY if name.startswith("ragtasks-")}
    assert set(BASELINES) == ours - {"ragtasks-endpoint"}


def test_the_schema_takes_what_is_read_and_refuses_what_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["init", "--schema"])
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for text in (
        "model: m\njudges: openai/x\n",
        "model: {name: m, limit: 3}\njudges: [openai/x, {model: y, base_url: 'http://x', price: [1, 2]}]\n",
        "endpoint: {base_url: 'http://x', protocol: plain, name: mine}\nsettings: full_rag\n",
        "retriever: bm25\narena: {serve: {port: 8000}}\noptions: {max_words: 50, idk: rules, encoder: none}\n",
        "answers: a.jsonl\nreport: {html: null}\ngate: {baseline: main}\n",
    ):
        validator.validate(yaml.safe_load(text))
    for text in ("modl: m\n", "model: {name: m, limt: 3}\n", "options: {encodr: none}\n", "retrieve: {qeries: x}\n"):
        assert not validator.is_valid(yaml.safe_load(text)), text


def test_every_key_has_a_description_and_options_are_those_of_the_configuration() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(FILE_KEYS)
    assert all(schema["properties"][key].get("description") for key in FILE_KEYS)
    assert set(schema["$defs"]["EvaluationConfig"]["properties"]) == set(EvaluationConfig.model_fields)


def test_the_page_of_models_lists_every_key() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "evaluate-a-model.md").read_text("utf-8")
    table = text.partition("| key | what it holds |")[2].partition("\n\n")[0]
    assert not [key for key in FILE_KEYS if f"`{key}`" not in table]
    sections = {"model": ModelSection, "answers": AnswersSection, "retriever": RetrieverSection}
    for section, kind in sections.items():
        row = next(line for line in table.splitlines() if line.startswith(f"| `{section}` "))
        assert not [key for key in kind.model_fields if f"`{key}`" not in row]
