"""The harness task of ragtasks: real chat messages in, batch-scored answers out.

`ConfigurableTask` builds one user message and scores one document at a time. `ConversationTask` hands over the
conversation turn by turn, scores everything in `apply_filters` (the one place where the harness has all answers at
once) and gives each document its figures in `process_results`, so that `--log_samples` holds every one of them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask
from lm_eval.filters import build_filter_ensemble

from ragtasks.benchmarks.registry import benchmark_folder, open_benchmark
from ragtasks.config import config_from_metadata
from ragtasks.docs import Doc, response_of
from ragtasks.environment import data_folder
from ragtasks.harness.chat import chat_messages, refuse_chat_endpoint, render_chat, system_text
from ragtasks.harness.dataset import task_dataset
from ragtasks.harness.scoring import ResponseScorer
from ragtasks.metrics.thinking import answer_text
from ragtasks.records import Response, Score
from ragtasks.templates import load_template

_LOGGER = logging.getLogger(__name__)
_BYPASS = "bypass"  # the harness's own stand-in for metrics under --predict_only
_FILTER = "none"  # what the harness calls the filter that takes a model's first reply
_SAMPLE_FILTER = "sample"  # the same under a name that stands in every row of the harness's tables
_OWN_PROCESS_RESULTS = "ConversationTask.process_results"


def mean_of_scored(values: Iterable[float]) -> float:
    """Return the mean of the values that are numbers; NaN where none is.

    The harness's own `nanmean` gives the same figure, but bootstraps its standard error 100,000 times for each metric
    of each task, which takes minutes. Items of one conversation are not independent, so that error is too small anyway.
    """
    scored = [value for value in values if not math.isnan(value)]
    return sum(scored) / len(scored) if scored else math.nan


class ConversationTask(ConfigurableTask):
    """One setting and one domain of a multi-turn RAG benchmark.

    Its YAML gives `dataset_kwargs` with `benchmark`, `setting` and `domain`; `--metadata` gives the keys of
    `ragtasks.config.EvaluationConfig`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """Read the docs, check every option and template, and that the encoder can be had, before a model runs.

        Raises:
            RagtasksError: bad data, a bad option or template, or a missing library.
        """
        own = {key: value for key, value in dict(config or {}).items() if key != "class"}
        self._foreign_metadata = dict(own.get("metadata") or {})
        self.evaluation = config_from_metadata(self._foreign_metadata)
        self._system_template = load_template(self.evaluation.system_prompt, "generation/system")
        self._plain_template = load_template(self.evaluation.plain_prompt, "generation/plain")
        self._scores: dict[str, dict[str, Score]] = {}
        self._notes: dict[str, dict[str, Any]] = {}
        self._is_distributed = False
        # Any value keeps the harness from looking our metric names up in a hub over the network.
        own["process_results"] = _OWN_PROCESS_RESULTS
        super().__init__(config=own)
        self._filter = _SAMPLE_FILTER if self.benchmark.is_sample else _FILTER
        self._filters = [build_filter_ensemble(self._filter, [["take_first", None]])]
        self._scorer = ResponseScorer(self.benchmark, self.evaluation)
        self._render_plain(self.dataset["test"][0], None)
        self._config.metadata = self._public_metadata()

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **_: Any) -> None:
        """Read the benchmark's files and build this task's docs."""
        options = dict(dataset_kwargs or {})
        root = benchmark_folder(options["benchmark"], self.evaluation.data, data_folder())
        self.benchmark = open_benchmark(options["benchmark"], root.resolve())
        self.dataset = {"test": task_dataset(self.benchmark, options, self.evaluation)}

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
            return self._render_plain(doc, system_instruction)
        return render_chat(chat_messages(doc, self._system_text(doc, system_instruction)), chat_template)

    def _system_text(self, doc: Doc, instruction: str | None) -> str:
        max_words = self.evaluation.max_words
        return system_text(doc, self._system_template, max_words=max_words, instruction=instruction)

    def _render_plain(self, doc: Doc, instruction: str | None) -> str:
        system = self._system_text(doc, instruction)
        return self._plain_template.render(system=system, history=doc["history"], question=doc["question"]).rstrip("\n")

    def build_all_requests(self, **options: Any) -> None:
        """Build the requests; the harness's request cache is kept apart for every other data, prompt and setting.

        That cache's key has the task's name but neither its documents nor its prompts, so our fingerprint goes into a
        part of the key that is ours to choose.

        Raises:
            ConfigurationError: a chat endpoint without `--apply_chat_template`.
        """
        if not options.get("apply_chat_template"):
            refuse_chat_endpoint(self._foreign_metadata)
        self._is_distributed = options.get("world_size", 1) > 1
        options["tokenizer_name"] = f"{options.get('tokenizer_name', '')}-ragtasks-{self.fingerprint()}"
        super().build_all_requests(**options)

    def fingerprint(self) -> str:
        """Return a hash of everything that decides the requests: docs, templates, limits, generation options."""
        parts = {
            "docs": [dict(doc) for doc in self.dataset["test"]],
            "system_prompt": self._system_template.sha256,
            "plain_prompt": self._plain_template.sha256,
            "max_words": self.evaluation.max_words,
            "generation_kwargs": self.config.generation_kwargs,
        }
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]

    def apply_filters(self) -> None:
        """Take the answers out of the raw replies and score them all in one pass."""
        super().apply_filters()
        if _BYPASS in self._metric_fn_list:
            return
        responses = [self._response(instance) for instance in self._instances]
        for response, result in zip(responses, self._scorer.score(responses), strict=True):
            self._scores[response.task.task_id] = result.scores
            self._notes[response.task.task_id] = result.notes
        self._config.metadata = self._public_metadata()

    def _response(self, instance: Instance) -> Response:
        text = answer_text(str(instance.filtered_resps[self._filter] or ""), self.evaluation.end_of_thinking)
        instance.filtered_resps[self._filter] = text
        return response_of(instance.doc, text)

    def process_results(self, doc: Doc, results: list[str]) -> dict[str, float]:
        """Return metric -> value of one document; NaN where it is unscored."""
        if _BYPASS in self._metric_fn_list:
            return dict(super().process_results(doc, results))
        scores = self._scores[doc["task_id"]]
        # The harness logs this very dictionary next: the reasons and the verdict go along, and change no hash.
        doc["scoring"] = self._notes[doc["task_id"]]
        return {name: math.nan if score.value is None else score.value for name, score in scores.items()}

    def aggregation(self) -> dict[str, Callable[..., float]]:
        """Return metric -> mean over the scored documents.

        Where every document is scored this is the harness's own `mean`, which comes with a standard error. Another
        rank's documents are not known here, so with several ranks it never is.
        """
        if _BYPASS in self._metric_fn_list:
            return dict(super().aggregation())
        return {name: mean if self._all_scored(name) else mean_of_scored for name in self._aggregation_list}

    def _all_scored(self, metric: str) -> bool:
        return not self._is_distributed and all(scores[metric].value is not None for scores in self._scores.values())

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
                "revision": self.benchmark.revision,
                "configuration": json.loads(self.evaluation.model_dump_json()),
                "fingerprint": self.fingerprint(),
                "scoring": self._scorer.provenance(),
            },
        }


__all__ = ["ConversationTask", "mean_of_scored"]
