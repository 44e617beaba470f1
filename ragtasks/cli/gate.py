"""`ragtasks gate`: a regression test of a system's quality that sets the exit status."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from ragtasks.cli.app import app, echo, may_be_replaced, put
from ragtasks.cli.options import (
    CLUSTER,
    DECIDING,
    DECIDING_KEYS,
    FORCE,
    FORMAT,
    check_cluster,
    decide_as_named,
    given_options,
    race_options,
)
from ragtasks.config import GateConfig, config_from_options, read_evaluation_file
from ragtasks.config.environment import card_folder, data_folder, github_summary_file, is_github_action
from ragtasks.errors import ConfigurationError, RagtasksError, misfits
from ragtasks.tables import Format

if TYPE_CHECKING:
    from ragtasks.reports.gate import Gate

INPUT_ERROR = 2


@app.command()
def gate(  # noqa: PLR0917 (one parameter an option)
    results: Annotated[Path | None, typer.Argument(help="Results of the tested system.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Baseline: results, or the name or file of a saved baseline.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="File with a section `gate`.")] = None,
    benchmark: Annotated[str | None, typer.Option(help="Benchmark, or lm_eval task, to test.", hidden=True)] = None,
    cluster: CLUSTER = "",
    margin: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC=DROP", help="Largest allowed drop; repeatable."),
    ] = None,
    slices: Annotated[
        list[str] | None,
        typer.Option(
            "--slice",
            help="Also test slices by domain, answerability or turn, or a slice such as domain=fiqa; repeatable.",
            hidden=True,
        ),
    ] = None,
    power: Annotated[bool, typer.Option("--power", help="Print the detectable drops without testing.")] = False,
    save_baseline: Annotated[str | None, typer.Option(help="Name or .json file for a new baseline.")] = None,
    form: FORMAT = Format.MARKDOWN,
    output: Annotated[
        Path | None, typer.Option(help="File for the tables; with --judge, folder for the scores.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="File for JUnit XML.")] = None,
    comment: Annotated[Path | None, typer.Option(help="File for a pull request comment in Markdown.")] = None,
    judge: DECIDING = None,
    metadata: DECIDING_KEYS = None,
    force: FORCE = False,
) -> None:
    """Test whether a system is no worse than its baseline.

    Exit status: 0 not worse, 1 worse, 3 undecided, 2 invalid input.
    """
    with _input_errors():
        check_cluster(cluster)
        named = {"slices": slices, "baseline": baseline, "benchmark": benchmark, "cluster": cluster}
        chosen = _config(config, margin or [], named)
        if judge:
            exclusive = {"--power": power, "--save-baseline": save_baseline, "--junit": junit, "--comment": comment}
            if refused := [name for name, value in exclusive.items() if value]:
                raise ConfigurationError(f"gate --judge: leave out {', '.join(refused)}")
            options = given_options(metadata, judges=judge)
            status = _gate_until_decided(results, chosen, options, output or Path("decided"), force=force)
        elif metadata:
            raise ConfigurationError("--metadata is used with --judge only. Next step: leave it out, or add --judge")
        else:
            status = _test(
                results, chosen, power, save_baseline, form, output, {"junit": junit, "comment": comment}, force
            )
    raise typer.Exit(status)


def _gate_until_decided(
    results: Path | None, config: GateConfig, options: dict[str, Any], output: Path, *, force: bool
) -> int:
    """Judge both sides until the gate is decided, print the outcome and return the status."""
    from ragtasks.reports.gate import before_judging, verdict_of
    from ragtasks.reports.gate_sides import read_side, with_stored_cards

    if results is None or config.baseline is None or not Path(config.baseline).exists():
        raise ConfigurationError(
            "gate --judge: the answers of both sides are judged, so both must be results: "
            "ragtasks gate RESULTS --baseline RESULTS --margin rb_llm=0.03"
        )
    if config.benchmark is not None:
        raise ConfigurationError(
            "gate --judge: results must be of one benchmark; --benchmark does not select from several. "
            "Next step: evaluate each benchmark into a separate folder"
        )
    if len(config.margins) != 1 or config.slices:
        raise ConfigurationError(
            "gate --judge tests one metric of judges on all tasks: name one --margin, and no --slice. "
            "Next step: test other metrics in a separate gate"
        )
    ((metric, drop),) = config.margins.items()
    wanted = race_options(options, metric=metric, margin=drop, level=config.alpha, is_gate=True)
    judging = config_from_options(options)
    judges = [judge.model for judge in judging.judges]
    baseline = with_stored_cards(read_side(Path(config.baseline)), card_folder(), judges)
    early = before_judging(read_side(results), baseline, config, judging)
    if early is not None:
        echo(f"{early[0].value}: {early[1]}; no request was sent to judges")
        return early[0].status
    decision = decide_as_named([Path(config.baseline), results], options, wanted, output, force=force)
    verdict, why = verdict_of(decision.race, config.most_unscored)
    echo(*([f"{verdict.value}: {why}"] if why else []))
    return verdict.status


@contextmanager
def _input_errors() -> Iterator[None]:
    """Exit with a separate status on errors, because 1 means that the system is worse."""
    try:
        yield
    except (RagtasksError, OSError) as error:
        error.exit_status = INPUT_ERROR  # type: ignore[union-attr]
        raise
    except Exception:  # noqa: BLE001 (a bug prints its traceback and must not exit with 1)
        traceback.print_exc()
        raise typer.Exit(INPUT_ERROR) from None


def _test(  # noqa: PLR0917 (as the options)
    results: Path | None,
    config: GateConfig,
    power: bool,
    save_as: str | None,
    form: Format,
    output: Path | None,
    files: dict[str, Path | None],
    force: bool,
) -> int:
    """Print the test against the baseline, or its power, and return the status. Save a baseline if requested."""
    from ragtasks.reports import gate as gates
    from ragtasks.reports import gate_sides as sides
    from ragtasks.reports.gate_output import comment_text, gate_text, junit_text, power_status

    folder = data_folder() / sides.FOLDER
    target = None if save_as is None else sides.baseline_file(save_as, folder)
    if target is not None and target.exists() and not may_be_replaced([target], force=force):
        raise ConfigurationError(f"--save-baseline: {target} exists. Next step: another name, or --force")
    if results is None and not power:
        raise ConfigurationError(
            "gate: no results. Next step: ragtasks gate RESULTS --baseline NAME --margin METRIC=DROP"
        )
    candidate = None
    if results is not None:
        candidate = sides.with_stored_cards(sides.read_side(results, config.benchmark, config.cluster), card_folder())
    if config.baseline is None and (power or target is None):
        raise ConfigurationError("gate: no baseline. Next step: --baseline RESULTS or NAME, or --save-baseline NAME")
    status = 0
    if config.baseline is not None:
        baseline = sides.named_side(config.baseline, folder, config.benchmark, config.cluster)
        if power:
            detectable = gates.power_of(baseline, config, candidate)
            put(gate_text(detectable, form, is_power=True), output)
            status = power_status(detectable)
        elif candidate is not None:
            gate_result = gates.gate(candidate, baseline, config)
            put(gate_text(gate_result, form), output)
            for key, text in (("junit", junit_text), ("comment", comment_text)):
                if (file := files[key]) is not None:
                    put(text(gate_result), file)
            _report_to_github(gate_result)
            if output is not None:
                echo(gate_result.sentence)
            status = gate_result.verdict.status
    if target is not None and candidate is not None and status == 0:
        sides.save_baseline(candidate, target)
        echo(f"wrote {target}")
    return status


def _config(file: Path | None, margins: list[str], named: dict[str, Any]) -> GateConfig:
    """Return the section `gate` of an evaluation file, overridden by the options."""
    section = {} if file is None else read_evaluation_file(file).content.get("gate")
    if section is None:
        raise ConfigurationError(f"{file}: expected a section `gate` with `margins: {{ans_acc: 0.03}}`; found none")
    settings = {**section, **{key: value for key, value in named.items() if value not in (None, [], "")}}
    if margins:
        settings["margins"] = {**(section.get("margins") or {}), **dict(map(_margin, margins))}
    try:
        return GateConfig.model_validate(settings)
    except ValidationError as error:
        raise ConfigurationError(f"gate: {'; '.join(misfits(error))}") from None


def _margin(text: str) -> tuple[str, float]:
    name, sign, number = text.rpartition("=")
    try:
        if name and sign:
            return name, float(number)
    except ValueError:
        pass
    raise ConfigurationError(
        f"--margin {text}: expected METRIC=DROP, such as ans_acc=0.03 or exact_match,strict-match=0.02"
    )


def _report_to_github(outcome: Gate) -> None:
    """Print annotations and add to the summary in GitHub Actions."""
    from ragtasks.reports.gate_output import comment_text, github_lines

    if is_github_action():
        for line in github_lines(outcome):  # workflow commands, which `echo` would escape
            typer.echo(line)
    summary = github_summary_file()
    if summary is not None:
        with summary.open("a", encoding="utf-8") as file:
            file.write(comment_text(outcome))
