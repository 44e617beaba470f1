"""How many of MTRAG's answers people repaired (MTRAG paper, Table 8 and appendix B.3), from its conversations."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ValidationError

from ragtasks.benchmarks._benchmark import Benchmark
from ragtasks.benchmarks.mtrag._rows import domain_of
from ragtasks.files import Violations, parse_json, read_whole
from ragtasks.tables import Table, Value

CONVERSATION_FILE = "mtrag-human/conversations/conversations.json"
"""Where the file lies in a checkout of IBM/mt-rag-benchmark."""


class _Message(BaseModel):
    speaker: str
    text: str
    original_text: str | None = None


class _Conversation(BaseModel):
    domain: str
    messages: list[_Message]


class _File(BaseModel):
    conversations: list[_Conversation]


def tables(benchmark: Benchmark) -> Sequence[Table]:
    """Return one table of repaired answers by domain; () where the conversations are not there.

    An answer counts as repaired where the file keeps what the model wrote first.

    Raises:
        BenchmarkFileError: the file is no list of conversations.
    """
    path = benchmark.root / CONVERSATION_FILE
    if not path.is_file():
        return ()
    found = _read(Violations(path, "MTRAG conversations", "delete the file and run `ragtasks fetch mtrag`"))
    domains = sorted({_domain(item) for item in found})
    parts = [(name, [item for item in found if _domain(item) == name]) for name in domains]
    columns = ("domain", "answers", "repaired", "share", "repaired a conversation")
    return (Table("Repaired answers", columns, tuple((name, *_row(own)) for name, own in [*parts, ("all", found)])),)


def _read(violations: Violations) -> list[_Conversation]:
    try:
        return _File.model_validate({"conversations": parse_json(read_whole(violations))}).conversations
    except ValidationError as error:
        for violation in error.errors():
            violations.add(
                0, f"at `{'.'.join(map(str, violation['loc'][1:]))}`: {violation['msg']}", violation["input"]
            )
    except ValueError as error:
        violations.add(0, "one JSON list", str(error))
    violations.raise_if_any()
    raise AssertionError("an error was noted")


def _domain(conversation: _Conversation) -> str:
    return domain_of(conversation.domain) or conversation.domain


def _row(conversations: Sequence[_Conversation]) -> tuple[int, int, Value, Value]:
    answers = [message for item in conversations for message in item.messages if message.speaker == "agent"]
    n_repaired = sum(message.original_text is not None for message in answers)
    n = len(conversations)
    share = n_repaired / len(answers) if answers else None
    return (
        len(answers),
        n_repaired,
        Value(share, len(answers), len(answers)),
        Value(n_repaired / n if n else None, n, n),
    )


__all__ = ["CONVERSATION_FILE", "tables"]
