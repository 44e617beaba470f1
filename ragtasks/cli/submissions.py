"""`ragtasks submit`: files for MTRAGEval and TREC RAG."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.cli.app import TableFormat, app, echo, put
from ragtasks.cli.options import ALL_PROBLEMS, AS_JSON, DATA, DOCUMENTS, INPUT, asking, named_benchmark
from ragtasks.errors import ConfigurationError
from ragtasks.submissions import SubmissionTask, render_json, render_text

_TASK = Annotated[
    SubmissionTask,
    typer.Option(help="Task of MTRAGEval: A retrieval, B answers, C both.", case_sensitive=False),
]


@app.command()
def submit(  # noqa: PLR0917 (one parameter an option)
    task: _TASK,
    output: Annotated[Path, typer.Option(help="File to write, .jsonl.")],
    run: Annotated[
        str | None, typer.Option(help="Stored run (task A); `official` is the benchmark's own passages.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="What lm_eval wrote with --log_samples for one model: file or folder.")
    ] = None,
    benchmark: Annotated[str, typer.Option(help="Benchmark: mtrag, mtrag_un.")] = "mtrag",
    data: DATA = None,
    input_file: INPUT = None,
    limit_contexts: Annotated[int, typer.Option(help="Contexts that a task may have, 10 at most.")] = 10,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Submit tasks without a ranking or an answer as empty.")
    ] = False,
    documents: DOCUMENTS = True,
) -> None:
    """Write a file for MTRAGEval from a run or results, checked, and print its estimated ranking score."""
    from ragtasks.environment import run_store
    from ragtasks.submissions import mtrageval

    request = mtrageval.Request(task, output, run, results, input_file, limit_contexts, allow_missing, documents)
    echo(*mtrageval.submit(request, named_benchmark(benchmark, data), run_store()))


# Commands for TREC RAG: answer files, nuggets, scores. Each parses, calls the library, and prints.

commands = typer.Typer(help="TREC RAG: build and check answer files, make nuggets, score.", no_args_is_help=True)
app.add_typer(commands, name="trec-rag")

_SET = Annotated[str, typer.Option("--set", help="Topics: test, raggy, researchy (2024); narratives (2025).")]
_NARRATIVES = Annotated[
    Path | None, typer.Option(help="Topics of 2025 (JSON lines): FILE is in that year's format, no data is needed.")
]


def _benchmark(domain: str, data: str | None) -> Any:
    """Return the benchmark of a set of topics."""
    from ragtasks.benchmarks import benchmark_folder, open_benchmark
    from ragtasks.environment import data_folder
    from ragtasks.submissions.trec_rag import benchmark_of

    name = benchmark_of(domain)
    return open_benchmark(name, benchmark_folder(name, data, data_folder()).resolve())


def _is_2025(domain: str) -> bool:
    from ragtasks.benchmarks.trec_rag import NARRATIVES

    return domain == NARRATIVES


def _tasks(benchmark: Any, domain: str) -> dict[str, Any]:
    tasks = {task.task_id: task for task in benchmark.tasks if task.domain == domain}
    if not tasks:
        domains = ", ".join(dict.fromkeys(task.domain for task in benchmark.tasks))
        raise ConfigurationError(f"--set {domain}: no such topics in {benchmark.root}; there: {domains}")
    return tasks


def _topics(tasks: dict[str, Any]) -> dict[str, str]:
    return {topic_id: task.question for topic_id, task in tasks.items()}


@commands.command()
def answers(  # noqa: PLR0917 (one parameter an option)
    results: Annotated[Path, typer.Argument(help="What lm_eval wrote with --log_samples: results file or folder.")],
    run_id: Annotated[str, typer.Option(help="Name of the run, the same on all lines.")],
    output: Annotated[Path, typer.Option(help="Answer file to write, .jsonl.")],
    domain: _SET = "test",
    data: DATA = None,
    cut: Annotated[bool, typer.Option("--cut", help="Cut answers to 400 words, sentence by sentence.")] = False,
    team_id: Annotated[str, typer.Option(help="Name of the team; for 2025 only, where it is required.")] = "",
) -> None:
    """Write logged answers in the track's format: sentences, citations from 0, references."""
    from ragtasks.submissions.trec_rag import build_answers, logged_responses

    if bool(team_id) != _is_2025(domain):
        raise ConfigurationError("--team-id: give it with --set narratives, the format of 2025, and with no other set")
    topics = _topics(_tasks(_benchmark(domain, data), domain))
    echo(*build_answers(logged_responses(results, domain), topics, run_id, output, cut=cut, team_id=team_id))


@commands.command("check")
def check_answers(  # noqa: PLR0917 (one parameter an option)
    file: Annotated[Path, typer.Argument(help="Answer file.")],
    domain: _SET = "test",
    data: DATA = None,
    fixed: Annotated[
        Path | None, typer.Option(help="File to write: the answers without errors as the track of 2024 repairs them.")
    ] = None,
    narratives: _NARRATIVES = None,
    as_json: AS_JSON = False,
    every: ALL_PROBLEMS = False,
) -> None:
    """List every error in an answer file, with its line; exits with 1 where the track would refuse the file."""
    from ragtasks.benchmarks.trec_rag_files import read_narratives
    from ragtasks.submissions.trec_rag import check_answers, check_answers_2025, write_rows

    is_2025 = narratives is not None or _is_2025(domain)
    if is_2025 and fixed:
        raise ConfigurationError("--fixed: repairs are those of 2024; leave it out")
    topics = read_narratives(narratives) if narratives else _topics(_tasks(_benchmark(domain, data), domain))
    checked = (check_answers_2025 if is_2025 else check_answers)(file, topics)
    report = checked.report(file.name)
    echo(*([json.dumps(render_json(report))] if as_json else render_text(report, every=every)))
    if fixed:
        write_rows(fixed, checked.repaired, is_ascii=True)  # byte for byte what the track's tool writes
        echo(f"wrote {fixed}")
    raise typer.Exit(int(not report.passes))


@commands.command()
def convert(
    file: Annotated[Path, typer.Argument(help="Answer file of 2024.")],
    team_id: Annotated[str, typer.Option(help="Name of the team.")],
    output: Annotated[Path, typer.Option(help="Answer file of 2025 to write, .jsonl.")],
    domain: _SET = "test",
    data: DATA = None,
) -> None:
    """Write an answer file of 2024 in the format of 2025."""
    from ragtasks.submissions.trec_rag import read_answers, row_2025, write_rows

    if _is_2025(domain):
        raise ConfigurationError("--set narratives: FILE is of 2024, name the set of topics that it answers")
    given = read_answers(file, _topics(_tasks(_benchmark(domain, data), domain)))
    write_rows(output, (row_2025(answer, team_id) for answer in given))
    echo(f"wrote {output}: {len(given)} answers")


@commands.command()
def nuggets(
    judge: Annotated[str, typer.Option(help="openai/NAME or a JSON object with model, base_url.")],
    output: Annotated[Path, typer.Option(help="Nuggets file to write, .jsonl.")],
    run: Annotated[str, typer.Option(help="Run whose segments are read; default: the benchmark's own.")] = "official",
    domain: _SET = "test",
    data: DATA = None,
) -> None:
    """Make nuggets for the topics that have none."""
    from ragtasks.benchmarks import contexts_of_run, retrieval_side
    from ragtasks.environment import run_store
    from ragtasks.files import OFFICIAL
    from ragtasks.records import Setting
    from ragtasks.submissions.trec_rag import create_nuggets, pool, write_nuggets

    ask = asking([judge])
    benchmark = _benchmark(domain, data)
    wanted = [task for task in _tasks(benchmark, domain).values() if not task.extra["nuggets"]]
    if not wanted:
        raise ConfigurationError(f"--set {domain}: every topic has nuggets already; nothing was written")
    setting = Setting.FULL_RAG
    is_official = run == OFFICIAL
    contexts = (
        benchmark.read_contexts(setting) if is_official else contexts_of_run(run_store(), run, benchmark, setting)
    )
    pooled = pool(wanted, contexts.passages, retrieval_side(benchmark.name).load_qrels(benchmark.root, domain))
    made, unanswered = create_nuggets(pooled, ask)
    write_nuggets(output, made)
    echo(f"wrote {output}: {sum(len(topic.nuggets) for topic in made)} nuggets for {len(made)} topics")
    if unanswered:
        echo(f"no segment answers {len(unanswered)} topics: {', '.join(unanswered)}")


@commands.command()
def score(  # noqa: PLR0917 (one parameter an option)
    file: Annotated[Path | None, typer.Argument(help="Answer file, scored by --judge.")] = None,
    judge: Annotated[
        list[str] | None, typer.Option(help="openai/NAME or a JSON object with model, base_url; repeatable.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for assignments and metrics.")] = None,
    nuggets_file: Annotated[Path | None, typer.Option("--nuggets", help="Default: the benchmark's own.")] = None,
    segments_file: Annotated[
        Path | None,
        typer.Option("--segments", help="Segment records or retrieval results; default: the benchmark's own."),
    ] = None,
    no_support: Annotated[
        bool, typer.Option("--no-support", help="Judge nuggets only; no text of a segment is needed.")
    ] = False,
    assignments: Annotated[
        Path | None, typer.Option(help="Existing nugget assignments, such as NIST's, scored as they are.")
    ] = None,
    support: Annotated[Path | None, typer.Option(help="Support judgements of people, such as NIST's.")] = None,
    form: Annotated[TableFormat, typer.Option("--format", help="How the scores of labels are written.")] = (
        TableFormat.MARKDOWN
    ),
    narratives: _NARRATIVES = None,
    domain: _SET = "test",
    data: DATA = None,
) -> None:
    """Score an answer file by judges, or any runs by existing labels: nuggets stated, citations that support."""
    by_judge = {"FILE": file, "--judge": judge, "--nuggets": nuggets_file, "--segments": segments_file}
    if assignments or support:
        extra = [name for name, value in by_judge.items() if value]
        if extra:
            raise ConfigurationError(
                f"{', '.join(extra)}: labels are scored as they are; leave this out, or the labels"
            )
        _score_labels(assignments, support, form, output)
    elif not file or not judge or not output:
        missing = [name for name, value in {"FILE": file, "--judge": judge, "--output": output}.items() if not value]
        raise ConfigurationError(
            f"score: {', '.join(missing)} missing; give FILE, --judge and --output, or labels that are there already "
            "with --assignments or --support"
        )
    else:
        from ragtasks.benchmarks.trec_rag import topic_task
        from ragtasks.benchmarks.trec_rag_files import read_narratives, read_nuggets
        from ragtasks.submissions.trec_rag import (
            read_answers,
            read_answers_2025,
            score_answers,
            with_nuggets,
            write_scores,
        )

        ask = asking(judge)
        if narratives:
            root, topics = narratives.parent, read_narratives(narratives)
            tasks = {topic_id: topic_task("narratives", topic_id, text) for topic_id, text in topics.items()}
        else:
            benchmark = _benchmark(domain, data)
            root, tasks = benchmark.root, _tasks(benchmark, domain)
        is_2025 = narratives is not None or _is_2025(domain)
        given = (read_answers_2025 if is_2025 else read_answers)(file, _topics(tasks))
        given_nuggets = read_nuggets(nuggets_file) if nuggets_file else {}
        tasks = {topic_id: with_nuggets(task, given_nuggets.get(topic_id)) for topic_id, task in tasks.items()}
        segments = None if no_support else _cited_segments(root, given, segments_file)
        scored = score_answers(given, tasks, segments, ask)
        paths = write_scores(output, scored)
        echo(f"{len(scored.answers)} of {len(given)} answers are to topics with nuggets")
        for name, (mean, n_scored) in scored.means().items():
            echo(f"{name:24}{'-' if mean is None else format(mean, '.4f'):>8}  ({n_scored} scored)")
        echo(*(f"wrote {path}" for path in paths))


def _cited_segments(root: Path, answers: Any, file: Path | None) -> Any:
    """Return the segments that are cited first, None where no texts of segments are at hand."""
    from ragtasks.benchmarks.trec_rag import has_segments, load_segments
    from ragtasks.submissions.trec_rag import first_cited

    if file or has_segments(root):
        return load_segments(root, first_cited(answers), file)
    echo(f"support is not judged: no texts of segments in {root}; name a file with --segments")
    return None


def _score_labels(assignments: Path | None, support: Path | None, form: TableFormat, output: Path | None) -> None:
    from ragtasks.benchmarks.trec_rag_files import read_assignments, read_support
    from ragtasks.submissions.trec_rag import (
        assigned_runs,
        assigned_runs_official,
        labelled_tables,
        supported_runs,
        write_labelled,
    )
    from ragtasks.tables import Format, Section, render

    files, tables = {}, []
    if assignments:
        given = read_assignments(assignments)
        files = {"metrics.jsonl": assigned_runs(given), "metrics_official.jsonl": assigned_runs_official(given)}
        tables += labelled_tables("Nuggets", files["metrics.jsonl"])
    if support:
        files["support.jsonl"] = supported_runs(read_support(support))
        tables += labelled_tables("Support", files["support.jsonl"])
    labels = {"labels": ", ".join(path.name for path in (assignments, support) if path)}
    put(render([Section("TREC RAG", labels, tuple(tables))], Format(form.value)), None)
    for path in write_labelled(output, files) if output else ():
        typer.echo(f"wrote {path}", err=True)  # standard output may be JSON or CSV


__all__: list[str] = []
