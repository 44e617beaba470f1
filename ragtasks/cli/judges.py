"""`ragtasks judges`: calibrate judges against people, and use judges as assessors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from ragtasks.benchmarks import Benchmark
from ragtasks.cli.app import app, echo, put
from ragtasks.cli.options import DATA, FORCE, FORMAT, JUDGES, NAME_OR_FOLDER, asking
from ragtasks.cli.submissions import named_or_own
from ragtasks.cli.trec_rag import TOPICS, make_nuggets
from ragtasks.clients import is_preset
from ragtasks.config.environment import card_folder, data_folder, run_store, secret
from ragtasks.errors import ConfigurationError, JudgeError
from ragtasks.files import write_atomically, write_qrels, written_lines
from ragtasks.progress import step
from ragtasks.tables import Format, Section, render

commands = typer.Typer(
    help="Calibrate judges; grade passages, label questions.",
    no_args_is_help=True,
)
app.add_typer(commands, name="judges")

# `ragtasks judges calibrate`: agreement of judges with the labels of people.


@commands.command()
def calibrate(  # noqa: PLR0917 (one parameter an option)
    labels: Annotated[
        Path,
        typer.Argument(
            help="Rows with people's labels, .csv or .jsonl; also RAGChecker's or MTRAG's labelled answers."
        ),
    ],
    judge: JUDGES,
    rubric: Annotated[
        str, typer.Option(help="Rubric by name, such as rl_f, or your own, a .yaml file.", metavar="NAME | FILE")
    ] = "pairwise",
    repeats: Annotated[int, typer.Option(min=1, max=20, help="Number of verdicts by each judge on a row.")] = 1,
    keys: Annotated[
        str | None, typer.Option(metavar="NAME=KEY,...", help="Columns by value, such as label=faithful,answer=output.")
    ] = None,
    form: FORMAT = Format.MARKDOWN,
) -> None:
    """Print and store the card of a judge: its agreement with people's labels, biases, repeatability and cost."""
    from ragtasks.judges import rubric_of
    from ragtasks.reports.judge_card import calibrate_judges
    from ragtasks.results import LABEL_KEYS, named_keys, read_labelled_rows

    if any(map(is_preset, judge)):
        raise ConfigurationError(
            "calibrate: a preset has the official prompts, and calibrate sends the shipped ones. Next step: name its "
            "model instead, such as --judge openai/gpt-oss-120b,base_url=http://localhost:8001/v1,temperature=server"
        )
    question = rubric_of(rubric)
    labelled = read_labelled_rows(labels, question, named_keys(keys, LABEL_KEYS) if keys else {})
    data = f"{labels.name}, {len(labelled.rows)} rows"
    with asking(judge) as ask:
        tables, verdicts = calibrate_judges(labelled, question, ask, repeats=repeats, data=data, cards=card_folder())
    left_out = f"{labelled.n_unlabelled} rows have no label and are left out" if labelled.n_unlabelled else ""
    put(render([Section(f"{data}, rubric {question.name}", {}, tuple(tables), sentence=left_out)], form))
    verdicts.require_coverage()


# `ragtasks judges anchors`: a fixed set of answers that detects a changed judge.


@commands.command("anchors")
def freeze_anchors(
    output: Annotated[Path, typer.Option(help="File to write, for the option `anchors: FILE`.")],
    results: Annotated[
        list[Path] | None, typer.Argument(help="Results whose answers are added to the built-in set.")
    ] = None,
    n: Annotated[int, typer.Option(min=20, help="Number of answers.")] = 40,
    force: FORCE = False,
) -> None:
    """Write a fixed set of answers, judged again in each evaluation to detect a changed judge."""
    from ragtasks.judges import write_anchors
    from ragtasks.scoring import frozen_anchors

    if output.exists() and not force:
        raise ConfigurationError(
            f"{output} exists, and a new set starts a new baseline. Next step: another name, or --force"
        )
    with step("choosing answers"):
        anchors = frozen_anchors(results or [], n, data_folder())
    write_anchors(output, anchors)
    n_conversations = len(set(anchors.conversations))
    echo(f"wrote {output}: {len(anchors.responses)} answers of {n_conversations} conversations from {anchors.source}")


# `ragtasks judges label`: answers for people to label, as a file for `judges calibrate`.


@commands.command("label")
def draw_labels(
    results: Annotated[list[Path], typer.Argument(help="Results whose answers people label.")],
    output: Annotated[Path, typer.Option(help="File to write, .jsonl or .csv.")],
    n: Annotated[int, typer.Option(min=10, help="Number of answers.")] = 50,
    rubric: Annotated[str | None, typer.Option(help="Rubric of the labels; default: the first judged one.")] = None,
    force: FORCE = False,
) -> None:
    """Write the answers that show most about a judge to a file, for people's labels."""
    from ragtasks.results import draw_answers, label_file, read_evaluations, rubrics_with_verdicts

    if output.exists() and not force:
        raise ConfigurationError(f"{output} exists and may have labels. Next step: another name, or --force")
    with step("choosing answers"):
        answers = [answer for evaluation in read_evaluations(results) for answer in evaluation.rows]
        judged = rubrics_with_verdicts(answers)
        chosen = rubric or next(iter(judged), "")
        drawn = draw_answers(answers, chosen, n)
    if not drawn:
        raise ConfigurationError(f"{', '.join(map(str, results))}: no answers. Next step: name results with answers")
    write_atomically(output, label_file(drawn, output))
    by = f"by verdicts of {chosen}" if chosen in judged else "by length and refusals: no verdicts"
    n_conversations = len({one.answer.task.conversation_id for one in drawn})
    echo(
        f"wrote {output}: {len(drawn)} of {sum(one.weight for one in drawn)} answers of {n_conversations} "
        f"conversations, {by}",
        f"fill `label` (several people: `label_1`, `label_2`), then: ragtasks judges calibrate {output} "
        f"--rubric {chosen or 'RUBRIC'} --repeats 2 --judge J",
    )


# `ragtasks judges passages`: judges as assessors, whose grades are written as qrels.


@commands.command("passages")
def judge_passages(  # noqa: PLR0917 (one parameter an option)
    runs: Annotated[
        list[str],
        typer.Argument(help="Retrieval results with texts; with --benchmark also stored runs, files, `official`."),
    ],
    judge: JUDGES,
    output: Annotated[Path, typer.Option(help="Qrels file to write, in TREC format.")],
    depth: Annotated[int, typer.Option(min=1, help="Passages judged per query and run.")] = 20,
    benchmark: Annotated[str | None, typer.Option(help="Benchmark of the runs: its questions and corpora.")] = None,
    data: DATA = None,
) -> None:
    """Grade the passages of runs from 0 to 3 by judges, as a file for `evaluate-run --qrels`."""
    from ragtasks.judges import judge_passages as judge_pairs
    from retrieval_cache import RunStore, Workspace, pairs_of_benchmark, pairs_of_files, ranking_named

    pairs = [] if benchmark else pairs_of_files([Path(name) for name in dict.fromkeys(runs)], depth)
    with asking(judge) as ask:
        if benchmark:
            with step(f"reading {', '.join(runs)} with the passages"):
                opened = Workspace(benchmark, data, data_folder(), run_store(), secret).open()
                rankings = [ranking_named(opened, RunStore(run_store()), name).run for name in dict.fromkeys(runs)]
                pairs = pairs_of_benchmark(opened, rankings, depth)
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
            f"{len(judged.unjudged)} pairs have no grade and are not in the file, such as {query_id} {passage_id}: "
            f"{reason}. The same command judges only these"
        )


# `ragtasks judges nuggets`: facts that an answer to a topic of TREC RAG should state.


@commands.command()
def nuggets(
    judge: Annotated[str, typer.Option(help="openai/NAME or a JSON object with model, base_url.")],
    output: Annotated[Path, typer.Option(help="Nuggets file to write, .jsonl.")],
    run: Annotated[str, typer.Option(help="Run with the segments; default: the benchmark's own.")] = "official",
    topics: TOPICS = None,
    data: DATA = None,
) -> None:
    """Write nuggets for TREC RAG topics without nuggets, as a file for `score --metadata nuggets=FILE`."""
    echo(*make_nuggets(judge, output, run, topics or "test", data))


# `ragtasks judges questions`: types of questions, for tables by question type.


@commands.command("questions")
def label_questions(  # noqa: PLR0917 (one parameter an option)
    name: NAME_OR_FOLDER,
    judge: JUDGES,
    kinds: Annotated[
        Literal["question_types", "topic_categories"],
        typer.Option(help="MTRAG's question types (several per question), or Ragnarök's topic categories (one)."),
    ] = "question_types",
    output: Annotated[
        Path | None,
        typer.Option(help="File to write: for a folder its conversations with question types, else labels, .jsonl."),
    ] = None,
    form: FORMAT = Format.MARKDOWN,
    data: DATA = None,
) -> None:
    """Label the type of each question by judges, and print the agreement with the benchmark's labels."""
    from ragtasks.judges import LABELLINGS
    from ragtasks.judges import label_questions as label
    from ragtasks.reports.tables import question_labels_table

    benchmark, labelling = named_or_own(name, data), LABELLINGS[kinds]
    tasks = benchmark.tasks
    with asking(judge) as ask:
        labelled = label(tasks, labelling, ask)
    if not labelled.labels:
        reason = labelled.unlabelled[0][-1] if labelled.unlabelled else "there are no questions"
        raise JudgeError(f"no question has a label: {reason}. Next step: check judges; nothing was written")
    is_compared = any(set(task.question_types) & set(labelling.labels) for task in tasks)
    table = question_labels_table(tasks, labelled.labels, tuple(labelling.labels), compared=is_compared)
    provenance = {"judges": ", ".join(labelled.judges), "questions": str(len(tasks))}
    put(render([Section(benchmark.label, provenance, (table,))], form))
    if labelled.unlabelled:
        task_id, reason = labelled.unlabelled[0]
        typer.echo(
            f"{len(labelled.unlabelled)} questions have no label, such as {task_id}: {reason}. "
            "The same command judges only these",
            err=True,
        )
    if output is not None:
        write_atomically(output, _labelled(benchmark, labelled.labels, kinds))
        typer.echo(f"wrote {output}: {len(labelled.labels)} of {len(tasks)} questions have a label", err=True)


def _labelled(benchmark: Benchmark, labels: Mapping[str, tuple[str, ...]], key: str) -> bytes:
    """Return the file of labels: the conversations of a custom benchmark, else one line per question."""
    from ragtasks.benchmarks.custom import labelled_conversations

    if benchmark.name == "custom":
        return labelled_conversations(benchmark.root, labels)
    rows = ({"task_id": task_id, key: values} for task_id, values in labels.items())
    return written_lines(rows)
