from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtasks.errors import ConfigurationError
from ragtasks.synthesis import quality_section
from tests.clients._server import chat_server
from tests.synthesis._documents import write_towns
from tests.synthesis._making import make
from tests.synthesis._scripted import script
from tests.synthesis.training._tiny import write_dialogues


def test_dialogues_are_counted_one_by_one_and_together(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 2, 8)
    with chat_server(script) as server:
        make(server.base_url, tmp_path, turns=6)
    whole, each = quality_section(tmp_path / "out").tables
    rows = {str(row[0]): row[1] for row in whole.rows}
    # Six are written in each full dialogue and the fifth is not accepted; the third and the sixth keep their form.
    assert each.rows[0][:2] == ("d1", 5)
    assert each.rows[0][5:] == ("0.40", "0.83", 3, 0)
    assert rows["turns"] == f"{sum(int(str(row[1])) for row in each.rows) / len(each.rows):.2f}"
    assert float(str(rows["alike"])) > 0.5, "the scripted model asks all its questions alike"
    assert rows["unanswerable"] == "0.00"
    assert next(row for row in whole.rows if row[0] == "turns")[2:4] == ("7.7", "5.9")


def test_retrieval_by_query_form_in_all_and_per_domain(tmp_path: Path) -> None:
    folder = write_dialogues(tmp_path / "b", 6)
    rows = [json.loads(line) for line in (folder / "conversations.jsonl").read_text("utf-8").splitlines()]
    domains = {f"{number}": "odd" if number % 2 else "even" for number in range(6)}
    passages = [json.loads(line) for line in (folder / "passages.jsonl").read_text("utf-8").splitlines()]
    for row in rows:
        row["domain"] = domains[row["conversation_id"][1:]]
    for row in passages:
        row["domain"] = domains[row["_id"].partition("-")[0]]
    for name, found in {"conversations.jsonl": rows, "passages.jsonl": passages}.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in found), "utf-8")
    (folder / "synthesis").mkdir()
    (folder / "synthesis" / "dialogues.jsonl").write_bytes(b"")
    whole, per_domain = quality_section(folder, retrievers=["rank_bm25"]).tables[1:3]
    values = {row[1]: float(str(row[3])) for row in whole.rows if row[0] == "rank_bm25"}
    assert values["decontextualized"] == 1.0
    assert values["contextualized"] < values["decontextualized"], "a third of the questions names no town"
    assert whole.rows[3][:3] == ("paper: RRF, proprietary documents", "context", "-")
    assert [row[0] for row in per_domain.rows] == ["even"] * 3 + ["odd"] * 3
    assert all(row[3] == 9 for row in per_domain.rows)
    with pytest.raises(ConfigurationError, match="query form"):
        quality_section(folder, retrievers=["rank_bm25"], queries=["never"])


def test_a_folder_that_nobody_synthesized_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"found: No such file.*\n.*describe custom"):
        quality_section(write_dialogues(tmp_path / "b"))
