"""Every kind of file that a command reads, and the commands that read it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ragtasks.benchmarks import build_docs, contexts_for, open_benchmark, retrieval_side
from ragtasks.benchmarks.mtrag import load_human_evaluation
from ragtasks.cli.app import echo
from ragtasks.prompts import load_template
from ragtasks.records import Setting
from tests.mutations._files import FIELDS
from tests.mutations._mutants import Form
from tests.submissions.mtrageval._files import TIME

Command = str | Callable[[Path], None]
"""A command line with `{w}` for the folder, or what a command does that takes seconds in itself."""


@dataclass(frozen=True)
class Kind:
    """A kind of file."""

    name: str
    file: str
    """Below the folder."""
    form: Form
    commands: tuple[Command, ...]
    rows: str = ""
    """Pattern of the number of rows in what a command prints; empty where none says it."""
    n_heads: int = 0
    """Lines of the file that are no rows."""
    prepare: Callable[[Path], None] = field(default=lambda _: None)
    """What a hostile file brings beside itself, such as a checksum that fits."""

    def n_rows(self, content: bytes) -> int:
        """Return how many rows a file has."""
        return sum(bool(line.strip()) for line in content.splitlines()) - self.n_heads


def _docs(name: str, setting: Setting, run: str = "official") -> Callable[[Path], None]:
    """Return what a harness task does with a benchmark's files before the model is asked."""

    def build(folder: Path) -> None:
        benchmark = open_benchmark(name, folder / name)
        contexts = contexts_for(benchmark, setting, run, folder / "store")
        echo(f"{len(benchmark.tasks)} tasks, {len(contexts.passages)} contexts")
        build_docs(benchmark, setting, None, conversational=True, contexts=contexts)

    return build


def _template(folder: Path) -> None:
    load_template(str(folder / "own.jinja"), "generation/system").render(**FIELDS)


def _judgements(name: str) -> Callable[[Path], None]:
    """Return what reads a benchmark's relevance judgements of one domain."""

    def read(folder: Path) -> None:
        echo(f"{len(retrieval_side(name).load_qrels(folder / name, 'clapnq'))} judged passages")

    return read


def _rewrites(name: str) -> Callable[[Path], None]:
    """Return what reads a benchmark's rewritten questions."""

    def read(folder: Path) -> None:
        side = retrieval_side(name)
        assert side.load_rewrites
        for domain in side.domains:
            side.load_rewrites(folder / name, domain)

    return read


def _fitting_checksum(folder: Path) -> None:
    run = folder / "store" / "runs" / "mine"
    manifest = json.loads((run / "manifest.json").read_bytes())
    sha256 = hashlib.sha256((run / "contexts" / "full_rag.jsonl").read_bytes()).hexdigest()
    manifest["files"]["contexts/full_rag.jsonl"] = sha256
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def _fitting_trec(folder: Path) -> None:
    run = folder / "store" / "runs" / "mine"
    manifest = json.loads((run / "manifest.json").read_bytes())
    for path in manifest["files"]:
        manifest["files"][path] = hashlib.sha256((run / path).read_bytes()).hexdigest()
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def _fitting_key(folder: Path) -> None:
    """Make the manifest's key fit its spec, as whoever writes one by hand would."""
    from ragtasks.files import canonical_hash

    path = folder / "store" / "runs" / "mine" / "manifest.json"
    try:
        manifest = json.loads(path.read_bytes())
        manifest["key"] = canonical_hash(manifest["spec"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return
    path.write_text(json.dumps(manifest), encoding="utf-8")


_CUSTOM = "--benchmark custom --data {w}/custom"
_REPORTS = (
    "report {w}/%s",
    "results show {w}/%s",
    "results list {w}/%s",
    "results list {w}/%s --leaderboard {w}/out/page.html",
    "results show {w}/%s {w}/others",
    "compare {w}/%s {w}/others",
    "report {w}/%s --format csv",
)
_SUBMIT = ("submit --task B --results {w}/answers --data {w}/mtrag --output {w}/out/b.jsonl",)


def _reports(folder: str) -> tuple[str, ...]:
    return tuple(line % folder for line in _REPORTS)


_AGAIN = "score {w}/judged --output_path {w}/out/again"
_JUDGE = "score {w}/predictions.jsonl --output_path {w}/out/again --benchmark mtrag --setting full_rag --metadata"
_RUNS = (
    "results list",
    "results show mine",
    "results show mine theirs",
    "check mine",
    f"evaluate-run mine {_CUSTOM}",
    f"compare mine theirs {_CUSTOM}",
    f"report --run mine {_CUSTOM}",
    _docs("custom", Setting.FULL_RAG, "mine"),
    f"retrieve --retriever run:{{w}}/run.trec --name again --depth 4 {_CUSTOM}",
)
_MTRAG = "evaluate-run official --data {w}/mtrag"
_SCORE = "score {w}/answers.jsonl --judge {judge} --data {w}/trec_rag24 --output {w}/out/scores"
_TASKS = "mtrag/mtrag-human/generation_tasks"
_QUERIES = "mtrag/mtrag-human/retrieval_tasks/clapnq"
_TREC = "evaluate-run official --benchmark trec_rag24 --data {w}/trec_rag24"
_CORPUS = (
    "check {w}/%s",
    "data duplicates {w}/%s",
    "data segment {w}/%s {w}/out/segments.jsonl",
)


def _corpus(file: str) -> tuple[str, ...]:
    return tuple(line % file for line in _CORPUS)


KINDS: tuple[Kind, ...] = (
    Kind("results", "results/results_2026-01-01.json", Form.JSON, _reports("results")),
    Kind(
        "results of score",
        "judged/predictions/results_predictions-mtrag-full-rag-sample.json",
        Form.JSON,
        (*_reports("judged"), _AGAIN),
    ),
    Kind("samples", "results/samples_mtrag_reference_2026-01-01.jsonl", Form.JSON_LINES, _reports("results")),
    Kind(
        "samples of score",
        "judged/predictions/samples_mtrag_full_rag_clapnq_predictions-mtrag-full-rag-sample.jsonl",
        Form.JSON_LINES,
        (*_reports("judged"), _AGAIN),
        rows=r"\((\d+) answers\)",
    ),
    Kind("results to submit", f"answers/results_{TIME}.json", Form.JSON, _SUBMIT),
    Kind("samples to submit", f"answers/samples_mtrag_reference_{TIME}.jsonl", Form.JSON_LINES, _SUBMIT),
    Kind("predictions", "predictions.jsonl", Form.JSON_LINES, (_JUDGE + " {metadata}",), rows=r"\((\d+) answers\)"),
    Kind(
        "metadata",
        "metadata.json",
        Form.JSON,
        (_JUDGE + " {metadata}", "score {w}/judged --output_path {w}/out/again --metadata {metadata}"),
    ),
    *(
        Kind(
            f"submission {letter}",
            f"{letter}.jsonl",
            Form.JSON_LINES,
            (f"check {{w}}/{letter}.jsonl --task {letter} --input {{w}}/input.jsonl",),
        )
        for letter in "ABC"
    ),
    Kind("input", "input.jsonl", Form.JSON_LINES, ("check {w}/C.jsonl --task C --input {w}/input.jsonl",)),
    Kind("manifest", "store/runs/mine/manifest.json", Form.JSON, _RUNS, prepare=_fitting_key),
    Kind(
        "contexts of a run",
        "store/runs/mine/contexts/full_rag.jsonl",
        Form.JSON_LINES,
        (_docs("custom", Setting.FULL_RAG, "mine"),),
        prepare=_fitting_checksum,
    ),
    Kind(
        "stored run",
        "store/runs/mine/lending.trec",
        Form.CELLS,
        (f"evaluate-run mine {_CUSTOM}", f"compare mine theirs {_CUSTOM}", "check mine"),
        prepare=_fitting_trec,
    ),
    Kind("run file", "run.trec", Form.CELLS, (f"retrieve --retriever run:{{w}}/run.trec --name again {_CUSTOM}",)),
    Kind(
        "custom conversations",
        "custom/conversations.jsonl",
        Form.JSON_LINES,
        ("check {w}/custom", f"evaluate-run mine {_CUSTOM}", _docs("custom", Setting.REFERENCE)),
        rows=r"(\d+) conversations",
    ),
    Kind(
        "custom passages",
        "custom/passages.jsonl",
        Form.JSON_LINES,
        ("check {w}/custom", _docs("custom", Setting.FULL_RAG), *_corpus("custom/passages.jsonl")),
        rows=r"(\d+) passages(?! that)(?! in)",
    ),
    Kind("custom qrels", "custom/qrels.tsv", Form.CELLS, ("check {w}/custom", f"evaluate-run mine {_CUSTOM}")),
    Kind(
        "corpus in a zip",
        "mtrag/corpora/passage_level/clapnq.jsonl.zip",
        Form.BYTES,
        _corpus("mtrag/corpora/passage_level/clapnq.jsonl.zip"),
    ),
    Kind(
        "mtrag tasks",
        f"{_TASKS}/reference.jsonl",
        Form.JSON_LINES,
        (_docs("mtrag", Setting.REFERENCE), _MTRAG),
        rows=r"(\d+) tasks",
    ),
    Kind(
        "mtrag retrieved",
        f"{_TASKS}/RAG.jsonl",
        Form.JSON_LINES,
        (_docs("mtrag", Setting.FULL_RAG), _MTRAG),
        rows=r"(\d+) contexts",
    ),
    Kind(
        "mtrag queries",
        f"{_QUERIES}/clapnq_rewrite.jsonl",
        Form.JSON_LINES,
        (_MTRAG, "retrieve --retriever bm25 --queries rewrite --data {w}/mtrag --name again --depth 2"),
    ),
    Kind("mtrag qrels", f"{_QUERIES}/qrels/dev.tsv", Form.CELLS, (_MTRAG,)),
    Kind("sample.json", "mtrag/sample.json", Form.JSON, (_MTRAG, _docs("mtrag", Setting.REFERENCE))),
    Kind(
        "human evaluation",
        "mtrag/mtrag-human/evaluations/reference_subset_with_human_evaluations.json",
        Form.JSON,
        (lambda folder: echo(f"{len(load_human_evaluation(folder / 'mtrag'))} answers"),),
    ),
    Kind(
        "mtrag-s tasks",
        "mtrag_s/mtrag-synthetic/generation_tasks/synthetic.jsonl",
        Form.JSON_LINES,
        (_docs("mtrag_s", Setting.REFERENCE),),
        rows=r"(\d+) tasks",
    ),
    Kind(
        "mtrag-un tasks",
        "mtrag_un/mtragun-human/generation_tasks/reference.jsonl",
        Form.JSON_LINES,
        (_docs("mtrag_un", Setting.REFERENCE),),
        rows=r"^(\d+) tasks",
    ),
    Kind(
        "mtrag-un qrels",
        "mtrag_un/mtragun-human/retrieval_tasks/qrels/clapnq.tsv",
        Form.CELLS,
        (_judgements("mtrag_un"),),
    ),
    Kind(
        "multihop questions",
        "multihop_rag/dataset/MultiHopRAG.json",
        Form.JSON,
        (
            _docs("multihop_rag", Setting.REFERENCE),
            "evaluate-run official --benchmark multihop_rag --data {w}/multihop_rag",
        ),
    ),
    Kind(
        "multihop corpus",
        "multihop_rag/dataset/corpus.json",
        Form.JSON,
        (
            _docs("multihop_rag", Setting.REFERENCE),
            "evaluate-run official --benchmark multihop_rag --data {w}/multihop_rag",
        ),
    ),
    Kind(
        "multihop retrieved",
        "multihop_rag/retrieved.json",
        Form.JSON,
        (
            _docs("multihop_rag", Setting.FULL_RAG),
            "evaluate-run official --benchmark multihop_rag --data {w}/multihop_rag",
        ),
    ),
    *(
        Kind(
            f"{name} {what}",
            f"{name}/{file}",
            Form.JSON_LINES if file.endswith("l") else Form.JSON,
            (_docs(name, setting), f"evaluate-run official --benchmark {name} --data {{w}}/{name}"),
        )
        for name, what, file, setting in (
            ("doc2dial", "dialogues", "doc2dial/doc2dial_dial_validation.json", Setting.REFERENCE),
            ("doc2dial", "documents", "doc2dial/doc2dial_doc.json", Setting.REFERENCE),
            ("doc2dial", "retrieved", "full_rag.jsonl", Setting.FULL_RAG),
            ("multidoc2dial", "dialogues", "multidoc2dial/multidoc2dial_dial_test.json", Setting.REFERENCE),
            ("multidoc2dial", "documents", "multidoc2dial/multidoc2dial_doc.json", Setting.REFERENCE),
            ("multidoc2dial", "retrieved", "full_rag.jsonl", Setting.FULL_RAG),
        )
    ),
    Kind("multidoc2dial rewrites", "multidoc2dial/rewrites.jsonl", Form.JSON_LINES, (_rewrites("multidoc2dial"),)),
    Kind(
        "propositions",
        "multidoc2dial/propositions.json",
        Form.JSON,
        (_docs("multidoc2dial_propositions", Setting.FULL_RAG),),
    ),
    Kind(
        "trec topics",
        "trec_rag24/topics/topics.rag24.test.txt",
        Form.CELLS,
        (_docs("trec_rag24", Setting.FULL_RAG), _TREC),
    ),
    Kind("trec qrels", "trec_rag24/qrels/qrels.rag24.test.txt", Form.CELLS, (_TREC,)),
    Kind("trec run", "trec_rag24/runs/run.rag24.test.txt", Form.CELLS, (_docs("trec_rag24", Setting.FULL_RAG), _TREC)),
    Kind(
        "trec segments",
        "trec_rag24/segments/segments.jsonl",
        Form.JSON_LINES,
        (_docs("trec_rag24", Setting.FULL_RAG), _SCORE, *_corpus("trec_rag24/segments/segments.jsonl")),
    ),
    Kind(
        "trec nuggets",
        "trec_rag24/nuggets/nuggets.rag24.test.jsonl",
        Form.JSON_LINES,
        (
            _docs("trec_rag24", Setting.FULL_RAG),
            f"{_SCORE} --metadata nuggets={{w}}/trec_rag24/nuggets/nuggets.rag24.test.jsonl",
        ),
    ),
    Kind(
        "trec answers",
        "answers.jsonl",
        Form.JSON_LINES,
        ("check {w}/answers.jsonl --data {w}/trec_rag24", _SCORE),
        rows=r"of (\d+) answers",
    ),
    Kind("reply cache", "store/replies.sqlite", Form.BYTES, (_SCORE,)),
    Kind("template", "own.jinja", Form.TEXT, (_template,)),
)
