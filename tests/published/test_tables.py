"""Published scores have the digits of their sources, and a file with a mistake is one clear error."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from ragtasks.errors import BenchmarkFileError
from ragtasks.published import PublishedTable, published_tables, read_published
from tests._messages import raises

FILES = sorted(Path(str(resources.files("ragtasks.published"))).glob("*.json"))
UN = {table.title: table for table in published_tables("mtrag_un")}


def column(table: PublishedTable, setting: str, metric: str) -> dict[str, str]:
    return {row.name: table.score(row, metric) for row in table.of(setting) if not row.is_target}


def test_every_file_is_read_and_names_its_source_and_date() -> None:
    assert {path.stem for path in FILES} == {"mtrag", "mtrag_un", "mtrageval"}
    for table in (table for path in FILES for table in read_published(path)):
        assert table.source.startswith("https://")
        assert table.date[:2] == "20"


@pytest.mark.parametrize(
    ("setting", "metric", "best", "models"),
    [
        ("reference", "rl_f", "0.65", {"gpt-oss-120b"}),
        ("reference", "rb_llm", "0.76", {"gpt-oss-120b"}),
        ("reference", "rb_alg", "0.46", {"gpt-oss-120b"}),
        ("full_rag", "rl_f", "0.60", {"deepseek-v3", "qwen-30b-a3b"}),
        ("full_rag", "rb_llm", "0.65", {"gpt-oss-120b"}),
        ("full_rag", "rb_alg", "0.38", {"granite-4-0-small", "llama-3.3-70b"}),
    ],
)
def test_the_best_models_of_table_4_are_those_in_bold(setting: str, metric: str, best: str, models: set[str]) -> None:
    scores = column(UN["MTRAG-UN paper, Table 4"], setting, metric)
    assert len(scores) == 13
    assert max(scores.values()) == best
    assert {name for name, score in scores.items() if score == best} == models


def test_the_tables_of_retrievers_cover_the_queries_of_the_paper() -> None:
    assert column(UN["MTRAG-UN paper, Table 2"], "rewrite", "nDCG@10") == {
        "BM25": "0.39",
        "BGE-base 1.5": "0.40",
        "Granite R2": "0.42",
        "Elser": "0.51",
    }
    standalone = UN["MTRAG-UN paper, Table 3"]
    assert sum(row.n or 0 for row in standalone.of("rewrite")) == standalone.n == 468


@pytest.mark.parametrize(
    ("task", "n_teams", "baseline"), [("A", 38, "0.4795"), ("B", 26, "0.6390"), ("C", 29, "0.5366")]
)
def test_each_task_of_mtrageval_has_its_baseline_and_its_number_of_teams(
    task: str, n_teams: int, baseline: str
) -> None:
    table = UN[f"MTRAGEval task {task}"]
    team, organizers = table.rows
    assert (table.n_teams, organizers.scores, organizers.rank) == (n_teams, (baseline,), None)
    assert float(team.scores[0]) > float(baseline)


def repeat_a_model(table: Any) -> None:
    table["rows"].append(table["rows"][3])


def misspell_a_metric(table: Any) -> None:
    table["metrics"][0] = "rl_g"


def exceed_the_range(table: Any) -> None:
    table["rows"][0]["scores"][0] = "1.85"


def forget_a_score(table: Any) -> None:
    table["rows"][0]["scores"].pop()


def lose_the_digits(table: Any) -> None:
    table["rows"][0]["scores"][0] = 0.5


@pytest.mark.parametrize(
    ("break_it", "decisive"),
    [
        (repeat_a_model, "deepseek-v3, reference twice"),
        (misspell_a_metric, "'rl_g': did you mean 'rl_f'"),
        (exceed_the_range, "'1.85'"),
        (forget_a_score, "target, reference: 2 scores for 3 metrics"),
        (lose_the_digits, "rows.0.scores.0"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_table_with_a_mistake_is_one_clear_error(
    tmp_path: Path, break_it: Callable[[Any], None], decisive: str
) -> None:
    tables = json.loads(next(path for path in FILES if path.stem == "mtrag_un").read_text(encoding="utf-8"))
    break_it(tables[2])
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(tables), encoding="utf-8")
    with raises(BenchmarkFileError) as caught:
        read_published(path)
    assert decisive in str(caught.value)
