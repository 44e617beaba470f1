"""The harness task of a conversation: its requests, its answers and their scores."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow
from datasets import Dataset, DatasetInfo, Features, Value
from datasets import Sequence as ListOf
from datasets.fingerprint import generate_random_fingerprint
from lm_eval.api.task import ConfigurableTask
from lm_eval.filters import build_filter_ensemble

from ragtasks.benchmarks import (
    Benchmark,
    Doc,
    benchmark_folder,
    build_docs,
    contexts_for,
    injected,
    open_benchmark,
    passage_rows,
    stored_name,
)
from ragtasks.clients import Spending, Spent, priced
from ragtasks.config import EvaluationConfig, config_from_metadata
from ragtasks.config.environment import data_folder, run_store
from ragtasks.errors import ConfigurationError, masked
from ragtasks.files import OFFICIAL, run_key, seconds_per_query, spending_of_run
from ragtasks.harness.answering import model_in_use, served_model_in_use
from ragtasks.harness.judge_model import JudgeModel
from ragtasks.harness.prompts import YAML_KEYS, PromptBudget, TaskPrompts, reject_chat_endpoint
from ragtasks.harness.scores import TaskAnswers, aggregation_of
from ragtasks.metrics import Metric
from ragtasks.records import Passage, Setting
from ragtasks.results import ScoredAnswer, logged_scoring, logged_values, saved_answer, saved_summary
from ragtasks.scoring import (
    check_answers,
    given_metrics,
    plausibility_of,
    record_checked,
    shared_scorer,
    with_turn_error,
)
from ragtasks.suites import suite_named, suite_with
from ragtasks.tables import grouped

# `ConfigurableTask` builds one user message and scores one doc at a time. `ConversationTask` passes the conversation
# turn by turn and scores all answers in `apply_filters`, the only step where the harness has all of them.
# `process_results` returns each doc's scores, so that `--log_samples` contains them.

_BYPASS = "bypass"  # the harness's placeholder for metrics under --predict_only
_FILTER = "none"  # the harness's name of the filter that takes the first reply
_SAMPLE_FILTER = "sample"  # name of the same filter for samples, shown in every row of the harness's tables
_PROCESS_RESULTS = "ConversationTask.process_results"


class ConversationTask(ConfigurableTask):
    """One setting and one domain of a multi-turn RAG benchmark.

    `dataset_kwargs` in its YAML: `benchmark`, `setting`, and optionally `domain` (for one of several), `max_words` and
    `suite` (instead of the benchmark's own). Top-level keys name the prompt templates: `prompt` (the system text),
    `closed_book_prompt` (the system text without passages) and `plain_prompt` (the complete prompt without a chat
    template), which `doc_to_text` renders. `--metadata` contains the keys of `ragtasks.config.EvaluationConfig`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the docs and check options, templates and the encoder before a model runs."""
        settings = {key: value for key, value in dict(config or {}).items() if key != "class"}
        self._foreign_metadata = dict(settings.get("metadata") or {})
        warn_of_secrets(self._foreign_metadata)
        self.evaluation = config_from_metadata(self._foreign_metadata)
        if self.evaluation.prompts == "official" and not self.evaluation.judges:
            _warn_of_prompts_without_judges()
        options = dict(settings.get("dataset_kwargs") or {})
        root = benchmark_folder(options["benchmark"], self.evaluation.data, data_folder()).resolve()
        self._prompts = TaskPrompts(self.evaluation, settings, root)
        settings = {key: value for key, value in settings.items() if key not in YAML_KEYS}
        self._is_distributed = False
        self._read_rows: tuple[Dataset, list[Doc]] | None = None
        self._budget = PromptBudget()
        _require_one_reply(settings)
        self._answers = TaskAnswers(self.evaluation.end_of_thinking)
        self.benchmark = open_benchmark(options["benchmark"], root)
        run = stored_name(run_store(), self.evaluation.run, self.benchmark)
        self._run_key = run_key(run_store(), run)
        self._search_seconds = seconds_per_query(run_store(), run)
        self._run_spending = _earlier_spending(run, spending_of_run(run_store(), run))
        self.suite_name = suite_with(options.get("suite", self.benchmark.suite), self.evaluation)
        self._metrics = {metric.name: metric for metric in self._declared_metrics()}
        self._scored: dict[str, ScoredAnswer] = {}
        # Any value prevents the harness from looking up our metric names on the hub.
        settings["process_results"] = _PROCESS_RESULTS
        settings["metric_list"] = self._metric_list(settings)
        super().__init__(config=settings)
        self._filter = _SAMPLE_FILTER if self.benchmark.is_sample else self.benchmark.copy or _FILTER
        self._filters = [build_filter_ensemble(self._filter, [["take_first", None]])]
        self.scorer = shared_scorer(
            self.benchmark.name, self.benchmark.root, self.evaluation, self.suite_name, JudgeModel
        )
        self._config.metadata = self._public_metadata()

    def _declared_metrics(self) -> Sequence[Metric]:
        """Return every metric of this task, in table order."""
        return suite_named(self.suite_name).metrics

    def _metric_list(self, options: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the harness's metric list: the declared metrics that this configuration can compute."""
        if options.get("metric_list"):
            check_metric_list(f"task {options.get('task')}", options["metric_list"], self._metrics)
        names = given_metrics(self._metrics.values(), self.evaluation)
        return [self._harness_metric(self._metrics[name]) for name in names]

    def _harness_metric(self, metric: Metric) -> dict[str, Any]:
        """Return a metric in the harness's form.

        The harness requires the name of one of its own aggregations, but calls ours.
        """
        return {"metric": metric.name, "aggregation": "nanmean", "higher_is_better": metric.higher_is_better}

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **_: Any) -> None:
        """Build this task's docs."""
        self._load_docs(self.benchmark, dict(dataset_kwargs or {}))

    def _load_docs(self, benchmark: Benchmark, options: dict[str, Any]) -> None:
        """Build the docs of a benchmark's tasks, and count the tasks of a complete evaluation."""
        docs = self._dataset(benchmark, options)
        setting, conversational = Setting(options["setting"]), self.evaluation.conversational
        counts = benchmark.count_tasks(setting, docs.unique("domain"), conversational=conversational)
        self.dataset, self._setting_tasks = {"test": docs}, {setting.value: counts}

    def _dataset(self, benchmark: Benchmark, options: dict[str, Any]) -> Any:
        return task_dataset(benchmark, options, self.evaluation, run_store())

    def fewshot_docs(self) -> None:
        """Return None: the benchmark has no examples, and the conversation is the context."""
        return

    def fewshot_context(  # noqa: PLR0917 (the harness's own signature)
        self,
        doc: Doc,
        num_fewshot: int = 0,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        fewshot_as_multiturn: bool = False,
        chat_template: Callable[..., Any] | None = None,
        gen_prefix: str | None = None,
    ) -> Any:
        """Return the prompt: messages in the model's chat template, or plain text without a template."""
        template = chat_template if apply_chat_template else None
        return self._budget.prompt(doc, lambda variant: self._rendered(variant, system_instruction, template))

    def _rendered(self, doc: Doc, instruction: str | None, chat_template: Callable[..., Any] | None) -> Any:
        """Return the prompt of a doc with all its passages."""
        if chat_template is None:
            return self._render_plain(doc, instruction)
        return self._prompts.renderer.render(self._messages(doc, instruction), chat_template)

    def doc_to_text(self, doc: Doc, doc_to_text: Any = None) -> str:
        """Return the prompt for a model without a chat template.

        The harness also calls this for the first doc on loading.
        """
        return self._render_plain(doc, None)

    @property
    def setting(self) -> str:
        """Name of the setting, such as `full_rag`."""
        return str(self.config.dataset_kwargs["setting"])

    def messages(self, doc: Doc) -> list[dict[str, str]]:
        """Return the chat messages of a doc, without a user instruction."""
        return self._messages(doc, None)

    def _messages(self, doc: Doc, instruction: str | None) -> list[dict[str, str]]:
        return self._prompts.messages(doc, instruction)

    def _render_plain(self, doc: Doc, instruction: str | None) -> str:
        return self._prompts.text(doc, instruction)

    def build_all_requests(self, **options: Any) -> None:
        """Build the requests, with a separate request cache for each combination of data, prompts and setting.

        The key of the harness's request cache contains the task name, but neither docs nor prompts. A hash of these is
        added to the part of the key that a task can set.
        """
        if not options.get("apply_chat_template"):
            reject_chat_endpoint(self._foreign_metadata)
        self._is_distributed = options.get("world_size", 1) > 1
        self._prompts.forget_model()
        self._budget = PromptBudget()  # the key is a hash of complete prompts and of the budget
        budget = self._budget_of(options.get("chat_template"))
        key = self._requests_key(options, budget)
        options["tokenizer_name"] = f"{options.get('tokenizer_name', '')}-ragtasks-{key}"
        self._budget = budget
        self._answers, self._scored = TaskAnswers(self.evaluation.end_of_thinking), {}
        _ANSWERED_TOGETHER.add(self)
        super().build_all_requests(**options)
        self._budget.check(self.task_name, len(self._instances))

    def _budget_of(self, chat_template: Any) -> PromptBudget:
        """Return the prompt budget of the model, without a limit if its context length is unknown."""
        model = getattr(chat_template, "__self__", None) or model_in_use()
        n_reply = int((self.config.generation_kwargs or {}).get("max_gen_toks", 0))
        return PromptBudget.of(model, self.evaluation.context_tokens, self.evaluation.too_long, n_reply)

    def _requests_key(self, options: Mapping[str, Any], budget: PromptBudget) -> str:
        """Return a hash of the parts that the harness's key omits: our fingerprint, `--samples` and the rendering.

        A tokenizer's name does not identify its chat template or the template's options. One rendered prompt does.
        """
        longest = max(self._rows(), key=lambda doc: len(doc["history"]))
        names = ("system_instruction", "apply_chat_template", "chat_template")
        rendering: dict[str, Any] = {name: options.get(name) for name in names}
        prompt = self.fewshot_context(longest, **rendering)
        parts = [
            self.fingerprint(),
            options.get("samples"),
            getattr(prompt, "prompt", prompt),
            *budget.fingerprint_parts(),
        ]
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:16]

    def _rows(self) -> list[Doc]:
        """Return the docs as rows. They are cached, because reading is slow and each fingerprint needs them."""
        docs = self.dataset["test"]
        if self._read_rows is None or self._read_rows[0] is not docs:
            self._read_rows = docs, [dict(doc) for doc in docs]
        return self._read_rows[1]

    def fingerprint(self) -> str:
        """Return a hash of everything that affects the requests: docs, templates, limits, generation options."""
        parts = {
            "docs": self._rows(),
            **self._prompts.fingerprint_parts(),
            "generation_kwargs": self.config.generation_kwargs,
        }
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def apply_filters(self) -> None:
        """Extract the answers from the raw replies. The first task to do so scores the answers of all tasks together.

        The harness requests all answers before it applies the filters of the first task.
        """
        self._answers.take(self._instances)
        super().apply_filters()
        for instance in self._instances:
            instance.filtered_resps[self._filter] = self._answers.text(instance)
        if _BYPASS not in self._metric_fn_list and not self._scored:
            score_together([task for task in _ANSWERED_TOGETHER if task.is_scored_with(self)])
        self._config.metadata = self._public_metadata()

    def is_scored_with(self, other: ConversationTask) -> bool:
        """Return whether this task has all its answers, none of them scored, and the same scorer as `other`."""
        answered = bool(self._instances) and all(instance.resps for instance in self._instances)
        return answered and not self._scored and self.scorer is other.scorer

    def answers(self) -> list[ScoredAnswer]:
        """Return the answers to this task's docs, before scoring."""
        self._answers.take(self._instances)
        return [
            saved_answer(
                {
                    "doc": self._logged_doc(instance.doc),
                    "resps": [[str(instance.resps[0] or "")]],
                    "filtered_resps": [self._answers.text(instance)],
                }
            )
            for instance in self._instances
        ]

    def _logged_doc(self, doc: Doc) -> Doc:
        """Return a doc as in the prompt, with usage and with the reason of a missing answer."""
        usage = priced(self._answers.usage(doc["task_id"]), self.evaluation.price)
        if doc["setting"] != Setting.REFERENCE.value and doc["domain"] in self._search_seconds:
            usage.setdefault("retriever_seconds", self._search_seconds[doc["domain"]])
        logged = self._answers.logged_doc(doc, self._budget.kept)
        return {**logged, "usage": usage} if usage else logged

    def take_scores(self, answers: Iterable[ScoredAnswer]) -> None:
        """Store this task's scored answers until the harness requests them doc by doc."""
        self._scored = {answer.task.task_id: answer for answer in answers}

    def process_results(self, doc: Doc, results: list[str]) -> dict[str, Any]:
        """Return metric -> value of one doc; NaN if it is unscored.

        The value of a corpus-level metric is the pair of response and references, if the doc is scored.
        """
        # The harness logs `doc` next, and with it the reasons and scores that are added here. They do not affect its
        # hash.
        doc.update(self._logged_doc(doc))
        if _BYPASS in self._metric_fn_list:
            return dict(super().process_results(doc, results))
        answer = self._scored[doc["task_id"]]
        doc["scoring"] = logged_scoring(answer)
        return logged_values(answer)

    def aggregation(self) -> dict[str, Callable[..., float]]:
        """Return metric -> function that aggregates its values: the mean over scored docs, or the metric's own."""
        if _BYPASS in self._metric_fn_list:
            return dict(super().aggregation())
        return {name: aggregation_of(self._metrics[name]) for name in self._aggregation_list}

    def _public_metadata(self) -> dict[str, Any]:
        """Return the metadata of the results: our configuration and provenance, without the model's arguments.

        The harness merges `--model_args`, which may contain a key or a header, into the metadata.
        """
        foreign = self._foreign_metadata
        public = {key: foreign[key] for key in ("version", "config_source") if key in foreign}
        served = served_model_in_use()
        return {
            **public,
            "ragtasks": {
                "benchmark": self.benchmark.label,
                "suite": self.suite_name,
                "revision": self.benchmark.revision,
                "setting_tasks": self._setting_tasks,
                "configuration": json.loads(self.evaluation.model_dump_json()),
                "fingerprint": self.fingerprint(),
                "run_key": self._run_key,
                "too_long": self._budget.counts(),
                "ragtasks_version": version("ragtasks"),
                "prompts": self._prompts.provenance(),
                **({"server_settings": dict(served.client.learned)} if served and served.client.learned else {}),
                **({"spending": spending} if (spending := self._spending()) else {}),
                "scoring": self.scorer.provenance(),
                **plausibility_of(self._scored.values()),
                **self._summary(),
            },
        }

    def _spending(self) -> Spending:
        """Return the usage that belongs to no single answer: that of the stored run."""
        return self._run_spending

    def _summary(self) -> dict[str, Any]:
        """Return the means for the results; empty before scoring, or if other ranks have some of the answers."""
        return {} if self._is_distributed or not self._scored else saved_summary(self._scored.values())


def _earlier_spending(run: str, spending: Spending) -> Spending:
    """Return the usage of a stored run, marked as spent before this evaluation."""
    return {
        f"run {run}, {source}": [{**call, "spent": Spent.BEFORE.value} for call in calls]
        for source, calls in spending.items()
    }


_ANSWERED_TOGETHER: weakref.WeakSet[ConversationTask] = weakref.WeakSet()
"""Tasks with built requests: those of this evaluation, and possibly of an aborted one."""


def score_together(tasks: Sequence[ConversationTask]) -> None:
    """Score the answers of tasks with the same scorer together and give each task its own answers.

    Implausible answers are marked, logged and counted by setting, except for baselines.
    """
    tasks = sorted(tasks, key=lambda task: task.task_name)
    answers = [answer for task in tasks for answer in task.answers()]
    _LOGGER.info("scoring %d answers of %d task%s", len(answers), len(tasks), "" if len(tasks) == 1 else "s")
    first = tasks[0]
    scored = iter(first.scorer.score(answers))
    scored_tasks = [(task, list(islice(scored, len(task.instances)))) for task in tasks]
    for setting, tasks_and_answers in grouped(scored_tasks, lambda row: row[0].setting).items():
        answers = [answer for _, own in tasks_and_answers for answer in own]
        if getattr(model_in_use(), "is_baseline", False):
            answers = [with_turn_error(answer) for answer in answers]
        else:
            benchmark = first.benchmark if first.evaluation.run == OFFICIAL else None
            checked, answers = check_answers(f"{first.benchmark.label} in {setting}", answers, benchmark)
            for line in checked.lines:
                _LOGGER.warning("%s: %s", checked.label, line)
            record_checked(checked, first.evaluation.max_implausible)
        remaining = iter(answers)
        for task, own in tasks_and_answers:
            task.take_scores(islice(remaining, len(own)))


# Checks before a harness task runs: metrics in its YAML, and keys in the model's arguments.

_LOGGER = logging.getLogger(__name__)


def check_metric_list(owner: str, listed: Iterable[Mapping[str, Any]], declared: Iterable[str]) -> None:
    """Reject a metric list with missing or unknown metrics."""
    names, offered = {str(entry.get("metric")) for entry in listed}, set(declared)
    if names == offered:
        return
    problems = [f"missing {', '.join(sorted(offered - names))}"] if offered - names else []
    problems += [f"unknown {', '.join(sorted(names - offered))}"] if names - offered else []
    raise ConfigurationError(
        f"metric_list of {owner}",
        where="its YAML",
        expected="no metric_list, as the suite declares the metrics; or exactly these metrics",
        found="; ".join(problems),
        next_step="remove `metric_list` from the YAML",
    )


def _require_one_reply(settings: Mapping[str, Any]) -> None:
    """Reject lm_eval's `repeats` above 1: only one reply per task is scored, and the others would be lost."""
    if (repeats := settings.get("repeats", 1)) != 1:
        raise ConfigurationError(
            f"repeats of task {settings.get('task')}",
            where="its YAML",
            expected="1, as each task is scored by one reply",
            found=str(repeats),
            next_step="remove `repeats` from the YAML; to score several replies, run the task once for each",
        )


def warn_of_secrets(metadata: Mapping[str, Any]) -> None:
    """Warn once about unmasked keys in the model's arguments, which the stock harness saves."""
    _warn(tuple(sorted(str(key) for key, value in metadata.items() if masked({key: value}) != {key: value})))


@functools.lru_cache(maxsize=1)
def _warn(names: tuple[str, ...]) -> None:
    if names:
        _LOGGER.warning(
            "--model_args %s: lm_eval prints this and saves it in its results. Next step: set keys in the "
            "environment (OPENAI_API_KEY), or use `ragtasks run`, which masks them",
            ", ".join(names),
        )


@functools.lru_cache(maxsize=1)
def _warn_of_prompts_without_judges() -> None:
    _LOGGER.warning(
        "prompts=official selects the prompts of judges, and there are none. Next step: add judges; for the prompt of "
        "the model, system_prompt=official"
    )


# The docs of one harness task as a `Dataset`.

_TEXT = Value("string")
FEATURES = Features(
    {
        "benchmark": _TEXT,
        "is_sample": Value("bool"),
        "task_id": _TEXT,
        "conversation_id": _TEXT,
        "turn": Value("int64"),
        "domain": _TEXT,
        "setting": _TEXT,
        "run": _TEXT,
        "answerability": _TEXT,
        "question_types": ListOf(_TEXT),
        "multi_turn": _TEXT,
        "history": [{"role": _TEXT, "content": _TEXT}],
        "question": _TEXT,
        "passages": [{"passage_id": _TEXT, "title": _TEXT, "text": _TEXT}],
        "references": ListOf(_TEXT),
        "target": _TEXT,
        "extra": _TEXT,
    }
)
"""Types of a doc's fields. Inferred types would be wrong if the first tasks of a domain have no passages."""


def task_dataset(benchmark: Benchmark, options: dict[str, Any], config: EvaluationConfig, store: Path) -> Dataset:
    """Return the docs of one harness task as a `Dataset`.

    Raises:
        ConfigurationError: if the benchmark has no task in this setting and domain.
    """
    setting = Setting(options["setting"])
    contexts = contexts_for(benchmark, setting, config.run, store)
    domain = options.get("domain")
    docs = build_docs(benchmark, setting, domain, conversational=config.conversational, contexts=contexts)
    if not docs:
        in_domain = f"domain {domain!r}, " if domain else ""
        raise ConfigurationError(f"{benchmark.label} has no task in {in_domain}setting {setting.value}")
    rows = pyarrow.Table.from_pylist([_injected_doc(doc, config.injected) for doc in docs], FEATURES.arrow_schema)
    # The default fingerprint is a hash of the pickled rows, which takes longer than the rest.
    return Dataset(rows, DatasetInfo(features=FEATURES), fingerprint=generate_random_fingerprint())


def _injected_doc(doc: Doc, share: float) -> Doc:
    """Return a doc, with an injected passage if the doc is in the share."""
    if not share:
        return doc
    passages = [Passage(row["passage_id"], row["text"], row["title"]) for row in doc["passages"]]
    return {**doc, "passages": passage_rows(injected(passages, share, doc["task_id"]))}
