"""What a stranger may send: files of every kind that name other files, endpoints, models and code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ragtasks.benchmarks import benchmark_folder
from ragtasks.benchmarks.mtrag import HUMAN_EVALUATION_FILE
from ragtasks.files import Manifest, Ranked, read_manifest, write_manifest
from ragtasks.records import Setting
from tests.benchmarks.mtrag.test_human_evaluation import content as human_evaluation
from tests.submissions.mtrageval._files import sample, store_run, write_answers

SECRET = "SECRET-OF-THE-USER"
"""Stands in every file that lies outside of what is given: no command says or writes it."""
SAMPLES = Path(benchmark_folder("mtrag", "sample", Path())).parent


@dataclass(frozen=True)
class World:
    """Folders: what is given to commands, and what is not."""

    root: Path
    theirs: Path
    outside: Path
    address: str
    """Where nobody may connect to."""

    @classmethod
    def below(cls, root: Path) -> World:
        """Return the world that was built there."""
        return cls(root, root / "theirs", root / "outside", (root / "address").read_text(encoding="utf-8"))

    @property
    def results(self) -> dict[str, Path]:
        return {path.name: path for path in sorted((self.theirs / "results").iterdir())}

    def cases(self) -> dict[tuple[str, ...], list[list[str]]]:
        """Return command -> its arguments for hostile files, several times where it reads several kinds."""
        at = self.theirs
        data, own, out = str(at / "mtrag"), str(at / "own"), str(self.root / "out")
        results = [str(path) for path in self.results.values()]
        runs = ["leads-out", "strings", "../../theirs/run", str(at / "run")]
        names = runs[:2]  # where a ranking may be named by its path, reading that path is what was asked for
        corpora = [str(path) for path in sorted((at / "corpora").iterdir())]
        place = ["--data", "sample"]
        metadata = [json.dumps({"data": "sample", "run": run, "encoder": "none"}) for run in runs]
        metadata.append(json.dumps({"data": data, "encoder": "none"}))
        limited = ["--model", "ragtasks-oracle", "--tasks", "mtrag_full_rag_fiqa", "--limit", "1"]
        limited += ["--output", f"{out}/run"]
        predicted = [
            "--benchmark",
            "mtrag",
            "--setting",
            "full_rag",
            "--metadata",
            '{"data": "sample", "encoder": "none"}',
        ]
        track = ["--track", "trec-rag", "--output", f"{out}/t.jsonl"]
        answers, trec, scores = str(at / "answers.jsonl"), str(at / "trec.jsonl"), ["--output", f"{out}/scores"]
        return {
            ("arena", "battle"): [
                [one, one, "--judge", "openai/none", "--output", f"{out}/votes.jsonl"] for one in results[:2]
            ],
            ("arena", "forms"): [[one, "--output", f"{out}/forms"] for one in results[:2]],
            ("arena", "invite"): [["Ann", "--database", answers]],
            ("arena", "ratings"): [[answers, "--save", f"{out}/votes.jsonl"]],
            ("data", "describe"): [["mtrag", "--data", data], ["custom", "--data", own], [own]],
            ("tasks", "export"): [["--benchmark", "mtrag", "--data", data, "--output", f"{out}/tasks.jsonl"]],
            ("judges", "passages"): [
                [run, "--benchmark", "mtrag", "--judge", "openai/none", "--output", f"{out}/qrels.txt", *place]
                for run in names
            ],
            ("judges", "questions"): [[own, "--judge", "openai/none", "--output", f"{out}/kinds.jsonl"]],
            ("review", "quality"): [[own]],
            ("review", "results"): [[own, "--database", answers, "--accepted", f"{out}/reviewed"]],
            ("score",): [
                *([one, "--output-path", f"{out}/{number}"] for number, one in enumerate(results)),
                [str(at / "predictions.jsonl"), *predicted, "--output-path", f"{out}/predictions"],
                [answers, "--benchmark", "mtrag", "--encoder", "none", "--output", f"{out}/scored", *place],
                [answers, "--benchmark", "rows", "--encoder", "none", "--output", f"{out}/rows"],
                [
                    trec,
                    "--judge",
                    "openai/none",
                    "--metadata",
                    f"nuggets={answers}",
                    "--metadata",
                    f"segments={answers}",
                    *scores,
                    *place,
                ],
            ],
            ("synthesize",): [
                [str(at / "corpora"), "--output", f"{out}/made", "--model", "openai/none", "--dialogues", "1"]
            ],
            ("train",): [["retriever", own, "--output", f"{out}/encoder", "--base", str(self.outside / "none")]],
            ("data", "cache"): [["--outcome", "answered"]],
            ("judges", "calibrate"): [[data, "--judge", "openai/none", "--rubric", "rl_f"]],
            ("judges", "anchors"): [
                [one, "--output", f"{out}/anchors-{number}.jsonl"] for number, one in enumerate(results)
            ],
            ("judges", "label"): [
                [one, "--output", f"{out}/label-{number}.{('jsonl', 'csv')[number % 2]}"]
                for number, one in enumerate(results)
            ],
            ("check",): [
                [str(at / "submission.jsonl"), "--task", "A", "--input", str(at / "submission.jsonl"), "--data", data],
                [str(at / "submission.jsonl"), "--task", "C", *place],
                [own],
                *([run] for run in runs),
                [answers, *place],
                [trec, *place],
                [trec, "--data", own],
                *([one] for one in corpora),
            ],
            ("compare",): [*([one, one] for one in results), *([run, "official", *place] for run in names)],
            ("data", "duplicates"): [
                *([one] for one in corpora),
                *([one, "--output", f"{out}/{Path(one).name}.kept.jsonl"] for one in corpora),
            ],
            ("data", "segment"): [[one, f"{out}/{Path(one).name}.segments.jsonl"] for one in corpora],
            ("doctor",): [[]],
            ("evaluate-run",): [*([run, *place] for run in names), ["official", "--data", data]],
            ("data", "fetch"): [["mtrag", "--from", data]],
            ("gate",): [
                *([one, "--baseline", one, "--margin", "rouge_l=0.1"] for one in results),
                [results[0], "--baseline", str(at / "mtrag"), "--config", str(at / "submission.jsonl")],
                *([one, "--save-baseline", f"{out}/{number}.json"] for number, one in enumerate(results)),
            ],
            ("report",): [
                *([one] for one in results),
                [results[0], "--html", f"{out}/page.html"],
            ],
            ("results", "export"): [
                *(["benchmark", one, "--output", f"{out}/failed", "--kind", "invented"] for one in results),
                *(["every-eval-ever", one, "--output", f"{out}/records"] for one in results),
                *(["model-card", one] for one in results),
                *(["rows", one, "--output", f"{out}/rows.csv"] for one in results),
            ],
            ("results", "show"): [
                *([one] for one in (*results, *runs)),
                *([one, results[0]] for one in results),
                *([run, "strings"] for run in runs),
            ],
            ("run",): [[*limited, "--metadata", one] for one in metadata],
            ("init",): [["--model", "ragtasks-oracle", "--data", data, "--output", f"{out}/evaluation.yaml"]],
            ("eval",): [[str(at / "evaluation.yaml"), "--set", f"output={out}/eval"]],
            ("submit",): [
                *(["--task", "A", "--run", run, "--output", f"{out}/a.jsonl", *place] for run in runs),
                *(
                    ["--task", "C", "--results", one, "--allow-missing", "--output", f"{out}/c.jsonl", *place]
                    for one in results
                ),
                *([*track, "--results", one, "--run-id", "r", *place] for one in results[:2]),
                [*track, "--results", trec, "--team-id", "t", *place],
            ],
            ("judges", "nuggets"): [
                ["--judge", "openai/none", "--run", run, "--output", f"{out}/nuggets.jsonl", *place] for run in runs
            ],
            # Last: a run that leads out of its folder stops whoever reads all runs.
            ("results", "remove"): [["leads-out"], *([run] for run in runs[2:])],
            ("results", "list"): [[], [str(at)], [str(at), "--leaderboard", f"{out}/board.html"]],
            ("retrieve",): [
                ["--retriever", f"run:{at / 'predictions.jsonl'}", *place],
                ["--retriever", "bm25", "--benchmark", "custom", "--data", own],
                ["--retriever", "bm25", "--data", data],
            ],
        }

    def asked(self) -> dict[str, list[str]]:
        """Return name -> arguments by which the user names such things."""
        results, out = str(self.results["endpoint"]), str(self.root / "out" / "asked")
        judge = {"model": "own", "base_url": f"{self.address}/v1", "attempts": 1}
        secret, data = str(self.outside / "secret.jsonl"), str(self.theirs / "mtrag")
        limited = ["--model", "ragtasks-oracle", "--tasks", "mtrag_full_rag_fiqa", "--limit", "1"]
        limited += ["--output", str(self.root / "asked")]  # where the secret is that this user names
        prompt = {"data": "sample", "encoder": "none", "system_prompt": secret}
        again = ["score", results, "--output-path"]
        return {
            "judge": [*again, f"{out}-judge", "--metadata", json.dumps({"judges": [judge]})],
            "encoder": [*again, f"{out}-encoder", "--metadata", json.dumps({"encoder": str(self.outside / "model")})],
            "calibrate": ["judges", "calibrate", data, "--judge", json.dumps(judge), "--rubric", "rl_f"],
            "template": ["run", *limited, "--metadata", json.dumps(prompt)],
            "run file": ["retrieve", "--data", "sample", "--retriever", f"run:{secret}"],
            "answers": ["check", secret, "--data", "sample"],
        }


def build(root: Path, address: str) -> World:
    """Write everything below a folder."""
    (root / "address").write_text(address, encoding="utf-8")
    world = World.below(root)
    _outside(world.outside)
    for name, settings in _settings(world).items():
        _results(world, name, settings)
    _runs(world)
    _data(world)
    _corpora(world)
    _write(world.theirs / "predictions.jsonl", _predictions(world))
    _write(world.theirs / "submission.jsonl", _submission(world))
    evaluation = {"model": "ragtasks-oracle", "tasks": ["mtrag_full_rag_fiqa"], "data": str(world.theirs / "mtrag")}
    (world.theirs / "evaluation.yaml").write_text(json.dumps({**evaluation, "options": {"encoder": "none"}}))
    cited = [{"text": "{{ x }}", "citations": [0]}]
    track = {"run_id": "../../x", "topic_id": "2024-10007", "references": ["/etc/passwd"], "answer": cited}
    _write(world.theirs / "trec.jsonl", [{**_reach(world), **track}])
    _write(world.theirs / "answers.jsonl", [{**_reach(world), "run_id": "../../x", "topic_id": "2024-10007"}])
    (root / "out").mkdir()
    return world


def _reach(world: World) -> dict[str, Any]:
    """Return keys and values that name files, addresses and code."""
    secret = str(world.outside / "secret.jsonl")
    return {
        "path": secret,
        "file": f"file://{secret}",
        "url": f"{world.address}/x",
        "base_url": f"{world.address}/v1",
        "template": "{{ ''.__class__.__mro__ }}{% include '/etc/passwd' %}",
        "module": "planted_module:main",
        "trust_remote_code": True,
        "model_args": {"pretrained": str(world.outside / "model"), "trust_remote_code": True},
    }


def _settings(world: World) -> dict[str, dict[str, Any]]:
    """Return name -> what one results file says; each names one thing, so that none hides another."""
    model = str(world.outside / "model")
    judge = {"model": "theirs", "base_url": f"{world.address}/v1"}
    in_process = {"lm_eval": "hf", "model_args": {"pretrained": model, "trust_remote_code": True}}
    return {
        "endpoint": {"judges": [judge]},
        "in-process": {"judges": [in_process], "min_judge_coverage": 0.0},
        "encoder": {"encoder": model, "encoder_device": "cuda:9"},
        "retriever": {"retriever": f"run:{world.outside / 'secret.jsonl'}"},
        "templates": {"system_prompt": "/etc/passwd", "plain_prompt": str(world.outside / "secret.jsonl")},
        "data": {"data": str(world.outside), "run": "../../../outside"},
        "suite": {"_facts": {"suite": "planted_module"}},
        "benchmark": {"_doc": {"benchmark": "../../outside", "run": "/etc/passwd"}},
    }


_N_ROWS = 4


def _results(world: World, name: str, settings: Mapping[str, Any]) -> None:
    benchmark = sample()
    folder = world.theirs / "results" / name
    file = write_answers(folder, benchmark, Setting.FULL_RAG, scores={"rouge_l": 1.0})
    results = json.loads(file.read_text())
    own = {key: value for key, value in settings.items() if not key.startswith("_")}
    for task, config in results["configs"].items():
        facts = config["metadata"]["ragtasks"]
        facts.update({"benchmark": benchmark.label, "suite": "mtrag", **settings.get("_facts", {})})
        facts["configuration"] = {"data": "sample", "encoder": "none", "run": "official", **own}
        facts["prompts"] = {"system": "/etc/passwd", "plain": str(world.outside)}
        judges = str(own.get("judges", ""))
        facts["scoring"] = {
            "encoder": "none",
            "scored_by": "ragtasks 0.1.0",
            "idk_detector": "ngrams-2",
            "judges": judges,
            "rubrics": {},
            **_reach(world),
        }
        config.update(task=task, **_reach(world))
        results["n-samples"][task]["effective"] = _N_ROWS
    results.update(
        config={"model": "hf", **_reach(world)},
        results={task: {"alias": task, "rouge_l,none": 1.0} for task in results["configs"]},
        chat_template=str(world.outside / "secret.jsonl"),
        model_source="hf",
        model_name="../../outside",
    )
    file.write_text(json.dumps(results))
    (samples,) = folder.glob("samples_*.jsonl")
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    for row in rows:
        row["doc"].update(settings.get("_doc", {}))
    _write(samples, ({**row, **_reach(world), "filter": "none"} for row in rows[:_N_ROWS]))


def _runs(world: World) -> None:
    benchmark = sample()
    store = world.root / "store"
    run = {task.task_id: (Ranked("../../outside/secret.jsonl", 1.0),) for task in benchmark.tasks}
    for name in ("strings", "leads-out"):
        store_run(store, name, benchmark, run)
        folder = store / "runs" / name
        manifest = read_manifest(folder)
        retriever = {"name": f"dense:{world.outside / 'model'}", **_reach(world)}
        corpora = {"govt": {"location": str(world.outside / "secret.jsonl"), "n_passages": 3, **_reach(world)}}
        spec = {**manifest.spec, "retriever": retriever, "corpora": corpora, "queries": {"form": "rewrite"}}
        files = dict(manifest.files)
        if name == "leads-out":
            files["../../../outside/secret.trec"] = "0" * 64
            files[str(world.outside / "secret.trec")] = "0" * 64
        write_manifest(folder, Manifest(name, spec, files, _reach(world)))
    shutil.copytree(store / "runs" / "strings", world.theirs / "run")


def _data(world: World) -> None:
    """Write copies of the samples as official data, whose rows name what they should not."""
    mtrag, own = world.theirs / "mtrag", world.theirs / "own"
    shutil.copytree(SAMPLES / "mtrag", mtrag)
    shutil.copytree(SAMPLES / "custom", own)
    for file in (mtrag / "mtrag-human" / "generation_tasks").glob("*.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for row in rows:
            for passage in row.get("contexts") or []:
                passage.update(_reach(world))
        _write(file, ({**row, **_reach(world)} for row in rows))
    rated = mtrag / HUMAN_EVALUATION_FILE
    rated.parent.mkdir(parents=True)
    # The answer of a model: the benchmark's own answers have no labels for a judge.
    rated.write_text(json.dumps({**human_evaluation(), **_reach(world)}).replace('"reference"', '"gpt-4o"'))
    (mtrag / "planted_module.py").write_text(_code(world))
    lines = (own / "conversations.jsonl").read_text().splitlines()
    _write(own / "conversations.jsonl", [{**json.loads(lines[0]), "domain": "../../outside"}, *map(json.loads, lines)])


def _corpora(world: World) -> None:
    """Write corpora in containers that could lead elsewhere: lines, and a saved split with a column of pictures."""
    folder = world.theirs / "corpora"
    row = {"_id": "../../outside", "text": "a text", "title": str(world.outside), **_reach(world)}
    _write(folder / "lines.jsonl", [row])
    for name, file in (("split-inside", "data.arrow"), ("split-outside", str(world.outside / "secret.arrow"))):
        split = folder / name
        split.mkdir()
        picture = {"bytes": None, "path": f"{world.address}/picture.png"}
        table = pa.table({"_id": ["a"], "text": [picture], "url": [picture]})
        with pa.OSFile(str(split / "data.arrow"), "wb") as target, pa.ipc.new_stream(target, table.schema) as writer:
            writer.write_table(table)
        state = {"_data_files": [{"filename": file}], "_fingerprint": "0", "_format_type": None, "_split": None}
        more: dict[str, Any] = {"_format_kwargs": {}, "_format_columns": None, "_output_all_columns": False}
        (split / "state.json").write_text(json.dumps({**state, **more}))
        text = {"dtype": "string", "_type": "Value"}
        features = {"_id": text, "text": {"_type": "Image"}, "url": {"_type": "Image"}}
        (split / "dataset_info.json").write_text(json.dumps({"features": features}))


def _outside(folder: Path) -> None:
    """Write what lies on the user's machine and is nobody's business, and a model that brings code."""
    model = folder / "model"
    model.mkdir(parents=True)
    row = {"_id": SECRET, "text": SECRET, "task_id": SECRET}
    _write(folder / "secret.jsonl", [row])
    (folder / "secret.trec").write_text(f"{SECRET} Q0 {SECRET} 1 1.0 x\n")
    table = pa.table({"_id": [SECRET], "text": [SECRET]})
    with pa.OSFile(str(folder / "secret.arrow"), "wb") as target, pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_table(table)
    auto = {"AutoConfig": "planted_model.Config", "AutoModel": "planted_model.Model"}
    (model / "config.json").write_text(json.dumps({"model_type": "planted", "auto_map": auto}))
    (model / "planted_model.py").write_text(_code(World(folder.parent, folder, folder, "")))


def _code(world: World) -> str:
    return f"open({str(world.root / 'code-ran')!r}, 'w').close()\n"


def _predictions(world: World) -> list[dict[str, Any]]:
    context = {"document_id": "../../outside", "text": "t", "score": 1.0, **_reach(world)}
    return [
        {"task_id": task.task_id, "predictions": [{"text": "a"}], "contexts": [context], **_reach(world)}
        for task in sample().tasks[:3]
    ]


def _submission(world: World) -> list[dict[str, Any]]:
    return [{**row, "Collection": "../../outside", "input": []} for row in _predictions(world)]


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
