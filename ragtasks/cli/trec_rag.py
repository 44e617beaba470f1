"""Commands for TREC RAG: answer files, nuggets, scores. Each parses, calls the library, and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import app, say
from ragtasks.errors import ConfigurationError

commands = typer.Typer(help="TREC RAG: build and check answer files, make nuggets, score.", no_args_is_help=True)
app.add_typer(commands, name="trec-rag")

_SET = Annotated[str, typer.Option("--set", help="Set of topics: test, raggy, researchy.")]
_DATA = Annotated[str | None, typer.Option(help="`sample`, or a folder with the official files.")]
_JUDGES = Annotated[list[str], typer.Option(help="openai/NAME or a JSON object with model, base_url; repeatable.")]


def _benchmark(data: str | None) -> Any:
    from ragtasks.benchmarks import benchmark_folder, open_benchmark
    from ragtasks.environment import data_folder
    from ragtasks.submissions.trec_rag import BENCHMARK

    return open_benchmark(BENCHMARK, benchmark_folder(BENCHMARK, data, data_folder()).resolve())


def _tasks(benchmark: Any, domain: str) -> dict[str, Any]:
    tasks = {task.task_id: task for task in benchmark.tasks if task.domain == domain}
    if not tasks:
        known = ", ".join(dict.fromkeys(task.domain for task in benchmark.tasks))
        raise ConfigurationError(f"--set {domain}: no such topics in {benchmark.root}; there: {known}")
    return tasks


def _topics(tasks: dict[str, Any]) -> dict[str, str]:
    return {topic_id: task.question for topic_id, task in tasks.items()}


def _judge(named: list[str]) -> Any:
    """Return the function that asks the named judges."""
    from ragtasks.clients import endpoint_of
    from ragtasks.environment import reply_cache_file, secret
    from ragtasks.judges import judge_responses
    from ragtasks.progress import progress_bars

    endpoints = [endpoint_of(text) for text in named]

    def ask(responses: Any, rubrics: Any) -> Any:
        with progress_bars() as progress:
            return judge_responses(
                responses,
                endpoints,
                secrets=secret,
                cache_file=reply_cache_file(),
                rubrics=rubrics,
                progress=progress,
            )

    return ask


@commands.command()
def answers(  # noqa: PLR0917 (one parameter an option)
    results: Annotated[Path, typer.Argument(help="What lm_eval wrote with --log_samples: results file or folder.")],
    run_id: Annotated[str, typer.Option(help="Name of the run, the same on all lines.")],
    output: Annotated[Path, typer.Option(help="Answer file to write, .jsonl.")],
    domain: _SET = "test",
    data: _DATA = None,
    cut: Annotated[bool, typer.Option("--cut", help="Cut answers to 400 words, sentence by sentence.")] = False,
) -> None:
    """Write logged answers in the track's format: sentences, citations from 0, references."""
    from ragtasks.submissions.trec_rag import build_answers, logged_responses

    topics = _topics(_tasks(_benchmark(data), domain))
    say(*build_answers(logged_responses(results, domain), topics, run_id, output, cut=cut))


@commands.command()
def check(
    file: Annotated[Path, typer.Argument(help="Answer file.")],
    domain: _SET = "test",
    data: _DATA = None,
) -> None:
    """Say everything that is wrong with an answer file, by line; status 1 where the track would refuse it."""
    from ragtasks.submissions.trec_rag import check_answers

    checked = check_answers(file, _topics(_tasks(_benchmark(data), domain)))
    say(*checked.remarks, f"{file}: {checked.summary()}")
    raise typer.Exit(int(checked.n_errors > 0))


@commands.command()
def nuggets(
    judge: Annotated[str, typer.Option(help="openai/NAME or a JSON object with model, base_url.")],
    output: Annotated[Path, typer.Option(help="Nuggets file to write, .jsonl.")],
    run: Annotated[str, typer.Option(help="Run whose segments are read; default: the benchmark's own.")] = "official",
    domain: _SET = "test",
    data: _DATA = None,
) -> None:
    """Make nuggets for the topics that have none."""
    from ragtasks.benchmarks import contexts_of_run
    from ragtasks.benchmarks.trec_rag import load_qrels
    from ragtasks.environment import run_store
    from ragtasks.files import OFFICIAL
    from ragtasks.records import Setting
    from ragtasks.submissions.trec_rag import create_nuggets, pool, write_nuggets

    ask = _judge([judge])
    benchmark = _benchmark(data)
    wanted = [task for task in _tasks(benchmark, domain).values() if not task.extra["nuggets"]]
    if not wanted:
        raise ConfigurationError(f"--set {domain}: every topic has nuggets already; nothing was written")
    setting = Setting.FULL_RAG
    own = run == OFFICIAL
    contexts = benchmark.read_contexts(setting) if own else contexts_of_run(run_store(), run, benchmark, setting)
    pooled = pool(wanted, contexts.passages, load_qrels(benchmark.root, domain))
    made, unanswered = create_nuggets(pooled, ask)
    write_nuggets(output, made)
    say(f"wrote {output}: {sum(len(topic.nuggets) for topic in made)} nuggets for {len(made)} topics")
    if unanswered:
        say(f"no segment answers {len(unanswered)} topics: {', '.join(unanswered)}")


@commands.command()
def score(  # noqa: PLR0917 (one parameter an option)
    file: Annotated[Path, typer.Argument(help="Answer file.")],
    judge: _JUDGES,
    output: Annotated[Path, typer.Option(help="Folder for assignments and metrics.")],
    nuggets_file: Annotated[Path | None, typer.Option("--nuggets", help="Default: the benchmark's own.")] = None,
    segments_file: Annotated[
        Path | None, typer.Option("--segments", help="Segment records (JSON lines); default: the benchmark's own.")
    ] = None,
    domain: _SET = "test",
    data: _DATA = None,
) -> None:
    """Score an answer file: which nuggets are stated, and whether citations support what cites them."""
    from ragtasks.benchmarks.trec_rag import load_segments, read_nuggets
    from ragtasks.submissions.trec_rag import first_cited, read_answers, score_answers, with_nuggets, write_scores

    ask = _judge(judge)
    benchmark = _benchmark(data)
    tasks = _tasks(benchmark, domain)
    given = read_answers(file, _topics(tasks))
    own = read_nuggets(nuggets_file) if nuggets_file else {}
    tasks = {topic_id: with_nuggets(task, own.get(topic_id)) for topic_id, task in tasks.items()}
    segments = load_segments(benchmark.root, first_cited(given), segments_file)
    scored = score_answers(given, tasks, segments, ask)
    paths = write_scores(output, scored)
    say(f"{len(scored.answers)} of {len(given)} answers are to topics with nuggets")
    for name, (mean, n_scored) in scored.means().items():
        say(f"{name:22}{'-' if mean is None else format(mean, '.4f'):>8}  ({n_scored} scored)")
    say(*(f"wrote {path}" for path in paths))


__all__: list[str] = []
