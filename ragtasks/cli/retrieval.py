"""`ragtasks retrieve`: a run of a retriever, made once."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import TableFormat, app, echo, put
from ragtasks.cli.options import BENCHMARK, DATA, FORMAT, REWRITER, REWRITER_ADDRESS, TABLES, asking, retrieval_place
from ragtasks.errors import ConfigurationError, JudgeError

_RETRIEVED = ("reference_rag", "full_rag")


@app.command()
def retrieve(  # noqa: PLR0917 (one parameter an option)
    retriever: Annotated[str, typer.Option(help="Such as bm25, dense:minilm, hybrid(bm25,dense:minilm), run:FILE.")],
    queries: Annotated[
        str,
        typer.Option(help="Query form: last_turn, rewrite, all_questions, llm_rewrite, ...; FORM/FORM fuses several."),
    ] = "last_turn",
    benchmark: BENCHMARK = "mtrag",
    data: DATA = None,
    name: Annotated[str | None, typer.Option(help="Name of the run; default: retriever, query form and data.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Passages kept for each query.")] = 100,
    rewriter: REWRITER = None,
    base_url: REWRITER_ADDRESS = None,
    min_rewritten: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the questions that must be rewritten, else nothing is stored.")
    ] = 0.95,
    corpus: Annotated[
        list[str] | None, typer.Option(help="DOMAIN=LOCATION: search another corpus for a domain; repeatable.")
    ] = None,
    encode_with: Annotated[
        str | None,
        typer.Option(help="Encode passages on other machines or GPUs: ray[:ADDRESS][,workers=8][,gpus=1]."),
    ] = None,
) -> None:
    """Make a run of a retriever over a benchmark's queries, once; an interrupted one resumes where it stopped."""
    from ragtasks.environment import forbid_usage_reports
    from retrieval_cache import SAME_AS, Rewriter, fallbacks_of, has_judgements
    from retrieval_cache import retrieve as make

    model, place = Rewriter(rewriter, base_url, min_rewritten), retrieval_place(benchmark, data)
    if encode_with is not None:
        forbid_usage_reports()
    run = make(
        place,
        retriever,
        queries,
        name=name,
        depth=depth,
        rewriter=model,
        corpora=_pairs(corpus),
        encode_with=encode_with,
    )
    made = run.folder.name
    echo(f"run {made} in {run.folder}")
    if same_as := run.manifest.metadata.get(SAME_AS):
        echo(f"this very run is there as {same_as}: {made} is linked to its files")
    if fallbacks := fallbacks_of(run.manifest):
        echo(fallbacks)
    echo(*_next_steps(made, benchmark, data, has_judgements(place)))


def _pairs(options: list[str] | None) -> dict[str, str]:
    pairs = [option.partition("=") for option in options or []]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise ConfigurationError(f"--corpus: expected DOMAIN=LOCATION, found {name + sign + value!r}")
    return {name: value for name, _, value in pairs}


def _next_steps(run: str, benchmark: str, data: str | None, is_judged: bool) -> Iterator[str]:
    """Yield how to go on with a run on the data that it was made for, to be pasted into a shell."""
    if is_judged:
        place = ["--benchmark", benchmark, *(["--data", data] if data else [])]
        yield f"next: {shlex.join(['ragtasks', 'evaluate-run', run, *place])}"
    if _has_tasks_on_runs(benchmark):
        options = shlex.join([*(["--data", data] if data else []), "--run", run])
        yield f"use it in tasks of {benchmark} with ragtasks run {options}"


def _has_tasks_on_runs(benchmark: str) -> bool:
    """Return whether a harness task of the benchmark is given retrieved passages."""
    import yaml

    from ragtasks.harness.link import task_folder

    # The base loader leaves the harness's `!function` tags alone.
    files = (yaml.load(path.read_text("utf-8"), yaml.BaseLoader) for path in task_folder().rglob("*.yaml"))
    options = (file.get("dataset_kwargs", {}) for file in files)
    return any(one.get("benchmark") == benchmark and one.get("setting") in _RETRIEVED for one in options)


# `ragtasks runs`: the stored runs.

runs = typer.Typer(help="List, show, compare, check and remove stored runs.", no_args_is_help=True)
app.add_typer(runs, name="runs")


def _store() -> Any:
    from ragtasks.environment import run_store
    from retrieval_cache import RunStore

    return RunStore(run_store())


@runs.command("list")
def runs_list() -> None:
    """List the stored runs, and those that cannot be read."""
    from retrieval_cache import list_runs

    store = _store()
    stored, unreadable = store.all(), store.unreadable()
    echo(*list_runs(stored) if stored else [f"no runs in {store.runs}: make one with `ragtasks retrieve`"])
    if unreadable:
        echo("", f"runs that cannot be read: {len(unreadable)}", *(f"  {line}" for line in unreadable))


@runs.command("show")
def runs_show(name: str) -> None:
    """Print what a run was made of."""
    echo((_store().named(name).folder / "manifest.json").read_text(encoding="utf-8"))


@runs.command("compare")
def runs_compare(first: str, second: str) -> None:
    """Print the parts of two runs that differ; exits with 1 if any do."""
    from retrieval_cache import diff_runs

    store = _store()
    lines = diff_runs(store.named(first).manifest, store.named(second).manifest)
    echo(*lines or ["no difference"])
    raise typer.Exit(int(bool(lines)))


runs.command("diff", hidden=True)(runs_compare)


@runs.command("check")
def runs_check(name: str) -> None:
    """Check a run's files against its manifest; exits with 1 if one is missing or changed."""
    from retrieval_cache import verify_run

    problems = verify_run(_store().named(name))
    echo(*problems or ["all files are as they were written"])
    raise typer.Exit(int(bool(problems)))


runs.command("verify", hidden=True)(runs_check)


@runs.command("remove")
def runs_remove(name: str) -> None:
    """Delete a run."""
    _store().remove(name)
    echo(f"removed {name}")


# `ragtasks evaluate-run`: rankings scored by relevance judgements.


@app.command()
def evaluate_run(  # noqa: PLR0917 (one parameter an option)
    names: Annotated[
        list[str],
        typer.Argument(
            help="Runs: files (TREC, JSON lines of MTRAGEval, MultiHop-RAG's results), stored runs, `official`."
        ),
    ],
    benchmark: BENCHMARK = "mtrag",
    data: DATA = None,
    qrels: Annotated[
        list[Path] | None, typer.Option(help="File of judgements (TREC or BEIR): no benchmark is needed; repeatable.")
    ] = None,
    domain: Annotated[list[str] | None, typer.Option(help="Judge this domain only; repeatable.")] = None,
    measures: Annotated[
        list[str] | None, typer.Option(help="Such as nDCG@20,R@100: measures as ir_measures writes them; repeatable.")
    ] = None,
    form: FORMAT = TableFormat.MARKDOWN,
    output: TABLES = None,
    per_query: Annotated[Path | None, typer.Option(help="JSON lines to write: the scores of each query.")] = None,
) -> None:
    """Score rankings by relevance judgements, without any corpus: over all judged queries, by subset, by query."""
    if qrels and domain:
        raise ConfigurationError("--domain: judgements of a file have no domains. Next step: give the files of these")
    from ragtasks.tables import Format, render

    if not (qrels or measures or per_query) and form is TableFormat.MARKDOWN:
        from retrieval_cache import evaluate_runs

        put(render([evaluate_runs(retrieval_place(benchmark, data), names, domain or ())], Format.MARKDOWN), output)
        return
    from ragtasks.metrics import RETRIEVAL_METRICS, retrieval_metric
    from ragtasks.reports.tables import query_rows, ranking_section
    from retrieval_cache import judge_files, judge_runs

    metrics = [retrieval_metric(name) for name in _measure_names(measures or ())] or RETRIEVAL_METRICS
    if qrels:
        title = f"Retrieval by {', '.join(path.name for path in qrels)}"
        judged = judge_files([Path(name) for name in dict.fromkeys(names)], qrels, metrics)
    else:
        label, judged = judge_runs(retrieval_place(benchmark, data), names, metrics, domain or ())
        title = f"Retrieval on {label}"
    put(render([ranking_section(title, judged, metrics)], Format(form.value)), output)
    if per_query:
        from ragtasks.files import write_atomically

        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in query_rows(judged, metrics))
        write_atomically(per_query, "".join(lines).encode())
        typer.echo(f"wrote {per_query}", err=True)  # standard output may be JSON or CSV


def _measure_names(options: Iterable[str]) -> list[str]:
    """Return the measures of some options, each once; a comma inside of brackets is the measure's own."""
    names = (name.strip() for option in options for name in re.split(r",(?![^(]*\))", option))
    return list(dict.fromkeys(name for name in names if name))


# `ragtasks corpus`: check, duplicates, deduplicate and segment.

corpus_commands = typer.Typer(help="Check a corpus, find near-duplicates, cut documents.", no_args_is_help=True)
app.add_typer(corpus_commands, name="corpus")
_LOCATION = Annotated[str, typer.Argument(help="Zip, BEIR folder, .jsonl[.gz|.zst], Parquet, or hf:NAME.")]


@corpus_commands.command("check")
def corpus_check(location: _LOCATION) -> None:
    """Read a corpus once: counts, checksum, and every error."""
    from retrieval_cache import describe_corpus

    echo(*describe_corpus(location))


_THRESHOLD = Annotated[float, typer.Option(help="Least Jaccard similarity.")]
_WIDTH = Annotated[int, typer.Option("--shingle", help="Words in a shingle, the unit that passages are compared by.")]


@corpus_commands.command("duplicates")
def corpus_duplicates(location: _LOCATION, threshold: _THRESHOLD = 0.8, width: _WIDTH = 5) -> None:
    """List near-duplicate passages."""
    from retrieval_cache import describe_duplicates

    echo(*describe_duplicates(location, threshold, width))


@corpus_commands.command("deduplicate")
def corpus_deduplicate(
    location: _LOCATION,
    target: Annotated[Path, typer.Argument(help="JSON lines to write.")],
    threshold: _THRESHOLD = 0.8,
    width: _WIDTH = 9,
) -> None:
    """Write a corpus without passages that repeat another: the first of each group stays."""
    from retrieval_cache import deduplicate_corpus

    echo(*deduplicate_corpus(location, target, threshold, width))


@corpus_commands.command("segment")
def corpus_segment(  # noqa: PLR0917 (one parameter an option)
    location: _LOCATION,
    target: Annotated[Path, typer.Argument(help="JSON lines to write.")],
    size: Annotated[int | None, typer.Option(help="Most tokens in a passage; default: 512.")] = None,
    overlap: Annotated[int | None, typer.Option(help="Tokens shared by neighbours; default: 100.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="Hugging Face tokeniser; default: words and signs.")] = None,
    sentences: Annotated[
        int | None, typer.Option(help="Cut into segments of so many sentences, as MS MARCO V2.1 is (10).")
    ] = None,
    stride: Annotated[int | None, typer.Option(help="Sentences from one segment to the next; default: 5.")] = None,
) -> None:
    """Cut documents into passages whose ids or records keep their offsets."""
    from retrieval_cache import segment_corpus, segment_corpus_by_sentences

    if sentences is None and stride is None:
        n = segment_corpus(
            location, target, 512 if size is None else size, 100 if overlap is None else overlap, tokenizer
        )
    elif sentences is None or not (size is None and overlap is None and tokenizer is None):
        raise ConfigurationError(
            "corpus segment: give --sentences and --stride, or --size, --overlap and --tokenizer, not some of both"
        )
    else:
        n = segment_corpus_by_sentences(location, target, sentences, 5 if stride is None else stride)
    echo(f"{n} passages in {target}")


# `ragtasks judge-passages`: judges in the place of assessors, and a qrels file of what they say.


@app.command()
def judge_passages(  # noqa: PLR0917 (one parameter an option)
    runs: Annotated[
        list[str],
        typer.Argument(help="Retrieval results with texts; with --benchmark also stored runs, files, `official`."),
    ],
    judge: Annotated[list[str], typer.Option(help="openai/NAME or a JSON object with model, base_url; repeatable.")],
    output: Annotated[Path, typer.Option(help="Qrels to write, as TREC has them.")],
    depth: Annotated[int, typer.Option(min=1, help="Passages judged for each query, from each run.")] = 20,
    benchmark: Annotated[str | None, typer.Option(help="Benchmark of the runs: its questions and corpora.")] = None,
    data: DATA = None,
) -> None:
    """Grade the relevance of what runs found, 0 to 3, by judges; the file serves `evaluate-run --qrels`."""
    from ragtasks.environment import data_folder, run_store, secret
    from ragtasks.files import write_qrels
    from ragtasks.judges import judge_passages as judge_pairs
    from retrieval_cache import Place, RunStore, pairs_of_benchmark, pairs_of_files, ranking_named

    ask = asking(judge)
    if benchmark:
        opened = Place(benchmark, data, data_folder(), run_store(), secret).open()
        rankings = [ranking_named(opened, RunStore(run_store()), name).run for name in dict.fromkeys(runs)]
        pairs = pairs_of_benchmark(opened, rankings, depth)
    else:
        pairs = pairs_of_files([Path(name) for name in dict.fromkeys(runs)], depth)
    judged = judge_pairs(pairs, ask)
    if not judged.qrels:
        reason = judged.unjudged[0][-1] if judged.unjudged else "the runs rank no passage"
        raise JudgeError(f"no pair has a grade: {reason}. Next step: check judges and runs; nothing was written")
    write_qrels(output, judged.qrels)
    counts = ", ".join(f"{grade}: {n}" for grade, n in judged.n_by_grade().items())
    echo(f"wrote {output}: {len(judged.qrels)} of {len(pairs)} pairs are judged ({counts})")
    if judged.unjudged:
        query_id, passage_id, reason = judged.unjudged[0]
        echo(
            f"{len(judged.unjudged)} pairs have no grade and no line, such as {query_id} {passage_id}: {reason}. "
            "The same command asks only for these again"
        )
