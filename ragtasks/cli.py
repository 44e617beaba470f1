"""The command line: each command parses, calls one function, and prints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ragtasks import __version__
from ragtasks.errors import ConfigurationError, RagtasksError

app = typer.Typer(
    help="Multi-turn RAG benchmarks as tasks of lm-evaluation-harness.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def _say(*lines: object) -> None:
    for line in lines:
        typer.echo(line)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        _say(__version__)
        raise typer.Exit


@app.command(context_settings=_PASS_THROUGH)
def run(context: typer.Context) -> None:
    """Evaluate a model: takes lm_eval's own arguments, starts faster, and knows the ragtasks-* baselines."""
    from ragtasks.harness.run import run_harness

    run_harness(context.args)


@app.command()
def link() -> None:
    """Let the stock `lm_eval` that imports here find our tasks without a flag."""
    from ragtasks.harness import link as linking

    done = linking.link()
    _say(*(f"wrote {path}" for path in done.written), *(f"removed {path}" for path in done.removed))
    _say(f"{len(done.written)} written, {len(done.kept)} already right, {len(done.removed)} removed in {done.folder}")


@app.command()
def unlink() -> None:
    """Take away what `link` wrote."""
    from ragtasks.harness import link as linking

    done = linking.unlink()
    _say(*(f"removed {path}" for path in done.removed), f"{len(done.removed)} removed from {done.folder}")


@app.command()
def path() -> None:
    """Print the folder with our task YAML files, for `lm_eval --include_path`."""
    from ragtasks.harness.link import task_folder

    _say(task_folder())


@app.command()
def fetch(
    benchmark: Annotated[str, typer.Argument(help="Benchmark to fetch: mtrag.")],
    checkout: Annotated[
        Path | None, typer.Option("--from", help="Take the files from a checkout that is there.")
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="Files to fetch; repeat for several. Default: tasks.")] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of a mirror.")] = None,
) -> None:
    """Fetch a benchmark's official files into the data folder, verified."""
    from ragtasks.benchmarks import fetch as fetching
    from ragtasks.benchmarks.fetch import DEFAULT_GROUPS
    from ragtasks.benchmarks.registry import source_of
    from ragtasks.environment import data_folder

    source, groups = source_of(benchmark), group or DEFAULT_GROUPS
    if checkout:
        done = fetching.adopt(source, checkout, data_folder(), groups=groups)
    else:
        done = fetching.fetch(source, data_folder(), groups=groups, base_url=base_url)
    _say(done.describe())


@app.command()
def doctor(
    endpoint: Annotated[
        list[str] | None,
        typer.Option(help="Base URL of an OpenAI-compatible server to ask for its models; repeatable."),
    ] = None,
) -> None:
    """Say what is installed, which data is where and verified, which endpoints answer, and what to do next."""
    from ragtasks.doctor import diagnose

    _say(*diagnose(endpoint or []))


@app.command()
def report(
    results: Annotated[list[Path], typer.Argument(help="Folders that lm_eval wrote with --output_path --log_samples.")],
    metric: Annotated[str, typer.Option(help="Metric of the tables by dimension.")] = "rb_alg",
) -> None:
    """Print the figures by setting and by dimension, from the logged samples of one or more evaluations."""
    from ragtasks.reports.results import read_evaluations
    from ragtasks.reports.tables import render_report

    _say(render_report(read_evaluations(results), metric))


@app.command()
def judge(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders that lm_eval wrote with --log_samples, or predictions (JSON lines).")
    ],
    output_path: Annotated[Path, typer.Option("--output_path", "--output-path", help="Folder for the new results.")],
    metadata: Annotated[str, typer.Option(help="JSON object, as for lm_eval: judges, encoder, data, idk, ...")] = "{}",
    benchmark: Annotated[str | None, typer.Option(help="Benchmark of predictions: mtrag, mtrag_un.")] = None,
    setting: Annotated[
        str | None, typer.Option(help="Setting of predictions: reference, reference_rag, full_rag.")
    ] = None,
) -> None:
    """Score saved answers again, with judges or without, and without the model that gave them."""
    from ragtasks.environment import data_folder, run_store
    from ragtasks.rescoring import Place, rescore

    place = Place(data_folder(), run_store())
    _say(*rescore(paths, metadata, output_path, place, benchmark=benchmark, setting=setting))


@app.command()
def calibrate(
    data: Annotated[
        Path | None, typer.Option(help="Folder with MTRAG's official files; default: the data folder.")
    ] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="Judge to calibrate, openai/NAME or a JSON object; repeatable.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture to write, .png or .svg.")] = None,
) -> None:
    """Print how far metrics and judges agree with the people who rated MTRAG's answers."""
    from ragtasks.benchmarks.registry import benchmark_folder
    from ragtasks.calibrating import calibrate_judges
    from ragtasks.environment import data_folder, endpoint_key, reply_cache_file

    root = benchmark_folder("mtrag", str(data) if data else None, data_folder())
    _say(calibrate_judges(root, judge or [], key=endpoint_key(), cache_file=reply_cache_file(), picture=plot))


_BENCHMARK = Annotated[str, typer.Option(help="Benchmark.")]
_DATA = Annotated[str | None, typer.Option(help="`sample`, or a folder with the official files.")]


def _place(benchmark: str, data: str | None) -> Any:
    from ragtasks.environment import data_folder, engine_keys, run_store
    from retrieval_cache.service import Place

    return Place(benchmark, data, data_folder(), run_store(), engine_keys())


def _pairs(options: list[str] | None) -> dict[str, str]:
    pairs = [option.partition("=") for option in options or []]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise ConfigurationError(f"--corpus: expected DOMAIN=LOCATION, found {name + sign + value!r}")
    return {name: value for name, _, value in pairs}


def _store() -> Any:
    from ragtasks.environment import run_store
    from retrieval_cache.store import RunStore

    return RunStore(run_store())


@app.command()
def retrieve(  # noqa: PLR0917 (one parameter an option)
    retriever: Annotated[str, typer.Option(help="Such as bm25, dense:minilm, hybrid(bm25,dense:minilm), run:FILE.")],
    queries: Annotated[
        str, typer.Option(help="Query form: last_turn, rewrite, all_questions, llm_rewrite, ...")
    ] = "last_turn",
    benchmark: _BENCHMARK = "mtrag",
    data: _DATA = None,
    name: Annotated[str | None, typer.Option(help="Name of the run; default: retriever and query form.")] = None,
    depth: Annotated[int, typer.Option(min=1, help="Passages kept for each query.")] = 100,
    rewriter: Annotated[
        str | None, typer.Option(help="Model for the query form llm_rewrite, such as openai/NAME.")
    ] = None,
    base_url: Annotated[str | None, typer.Option(help="Address of the rewriter's OpenAI-compatible server.")] = None,
    corpus: Annotated[
        list[str] | None, typer.Option(help="DOMAIN=LOCATION: search another corpus for a domain; repeatable.")
    ] = None,
) -> None:
    """Make a run of a retriever over a benchmark's queries, once; a killed call is taken up again."""
    from ragtasks.environment import endpoint_key
    from retrieval_cache.service import Rewriter
    from retrieval_cache.service import retrieve as make

    model = Rewriter(rewriter, base_url, endpoint_key())
    run = make(
        _place(benchmark, data), retriever, queries, name=name, depth=depth, rewriter=model, corpora=_pairs(corpus)
    )
    _say(f"run {run.folder.name} in {run.folder}", f'use it with --metadata \'{{"run": "{run.folder.name}"}}\'')


@app.command()
def evaluate_run(
    names: Annotated[list[str], typer.Argument(help="Runs to compare; `official` is the benchmark's own.")],
    benchmark: _BENCHMARK = "mtrag",
    data: _DATA = None,
) -> None:
    """Print recall, nDCG, MAP and MRR of runs, side by side, over all judged queries and by subset."""
    from retrieval_cache.service import evaluate_runs

    _say(evaluate_runs(_place(benchmark, data), names))


corpus_commands = typer.Typer(help="Look at a corpus, find what it repeats, cut documents.", no_args_is_help=True)
app.add_typer(corpus_commands, name="corpus")
_LOCATION = Annotated[str, typer.Argument(help="Zip, BEIR folder, .jsonl[.gz|.zst], Parquet, or hf:NAME.")]


@corpus_commands.command("check")
def corpus_check(location: _LOCATION) -> None:
    """Read a corpus once: counts, checksum, and every fault."""
    from retrieval_cache.corpus_service import describe_corpus

    _say(*describe_corpus(location))


@corpus_commands.command("duplicates")
def corpus_duplicates(
    location: _LOCATION, threshold: Annotated[float, typer.Option(help="Least Jaccard similarity.")] = 0.8
) -> None:
    """List passages that say nearly the same."""
    from retrieval_cache.corpus_service import describe_duplicates

    _say(*describe_duplicates(location, threshold))


@corpus_commands.command("segment")
def corpus_segment(
    location: _LOCATION,
    target: Annotated[Path, typer.Argument(help="JSON lines to write.")],
    size: Annotated[int, typer.Option(help="Most tokens in a passage.")] = 512,
    overlap: Annotated[int, typer.Option(help="Tokens shared by neighbours.")] = 100,
    tokenizer: Annotated[str | None, typer.Option(help="Hugging Face tokeniser; default: words and signs.")] = None,
) -> None:
    """Cut documents into passages whose ids keep their offsets."""
    from retrieval_cache.corpus_service import segment_corpus

    _say(f"{segment_corpus(location, target, size, overlap, tokenizer)} passages in {target}")


runs = typer.Typer(help="List, show, compare, check and remove stored runs.", no_args_is_help=True)
app.add_typer(runs, name="runs")


@runs.command("list")
def runs_list() -> None:
    """List the stored runs."""
    for run in _store().all():
        spec = run.manifest.spec
        sample = " (sample)" if spec["is_sample"] else ""
        _say(f"{run.folder.name}\t{spec['benchmark']}{sample}\t{spec['retriever']['name']}\t{spec['queries']['form']}")


@runs.command("show")
def runs_show(name: str) -> None:
    """Print what a run was made of."""
    _say((_store().named(name).folder / "manifest.json").read_text(encoding="utf-8"))


@runs.command("diff")
def runs_diff(first: str, second: str) -> None:
    """Print the parts of two runs that differ; status 1 where any does."""
    from retrieval_cache.store import diff_runs

    store = _store()
    lines = diff_runs(store.named(first).manifest, store.named(second).manifest)
    _say(*lines or ["no difference"])
    raise typer.Exit(int(bool(lines)))


@runs.command("verify")
def runs_verify(name: str) -> None:
    """Check a run's files against its manifest; status 1 where one is missing or changed."""
    from retrieval_cache.store import verify_run

    faults = verify_run(_store().named(name))
    _say(*faults or ["all files are as they were written"])
    raise typer.Exit(int(bool(faults)))


@runs.command("remove")
def runs_remove(name: str) -> None:
    """Delete a run."""
    _store().remove(name)
    _say(f"removed {name}")


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; a clear error goes to standard error and ends with status 1."""
    try:
        return app(args=arguments, standalone_mode=True)
    except RagtasksError as error:
        _fail(error)


def _fail(error: RagtasksError) -> NoReturn:
    typer.echo(f"ragtasks: {error}", err=True)
    sys.exit(1)


__all__ = ["app", "main"]
