"""Results of lm_eval tasks of others as columns of scores, compared by the same tests as ours.

Only results of one version of a task, with the same documents and prompts, are compared. The others are listed with the
reason and the next step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragtasks.errors import ConfigurationError, close_matches, shortened_list
from ragtasks.results import HarnessMetric, TaskResults, numbered_names
from ragtasks.statistics import Column, Comparison, Comparisons, Mean, compare_columns
from ragtasks.tables import grouped

_CONTEXT = "lm_eval tasks"
_FAMILIES = ("comparisons", "of tasks in groups")
_MOST_LISTED = 5
_MEANS = {"mean", "nanmean"}
_INDEPENDENT = (
    "stderr: standard error over documents, which count as independent. If documents share a field, such as a passage, "
    "--cluster doc.FIELD takes that into account. harness stderr: as in the results file."
)
_CLUSTERED = (
    "stderr: standard error over the values of {cluster}. harness stderr: as in the results file; it assumes "
    "independent documents, and is too small if those of one value are correlated."
)
_DELTA = "{metrics}: no mean of documents. stderr: by the delta method; lm_eval has none, or a bootstrap."


@dataclass(frozen=True, slots=True)
class HarnessColumns:
    """Columns of scores of tasks, with their metrics and the reasons for missing ones."""

    columns: tuple[Column, ...]
    metrics: Mapping[tuple[str, str, str], HarnessMetric]
    """Group, metric and name of a column -> the metric in its results."""
    notes: tuple[str, ...]
    """Lines about the tasks: version, documents, weights."""
    refusals: tuple[str, ...]
    """Results and metrics without a column, with the reason and the next step."""
    in_groups: frozenset[str]
    """Tasks of groups."""
    cluster: str

    @property
    def units(self) -> str:
        """Name of the clusters."""
        return f"clusters ({self.cluster})" if self.cluster else "documents"

    @property
    def power_words(self) -> dict[str, Any]:
        """The words of a table of detectable differences, for `power_sections`."""
        return {"group": "task", "items": "documents", "units": self.units, "notes": self.notes}

    @property
    def words(self) -> dict[str, Any]:
        """The words of tables of comparisons, for `comparison_sections`."""
        note = _CLUSTERED.format(cluster=self.cluster) if self.cluster else _INDEPENDENT
        more = {"name": "model", "note": note, "warnings": self.refusals, "family": self.family}
        return self.power_words | more

    def family(self, column: Column) -> str:
        """Return the family of a column's tests, as text."""
        return _FAMILIES[column.group in self.in_groups]


def harness_columns(
    tasks: Sequence[TaskResults], metrics: Sequence[str] = (), *, are_pairs: bool = True
) -> HarnessColumns:
    """Return a column for each metric of each result that is comparable with another result of its task.

    Args:
        tasks: the results, the earlier first.
        metrics: metrics with or without their filter; all if empty.
        are_pairs: leave out results without a comparable one.

    Raises:
        ConfigurationError: an unknown metric, or no column.
    """
    offered = {name for task in tasks for name in task.metrics}
    offered |= {name.partition(",")[0] for name in offered}
    wanted = [name.removesuffix(",none") for name in metrics]
    if unknown := [name for name in wanted if name not in offered]:
        raise ConfigurationError(f"unknown metric {unknown[0]!r}: {close_matches(unknown[0], offered)}")
    named = _numbered(tasks)
    if are_pairs and len({(task.name, task.model) for task in named}) == len({task.name for task in named}):
        models = ", ".join(dict.fromkeys(task.model for task in named))
        raise ConfigurationError(
            f"nothing to compare: no task in two results, but only in {models}. Next step: name results of another "
            "model on the same task too, or add --power"
        )
    refusals: list[str] = []
    usable = list(_usable(named, set(wanted), refusals, are_pairs=are_pairs))
    if not usable:
        raise ConfigurationError(f"nothing to compare: {shortened_list(refusals, 2, '; ')}")
    pairs = [
        (harness_column(task, task.metrics[metric], group), task.metrics[metric])
        for group, metric, members in usable
        for task in members
    ]
    descriptions = {group: _description(members) for group, _, members in usable}
    indirect = dict.fromkeys(metric.name for _, metric in pairs if metric.aggregation not in {*_MEANS, ""})
    return HarnessColumns(
        columns=tuple(column for column, _ in pairs),
        metrics={(column.group, column.metric, column.name): metric for column, metric in pairs},
        notes=(
            *(
                f"{shortened_list(groups, _MOST_LISTED)}: {text}"
                for text, groups in grouped(descriptions, descriptions.__getitem__).items()
            ),
            *([_DELTA.format(metrics=", ".join(indirect))] if indirect else []),
            *dict.fromkeys(f"{task.model}: {task.source}" for task in named if " #" in task.model),
        ),
        refusals=tuple(refusals),
        in_groups=frozenset(member for task in tasks for member in task.members),
        cluster=tasks[0].cluster,
    )


def _usable(
    tasks: Sequence[TaskResults], wanted: set[str], refusals: list[str], *, are_pairs: bool
) -> Iterator[tuple[str, str, list[TaskResults]]]:
    """Yield task, metric and the comparable results with it. Reasons for the others are added to `refusals`."""
    for name, sides in grouped(tasks, lambda task: task.name).items():
        for number, members in enumerate(_comparable(name, sides, refusals, are_pairs=are_pairs), start=1):
            group = name if number == 1 else f"{name} #{number}"
            for metric in dict.fromkeys(metric for task in members for metric in task.metrics):
                if wanted and not {metric, metric.partition(",")[0]} & wanted:
                    continue
                if reason := _refusal_of_metric(metric, members, are_pairs=are_pairs):
                    refusals.append(f"{group}, {metric}: {reason}")
                else:
                    yield group, metric, [task for task in members if metric in task.metrics]


def compare_harness_columns(found: HarnessColumns, baseline: str | None = None) -> Comparisons:
    """Return the means as the harness reports them, and the difference of every pair.

    Tasks of groups are a family of tests of their own, so that they do not weaken the tests of the groups.
    """
    families = grouped(found.columns, found.family).values()
    with_baseline = [
        family for family in families if baseline is None or any(column.name == baseline for column in family)
    ]
    compared = [compare_columns(family, baseline) for family in with_baseline or [list(found.columns)]]
    return Comparisons(
        tuple(_reported_mean(mean, found) for family in compared for mean in family.means),
        tuple(_reported_pair(pair, found) for family in compared for pair in family.pairs),
    )


def harness_column(task: TaskResults, metric: HarnessMetric, group: str) -> Column:
    """Return the values of a metric by document. Their mean is the reported number."""
    return Column(
        context=_CONTEXT,
        group=group,
        metric=metric.name,
        name=task.model,
        values=metric.values,
        cluster_of={item: task.documents[item].cluster for item in metric.values},
        bounds=metric.bounds,
        higher_is_better=metric.higher_is_better,
    )


def names_in_groups(members_of: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the tasks and groups that another group contains.

    `members_of` has the tasks of each group, and no tasks for a task.
    """
    leaves = {name: set(members or [name]) for name, members in members_of.items()}
    return {
        name
        for name, members in members_of.items()
        for group in members_of
        if members_of[group] and group != name and leaves[name] <= leaves[group]
        if not members or leaves[name] != leaves[group]
    }


def mismatch(first: TaskResults, second: TaskResults) -> str:
    """Return why two results of a task are not comparable, with the next step. Empty if they are."""
    return next(_mismatches(first, second), "")


def _mismatches(first: TaskResults, second: TaskResults) -> Iterator[str]:
    if set(first.members) != set(second.members):
        yield "other tasks in the group. Next step: evaluate both with one group file"
    # Harness 0.4.3 has no versions of groups, and another order of their tasks.
    is_unknown = first.members and "None" in {first.version, second.version}
    if first.version != second.version and not is_unknown:
        yield f"versions {first.version} and {second.version} of the task. Next step: evaluate both with one version"
    if first.n_shot != second.n_shot:
        yield f"{first.n_shot} and {second.n_shot} few-shot examples. Next step: evaluate both with one --num_fewshot"
    n_first, n_second = len(first.documents), len(second.documents)
    missing = [item for item in first.documents if item not in second.documents]
    if n_first != n_second and len(missing) == max(0, n_first - n_second):
        yield f"{n_first} and {n_second} documents. Next step: evaluate both with the same --limit, or without"
    if missing:
        example = f"{len(missing)} of {n_first}, such as doc_id {first.documents[missing[0]].doc_id}"
        yield f"other documents ({example}). Next step: evaluate both on one version of the data"
    pairs = [(document, second.documents[item]) for item, document in first.documents.items()]
    settings = [key for key, value in first.prompts.items() if second.prompts.get(key, value) != value]
    n_prompts = 0
    if _has_own_templates([first, second]):  # equal messages give different prompts
        settings += [key for key, value in first.messages.items() if second.messages.get(key, value) != value]
    else:
        n_prompts = sum(a.prompt != b.prompt for a, b in pairs)
    if settings or n_prompts:
        where = ", ".join([*settings[:2], *([f"{n_prompts} of {n_first}"] if n_prompts else [])])
        step = "evaluate both with one task file, few-shot seed, system instruction and chat template"
        yield f"other prompts ({where}). Next step: {step}"
    if n_targets := sum(a.target != b.target for a, b in pairs):
        yield f"other reference answers ({n_targets} of {n_first}). Next step: evaluate both with one task file"


def _has_own_templates(tasks: Sequence[TaskResults]) -> bool:
    """Return whether the models have chat templates that differ, so that equal messages give different prompts."""
    templates = {task.chat_template for task in tasks}
    return len(templates) > 1 and None not in templates


def _numbered(tasks: Sequence[TaskResults]) -> list[TaskResults]:
    """Return the results with `MODEL #2` and so on for another result of the same model and task."""
    taken: set[tuple[str, str]] = set()
    named = []
    for members in grouped(tasks, lambda task: task.source).values():
        candidates = ({(model, task.name) for task in members} for model in numbered_names(members[0].model))
        used = next(names for names in candidates if not names & taken)
        taken |= used
        named += [replace(task, model=next(iter(used))[0]) for task in members]
    return named


def _comparable(
    name: str, sides: Sequence[TaskResults], refusals: list[str], *, are_pairs: bool
) -> list[list[TaskResults]]:
    """Return the lists of comparable results of a task. Reasons for the others are added to `refusals`."""
    lists: list[list[TaskResults]] = []
    for side in sides:
        fitting = next((members for members in lists if not mismatch(members[0], side)), None)
        if fitting is not None:
            fitting.append(side)
            continue
        if lists:
            first = lists[0][0]
            refusals.append(f"{name}: {first.model} and {side.model} have {mismatch(first, side)}")
        lists.append([side])
    if len(sides) == 1 and are_pairs:
        refusals.append(f"{name}: only in {sides[0].model}")
    return [members for members in lists if len(members) > 1 or not are_pairs]


def _refusal_of_metric(name: str, members: Sequence[TaskResults], *, are_pairs: bool) -> str:
    """Return why a metric of comparable results has no columns. Empty if it has."""
    metrics = [task.metrics.get(name) for task in members]
    known = [metric for metric in metrics if metric is not None]
    if are_pairs and len(known) < len(metrics):
        holders = ", ".join(task.model for task in members if name in task.metrics)
        return f"only in {holders}. Next step: evaluate all with one task file"
    if refused := next((metric.refused for metric in known if metric.refused), ""):
        return refused
    if len({metric.by_size for metric in known} - {None}) > 1:
        return "weighted by documents in one and by tasks in another. Next step: evaluate both with one group file"
    scored = {frozenset(item for item, value in metric.values.items() if value is not None) for metric in known}
    if len(scored) > 1 and not {metric.aggregation for metric in known} <= _MEANS:
        return "other documents have no value. Next step: evaluate both again"
    return ""


def _description(members: Sequence[TaskResults]) -> str:
    first = members[0]
    n, n_offered = len(first.documents), first.n_offered or 0
    of_all = f"{n:,} of {n_offered:,} documents (--limit)" if n < n_offered else f"{n:,} documents"
    weights = {metric.by_size for metric in first.metrics.values()} - {None}
    over = "over the documents" if True in weights else "of the means"
    group = f"; mean {over} of {shortened_list(first.members, _MOST_LISTED)}" if weights else ""
    differing = "; generation options differ" if len({task.generation for task in members}) > 1 else ""
    templates = "; each model has its own chat template" if _has_own_templates(members) else ""
    return f"version {first.version}, {first.n_shot}-shot, {of_all}{group}{differing}{templates}"


def _reported_mean(mean: Mean, found: HarnessColumns) -> Mean:
    """Return a mean with the numbers of the results file, which differ from those of its values by rounding only."""
    column = mean.column
    metric = found.metrics[column.group, column.metric, column.name]
    reason = mean.estimate.reason_over(found.units)
    reported = replace(mean.estimate, value=metric.reported, independent_error=metric.reported_error, reason=reason)
    return replace(mean, estimate=reported)


def _reported_pair(pair: Comparison, found: HarnessColumns) -> Comparison:
    """Return a comparison with the reported numbers, if it contains all documents."""
    pair = replace(pair, difference=replace(pair.difference, reason=pair.difference.reason_over(found.units)))
    if pair.difference.n_unscored or pair.n_unshared:
        return pair
    first, second = (found.metrics[side.group, side.metric, side.name] for side in (pair.first, pair.second))
    return replace(pair, first_mean=first.reported, second_mean=second.reported)
