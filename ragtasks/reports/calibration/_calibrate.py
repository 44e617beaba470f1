"""`ragtasks calibrate`: how far metrics and judges agree with the people who rated MTRAG's answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragtasks.benchmarks.mtrag import RatedResponse, load_human_evaluation
from ragtasks.clients import Secrets, endpoint_of
from ragtasks.errors import ConfigurationError
from ragtasks.judges import JudgeIdk, Rubric, Verdicts, judge_responses
from ragtasks.metrics import RuleBasedIdk, condition_paper
from ragtasks.progress import progress_bars
from ragtasks.records import IdkVerdict
from ragtasks.reports.calibration._agreement import calibrate
from ragtasks.reports.calibration._plot import plot_calibration
from ragtasks.reports.calibration._records import Column
from ragtasks.reports.calibration._tables import render_calibration
from ragtasks.suites import suite_named

_JUDGED = ("rb_llm", "rl_f")


def calibrate_judges(
    root: Path,
    judges: Sequence[str],
    *,
    secrets: Secrets,
    cache_file: Path,
    metrics: Sequence[str] = (),
    picture: Path | None = None,
) -> tuple[str, Verdicts | None]:
    """Return the calibration tables, and what the judges said; the picture is written where one is asked for.

    Without judges the published scores and the rule-based detector are calibrated. With judges each one's verdicts on
    the 477 rated answers stand beside them; what is in the reply cache is not asked again. The tables do not say how
    many verdicts are too few: `Verdicts.require_coverage` does.

    Args:
        root: folder with the official files.
        judges: endpoints, each as `endpoint_of` reads it.
        secrets: variable -> key of an endpoint.
        cache_file: SQLite file of replies.
        metrics: further ones that the judges are asked for, such as `rl_mtb`.
        picture: PNG or SVG to write.

    Raises:
        ConfigurationError: a judge that cannot be read, or a metric that judges are not asked for.
        BenchmarkFileError: the human-evaluation file is missing or broken.
        JudgeError: no judge answered to the end.
        MissingExtraError: an extra is not installed.
    """
    rubrics = _rubrics(metrics)
    answers = load_human_evaluation(root)
    responses = [row.response for row in answers]
    rules = dict(zip((row.key for row in answers), RuleBasedIdk().detect(responses), strict=True))
    verdicts: dict[str, dict[tuple[str, str], IdkVerdict | None]] = {
        "rules": {answer: label.verdict for answer, label in rules.items()}
    }
    columns: list[Column] = []
    found: Verdicts | None = None
    endpoints = [endpoint_of(judge) for judge in judges]
    if endpoints:
        with progress_bars() as progress:
            found = judge_responses(
                responses,
                endpoints,
                secrets=secrets,
                cache_file=cache_file,
                rubrics=rubrics,
                progress=progress,
            )
        labels = JudgeIdk(found).detect(responses)
        verdicts["judges"] = {row.key: label.verdict for row, label in zip(answers, labels, strict=True)}
        columns = [
            _column(answers, found, verdicts["judges"], rubric, judge)
            for rubric in (*_JUDGED, *metrics)
            for judge in found.judges
        ]
    calibration = calibrate(answers, columns, verdicts)
    if picture is not None:
        plot_calibration(calibration, picture)
    return render_calibration(calibration), found


def _rubrics(metrics: Sequence[str]) -> Sequence[Rubric]:
    rubrics = suite_named("+".join(["mtrag", *metrics])).rubrics()
    for metric in metrics:
        if metric not in {rubric.name for rubric in rubrics}:
            raise ConfigurationError(f"calibrate: judges are not asked for {metric!r}; take rl_mtb or rl_r")
    return rubrics


def _column(
    answers: Sequence[RatedResponse],
    found: Verdicts,
    idk: dict[tuple[str, str], IdkVerdict | None],
    rubric: str,
    judge: str,
) -> Column:
    """Return one judge's scores, conditioned as the paper's are."""
    scores = found.judge_scores(rubric, judge)
    conditioned = {
        row.key: condition_paper(score, row.response.task.answerability, idk[row.key]).value
        for row, score in zip(answers, scores, strict=True)
    }
    return Column(rubric, judge, conditioned)


__all__ = ["calibrate_judges"]
