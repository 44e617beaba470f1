"""Reading `evaluation.yaml`: all problems together, `--set`, rejected secrets, and the schema for editors."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from ragtasks.config import (
    BASELINES,
    FILE_KEYS,
    EvaluationConfig,
    EvaluationFile,
    UntilDecidedSection,
    as_yaml,
    checked_text,
    json_schema,
    read_evaluation_file,
)
from ragtasks.config._evaluation_file import FileSection, ModelSection, RetrieverSection
from ragtasks.errors import ConfigurationError
from tests._commands import run_command
from tests._messages import raises, same_message


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def read(text: str, *overrides: str) -> EvaluationFile:
    Path("evaluation.yaml").write_text(text, encoding="utf-8")
    return read_evaluation_file(Path("evaluation.yaml"), overrides).evaluation


def problems(text: str, *overrides: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read(text, *overrides)
    return [line.strip() for line in str(caught.value).splitlines()]


def test_every_problem_is_reported_with_its_line_and_a_suggestion() -> None:
    reported = problems(
        "benchmrk: mtrag\nmodel:\n  name: m\n  servr: http://x\noptions:\n  encodr: none\nsettings: [refrence]\n"
    )
    assert reported[0] == "evaluation.yaml:"
    assert reported[1:3] == [
        "line 1: benchmrk: no such key; did you mean 'benchmark'?",
        "line 4: model.servr: no such key; did you mean 'server'?",
    ]
    assert reported[3].startswith("line 6: options.encodr: no such option; did you mean 'encoder'")
    assert reported[4].startswith("line 7: settings.0: expected 'reference'")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("benchmark: mtrag\nmodel: [", "line 2: not YAML"),
        ("- a", "expected keys with values"),
        ("model: m\nanswers: a.jsonl\n", "names model and answers: one file evaluates one of"),
        ("answers: a.jsonl\ntasks: [mtrag]\n", "only a model or an endpoint has harness tasks"),
        ("model: m\ntasks: [mtrag]\nsettings: [reference]\n", "leave one out, as a harness task"),
        ("model: m\noptions: {max_words: many}\n", "line 2: options.max_words: expected a whole number, found 'many'"),
        ("model: m\ndata: sample\noptions: {data: sample}\n", "is set at the top and in options"),
        ("endpoint: {base_url: 'http://x', slotz: 3}\n", "did you mean 'slots'?"),
        ("endpoint: {base_url: 'http://x', protocol: soap}\n", "unknown protocol 'soap'"),
        ("endpoint: {base_url: 'http://x', arms: {full: {}}}\n", "two or more names with the keys that differ"),
        ("endpoint: {base_url: 'http://x', arms: {a: {}, b: 3}}\n", "two or more names with the keys that differ"),
        ("endpoint: {base_url: 'http://x', arms: {a: {}, b: {slotz: 3}}}\n", "did you mean 'slots'?"),
        ("endpoint: {base_url: 'http://x', model: m, arms: {a: {}, b: {}}}\n", "each arm has its own name"),
        ("endpoint: {base_url: 'http://x', arms: {a: {name: m}, b: {name: m}}}\n", "the same name or model"),
        ("endpoint: {base_url: 'http://x', arms: {'a b': {}, a-b: {}}}\n", "the same name or model"),
        ("model: m\noptions: {failed_turn: {metric: rb_alg}}\n", "expected metric with below or above, or errors"),
        ("model: m\noptions: {failed_turn: {errors: missed, metric: a, below: 1}}\n", "expected metric with below"),
        ("model: m\noptions: {failed_turn: 'rb_alg<=0.3'}\n", "expected metric with below or above, or errors"),
        ("retriever: {line: bm25, dept: 3}\n", "did you mean 'depth'?"),
        ("model: m\njudges: [gpt-4o-mini]\n", "needs base_url"),
        ("model: m\nuntil_decided: results/a\n", "requires judges, and model"),
        ("model: m\njudges: openai/x\nuntil_decided: a\n", "requires one setting"),
        (
            "model: m\njudges: openai/x\nuntil_decided: a\nsettings: full_rag\noptions: {repeats: 2}\n",
            "each answer is judged once",
        ),
        ("model: m\nuntil_decided: {agains: a}\n", "did you mean 'against'"),
    ],
)
def test_a_problem_is_described(text: str, message: str) -> None:
    assert message in "\n".join(problems(text))


NINES = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NINES, "more than 10,000 values"),
        ("m: &m {x: 1}\n" + "".join(f"m{n}: &m{n} {{<<: [*m, *m], y: *m}}\n" for n in range(1500)), "10,000 values"),
        ("options: &o {x: *o}\n", "or 40 levels"),
        ("judges: &j [*j, *j]\n", "values with aliases written out"),
        (f"options: {'[' * 60}{']' * 60}\n", "or 40 levels"),
        ("options: " + "[" * 500 + "]" * 500 + "\n", "nested too deeply"),
        (f"options: {{max_words: {'9' * 5000}}}\n", "limit"),
        ("options: !!python/object/apply:os.getcwd []\n", "could not determine a constructor"),
    ],
)
def test_a_file_that_expands_too_much_is_one_error(text: str, message: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith("evaluation.yaml: ")
    assert message in problem


def test_a_value_of_set_has_the_same_limits() -> None:
    for value in ("&a [*a]", "[" * 60 + "]" * 60, "[" * 500):
        assert problems("model: m\n", f"model.limit={value}")[0].startswith("--set model.limit: the value is not JSON")


def test_an_alias_of_ordinary_size_is_read() -> None:
    assert read("options: &o {max_words: 9}\nmodel: {name: m, arguments: *o}\n").config.max_words == 9


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such pipes")
@pytest.mark.parametrize("words", [("eval",), ("run", "--config"), ("gate", "--config")])
def test_large_and_special_files_are_rejected_unread(tmp_path: Path, words: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large.yaml").write_bytes(b"# " + b"x" * 300_000)
    for path in (tmp_path / "pipe", tmp_path / "large.yaml", Path("/dev/zero")):
        done = run_command(*words, path)
        assert done.status in {1, 2}
        assert re.search(r"no regular file|more than 256 KiB", done.err)


def test_control_characters_of_a_key_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.yaml"
    path.write_text('model: {name: m, "\\e[2J\\x9b31m\\u202e": 1}\n"\\e]0;x\\a": 1\n', encoding="utf-8")
    done = run_command("eval", path)
    assert done.status == 1
    same_message(done.err)
    assert all(letter.isprintable() or letter == "\n" for letter in done.err)


def test_a_file_with_a_secret_is_rejected() -> None:
    secret = "sk-" + "a1b2c3d4" * 4
    for text in (
        f"model: {{name: m, server: 'http://x', api_key: {secret}}}\n",
        f"model: {{name: m, arguments: {{header: {{Authorization: {secret}}}}}}}\n",
        f"endpoint: {{base_url: 'http://x', extra_body: {{api_key: {secret}}}}}\n",
        f"model: {{name: m, server: 'http://me:{secret}@x/v1'}}\n",
        f"judges: [{secret}]\n",
        f"judges: [openai/m, {secret}]\n",
        f"model: {{name: m, arguments: {{stop: [x, {secret}]}}}}\n",
    ):
        message = "\n".join(problems(text))
        assert "environment" in message
        assert secret not in message


def test_set_overrides_a_key_and_creates_sections() -> None:
    text = "model: m\nsettings: [reference]\n"
    evaluation = read(text, "model.limit=3", "settings=[full_rag]", "options.encoder=none", 'judges=["openai/x"]')
    assert (evaluation.model.name, evaluation.model.limit) == ("m", 3)
    assert [setting.value for setting in evaluation.settings] == ["full_rag"]
    assert (evaluation.config.encoder, evaluation.config.judges[0].model) == ("none", "openai/x")
    assert problems(text, "model.limt=3") == ["evaluation.yaml: line 1: model.limt: no such key; did you mean 'limit'?"]
    assert "expected key=value" in problems(text, "model.limit")[0]


def test_a_model_has_the_harness_arguments() -> None:
    def of(text: str) -> tuple[str, dict[str, object]]:
        model = read(text).model
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


def test_the_baselines_are_registered_models() -> None:
    from lm_eval.api.registry import MODEL_REGISTRY

    from ragtasks.harness import models

    assert models
    ours = {name for name in MODEL_REGISTRY if name.startswith("ragtasks-")}
    assert set(BASELINES) == ours - {"ragtasks-endpoint"}


def test_the_schema_accepts_valid_files_only() -> None:
    done = run_command("init", "--schema")
    schema = json.loads(done.out)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for text in (
        "model: m\njudges: openai/x\n",
        "model: {name: m, limit: 3}\njudges: [openai/x, {model: y, base_url: 'http://x', price: [1, 2]}]\n",
        "endpoint: {base_url: 'http://x', protocol: plain, name: mine}\nsettings: full_rag\n",
        "endpoint: {base_url: 'http://x', arms: {full: null, compacted: {extra_body: {compact: true}}}}\n",
        "model: m\noptions: {failed_turn: rb_alg<0.3}\n",
        "model: m\noptions: {failed_turn: {metric: rb_alg, below: 0.3}}\n",
        "retriever: bm25\noptions: {max_words: 50, idk: ngrams, encoder: none}\n",
        "answers: a.jsonl\nreport: {html: null}\ngate: {baseline: main}\n",
    ):
        validator.validate(yaml.safe_load(text))
    for text in ("modl: m\n", "model: {name: m, limt: 3}\n", "options: {encodr: none}\n", "report: {htm: x}\n"):
        assert not validator.is_valid(yaml.safe_load(text)), text


def test_every_key_has_a_description_and_options_are_those_of_the_configuration() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(FILE_KEYS)
    assert all(schema["properties"][key].get("description") for key in FILE_KEYS)
    assert set(schema["$defs"]["EvaluationConfig"]["properties"]) == set(EvaluationConfig.model_fields)


def test_the_page_of_models_lists_every_key() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "evaluate-a-model.md").read_text("utf-8")
    table = text.partition("| key | value |")[2].partition("\n\n")[0]
    assert not [key for key in FILE_KEYS if f"`{key}`" not in table]
    sections = {
        "model": ModelSection,
        "answers": FileSection,
        "retriever": RetrieverSection,
        "until_decided": UntilDecidedSection,
    }
    for section, model in sections.items():
        row = next(line for line in table.splitlines() if line.startswith(f"| `{section}` "))
        assert not [key for key in model.model_fields if f"`{key}`" not in row]
    options = text.partition("| key | default | meaning |")[2].partition("\n\n")[0]
    assert not [key for key in EvaluationConfig.model_fields if f"`{key}`" not in options]


@pytest.mark.parametrize(
    ("text", "subject", "name"),
    [
        ("model: Qwen/Qwen2.5-7B", "model", "Qwen2.5-7B"),
        ("model: openai/gpt 4o", "model", "gpt-4o"),
        ("model: ./weights/mine/", "model", "mine"),
        ("answers: somewhere/my answers.jsonl", "answers", "my-answers"),
        ("answers: {file: a.jsonl, name: 'a/b'}", "answers", "a-b"),
        ("endpoint: http://x/ask", "endpoint", "rag-system"),
        ("endpoint: {base_url: 'http://x', name: Mine!}", "endpoint", "Mine"),
        ("endpoint: {base_url: 'http://x', name: mine, arms: {a: {}, b: {}}}", "endpoint", "mine"),
        ("retriever: rerank(bm25,minilm)", "retriever", "rerank-bm25-minilm"),
        ("retriever: ...", "retriever", "evaluation"),
    ],
)
def test_the_evaluated_system_has_a_folder_name(text: str, subject: str, name: str) -> None:
    evaluation = read(text)
    assert (evaluation.subject, evaluation.name) == (subject, name)


@pytest.mark.parametrize("text", ["", "benchmark: mtrag_un", "# nothing yet\n"])
def test_a_file_without_a_system_is_an_error_only_when_it_runs(text: str) -> None:
    evaluation = read(text)
    with raises(ConfigurationError):
        assert evaluation.subject


def test_single_values_become_lists_and_tasks_split_at_commas() -> None:
    evaluation = read("model: m\nsettings: full_rag\njudges: {model: j, base_url: 'http://x'}\n")
    assert [setting.value for setting in evaluation.settings] == ["full_rag"]
    assert [judge.model for judge in evaluation.config.judges] == ["j"]
    assert read("model: m\ntasks: mtrag_reference,mtrag_full_rag").tasks == ("mtrag_reference", "mtrag_full_rag")
    for queries in ("rewrite", "[rewrite]"):
        retriever = read(f"retriever: {{line: bm25, queries: {queries}}}").retriever
        assert (retriever.queries, retriever.depth) == (("rewrite",), 100)


def test_the_options_of_a_judge_in_one_line_stay_with_it() -> None:
    config = read("model: m\njudges: mtrag-un-official,base_url=http://h/v1\n").config
    assert [judge.model for judge in config.judges] == ["openai/gpt-oss-120b"]
    assert config.prompts == "official"


def test_options_judges_and_data_are_one_configuration() -> None:
    evaluation = read("model: m\ndata: sample\njudges: openai/x\noptions: {max_words: 5, encoder: none}\n")
    assert evaluation.given_options == {"max_words": 5, "encoder": "none", "data": "sample", "judges": ["openai/x"]}
    assert (evaluation.config.data, evaluation.config.max_words) == ("sample", 5)
    inside = read("model: m\noptions: {data: sample, judges: [openai/x]}\n")
    assert (inside.config.data, [judge.model for judge in inside.config.judges]) == ("sample", ["openai/x"])
    assert read("model: m").given_options == {}


def test_user_arguments_override_derived_ones() -> None:
    def arguments(text: str) -> dict[str, object]:
        model = read(text).model
        return model.harness_arguments

    assert arguments("model: {name: m, arguments: {pretrained: n, dtype: float32}}") == {
        "pretrained": "n",
        "dtype": "float32",
    }
    assert arguments("model: {name: m, server: 'http://x', arguments: {num_concurrent: 1}}") == {
        "model": "m",
        "num_concurrent": 1,
        "base_url": "http://x/chat/completions",
    }
    assert arguments("model: {name: ragtasks-extractive, arguments: {k: 2}}") == {"k": 2}


@pytest.mark.parametrize(
    ("keys", "kind", "is_remote"),
    [
        ("name: m, kind: vllm", "vllm", False),
        ("name: m, kind: vllm, server: 'http://x'", "vllm", False),
        ("name: openai/m, server: 'http://x'", "local-chat-completions", True),
        ("name: openai/m, kind: local-completions", "local-completions", True),
        ("name: ragtasks-refuse", "ragtasks-refuse", False),
        ("name: ragtasks-refuse, kind: hf", "hf", False),
    ],
)
def test_a_given_model_type_is_used(keys: str, kind: str, is_remote: bool) -> None:
    model = read(f"model: {{{keys}}}").model
    assert (model.harness_kind, model.is_remote) == (kind, is_remote)


def test_an_unreadable_file_is_one_error() -> None:
    with raises(ConfigurationError):
        read_evaluation_file(Path("none.yaml"))
    with raises(ConfigurationError):
        read_evaluation_file(Path())
    Path("latin.yaml").write_bytes("model: Käse".encode("latin-1"))
    with raises(ConfigurationError):
        read_evaluation_file(Path("latin.yaml"))


@pytest.mark.parametrize(
    "text", ["5: model", "- model", "model", "a: " + "[" * 3000, "model: \x00", "a: &x [*x"], ids=range(6)
)
def test_a_file_without_keys_is_one_error(text: str) -> None:
    (line,) = problems(text)
    assert line.startswith("evaluation.yaml: ")
    assert "ragtasks init" in line


def test_set_of_a_name_and_its_keys_is_one_section() -> None:
    evaluation = read("model: m", "model=n", "model.limit=3", "retriever=null")
    assert (evaluation.model.name, evaluation.model.limit) == ("n", 3)


def test_set_accepts_any_value_at_any_depth() -> None:
    text = "model: m\noutput: here\noptions: {max_words: 5}\n"
    evaluation = read(text, "output=", "model=n", "model.arguments.a.b=1", "options.system_prompt=a=b")
    assert (evaluation.output, evaluation.model.name, evaluation.model.arguments) == (None, "n", {"a": {"b": 1}})
    assert evaluation.options == {"max_words": 5, "system_prompt": "a=b"}
    other = read("options: 7", "options.max_words=5", "retriever=bm25")
    assert (other.options, other.subject) == ({"max_words": 5}, "retriever")


@pytest.mark.parametrize("override", ["model", "=x", "model..limit=3", ".=1", "model.=3"])
def test_set_without_a_key_is_rejected(override: str) -> None:
    assert problems("model: m", override) == [f"--set {override}: expected key=value, such as --set model.limit=20"]


def test_set_with_a_broken_value_explains_quoting() -> None:
    (line,) = problems("model: m", "judges=[a")
    assert line == "--set judges: the value is not JSON; quote it, as in --set 'judges=[\"a\"]'"


def test_a_secret_is_reported_once_at_any_depth() -> None:
    secret = "sk-" + "a1b2c3d4" * 4
    Path("evaluation.yaml").write_text(
        f"model: m\njudges:\n- {{model: j, base_url: 'http://x', api_key: {secret}}}\n- k,base_url=http://me:{secret}@x\n"
        f"endpoint:\n  extra_body:\n    token: {secret}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigurationError) as caught:
        read_evaluation_file(Path("evaluation.yaml"))
    lines = [line.strip() for line in str(caught.value).splitlines()[1:]]
    assert secret not in "".join(lines)
    assert "line 2: judges.api_key: contains a key; name its environment variable instead, as `api_key_env`" in lines
    assert "line 2: judges: contains a key or a password; these come from the environment" in lines
    assert any(line.startswith("line 7: endpoint.extra_body.token: contains a key") for line in lines)
    assert read("endpoint: {base_url: 'http://x', api_key_env: MY_KEY}").endpoint is not None


def test_a_problem_of_set_has_no_line_and_comes_first() -> None:
    reported = problems("model: m\nsettings: [odd]\n", "options.encodr=none")
    assert reported[1].startswith("options.encodr: no such option")
    assert reported[2].startswith("line 2: settings.0: ")


def test_options_of_a_wrong_type_are_one_problem() -> None:
    assert problems("model: m\noptions: 5\n") == [
        "evaluation.yaml: line 2: options: expected keys with values, found a number"
    ]


def test_a_written_file_is_read_in_the_same_order() -> None:
    content = {"model": {"name": "Käse"}, "benchmark": "mtrag", "settings": ["reference"]}
    text = as_yaml(content)
    assert list(yaml.safe_load(text)) == list(content)
    assert "Käse" in text
    assert read(text).name == "K-se"


def test_a_text_is_validated_before_it_is_written() -> None:
    checked_text("model: m", "evaluation.yaml")
    with raises(ConfigurationError):
        checked_text("modl: m", "new.yaml")
