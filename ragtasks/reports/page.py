"""One HTML page of a report: sortable tables, plots, and every conversation with its answers and scores."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from ragtasks.files import write_atomically
from ragtasks.metrics import Metric
from ragtasks.records import Setting
from ragtasks.reports.page_parts import PagePart, TextStore, collect_parts, explained, group_labels, packed
from ragtasks.reports.panels import Panel, finding, panels_of, pictures_of
from ragtasks.reports.tables import CLASSES, LOSS_TITLE, NO_LOSS, is_baseline
from ragtasks.results import Evaluation, files_of, model_names, request_fields, shortened_prompts, value_at
from ragtasks.tables import Cell, NamedValues, Section, Table, Value, cell_text, coded, fixed

# A page consists of our HTML, style and script, the tables, the plots, and the packed texts and scores. A content
# policy with the hashes of our own style and script prevents everything else from running, loading or leaving the page.
# The page does not contain the current time: the same results give the same bytes.

_TIME = re.compile(r"results_(\d{4}-\d{2}-\d{2})T(\d{2})-(\d{2})")
MOST_BYTES = 50_000_000
"""Maximum bytes of answers and passages for a page in one file."""
_NUMBER = re.compile(r"[-+]?\d*\.?\d+")
_ROW_KEYS = (("setting", "model"), ("dimension", "value"))  # the two columns that identify a row
_UNKNOWN = "-"


def write_page(
    evaluations: Sequence[Evaluation],
    tables: Sequence[Section],
    path: Path,
    *,
    metrics: Sequence[str] = (),
    most_bytes: int = MOST_BYTES,
) -> str:
    """Write the page atomically, and return the sha256 of its bytes.

    The answers and passages of a page beyond `most_bytes` are written to `files_folder(path)` and loaded on demand.
    """
    parts, text_stores = collect_parts(evaluations, metrics)
    failures = explained(_loss_metric(parts))
    failure_names = set().union(*(part.failures for part in parts))
    titles = [evaluation.kind[0] for evaluation in evaluations] or [section.title for section in tables]
    metrics_of = {metric.name: metric for evaluation in evaluations for metric in evaluation.metrics}
    blocks = _blocks(evaluations, parts, text_stores, failures)
    is_apart = sum(map(len, blocks)) > most_bytes
    prefix = _write_files(path, blocks) if is_apart else ""
    style, script = asset_text("page.css"), asset_text("page.js")
    page = template("page.html.jinja").render(
        title=" and ".join(dict.fromkeys(titles)),
        is_sample=any(title.endswith("(sample)") for title in titles),
        has_conversations=bool(evaluations),
        made=max((_time_of(evaluation) for evaluation in evaluations), default=_UNKNOWN),
        sections=tables,
        **_provenance(evaluations),
        is_score=lambda cell: isinstance(cell, Value),
        are_scores=lambda cell: isinstance(cell, NamedValues),
        cell_text=cell_text,
        is_number=lambda cell: bool(_NUMBER.fullmatch(cell)),
        named_by_two=_ROW_KEYS,
        fixed=fixed,
        opening=opening,
        axes_of=axes_of,
        colours_of=colours_of,
        finding=finding,
        best_cells=lambda table: best_cells(table, metrics_of),
        described={name: metric.description for name, metric in metrics_of.items()},
        readable=readable,
        setting_words=_SETTING_WORDS,
        coded=coded,
        pictures=list(pictures_of(tables)),
        failures={name: meaning for name, meaning in failures.items() if name in failure_names},
        style=Markup(style),
        script=Markup(script),
        policy=Markup(content_policy(style, script, has_files=is_apart)),
        blocks=blocks[:1] if is_apart else blocks,
        files=f"{quote(files_folder(path).name)}/{prefix}" if is_apart else "",
        files_name=files_folder(path).name,
    )
    digest = write_atomically(path, page.encode("utf-8", errors="replace"))  # lone surrogates have no UTF-8
    _remove_others(path, prefix)
    return digest


# A large page has the index with tables and plots, and its blocks are separate scripts that are loaded on demand. A
# page from a local folder may load scripts, but may not read files.

_FILE = re.compile(r"[0-9a-f]{16}-\d+\.js")


def files_folder(path: Path) -> Path:
    """Return the folder for the blocks of a large page, next to the page."""
    return path.with_name(f"{path.stem}_files")


def _write_files(path: Path, blocks: Sequence[str]) -> str:
    """Write all blocks except the first, and return the prefix of their names, which is unique to this page."""
    prefix = hashlib.sha256("".join(blocks).encode()).hexdigest()[:16] + "-"
    folder = files_folder(path)
    folder.mkdir(parents=True, exist_ok=True)
    for number, block in enumerate(blocks[1:], start=1):
        write_atomically(folder / f"{prefix}{number}.js", f'ragtasksBlock({number},"{block}")'.encode())
    return prefix


def _remove_others(path: Path, prefix: str) -> None:
    """Remove the blocks of an earlier page with this name. Other files in the folder stay."""
    folder = files_folder(path)
    if not folder.is_dir():
        return
    for file in folder.iterdir():
        if _FILE.fullmatch(file.name) and not (prefix and file.name.startswith(prefix)):
            file.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()


def _loss_metric(parts: Sequence[PagePart]) -> str:
    """Return the metric of the losses in words, with its groups if there are several metrics."""
    labels = group_labels([part.group for part in parts])
    metrics = {part.group: part.metric for part in parts if part.metric}
    names = list(dict.fromkeys(metrics.values())) or ["the metric of the tables"]
    return names[0] if len(names) == 1 else " or ".join(f"{metrics[group]} ({labels[group]})" for group in metrics)


def _blocks(
    evaluations: Sequence[Evaluation],
    parts: Sequence[PagePart],
    text_stores: Mapping[str, TextStore],
    failures: Mapping[str, str],
) -> list[str]:
    """Return the packed blocks. The first one describes the others."""
    blocks: list[str] = [""]

    def add_block(block: str | None) -> int | None:
        if block is None:
            return None
        blocks.append(block)
        return len(blocks) - 1

    metrics = {metric.name: metric for evaluation in evaluations for metric in evaluation.metrics}
    benchmarks = {
        name: {
            "tasks": add_block(text_store.pack_tasks()),
            "texts": {domain: add_block(block) for domain, block in text_store.pack_texts().items()},
        }
        for name, text_store in text_stores.items()
    }
    labels = group_labels([part.group for part in parts])
    numbers = {group: number for number, group in enumerate(labels)}
    described = [
        {
            "label": f"{part.model} · {labels[part.group]}" if labels[part.group] else part.model,
            "differs": labels[part.group],
            "benchmark": part.group[0][0],
            "setting": part.setting,
            "group": numbers[part.group],
            "scores": add_block(part.pack_scores(list(metrics))),
            "support": add_block(part.pack_support()),
            "verdicts": add_block(part.pack_verdicts()),
        }
        for part in parts
    ]
    blocks[0] = packed(
        {
            "id": hashlib.sha256("".join(blocks).encode()).hexdigest()[:16],
            "benchmarks": benchmarks,
            "parts": described,
            "metrics": {name: [metric.description, metric.higher_is_better] for name, metric in metrics.items()},
            "failures": [{"name": name, "meaning": meaning} for name, meaning in failures.items()],
        }
    )
    return blocks


def _provenance(evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """Return the facts behind the scores that all evaluations share, and a table of the others."""
    facts = list(map(_facts, evaluations))
    values_of = {head: list(dict.fromkeys(own[head] for own in facts)) for head in (facts[0] if facts else ())}
    shared = {head: values[0] for head, values in values_of.items() if len(values) == 1 and values[0] != _UNKNOWN}
    differing = [head for head, values in values_of.items() if len(values) > 1]
    names = zip(model_names(evaluations), facts, strict=True)
    rows = tuple((name, *(own[head] for head in differing)) for name, own in names)
    return {"shared": shared, "provenance": Table("Basis of the scores", ("model", *differing), rows)}


def _facts(evaluation: Evaluation) -> dict[str, Cell]:
    """Return fact -> value of the basis of an evaluation's scores, a dash for an unknown one."""

    def recorded(*keys: str) -> str:
        fields = (value_at(provenance, *keys) for provenance in evaluation.provenance.values())
        texts = (", ".join(map(str, field)) if isinstance(field, list) else str(field or _UNKNOWN) for field in fields)
        return "; ".join(dict.fromkeys(texts))

    return {
        "benchmark": evaluation.kind[0],
        "settings": ", ".join(dict.fromkeys(row.setting for row in evaluation.rows)),
        "responses": len(evaluation.rows),
        "run": recorded("configuration", "run"),
        "encoder": evaluation.kind[1],
        "IDK detector": recorded("scoring", "idk_detector"),
        "judges": recorded("scoring", "judges"),
        "system prompt": request_fields(evaluation)["system prompt"],
        "prompts that did not fit": shortened_prompts(evaluation.provenance.values()) or _UNKNOWN,
        "judge prompts": recorded("scoring", "judge_prompts"),
        "profiles": recorded("scoring", "profiles"),
        "data revision": recorded("revision"),
        "ragtasks": recorded("ragtasks_version"),
        "made": _time_of(evaluation),
        "file": files_of(evaluation),
    }


def _time_of(evaluation: Evaluation) -> str:
    """Return the time of an evaluation, from the name of its file."""
    match = _TIME.match(evaluation.source.name)
    return f"{match[1]} {match[2]}:{match[3]}" if match else _UNKNOWN


def template(name: str) -> Template:
    """Return a template of this folder. Every text is escaped, and an unknown field is an error."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(asset_text(name))


_SETTING_WORDS = {
    Setting.REFERENCE.value: "reference passages",
    Setting.REFERENCE_RAG.value: "reference and retrieved passages",
    Setting.FULL_RAG.value: "full RAG",
    Setting.AGENTIC.value: "search by the model",
}
_METRIC_WORDS = {
    "rb_alg": "Reference-based score",
    "rb_llm": "Judges' rating",
    "rl_f": "Faithfulness",
    "ans_acc": "Answerability accuracy",
    "rouge_l": "ROUGE-L",
    "bert_recall": "BERTScore recall",
    "bert_precision": "BERTScore precision",
    "bert_k_precision": "BERTScore against the passages",
    "k_precision": "Words from the passages",
    "token_recall": "Words of the reference answer",
    "grounded": "Grounded words",
    "idk_yes": "Refusals",
}
_VARIANTS = {"_raw": ", not conditioned", "_ibm": ", official scripts", "": ""}
_TITLE_NAMES = re.compile(rf"\b({'|'.join(_METRIC_WORDS)})(_raw|_ibm|)\b")
_TITLE_SETTING = re.compile(rf" in setting ({'|'.join(_SETTING_WORDS)})\b")


def readable(title: str) -> str:
    """Return the title of a table with words for settings and metrics. Metric names follow in brackets."""
    title = _TITLE_SETTING.sub(lambda match: f", {_SETTING_WORDS[match[1]]}", title)
    return _TITLE_NAMES.sub(lambda match: f"{_METRIC_WORDS[match[1]]}{_VARIANTS[match[2]]} ({match[0]})", title)


def best_cells(table: Table, metrics: Mapping[str, Metric]) -> frozenset[tuple[int, int]]:
    """Return row and column of the best scores of each setting. Equal scores are all best."""
    if table.columns[:2] != ("setting", "model"):
        return frozenset()
    has_models = any(not is_baseline(str(row[_MODEL])) for row in table.rows)
    best = set()
    for column, name in enumerate(table.columns):
        direction = metrics[name].higher_is_better if name in metrics else None
        sign = 0 if direction is None else 1 if direction else -1
        by_setting: dict[object, dict[int, float]] = {}
        for index, row in enumerate(table.rows):
            cell = row[column]
            is_ranked = not (has_models and is_baseline(str(row[_MODEL])))
            if sign and is_ranked and isinstance(cell, Value) and cell.value is not None and not cell.missing:
                by_setting.setdefault(row[_SETTING], {})[index] = sign * float(fixed(cell.value))
        for scores in by_setting.values():
            if len(set(scores.values())) > 1:
                best |= {(index, column) for index, value in scores.items() if value == max(scores.values())}
    return frozenset(best)


# Charts of tables: marks with intervals, scaled to the width of the screen, in the colors of the theme.

N_COLOURS = 6
_SETTING, _MODEL, _N, _MAIN = range(4)


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from left to right."""

    low: float
    high: float

    def position(self, value: float) -> float:
        """Return the position of a value in percent of the axis."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)

    def width(self, low: float, high: float) -> float:
        """Return the width of an interval in percent of the axis."""
        return round(self.position(high) - self.position(low), 2)


def axes_of(panel: Panel) -> list[tuple[Axis, Sequence[str]]]:
    """Return each scale of a panel with its groups: scores from 0 to at least 1, or a quality and a cost."""
    if not panel.on_front:
        ends = [end for group in panel.groups for end in _ends(panel, group)]
        return [(Axis(min(0.0, *ends), max(1.0, *ends)), panel.groups)]
    cost, quality = panel.groups
    return [
        (Axis(min(0.0, *_ends(panel, quality)), max(1.0, *_ends(panel, quality))), (quality,)),
        (Axis(0.0, max(_ends(panel, cost))), (cost,)),
    ]


def _ends(panel: Panel, group: str) -> list[float]:
    """Return the scores of a group and the ends of their intervals."""
    scores = [values[group] for values in panel.series.values() if group in values]
    return [end for score in scores for end in (score.value, score.low, score.high) if end is not None]


def colours_of(models: Sequence[str]) -> dict[str, str]:
    """Return model -> class of its color. Baselines are grey if there are other models."""
    coloured = [model for model in models if not is_baseline(model)] or list(models)
    return {model: str(coloured.index(model) % N_COLOURS) if model in coloured else "grey" for model in models}


@dataclass(frozen=True, slots=True)
class Opening:
    """The two charts at the top of a section."""

    panel: Panel
    """The main score by setting."""
    losses: Mapping[str, Mapping[str, float]]
    """Model -> class of losses -> its contribution to the mean loss, above 0; {} if no model has both settings."""
    loss: str
    """Caption of the second chart."""

    @property
    def kinds(self) -> dict[str, int]:
        """Class of losses of any model -> number of its color."""
        return {name: CLASSES.index(name) for parts in self.losses.values() for name in parts}

    @property
    def axis(self) -> Axis:
        """The scale of the second chart, up to the largest sum."""
        return Axis(0.0, max(sum(parts.values()) for parts in self.losses.values()))


def opening(section: Section) -> Opening | None:
    """Return the charts of a section's conclusion, or None without a conclusion or scores."""
    table = section.conclusion
    panels = panels_of(table) if table else ()
    if table is None or not panels:
        return None
    loss = next((line for line in table.legend if line.startswith(LOSS_TITLE)), "")
    losses = {model: parts for model, parts in _loss_parts(section, panels[0].title) if parts}
    return Opening(panels[0], losses, loss)


def _loss_parts(section: Section, metric: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each model with its classes' positive contributions to the loss, from the section's own tables."""
    head = f"{LOSS_TITLE}: {metric}, "
    for table in section.tables:
        if table.title.startswith(head) and "contribution" in table.columns:
            index = table.columns.index("contribution")
            cells = {str(row[0]): row[index] for row in table.rows}
            parts = {
                name: cell.value
                for name in CLASSES
                if name != NO_LOSS and isinstance(cell := cells.get(name), Value) and cell.value and cell.value > 0
            }
            yield table.title.removeprefix(head), parts


# Style and script of our pages, and their content policy, which allows only these by their hashes.


def content_policy(style: str, script: str, *, has_files: bool = False) -> str:
    """Return a content policy that allows one inline style and one inline script, and blocks everything else.

    Images may be embedded in the page as data addresses. A page with files may load scripts from its own folder. For
    local files, the narrowest name of that source is `file:`.
    """
    files = " 'self' file:" if has_files else ""
    own = f"style-src '{_hash(style)}'; script-src '{_hash(script)}'{files}; img-src data:"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def asset_text(name: str) -> str:
    """Return a style, a script or a template of this folder."""
    return resources.files("ragtasks.reports").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return a content policy's source for an inline element with this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
