"""Requirements of an evaluation: data, runs, the encoder, judges and rewriters, space for the results."""

from __future__ import annotations

import re
import shutil
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtasks.config import EvaluationConfig, config_from_options
from ragtasks.records import Setting
from ragtasks.requirements import checked
from ragtasks.scoring import Folders, evaluation_requirements
from tests.clients._server import ChatServer, chat_server, completion, refusal

PARTS = [("mtrag", Setting.REFERENCE)]
KEY = "OPENAI_API_KEY"


@pytest.fixture(autouse=True)
def _place(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (KEY, "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(lambda _text, _n: completion("fine")) as running:
        yield running


def config(**options: Any) -> EvaluationConfig:
    return config_from_options({"data": "sample", "encoder": "none", **options})


def problems(
    folder: Path,
    given: EvaluationConfig,
    parts: list[tuple[str, Setting]] = PARTS,
    *,
    output: Path | None = None,
    probes: bool = True,
    **options: Any,
) -> list[str]:
    folders = Folders(folder / "data", folder / "store")
    found = checked(evaluation_requirements(parts, given, output, folders, **options), with_requests=probes)
    return [result.problem for result in found if result.problem]


def test_a_complete_evaluation_has_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, config(), output=tmp_path / "results") == []
    assert not (tmp_path / "results").exists()


def test_results_need_more_space_with_passages_judges_and_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0))

    def size(given: EvaluationConfig, *parts: tuple[str, Setting], **options: Any) -> float:
        (problem,) = problems(tmp_path, given, list(parts), output=tmp_path, probes=False, **options)
        found = re.search(r"results will take about ([\d.]+) GB", problem)
        assert found is not None, problem
        return float(found[1])

    reference = size(config(), *PARTS)
    assert reference <= 0.01, "112 answers, some 10 kB each"
    monkeypatch.setenv(KEY, "sk-of-a-test-0123456789")
    judged = config(judges=["openai/a", "openai/b"], repeats=20, repeat_share=1.0)
    assert size(judged, *PARTS) == pytest.approx(reference + 112 * 40 * 6e-6, abs=0.01)
    assert size(config(), ("mtrag", Setting.AGENTIC)) > size(config(), ("mtrag", Setting.FULL_RAG))
    assert size(config(), *PARTS, needs_passages=False) <= reference


def test_only_a_score_that_needs_an_encoder_requires_one(tmp_path: Path) -> None:
    wanted = config(encoder="nobody/has-this")
    (found,) = problems(tmp_path, wanted, [*PARTS, ("mtrag", Setting.FULL_RAG)])
    assert found.startswith("encoder nobody/has-this: the main score rb_alg would be unscored: ")
    assert "HF_HUB_OFFLINE" in found
    assert "`hf download nobody/has-this`" in found
    assert problems(tmp_path, wanted, suites={"mtrag": "rewriting"}) == []


def test_a_benchmark_without_an_encoder_does_not_hide_the_requirement_of_another(tmp_path: Path) -> None:
    parts = [("multihop_rag", Setting.REFERENCE), *PARTS]
    (found,) = problems(tmp_path, config(encoder="nobody/has-this"), parts)
    assert found.startswith("encoder nobody/has-this: the main score rb_alg would be unscored")


@pytest.mark.parametrize(
    ("options", "who"),
    [({"judges": ["openai/j"]}, "judge openai/j"), ({"rewriter": "openai/r"}, "rewriter openai/r")],
)
def test_an_endpoint_of_openai_needs_a_key(
    options: dict[str, Any], who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = problems(tmp_path, config(**options), probes=False)
    assert found[-1].startswith(f"{who}: OPENAI_API_KEY is not set, and https://api.openai.com/v1 requires a key")
    monkeypatch.setenv(KEY, "sk-of-a-test-0123456789")
    assert problems(tmp_path, config(**options), probes=False) == []


def test_a_judge_of_this_process_needs_no_key(tmp_path: Path) -> None:
    local = {"lm_eval": "hf", "model_args": {"pretrained": "x"}}
    assert problems(tmp_path, config(judges=[local])) == []


@pytest.mark.parametrize(("role", "who"), [("judges", "judge"), ("rewriter", "rewriter")])
def test_an_endpoint_is_probed_once(role: str, who: str, server: ChatServer, tmp_path: Path) -> None:
    wanted = config(**{role: {"model": "j", "base_url": server.base_url, "attempts": 5}})
    server.script = lambda *_: refusal(500, "boom")
    (found,) = problems(tmp_path, wanted)
    assert found.startswith(f"{who} j at {server.base_url}: HTTP 500: ")
    assert found.count("Next step: ") == 1
    assert server.asked == ["Reply with the word ready."]
    server.script = lambda *_: refusal(404)
    (found,) = problems(tmp_path, wanted)
    assert found.startswith(f"{who} j at {server.base_url}: ")
    assert "no such model or address" in found
    assert found.count("Next step: ") == 1
    for odd in (completion(""), completion("anything")):
        server.script = lambda *_, odd=odd: odd
        assert problems(tmp_path, wanted) == []
    n_asked = len(server.asked)
    assert problems(tmp_path, wanted, probes=False) == []
    assert len(server.asked) == n_asked


def test_two_benchmarks_are_checked_each_with_its_own_problem(tmp_path: Path) -> None:
    parts = [("mtrag", Setting.FULL_RAG), *PARTS, ("mtrag_un", Setting.REFERENCE), ("mtrag_un", Setting.FULL_RAG)]
    found = problems(tmp_path, config_from_options({"encoder": "none"}), parts)
    assert [line.partition(":")[0] for line in found] == ["data of mtrag", "data of mtrag_un"]


def test_a_run_must_exist_if_its_passages_are_read(tmp_path: Path) -> None:
    wanted, parts = config(run="nothere"), [("mtrag", Setting.FULL_RAG)]
    (line,) = problems(tmp_path, wanted, parts)
    assert line.startswith("no run 'nothere' in ")
    assert problems(tmp_path, wanted, parts, needs_passages=False) == []
