"""A folder with one sound file of every kind that a command reads, small enough to be read a thousand times."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import ragtasks
from ragtasks.benchmarks import open_benchmark
from ragtasks.records import Setting
from tests.benchmarks.mtrag.test_human_evaluation import content
from tests.mutations._attack import call
from tests.reports._saved import save
from tests.submissions.mtrageval._files import lines_of, submission, write_answers

FIELDS = {"passages": [{"passage_id": "p", "title": "T", "text": "Text."}], "max_words": 150, "refusal": "no"}
_SAMPLES = Path(ragtasks.__file__).parent / "benchmarks" / "sample"


def write_files(folder: Path, judge: str) -> None:
    """Write them all.

    Args:
        folder: empty; RAGTASKS_RUNS is its `store`.
        judge: a judge of TREC RAG as the command line names it.
    """
    shutil.copytree(_SAMPLES, folder, dirs_exist_ok=True)
    benchmark = open_benchmark("mtrag", folder / "mtrag")
    save(folder / "results")
    save(folder / "others", "org/other", day=2)
    (folder / "predictions.jsonl").write_bytes(b"".join(lines_of(_predictions(folder))))
    _sound("score", f"{folder}/predictions.jsonl", "--output_path", f"{folder}/judged", *_judged(folder))
    (folder / "input.jsonl").write_bytes(b"".join(lines_of(submission("C", benchmark, n_tasks=4))))
    for letter in "ABC":
        (folder / f"{letter}.jsonl").write_bytes(b"".join(lines_of(submission(letter, benchmark, n_tasks=4))))
    write_answers(folder / "answers", benchmark, Setting.REFERENCE)
    human = folder / "mtrag" / "mtrag-human" / "evaluations" / "reference_subset_with_human_evaluations.json"
    human.parent.mkdir(parents=True, exist_ok=True)
    human.write_text(json.dumps(content()), encoding="utf-8")
    (folder / "metadata.json").write_text(json.dumps(_metadata(folder)), encoding="utf-8")
    (folder / "own.jinja").write_text("{% for p in passages %}\n{{ loop.index }}: {{ p.text|upper }}\n{% endfor %}\n")
    (folder / "run.trec").write_text(_run(folder), encoding="utf-8")
    custom = ("--benchmark", "custom", "--data", f"{folder}/custom")
    _sound("retrieve", "--retriever", f"run:{folder}/run.trec", *custom, "--name", "mine", "--depth", "5")
    _sound("retrieve", "--retriever", f"run:{folder}/run.trec", *custom, "--name", "theirs", "--depth", "2")
    (folder / "answers.jsonl").write_bytes(b"".join(lines_of(_answers(folder))))
    score = ("--judge", judge, "--data", f"{folder}/trec_rag24", "--output", f"{folder}/out")
    _sound("score", f"{folder}/answers.jsonl", *score)


def _sound(*arguments: str) -> None:
    ending = call(arguments)
    assert ending.kind == "accepted", ending.output


def _metadata(folder: Path) -> dict[str, Any]:
    return {
        "data": f"{folder}/mtrag",
        "encoder": "none",
        "max_words": 100,
        "judges": [],
        "idk": "ngrams",
        "max_implausible": 1,
    }


def _judged(folder: Path) -> list[str]:
    return ["--benchmark", "mtrag", "--setting", "full_rag", "--metadata", json.dumps(_metadata(folder))]


def _predictions(folder: Path) -> list[dict[str, Any]]:
    path = folder / "mtrag" / "mtrag-human" / "generation_tasks" / "RAG.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()][:6]
    keys = ("task_id", "contexts")
    return [{**{key: row[key] for key in keys}, "predictions": [{"text": "I do not know."}]} for row in rows]


def _run(folder: Path) -> str:
    """Return a TREC run on the conversations of one's own."""
    benchmark = open_benchmark("custom", folder / "custom")
    found = benchmark.read_contexts(Setting.FULL_RAG).passages
    lines = [
        f"{task.task_id} Q0 {passage.passage_id} {rank} {9 - rank} mine\n"
        for task in benchmark.tasks
        for rank, passage in enumerate(found.get(task.task_id, ())[:5], 1)
    ]
    return "".join(lines)


def _answers(folder: Path) -> list[dict[str, Any]]:
    tasks = [task for task in open_benchmark("trec_rag24", folder / "trec_rag24").tasks if task.domain == "test"][:2]
    lines = (folder / "trec_rag24" / "segments" / "segments.jsonl").read_text(encoding="utf-8").splitlines()
    ids = [json.loads(line)["docid"] for line in lines[:3]]
    return [
        {
            "run_id": "demo",
            "topic_id": task.task_id,
            "topic": task.question,
            "references": ids,
            "response_length": 4,
            "answer": [{"text": "Rain fell.", "citations": [0, 2]}, {"text": "Sun shone.", "citations": []}],
        }
        for task in tasks
    ]
