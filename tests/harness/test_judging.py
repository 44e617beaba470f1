"""LLM judges in a run of the harness: endpoints, some of which fail, and models in this process."""

from __future__ import annotations

import json
import logging
import math
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragtasks.clients import Decoding, Outcome, Prompt, no_secrets
from ragtasks.config import HarnessModel, config_from_options
from ragtasks.errors import ConfigurationError, JudgeError
from ragtasks.harness.judge_model import JudgeModel
from ragtasks.judges import VerdictOutcome, Verdicts, judge_responses, rubrics_named
from ragtasks.suites import suite_named
from tests._commands import CommandResult
from tests._messages import raises
from tests.clients._server import chat_server, closed_port, completion
from tests.harness.conftest import CHATML
from tests.judges._demo import FLAKY, DemoServer
from tests.judges._scripted import response

TASK = "mtrag_full_rag_clapnq"
KEY = "a-secret-that-shows-nowhere-4711"
RUBRICS = [rubric.name for rubric in suite_named("mtrag").rubrics()]
JUDGED = {"rb_llm", "rb_llm_raw", "rl_f", "rl_f_raw", "judge_coverage"}
Judging = Callable[..., CommandResult]


@pytest.fixture
def judging(
    command: Callable[..., CommandResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., CommandResult]:
    """Return a function that evaluates the extractive baseline with judges, with results in `out`."""
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def run(*judges: dict[str, Any], limit: int = 6, **metadata: Any) -> CommandResult:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        return command(
            "--model", "ragtasks-extractive", "--tasks", TASK, "--limit", str(limit), "--log_samples",
            "--output_path", str(tmp_path / "out"), metadata={**({"judges": judges} if judges else {}), **metadata},
        )  # fmt: skip

    return run


def scores_in(folder: Path) -> dict[str, float]:
    (file,) = folder.rglob("results_*.json")
    scores = json.loads(file.read_text())["results"][TASK]
    return {key.partition(",")[0]: value for key, value in scores.items() if "_stderr" not in key and "," in key}


def scoring_in(folder: Path) -> dict[str, str]:
    (file,) = folder.rglob("results_*.json")
    scoring = json.loads(file.read_text())["configs"][TASK]["metadata"]["ragtasks"]["scoring"]
    return {key: scoring[key] for key in ("judges", "idk_detector")}


def test_rules_replace_missing_refusal_verdicts_and_cut_replies_get_a_higher_limit(
    judging: Judging, tmp_path: Path
) -> None:
    with chat_server(lambda *_: completion("Well, the answer", finish_reason="length")) as server:
        done = judging({"model": "poor", "base_url": server.base_url, "max_tokens": 32}, limit=2)
    assert done.status == 1
    assert '"idk": "ngrams" in --metadata detects all refusals offline, as was done here' in done.err
    assert sorted({body["max_tokens"] for body in server.bodies}) == [32, 128]
    scores = scores_in(tmp_path / "out")
    assert not math.isnan(scores["ans_acc"])
    assert not math.isnan(scores["idk_yes"])
    (file,) = (tmp_path / "out").rglob("results_*.json")
    scoring = json.loads(file.read_text())["configs"][TASK]["metadata"]["ragtasks"]["scoring"]
    assert (scoring["idk_detector"], scoring["idk_by_stand_in"]) == ("ngrams-2", 2)
    for row in samples_in(tmp_path / "out"):
        assert row["doc"]["scoring"]["idk_reason"].startswith(
            "ngrams-2 instead of a judge (poor: the reply reached the"
        )


def samples_in(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.rglob(f"samples_{TASK}_*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def dead_judge() -> dict[str, Any]:
    address = f"http://127.0.0.1:{closed_port()}/v1"
    return {"model": "dead", "base_url": address, "attempts": 2, "backoff_seconds": 0.01}


def test_with_three_judges_the_second_run_sends_no_request(
    judging: Judging, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with DemoServer() as server:
        judges = [{**server.judge(name), "api_key_env": "OPENAI_API_KEY"} for name in ("steady-a", "steady-b", FLAKY)]
        first = judging(*judges)
        n_asked = {name: sum(body["model"] == name for body in server.asked) for name in ("steady-a", FLAKY)}
        scores = scores_in(tmp_path / "out")
        second = judging(*judges)
        assert sum(body["model"] == FLAKY for body in server.asked) == n_asked[FLAKY] > n_asked["steady-a"] > 0
        assert all(headers["authorization"] == f"Bearer {KEY}" for headers in server.headers)
    assert (first.status, second.status) == (0, 0), first.err
    assert all(name in first.out for name in ("rb_llm", "rl_f", "judge_coverage", "ans_acc"))
    assert scores["judge_coverage"] == 1
    names = "steady-a, steady-b, flaky"
    assert scoring_in(tmp_path / "out") == {"judges": names, "idk_detector": f"judge {names}"}
    assert all(0 <= scores[name] <= 1 for name in JUDGED)
    again = scores_in(tmp_path / "out")
    assert [again[name] for name in scores] == pytest.approx(list(scores.values()), nan_ok=True)
    for row in samples_in(tmp_path / "out"):
        verdicts = row["doc"]["scoring"]["verdicts"]
        assert {(verdict["rubric"], verdict["judge"]) for verdict in verdicts} == {
            (rubric, judge["model"]) for rubric in RUBRICS for judge in judges
        }
    files = [path for folder in ("out", "store") for path in (tmp_path / folder).rglob("*") if path.is_file()]
    assert any(path.suffix == ".sqlite" for path in files)
    assert [path.name for path in files if KEY.encode() in path.read_bytes()] == []
    assert KEY not in first.out + first.err + second.out + second.err + caplog.text


def test_a_dead_judge_leaves_the_scores_of_the_others(judging: Judging, tmp_path: Path) -> None:
    with DemoServer() as server:
        done = judging(server.judge("steady"), dead_judge())
    scores = scores_in(tmp_path / "out")
    assert done.status == 1
    assert "everything is saved" in done.err
    assert "dead, rb_llm: 0 of 6 (6 judge lost" in done.err
    assert "no server answers" in done.err
    assert "`ragtasks score RESULTS --output FOLDER`" in done.err
    assert "same again" not in done.err  # otherwise the model would be paid for twice
    assert scores["judge_coverage"] == pytest.approx(0.5)
    assert 0 < scores["rb_llm_raw"] <= 1


def test_a_lower_limit_lets_a_dead_judge_pass(judging: Judging, tmp_path: Path) -> None:
    with DemoServer() as server:
        assert judging(server.judge("steady"), dead_judge(), min_judge_coverage=0.0).status == 0
    assert scores_in(tmp_path / "out")["judge_coverage"] == pytest.approx(0.5)


def test_unreachable_judges_are_an_error_after_other_scores_are_saved(judging: Judging, tmp_path: Path) -> None:
    alone = judging()
    without = scores_in(tmp_path / "out")
    done = judging(dead_judge())
    scores = scores_in(tmp_path / "out")
    assert (alone.status, done.status) == (0, 1)
    assert "next step: start the server, or correct the address" in done.err
    assert "rouge_l" in done.out
    assert without.keys() | JUDGED == scores.keys()
    assert [scores[name] for name in without] == pytest.approx(list(without.values()), nan_ok=True)
    assert all(math.isnan(scores[name]) for name in JUDGED - {"judge_coverage"})
    assert scores["judge_coverage"] == 0
    assert scoring_in(tmp_path / "out") == {"judges": "dead", "idk_detector": "ngrams-2"}  # the deciding detector


def test_without_judges_there_are_no_judged_scores(judging: Judging, tmp_path: Path) -> None:
    done = judging()
    assert not JUDGED & scores_in(tmp_path / "out").keys()
    assert "rb_llm" not in done.out
    assert all("verdicts" not in row["doc"]["scoring"] for row in samples_in(tmp_path / "out"))
    assert not (tmp_path / "store").exists()


def judged_by(folder: Path, cache: Path, max_tokens: int = 8) -> Verdicts:
    """Return the verdicts of a model in a folder on two short answers."""
    arguments = {"pretrained": str(folder), "device": "cpu", "dtype": "float32", "batch_size": 8}
    model = HarnessModel.model_validate({"lm_eval": "hf", "model_args": arguments})
    client = JudgeModel(model, Decoding(max_tokens=max_tokens))
    responses = [response("It runs from April.", task_id="c<::>1"), response("I do not know.", task_id="c<::>2")]
    return judge_responses(responses, [client], secrets=no_secrets, cache_file=cache, rubrics=rubrics_named(RUBRICS))


def test_a_local_judge_receives_only_missing_requests_again(tiny_model: Callable[[str], Path], tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_model(CHATML), tmp_path / "model")
    first = judged_by(folder, tmp_path / "replies.sqlite")
    assert {verdict.outcome for verdict in first.all()} <= {
        VerdictOutcome.TRUNCATED,
        VerdictOutcome.UNPARSABLE,
        VerdictOutcome.EMPTY,
        VerdictOutcome.NOT_ASKED,
    }
    asked = [verdict for verdict in first.all() if verdict.outcome is not VerdictOutcome.NOT_ASKED]
    assert {(verdict.attempts, verdict.value) for verdict in asked} == {(2, None)}
    assert all(verdict.replies[0] and verdict.reason and verdict.prompt_tokens for verdict in asked)
    assert sum(sum(coverage.missing.values()) for coverage in first.coverage()) == len(asked) > 0
    with pytest.raises(JudgeError, match="0 of 2"):
        first.require_coverage()
    shutil.rmtree(folder)
    with pytest.raises(JudgeError, match="model in this process"):
        judged_by(folder, tmp_path / "replies.sqlite")


def test_an_unusable_local_judge_is_an_error_after_other_scores_are_saved(
    judging: Judging, tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    arguments = {"pretrained": str(tiny_model(CHATML)), "device": "cpu", "dtype": "float32", "max_length": 1024}
    done = judging({"lm_eval": "hf", "model_args": arguments}, limit=1)
    scores = scores_in(tmp_path / "out")
    assert done.status == 1
    assert "exceed the context of 1024" in done.err
    assert scores["rouge_l"] > 0
    assert scores["judge_coverage"] == 0
    (row,) = samples_in(tmp_path / "out")
    assert {verdict["outcome"] for verdict in row["doc"]["scoring"]["verdicts"]} <= {"failed", "not asked"}


def test_a_missing_local_judge_keeps_the_other_judges(judging: Judging, tmp_path: Path) -> None:
    missing = {"lm_eval": "hf", "model_args": {"pretrained": "no-such/judge", "device": "cpu"}}
    with DemoServer() as server:
        done = judging(server.judge("steady"), missing, limit=2)
    assert done.status == 1
    assert "hf/no-such/judge, rb_llm: 0 of 2" in done.err
    assert scores_in(tmp_path / "out")["judge_coverage"] == pytest.approx(0.5)


def test_a_judge_without_a_device_runs_on_the_cpu_if_there_is_no_gpu(
    tiny_model: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    arguments = {"pretrained": str(tiny_model(CHATML))}
    judge = JudgeModel(HarnessModel.model_validate({"lm_eval": "hf", "model_args": arguments}), Decoding(max_tokens=1))
    (reply,) = judge.answer([Prompt.of("Is it?")])
    assert reply.outcome is not Outcome.FAILED, reply.reason


def test_an_assertion_while_loading_keeps_the_other_judges(
    judging: Judging, tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    arguments = {"pretrained": str(tiny_model(CHATML)), "device": "cpu", "backend": "no such"}
    with DemoServer() as server:
        done = judging(server.judge("steady"), {"lm_eval": "hf", "model_args": arguments}, limit=2)
    assert done.status == 1
    assert "found: AssertionError" in done.err
    assert scores_in(tmp_path / "out")["judge_coverage"] == pytest.approx(0.5)


@pytest.mark.parametrize("library", ["openai", "aiohttp"])
def test_a_missing_judge_library_is_an_error_before_the_model_runs(
    library: str, judging: Judging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with DemoServer() as server:
        done = judging(server.judge(f"lacks-{library}"))
    assert (done.status, server.asked) == (1, [])
    assert f"judge lacks-{library} needs {library}" in done.err
    assert "pip install 'ragtasks[judge]'" in done.err
    assert list((tmp_path / "out").rglob("*.json*")) == []


def test_duplicate_judges_are_an_error_before_the_model_runs(judging: Judging, tmp_path: Path) -> None:
    done = judging(dead_judge(), dead_judge())
    assert done.status == 1
    assert "judges: named twice: dead. Next step: leave one out" in done.err
    assert list((tmp_path / "out").rglob("*.json*")) == []


def test_an_unknown_judge_model_type_is_an_error_before_the_run(judging: Judging, tmp_path: Path) -> None:
    with raises(ConfigurationError):
        JudgeModel(HarnessModel(lm_eval="hff"))
    done = judging({"lm_eval": "hff"}, limit=1)
    assert (done.status, list((tmp_path / "out").rglob("*.json*"))) == (1, [])
    assert "unknown model type 'hff'" in done.err


def test_model_arguments_distinguish_cached_replies() -> None:
    first, second = (
        HarnessModel.model_validate({"lm_eval": "hf", "model_args": {"pretrained": "x", "revision": name}})
        for name in "ab"
    )
    assert first.model == second.model == "hf/x"
    assert JudgeModel(first).describe() != JudgeModel(second).describe()
    assert hash(first) != hash(second)


def test_a_local_judge_is_saved_in_results_and_restored() -> None:
    options = {"judges": [{"lm_eval": "hf", "model_args": {"pretrained": "x", "dtype": "auto"}}, "openai/any"]}
    config = config_from_options(options)
    assert config_from_options(json.loads(config.model_dump_json())) == config
    assert hash(config) == hash(config_from_options(options))
    assert [judge.model for judge in config.judges] == ["hf/x", "openai/any"]


@pytest.mark.parametrize(
    ("judge", "message"),
    [
        ({"lm_eval": "hf", "model_args": {"pretrained": "x", "token": KEY}}, "must not contain token: keys come from"),
        ({"lm_eval": "hf", "model_args": f"pretrained=x,token={KEY}"}, "must be an object"),
        ({"lm_eval": "hf", "modelargs": {"token": KEY}}, "modelargs: Extra inputs"),
        ({"lm_eval": ""}, "lm_eval: expected a text that is not empty"),
        ({"lm_eval": "hf", "model_args": {"device": {1}}}, "plain JSON values"),
    ],
)
def test_an_invalid_local_judge_is_rejected_without_its_values(judge: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        config_from_options({"judges": [judge]})
    assert KEY not in "".join(traceback.format_exception(caught.value))
