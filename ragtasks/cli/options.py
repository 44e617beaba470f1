"""Options that several commands have, and what they name."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from ragtasks.benchmarks import added_benchmark_names, benchmark_folder, benchmark_names, open_benchmark
from ragtasks.cli.app import MORE, echo, may_be_replaced
from ragtasks.clients import endpoint_of
from ragtasks.config import MODEL_KEYS, EvaluationConfig
from ragtasks.config.environment import data_folder, reply_cache_file, run_store, secret
from ragtasks.errors import ConfigurationError, missing_path
from ragtasks.files import parse_json
from ragtasks.progress import in_rounds, progress_bars
from ragtasks.tables import Format

# The keys of an evaluation's configuration: `--data sample` is `--metadata '{"data": "sample"}'`, and wins over the
# same key there. A list takes one value at a time: `--judge A --judge B`. Numbers, lists and objects are JSON.


MOST_USED = frozenset({"data", "run", "judges", "encoder", "metrics"})
"""The keys that the short help of a command shows; `--help-all` shows every one."""


def key_option(key: str, panel: str | None = None) -> Any:
    """Return the option of a key, made from its field."""
    field = EvaluationConfig.model_fields[key]
    name, text = key.replace("_", "-"), field.description or ""
    kinds = (field.annotation, *get_args(field.annotation))
    if choices := [choice for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]:
        text += f"; one of {', '.join(choices)}"
    if field.default not in {None, False, ()} and "default:" not in text:
        text += f"; default: `{field.default}`"
    how: dict[str, Any] = {"help": f"{text[0].upper()}{text[1:]}.", "show_default": False, "rich_help_panel": panel}
    if field.annotation is bool:
        # Beside --metadata, which may say yes, there is a way to say no.
        return typer.Option(f"--{name}/--no-{name}" if panel else f"--{name}", **how)
    names = [f"--{name.removesuffix('s')}", f"--{name}"] if _is_list(key) else [f"--{name}"]
    how["parser"] = str if str in kinds and not _is_list(key) else _value
    return typer.Option(*names, metavar="<value>", **how)


def _is_list(key: str) -> bool:
    return get_origin(EvaluationConfig.model_fields[key].annotation) is tuple


def _value(text: str) -> Any:
    """Return what a text is as JSON, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        raise ConfigurationError("an option is not JSON: lists and objects that are nested too deeply") from None


def evaluation_options(
    *, asks_model: bool, metadata: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option a key, and `--metadata`; it takes as `options` those that were given.

    Without a model to ask, the keys that say how one is asked are left out.
    """
    keys = [key for key in EvaluationConfig.model_fields if asks_model or key not in MODEL_KEYS]

    def declare(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def call(**given: Any) -> None:
            named = {key: given.pop(key) for key in keys}
            options = _parsed_metadata(given.pop("metadata", "{}"))
            options |= {key: value for key, value in named.items() if value not in (None, [])}
            command(**given, options=options)

        signature = inspect.signature(command, eval_str=True)
        own = [parameter for name, parameter in signature.parameters.items() if name != "options"]
        added = [*([_METADATA] if metadata else []), *map(_parameter, keys)]
        vars(call)["__signature__"] = signature.replace(parameters=[*own, *added])
        return call

    return declare


def _parameter(key: str) -> Parameter:
    kind: Any = list[Any] if _is_list(key) else bool if EvaluationConfig.model_fields[key].annotation is bool else Any
    annotation = Annotated[kind | None, key_option(key, None if key in MOST_USED else MORE)]
    return Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _parsed_metadata(text: str) -> dict[str, Any]:
    """Return the object in a `--metadata` option."""
    try:
        given = parse_json(text.encode())
    except ValueError as error:
        raise ConfigurationError(f"--metadata is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ConfigurationError('--metadata must be a JSON object, such as {"judges": ["openai/gpt-4o-mini"]}')
    return given


_METADATA = Parameter(
    "metadata",
    Parameter.KEYWORD_ONLY,
    default="{}",
    annotation=Annotated[
        str, typer.Option(help="The same options as a JSON object, as for lm_eval.", rich_help_panel=MORE)
    ],
)
DATA = Annotated[str | None, key_option("data")]

# Others that several commands have.

FORMAT = Annotated[Format, typer.Option("--format", metavar="<form>", help="Tables as markdown, csv, json or latex.")]
TABLES = Annotated[Path | None, typer.Option("--output", help="File for the tables, in place of the screen.")]
RECALIBRATE = Annotated[
    bool,
    typer.Option(
        "--recalibrate",
        help="Put the scores of a judge that changed on its earlier scale, by its anchors; intervals widen.",
    ),
]
DECIDED_SETTING = Annotated[
    str | None, typer.Option(help="Until decided: the setting, where there are several.", rich_help_panel=MORE)
]
DECIDED_SEED = Annotated[int, typer.Option(help="Until decided: another order of the tasks.", rich_help_panel=MORE)]
FORCE = Annotated[bool, typer.Option("--force", help="Replace what is there without asking.")]
BENCHMARK = Annotated[str, typer.Option(help="Such as mtrag, mtrag_un, multihop_rag, trec_rag24, custom.")]
REWRITER = Annotated[str | None, typer.Option(help="Endpoint for llm_rewrite and decompose, such as openai/NAME.")]
REWRITER_ADDRESS = Annotated[
    str | None, typer.Option("--base-url", help="Address of the rewriter's OpenAI-compatible server.")
]
NAME_OR_FOLDER = Annotated[
    str, typer.Argument(metavar="NAME | FOLDER", help="Benchmark, such as mtrag, or a folder with your own.")
]
JUDGES = Annotated[list[str], typer.Option(help="openai/NAME or a JSON object with model, base_url; repeatable.")]
INPUT = Annotated[Path | None, typer.Option("--input", help="Official input file; default: the benchmark's tasks.")]
DOCUMENTS = Annotated[bool, typer.Option(help="Look documents up in the benchmark's corpora, if these were fetched.")]


AS_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
ALL_PROBLEMS = Annotated[
    bool, typer.Option("--all", help="One line for each problem, instead of one for all equal ones.")
]


def retrieval_place(benchmark: str, data: str | None) -> Any:
    """Return where runs of a benchmark are made and judged: a `retrieval_cache.service.Place`."""
    from retrieval_cache import Place

    return Place(benchmark, data, data_folder(), run_store(), secret)


def named_benchmark(name: str, data: str | None) -> Any:
    """Return a benchmark, from its files in a folder, the sample, or the data folder."""
    return open_benchmark(name, benchmark_folder(name, data, data_folder()).resolve())


def named_folder(name: str, data: str | None) -> Path | None:
    """Return the folder that a name is; None where it is a benchmark's."""
    if name in {*benchmark_names(), *added_benchmark_names(), "custom"} or not (is_path(name) or Path(name).is_dir()):
        return None
    folder = Path(name).expanduser()
    if not folder.is_dir():
        found, next_step = missing_path(folder)
        raise ConfigurationError(f"{folder}: {found}. Next step: {next_step}, or name a benchmark such as mtrag")
    if data:
        raise ConfigurationError(f"--data: {folder} is the data already. Next step: leave --data out")
    return folder


def is_path(name: str) -> bool:
    """Return whether a name can only be of a file or folder."""
    return len(Path(name).parts) > 1 or name.startswith(("~", ".", "/"))


def names_results(name: str) -> bool:
    """Return whether a name is of results: a folder, a results file, or a path with nothing at its end."""
    path = Path(name)
    return path.is_dir() or path.suffix == ".json" or (len(path.parts) > 1 and not path.exists())


@contextmanager
def asking(judges: Sequence[Any]) -> Iterator[Any]:
    """Yield the function that asks the named judges: (responses, rubrics) -> verdicts; one bar shows all its calls."""
    from ragtasks.judges import judge_responses

    endpoints = [endpoint_of(text) for text in judges]
    with progress_bars() as progress:
        shown = in_rounds(progress)

        def ask(responses: Any, rubrics: Any) -> Any:
            cache = reply_cache_file()
            return judge_responses(
                responses, endpoints, secrets=secret, cache_file=cache, rubrics=rubrics, progress=shown
            )

        yield ask


# Judges asked until decided, for every command that does.


def decide_as_named(paths: Sequence[Path], given: dict[str, Any], question: Any, output: Path, *, force: bool) -> Any:
    """Ask judges about saved answers until decided, show each wave, print the decision, and return it."""
    from functools import partial

    from ragtasks.harness.judge_model import JudgeModel
    from ragtasks.reports.outcome import decision_text, wave_text
    from ragtasks.scoring import DECISION_FILE, Place, decide

    found = decide(
        paths,
        given,
        question,
        output,
        Place(data_folder(), run_store()),
        may_replace=partial(may_be_replaced, force=force),
        local_judge=JudgeModel,
        after_wave=lambda race: typer.echo(wave_text(race), err=True),
    )
    echo(decision_text(found))
    echo(f"wrote {output / DECISION_FILE} and the scores beside it. The same command asks nothing again")
    return found
