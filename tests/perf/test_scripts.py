"""Every script of `perf/` runs on a small input and prints its rows. Stated figures come from a quiet machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perf import grounding, plausibility, synthesis, turn_errors
from ragtasks.benchmarks import open_benchmark
from ragtasks.records import Response
from tests._commands import run_command
from tests._shared import harness_without_tasks
from tests.conftest import REAL_DATA

pytestmark = pytest.mark.slow

PERF = Path(__file__).resolve().parents[2] / "perf"
SAMPLE = PERF.parent / "ragtasks" / "benchmarks" / "sample" / "mtrag"
NUMBER = r"[+-]?\d[\d,.]*"
MEDIANS = rf"median +{NUMBER} s"

SCRIPTS = {
    # Arguments -> the number of rows that the script prints for them, and the form of such a row.
    "arena_coverage --tournaments 2": (8, rf"^( +{NUMBER}){{4}} +{NUMBER} % +{NUMBER} % "),
    "bertscore --tasks 1 --repeats 1": (5, rf" {NUMBER} s +{NUMBER}x$"),
    "decisions --data REAL --orders 1 --turnings 5 --only people": (
        2,
        rf"^\| MTRAG people, .*{NUMBER} \({NUMBER}\) \|$",
    ),
    "dense_encoding --passages 4 --repeats 1": (2, rf" {NUMBER} s +{NUMBER} tokens/s +{NUMBER}x$"),
    "encoders --texts 4 --repeats 1 --threads 1": (5, rf" {NUMBER} GFLOP/s .*{NUMBER}% of the peak"),
    "gate --pair RESULTS/oracle RESULTS/refuse --setting reference --splits 2": (
        6,
        rf"^\| .* \| (least|half of it|a tenth of it) \|( {NUMBER} \|){{4}}$",
    ),
    "human_evaluation --data REAL/mt-rag-benchmark": (6, rf"^\| win_rate +\| [a-z ,]+\|( +{NUMBER} +\|){{3}}$"),
    "harness_intervals --samples 2": (8, rf"^\| .* \|( {NUMBER} / {NUMBER} / {NUMBER} \|){{7}}$"),
    "interval_coverage --benchmarks 3 --conversations 10 --icc 0.1": (10, rf"^ +10 +0.10 .*{NUMBER}% +{NUMBER}%$"),
    "judge_noise repeats --trials 2": (8, rf"^\|( {NUMBER} \|){{3}}( {NUMBER}% \|){{6}}$"),
    "judge_noise drift --trials 2 --data REAL": (14, rf"^\|.* \|( {NUMBER}% \|){{3}}$"),
    "judge_noise recalibrate --trials 2": (9, rf"^\|( {NUMBER} \|){{3}}( {NUMBER}% \|){{3}} {NUMBER} \|$"),
    "judging --prompts 8 --slots 4 --latency 0.01 --repeats 1": (7, rf" {NUMBER} s +{NUMBER} x ideal "),
    "listing RESULTS/oracle --megabytes 1 --repeats 1": (2, rf"^means .*: {MEDIANS}, "),
    "mean_tests --benchmarks 5 --conversations 10": (20, rf"^\| .* \|( {NUMBER}( /)?)+ \|$"),
    "page PAGE --repeats 1": (5, rf": median {NUMBER} m?s, "),
    "prefix_sharing --tasks 4": (1, rf"^ .* {NUMBER}% +{NUMBER}% "),
    "rate_limits --minute 1 --prompts 20 --limit 10 --kind bucket --processes 1 --style none": (
        1,
        rf"^\| ours .*\| 20 of 20 \|( {NUMBER} \|){{4}}$",
    ),
    "real_pieces REAL FOLDER": (3, r"sample\.json"),
    "reporting RESULTS/oracle --models 2 --tasks 4 --judges 1 --repeats 1": (2, rf"^tables.*: {MEDIANS}, "),
    "retrieval --data SAMPLE --sizes 100 --rank-bm25-queries 3": (5, rf"^\w+( +{NUMBER}){{6}}"),
    "retrieval --data SAMPLE --agreement bm25 rank_bm25": (2, rf"^( +{NUMBER}){{7}}  (rank_)?bm25$"),
    "scoring --tasks 1 --repeats 1": (2, rf"^(ROUGE-L|BERTScore)( +{NUMBER}){{3}} +{NUMBER}x$"),
    "searching --conversations 4 --delay 0.01 --runs 1": (2, rf"^\| (as they come|in waves) \|( {NUMBER} \|){{5}}$"),
    "segments --sizes 100000": (1, rf"^ +100,000( +{NUMBER}){{8}}$"),
    "sentence_agreement REAL/trec_rag": (2, rf"share of sentences that cite: {NUMBER} official, {NUMBER} ours"),
    "settled --data REAL --systems REAL/idk/system_a.jsonl": (2, rf"with skip_settled \({NUMBER}% fewer\)$"),
    "small_pool SAMPLE FOLDER --size 10": (4, rf"^\w+: {NUMBER} passages$"),
    "startup --repeats 1": (3, rf"^(lm_eval|ragtasks run|ratio) +median +{NUMBER} "),
    "synthesis encoder --seeds 0 --dialogues 12 --epochs 1": (2, rf"^\| minilm: .*\|( {NUMBER} +\|){{2}} {NUMBER} "),
    "synthesis training --seeds 0 --dialogues 12": (6, rf"^\| re.*: .*\|( {NUMBER} +\|){{2}} {NUMBER} "),
    "train_refusal_encoder": (1, rf"kappa {NUMBER}, "),
}
IN_PART = {
    "grounding": "draws a thousand samples for each interval",
    "plausibility": "checks each of 30 damages on all answers of 30 systems",
    "synthesis": "encodes 14,443 propositions",
    "turn_errors": "classifies 1,800 answers five times",
}
"""Script -> the reason why a test below calls its tables with less data."""
NOT_RUN = {
    "official_agreement": "needs the official scripts; tests/judges/test_official_prompts.py calls its tables",
    "official_scripts": "loads the official scripts for other modules, and measures nothing",
    "train_refusals": "trains for minutes; tests/metrics/test_refusals.py calls its functions",
}


def test_every_script_is_tested_or_excluded_with_a_reason() -> None:
    run = {line.split()[0] for line in SCRIPTS}
    assert sorted({*run, *IN_PART, *NOT_RUN}) == sorted(path.stem for path in PERF.glob("*.py"))
    assert not run & NOT_RUN.keys()


def printed(name: str, arguments: list[str], folder: Path) -> str:
    """Return the output of a script in a process of its own; `startup` starts a harness without its own tasks."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    if name == "startup":
        environment["PYTHONPATH"] = harness_without_tasks(folder / "harness")
    command = [sys.executable, str(PERF / f"{name}.py"), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=PERF.parent, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("line", SCRIPTS)
def test_script_prints_its_rows(line: str, tmp_path: Path, evaluations: Path) -> None:
    if "REAL" in line and not REAL_DATA.is_dir():
        pytest.skip(f"no real data at {REAL_DATA}")
    if "PAGE" in line:
        if not (shutil.which("chromium") and shutil.which("chromedriver")):
            pytest.skip("no browser: Chromium with chromedriver")
        run_command("report", evaluations, "--html", tmp_path / "page.html")
    paths = {"REAL": REAL_DATA, "SAMPLE": SAMPLE, "RESULTS": evaluations}
    paths |= {"PAGE": tmp_path / "page.html", "FOLDER": tmp_path / "made"}
    name, *arguments = line.split()
    filled = [re.sub("|".join(paths), lambda match: str(paths[match[0]]), argument) for argument in arguments]
    text = printed(name, filled, tmp_path)
    check(text, *SCRIPTS[line])


def check(text: str, n_rows: int, row: str) -> None:
    """Fail unless a text has the expected rows and only finite numbers."""
    assert len(re.findall(row, text, re.MULTILINE)) >= n_rows, text
    assert not re.search(r"\b(nan|inf)\b", text), text


@pytest.mark.parametrize("name", NOT_RUN)
def test_script_that_is_not_run_starts(name: str, tmp_path: Path) -> None:
    printed(name, ["--help"], tmp_path)


INTERVAL = rf"{NUMBER} \[{NUMBER}, {NUMBER}\]"


@pytest.mark.parametrize(("part", "n_rows"), [("mtrag", 6), ("ragchecker", 5), ("nist", 3)])
def test_grounding_prints_its_tables(
    part: str, n_rows: int, mtrag_root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grounding, "DRAWS", 2)
    getattr(grounding, part)(mtrag_root.parent)
    check(capsys.readouterr().out, n_rows, rf"^\| .* {INTERVAL}.* \|$")


def test_plausibility_prints_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    answers = [Response(task, task.references, task.target) for task in open_benchmark("mtrag", SAMPLE).tasks]
    n_kinds = len(plausibility.DAMAGE)
    plausibility.table_of_recall([("the sample", answers)])
    check(capsys.readouterr().out, n_kinds, rf"^\| \w+ \| {NUMBER}% \| .* \| {NUMBER} \| {NUMBER} \|$")
    plausibility.table_of_damage(answers[:8])
    check(capsys.readouterr().out, n_kinds, rf"^\| .* \|( \w+ \({NUMBER}\) \|){{3}} ")
    plausibility.table_of_real_answers([("the sample", answers)])
    check(capsys.readouterr().out, 1, rf"^\| the sample \| {len(answers)} \| shown \| {NUMBER} of ")


def test_synthesis_prints_the_retrieval_of_a_few_propositions(
    tmp_path: Path, mtrag_root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (mtrag_root.parent / "multidoc2dial").glob("multidoc2dial_*_small*.json"):
        (tmp_path / file.name).symlink_to(file)
    texts = json.loads((mtrag_root.parent / "multidoc2dial" / "propositions.json").read_bytes())[0]["Propositions"]
    answers = [text for _, _, found in synthesis.real_questions(tmp_path) for text in found]
    (tmp_path / "propositions.json").write_text(json.dumps([{"Propositions": [*answers[:20], *texts[:20]]}]))
    synthesis.measure_propositions(tmp_path)
    check(capsys.readouterr().out, 6, rf"^\| .*\|( {NUMBER} +\|){{4}}$")


def test_turn_errors_prints_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    turn_errors.print_languages()
    share = rf"{NUMBER} of {NUMBER} \[{NUMBER}, {NUMBER}\]"
    check(capsys.readouterr().out, 4, rf"^\| .* \| wrong_language \| {share} \| .* {NUMBER} of {NUMBER} \|$")
    rows = [row for row in turn_errors.read_labels(None) if row["round"] == 2]
    turn_errors.print_precision(rows, lambda row: str(row["predicted"]))
    check(capsys.readouterr().out, 5, rf"^\| \w+ \| {NUMBER} \|( {share} \|){{3}} {NUMBER} \|$")
    turn_errors.print_recall(rows, lambda row: str(row["predicted"]), turn_errors.POOL)
    check(capsys.readouterr().out, 5, rf"^\| \w+ \| {NUMBER} \| {share} \| {NUMBER} \|$")
