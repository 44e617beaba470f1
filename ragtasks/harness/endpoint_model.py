"""A RAG system behind HTTP as a harness model. It receives the conversation, and its passages are scored.

Like the baselines, it reads the doc of a request instead of the prompt: a system with its own retrieval needs no
passages in a system message.
"""

from __future__ import annotations

from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.api.registry import register_model

from ragtasks.clients import Reply, system_endpoint
from ragtasks.config.environment import secret
from ragtasks.errors import ConfigurationError
from ragtasks.harness.answers import NoAnswer, SystemAnswer
from ragtasks.harness.models import AnswersOnly
from ragtasks.records import Setting
from ragtasks.results import GivenAnswer
from ragtasks.scoring import System, request_body

_HARNESS_ARGUMENTS = frozenset({"batch_size", "max_batch_size", "device"})
_NAME = "rag-system"


@register_model("ragtasks-endpoint")
class RagEndpoint(AnswersOnly):
    """Sends each task to a system.

    Arguments are the keys of an endpoint, `protocol` (`openai`, `plain`) and `model`.
    """

    label = "a RAG system"
    tokenizer_name = "ragtasks-endpoint"

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        options = {key: value for key, value in arguments.items() if key not in _HARNESS_ARGUMENTS}
        if "num_concurrent" in options:  # the harness's name of the option
            options["slots"] = options.pop("num_concurrent")
        self.system = System(*system_endpoint(options, _NAME, "openai"), secret)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Return the answer to each request with its passages; `NoAnswer` for a failed request."""
        bodies = [self._request_body(request) for request in requests]
        answers = self.system.ask(bodies, journal=_Journal(self, requests, bodies))
        return [_harness_answer(answer) for answer in answers]

    def _request_body(self, request: Instance) -> dict[str, Any]:
        setting = Setting(request.doc["setting"])
        if setting is Setting.AGENTIC:  # the system searches by itself and does not use our tools
            raise ConfigurationError(
                "ragtasks-endpoint: an agentic harness task cannot score a system's own searches. Next step: "
                "`ragtasks score ADDRESS --setting agentic` scores the `searches` in its replies"
            )
        with_passages = self.system.gives_passages(setting)
        return request_body(request.doc, with_passages=with_passages)


class _Journal:
    """Journal of one call. The harness's caches receive each answer as it arrives, so a kill loses none."""

    def __init__(self, model: RagEndpoint, requests: list[Instance], bodies: list[dict[str, Any]]) -> None:
        self._model, self._requests, self._bodies = model, requests, bodies

    def recall(self, index: int) -> Reply | None:
        return None

    def record(self, index: int, reply: Reply) -> None:
        answer = _harness_answer(self._model.system.answer_in(reply, "contexts" in self._bodies[index]))
        if not isinstance(answer, NoAnswer):
            self._model.cache_hook.add_partial("generate_until", self._requests[index].args, answer)


def _harness_answer(answer: GivenAnswer) -> str:
    if answer.no_answer:
        return NoAnswer(answer.no_answer, answer.usage)
    if answer.passages is None and not answer.usage:
        return answer.text
    return SystemAnswer(answer.text, answer.passages, answer.usage)
