"""Logged samples of lm_eval tasks of others: the value of each metric for each document.

The harness reports a mean, a ratio of sums or a perplexity per metric. Each becomes one value per document whose mean
is the reported number, so that all of them are compared by the same test. A metric without such values, such as an F1
over all documents, is refused. Values are checked against the results file, so an edited file is an error.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ragtasks.errors import close_matches, shortened_list
from ragtasks.files import Problems, canonical_hash, json_lines, parse_json
from ragtasks.results._evaluations import model_of, read_each
from ragtasks.results._saved import (
    LoggedSamples,
    logged_samples,
    require_task_name,
    samples_file,
    unusable_error,
    value_at,
)

_PROMPT_SETTINGS = (
    *("doc_to_text", "doc_to_choice", "doc_to_target", "description", "gen_prefix"),
    *("target_delimiter", "fewshot_delimiter"),
)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in the text of a function whose source the harness did not find
_RUN_AGAIN = "run lm_eval again, with --output_path DIR --log_samples"
_RESTORE = f"restore the files of this evaluation, or {_RUN_AGAIN}"
_ROUNDING = 1e-9
_LARGEST = 1e100  # the square of a larger number may be no number


@dataclass(frozen=True, slots=True)
class TaskDocument:
    """The identity of one document of a task."""

    doc_id: str
    prompt: str
    """Hash of its first prompt."""
    target: str
    """Hash of its reference answer."""
    response: str
    """Hash of the model's responses."""
    cluster: str
    """Documents of one cluster are not independent. Without named clusters, each document is a cluster."""


@dataclass(frozen=True, slots=True)
class HarnessMetric:
    """A metric of a task or group after one filter."""

    name: str
    """The metric, followed by its filter unless that is `none`: `acc`, `exact_match,strict-match`."""
    aggregation: str
    """The harness's aggregation of the documents, such as `mean`; empty for a group, or if unknown."""
    higher_is_better: bool | None
    reported: float | None
    """Number in the results file; None for NaN or another type."""
    reported_error: float | None
    """Standard error in the results file; None if the harness computes none."""
    values: Mapping[str, float | None]
    """Document -> value; None without a score. Their mean is `reported`. Empty if refused."""
    lowest: float | None
    """Smallest possible mean: 0 if every document has 0 or 1; None if unknown."""
    highest: float | None
    """Largest possible mean: 1 if every document has 0 or 1; None if unknown."""
    refused: str = ""
    """Why the metric has no values of documents; empty if it has."""
    by_size: bool | None = None
    """Whether a group weights its tasks by their documents; None for a task, or if both weights give equal values."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest possible mean; infinite if unknown."""
        return -math.inf if self.lowest is None else self.lowest, math.inf if self.highest is None else self.highest


@dataclass(frozen=True, slots=True)
class TaskResults:
    """One task, or one group of tasks, in a results file of the harness."""

    name: str
    model: str
    source: Path
    version: str
    n_shot: str
    n_offered: int | None
    """Number of documents in the task, evaluated or not; None if unknown."""
    prompts: Mapping[str, str]
    """Setting of the task file that changes prompts -> its value."""
    messages: Mapping[str, str]
    """Setting of the command that changes chat messages -> its value."""
    chat_template: str | None
    """Hash of the model's chat template, empty for that of a server; None without one."""
    generation: str
    """Options of the generation as JSON; empty for likelihoods."""
    documents: Mapping[str, TaskDocument]
    """Hash of a document, with a number if it is repeated -> its identity."""
    metrics: Mapping[str, HarnessMetric]
    cluster: str
    """Field of the documents that names their clusters; empty if each document is a cluster."""
    members: tuple[str, ...] = ()
    """Tasks of a group; empty for a task."""


def read_harness_tasks(
    paths: Sequence[Path],
    *,
    cluster: str = "",
    only: str | None = None,
    left_out: Callable[[str], None] | None = None,
) -> list[TaskResults]:
    """Return the tasks and groups of others in results files, in the order of the paths. Tasks of ragtasks are skipped.

    Args:
        paths: folders of results, or results files.
        cluster: field of the documents that names their clusters, such as `doc.passage`.
        only: name of the only task, or group with its tasks, to read.
        left_out: receives a line about each unreadable file in a folder, and about tasks without logged samples next to
            tasks with them. Without it, both raise an error.

    Raises:
        BenchmarkFileError: a path is missing, samples are missing or damaged, differ from their results file, or have
            no such field.
    """
    return read_each(paths, lambda file, _: _tasks_and_groups(file, cluster, only, left_out), left_out)


@dataclass(frozen=True, slots=True)
class _ResultsFile:
    path: Path
    content: Mapping[str, Any]
    model: str
    cluster: str

    def number(self, task: str, metric: str, filter_name: str) -> float | None:
        """Return a number of a task or group; None for NaN, another type or a missing one."""
        return _number(value_at(self.content, "results", task, f"{metric},{filter_name}"))

    def is_higher_better(self, task: str, metric: str, declared: Any) -> bool | None:
        """Return the direction of a metric; None if it is unknown or differs between the tasks of a group.

        Earlier versions do not write it. Then it is as declared by the task.
        """
        directions = (value_at(self.content, "higher_is_better", task, metric), declared)
        return next((value for value in directions if isinstance(value, bool)), None)


def _tasks_and_groups(
    file: Path, cluster: str, only: str | None, left_out: Callable[[str], None] | None
) -> list[TaskResults]:
    try:
        content = parse_json(file.read_bytes())
        names = names_of_others(content)
        for name in names:
            require_task_name(name)
        results = _ResultsFile(file, content, model_of_others(content), cluster)
        groups = groups_of_others(content)
        if only is not None:
            groups = {only: groups[only]} if only in groups else {}
            names = [name for name in names if name in groups.get(only, [only])]
        without = [name for name in names if not samples_file(file, name).is_file()]
        if left_out is not None and 0 < len(without) < len(names):
            left_out(f"{file}: no logged samples of {shortened_list(without, 3)}. Next step: {_RESTORE}")
            names = [name for name in names if name not in without]
            groups = {name: members for name, members in groups.items() if not set(members) & set(without)}
        if not names:
            return []
        samples = logged_samples(file, content, names, "an lm_eval task", _RUN_AGAIN)
        tasks = {name: _task(results, name, samples[name]) for name in names}
        of_groups = [_group(results, name, [tasks[member] for member in members]) for name, members in groups.items()]
        return [group for group in of_groups if group.metrics] + list(tasks.values())
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        found = f"{type(error).__name__}: {error}"
        raise unusable_error("results", file, "a results file of the harness", found) from error


# A task: its documents, and its metrics.


def _task(results: _ResultsFile, name: str, samples: LoggedSamples) -> TaskResults:
    content = results.content
    config = content["configs"][name]
    keys = [_Key(*key.split(",", 1)) for key in value_at(content, "results", name) or {} if "," in key]
    keys = [key for key in keys if not key.metric.endswith("_stderr")]
    documents, values = _read_documents(samples, keys, results.cluster)
    metrics = [
        _metric(results, name, key, {item: row[key] for item, row in values.items() if key in row}) for key in keys
    ]
    settings = {key: config[key] for key in _PROMPT_SETTINGS if config.get(key) is not None}
    template, seed = content.get("chat_template"), value_at(content, "config", "fewshot_seed")
    return TaskResults(
        name=name,
        model=results.model,
        source=results.path,
        version=str(value_at(content, "versions", name)),
        n_shot=str(value_at(content, "n-shot", name)),
        n_offered=value_at(content, "n-samples", name, "original"),
        prompts={key: _ADDRESS.sub("", json.dumps(value)) for key, value in settings.items()},
        messages={key: str(content.get(key)) for key in ("system_instruction_sha", "fewshot_as_multiturn")}
        | ({"fewshot_seed": str(seed)} if seed is not None and value_at(content, "n-shot", name) else {}),
        chat_template=None if template is None else str(content.get("chat_template_sha") or ""),
        generation=json.dumps(config["generation_kwargs"], sort_keys=True) if "generation_kwargs" in config else "",
        documents=documents,
        metrics={metric.name: metric for metric in metrics},
        cluster=results.cluster,
    )


class _Key(NamedTuple):
    metric: str
    filter: str

    @property
    def name(self) -> str:
        """The metric, followed by its filter unless that is `none`."""
        return self.metric if self.filter == "none" else f"{self.metric},{self.filter}"


def _read_documents(
    samples: LoggedSamples, keys: Sequence[_Key], cluster: str
) -> tuple[dict[str, TaskDocument], dict[str, dict[_Key, Any]]]:
    """Return document -> its identity, and document -> its logged values.

    Raises:
        BenchmarkFileError: a line is damaged, a document is repeated or without its cluster, or lines are missing.
    """
    problems = Problems(samples.path, "logged samples", _RUN_AGAIN)
    filters = list(dict.fromkeys(key.filter for key in keys))
    item_of: dict[str, str] = {}
    documents: dict[str, TaskDocument] = {}
    values: dict[str, dict[_Key, Any]] = {}
    n_of_hash: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    n_lines = Counter[str]()
    for number, row in json_lines(problems):
        doc_id, content = json.dumps(row.get("doc_id")), row.get("doc_hash")
        if doc_id == "null" or not isinstance(content, str) or not isinstance(row.get("doc"), Mapping):
            problems.add(number, "a sample with `doc_id`, `doc` and `doc_hash`", ", ".join(row) or "no keys")
            continue
        # Earlier versions log no filter, and write all documents of the first filter before the second.
        filter_name = str(row.get("filter") or filters[min(seen[doc_id], len(filters) - 1)] if filters else "none")
        seen[doc_id] += 1
        n_lines[filter_name] += 1
        if doc_id not in item_of:
            n_of_hash[content] += 1
            item = item_of[doc_id] = content if n_of_hash[content] == 1 else f"{content} #{n_of_hash[content]}"
            label = _label(row, cluster, number, problems) if cluster else item
            hashes = (str(row.get("prompt_hash")), str(row.get("target_hash")), canonical_hash(row.get("resps")))
            documents[item] = TaskDocument(doc_id, *hashes, label)
            values[item] = {}
        elif seen[doc_id] > len(filters) or any(key.filter == filter_name for key in values[item_of[doc_id]]):
            problems.add(number, "each document once in a filter", f"document {doc_id} again ({filter_name})")
        values[item_of[doc_id]] |= {
            key: row[key.metric] for key in keys if key.filter == filter_name and key.metric in row
        }
    problems.raise_if_any()
    n_values = Counter(key for row in values.values() for key in row)
    for filter_name in filters:
        # Until 0.4.12, lm_eval reports the number of values of the last metric, which may leave documents out.
        if samples.n not in (n_lines[filter_name], *(n_values[key] for key in keys if key.filter == filter_name)):
            expected = f"{samples.n} lines of the filter {filter_name} according to its results file"
            raise unusable_error("results", samples.path, expected, str(n_lines[filter_name]), _RESTORE)
    return documents, values


def _label(row: Mapping[str, Any], cluster: str, number: int, problems: Problems) -> str:
    """Return the value of a document's field as text. A missing value is added to the problems."""
    value = row["doc"].get(cluster.removeprefix("doc."), value_at(row, *cluster.split(".")))
    if isinstance(value, (str, int, float)):
        return str(value)
    names = (f"doc.{name}" for name in row["doc"])
    hint = f"; {close_matches(cluster, names)}" if value is None else ""
    problems.next_step = f"name another field with --cluster, or leave it out{hint}"
    found = "no such field" if value is None else value
    problems.add(number, f"a text or number in {cluster}", found, f"document {row['doc_id']}")
    return ""


# A metric: one value per document whose mean is the reported number. A number computed from two means, such as a
# perplexity, becomes the reported number plus the effect of each document on it (its influence). Their spread gives the
# standard error of the number, by the delta method.


@dataclass(frozen=True, slots=True)
class _Form:
    """The number of a metric as a function of the ratio of two sums."""

    number: Callable[[float], float]
    slope: Callable[[float], float]
    pair_of: Callable[[Any], tuple[float, float] | None]
    """Logged value -> numerator and denominator of a document; None for another type."""
    least: float | None = None
    """Smallest possible number."""


def _number(value: Any) -> float | None:
    """Return a logged number; None if it is too large. Earlier versions log those and truth values of numpy as text."""
    if isinstance(value, str):
        value = {"True": 1, "False": 0}.get(value, value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < _LARGEST else None


def _single(value: Any) -> tuple[float, float] | None:
    number = _number(value)
    return None if number is None else (number, 1.0)


def _weighted(value: Any) -> tuple[float, float] | None:
    pair = [_number(part) for part in value] if isinstance(value, list) and len(value) == 2 else []
    return (pair[0], pair[1]) if len(pair) == 2 and pair[0] is not None and pair[1] else None


def _listed(value: Any) -> tuple[float, float] | None:
    """Return the sum and the number of a document's truth values."""
    is_truth = isinstance(value, list) and bool(value) and all(isinstance(part, bool) for part in value)
    return (sum(value), len(value)) if is_truth else None


def _brier(value: Any) -> tuple[float, float] | None:
    """Return the Brier score of a document from its right class and the probabilities of all classes."""
    right, logged = value if isinstance(value, list) and len(value) == 2 else (None, "")
    # The harness logs the array of numpy as text.
    shares = [_number(share) for share in (logged.strip("[]").split() if isinstance(logged, str) else ())]
    if not isinstance(right, int) or not 0 <= right < len(shares):
        return None
    return math.fsum(((share or 0.0) - (index == right)) ** 2 for index, share in enumerate(shares)), 1.0


_MEAN = _Form(lambda mean: mean, lambda _: 1.0, _single)
_FORMS = {
    "mean": _MEAN,
    "nanmean": _MEAN,
    "perplexity": _Form(lambda mean: math.exp(-mean), lambda mean: -math.exp(-mean), _single, 1.0),
    "weighted_perplexity": _Form(lambda ratio: math.exp(-ratio), lambda ratio: -math.exp(-ratio), _weighted, 1.0),
    "bits_per_byte": _Form(lambda ratio: -ratio / math.log(2), lambda _: -1 / math.log(2), _weighted, 0.0),
    "brier_score": _Form(lambda mean: mean, lambda _: 1.0, _brier, 0.0),
    "mean of all lists": _Form(lambda mean: mean, lambda _: 1.0, _listed),
}
"""Aggregation of the harness -> its form. The last one has no name in the harness."""


def _metric(results: _ResultsFile, task: str, key: _Key, logged: Mapping[str, Any]) -> HarnessMetric:
    reported = results.number(task, *key)
    listed = value_at(results.content, "configs", task, "metric_list")
    options: Mapping[str, Any] = next((row for row in listed or () if value_at(row, "metric") == key.metric), {})
    declared = str(options.get("aggregation") or "")
    is_named = bool(declared) and not set(declared) & set("(<")  # else the code of a function, or nothing
    candidates = [declared] if declared in _FORMS else [] if is_named or reported is None else list(_FORMS)
    aggregation = next((name for name in candidates if _fits(_FORMS[name], reported, logged)), "")
    refused = ""
    if reported is None:
        n_missing = sum(value is None for value in logged.values())
        causes = f"; {n_missing} of {len(logged)} documents have no value" if n_missing else ""
        refused = f"the reported number is missing, NaN or above {_LARGEST:g}{causes}"
    elif not aggregation:
        mean = _ratio(_FORMS[declared], logged) if declared in _FORMS else None
        if mean is not None:
            expected = f"samples with the same {key.name} of {task} ({reported:.6g})"
            found = f"{_FORMS[declared].number(mean):.6g}"
            raise unusable_error("results", results.path, expected, found, _RESTORE)
        what = declared if is_named else "the number"
        refused = f"{what} is computed over all documents together, so documents have no values"
    values = _influences(_FORMS[aggregation], reported or 0.0, logged) if aggregation else {}
    scored = {value for value in values.values() if value is not None}
    return HarnessMetric(
        name=key.name,
        aggregation=aggregation,
        higher_is_better=results.is_higher_better(task, key.metric, options.get("higher_is_better")),
        reported=reported,
        reported_error=results.number(task, f"{key.metric}_stderr", key.filter),
        values=values,
        lowest=0.0 if scored <= {0.0, 1.0} else _FORMS[aggregation].least if values else None,
        highest=1.0 if scored <= {0.0, 1.0} else None,
        refused=refused,
    )


def _ratio(form: _Form, logged: Mapping[str, Any]) -> float | None:
    """Return the ratio of the sums over documents; None if a value has another type."""
    pairs = [form.pair_of(value) for value in logged.values() if value is not None]
    known = [pair for pair in pairs if pair is not None]
    total = math.fsum(weight for _, weight in known)
    return math.fsum(value for value, _ in known) / total if known and total and len(known) == len(pairs) else None


def _fits(form: _Form, reported: float | None, logged: Mapping[str, Any]) -> bool:
    ratio = _ratio(form, logged)
    try:
        return ratio is not None and reported is not None and _is_close(form.number(ratio), reported)
    except OverflowError:
        return False


def _is_close(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=_ROUNDING, abs_tol=_ROUNDING)


def _influences(form: _Form, reported: float, logged: Mapping[str, Any]) -> dict[str, float | None]:
    pairs = {item: form.pair_of(value) for item, value in logged.items()}
    if form is _MEAN:
        return {item: pair[0] if pair else None for item, pair in pairs.items()}
    known = [pair for pair in pairs.values() if pair]
    ratio, mean_weight = _ratio(form, logged) or 0.0, math.fsum(weight for _, weight in known) / len(known)
    slope = form.slope(ratio) / mean_weight
    return {item: reported + slope * (pair[0] - ratio * pair[1]) if pair else None for item, pair in pairs.items()}


# A group: the mean of its tasks, weighted by their documents or equally. The results file does not contain the choice,
# so it is the one that gives the reported number. Tasks are strata: only the spread within them is error, as in the
# harness's standard error of a group.


def model_of_others(results: Mapping[str, Any]) -> str:
    """Return the model's name. Earlier versions write the arguments as one text, and the name elsewhere."""
    arguments, named = value_at(results, "config", "model_args"), str(results.get("model_name"))
    return named if isinstance(arguments, str) and named in arguments else model_of(results)


def names_of_others(results: Mapping[str, Any]) -> list[str]:
    """Return the tasks in a results file that are not of ragtasks."""
    configs = results["configs"].items()
    return [name for name, config in configs if not value_at(config, "metadata", "ragtasks")]


def groups_of_others(results: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return group -> its tasks, for the groups in a results file without tasks of ragtasks."""
    names = names_of_others(results)
    subtasks = results.get("group_subtasks") or {}
    members_of = {name: _leaves(name, subtasks) for name in subtasks if name not in names}
    return {name: members for name, members in members_of.items() if members and set(names) >= set(members)}


def _leaves(name: str, subtasks: Mapping[str, Sequence[str]], above: tuple[str, ...] = ()) -> list[str]:
    """Return the tasks of a group and of the groups in it, in order."""
    if not subtasks.get(name):
        return [name]
    inner = [child for child in subtasks[name] if child not in above]
    return list(dict.fromkeys(leaf for child in inner for leaf in _leaves(child, subtasks, (*above, name))))


def _group(results: _ResultsFile, name: str, tasks: Sequence[TaskResults]) -> TaskResults:
    offered = [task.n_offered for task in tasks]
    metrics = [
        metric
        for key in dict.fromkeys(key for task in tasks for key in task.metrics)
        if (metric := _group_metric(results, name, key, tasks)) is not None
    ]
    return replace(
        tasks[0],
        name=name,
        version=str(value_at(results.content, "versions", name)),
        n_shot=", ".join(dict.fromkeys(task.n_shot for task in tasks)),
        n_offered=None if None in offered else sum(n or 0 for n in offered),
        prompts={
            f"{task.name}: {key}": value
            for task in tasks
            for key, value in {"version": task.version, **task.prompts}.items()
        },
        generation="",
        documents={_in_group(task, item): document for task in tasks for item, document in task.documents.items()},
        metrics={metric.name: metric for metric in metrics},
        members=tuple(task.name for task in tasks),
    )


def _in_group(task: TaskResults, item: str) -> str:
    return f"{task.name}: {item}"


def _group_metric(results: _ResultsFile, group: str, name: str, tasks: Sequence[TaskResults]) -> HarnessMetric | None:
    """Return a metric of a group; None if the group does not report it."""
    metric, _, filter_name = name.partition(",")
    filter_name = filter_name or "none"
    if f"{metric},{filter_name}" not in (value_at(results.content, "results", group) or {}):
        return None
    reported = results.number(group, metric, filter_name)
    members = [(task, task.metrics[name]) for task in tasks if name in task.metrics]
    refused = next((member.refused for _, member in members if member.refused), "")
    fitting = [
        choice
        for choice in (True, False)
        if reported is not None and _is_close(_mean_of_tasks(members, is_by_size=choice), reported)
    ]
    directions = {member.higher_is_better for _, member in members}
    declared = next(iter(directions)) if len(directions) == 1 else None
    if not fitting and not refused:
        refused = "the reported number is no mean of its tasks"
    values = {} if refused else dict(_strata(reported or 0.0, members, is_by_size=fitting[0]))
    is_either = len(fitting) > 1 and len(set(values.values())) == 1  # such as 0 in every task
    return HarnessMetric(
        name=name,
        aggregation="",
        higher_is_better=results.is_higher_better(group, metric, declared),
        reported=reported,
        reported_error=results.number(group, f"{metric}_stderr", filter_name),
        values=values,
        lowest=members[0][1].lowest if len({member.lowest for _, member in members}) == 1 else None,
        highest=members[0][1].highest if len({member.highest for _, member in members}) == 1 else None,
        refused=refused,
        by_size=fitting[0] if fitting and not is_either else None,
    )


_Member = tuple[TaskResults, HarnessMetric]


def _shares(members: Sequence[_Member], *, is_by_size: bool) -> list[float]:
    """Return the weight of each task in the mean of a group."""
    sizes = [len(task.documents) if is_by_size else 1 for task, _ in members]
    return [size / sum(sizes) for size in sizes]


def _mean_of_tasks(members: Sequence[_Member], *, is_by_size: bool) -> float:
    shares = _shares(members, is_by_size=is_by_size)
    return math.fsum(share * (metric.reported or 0.0) for share, (_, metric) in zip(shares, members, strict=True))


def _strata(reported: float, members: Sequence[_Member], *, is_by_size: bool) -> Iterator[tuple[str, float | None]]:
    """Yield each document with its value: the number of the group plus the document's effect on it.

    The spread of these values gives the harness's standard error of a group: pooled over tasks that are weighted by
    size, else that of a mean of independent means.
    """
    scored = [sum(value is not None for value in metric.values.values()) for _, metric in members]
    total = sum(scored)
    pooled = (total - 1) / max(1, total - len(members))
    for share, n, (task, metric) in zip(_shares(members, is_by_size=is_by_size), scored, members, strict=True):
        correction = pooled if is_by_size else (total - 1) / total * n / max(1, n - 1)
        weight = share * total / n * math.sqrt(correction)
        for item, value in metric.values.items():
            gap = None if value is None else value - (metric.reported or 0.0)
            yield _in_group(task, item), None if gap is None else reported + weight * gap
