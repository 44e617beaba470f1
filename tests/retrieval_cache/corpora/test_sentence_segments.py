"""Windows of sentences: content of segments, and offsets in their records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.benchmarks.trec_rag import read_segments
from ragtasks.errors import ConfigurationError
from ragtasks.records import Passage
from retrieval_cache.corpora.segmenting import segment_lines
from tests._commands import run_command

BODY = "One is. Two is.\n\nThree is. Four é is. Five is. Six is. Seven is."
SENTENCES = st.lists(st.sampled_from(["Rain fell.", "Was it?", "Dr. Li came.", "\n\n", "3.5 é.", "  ", "no stop"]))


def segments(body: str, size: int = 10, stride: int = 5, headings: object = "a\nb") -> list[dict[str, object]]:
    document = Passage("msmarco_v2.1_doc_00_7", body, "Title", "u")
    return [json.loads(line) for line in segment_lines([(document, {"headings": headings})], size, stride)]


def test_windows_overlap_by_half_and_end_with_the_document() -> None:
    rows = segments(BODY, 4, 2)
    assert [row["segment"] for row in rows] == [
        "One is. Two is.\n\nThree is. Four é is.",
        "Three is. Four é is. Five is. Six is.",
        "Five is. Six is. Seven is.",
    ]
    assert [(row["start_char"], row["end_char"]) for row in rows] == [(0, 37), (17, 54), (38, 64)]
    assert (rows[0]["title"], rows[0]["url"], rows[0]["headings"]) == ("Title", "u", "a\nb")
    assert [segments(text) for text in ("", " \n ")] == [[], []]
    assert segments("One. Two.", headings=None)[0]["headings"] == ""


@given(SENTENCES, st.integers(1, 6), st.integers(1, 6))
def test_a_segment_is_the_text_between_its_offsets_and_no_text_is_lost(
    parts: list[str], size: int, stride: int
) -> None:
    body = " ".join(parts)
    if stride > size:
        with pytest.raises(ConfigurationError, match="1 <= stride <= sentences"):
            segments(body, size, stride)
        return
    rows = segments(body, size, stride)
    covered = [letter.isspace() for letter in body]
    for row in rows:
        start, end = int(str(row["start_char"])), int(str(row["end_char"]))
        assert body[start:end] == row["segment"] == str(row["segment"]).strip()
        covered[start:end] = [True] * (end - start)
    assert all(covered)


def test_ids_contain_number_and_line_offset_and_can_be_read_as_segments(tmp_path: Path) -> None:
    rows = [
        {"docid": f"msmarco_v2.1_doc_00_{n}", "url": "u", "title": "é", "headings": "h", "body": BODY} for n in (0, 9)
    ]
    documents, target = tmp_path / "d.jsonl", tmp_path / "s.jsonl"
    documents.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run_command("data", "segment", documents, target, "--sentences", "4")
    assert done.status == 0
    content = target.read_bytes()
    assert len(read_segments(target)) == 6
    for number, line in enumerate(content.splitlines(keepends=True)):
        document, _, position = json.loads(line)["docid"].partition("#")
        assert document == rows[number // 3]["docid"]
        assert [int(part) for part in position.split("_")] == [number % 3, content.index(line)]


def test_sentences_and_size_exclude_each_other(tmp_path: Path) -> None:
    done = run_command("data", "segment", "x.jsonl", tmp_path / "t", "--sentences", "10", "--size", "5")
    assert (done.status, "--sentences excludes" in done.err) == (1, True)
