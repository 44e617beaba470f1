"""The harness task of ragtasks: real chat messages in, batch-scored answers out.

`ConfigurableTask` builds one user message and scores one document at a time. `ConversationTask` hands over the
conversation turn by turn, scores everything in `apply_filters` (the one place where the harness has all answers at
once) and gives each document its scores in `process_results`, so that `--log_samples` holds every one of them.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask
from lm_eval.filters import build_filter_ensemble

from ragtasks import __version__
from ragtasks.benchmarks import Benchmark, Doc, benchmark_folder, open_benchmark, passage_rows, response_of
from ragtasks.config import config_from_metadata
from ragtasks.environment import data_folder, run_store
from ragtasks.errors import ConfigurationError, clear_error
from ragtasks.files import CLOSED_BOOK, run_key
from ragtasks.harness._averaging import mean_of_scored
from ragtasks.harness._best_of import BestOf
from ragtasks.harness._chat import ChatRenderer, chat_messages, refuse_chat_endpoint, system_text
from ragtasks.harness._dataset import task_dataset
from ragtasks.harness._room import Fitting, room_of
from ragtasks.harness.answering import NoAnswer, SystemAnswer, model_in_use
from ragtasks.harness.judge_model import JudgeModel
from ragtasks.metrics import Metric, Pair, answer_text
from ragtasks.records import Response, Setting
from ragtasks.scoring import ScoredResponse, given_metrics, shared_scorer
from ragtasks.secrets import masked
from ragtasks.suites import suite_named, suite_with
from ragtasks.templates import PromptTemplate, load_template

_LOGGER = logging.getLogger(__name__)
_BYPASS = "bypass"  # the harness's own stand-in for metrics under --predict_only
_FILTER = "none"  # what the harness calls the filter that takes a model's first reply
_SAMPLE_FILTER = "sample"  # the same under a name that stands in every row of the harness's tables
_MAX_WORDS = 150  # what the MTRAG prompts ask for
_OWN_PROCESS_RESULTS = "ConversationTask.process_results"


class ConversationTask(ConfigurableTask):
    """One setting and one domain of a multi-turn RAG benchmark.

    Its YAML gives `dataset_kwargs`: `benchmark` and `setting`, and where they are not the usual ones `domain` (one of
    several), `prompt` and `plain_prompt` (shipped templates: of the system text, of all without a chat template),
    `max_words`, and `suite` (another than the benchmark's own).
    `--metadata` gives the keys of `ragtasks.config.EvaluationConfig`.
    """

    _has_samples_to_pick = True
    """Whether its replies are answers to a question, of which `best_of` may pick one."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the docs, check every option and template, and that the encoder can be had, before a model runs.

        Raises:
            RagtasksError: bad data, a bad option or template, or an encoder that was asked for and cannot be had.
        """
        own = {key: value for key, value in dict(config or {}).items() if key != "class"}
        self._foreign_metadata = dict(own.get("metadata") or {})
        _warn_of_secrets(_secrets_in(self._foreign_metadata))
        self.evaluation = config_from_metadata(self._foreign_metadata)
        options = dict(own.get("dataset_kwargs") or {})
        usual = "generation/closed_book" if self.evaluation.run == CLOSED_BOOK else "generation/system"
        self._system_template = load_template(self.evaluation.system_prompt, options.get("prompt", usual))
        self._plain_template = load_template(
            self.evaluation.plain_prompt, options.get("plain_prompt", "generation/plain")
        )
        self._max_words = self.evaluation.max_words or options.get("max_words", _MAX_WORDS)
        self._results: dict[str, ScoredResponse] = {}
        self._no_answers: dict[str, str] = {}
        self._own_passages: dict[str, list[dict[str, str]]] = {}
        self._is_distributed = False
        self._renderer = self._fresh_renderer()
        self._fitting = Fitting()
        self._best_of = BestOf(self.evaluation)
        if self._best_of.n > 1:
            if not self._has_samples_to_pick:
                raise ConfigurationError(f"best_of: {own.get('task')} has no answers that a judge could pick from")
            own["repeats"] = self._best_of.n
        self._run_key = run_key(run_store(), self.evaluation.run)
        root = benchmark_folder(options["benchmark"], self.evaluation.data, data_folder())
        self.benchmark = open_benchmark(options["benchmark"], root.resolve())
        self.suite_name = suite_with(options.get("suite", self.benchmark.suite), self.evaluation.metrics)
        self._metrics = {metric.name: metric for metric in self._declared_metrics()}
        # Any value keeps the harness from looking our metric names up in a hub over the network.
        own["process_results"] = _OWN_PROCESS_RESULTS
        own["metric_list"] = self._metric_list(own)
        super().__init__(config=own)
        self._filter = _SAMPLE_FILTER if self.benchmark.is_sample else self.benchmark.copy or _FILTER
        self._filters = [build_filter_ensemble(self._filter, [["take_first", None]])]
        self.scorer = shared_scorer(
            self.benchmark.name, self.benchmark.root, self.evaluation, self.suite_name, JudgeModel
        )
        self._render_plain(self.dataset["test"][0], None)
        self._config.metadata = self._public_metadata()

    def _declared_metrics(self) -> Sequence[Metric]:
        """Return every metric of this task, in the order of the harness's table."""
        return suite_named(self.suite_name).metrics

    def _metric_list(self, own: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what the harness lists: the declared metrics that this configuration can give.

        Raises:
            ConfigurationError: the YAML has a list of its own that names others.
        """
        if own.get("metric_list"):
            _check_list(f"task {own.get('task')}", own["metric_list"], self._metrics)
        given = given_metrics(self._metrics.values(), self.evaluation)
        return [self._listed(self._metrics[name]) for name in given]

    def _listed(self, metric: Metric) -> dict[str, Any]:
        """Return a metric as the harness lists it; it wants a name of its own for the aggregation, and calls ours."""
        return {"metric": metric.name, "aggregation": "nanmean", "higher_is_better": metric.higher_is_better}

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **_: Any) -> None:
        """Build this task's docs."""
        self._take_docs(self.benchmark, dict(dataset_kwargs or {}))

    def _take_docs(self, benchmark: Benchmark, options: dict[str, Any]) -> None:
        """Build the docs of a benchmark's tasks, and note how many an evaluation that leaves none out has."""
        docs = self._dataset(benchmark, options)
        setting, conversational = Setting(options["setting"]), self.evaluation.conversational
        counts = benchmark.count_tasks(setting, docs.unique("domain"), conversational=conversational)
        self.dataset, self._setting_tasks = {"test": docs}, {setting.value: counts}

    def _dataset(self, benchmark: Benchmark, options: dict[str, Any]) -> Any:
        return task_dataset(benchmark, options, self.evaluation, run_store())

    def fewshot_docs(self) -> None:
        """Return None: the benchmark has no examples, and the conversation itself is the context."""
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
        """Return the prompt: what the model's chat template makes of the messages, else plain text."""
        if not apply_chat_template or chat_template is None:
            return self._fitting.prompt(doc, lambda shown: self._render_plain(shown, system_instruction))
        return self._fitting.prompt(
            doc, lambda shown: self._renderer.render(self._messages(shown, system_instruction), chat_template)
        )

    @property
    def setting(self) -> str:
        """The setting's name, such as `full_rag`."""
        return str(self.config.dataset_kwargs["setting"])

    def messages(self, doc: Doc) -> list[dict[str, str]]:
        """Return what a chat model is sent where the user adds no instruction."""
        return self._messages(doc, None)

    def _messages(self, doc: Doc, instruction: str | None) -> list[dict[str, str]]:
        """Return what a chat model is sent."""
        return chat_messages(doc, self._system_text(doc, instruction))

    def _system_text(self, doc: Doc, instruction: str | None) -> str:
        return system_text(doc, self._system_template, max_words=self._max_words, instruction=instruction)

    def _render_plain(self, doc: Doc, instruction: str | None) -> str:
        system = self._system_text(doc, instruction)
        return self._plain_template.render(system=system, history=doc["history"], question=doc["question"]).rstrip("\n")

    def build_all_requests(self, **options: Any) -> None:
        """Build the requests; the harness's request cache is kept apart for every other data, prompt and setting.

        That cache's key has the task's name but neither its documents nor its prompts, so a hash of ours goes into a
        part of the key that we may choose.

        Raises:
            ConfigurationError: a chat endpoint without `--apply_chat_template`; prompts that do not fit the model.
        """
        if not options.get("apply_chat_template"):
            refuse_chat_endpoint(self._foreign_metadata)
        self._is_distributed = options.get("world_size", 1) > 1
        self._renderer = self._fresh_renderer()
        self._fitting = Fitting()  # the key is of whole prompts, and of what they are fitted to
        fitting = self._fitting_to(options.get("chat_template"))
        options["tokenizer_name"] = (
            f"{options.get('tokenizer_name', '')}-ragtasks-{self._requests_key(options, fitting)}"
        )
        self._fitting = fitting
        self._results = {}
        self._best_of.forget()
        _ANSWERED_TOGETHER.add(self)
        super().build_all_requests(**options)
        self._fitting.check(self.task_name, len(self._instances))

    def _fresh_renderer(self) -> ChatRenderer:
        return ChatRenderer(folds=self.evaluation.system_role == "user")

    def _fitting_to(self, chat_template: Any) -> Fitting:
        """Return what makes prompts fit the model that is about to be asked, as far as anybody knows it."""
        room = room_of(getattr(chat_template, "__self__", None) or model_in_use(), self.evaluation.context_tokens)
        n_reply = int((self.config.generation_kwargs or {}).get("max_gen_toks", 0))
        return Fitting(room, self.evaluation.too_long, n_reply)

    def _requests_key(self, options: Mapping[str, Any], fitting: Fitting) -> str:
        """Return a hash of what the harness's own key leaves out: our fingerprint, `--samples`, and how it renders.

        A tokeniser's name tells nothing of its chat template or of the options to it; one rendered prompt does.
        """
        longest = max(self.dataset["test"], key=lambda doc: len(doc["history"]))
        names = ("system_instruction", "apply_chat_template", "chat_template")
        rendering: dict[str, Any] = {name: options.get(name) for name in names}
        prompt = self.fewshot_context(longest, **rendering)
        parts = [self.fingerprint(), options.get("samples"), getattr(prompt, "prompt", prompt), *fitting.decides()]
        return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:16]

    def fingerprint(self) -> str:
        """Return a hash of everything that decides the requests: docs, templates, limits, generation options."""
        parts = {
            "docs": [dict(doc) for doc in self.dataset["test"]],
            "system_prompt": self._system_template.sha256,
            "plain_prompt": self._plain_template.sha256,
            "max_words": self._max_words,
            "generation_kwargs": self.config.generation_kwargs,
            **({"best_of": self._best_of.n} if self._best_of.n > 1 else {}),
        }
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def apply_filters(self) -> None:
        """Take the answers out of the raw replies; the first task to do so scores those of all tasks in one pass.

        The harness asks a model for all answers before the first task's filters are applied.
        """
        self._settle()
        for instance in self._instances:
            instance.resps = [writable(reply) for reply in instance.resps]
        super().apply_filters()
        for instance in self._instances:
            instance.filtered_resps[self._filter] = self._answer(instance)
        if _BYPASS not in self._metric_fn_list and not self._results:
            _score_together([task for task in _ANSWERED_TOGETHER if task.awaits_scores_of(self)])
        self._config.metadata = self._public_metadata()

    def _settle(self) -> None:
        """Make the reply that counts the first of each request, and note which did not come; safe to repeat."""
        self._best_of.settle(self._instances, self._response)
        replies = {instance.doc["task_id"]: instance.resps[0] for instance in self._instances}
        self._no_answers = {name: reply.reason for name, reply in replies.items() if isinstance(reply, NoAnswer)}
        own = {name: reply.passages for name, reply in replies.items() if isinstance(reply, SystemAnswer)}
        self._own_passages |= {name: passage_rows(passages) for name, passages in own.items()}

    def _response(self, instance: Instance, reply: Any) -> Response:
        """Return one of several replies as a response."""
        shown = self._shown(instance.doc)
        doc = {**shown, "no_answer": reply.reason} if isinstance(reply, NoAnswer) else shown
        return response_of(doc, answer_text(str(reply or ""), self.evaluation.end_of_thinking))

    def awaits_scores_of(self, other: ConversationTask) -> bool:
        """Return whether this task's answers are all there, not scored yet, and scored like those of `other`."""
        answered = bool(self._instances) and all(instance.resps for instance in self._instances)
        return answered and not self._results and self.scorer is other.scorer

    def responses(self) -> list[Response]:
        """Return the answers to this task's docs."""
        self._settle()
        return [response_of(self._reported(instance.doc), self._answer(instance)) for instance in self._instances]

    def _reported(self, doc: Doc) -> Doc:
        """Return a doc as the model was shown it, with the reason why there is no answer to it, where there is none."""
        shown, reason = self._shown(doc), self._no_answers.get(doc["task_id"])
        return shown if reason is None else {**shown, "no_answer": reason}

    def _shown(self, doc: Doc) -> Doc:
        """Return a doc with the passages its answer rests on: a system's own, or those that fit into the prompt."""
        n_kept, own = self._fitting.kept.get(doc["task_id"]), self._own_passages.get(doc["task_id"])
        if own is not None:
            return {**doc, "passages": own}
        return doc if n_kept is None else {**doc, "passages": doc["passages"][:n_kept]}

    def take_results(self, results: Sequence[ScoredResponse], responses: Sequence[Response]) -> None:
        """Keep the scores of this task's responses until the harness asks for them document by document."""
        self._results = {item.task.task_id: result for item, result in zip(responses, results, strict=True)}

    def _answer(self, instance: Instance) -> str:
        return answer_text(str(instance.resps[0] or ""), self.evaluation.end_of_thinking)

    def process_results(self, doc: Doc, results: list[str]) -> dict[str, Any]:
        """Return metric -> value of one document; NaN where it is unscored.

        A score of all responses together has a pair here, the response and its reference answer, where it is scored.
        """
        # The harness logs this very dictionary next: the reasons and the verdict go along, and change no hash.
        doc.update(self._reported(doc), **self._best_of.note(doc["task_id"]))
        if _BYPASS in self._metric_fn_list:
            return dict(super().process_results(doc, results))
        result = self._results[doc["task_id"]]
        doc["scoring"] = result.notes
        values = {name: math.nan if score.value is None else score.value for name, score in result.scores.items()}
        scored = [name for name, value in values.items() if not math.isnan(value)]
        return values | {name: (results[0], doc["target"]) for name in scored if self._aggregate(name)}

    def _aggregate(self, metric: str) -> Callable[[Iterable[Pair | float]], float] | None:
        aggregate = self._metrics[metric].aggregate
        return None if aggregate is None else lambda pairs: aggregate(item for item in pairs if isinstance(item, tuple))

    def aggregation(self) -> dict[str, Callable[..., float]]:
        """Return metric -> mean over the scored documents, or what the metric itself makes of all responses.

        Where every document is scored this is the harness's own `mean`, which comes with a standard error. Another
        rank's documents are not known here, so with several ranks it never is.
        """
        if _BYPASS in self._metric_fn_list:
            return dict(super().aggregation())
        return {name: self._aggregate(name) or self._mean(name) for name in self._aggregation_list}

    def _mean(self, metric: str) -> Callable[[Iterable[float]], float]:
        return mean if self._all_scored(metric) else mean_of_scored

    def _all_scored(self, metric: str) -> bool:
        results = self._results.values()
        return not self._is_distributed and all(result.scores[metric].value is not None for result in results)

    def _public_metadata(self) -> dict[str, Any]:
        """Return what the results show: our configuration and provenance, none of the model's arguments.

        The harness merges `--model_args` into the metadata, and those may hold a key or a header.
        """
        kept = {
            key: self._foreign_metadata[key] for key in ("version", "config_source") if key in self._foreign_metadata
        }
        return {
            **kept,
            "ragtasks": {
                "benchmark": self.benchmark.label,
                "suite": self.suite_name,
                "revision": self.benchmark.revision,
                "setting_tasks": self._setting_tasks,
                "configuration": json.loads(self.evaluation.model_dump_json()),
                "fingerprint": self.fingerprint(),
                "run_key": self._run_key,
                "too_long": self._fitting.counts(),
                "ragtasks_version": __version__,
                "prompts": {"system": _named(self._system_template), "plain": _named(self._plain_template)},
                "scoring": self.scorer.provenance(),
                **self._best_of.provenance(),
            },
        }


def _check_list(what: str, listed: Iterable[Mapping[str, Any]], declared: Iterable[str]) -> None:
    """Refuse a list of metrics that is not the declared one: names that are missing, names that nothing computes."""
    names, known = {str(item.get("metric")) for item in listed}, set(declared)
    if names == known:
        return
    found = [f"missing {', '.join(sorted(known - names))}"] if known - names else []
    found += [f"unknown {', '.join(sorted(names - known))}"] if names - known else []
    raise ConfigurationError(
        clear_error(
            f"metric_list of {what}",
            where="its YAML",
            expected="no such list: the suite declares the metrics; or exactly these",
            found="; ".join(found),
            next_step="take `metric_list` out of the YAML",
        )
    )


def _secrets_in(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the model's arguments that hold a key and are not masked: the stock harness merges them in as they are."""
    return tuple(sorted(str(key) for key, value in metadata.items() if masked({key: value}) != {key: value}))


@functools.lru_cache(maxsize=1)
def _warn_of_secrets(names: tuple[str, ...]) -> None:
    """Say once, before the model runs, that the harness writes what stands in some arguments."""
    if names:
        _LOGGER.warning(
            "--model_args %s: lm_eval writes this with its results, and prints it. Next step: name keys in the "
            "environment (OPENAI_API_KEY), or take `ragtasks run`, which masks them",
            ", ".join(names),
        )


def writable(reply: Any) -> Any:
    """Return a reply whose halves of a character are replaced: a server that cuts at a token limit may send one.

    No UTF-8 holds it, so one such reply would keep the harness from saving all of them. A reply that did not come keeps
    its reason.
    """
    if not isinstance(reply, str):
        return reply
    written = reply.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return reply if written == reply else written  # a reply that knows more than its text stays what it is


def _named(template: PromptTemplate) -> str:
    return f"{template.name} ({template.sha256[:16]})"


_ANSWERED_TOGETHER: weakref.WeakSet[ConversationTask] = weakref.WeakSet()
"""The tasks whose requests were built: one evaluation's, and what an aborted one may have left."""


def _score_together(tasks: Sequence[ConversationTask]) -> None:
    """Score the answers of several tasks of one evaluation in one pass and hand each task its own."""
    answers = [(task, task.responses()) for task in sorted(tasks, key=lambda task: task.task_name)]
    _LOGGER.info("scoring %d answers of %d tasks", sum(len(responses) for _, responses in answers), len(answers))
    results = iter(answers[0][0].scorer.score([response for _, responses in answers for response in responses]))
    for task, responses in answers:
        task.take_results([next(results) for _ in responses], responses)


__all__ = ["ConversationTask", "writable"]
