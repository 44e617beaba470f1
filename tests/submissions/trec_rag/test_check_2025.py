"""Answer files of TREC RAG 2025: findings compared with the organizers' checker, limits, and scoring of narratives."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ragtasks.benchmarks.trec_rag import read_narratives, read_nuggets, read_topics
from ragtasks.errors import BenchmarkFileError
from ragtasks.files import read_qrels
from ragtasks.submissions import Severity
from ragtasks.submissions.trec_rag import read_answers, row_2025
from ragtasks.submissions.trec_rag._check_2025 import GUIDELINES, check_lines_2025
from tests._commands import CommandResult, run_command
from tests.clients._server import ChatServer, completion
from tests.conftest import MTRAG_CHECKOUT, REAL_DATA
from tests.submissions.trec_rag._judge import verdict

REAL = REAL_DATA / "trec_rag"
SCRIPTS = MTRAG_CHECKOUT.parent / "ragnarok" / "src" / "ragnarok" / "scripts"
NARRATIVES = {"1": "I want to know about rain.", "2": "I want to know about sun."}
IDS = [f"msmarco_v2.1_doc_00_{n}#0_{n}" for n in range(3)]


def row(narrative_id: str = "1", **changes: Any) -> dict[str, Any]:
    metadata = {
        "team_id": "t",
        "run_id": "r",
        "type": "automatic",
        "narrative_id": narrative_id,
        "narrative": NARRATIVES[narrative_id],
        "prompt": "p",
    }
    return {"metadata": metadata, "references": IDS, "answer": [{"text": "Rain fell.", "citations": [0, 2]}], **changes}


def metadata(**changes: Any) -> dict[str, Any]:
    return {**row()["metadata"], **changes}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in metadata().items() if name != key}


def sentence(**changes: Any) -> list[Any]:
    return [{"text": "Rain fell.", "citations": [0], **changes}]


BROKEN: list[Any] = [
    row(),
    row(metadata=[]),
    *(row(metadata=without(key)) for key in metadata()),
    row(metadata=metadata(narrative_id="9")),
    row(metadata=metadata(narrative_id=2)),
    row(metadata=metadata(type="other")),
    row(references="x"),
    row(references=["x", *IDS]),
    row(answer="x"),
    row(answer=["x"]),
    row(answer=[]),
    {key: value for key, value in row().items() if key != "answer"},
    row(answer=sentence(text=1)),
    row(answer=[{"text": "Rain."}]),
    row(answer=sentence(citations="0")),
    row(answer=sentence(citations=["0", 0])),
    row(answer=sentence(citations=[3, -1, 2])),
    row(answer=sentence(text="word " * 401)),
    row(references=IDS * 50),
]
BY_ID = [row(answer=sentence(citations=[IDS[1]])), row(answer=sentence(citations=[IDS[0], "x"])), row()]


@pytest.fixture
def official() -> Callable[[str], ModuleType]:
    """A script of castorini/ragnarok, loaded unchanged, or a skip."""

    def load(name: str) -> ModuleType:
        path = SCRIPTS / f"{name}.py"
        if not path.is_file():
            pytest.skip(f"no checkout of castorini/ragnarok: nothing at {path}")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def found(rows: list[Any], narratives: dict[str, str]) -> Counter[tuple[int, bool]]:
    """Return (line, is an error) of the findings, without those of the guidelines."""
    findings = check_lines_2025([json.dumps(entry).encode() for entry in rows], narratives).findings
    return Counter(
        (finding.line, finding.severity is Severity.PROBLEM)
        for finding in findings
        if finding.consequence != GUIDELINES
    )


def found_officially(module: ModuleType, rows: list[Any], narratives: dict[str, str], form: int) -> Any:
    counts: Counter[tuple[int, bool]] = Counter()
    for number, entry in enumerate(rows, start=1):
        errors, warnings = module.validate_entry(json.loads(json.dumps(entry)), form, narratives)
        counts += Counter({(number, True): len(errors), (number, False): len(warnings)})
    return counts


def test_findings_are_those_of_the_official_checker(official: Callable[[str], ModuleType]) -> None:
    module = official("rag25_validation")
    assert found(BROKEN, NARRATIVES) == found_officially(module, BROKEN, NARRATIVES, 1)
    assert found(BY_ID, NARRATIVES) == found_officially(module, BY_ID, NARRATIVES, 2)


@pytest.mark.parametrize("name", ["command-r-plus", "gpt-4o"])
def test_real_answers_in_the_format_of_2025_are_those_of_the_official_converter(
    name: str, official: Callable[[str], ModuleType]
) -> None:
    if not REAL.is_dir():
        pytest.skip(f"no real TREC RAG data at {REAL}")
    topics, path = read_topics(REAL / "topics/topics.rag24.test.txt"), REAL / "answers" / f"{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    converted = [official("trec25_conversion").convert_record(answer_row) for answer_row in rows]
    assert [row_2025(answer, "organizer") for answer in read_answers(path, topics)] == converted
    module = official("rag25_validation")
    assert found(converted, topics) == found_officially(module, converted, topics, 1)


def test_limits_only_in_the_guidelines_are_warnings() -> None:
    rows = [
        row(answer=sentence(text="word " * 401)),
        row("2", references=[f"msmarco_v2.1_doc_00_{n % 101}#0_0" for n in range(102)], answer=[]),
        row(metadata=metadata(narrative="another")),
    ]
    findings = check_lines_2025([json.dumps(entry).encode() for entry in rows], NARRATIVES).findings
    assert {finding.consequence for finding in findings} == {GUIDELINES}
    assert [(finding.line, finding.rule, finding.found) for finding in findings] == [
        (1, "n_words", "401"),
        (2, "n_references", "102"),
        (2, "duplicate_reference", "one twice"),
        (2, "no_sentences", "none"),
        (3, "narrative_text", '"another"'),
        (3, "duplicate_narrative", "the narrative of line 1 again"),
    ]
    texts = [str(finding) for finding in check_lines_2025([b" ", b"{", b"[]"], NARRATIVES).findings]
    assert texts[0].startswith("line 2: problem json: expected one JSON object, found no JSON"), "blank lines are none"
    assert texts[-1].startswith("file (2): warning missing_narrative: ")


def test_ids_of_segments_as_citations_become_positions(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(BY_ID[0]) + "\n")
    (answer,) = read_answers(path, NARRATIVES, is_2025=True)
    assert (answer.topic_id, answer.sentences[0].citations) == ("1", (1,))
    path.write_text(json.dumps(BROKEN[1]) + "\n")
    with pytest.raises(BenchmarkFileError, match="`metadata` as an object"):
        read_answers(path, NARRATIVES, is_2025=True)


def test_an_answer_file_is_checked_and_scored_with_narratives_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path / "store"))
    narratives, nuggets, answers = (tmp_path / name for name in ("topics.jsonl", "nuggets.jsonl", "answers.jsonl"))
    narratives.write_text("".join(json.dumps({"id": key, "title": text}) + "\n" for key, text in NARRATIVES.items()))
    stated = {"text": "rain fell", "importance": "vital", "mapped_sub_narrative": '"rain"', "source": "original"}
    nuggets.write_text(json.dumps({"qid": "1", "nuggets": [stated]}) + "\n")
    answers.write_text(json.dumps(row()) + "\n")

    def command(*arguments: str) -> CommandResult:
        return run_command(*arguments, *(["--narratives", narratives] if arguments[0] == "check" else []))

    done = command("check", str(answers))
    assert done.status == 0
    assert "TREC RAG 2025, 1 lines: 0 problems, 1 warnings, 0 notes" in done.out
    assert command("check", str(answers), "--fixed", str(tmp_path / "f")).status == 1
    with ChatServer(lambda prompt, _: completion(verdict(prompt))).running() as server:
        judge = json.dumps({"model": "words", "base_url": server.base_url})
        files = ["--metadata", json.dumps({"narratives": str(narratives), "nuggets": str(nuggets)})]
        assert command("score", str(answers), *files, "--judge", judge, "--output", str(tmp_path / "out")).status == 0
    mean = json.loads((tmp_path / "out/metrics.jsonl").read_text().splitlines()[-1])
    assert (mean["strict_vital_score"], mean["support_recall"]) == (1, None)
    assert read_nuggets(nuggets)["1"].nuggets[0].sub_narrative == "rain"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"title": "x"}, "found no `id`"),
        ({"id": "2"}, "found no `title`"),
        ({"id": "1", "title": "x"}, "each narrative once"),
    ],
)
def test_a_broken_narrative_is_named(line: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({"id": 1, "title": "x"}) + "\n" + json.dumps(line) + "\n")
    with pytest.raises(BenchmarkFileError, match="line 2") as error:
        read_narratives(path)
    assert message in str(error.value)


def test_the_real_files_of_2025_are_read() -> None:
    if not REAL.is_dir():
        pytest.skip(f"no real TREC RAG data at {REAL}")
    narratives = read_narratives(REAL / "topics/topics.rag25.test.jsonl")
    nuggets = read_nuggets(REAL / "rag25-dev-nuggets.jsonl")
    qrels = read_qrels(REAL / "qrels/qrels.rag25.test.txt")
    assert (len(narratives), len(nuggets), len(qrels)) == (105, 22, 10284)
    assert nuggets.keys() <= narratives.keys()
    assert Counter(n.importance.value for topic_nuggets in nuggets.values() for n in topic_nuggets.nuggets) == {
        "vital": 925,
        "okay": 330,
    }
    assert all(n.sub_narrative for topic_nuggets in nuggets.values() for n in topic_nuggets.nuggets)
    assert {qrel.query_id for qrel in qrels} == nuggets.keys()
