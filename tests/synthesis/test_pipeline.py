"""Documents to dialogues: the key of the result, selection, counts, reports and errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragtasks.benchmarks import open_benchmark
from ragtasks.errors import ConfigurationError
from ragtasks.synthesis.cutting import Cut
from ragtasks.synthesis.documents import Document
from ragtasks.synthesis.folder import SynthesisReport
from ragtasks.synthesis.pipeline import UNITS, Settings, _made_by, synthesize
from tests._messages import raises, same_message
from tests.judges._scripted import ScriptedClient
from tests.synthesis._documents import town, write_towns
from tests.synthesis._making import SETTINGS, rows
from tests.synthesis._scripted import good_reply


def made(folder: Path, out: str = "out", *, model: str = "writer", **settings: Any) -> SynthesisReport:
    """Return the result for `folder/docs`, cut into sentences unless set otherwise."""
    client = ScriptedClient(lambda prompt, n_before: good_reply(prompt), model)
    chosen = Settings(**{**SETTINGS, "unit": "sentences", **settings})
    return synthesize(folder / "docs", folder / out, client, chosen)


def dialogues(folder: Path, out: str = "out") -> list[dict[str, Any]]:
    return rows(folder / out / "synthesis" / "dialogues.jsonl")


def test_dialogues_use_the_first_lists_of_each_domain_in_turn(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs" / "north", 2)  # twenty sentences: lists of 8, 8 and 4
    (tmp_path / "docs" / "south").mkdir()
    (tmp_path / "docs" / "south" / "a.txt").write_text(town("Gosfield"), "utf-8")  # lists of 8 and 2
    result = {}
    for most in (1, 2, 3, 4, 9, None):
        made(tmp_path, f"out{most}", cut=Cut(), folders_are_domains=True, most_dialogues=most)
        result[most] = [(row["domain"], len(row["units"])) for row in dialogues(tmp_path, f"out{most}")]
    in_turn = [("north", 8), ("south", 8), ("north", 8), ("south", 2), ("north", 4)]
    assert {most: len(rows) for most, rows in result.items()} == {1: 1, 2: 2, 3: 3, 4: 4, 9: 5, None: 5}
    assert all(result[most] == in_turn[:most] for most in (1, 2, 3, 4, 9))
    assert result[None] == [("north", 8), ("north", 8), ("north", 4), ("south", 8), ("south", 2)], (
        "all lists, in their order"
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda docs: (docs / "arden.txt").write_text(town("Arden", more="It rains."), "utf-8"),
        lambda docs: (docs / "arden.txt").rename(docs / "other.txt"),
        lambda docs: (docs / "more.txt").write_text("More.", "utf-8"),
        lambda docs: (docs / "belmor.txt").unlink(),
    ],
)
def test_changed_documents_are_another_synthesis(tmp_path: Path, change: Callable[[Path], Any]) -> None:
    write_towns(tmp_path / "docs", 2)
    made(tmp_path)
    assert "already contains the result" in made(tmp_path).lines[0]
    change(tmp_path / "docs")
    with pytest.raises(ConfigurationError, match="found: other contents"):
        made(tmp_path)


@pytest.mark.parametrize("part", ["document_id", "domain", "title", "text"])
def test_every_part_of_a_document_changes_the_key(part: str) -> None:
    documents = [Document("a.txt", "north", "Arden", "It rains."), Document("b.txt", "north", "Belmor", "It snows.")]
    client = ScriptedClient(lambda prompt, n_before: pytest.fail("asked"))

    def key(*given: Document) -> Any:
        return _made_by(given, Settings(), client)["documents"]

    for index in (0, 1):
        changed = [
            replace(document, **{part: "other"}) if n == index else document for n, document in enumerate(documents)
        ]
        assert key(*changed) != key(*documents)
    assert key(*documents[::-1]) != key(*documents) == key(*documents)
    assert key(replace(documents[0], title="Arde", text="nIt rains."), documents[1]) != key(*documents)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "another"},
        {"turns": 3},
        {"cut": Cut(size=60, stride=60)},
        {"folders_are_domains": True},
        {"unit": "passages"},
    ],
)
def test_another_model_or_setting_is_another_synthesis(tmp_path: Path, change: dict[str, Any]) -> None:
    write_towns(tmp_path / "docs" / "north", 1)
    made(tmp_path)
    with pytest.raises(ConfigurationError, match="found: other contents"):
        made(tmp_path, **change)


def test_the_manifest_lists_the_inputs(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 1)
    made(tmp_path)
    manifest = json.loads((tmp_path / "out" / "synthesis" / "manifest.json").read_bytes())
    result = manifest["made_by"]
    assert result.keys() == {"version", "settings", "client", "prompts", "documents"}
    assert result["client"] == {"model": "writer"}
    assert (result["settings"]["unit"], result["settings"]["cut"]["size"]) == ("sentences", 60)
    assert sorted(result["prompts"]) == ["again", "answerable", "contextualize", "dialogue", "ground", "propositions"]
    assert all(len(value) == 64 for value in [*result["prompts"].values(), result["documents"]])
    assert manifest["counts"]["dialogues"] == 2


def test_the_report_counts_results_and_names_unread_files(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs" / "North", 2)
    write_towns(tmp_path / "docs" / "South", 1)
    for name in ("x.png", "y.png", "z.doc", "Makefile"):
        (tmp_path / "docs" / name).touch()
    german = "Die Bäckerei öffnet früh, und der Müller mahlt das Korn für die Brötchen über Nacht. " * 4
    (tmp_path / "docs" / "North" / "old.txt").write_bytes(german.encode("latin-1"))
    outcome = made(tmp_path)
    first, *further = outcome.lines
    # Two lists of eight sentences give dialogues of seven turns, since the fifth pair is rejected; the last six give
    # three turns.
    assert (
        first == f"{tmp_path / 'out'}: 3 documents, 8 passages, 22 sentences, 3 dialogues, 17 turns, 2 pairs taken out"
    )
    assert further[:2] == [
        "left out, 1 in all (synthesis/left_out.jsonl):",
        "  South/arden.txt: the same text as North/arden.txt",
    ]
    assert further[2] == "files of other formats, not read: 2 .png, 1 no ending, 1 .doc"
    assert further[3].startswith("encoding guessed as ")
    assert further[3].endswith(" in 1 documents")
    assert further[4:] == ["pairs taken out: 2 (not accepted)"]
    assert outcome.usage.n_asked == 9


def test_the_ten_most_frequent_unread_formats_are_named(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 1)
    for number in range(12):
        (tmp_path / "docs" / f"x.k{number}").touch()
    (tmp_path / "docs" / "y.k11").touch()
    (line,) = [line for line in made(tmp_path).lines if line.startswith("files of other formats")]
    kinds = line.partition(": ")[2].split(", ")
    assert kinds[0] == "2 .k11"
    assert len(kinds) == 10


def test_usage_and_progress_are_reported_step_by_step(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 1)
    steps: list[tuple[str, int, int | None]] = []
    outcome = synthesize(
        tmp_path / "docs",
        tmp_path / "out",
        ScriptedClient(lambda prompt, n_before: good_reply(prompt), "writer"),
        Settings(**{**SETTINGS, "unit": "sentences"}),
        price=(1.0, 1.0),
        progress=lambda *step: steps.append(step),
    )
    assert outcome.usage.cost > 0
    assert steps[:2] == [("read documents\tarden.txt", 0, 1), ("read documents", 1, 1)]
    assert ("grounding: writer", 2, 2) in steps


def test_units_are_counted_under_their_name(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 2)
    result = {unit: made(tmp_path, unit, unit=unit, cut=Cut()).lines[0] for unit in UNITS}
    assert ", 20 propositions, " in result["propositions"]
    assert ", 20 sentences, " in result["sentences"]
    assert " 2 passages, 2 units, " in result["passages"]


def test_passages_of_every_domain_with_units_are_searched(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs" / "north", 1)
    (tmp_path / "docs" / "south").mkdir()
    (tmp_path / "docs" / "south" / "a.txt").write_text(town("Gosfield"), "utf-8")
    made(tmp_path, folders_are_domains=True)
    made(tmp_path, "own", folders_are_domains=True, pool="propositions")
    passages, own = (rows(tmp_path / out / "passages.jsonl") for out in ("out", "own"))
    assert {row["domain"] for row in passages} == {row["domain"] for row in own} == {"north", "south"}
    assert all(row["_id"].startswith(row["domain"]) for row in passages)
    units = {row["unit_id"]: row for row in rows(tmp_path / "own" / "synthesis" / "units.jsonl")}
    assert {row["_id"]: (row["text"], row["domain"]) for row in own} == {
        name: (unit["text"], unit["domain"]) for name, unit in units.items()
    }
    for task in open_benchmark("custom", tmp_path / "own").tasks:
        assert task.target in {passage.text for passage in task.references}


def test_without_dialogues_the_three_most_frequent_reasons_are_named(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 3)
    (tmp_path / "docs" / "again.txt").write_text(town("Arden"), "utf-8")
    (tmp_path / "docs" / "blank.txt").write_text(" ", "utf-8")
    client = ScriptedClient(lambda prompt, n_before: "In my own words.")
    with raises(ConfigurationError):
        synthesize(tmp_path / "docs", tmp_path / "out", client, Settings(**{**SETTINGS, "unit": "sentences"}))
    assert not (tmp_path / "out").exists()


def test_a_row_of_mtrag_s_contains_the_conversation_and_supporting_passages(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 1, 3)
    made(tmp_path, mtrag_s="fiqa", unit="passages", cut=Cut(size=30, stride=30))
    result = rows(tmp_path / "out" / "mtrag-synthetic" / "generation_tasks" / "synthetic.jsonl")
    name = hashlib.sha256(b"d1").hexdigest()[:32]
    assert [row["task_id"] for row in result] == [f"{name}<::>{number}" for number in range(1, len(result) + 1)]
    same_message(json.dumps(result[:2], indent=1))


def test_the_statistics_of_mtrag_s_match_its_rows(tmp_path: Path) -> None:
    write_towns(tmp_path / "docs", 4)
    made(tmp_path, mtrag_s="govt", unit="passages", list_size=4, unanswerable=0.3)
    result = rows(tmp_path / "out" / "mtrag-synthetic" / "generation_tasks" / "synthetic.jsonl")
    stated = json.loads((tmp_path / "out" / "sample.json").read_bytes())
    labels = [row["Answerability"][0] for row in result]
    assert len(stated["version"]) == 12
    assert labels.count("UNANSWERABLE") > 0
    assert stated["counts"] == {
        "tasks": len(result),
        "conversations": len({row["conversation_id"] for row in result}),
        "by_domain": {"govt": len(result)},
        "by_answerability": {label: labels.count(label) for label in dict.fromkeys(labels)},
    }
    assert (tmp_path / "out" / "synthesis" / "left_out.jsonl").read_bytes() == b""


@pytest.mark.parametrize("name", ["list_size", "turns", "most_bytes"])
def test_numbers_must_be_at_least_one(name: str) -> None:
    assert getattr(Settings(**{name: 1}), name) == 1  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=f"^synthesis: {name} must be at least 1, found 0$"):
        Settings(**{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(("share", "is_one"), [(-0.01, False), (0.0, True), (1.0, True), (1.01, False)])
def test_unanswerable_must_be_a_share(share: float, is_one: bool) -> None:
    if is_one:
        assert Settings(unanswerable=share).unanswerable == share
        return
    with pytest.raises(ConfigurationError, match=f"^synthesis: unanswerable is a share from 0 to 1, found {share}$"):
        Settings(unanswerable=share)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"unit": "sentence"}, "synthesis: unit 'sentence': did you mean 'sentences'"),
        ({"pool": "passage"}, "synthesis: pool 'passage': did you mean 'passages'"),
        ({"mtrag_s": "clapnk"}, "synthesis: corpus of MTRAG-S 'clapnk': did you mean 'clapnq'"),
    ],
)
def test_an_unknown_name_lists_the_closest_match(option: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Settings(**option)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_default_settings_are_those_of_the_papers() -> None:
    settings = Settings()
    assert (settings.unit, settings.pool, settings.mtrag_s) == ("propositions", "passages", "")
    assert (settings.list_size, settings.turns, settings.unanswerable, settings.most_dialogues) == (30, 8, 0.0, None)
    assert (settings.cut.unit, settings.cut.size, settings.cut.stride) == ("tokens", 512, 412)
    assert not settings.folders_are_domains
