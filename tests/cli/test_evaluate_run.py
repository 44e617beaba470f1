"""`ragtasks evaluate-run` on files, compared with direct calls of ir_measures and pytrec_eval."""

from __future__ import annotations

import csv
import json
import shlex
from collections import defaultdict
from pathlib import Path
from typing import Any

import ir_measures
import pytest
import pytrec_eval
from typer.testing import CliRunner

import ragtasks
from ragtasks.cli.app import app
from ragtasks.files import read_qrels, read_run
from tests._commands import run_command
from tests._messages import same_message
from tests.conftest import REAL_DATA

TREC_RAG = "nDCG@20,nDCG@100,R@100"
RAG = "mtrag-human/generation_tasks/RAG.jsonl"


def evaluated(*arguments: object) -> str:
    """Return the output of the command, which must succeed."""
    done = CliRunner().invoke(app, ["evaluate-run", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def means(text: str, title: str = "All queries") -> dict[str, Any]:
    """Return column -> cell of the first row of a table in JSON."""
    (row,) = [table["rows"][0] for table in json.loads(text)[0]["tables"] if table["title"] == title]
    return {name: cell["value"] if isinstance(cell, dict) else cell for name, cell in row.items()}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    run, qrels = tmp_path / "run.trec", tmp_path / "qrels.txt"
    run.write_text("q1 Q0 a 1 2.5 t\nq1 Q0 b 2 2 t\nq2 Q0 c 1 1 t\nother Q0 c 1 1 t\n", encoding="utf-8")
    qrels.write_text("q1 0 b 1\nq2 0 c 2\nq3 0 c 1\nq4 0 c 0\n", encoding="utf-8")
    return run, qrels


def test_a_run_file_and_qrels_suffice(files: tuple[Path, Path]) -> None:
    run, qrels = files
    text = evaluated(run, "--qrels", qrels, "--measures", "P(rel=2)@1,RR", "--measures", "RR")
    assert "run.trec omits 2 of 4 judged queries (counted 0): q3, q4." in text
    assert "judged, but without a relevant passage (counted 0): q4." in text
    assert "run.trec: 1 of its queries are not judged (ignored): other." in text
    assert "| run.trec | 4 |      0.250 | 0.375 |" in text


def test_notes_explain_misleading_scores(tmp_path: Path) -> None:
    qrels, run = tmp_path / "qrels.txt", tmp_path / "run.trec"
    qrels.write_text("".join(f"q{n} 0 p{n} 1\nq{n} 0 r{n} 0\n" for n in range(12)), encoding="utf-8")

    def notes(*rankings: str) -> str:
        lines = [f"q{n} Q0 {item.format(n=n)} t\n" for n in range(12) for item in rankings]
        run.write_text("".join(lines), encoding="utf-8")
        return evaluated(run, "--qrels", qrels, "--measures", "nDCG@2,RR")

    assert "Before the scores" not in notes("p{n} 1 2", "r{n} 2 1")
    assert "run.trec: equal scores for all passages in 12 of 12 queries, so they are ranked by id." in notes(
        "p{n} 1 1", "r{n} 2 1"
    )
    assert "run.trec ranks only relevant passages, like a run made from the judgements." in notes("p{n} 1 2")
    assert "run.trec ranks at most 1 passages per query, below the cut-off of nDCG@2." in notes("p{n} 1 2")
    unjudged = "run.trec: none of its passages is judged, such as P-0; the judgements have ids such as p0."
    assert unjudged in notes("P-{n} 1 2", "R-{n} 2 1")


def test_an_order_that_contradicts_the_scores_is_noted_once_and_the_scores_rank(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A reranker that keeps the scores of the first stage: RR is 1 by its order and 1/3 by its scores."""
    run, qrels = tmp_path / "run.jsonl", tmp_path / "qrels.txt"
    qrels.write_text("q1 0 a 1\nq2 0 a 1\nq3 0 a 1\n", encoding="utf-8")
    reranked, plain = {"a": 0.1, "b": 0.9, "c": 0.5}, {"a": 3.0, "b": 3.0}
    rows = [
        {"task_id": task, "contexts": [{"document_id": name, "score": score} for name, score in scores.items()]}
        for task, scores in (("q1", reranked), ("q2", reranked), ("q3", plain), ("unjudged", reranked))
    ]
    run.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = evaluated(run, "--qrels", qrels, "--measures", "RR")
    note = "in 2 of 3 queries the order of the file contradicts the scores; scores rank"
    assert text.count("the order of the file") == 1
    assert text.index(f"- run.jsonl: {note}.") < text.index("## All queries")
    assert "| run.jsonl | 3 | 0.389 |" in text  # (1/3 + 1/3 + 1/2) / 3: among equal scores the higher id is first
    assert ragtasks.evaluate_run(run, qrels, measures=["RR"]).means == {"RR": pytest.approx(7 / 18)}
    assert caplog.text.count(note) == 1
    run.write_text("".join(json.dumps(row) + "\n" for row in rows[2:3]), encoding="utf-8")
    assert "order" not in evaluated(run, "--qrels", qrels, "--measures", "RR")


def test_a_passage_id_with_a_blank_must_match_completely(tmp_path: Path) -> None:
    qrels, run = tmp_path / "qrels.tsv", tmp_path / "run.tsv"
    qrels.write_text("query-id\tcorpus-id\tscore\nq1\tOld Harbour\t1\nq2\tQuay\t1\n", encoding="utf-8")
    for ranked, recall in (("Harbour", "0.500"), ("Old Harbour", "1.000")):
        run.write_text(f"q1\tQ0\t{ranked}\t1\t2.0\tmine\nq2\tQ0\tQuay\t1\t1.0\tmine\n", encoding="utf-8")
        assert f"| run.tsv | 2 | {recall} |" in evaluated(run, "--qrels", qrels, "--measures", "R@1")


def test_scores_of_which_the_lower_are_better_are_named_before_the_scores(files: tuple[Path, Path]) -> None:
    run, qrels = files
    run.write_text("q1 Q0 a 1 0.1 t\nq1 Q0 b 2 0.2 t\nq2 Q0 c 1 1 t\n", encoding="utf-8")
    text = evaluated(run, "--qrels", qrels, "--measures", "RR")
    note = "in 1 of 2 queries the order of the file contradicts the scores; scores rank; negate scores if lower"
    assert text.index(f"- run.trec: {note}") < text.index("## All queries")


def test_a_run_and_judgements_in_the_wrong_order_are_recognised_and_the_printed_command_works(
    files: tuple[Path, Path],
) -> None:
    run, qrels = files
    done = run_command("evaluate-run", str(qrels), "--qrels", str(run))
    assert done.status == 1
    same_message(done.err)
    command = shlex.split(done.err.split("Next step: ")[1])
    assert run_command(*command[1:]).out == run_command("evaluate-run", str(run), "--qrels", str(qrels)).out
    done = run_command("evaluate-run", str(run), str(qrels), "--qrels", str(qrels))
    assert "contains rankings" in done.err


def test_measures_are_separated_by_commas_or_blanks_and_a_cut_off_counts(files: tuple[Path, Path]) -> None:
    run, qrels = files
    options = [
        ("--measures", "RR@1,P(rel=2, judged_only=True)@5,nDCG@10"),
        ("--measures", " RR@1  P(rel=2, judged_only=True)@5, nDCG@10"),
        ("--measures", "RR@1", "--measures", "P(rel=2,judged_only=True)@5\tnDCG@10"),
        ("--measures", "RR@1", "P(rel=2,judged_only=True)@5", "nDCG@10"),
    ]
    assert len({evaluated(run, "--qrels", qrels, *given) for given in options}) == 1


def test_ids_that_differ_from_judged_ones_only_in_case_are_named(files: tuple[Path, Path]) -> None:
    run, qrels = files
    run.write_text("q1 Q0 B 1 2.0 t\nq1 Q0 x 2 1.0 t\n", encoding="utf-8")
    note = "- run.trec has 1 ids that differ from judged ids in case: B for b."
    assert note in evaluated(run, "--qrels", qrels, "--measures", "RR")


def test_repeated_or_missing_ranks_do_not_change_scores(files: tuple[Path, Path]) -> None:
    run, qrels = files
    tables = set()
    for first, second in ((1, 2), (1, 1), (0, 0), (1, 7), ("-", "-")):
        run.write_text(f"q1 Q0 a {first} 2.0 t\nq1 Q0 b {second} 1.0 t\n", encoding="utf-8")
        tables.add(evaluated(run, "--qrels", qrels, "--measures", "RR"))
    assert len(tables) == 1


def test_a_note_on_all_runs_is_printed_once(files: tuple[Path, Path], tmp_path: Path) -> None:
    run, qrels = files
    other = tmp_path / "other.trec"
    other.write_text("q1 Q0 a 1 2.5 t\nother Q0 c 1 1 t\n", encoding="utf-8")
    lines = evaluated(run, other, "--qrels", qrels, "--measures", "RR").splitlines()
    assert [line for line in lines if line.startswith("- ")] == [
        "- run.trec omits 2 of 4 judged queries (counted 0): q3, q4.",
        "- every run: judged, but without a relevant passage (counted 0): q4.",
        "- every run: 1 of its queries are not judged (ignored): other.",
        "- other.trec omits 3 of 4 judged queries (counted 0): q2, q3, q4.",
        "- other.trec: none of its passages is judged, such as a; the judgements have ids such as b.",
    ]


def test_judgements_among_the_runs_are_recognised(files: tuple[Path, Path]) -> None:
    run, qrels = files
    done = run_command("evaluate-run", run, qrels)
    assert done.status == 1
    assert f"Next step: ragtasks evaluate-run {run} --qrels {qrels}" in done.err


def test_commas_separate_the_cells_of_a_table_without_blanks(files: tuple[Path, Path], tmp_path: Path) -> None:
    run, qrels = files
    expected = evaluated(run, "--qrels", qrels, "--measures", "RR,nDCG@10").partition("## All")[2]
    table = tmp_path / "qrels.csv"
    cells = [line.split() for line in qrels.read_text(encoding="utf-8").splitlines()]
    lines = ["query,passage,grade", *(",".join([row[0], *row[-2:]]) for row in cells)]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert evaluated(run, "--qrels", table, "--measures", "RR,nDCG@10").partition("## All")[2] == expected


def test_a_run_in_utf_16_names_its_encoding(files: tuple[Path, Path]) -> None:
    run, qrels = files
    run.write_text(run.read_text(encoding="utf-8"), encoding="utf-16")
    done = run_command("evaluate-run", run, "--qrels", qrels)
    assert (done.status, "found: text in UTF-16" in done.err) == (1, True)


def test_files_have_full_precision_and_every_query(files: tuple[Path, Path], tmp_path: Path) -> None:
    run, qrels = files
    output, by_query = tmp_path / "scores.json", tmp_path / "queries.jsonl"
    where = ("--qrels", qrels, "--measures", "nDCG@10", "--output", output, "--per-query", by_query)
    evaluated(run, *where, "--format", "json")
    rows = [json.loads(line) for line in by_query.read_text(encoding="utf-8").splitlines()]
    assert [(row["run"], row["query_id"]) for row in rows] == [("run.trec", f"q{n}") for n in range(1, 5)]
    assert rows[0]["nDCG@10"] == pytest.approx(0.6309297535714575, abs=1e-15)
    expected = sum(row["nDCG@10"] for row in rows) / 4
    assert means(output.read_text(encoding="utf-8"))["nDCG@10"] == expected
    cells = list(csv.DictReader(evaluated(run, *where[:4], "--format", "csv").splitlines()))
    assert [float(cell["value"]) for cell in cells if cell["column"] == "nDCG@10"] == [expected]
    assert r"\begin{tabular}" in evaluated(run, *where[:4], "--format", "latex")


def test_a_file_is_judged_by_a_benchmark_and_missing_domains_are_named(tmp_path: Path) -> None:
    from ragtasks.benchmarks import benchmark_folder

    root = benchmark_folder("mtrag", "sample", tmp_path)
    rows = [json.loads(line) for line in (root / RAG).read_text(encoding="utf-8").splitlines()]
    part = tmp_path / "task_a.jsonl"
    kept = [{**row, "contexts": row["contexts"] if number else []} for number, row in enumerate(rows)]
    part.write_text("".join(f"{json.dumps(row)}\n" for row in kept if "clapnq" in row["task_id"]), encoding="utf-8")
    place = ("--benchmark", "mtrag", "--data", "sample")
    for text in (evaluated(part, *place), evaluated(part, *place, "--measures", "nDCG@5")):
        assert "task_a.jsonl has no query of fiqa, govt, cloud (" in text
        assert "; the others alone: --domain clapnq" in text
        assert "task_a.jsonl has no passage for 1 of " in text
    alone = evaluated(part, *place, "--domain", "clapnq", "--measures", "nDCG@5", "--format", "json")
    whole = evaluated("official", *place, "--measures", "nDCG@5", "--format", "json")
    assert means(alone, "By domain")["domain"] == "clapnq"
    assert 0 < means(alone)["nDCG@5"] < means(whole, "By domain")["nDCG@5"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{run}", "--qrels", "{qrels}", "--measures", "nDGC@5"], "measure: nDGC@5"),
        (["{run}", "--qrels", "{qrels}", "--domain", "fiqa"], "--domain: judgements in a file have no domains"),
        (["{run}", "--data", "sample", "--domain", "fika"], "unknown domain 'fika' of mtrag"),
        (["{run}", "--data", "sample"], "found: 3 unjudged queries"),
        (["{run}", "--qrels", "{run}"], "line 1"),
        (["none/none.trec", "--data", "sample"], "none/none.trec"),
        (["none.trec", "--data", "sample"], "no file or folder 'none.trec', and no run of that name"),
    ],
)
def test_runs_that_cannot_be_judged_are_one_error(files: tuple[Path, Path], arguments: list[str], message: str) -> None:

    given = [part.format(run=files[0], qrels=files[1]) for part in arguments]
    done = run_command("evaluate-run", *given)
    assert done.status == 1
    assert message in done.err


def test_trec_rag_runs_have_the_values_of_ir_measures(tmp_path: Path) -> None:
    """The two real runs have other topics than the real qrels, so topics are mapped to judged ones."""
    runs, qrels = REAL_DATA / "trec_rag" / "runs", REAL_DATA / "trec_rag" / "qrels" / "qrels.rag24.test.txt"
    if not (runs.is_dir() and qrels.is_file()):
        pytest.skip(f"no real TREC RAG runs and qrels at {REAL_DATA / 'trec_rag'}")
    judged: dict[str, list[str]] = defaultdict(list)
    for one in read_qrels(qrels):
        judged[one.query_id].append(one.passage_id)
    for source in sorted(runs.glob("*.txt")):
        path = tmp_path / source.name
        path.write_text("".join(_on_judged_topics(source, judged)), encoding="utf-8")
        measures = [ir_measures.parse_measure(name) for name in TREC_RAG.split(",")]
        own_run = list(ir_measures.read_trec_run(str(path)))
        own_qrels = list(ir_measures.read_trec_qrels(str(qrels)))
        expected = {
            (one.query_id, str(one.measure)): one.value for one in ir_measures.iter_calc(measures, own_qrels, own_run)
        }
        output, by_query = tmp_path / "scores.json", tmp_path / "queries.jsonl"
        evaluated(
            path,
            "--qrels",
            qrels,
            "--measures",
            TREC_RAG,
            "--format",
            "json",
            "--output",
            output,
            "--per-query",
            by_query,
        )
        found = [json.loads(line) for line in by_query.read_text(encoding="utf-8").splitlines()]
        assert len(found) == len(judged) == 89
        for row in found:
            for name in TREC_RAG.split(","):
                assert row[name] == pytest.approx(expected.get((row["query_id"], name), 0.0), abs=1e-9)
        total = means(output.read_text(encoding="utf-8"))
        assert 0.05 < total["nDCG@20"] < 1
        assert total["nDCG@20"] == pytest.approx(sum(row["nDCG@20"] for row in found) / 89, abs=1e-12)


def _on_judged_topics(source: Path, judged: dict[str, list[str]]) -> list[str]:
    """Return the lines of a run with topics, and every third passage, mapped to judged ones."""
    lines, topics = source.read_text(encoding="utf-8").splitlines(), list(judged)
    own = dict.fromkeys(line.split()[0] for line in lines)
    names = dict(zip(own, topics[:80], strict=False))
    renamed = []
    for line in lines:
        query, _, passage, rank, score, tag = line.split()
        if query in names:
            pool = judged[names[query]]
            other = pool[int(rank) % len(pool)] if int(rank) % 3 == 0 and int(rank) <= len(pool) else passage
            renamed.append(f"{names[query]} Q0 {other} {rank} {score} {tag}\n")
    return renamed


def test_the_real_runs_are_refused_by_qrels_of_other_topics() -> None:
    run, qrels = (REAL_DATA / "trec_rag" / name for name in ("runs/bm25.raggy.txt", "qrels/qrels.rag24.test.txt"))
    if not (run.is_file() and qrels.is_file()):
        pytest.skip(f"no real TREC RAG runs and qrels at {REAL_DATA / 'trec_rag'}")

    done = run_command("evaluate-run", run, "--qrels", qrels)
    same_message(done.err)


def test_mtrags_own_file_has_the_values_of_pytrec_eval(mtrag_root: Path, tmp_path: Path) -> None:
    qrels = sorted((mtrag_root / "mtrag-human" / "retrieval_tasks").glob("*/qrels/dev.tsv"))
    judged: dict[str, dict[str, int]] = defaultdict(dict)
    for one in (one for path in qrels for one in read_qrels(path)):
        judged[one.query_id][one.passage_id] = one.relevance
    run = {
        query: {item.passage_id: item.score for item in items} for query, items in read_run(mtrag_root / RAG).items()
    }
    expected = pytrec_eval.RelevanceEvaluator(dict(judged), {"ndcg_cut_5", "recall_5"}).evaluate(run)
    by_query = tmp_path / "queries.jsonl"
    given = [part for path in qrels for part in ("--qrels", path)]
    evaluated(mtrag_root / RAG, *given, "--measures", "nDCG@5,R@5", "--per-query", by_query)
    rows = [json.loads(line) for line in by_query.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 777
    for row in rows:
        own = expected[row["query_id"]]
        assert (row["nDCG@5"], row["R@5"]) == pytest.approx((own["ndcg_cut_5"], own["recall_5"]), abs=1e-9)
