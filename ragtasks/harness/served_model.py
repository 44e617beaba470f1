"""A model of lm_eval behind a server, with requests sent by the client of the judges.

The model's own class builds the requests and extracts the text of a reply. The client handles rate limits, attempts,
failures and unsupported settings.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM

from ragtasks.clients import (
    DEFAULT_KEY,
    Decoding,
    Endpoint,
    GivenBodies,
    Outcome,
    Prompt,
    Reply,
    calls_of,
    early_end,
    model_client,
    parts_of,
    read_completion,
    text_and_thought,
    with_usage,
)
from ragtasks.harness.answers import NoAnswer, SystemAnswer
from ragtasks.thoughts import END_OF_THOUGHT, split_thought

PLAIN_STOP = "\nUser:"
"""Stop string of the tasks: the beginning of the user's next turn in a plain-text prompt."""
_BODIES = frozenset({"choices", "error"})  # keys of chat completions, and of errors with status 200


def stop_strings(options: Mapping[str, Any]) -> list[str]:
    """Return the stop strings of a request; the option may be a single text."""
    until = options.get("until") or []
    return [until] if isinstance(until, str) else list(until)


class ServedModel:
    """Sends requests of the harness to the server of a model."""

    def __init__(self, model: Any, arguments: Mapping[str, Any], end_of_thinking: str = END_OF_THOUGHT) -> None:
        """Wrap a loaded model. `arguments` are those of the user."""
        self._model, self._end_of_thinking = model, end_of_thinking
        limits: dict[str, Any] = {
            "slots": max(1, model._concurrent) * max(1, model._batch_size),
            "timeout_seconds": model.timeout,
        }
        if "max_retries" in arguments:
            limits["attempts"] = max(1, model.max_retries)
        self.client = model_client(
            str(model.model),
            str(model.base_url),
            model.header,
            functools.partial(_Generations, model=model),
            checks_certificate=model.verify_certificate,
            key_source="--model_args header" if arguments.get("header") else DEFAULT_KEY,
            **limits,
        )

    def prompt(self, request: Instance) -> Prompt:
        """Return the request to the server."""
        return self._prompt(*request.args[:2])

    def _prompt(self, prompt: Any, request_options: Mapping[str, Any]) -> Prompt:
        model, options = self._model, copy.deepcopy(dict(request_options))
        if self.is_chat and "until" in options:
            options["until"] = [stop for stop in stop_strings(options) if stop != PLAIN_STOP]
        if model.tokenized_requests:
            (tokens,) = model.tok_encode([prompt], add_special_tokens=model.add_bos_token)
            prompt = tokens[-(model.max_length - options.get("max_gen_toks", model._max_gen_toks)) :]
        # As in the harness, the end-of-text string is sent only without concurrency.
        further = {} if model._concurrent > 1 else {"eos": model.eos_string}
        messages = model.create_message([prompt])
        body = model._create_payload(messages, generate=True, gen_kwargs=options, seed=model._seed, **further)
        if not body.get("stop"):
            body.pop("stop", None)
        return Prompt((), body=body)

    @property
    def is_chat(self) -> bool:
        """The server accepts chat messages."""
        from lm_eval.models.openai_completions import LocalChatCompletion

        return isinstance(self._model, LocalChatCompletion)

    def answer(self, request: Instance, reply: Reply) -> str:
        """Return the answer in a reply, with its usage if the server counts tokens."""
        calls = [call.json_values for call in calls_of(reply)]
        usage = {"calls": calls} if any(call.keys() & {"input_tokens", "output_tokens"} for call in calls) else {}
        if reply.outcome is not Outcome.ANSWERED or reply.text is None:
            return NoAnswer(reply.reason, usage)
        text = reply.text
        if self.is_chat and PLAIN_STOP in stop_strings(request.args[1]):
            text = self._without_next_turn(text)
        tool_calls = _tool_calls(json.loads(reply.raw), request.args[1])
        return SystemAnswer(text, None, usage, tool_calls) if usage or tool_calls else text

    def _without_next_turn(self, text: str) -> str:
        """Return a text up to `PLAIN_STOP`, which is not sent because vLLM would stop at it within a thought."""
        _, answer = split_thought(text, self._end_of_thinking)
        kept, stop, _ = answer.partition(PLAIN_STOP)
        return text[: text.rindex(answer)] + kept if stop and answer in text else text

    def probe(self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> Reply:
        """Send a short conversation once and return the reply, with the outcome FAILED if none arrives."""
        defaults = {"max_gen_toks": 256, "temperature": 0.0, "do_sample": False, "until": [], **options}
        prompt = self._prompt(self._model.apply_chat_template([dict(message) for message in messages]), defaults)
        return self.client.probe(prompt, self._model.timeout)


def served_model(model: LM, arguments: Mapping[str, Any], end_of_thinking: str) -> ServedModel | None:
    """Return a model as a `ServedModel`, or None if it is not behind a server."""
    from lm_eval.models.api_models import TemplateAPI

    return ServedModel(model, arguments, end_of_thinking) if isinstance(model, TemplateAPI) else None


class _Generations(GivenBodies):
    """Parses replies with the harness's class of the model."""

    def __init__(self, endpoint: Endpoint, decoding: Decoding, model: Any) -> None:
        super().__init__(endpoint, decoding)
        self._model = model

    def read(self, body: bytes, sent: Mapping[str, Any]) -> Reply:
        """Return the reply in a body. An empty text of the model is an answer."""
        # Other parsers reject half of a surrogate pair.
        content, raw = json.loads(body), body.decode()
        text = self._text(content)
        reply = with_usage(Reply(Outcome.ANSWERED, text=text, raw=raw), content)
        if early := early_end(content, offers_tools="tools" in sent):
            return replace(reply, outcome=early[0], text=None, reason=early[1])
        if text or _tool_calls(content, sent):
            return replace(reply, text=text or "")
        if "text" in parts_of(content)[1] or not _BODIES & parts_of(content)[2].keys():
            return (
                reply if text is not None else replace(reply, outcome=Outcome.EMPTY, reason="the reply has no content")
            )
        completion = read_completion(body)
        return completion if text is None or completion.outcome in {Outcome.REFUSED, Outcome.MALFORMED} else reply

    def _text(self, content: Any) -> str | None:
        """Return the text of the first choice, or None if the harness's class finds no text."""
        parts = parts_of(content)[0].get("content")
        try:
            if isinstance(parts, list):
                return text_and_thought(parts)[0] or None
            texts: list[str | None] = self._model.parse_generations(outputs=content)
        except (LookupError, TypeError, AttributeError):
            return None
        return texts[0] if texts else None


def _tool_calls(content: Any, sent: Mapping[str, Any]) -> list[Any]:
    """Return the calls in a reply to a request with tools."""
    calls = parts_of(content)[0].get("tool_calls") if "tools" in sent else None
    return calls if isinstance(calls, list) else []
