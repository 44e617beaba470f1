"""Exports: records of Every Eval Ever, a model card that the hub's own library reads back, rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCardData
from huggingface_hub.repocard_data import model_index_to_eval_results

from ragtasks.errors import ConfigurationError
from ragtasks.reports.exports import model_card, written
from ragtasks.reports.history import read_history
from tests._commands import run_command
from tests.reports._saved import save
from tests.reports.test_history import command

TASKS = tuple((f"c{number}", turn) for number in range(12) for turn in (1, 2))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    def values(task_id: str) -> dict[str, float | None]:
        return {"rb_alg": int(task_id[1:].partition("<")[0]) / 12, "idk_yes": 0.0, "ans_acc": None}

    save(tmp_path / "results", "org/m", tasks=TASKS, values=values)
    save(tmp_path / "results", "org/m", day=2, setting="full_rag", values=lambda _: {"rb_alg": 0.25})
    return tmp_path / "results"


def test_records_of_every_eval_ever_have_scores_intervals_and_provenance(results: Path, tmp_path: Path) -> None:
    status, text = command("export", "every-eval-ever", results, "--output", tmp_path / "eee", "--organization", "us")
    assert status == 0
    paths = [Path(line.removeprefix("wrote ")) for line in text.splitlines()]
    assert [path.parent for path in paths] == [tmp_path / "eee" / "mtrag" / "org" / "m"] * 2
    record: dict[str, Any] = json.loads(paths[0].read_text())
    assert record["schema_version"] == "0.3.0"
    assert record["evaluation_id"] == "mtrag/org/m/1767225600"
    assert record["source_metadata"]["source_type"] == "evaluation_run"
    assert record["source_metadata"]["source_organization_name"] == "us"
    details = {"deployment_type": "unknown", "model_availability": "unknown"}
    model = {"name": "org/m", "id": "org/m", "developer": "org", "additional_details": details}
    assert record["model_info"] == model
    assert record["eval_library"]["name"] == "lm_eval"
    (result,) = record["evaluation_results"]  # idk_yes has no better direction, ans_acc no value
    assert result["evaluation_name"] == "mtrag, reference: rb_alg"
    assert result["source_data"]["source_type"] == "other"
    assert result["source_data"]["additional_details"]["encoder"] == "minilm"
    config = result["metric_config"]
    assert (config["lower_is_better"], config["min_score"], config["max_score"]) == (False, 0.0, 1.0)
    score = result["score_details"]
    interval = score["uncertainty"]["confidence_interval"]
    assert interval["lower"] < score["score"] < interval["upper"]
    assert score["details"] == {"n_scored": "24", "n": "24", "n_tasks": "24"}


def test_a_model_card_is_read_back_by_the_hub_s_library(results: Path, tmp_path: Path) -> None:
    assert command("export", "model-card", results, "--output", tmp_path / "card.yaml")[0] == 0
    index = yaml.safe_load((tmp_path / "card.yaml").read_text())["model-index"]
    name, found = model_index_to_eval_results(index)
    assert name == "org/m"
    assert [(one.dataset_config, one.metric_type, one.metric_value) for one in found] == [
        ("reference", "rb_alg", 0.4583),
        ("full_rag", "rb_alg", 0.25),
    ]
    assert ModelCardData(model_name=name, eval_results=found).to_dict()["model-index"] == index


def test_a_model_card_is_of_one_model(results: Path) -> None:
    save(results, "org/other", day=3)
    with pytest.raises(ConfigurationError, match="--model"):
        model_card(read_history(results).entries)
    assert command("export", "model-card", results, "--model", "other")[0] == 0


def test_rows_are_the_same_in_every_form(results: Path, tmp_path: Path) -> None:
    for ending in ("csv", "json", "jsonl"):
        assert command("export", "rows", results, "--output", tmp_path / f"rows.{ending}")[0] == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()] == rows
    with (tmp_path / "rows.csv").open(newline="") as file:
        in_csv = list(csv.DictReader(file))
    assert [(row["setting"], row["metric"], row["n"]) for row in rows] == [
        ("reference", "rb_alg", 24),
        ("reference", "idk_yes", 24),
        ("full_rag", "rb_alg", 4),
    ]
    assert [float(row["value"]) for row in in_csv] == [row["value"] for row in rows]
    with pytest.raises(ConfigurationError, match=r"found \.xlsx"):
        written(rows, ".xlsx")


@pytest.mark.parametrize("form", ["every-eval-ever", "rows"])
def test_a_file_that_cannot_be_read_is_named_and_is_an_error_if_it_is_the_only_one(
    results: Path, tmp_path: Path, form: str
) -> None:
    damaged = results / "results_2026-01-09T00-00-00.json"
    damaged.write_text("{}")
    output = tmp_path / "rows.csv"
    done = run_command("results", "export", form, results, "--output", output)
    assert done.status == 0
    assert f"ragtasks: left out: {damaged.name}: " in done.err
    assert output.exists()
    alone = tmp_path / "alone" / damaged.name
    alone.parent.mkdir()
    damaged.rename(alone)
    for line in (["export", form, alone.parent, "--output"], ["list", alone.parent, "--leaderboard"]):
        done = run_command("results", *line, tmp_path / "alone.html")
        assert done.status == 1
        assert f"results: {alone.parent}\n" in done.err
        assert alone.name in done.err
        assert not (tmp_path / "alone.html").exists()


@pytest.mark.parametrize(
    ("form", "options", "refused"),
    [
        ("rows", ("--kind", "invented"), "--kind"),
        ("benchmark", ("--organization", "us"), "--organization"),
        ("benchmark", ("--model", "x"), "--model"),
        ("model-card", ("--relationship", "other"), "--relationship"),
        ("rows", (), "add --output"),
    ],
)
def test_an_option_of_another_format_is_refused(
    results: Path, tmp_path: Path, form: str, options: tuple[str, ...], refused: str
) -> None:
    output = ("--output", tmp_path / "rows.csv") if options else ()
    done = run_command("results", "export", form, results, *options, *output)
    assert (done.status, refused in done.err) == (1, True)
    assert not (tmp_path / "rows.csv").exists()
