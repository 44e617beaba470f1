"""Store the values of the commands on the sample, and compare two such folders.

    python scripts/same_numbers.py store FOLDER                          # the commands of this environment
    python scripts/same_numbers.py store FOLDER --bin OTHER/.venv/bin    # those of another checkout
    python scripts/same_numbers.py compare BEFORE AFTER                  # status 1 if a value differs

Compared are numbers, labels and texts of answers, by their path in results, samples, submissions, runs and other JSON,
CSV and XML files, and the numbers in printed tables. Durations, dates and versions are left out. Changes of wording and
hashes are listed at the end and do not count. A scripted judge, model and RAG system answer on the loopback interface.
`--only NAME` runs a group or a command (`run` first: others read its results), `--data FOLDER` adds real files.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from same_numbers_server import number, scripted_server, written
from same_numbers_values import NOT_COUNTED, differences, read_values, summary

ROOT = Path(__file__).resolve().parents[1]
SHORT = {
    "sample": "--data sample",
    "log": "--log_samples --data sample --output_path",
    "tasks": "mtrag,mtrag_un_reference,mtrag_s,multihop_rag,trec_rag24,trec_rag25,custom_reference,custom_full_rag,"
    "multidoc2dial,doc2dial_reference,multidoc2dial_token_full_rag,multidoc2dial_propositions_full_rag,"
    "inscit_reference,inscit_dev_reference,ikat23_reference,ikat23_facts,ikat24_facts,ikat25_facts",
    "agentic": "mtrag_agentic,mtrag_un_agentic,multihop_rag_agentic,custom_agentic,trec_rag24_agentic",
    "free": "--encoder none",
    "all": "--metadata conversational=true",
    "cited": "--metric cited_precision --metric cited_recall",
    "rubrics": "--metric rl_f_conversation --metric rl_r --metric rl_mtb --metric context_precision "
    "--metric context_recall",
    "panel": "--judge {steady} --judge {other}",
    "old": "results/extractive --benchmark mtrag",
    "new": "results/refuse --baseline results/extractive --benchmark mtrag",
    "margins": "--margin ans_acc=0.1 --margin rouge_l=0.1 --margin invented=0.2",
    "json": "--format json",
}
"""Arguments shared by several commands, by their name in braces."""

COMMANDS = """
run.extractive      run --model ragtasks-extractive --tasks {tasks} {free} {all} {log} results/extractive
run.oracle          run --model ragtasks-oracle --tasks {tasks} {free} {all} {log} results/oracle
run.refuse          run --model ragtasks-refuse --tasks {tasks} {free} {all} {log} results/refuse
run.cited           run --model ragtasks-extractive {cited} {log} more/cited
                    --tasks mtrag,mtrag_s,custom_reference,multidoc2dial_reference,inscit_reference,ikat23_reference
run.rewrite         run --model ragtasks-oracle --tasks mtrag_rewrite {log} more/rewrite
run.closed_book     run --model ragtasks-extractive --tasks mtrag_full_rag --run closed_book {log} more/closed
run.server          run --model local-chat-completions --apply_chat_template --tasks mtrag_reference,custom_full_rag
                    --model_args model=scripted,base_url={server}/v1/chat/completions,num_concurrent=4
                    --metadata 'price=[1, 2]' --metadata max_implausible=1 {log} more/server
run.german          run --model ragtasks-extractive --tasks custom_full_rag {free} {log} more/german
                    --data files/de

agentic.once        run --model ragtasks-agent-once --tasks {agentic} {free} {log} agentic/once
agentic.rewrite     run --model ragtasks-agent-rewrite --tasks {agentic} {free} {log} agentic/rewrite
agentic.oracle      run --model ragtasks-agent-oracle --tasks {agentic},mtrag_live_agentic {log} agentic/oracle
agentic.kept        run --model ragtasks-agent-once --tasks mtrag_live_agentic --metadata keep_searches=true
                    --metadata injected=0.5 --metadata search_k=3 {free} {log} agentic/kept
agentic.injected    run --model ragtasks-extractive --tasks mtrag_full_rag --metadata injected=0.5
                    {free} {log} agentic/injected
agentic.live        run --model ragtasks-extractive --tasks mtrag_live_reference,mtrag_live_full_rag {log} live
agentic.report      report agentic live results/oracle --full {json}

retrieval.last      retrieve --retriever bm25 --queries last_turn {sample}
retrieval.rewrite   retrieve --retriever bm25 --queries rewrite {sample}
retrieval.standard  retrieve --retriever bm25-standard --queries rewrite {sample}
retrieval.fused     retrieve --retriever 'hybrid(bm25,bm25-standard)' --queries last_turn/rewrite --name fused {sample}
retrieval.dense     retrieve --retriever dense:minilm --benchmark custom --name dense {sample}
retrieval.rewritten retrieve --retriever bm25 --queries llm_rewrite --rewriter {steady} --min-rewritten 0
                    --name rewritten {sample}
retrieval.hops      retrieve --retriever bm25 --benchmark multihop_rag --name hops {sample}
retrieval.evaluate  evaluate-run bm25.last_turn.sample bm25.rewrite.sample bm25-standard.rewrite.sample fused rewritten
                    official {sample} {json} --per-query files/queries.jsonl
retrieval.measures  evaluate-run bm25.rewrite.sample {sample} --measures nDCG@20,R@100 --format csv
retrieval.own       evaluate-run dense --benchmark custom {sample} {json}
retrieval.multihop  evaluate-run official hops --benchmark multihop_rag {sample} {json}
retrieval.trec      evaluate-run official --benchmark trec_rag24 {sample} {json}
retrieval.compare   compare bm25.last_turn.sample bm25.rewrite.sample fused {sample} {json}
retrieval.show      results show fused
retrieval.describe  data describe mtrag {sample} {json}
retrieval.segments  data segment files/corpus.jsonl files/segments.jsonl --sentences 2
retrieval.near      data duplicates files/segments.jsonl --threshold 0.5

score.rows          score files/rows.jsonl {cited} --metadata 'price=[1, 2]' --output scored/rows
score.judged_rows   score files/rows.jsonl {panel} --output scored/judged
score.traces        score files/spans.jsonl --output scored/traces
score.export        tasks export --setting full_rag {sample} --output files/tasks_mtrag.jsonl
score.export_own    tasks export --benchmark custom --setting full_rag {sample} --output files/tasks_custom.jsonl
score.export_inscit tasks export --benchmark inscit --setting reference {sample} --output files/tasks_inscit.jsonl
score.export_hops   tasks export --benchmark multihop_rag --setting full_rag {sample} --output files/tasks_hops.jsonl
score.written       python {script} answer files
score.answers       score files/answers_mtrag.jsonl --setting full_rag {cited} {sample} --metadata max_implausible=1
                    --output scored/answers
score.reference     score files/answers_mtrag.jsonl --setting reference {panel} {sample} --metadata max_implausible=1
                    --output scored/reference
score.inscit        score files/answers_inscit.jsonl --benchmark inscit --setting reference {sample}
                    --metadata max_implausible=1 --output scored/inscit
score.multihop      score files/answers_hops.jsonl --benchmark multihop_rag --setting full_rag {panel} {sample}
                    --metadata max_implausible=1 --output scored/multihop
score.endpoint      score {server}/answer --protocol plain --setting full_rag {cited} {sample} --name asked
                    --metadata max_implausible=1 --output scored/asked
score.chat          score {server}/v1 --setting full_rag {sample} --name chat --metadata max_implausible=1
                    --output scored/chat
score.agent         score {server}/answer --protocol plain --benchmark custom --setting agentic {sample}
                    --name agent --metadata max_implausible=1 --output scored/agent
score.report        report scored --full {json}

judges.panel        run --model ragtasks-extractive {panel}
                    --tasks mtrag_full_rag,mtrag_un_reference,mtrag_s,trec_rag24,multihop_rag_retrieved
                    {rubrics} {log} judged/panel
judges.repeats      score scored/answers {sample} --judge {noisy} --metadata repeats=3
                    --metadata repeat_share=0.5 --output judged/repeats
judges.anchors      score scored/answers {sample} --judge {noisy} --metadata anchors=40 --output judged/anchors
judges.drift        score scored/answers {sample} --judge {noisy} --metadata anchors=40
                    --metadata skip_settled=true --output judged/drift
judges.first        score scored/answers {sample} {panel} --metric support_precision
                    --metric support_recall --output judged/first
judges.ngrams       score scored/answers {sample} {panel} --metadata idk=ngrams --output judged/ngrams
judges.report       report judged --full {json}
judges.decided      compare scored/answers scored/asked {panel} {json} {sample} --output judged/decided
judges.frozen       judges anchors results/extractive --output files/anchors.jsonl
judges.questions    judges questions mtrag {sample} --judge {steady} {json} --output files/labels.jsonl
judges.passages     judges passages official --benchmark mtrag {sample} --depth 3 --judge {steady}
                    --output files/qrels.txt
judges.graded       evaluate-run store/runs/bm25.rewrite.sample/clapnq.trec --qrels files/qrels.txt {json}
judges.nuggets      judges nuggets --set researchy {sample} --judge {steady} --output files/nuggets.jsonl
judges.battle       arena battle results/oracle results/extractive --setting reference {panel} {sample}
                    --max-battles 60 --output files/votes.jsonl
judges.ratings      arena ratings files/votes.jsonl {json}

gate.same           gate {old} --baseline results/extractive {margins} {json} --junit files/same.xml
                    --comment files/same.md
gate.worse          gate {new} {margins} {json} --junit files/worse.xml --comment files/worse.md
gate.slices         gate {new} {margins} --slice domain --slice turn --slice answerability --format csv
gate.save           gate {old} --save-baseline files/baseline.json
gate.saved          gate {new} --baseline files/baseline.json {margins} --config files/alpha.yaml --format latex
gate.power          gate --baseline files/baseline.json --power --slice domain {json}
gate.both_power     gate {new} --power
gate.recalibrated   gate judged/drift --baseline judged/anchors --margin rb_llm=0.1 --config files/recalibrated.yaml
                    {json}
gate.decided        gate scored/asked --baseline scored/answers --margin rb_llm=0.1 {panel} {json}
                    --output judged/gate --config files/vouched.yaml

submit.a            submit --task a --results results/extractive {sample} --output files/mtrageval_a.jsonl
submit.b            submit --task b --results results/extractive {sample} --output files/mtrageval_b.jsonl
submit.c            submit --task c --results results/extractive {sample} --output files/mtrageval_c.jsonl
submit.run          submit --task a --run bm25.rewrite.sample {sample} --output files/mtrageval_run.jsonl
submit.trec_2024    submit --track trec-rag --run-id mine --results results/extractive {sample}
                    --output files/trec_2024.jsonl
submit.trec_2025    submit --track trec-rag --run-id mine --team-id us --set narratives --results results/extractive
                    --data sample --output files/trec_2025.jsonl
submit.ikat_2023    submit --track ikat --run-id mine --results results/extractive {sample}
                    --output files/ikat_2023.json
submit.run_2024     run --model ragtasks-oracle --tasks ikat24_full_rag,ikat24_facts --run closed_book {log} ikat/2024
submit.ikat_2024    submit --track ikat --run-id mine --results ikat/2024 {sample} --output files/ikat_2024.json
submit.run_2025     run --model ragtasks-oracle --tasks ikat25_full_rag,ikat25_facts --run closed_book {log} ikat/2025
submit.ikat_2025    submit --track ikat --run-id mine --team-id us --results ikat/2025 {sample}
                    --output files/ikat_2025.jsonl
submit.broken       python {script} break files
submit.check_a      check files/mtrageval_a.jsonl {sample} --json
submit.check_b      check files/broken_mtrageval_b.jsonl {sample} --json
submit.check_c      check files/broken_mtrageval_c.jsonl {sample} --json
submit.check_2024   check files/trec_2024.jsonl {sample} --json --fixed files/fixed_2024.jsonl
submit.check_b2024  check files/broken_trec_2024.jsonl {sample} --json
submit.check_2025   check files/broken_trec_2025.jsonl {sample} --json
submit.check_i2023  check files/ikat_2023.json {sample} --json
submit.check_i2024  check files/ikat_2024.json {sample} --json
submit.check_i2025  check files/broken_ikat_2025.jsonl {sample} --json
submit.check_rows   check files/rows.jsonl
submit.check_given  check files/answers_mtrag.jsonl {sample}
submit.check_run    check bm25.rewrite.sample
submit.check_saved  check results/extractive
submit.scored_2024  score files/trec_2024.jsonl {panel} {sample} --output scored/trec_2024
submit.scored_2025  score files/trec_2025.jsonl {panel} {sample} --output scored/trec_2025

report.json         report results --full {json}
report.text         report results --full
report.page         report scored/answers scored/asked --html files/page.html
report.compare      compare results/oracle results/extractive {json}
report.show         results show results/extractive
report.rows         results export rows results/extractive --output files/rows.json
report.every        results export every-eval-ever results/extractive --output files/every
report.card         results export model-card results/extractive --output files/card.out
report.failed       results export benchmark results/extractive --kind missed --output files/failed
report.leaders      results list results --leaderboard files/leaders.html

api.all             python {api} {server}
"""

REAL = """
real.extractive     run --model ragtasks-extractive --tasks mtrag_reference,mtrag_un_reference {free}
                    --log_samples --output_path real/extractive
real.oracle         run --model ragtasks-oracle --tasks mtrag_reference,mtrag_un_reference {free}
                    --log_samples --output_path real/oracle
real.report         report real --full {json}
real.people         python {people} --judge {steady} --repeats 2
real.retrieve       retrieve --retriever bm25 --queries rewrite --name real
real.evaluate       evaluate-run real {json}
"""

ROWS = (
    {
        "question": "How long may I keep a book?",
        "answer": "Three weeks, and you may renew it twice [1].",
        "contexts": ["Books are lent for three weeks. A loan can be renewed twice."],
        "reference": "Three weeks, with two renewals.",
        **{"input_tokens": 120, "output_tokens": 9, "cost": 0.002, "currency": "USD"},
    },
    {
        "question": "When do you open on Sundays?",
        "answer": "I don't know.",
        "contexts": ["The library opens at nine on weekdays."],
        "reference": "It is closed on Sundays.",
    },
    {
        "question": "What does a lost card cost?",
        "answer": "A new card costs seven euros.",
        "contexts": [{"id": "fees", "text": "A lost card is replaced for five euros."}],
        "searches": [{"query": "lost card", "passages": [{"id": "fees", "text": "A lost card is replaced."}]}],
    },
    {"question": "Gibt es einen Lasercutter?", "answer": "Ja, im zweiten Stock.", "contexts": [], "language": "de"},
)
CORPUS = " ".join(f"Rule {n} of the library is about shelf {n % 3}. It holds on all days." for n in range(1, 30))


def store(folder: Path, bin_folder: Path, data: Path | None, only: list[str]) -> int:
    """Run the commands in a folder and store their output and files; return 0."""
    (folder / "printed").mkdir(parents=True, exist_ok=True)
    files = folder / "files"
    files.mkdir(exist_ok=True)
    _write(files / "rows.jsonl", ROWS)
    for name, key in (
        ("alpha", "alpha: 0.1"),
        ("recalibrated", "recalibrate: true, anchored_judges: [noisy]"),
        ("vouched", "anchored_judges: [steady, other]"),
    ):
        (files / f"{name}.yaml").write_text(f"gate: {{{key}}}\n", encoding="utf-8")
    _write(files / "corpus.jsonl", [{"_id": "rules", "title": "Rules", "text": CORPUS}])
    shutil.copytree(ROOT / "examples" / "languages" / "de", files / "de", dirs_exist_ok=True)
    shutil.copy(ROOT / "tests" / "examples" / "traces" / "langchain_rag.jsonl", files / "spans.jsonl")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAGTASKS")},
        **{"HF_HUB_OFFLINE": "1", "RAGTASKS_RUNS": str(folder / "store"), "COLUMNS": "200"},
        "RAGTASKS_DATA": str(data or folder / "no_data"),
    }
    began, statuses = time.monotonic(), []
    with scripted_server(files) as address:
        for name, arguments in commands(COMMANDS + (REAL if data else ""), address):
            if only and not {name, name.partition(".")[0]} & {*only}:
                continue
            program = "python" if arguments[0] == "python" else "ragtasks"
            command = [str(bin_folder / program), *arguments[program == "python" :]]
            start = time.monotonic()
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, cwd=folder)
            (folder / "printed" / f"{name}.out").write_text(done.stdout, encoding="utf-8")
            (folder / "printed" / f"{name}.err").write_text(done.stderr, encoding="utf-8")
            _write(folder / "printed" / f"{name}.jsonl", [{"status": done.returncode}])
            statuses.append(done.returncode)
            why = " ".join(done.stderr.strip().splitlines()[-1:])[:120] if done.returncode else ""
            print(f"{name}: status {done.returncode}, {time.monotonic() - start:.1f} s {why}", flush=True)
    print(f"{len(statuses)} commands in {time.monotonic() - began:.0f} s")
    return 0


def commands(table: str, address: str) -> list[tuple[str, list[str]]]:
    """Return (group.name, arguments) of each row of a table, with its braces replaced."""
    judges = {name: json.dumps({"model": name, "base_url": f"{address}/v1"}) for name in ("steady", "other", "noisy")}
    script = Path(__file__).resolve()
    filled = {
        **{"server": address, "script": str(script), "api": str(script.with_name("same_numbers_api.py"))},
        "people": str(ROOT / "perf" / "human_evaluation.py"),
        **{name: shlex.quote(judge) for name, judge in judges.items()},
    }
    listed = []
    for row in table.replace("\n          ", " ").splitlines():
        if row.strip():
            name, _, arguments = row.partition(" ")
            listed.append((name, shlex.split(_filled(_filled(arguments, SHORT), filled))))
    return listed


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def write_answers(folder: Path) -> int:
    """Write scripted answers to the exported tasks of a folder; return 0."""
    for file in sorted(folder.glob("tasks_*.jsonl")):
        rows = []
        for task in _read(file):
            contexts = task["contexts"][: number(task["id"]) % 4]
            texts = [task["messages"][-1]["content"], *(passage["text"] for passage in contexts)]
            rows.append({"id": task["id"], "answer": written(texts, task["id"]), "contexts": contexts})
        _write(file.with_name(file.name.replace("tasks", "answers")), rows)
    return 0


def break_submissions(folder: Path) -> int:
    """Write faulty copies of each submission in a folder: an unknown id, a repeated row, a missing field; return 0."""
    for file in [*folder.glob("mtrageval_*.jsonl"), *folder.glob("trec_*.jsonl"), *folder.glob("ikat_*.jsonl")]:
        rows = _read(file)
        id_key = next(key for key in ("task_id", "topic_id", "turn_id", "metadata") if key in rows[0])
        fewer = {key: value for key, value in rows[-1].items() if key != list(rows[-1])[-1]}
        _write(file.with_name(f"broken_{file.name}"), [{**rows[0], id_key: "unknown"}, *rows, rows[0], fewer])
    return 0


def _read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _write(file: Path, rows: Any) -> None:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def compare(before: Path, after: Path) -> int:
    """Print the differences between two stores; return 1 if a value differs."""
    old, new = read_values(before), read_values(after)
    changes = list(differences(old, new))
    counted = [difference for difference in changes if difference.kind not in NOT_COUNTED]
    print(f"{len(old)} files with {sum(map(len, old.values())):,} values before, {len(new)} files after")
    print("\n".join(summary(changes)))
    print(f"\n{len(counted):,} values differ" if counted else "\nno value differs")
    return int(bool(counted))


def main() -> int:
    """Store or compare; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    storing = actions.add_parser("store", help="run the commands and keep what they print and write")
    storing.add_argument("folder", type=Path, help="new or empty folder")
    storing.add_argument("--bin", type=Path, default=Path(sys.executable).parent, help="folder of python and ragtasks")
    storing.add_argument("--data", type=Path, help="data folder with the real files")
    storing.add_argument(
        "--only", action="append", default=[], help="group or command, such as run or gate.same; repeatable"
    )
    comparing = actions.add_parser("compare", help="print what differs; status 1 if a value does")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    for name in ("answer", "break"):
        actions.add_parser(name, help="used by store").add_argument("folder", type=Path)
    options = parser.parse_args()
    if options.action == "store":
        return store(options.folder.resolve(), options.bin.absolute(), options.data, options.only)
    if options.action == "compare":
        return compare(options.before.resolve(), options.after.resolve())
    return (write_answers if options.action == "answer" else break_submissions)(options.folder)


if __name__ == "__main__":
    sys.exit(main())
