"""A judge in this process: a model of the harness, loaded at the first request.

Cached replies require no loading. If the model fails to load, only its verdicts are missing, as with an unreachable
endpoint.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.registry import MODEL_REGISTRY
from lm_eval.api.registry import get_model as harness_model

from ragtasks.clients import CallUsage, Decoding, Journal, Outcome, Prompt, Reply, Tally, read_text
from ragtasks.config import HarnessModel
from ragtasks.errors import ConfigurationError, JudgeError, close_matches
from ragtasks.files import refuse_pickles
from ragtasks.harness.extras import extra_of, vllm_requirement
from ragtasks.harness.model_folder import check_model_folder
from ragtasks.progress import Progress, no_progress

# Models share one machine, and their libraries do not support several models at once.
_ONE_AT_A_TIME = threading.Lock()


class JudgeModel:
    """Answers prompts with a model that the harness loads, one model at a time."""

    def __init__(self, model: HarnessModel, decoding: Decoding | None = None) -> None:
        import lm_eval.models  # noqa: F401 (the harness registers its models only while it has none)

        if (model_type := model.lm_eval) not in MODEL_REGISTRY:
            raise ConfigurationError(
                f"judges: unknown model type {model_type!r}: {close_matches(model_type, MODEL_REGISTRY)}"
            )
        self._model, self._decoding = model, decoding or Decoding()
        self._client: ModelClient | None = None

    @property
    def name(self) -> str:
        """Model type and weights, such as `hf/Qwen/Qwen2.5-7B-Instruct`."""
        return self._model.model

    def describe(self) -> dict[str, Any]:
        """Return the settings that affect replies: model, arguments, and decoding without its seed."""
        decoding = self._decoding.describe()
        del decoding["seed"]
        structured = {"structured": True} if self._model.structured else {}
        return {"model": self.name, "arguments": self._model.arguments, "decoding": decoding, **structured}

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply per prompt, in order (see `Client.answer`). Without prompts, no model is loaded."""
        if not prompts:
            return []
        with _ONE_AT_A_TIME:
            client = self._load()
            try:
                return client.answer(prompts, progress, journal)
            except Exception as error:  # torch uses assertions, and vLLM's errors have no common class with others
                raise self._fatal(error) from error

    def _load(self) -> ModelClient:
        if self._client is None:
            try:
                if extra_of(self._model.lm_eval) == "vllm":
                    vllm_requirement().check()
                check_model_folder(self._model.lm_eval, self._model.arguments)
                refuse_pickles("model in this process", str(self._model.arguments.get("pretrained", "")) or self.name)
                # The harness's own default for a command, which falls back to the CPU. That of its class does not.
                device = {"device": "cuda:0"} if extra_of(self._model.lm_eval) == "hf" else {}
                arguments = {**device, **self._model.arguments}
                model = harness_model(self._model.lm_eval).create_from_arg_obj(arguments)
                self._client = ModelClient(model, self.name, self._decoding, is_structured=self._model.structured)
            except ConfigurationError as error:
                raise JudgeError(str(error)) from error
            except Exception as error:  # ten file formats with different errors for damaged files
                raise self._fatal(error) from error
        return self._client

    def _fatal(self, error: Exception) -> JudgeError:
        return JudgeError(
            "model in this process",
            where=self.name,
            expected="a model that loads and replies",
            found=f"{type(error).__name__}: {error}",
            next_step="check model_args, the model's files and the memory, then run again: replies are cached",
        )


# Any model of the harness as a client in this process: `hf`, `vllm` or another registered type. The harness's models
# accept complete prompts and return plain texts. An endpoint also enforces a context limit and reports reply lengths
# and truncation. Here, these are computed with the model's tokenizer.

_LARGE_BATCH = 256  # prompts per call of a model with its own batching, and the maximum for other models
_BATCHES = 4  # batches per call for other models; progress is updated after each call, and a kill loses one call


class ModelClient:
    """Answers prompts with a model of the harness, in the batches of the model."""

    def __init__(self, model: LM, name: str, decoding: Decoding | None = None, *, is_structured: bool = False) -> None:
        self._model, self._name, self._decoding = model, name, decoding or Decoding()
        self._is_structured = is_structured

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        """Return one reply per prompt, in order (see `Client.answer`).

        A prompt that exceeds the model's context is FAILED and not sent, because the harness would silently drop its
        beginning. A reply is TRUNCATED if it has as many tokens as allowed, counted by tokenizing it again.
        """
        tally = Tally(self._name, len(prompts), progress)
        replies: list[Reply] = []
        size = getattr(self._model, "batch_size", None)
        n_together = min(_BATCHES * size, _LARGE_BATCH) if isinstance(size, int) and size > 0 else _LARGE_BATCH
        for start in range(0, len(prompts), n_together):
            for reply in self._batch(prompts[start : start + n_together], start, journal):
                if journal is not None:
                    journal.record(len(replies), reply)
                replies.append(reply)
                tally.add(reply)
        return replies

    def _batch(self, prompts: Sequence[Prompt], start: int, journal: Journal | None) -> list[Reply]:
        replies: dict[int, Reply] = {}
        texts: dict[int, str] = {}
        reply_limits = [self._decoding.max_tokens * prompt.longer for prompt in prompts]
        for offset, prompt in enumerate(prompts):
            recalled = journal.recall(start + offset) if journal is not None else None
            texts[offset] = self._rendered(prompt)
            if reply := recalled or self._too_long(texts[offset], reply_limits[offset]):
                replies[offset] = reply
        missing = [offset for offset in texts if offset not in replies]
        requests = [
            Instance(
                "generate_until",
                {},
                (texts[offset], self._settings(prompts[offset], reply_limits[offset])),
                offset,
                ("ragtasks_client", offset, 1),
            )
            for offset in missing
        ]
        generated = self._model.generate_until(requests, disable_tqdm=True) if requests else []
        for offset, answer in zip(missing, generated, strict=True):
            replies[offset] = self._reply(texts[offset], answer, reply_limits[offset])
        return [replies[offset] for offset in range(len(prompts))]

    def _rendered(self, prompt: Prompt) -> str:
        """Return the prompt text: the chat template, or labelled lines for a model without a template."""
        # Models without a tokenizer have their own template.
        tokenizer = getattr(self._model, "tokenizer", None)
        if tokenizer is None or getattr(tokenizer, "chat_template", None) is not None:
            return str(self._model.apply_chat_template(prompt.payload(), add_generation_prompt=True))
        if len(prompt.messages) == 1:
            return prompt.messages[0].content
        lines = [f"{message.role.capitalize()}: {message.content}" for message in prompt.messages]
        return "\n\n".join([*lines, "Assistant:"])

    def _settings(self, prompt: Prompt, reply_limit: int) -> dict[str, Any]:
        settings: dict[str, Any] = {"until": [], "max_gen_toks": reply_limit}
        if self._decoding.temperature is not None:
            settings["temperature"] = self._decoding.temperature
            settings["do_sample"] = self._decoding.temperature > 0
        if self._is_structured and prompt.schema is not None:
            from vllm.sampling_params import StructuredOutputsParams

            settings["structured_outputs"] = StructuredOutputsParams(json=dict(prompt.schema))
        return settings

    def _too_long(self, text: str, reply_limit: int) -> Reply | None:
        n_tokens = self._n_tokens(text)
        n_context = getattr(self._model, "max_length", None)
        if n_tokens is None or not isinstance(n_context, int) or n_tokens + reply_limit <= n_context:
            return None
        reason = f"{n_tokens} tokens of prompt and {reply_limit} of reply exceed the context of {n_context}"
        return Reply(Outcome.FAILED, reason=reason, usage=CallUsage(n_tokens))

    def _reply(self, prompt: str, answer: str, reply_limit: int) -> Reply:
        n_tokens = self._n_tokens(answer)
        cut_off = n_tokens is not None and n_tokens >= reply_limit
        return read_text(
            answer,
            finish_reason="length" if cut_off else "",
            usage=CallUsage(self._n_tokens(prompt), n_tokens),
            raw=answer,
        )

    def _n_tokens(self, text: str) -> int | None:
        encode = getattr(self._model, "tok_encode", None)
        return None if encode is None else len(encode(text, add_special_tokens=False))
