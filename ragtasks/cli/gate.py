"""`ragtasks gate`: quality as a test of one's own system, which ends in a status."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtasks.cli.app import MORE, app, echo, may_be_replaced, put
from ragtasks.cli.options import (
    DECIDED_SEED,
    DECIDED_SETTING,
    FORCE,
    FORMAT,
    JUDGE,
    TABLES,
    decide_as_named,
)
from ragtasks.config import GateConfig, read_evaluation_file
from ragtasks.config.environment import data_folder, github_summary_file, is_github_action
from ragtasks.errors import ConfigurationError, RagtasksError, misfits
from ragtasks.tables import Format

if TYPE_CHECKING:
    from ragtasks.reports.gate import Gate, GatedSystem

INPUT_ERROR = 2


@app.command()
def gate(  # noqa: PLR0917 (one parameter an option)
    results: Annotated[
        Path | None, typer.Argument(help="Folder or file with the results of the system that is tested.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="What it must not be worse than: results, or a baseline's name or file.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="File with a section `gate`, such as evaluation.yaml: alpha, may_differ, ...")
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="The one to test, where results are of several.", rich_help_panel=MORE)
    ] = None,
    margin: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC=DROP", help="Largest drop that is allowed, such as ans_acc=0.03; repeatable."),
    ] = None,
    slices: Annotated[
        list[str] | None,
        typer.Option("--slice", help="Test by domain, answerability or turn too, or in one: domain=fiqa; repeatable."),
    ] = None,
    power: Annotated[
        bool, typer.Option("--power", help="Print what drops can be found, and test nothing; results may be left out.")
    ] = False,
    save_baseline: Annotated[
        str | None,
        typer.Option(
            help="Save the results as a baseline, by a name or as a .json file; after a test only if not worse."
        ),
    ] = None,
    form: FORMAT = Format.MARKDOWN,
    output: TABLES = None,
    junit: Annotated[Path | None, typer.Option(help="File for JUnit XML.")] = None,
    comment: Annotated[Path | None, typer.Option(help="File for Markdown, as a comment on a pull request.")] = None,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided", help="Ask the judges of --judge about both sides' answers, no more than a verdict takes."
        ),
    ] = False,
    judge: JUDGE = None,
    setting: DECIDED_SETTING = None,
    seed: DECIDED_SEED = 0,
    judged: Annotated[
        Path, typer.Option(help="Until decided: folder for the scores of what was judging.", rich_help_panel=MORE)
    ] = Path("decided"),
    force: FORCE = False,
) -> None:
    """Test whether a system is no worse than its baseline. Status: 0 not worse, 1 worse, 3 cannot say, 2 bad input."""
    with _input_errors():
        section = _section(config) if config else {}
        chosen = _config(section, margin or [], slices or [], baseline, benchmark)
        if until_decided or judge:
            others = {"--power": power, "--save-baseline": save_baseline, "--junit": junit, "--comment": comment}
            _require_judges(judge, {**others, "--output": output}, is_wanted=until_decided)
            status = _gate_until_decided(results, chosen, _Judging(judge or [], setting, seed, judged, force))
        else:
            target = None if save_baseline is None else _baseline_target(save_baseline, force=force)
            candidate = _candidate(results, chosen.benchmark, needed=not power)
            status = 0
            if power:
                status = _print_power(candidate, chosen, form, output)
            elif chosen.baseline is not None:
                assert candidate is not None
                status = _print_gate(candidate, chosen, form, output, junit, comment)
            elif target is None:
                raise ConfigurationError(
                    "gate: no baseline. Next step: --baseline RESULTS or NAME, or --save-baseline NAME"
                )
            if target is not None and candidate is not None and status == 0:
                from ragtasks.reports.gate import save_baseline as save

                save(candidate, target)
                echo(f"wrote {target}")
    raise typer.Exit(status)


@dataclass(frozen=True)
class _Judging:
    """What judges are asked until decided, and where it goes."""

    judges: list[Any]
    setting: str | None
    seed: int
    output: Path
    force: bool


def _require_judges(judges: list[Any] | None, others: dict[str, Any], *, is_wanted: bool) -> None:
    """Refuse --judge without --until-decided, and the reverse, and options that mean nothing beside them."""
    if refused := [name for name, value in others.items() if value]:
        raise ConfigurationError(f"gate --until-decided: leave out {', '.join(refused)}")
    if not (is_wanted and judges):
        raise ConfigurationError("gate: --until-decided needs --judge, and --judge needs --until-decided")


def _gate_until_decided(results: Path | None, config: GateConfig, judging: _Judging) -> int:
    """Print whether the system is worse, from no more verdicts than that takes, and return the status."""
    from ragtasks.reports.gate import before_judging, read_side, verdict_of
    from ragtasks.scoring import Question

    if results is None or config.baseline is None or not Path(config.baseline).exists():
        raise ConfigurationError(
            "gate --until-decided: both sides' answers are judged, so both are results: "
            "ragtasks gate RESULTS --baseline RESULTS --margin rb_llm=0.03"
        )
    if config.benchmark is not None:
        raise ConfigurationError(
            "gate --until-decided: judges are asked about results of one benchmark, and --benchmark takes none out of "
            "several. Next step: evaluate each benchmark into a folder of its own"
        )
    if len(config.margins) != 1 or config.slices:
        raise ConfigurationError(
            "gate --until-decided tests one metric of judges on all tasks: name one --margin, and no --slice. "
            "Next step: test the others in a gate of their own"
        )
    ((metric, drop),) = config.margins.items()
    known = before_judging(read_side(results), read_side(Path(config.baseline)), config)
    if known is not None:
        echo(f"{known[0].value}: {known[1]}; judges were asked nothing")
        return known[0].status
    question = Question(metric, judging.setting, drop, judging.seed, config.alpha, is_gate=True)
    paths = [Path(config.baseline), results]
    found = decide_as_named(paths, {"judges": judging.judges}, question, judging.output, force=judging.force)
    verdict, why = verdict_of(found.race, config.most_unscored)
    echo(*([f"{verdict.value}: {why}"] if why else []))
    return verdict.status


@contextmanager
def _input_errors() -> Iterator[None]:
    """Have errors end with a status of their own: 1 would say that the system is worse."""
    try:
        yield
    except RagtasksError as error:
        error.exit_status = INPUT_ERROR
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        problem = ConfigurationError(f"gate: {where}{error.strerror or error}. Next step: check the path and the disk")
        problem.exit_status = INPUT_ERROR
        raise problem from error
    except Exception:  # noqa: BLE001 (a bug is shown whole, and must not end with 1 either)
        traceback.print_exc()
        raise typer.Exit(INPUT_ERROR) from None


def _folder() -> Path:
    from ragtasks.reports.gate import FOLDER

    return data_folder() / FOLDER


def _candidate(results: Path | None, benchmark: str | None, *, needed: bool) -> GatedSystem | None:
    from ragtasks.reports.gate import read_side

    if results is None and needed:
        raise ConfigurationError(
            "gate: no results. Next step: ragtasks gate RESULTS --baseline NAME --margin METRIC=DROP"
        )
    return None if results is None else read_side(results, benchmark)


def _config(
    section: dict[str, Any], margins: list[str], slices: list[str], baseline: str | None, benchmark: str | None
) -> GateConfig:
    """Return the section of the file with the options over it."""
    from pydantic import ValidationError

    given = dict(section)
    if margins:
        given["margins"] = {**(given.get("margins") or {}), **dict(map(_margin, margins))}
    named = {"slices": slices, "baseline": baseline, "benchmark": benchmark}
    given |= {key: value for key, value in named.items() if value not in (None, [])}
    try:
        return GateConfig.model_validate(given)
    except ValidationError as error:
        raise ConfigurationError(f"gate: {'; '.join(misfits(error))}") from None


def _section(file: Path) -> dict[str, Any]:
    """Return the section `gate` of an evaluation file as it stands there."""
    section = read_evaluation_file(file).content.get("gate")
    if section is None:
        raise ConfigurationError(f"{file}: expected a section `gate` with `margins: {{ans_acc: 0.03}}`; found none")
    return dict(section)


def _margin(text: str) -> tuple[str, float]:
    name, sign, number = text.partition("=")
    try:
        if name and sign:
            return name, float(number)
    except ValueError:
        pass
    raise ConfigurationError(f"--margin {text}: expected METRIC=DROP, such as ans_acc=0.03")


def _baseline(config: GateConfig) -> GatedSystem:
    from ragtasks.reports.gate import named_side

    if config.baseline is None:
        raise ConfigurationError("gate: no baseline. Next step: --baseline RESULTS or NAME")
    return named_side(config.baseline, _folder(), config.benchmark)


def _print_power(candidate: GatedSystem | None, config: GateConfig, form: Format, output: Path | None) -> int:
    from ragtasks.reports.gate import power_of
    from ragtasks.reports.gate_output import gate_text, power_status

    found = power_of(_baseline(config), config, candidate)
    put(gate_text(found, form, is_power=True), output)
    return power_status(found)


def _print_gate(  # noqa: PLR0917 (as the options)
    candidate: GatedSystem,
    config: GateConfig,
    form: Format,
    output: Path | None,
    junit: Path | None,
    comment: Path | None,
) -> int:
    from ragtasks.reports.gate import gate as test
    from ragtasks.reports.gate_output import comment_text, gate_text, junit_text

    found = test(candidate, _baseline(config), config)
    put(gate_text(found, form), output)
    for file, text in ((junit, junit_text), (comment, comment_text)):
        if file is not None:
            put(text(found), file)
    _tell_github(found)
    if output is not None:
        echo(found.sentence)
    return found.verdict.status


def _tell_github(found: Gate) -> None:
    """Print annotations and add to the summary where GitHub runs this."""
    from ragtasks.reports.gate_output import comment_text, github_lines

    if is_github_action():
        for line in github_lines(found):  # commands, which `echo` would print as text
            typer.echo(line)
    summary = github_summary_file()
    if summary is not None:
        with summary.open("a", encoding="utf-8") as file:
            file.write(comment_text(found))


def _baseline_target(named: str, *, force: bool) -> Path:
    """Return the file that a baseline is saved to; one that exists is replaced with --force only."""
    from ragtasks.reports.gate import baseline_file

    path = baseline_file(named, _folder())
    if path.exists() and not may_be_replaced([path], force=force):
        raise ConfigurationError(f"--save-baseline: {path} exists. Next step: another name, or --force")
    return path
