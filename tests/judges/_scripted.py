"""Responses of every type, and scripted judges."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragtasks.clients import CallUsage, Client, Journal, Outcome, Prompt, Reply
from ragtasks.errors import JudgeError
from ragtasks.judges import Rubric, Verdicts
from ragtasks.judges._panel import judge
from ragtasks.progress import Progress, no_progress
from ragtasks.records import Answerability, Message, Passage, Response, Role, Task


def response(
    text: str = "The ferry runs from April.",
    *,
    task_id: str = "c<::>2",
    answerability: Answerability = Answerability.ANSWERABLE,
    passages: Sequence[str] = ("The ferry of Lindvik runs from April to October.",),
    question: str = "When does it run?",
    history: Sequence[str] = ("Is there a ferry in Lindvik?", "Yes, one."),
) -> Response:
    roles = (Role.USER, Role.ASSISTANT)
    messages = [Message(roles[index % 2], said) for index, said in enumerate([*history, question])]
    task = Task(
        task_id=task_id,
        conversation_id="c",
        turn=2,
        domain="govt",
        messages=tuple(messages),
        target="From April to October.",
        answerability=answerability,
        question_types=("Factoid",),
        multi_turn="Follow-up",
        references=(),
    )
    return Response(task, tuple(Passage(f"p{index}", passage) for index, passage in enumerate(passages)), text)


def verdicts_of(responses: Sequence[Response], rubrics: Sequence[Rubric], clients: Sequence[Client]) -> Verdicts:
    """Return verdicts of existing clients on responses: no endpoint is opened and no reply is cached."""
    return judge(responses, rubrics, clients)


Script = Callable[[str, int], str | Reply]
"""(prompt, number of earlier requests with it) -> reply."""


@dataclass
class ScriptedClient:
    """A client that replies by its script, one prompt after the other."""

    script: Script
    name: str = "scripted"
    lost_after: int | None = None
    recalls: bool = True
    asked: list[Prompt] = field(default_factory=list)

    def describe(self) -> Mapping[str, Any]:
        return {"model": self.name}

    def answer(
        self, prompts: Sequence[Prompt], progress: Progress = no_progress, journal: Journal | None = None
    ) -> list[Reply]:
        replies = []
        for index, prompt in enumerate(prompts):
            if self.lost_after is not None and len(self.asked) >= self.lost_after:
                raise JudgeError("the endpoint does not accept the key")
            cached = journal.recall(index) if journal and self.recalls else None
            assert cached is None
            self.asked.append(prompt)
            text = self.script(prompt.messages[-1].content, len(self.asked) - 1)
            reply = text if isinstance(text, Reply) else Reply(Outcome.ANSWERED, text, usage=CallUsage(5, 2))
            if journal:
                journal.record(index, reply)
            replies.append(reply)
            progress(self.name, index + 1, len(prompts))
        return replies


def form_of(prompt: str) -> str:
    """Return the format of the verdict: the last line of a prompt."""
    return prompt.strip().splitlines()[-1]


def code_in(prompt: str) -> str:
    found = re.search(r"\b[0-9a-f]{8}\b", form_of(prompt))
    assert found, form_of(prompt)
    return found[0]


def obedient(
    *, rating: int = 3, idk: str = "partial", clarification: str = "no", supported: Sequence[bool] = (True, False)
) -> Script:
    """Return the script of a judge that answers every question with these verdicts, in the requested format."""

    def script(prompt: str, _: int) -> str:
        form, code = form_of(prompt), code_in(prompt)
        if form.startswith("Rating"):
            return f"Two errors.\n{form.replace(': N', f': {rating}')}"
        if form.startswith("Verdict"):
            return form.replace("LABEL", clarification if "asks the user what is meant" in prompt else idk)
        objects: dict[str, Callable[[], object]] = {
            "statements": lambda: [f"Claim {number}." for number, _ in enumerate(supported, 1)],
            "questions": lambda: ["When?", "Until when?", "In which months?"],
            "same": lambda: _words([True, False, True]),
            "useful": lambda: _words([number % 2 == 0 for number in range(prompt.count(f"[{code} passage "))]),
            "supported": lambda: _words(supported),
        }
        (key,) = (name for name in objects if f'"{name}"' in form)
        evades = {"evades": "no"} if key == "questions" else {}
        return json.dumps({"id": code, key: objects[key](), **evades})

    return script


def _words(text: Sequence[bool]) -> dict[str, str]:
    return {str(number): "yes" if one else "no" for number, one in enumerate(text, 1)}
