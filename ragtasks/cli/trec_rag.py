"""TREC RAG in the commands `submit`, `check`, `score` and `judges nuggets`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ragtasks.benchmarks import benchmark_folder, contexts_of_run, retrieval_side
from ragtasks.cli.app import echo, put
from ragtasks.cli.options import asking, named_benchmark
from ragtasks.config import validated
from ragtasks.config.environment import data_folder, run_store
from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.files import OFFICIAL, first_row
from ragtasks.records import Setting
from ragtasks.submissions import FileForm, Report, form_of_file
from ragtasks.tables import Format, Section, render

TOPICS = Annotated[
    str | None,
    typer.Option(
        "--set",
        help="Topics: test, raggy, researchy (2024); narratives (2025). Default: those of the file, else test.",
        hidden=True,
    ),
]
FORMS = (FileForm.TREC_2024, FileForm.TREC_2025)


def check_track(  # noqa: PLR0917 (as the options)
    file: Path, form: FileForm, topics: str | None, narratives: Path | None, data: str | None, fixed: Path | None
) -> Report:
    """Return the report on an answer file. Topics are checked only if they were fetched."""
    from ragtasks.benchmarks.trec_rag import read_narratives
    from ragtasks.submissions.trec_rag import check_answers, write_rows

    chosen = _set_of(file, form, topics, data)
    is_2025 = narratives is not None or _is_2025(chosen)
    if is_2025 and fixed:
        raise ConfigurationError("--fixed: repairs only answers of 2024. Next step: leave it out")
    texts = read_narratives(narratives) if narratives else _fetched_topics(chosen, data)
    checked = check_answers(file, texts, is_2025=is_2025)
    if fixed:
        write_rows(fixed, checked.repaired, is_ascii=True)  # identical bytes to the output of the track's tool
        typer.echo(f"wrote {fixed}", err=True)  # standard output may be JSON
    return checked.report(file.name)


def _set_of(file: Path, form: FileForm, topics: str | None, data: str | None) -> str:
    """Return the set of topics that was named, else the set with the first answer's topic."""
    from ragtasks.benchmarks.trec_rag import NARRATIVES

    if topics is not None:
        return topics
    if form is FileForm.TREC_2025:
        return NARRATIVES
    named = first_row(file).get("topic_id")
    try:
        tasks = _benchmark(_TEST, data).tasks
    except BenchmarkFileError:
        return _TEST
    return next((task.domain for task in tasks if task.task_id == named), _TEST)


_TEST = "test"


def _fetched_topics(domain: str, data: str | None) -> dict[str, str] | None:
    """Return the topics of a set; None if they were not fetched."""
    from ragtasks.submissions.trec_rag import benchmark_of

    try:
        benchmark_folder(benchmark_of(domain), data, data_folder())
    except BenchmarkFileError:
        if data is not None:
            raise
        return None
    return _topics(_tasks(_benchmark(domain, data), domain))


def _benchmark(domain: str, data: str | None) -> Any:
    """Return the benchmark with a set of topics."""
    from ragtasks.submissions.trec_rag import benchmark_of

    return named_benchmark(benchmark_of(domain), data)


def _is_2025(domain: str) -> bool:
    from ragtasks.benchmarks.trec_rag import NARRATIVES

    return domain == NARRATIVES


def _tasks(benchmark: Any, domain: str) -> dict[str, Any]:
    tasks = {task.task_id: task for task in benchmark.tasks if task.domain == domain}
    if not tasks:
        domains = ", ".join(dict.fromkeys(task.domain for task in benchmark.tasks))
        raise ConfigurationError(f"--set {domain}: no such topics in {benchmark.root}; available: {domains}")
    return tasks


def _topics(tasks: Mapping[str, Any]) -> dict[str, str]:
    return {topic_id: task.question for topic_id, task in tasks.items()}


# Submission files, from logged answers or from a file of 2024.


def write_track(
    output: Path, results: Path, run_id: str | None, topics: str | None, data: str | None, *, cut: bool, team_id: str
) -> list[str]:
    """Write an answer file and return a message. A file of 2024 is written in the format of 2025."""
    from ragtasks.submissions.trec_rag import build_answers, logged_responses, read_answers, row_2025, write_rows

    form = form_of_file(results) if results.is_file() else None
    if form is FileForm.TREC_2024:
        domain = _set_of(results, form, topics, data)
        if _is_2025(domain) or not team_id:
            raise ConfigurationError(
                f"{results} is an answer file of 2024, to be written in the format of 2025. "
                "Next step: add --team-id, and with --set the topics of the answers"
            )
        answers = read_answers(results, _topics(_tasks(_benchmark(domain, data), domain)))
        write_rows(output, (row_2025(answer, team_id) for answer in answers))
        return [f"wrote {output}: {len(answers)} answers"]
    domain = topics or _TEST
    if bool(team_id) != _is_2025(domain):
        raise ConfigurationError("--team-id: give it with --set narratives, the format of 2025, and with no other set")
    if not run_id:
        raise ConfigurationError("--run-id is missing: the name of the run, the same on all lines")
    texts = _topics(_tasks(_benchmark(domain, data), domain))
    return build_answers(logged_responses(results, domain), texts, run_id, output, cut=cut, team_id=team_id)


# Nuggets, and scores of answers by nuggets and cited passages.


def make_nuggets(judge: str, output: Path, run: str, domain: str, data: str | None) -> list[str]:
    """Write nuggets for the topics without any, and return messages."""
    from ragtasks.submissions.trec_rag import create_nuggets, pool, write_nuggets

    with asking([judge]) as ask:
        benchmark = _benchmark(domain, data)
        wanted = [task for task in _tasks(benchmark, domain).values() if not task.extra["nuggets"]]
        if not wanted:
            raise ConfigurationError(f"--set {domain}: every topic already has nuggets; nothing was written")
        setting = Setting.FULL_RAG
        is_official = run == OFFICIAL
        contexts = (
            benchmark.read_contexts(setting) if is_official else contexts_of_run(run_store(), run, benchmark, setting)
        )
        pooled = pool(wanted, contexts.passages, retrieval_side(benchmark.name).load_qrels(benchmark.root, domain))
        made, unanswered = create_nuggets(pooled, ask)
    write_nuggets(output, made)
    messages = [f"wrote {output}: {sum(len(topic.nuggets) for topic in made)} nuggets for {len(made)} topics"]
    if unanswered:
        messages.append(f"no segment answers {len(unanswered)} topics: {', '.join(unanswered)}")
    return messages


@dataclass(frozen=True, slots=True)
class TrackFiles:
    """Topics and files for scoring answers in the track's format; the fields are keys of `--metadata`."""

    topics: str | None = None
    """Set of topics; default: the set with the first answer's topic."""
    narratives: Path | None = None
    """File of 2025 topics. Answers are then in the format of 2025, and no data is needed."""
    nuggets: Path | None = None
    """File of nuggets; default: the benchmark's."""
    segments: str | None = None
    """File of segment records or retrieval results, or `none` to judge nuggets only. Default: the benchmark's."""


def is_of_track(paths: Sequence[Path]) -> bool:
    """Return whether the files are human labels, or one file of answers in the track's format."""
    is_answer_file = len(paths) == 1 and paths[0].is_file() and form_of_file(paths[0]) in FORMS
    return is_answer_file or all(map(_labels_in, paths))


def _labels_in(file: Path) -> str:
    """Return the type of labels in a file, from its first object: `assignments`, `support`, or ""."""
    keys = first_row(file).keys() if file.is_file() else set()
    if {"qid", "run_id", "nuggets"} <= keys:
        return "assignments"
    return "support" if {"topic_id", "run_id", "sentences"} <= keys else ""


def score_track(paths: Sequence[Path], options: Mapping[str, Any], output: Path | None, unread: Sequence[str]) -> None:
    """Score an answer file by judges, or runs by human labels. Options in `unread` raise ConfigurationError."""
    files = {key: value for key, value in options.items() if key not in {"data", "judges"}}
    unread = [f"--{key}" for key in (*unread, *files) if key not in TrackFiles.__slots__]
    if unread:
        raise ConfigurationError(
            f"{', '.join(unread)}: not used for answers in the format of TREC RAG. Next step: leave it out"
        )
    track, kinds = validated(TrackFiles, files), [_labels_in(path) for path in paths]
    if not all(kinds):
        judges, data = options.get("judges", []), options.get("data")
        _score_answers(paths[0], track, judges, output or Path("results") / paths[0].stem, data)
        return
    if "judges" in options or files:
        raise ConfigurationError("--judge, --metadata: human labels require neither. Next step: leave out both")
    if len(set(kinds)) < len(kinds):
        raise ConfigurationError(f"score: {len(kinds)} files of labels; expected at most one of each type")
    labels = dict(zip(kinds, paths, strict=True))
    _score_labels(labels.get("assignments"), labels.get("support"), output)


def _score_answers(file: Path, track: TrackFiles, judges: list[Any], output: Path, data: str | None) -> None:
    from ragtasks.benchmarks.trec_rag import read_narratives, read_nuggets, topic_task
    from ragtasks.submissions.trec_rag import (
        read_answers,
        score_answers,
        with_nuggets,
        write_scores,
    )

    if not judges:
        raise ConfigurationError(
            f"{file}: answers of TREC RAG require a judge. Next step: add --judge, such as openai/gpt-4o"
        )
    with asking(judges) as ask:
        domain = _set_of(file, form_of_file(file) or FileForm.TREC_2024, track.topics, data)
        if track.narratives:
            root, topics = track.narratives.parent, read_narratives(track.narratives)
            tasks = {topic_id: topic_task("narratives", topic_id, text) for topic_id, text in topics.items()}
        else:
            benchmark = _benchmark(domain, data)
            root, tasks = benchmark.root, _tasks(benchmark, domain)
        is_2025 = track.narratives is not None or _is_2025(domain)
        answers = read_answers(file, _topics(tasks), is_2025=is_2025)
        nuggets = read_nuggets(track.nuggets) if track.nuggets else {}
        tasks = {topic_id: with_nuggets(task, nuggets.get(topic_id)) for topic_id, task in tasks.items()}
        segments = None if track.segments == "none" else _cited_segments(root, answers, track.segments)
        scored = score_answers(answers, tasks, segments, ask)
    paths = write_scores(output, scored)
    echo(f"{len(scored.answers)} of {len(answers)} answers are to topics with nuggets")
    for name, (mean, n_scored) in scored.means().items():
        echo(f"{name:24}{'-' if mean is None else format(mean, '.4f'):>8}  ({n_scored} scored)")
    echo(*(f"wrote {path}" for path in paths))


def _cited_segments(root: Path, answers: Any, file: str | None) -> Any:
    """Return the texts of the first-cited segments; None if the texts are not available."""
    from ragtasks.benchmarks.trec_rag import has_segments, load_segments
    from ragtasks.submissions.trec_rag import first_cited

    if file or has_segments(root):
        return load_segments(root, first_cited(answers), Path(file) if file else None)
    echo(f"support is not judged: no segment texts in {root}. Next step: --metadata segments=FILE")
    return None


def _score_labels(assignments: Path | None, support: Path | None, output: Path | None) -> None:
    from ragtasks.benchmarks.trec_rag import read_assignments, read_support
    from ragtasks.submissions.trec_rag import (
        assigned_runs,
        assigned_runs_official,
        labelled_tables,
        supported_runs,
        write_labelled,
    )

    files, tables = {}, []
    if assignments:
        assigned = read_assignments(assignments)
        files = {"metrics.jsonl": assigned_runs(assigned), "metrics_official.jsonl": assigned_runs_official(assigned)}
        tables += labelled_tables("Nuggets", files["metrics.jsonl"])
    if support:
        files["support.jsonl"] = supported_runs(read_support(support))
        tables += labelled_tables("Support", files["support.jsonl"])
    labels = {"labels": ", ".join(path.name for path in (assignments, support) if path)}
    put(render([Section("TREC RAG", labels, tuple(tables))], Format.MARKDOWN))
    for path in write_labelled(output, files) if output else ():
        echo(f"wrote {path}")
