"""The output folder of a synthesis: complete or absent, never replacing another, with its sources."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import open_benchmark
from ragtasks.clients import Usage
from ragtasks.errors import CacheError, ConfigurationError
from ragtasks.files import canonical_hash
from ragtasks.records import Answerability, Passage
from ragtasks.synthesis.asking import Asker
from ragtasks.synthesis.documents import LeftOut
from ragtasks.synthesis.draft import Dialogue, Removed, Turn
from ragtasks.synthesis.folder import (
    Synthesis,
    is_made,
    lines_of,
    make_once,
    outcome_lines,
    publish_folder,
    write_synthesis,
)
from ragtasks.synthesis.propositions import Unit
from ragtasks.synthesis.removal import Pool
from tests._messages import raises, same_message
from tests.judges._scripted import ScriptedClient
from tests.synthesis._making import content, rows

MADE_BY = {"model": "writer", "n": 3}


def test_a_published_folder_contains_its_files_and_a_manifest_only(tmp_path: Path) -> None:
    publish_folder(tmp_path / "out", {"a.jsonl": lines_of([{"n": 1}, {"n": 2}]), "deep/er/b": [b"x", b"y"]}, MADE_BY)
    result = content(tmp_path / "out")
    manifest = result.pop("synthesis/manifest.json")
    assert result == {"a.jsonl": b'{"n":1}\n{"n":2}\n', "deep/er/b": b"xy"}
    assert json.loads(manifest) == {"key": canonical_hash(MADE_BY), "made_by": MADE_BY}
    assert manifest.endswith(b"\n")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_losses_and_counts_are_written_if_given(tmp_path: Path) -> None:
    publish_folder(tmp_path / "none", {}, MADE_BY, [], {})
    publish_folder(tmp_path / "one", {}, MADE_BY, [LeftOut("a.txt", "no text in it")], {"turns": 2})
    assert rows(tmp_path / "none" / "synthesis" / "left_out.jsonl") == []
    assert rows(tmp_path / "one" / "synthesis" / "left_out.jsonl") == [{"what": "a.txt", "reason": "no text in it"}]
    counts = [
        json.loads((tmp_path / name / "synthesis" / "manifest.json").read_bytes())["counts"] for name in ("none", "one")
    ]
    assert counts == [{}, {"turns": 2}]


def test_an_existing_folder_must_be_empty(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    publish_folder(tmp_path / "out", {"a": [b"new"]}, MADE_BY)
    assert (tmp_path / "out" / "a").read_bytes() == b"new"
    before = content(tmp_path)
    with pytest.raises(CacheError, match=rf"^cannot write {tmp_path / 'out'}: Directory not empty"):
        publish_folder(tmp_path / "out", {"a": [b"newer"]}, MADE_BY)
    assert content(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "no incomplete folder remains"


def test_an_unwritable_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with raises(CacheError):
        publish_folder(tmp_path / "file" / "out", {"a": [b""]}, MADE_BY)


def test_parent_folders_are_created(tmp_path: Path) -> None:
    publish_folder(tmp_path / "not" / "yet" / "out", {"a": [b"x"]}, MADE_BY)
    assert (tmp_path / "not" / "yet" / "out" / "a").read_bytes() == b"x"


def test_a_folder_of_the_same_inputs_is_complete(tmp_path: Path) -> None:
    assert not is_made(tmp_path / "out", MADE_BY), "the folder does not exist"
    (tmp_path / "out").mkdir()
    assert not is_made(tmp_path / "out", MADE_BY), "the folder is empty"
    publish_folder(tmp_path / "out", {"a": [b""]}, MADE_BY)
    assert is_made(tmp_path / "out", dict(reversed(MADE_BY.items())))
    with raises(ConfigurationError):
        is_made(tmp_path / "out", {**MADE_BY, "n": 4})


@pytest.mark.parametrize("manifest", [None, "", "{", "{}", "[]", "3", '{"key": null}'])
def test_a_folder_with_other_contents_is_an_error(tmp_path: Path, manifest: str | None) -> None:
    (tmp_path / "synthesis").mkdir()
    if manifest is not None:
        (tmp_path / "synthesis" / "manifest.json").write_text(manifest)
    with pytest.raises(ConfigurationError, match="found: other contents"):
        is_made(tmp_path, MADE_BY)


def test_a_file_with_the_folders_name_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(ConfigurationError, match="found: other contents"):
        is_made(tmp_path / "out", MADE_BY)


def test_a_complete_folder_is_reported_without_requests(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt, n_before: "yes")

    def make(asker: Asker) -> Sequence[str]:
        asker.ask("stage", [])
        asker.usage = Usage(n_asked=3)
        publish_folder(tmp_path / "out", {"a": [b""]}, MADE_BY)
        return ["one", "two"]

    made = make_once(tmp_path / "out", MADE_BY, Asker(client), make)
    assert (made.lines, made.usage) == (("one", "two"), Usage(n_asked=3))
    again = make_once(tmp_path / "out", MADE_BY, Asker(client), lambda asker: pytest.fail("nothing is made"))
    assert again.lines == (f"{tmp_path / 'out'} already contains the result of the same input, settings and model",)
    assert again.usage == Usage()


@pytest.mark.parametrize(("n", "n_listed"), [(0, 0), (1, 1), (10, 10), (11, 10)])
def test_ten_losses_are_listed_and_all_are_counted(n: int, n_listed: int) -> None:
    left_out = [LeftOut(f"f{number}", f"why {number}") for number in range(n)]
    first, *further = outcome_lines(Path("out"), {"documents": 1_234, "turns": 0, "units": 1}, left_out)
    assert first == "out: 1,234 documents, 1 units"
    expected = [f"left out, {n} in all (synthesis/left_out.jsonl):"] if n else []
    assert further == [*expected, *(f"  f{number}: why {number}" for number in range(n_listed))]


UNITS = (
    Unit("p1", "The mill grinds.", ("a-0", "a-1"), "a", "north"),
    Unit("p2", "The port sleeps.", ("a-1",), "a", "north"),
    Unit("p3", "The fair sells.", ("a-1",), "a", "north"),
)
POOL = Pool(
    {"north": (Passage("a-0", "The mill grinds.", "Town"), Passage("a-1", "The port sleeps. The fair sells."))},
    {unit.unit_id: unit.passage_ids for unit in UNITS},
)
TURNS = (
    Turn("What of the mill?", "It grinds.", ("Factoid",), "What of the mill?", UNITS[:1]),
    Turn("What of port and fair?", "They sleep and sell.", (), "And the others?", UNITS[1:]),
    Turn("What of the bell?", "No idea.", ("Opinion",), "And the bell?", (), Answerability.UNANSWERABLE),
)
DIALOGUE = Dialogue("d1", "north", UNITS, TURNS, (Removed("Why?", "So.", "not accepted"),))


def written(folder: Path) -> Mapping[str, Any]:
    write_synthesis(folder / "out", Synthesis([DIALOGUE], POOL, UNITS, (), MADE_BY, {"turns": 3}))
    return content(folder / "out")


def test_a_synthesis_is_a_custom_benchmark(tmp_path: Path) -> None:
    result = written(tmp_path)
    assert sorted(result) == [
        *("conversations.jsonl", "passages.jsonl", "qrels.tsv", "synthesis/dialogues.jsonl"),
        *("synthesis/left_out.jsonl", "synthesis/manifest.json", "synthesis/units.jsonl"),
    ]
    same_message(result["conversations.jsonl"].decode())
    same_message(result["passages.jsonl"].decode())
    assert [task.task_id for task in open_benchmark("custom", tmp_path / "out").tasks] == [
        "d1<::>1",
        "d1<::>2",
        "d1<::>3",
    ]


def test_every_passage_with_a_supporting_unit_is_relevant(tmp_path: Path) -> None:
    assert written(tmp_path)["qrels.tsv"].decode().splitlines() == [
        "d1<::>1\t0\ta-0\t1",
        "d1<::>1\t0\ta-1\t1",
        "d1<::>2\t0\ta-1\t1",
    ]


def test_the_details_list_the_sources(tmp_path: Path) -> None:
    result = written(tmp_path)
    for name in ("units.jsonl", "dialogues.jsonl"):
        same_message(result[f"synthesis/{name}"].decode())
    assert json.loads(result["synthesis/manifest.json"])["counts"] == {"turns": 3}
