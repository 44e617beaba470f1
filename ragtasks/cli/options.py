"""Options shared by several commands, and functions that resolve their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from ragtasks.benchmarks import added_benchmark_names, benchmark_folder, benchmark_names, open_benchmark
from ragtasks.cli.app import echo, may_be_replaced
from ragtasks.clients import Endpoint, endpoint_of, judge_requirements
from ragtasks.config import EvaluationConfig, FailedTurn, config_from_options, json_or_text, parsed_metadata, validated
from ragtasks.config.environment import data_folder, reply_cache_file, run_store, secret
from ragtasks.errors import ConfigurationError, missing_path
from ragtasks.progress import in_rounds, progress_bars
from ragtasks.requirements import require
from ragtasks.tables import Format

# Keys of an evaluation's configuration. Five have an option of their own; `--metadata` sets the others. An option
# overrides the same key of the metadata. Lists take one value per option: `--judge A --judge B`. Numbers, lists and
# objects are JSON.


def check_cluster(field: str) -> None:
    """Raise ConfigurationError for the name of a cluster field without `doc.`."""
    if field and not field.startswith("doc."):
        raise ConfigurationError(f"--cluster {field}: not a field of documents. Next step: --cluster doc.{field}")


def key_option(key: str, *, hidden: bool = False) -> Any:
    """Return the option of a configuration key, with the help of its field."""
    field = EvaluationConfig.model_fields[key]
    name, text = key.replace("_", "-"), field.description or ""
    kinds = (field.annotation, *get_args(field.annotation))
    if field.default not in {None, False, ()} and "default:" not in text:
        text += f"; default: `{field.default}`"
    settings: dict[str, Any] = {"help": f"{text[0].upper()}{text[1:]}.", "show_default": False, "hidden": hidden}
    if field.annotation is bool:
        return typer.Option(f"--{name}", **settings)
    is_list = get_origin(field.annotation) is tuple
    names = [f"--{name.removesuffix('s')}", f"--{name}"] if is_list else [f"--{name}"]
    settings["parser"] = str if str in kinds and not is_list else json_or_text
    return typer.Option(*names, metavar="<value>", **settings)


DATA = Annotated[str | None, key_option("data")]
RUN = Annotated[str | None, key_option("run")]
JUDGE = Annotated[list[Any] | None, key_option("judges")]
ENCODER = Annotated[str | None, key_option("encoder")]
METRIC = Annotated[list[Any] | None, key_option("metrics", hidden=True)]
METADATA = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Other option, such as idk=ngrams; repeatable.")
]


FAILED_TURN = Annotated[Any, key_option("failed_turn", hidden=True)]


def given_failed_turn(given: Any) -> FailedTurn | None:
    """Return the definition of a failed turn in an option, or None without the option."""
    return config_from_options({"failed_turn": given}).failed_turn


def given_options(metadata: Sequence[str] | None, **named: Any) -> dict[str, Any]:
    """Return the options of an evaluation: `--metadata`, overridden by named options."""
    options: dict[str, Any] = {}
    for text in metadata or ():
        options |= parsed_metadata(text)
    return options | {key: value for key, value in named.items() if value not in (None, [])}


# Other shared options.

FORMAT = Annotated[
    Format,
    typer.Option("--format", metavar="<form>", help="markdown (default), csv, json or latex.", show_default=False),
]
TABLES = Annotated[Path | None, typer.Option("--output", help="File for the tables.")]
RECALIBRATE = Annotated[
    bool, typer.Option("--recalibrate", help="Map scores of a changed judge to its earlier scale.", hidden=True)
]
FORCE = Annotated[bool, typer.Option("--force", help="Replace files without confirmation.")]
CLUSTER = Annotated[
    str,
    typer.Option(metavar="<field>", help="Of lm_eval tasks: doc.FIELD shared by documents that belong together."),
]
BENCHMARK = Annotated[str, typer.Option(help="mtrag, mtrag_un, multihop_rag, custom, ...")]
REWRITER = Annotated[str | None, typer.Option(help="Model for llm_rewrite and decompose: openai/NAME.", hidden=True)]
NAME_OR_FOLDER = Annotated[
    str, typer.Argument(metavar="NAME | FOLDER", help="Benchmark, such as mtrag, or your own folder.")
]
DECIDING = Annotated[
    list[Any] | None,
    typer.Option(
        "--judge",
        "--judges",
        metavar="<value>",
        parser=json_or_text,
        show_default=False,
        help="Judge that scores saved answers until a decision; repeatable.",
        hidden=True,
    ),
]
DECIDING_KEYS = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata",
        metavar="KEY=VALUE",
        help="With --judge: margin, setting, seed, or another option; repeatable.",
        hidden=True,
    ),
]
JUDGES = Annotated[list[str], typer.Option(help="openai/NAME, or JSON with model and base_url; repeatable.")]
INPUT = Annotated[
    Path | None, typer.Option("--input", help="Official input file; default: the benchmark's tasks.", hidden=True)
]
DOCUMENTS = Annotated[bool, typer.Option(help="Check document ids in fetched corpora.", hidden=True)]


def retrieval_workspace(benchmark: str, data: str | None) -> Any:
    """Return the `Workspace` of a benchmark, its data and its stored runs."""
    from retrieval_cache import Workspace

    return Workspace(benchmark, data, data_folder(), run_store(), secret)


def named_benchmark(name: str, data: str | None) -> Any:
    """Return a benchmark from a folder, the sample, or the data folder."""
    return open_benchmark(name, benchmark_folder(name, data, data_folder()).resolve())


def named_folder(name: str, data: str | None) -> Path | None:
    """Return the folder if a name is a path or an existing folder; None for the name of a benchmark."""
    if name in {*benchmark_names(), *added_benchmark_names(), "custom"} or not (is_path(name) or Path(name).is_dir()):
        return None
    folder = Path(name).expanduser()
    if not folder.is_dir():
        problem, next_step = missing_path(folder)
        raise ConfigurationError(f"{folder}: {problem}. Next step: {next_step}, or name a benchmark such as mtrag")
    if data:
        raise ConfigurationError(f"--data: {folder} already names the data. Next step: leave out --data")
    return folder


def is_path(name: str) -> bool:
    """Return whether a name can only be a path."""
    return len(Path(name).parts) > 1 or name.startswith(("~", ".", "/"))


def names_results(name: str) -> bool:
    """Return whether a name refers to results: a folder, a results file, or a missing path."""
    path = Path(name)
    return path.is_dir() or path.suffix == ".json" or (len(path.parts) > 1 and not path.exists())


def named_judges(judges: Sequence[Any]) -> list[Endpoint]:
    """Return the endpoints of judges after checking libraries and keys. No request is sent."""
    endpoints = [endpoint_of(text) for text in judges]
    require(judge_requirements(endpoints, secret), with_requests=False)
    return endpoints


@contextmanager
def asking(judges: Sequence[Any]) -> Iterator[Any]:
    """Yield a function of the named judges: responses and rubrics -> verdicts, with one progress bar for all calls.

    A third argument names a repeated judging.
    """
    from ragtasks.judges import judge_responses

    endpoints = named_judges(judges)
    with progress_bars() as progress:
        shown = in_rounds(progress)

        def ask(responses: Any, rubrics: Any, judging: str = "") -> Any:
            return judge_responses(
                responses,
                endpoints,
                secrets=secret,
                cache_file=reply_cache_file(),
                rubrics=rubrics,
                progress=shown,
                judging=judging,
            )

        yield ask


# Judging until a decision, shared by several commands.


def race_options(options: dict[str, Any], **more: Any) -> Any:
    """Return the options of the decision and remove their keys from the options."""
    from ragtasks.scoring import RaceOptions

    named = {key: options.pop(key) for key in ("margin", "setting", "seed") if key in options}
    return validated(RaceOptions, named | more)


def decide_as_named(paths: Sequence[Path], options: dict[str, Any], wanted: Any, output: Path, *, force: bool) -> Any:
    """Judge saved answers until a decision, print each wave and the decision, and return the decision."""
    from functools import partial

    from ragtasks.harness.judge_model import JudgeModel
    from ragtasks.reports.outcome import decision_text, wave_text
    from ragtasks.scoring import DECISION_FILE, Folders, decide

    decision = decide(
        paths,
        options,
        wanted,
        output,
        Folders(data_folder(), run_store()),
        may_replace=partial(may_be_replaced, force=force),
        local_judge=JudgeModel,
        after_wave=lambda race: typer.echo(wave_text(race), err=True),
    )
    echo(decision_text(decision))
    echo(f"wrote {output / DECISION_FILE} and the scores next to it. The same command sends no request twice")
    return decision
