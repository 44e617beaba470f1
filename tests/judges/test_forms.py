"""Verdicts by JSON schema: the schemas, and their equivalence to text replies."""

from __future__ import annotations

import json
import re

import pytest

from ragtasks.judges import read_coded_label
from ragtasks.judges._parsers import read_coded_rating, read_texts, read_yes_no
from ragtasks.judges._question import as_text, schema_of


def test_an_object_has_the_keys_of_its_format() -> None:
    schema = schema_of('{"id": "c0de", "questions": [QUESTION, QUESTION], "evades": LABEL}')
    assert schema["required"] == ["id", "questions", "evades"]
    assert schema["properties"]["id"] == {"const": "c0de"}
    assert schema["properties"]["questions"] == {"type": "array", "items": {"type": "string"}}
    assert schema["properties"]["evades"] == {"type": "string"}
    supported = schema_of('{"id": "c0de", "supported": {"1": LABEL, ...}}')["properties"]
    assert supported == {
        "id": {"const": "c0de"},
        "supported": {"type": "object", "additionalProperties": {"type": "string"}},
    }


@pytest.mark.parametrize(
    ("form", "line"), [("Verdict c0de: LABEL", "Verdict c0de: no"), ("Rating c0de: N", "Rating c0de: 10")]
)
def test_a_last_line_follows_the_reasoning(form: str, line: str) -> None:
    schema = schema_of(form)
    assert list(schema["properties"]) == ["reasoning", "last_line"]
    assert re.search(schema["properties"]["last_line"]["pattern"], line)
    text = as_text(json.dumps({"reasoning": "it says so", "last_line": line}))
    assert text == f"it says so\n{line}"
    if "LABEL" in form:
        assert read_coded_label(text, "c0de", ("yes", "no")) == "no"
    else:
        assert read_coded_rating(text, "c0de") == 10


@pytest.mark.parametrize(
    "reply", ["Verdict c0de: no", '{"id": "c0de", "statements": ["a"]}', "[1]", '{"last_line": 1}']
)
def test_other_replies_are_unchanged(reply: str) -> None:
    assert as_text(reply) == reply
    if "statements" in reply:
        assert read_texts(as_text(reply), "c0de", "statements") == ["a"]


def test_a_complete_object_is_parsed_as_before() -> None:
    assert read_yes_no(as_text('{"id": "c0de", "supported": {"1": "yes"}}'), "c0de", "supported", 1) == [True]
