"""Synthesis with a real small model: failures are counted and reported, and no partial output remains."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragtasks.benchmarks.custom import check_folder
from ragtasks.clients import CachedClient, Decoding, OpenAIClient, endpoint_of
from ragtasks.errors import ConfigurationError
from ragtasks.synthesis.cutting import Cut
from ragtasks.synthesis.pipeline import Settings, synthesize

pytestmark = pytest.mark.model
TEXT = """The ferry of Orsund runs from April to October. It crosses the sound eleven times a day. A crossing takes
twenty minutes and costs nine crowns. Bicycles travel free of charge. Dogs need a ticket of their own.
"""


def test_it_ends_with_a_benchmark_or_one_error_with_counts(model_server: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "ferry.txt").write_text(TEXT, "utf-8")
    body = {"max_tokens": 80, "response_format": {"type": "json_object"}}
    endpoint = endpoint_of(
        {"model": "gemma", "base_url": model_server, "slots": 1, "timeout_seconds": 900, "extra_body": body}
    )
    client = CachedClient(OpenAIClient(endpoint, "key", Decoding(max_tokens=80)), tmp_path / "replies.sqlite")
    settings = Settings(cut=Cut("sentences", 10, 5), list_size=5, turns=2, most_dialogues=1)
    output = ""
    try:
        synthesize(tmp_path / "docs", tmp_path / "out", client, settings)
    except ConfigurationError as error:
        output = str(error)
    if (tmp_path / "out").exists():
        assert check_folder(tmp_path / "out").passes
    else:
        assert re.match(r"no dialogue could be made from these propositions: \d+ times ", output)
