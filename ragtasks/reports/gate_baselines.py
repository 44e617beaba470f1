"""The systems that a gate compares, from results, or from a baseline that was saved: a fixed copy of what it needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from ragtasks.errors import BenchmarkFileError, ConfigurationError, close_matches, misfits
from ragtasks.files import parse_json, write_atomically
from ragtasks.judges import AnchorVerdicts
from ragtasks.reports.gate import Side, side_of
from ragtasks.results import JudgeAnchors, Row, files_of, merge_evaluations, read_evaluations

FOLDER = "baselines"
"""Where baselines that have a name are saved, below the data folder."""

_FORMAT: Literal["ragtasks baseline 1"] = "ragtasks baseline 1"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def read_side(path: Path) -> Side:
    """Return the one system in a folder of results, in a results file, or in a baseline file."""
    if path.is_file() and not path.name.startswith("results_"):
        return _read_baseline(path)
    evaluations = merge_evaluations(read_evaluations([path]))
    if len(evaluations) != 1:
        found = "; ".join(f"{item.model} on {item.kind[0]} ({files_of(item)})" for item in evaluations)
        raise _error(
            str(path), "the results of one system on one benchmark, each task once", found, "name one results file"
        )
    return side_of(evaluations[0])


def baseline_file(named: str, folder: Path) -> Path:
    """Return where a baseline lies: a path as it is, a name below the folder of baselines; it need not be there."""
    path = Path(named)
    if path.exists() or path.suffix == ".json" or len(path.parts) > 1:
        return path
    if not _NAME.fullmatch(named):
        raise ConfigurationError(
            f"baseline {named[:120]!r}: expected a name of letters, digits, `.`, `_`, `-`, or a path"
        )
    return folder / f"{named}.json"


def named_side(named: str, folder: Path) -> Side:
    """Return a baseline by its name, or by a path of results or of a baseline file."""
    path = baseline_file(named, folder)
    if path.exists():
        return read_side(path)
    saved = sorted(item.stem for item in folder.glob("*.json"))
    hint = close_matches(named, saved) if saved else f"none is saved in {folder}"
    raise ConfigurationError(f"no baseline {named!r}: {hint}. Next step: ragtasks gate RESULTS --save-baseline {named}")


def save_baseline(side: Side, path: Path) -> None:
    """Write what a gate needs of a system to a file that later results do not change."""
    settings = {
        setting: _Setting(fields=dict(side.fields[setting]), rows=[_saved(row) for row in rows])
        for setting, rows in side.rows.items()
    }
    anchors = [found.now.json_values for found in side.anchors.values()]
    content = _Baseline(format=_FORMAT, name=side.name, suite=side.suite, settings=settings, anchors=anchors)
    write_atomically(path, orjson.dumps(content.model_dump(), option=orjson.OPT_INDENT_2) + b"\n")


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", hide_input_in_errors=True)


class _Answer(_Part):
    task_id: str
    conversation_id: str
    turn: int
    domain: str
    answerability: str
    question_types: list[str]
    multi_turn: str
    n_passages: int
    answer_hash: str
    values: dict[str, float | None]


class _Setting(_Part):
    fields: dict[str, str]
    rows: list[_Answer]


class _Baseline(_Part):
    format: Literal["ragtasks baseline 1"]
    name: str
    suite: str
    settings: dict[str, _Setting]
    anchors: list[dict[str, Any]] = []


def _saved(row: Row) -> _Answer:
    return _Answer(
        task_id=row.task_id,
        conversation_id=row.conversation_id,
        turn=row.turn,
        domain=row.domain,
        answerability=row.answerability,
        question_types=list(row.question_types),
        multi_turn=row.multi_turn,
        n_passages=row.n_passages,
        answer_hash=row.answer_hash,
        values=dict(row.values),
    )


def _read_baseline(path: Path) -> Side:
    try:
        found = _Baseline.model_validate(parse_json(path.read_bytes()))
    except ValidationError as error:
        raise _error(
            str(path), "a baseline that `ragtasks gate --save-baseline` wrote", _short(misfits(error))
        ) from None
    except ValueError as error:
        raise _error(str(path), "a baseline that `ragtasks gate --save-baseline` wrote", f"not JSON: {error}") from None
    return Side(
        name=found.name,
        suite=found.suite,
        fields={setting: part.fields for setting, part in found.settings.items()},
        rows={
            setting: tuple(_row(answer.model_dump(), setting) for answer in part.rows)
            for setting, part in found.settings.items()
        },
        anchors={now.judge: JudgeAnchors(now, None) for now in map(AnchorVerdicts.of_json, found.anchors) if now},
    )


def _row(answer: dict[str, Any], setting: str) -> Row:
    return Row(
        **(answer | {"question_types": tuple(answer["question_types"])}),
        setting=setting,
        n_references=0,
        n_found=0,
        idk=None,
        unscored={},
        verdicts={},
    )


def _short(problems: Sequence[str]) -> str:
    rest = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
    return "; ".join(problems[:3]) + rest


def _error(where: str, expected: str, found: str, next_step: str = "save it again from results") -> BenchmarkFileError:
    return BenchmarkFileError("gate", where=where, expected=expected, found=found, next_step=next_step)
