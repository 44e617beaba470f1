"""Corpora in every container give the same passages and checksum; broken ones give a clear error."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import datasets
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.errors import BenchmarkFileError, ConfigurationError
from ragtasks.records import Passage
from retrieval_cache.corpora.passages import read_corpus, survey_corpus
from tests._messages import raises

ROWS = [
    {"_id": f"document-{number}-0-40", "text": f"Passage {number} says: größer, 大.\n", "title": f"T{number}"}
    for number in range(1200)
]
PASSAGES = [Passage(row["_id"], row["text"], row["title"]) for row in ROWS]


def lines(rows: list[dict[str, str]] = ROWS) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def zipped(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("corpus.jsonl", content)
    return buffer.getvalue()


def write(path: Path, content: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def plain(folder: Path) -> str:
    return write(folder / "c.jsonl", lines())


def gzipped(folder: Path) -> str:
    content = lines()
    return write(folder / "c.jsonl.gz", gzip.compress(content[:999]) + gzip.compress(content[999:]))


def zstd(folder: Path) -> str:
    content, compressor = lines(), zstandard.ZstdCompressor()
    return write(folder / "c.jsonl.zst", compressor.compress(content[:999]) + compressor.compress(content[999:]))


def zip_file(folder: Path) -> str:
    return write(folder / "c.jsonl.zip", zipped(lines()))


def beir(folder: Path) -> str:
    write(folder / "beir" / "queries.jsonl", b'{"_id": "q1", "text": "what?"}\n')
    write(folder / "beir" / "qrels" / "test.tsv", b"q1\tdocument-1-0-40\t1\n")
    write(folder / "beir" / "corpus.jsonl", lines())
    return str(folder / "beir")


def parquet(folder: Path) -> str:
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "c.parquet", row_group_size=700)
    return str(folder / "c.parquet")


def shards(folder: Path) -> str:
    for number in range(3):
        rows = ROWS[number * 400 : (number + 1) * 400]
        write(folder / "shards" / f"part-{number}.json.gz", gzip.compress(lines(rows)))
    write(folder / "shards" / "README.md", b"what this is")
    return str(folder / "shards")


def saved(folder: Path) -> str:
    datasets.Dataset.from_list(ROWS).save_to_disk(str(folder / "saved"))
    return str(folder / "saved")


def streamed(folder: Path) -> str:
    write(folder / "hub" / "corpus.jsonl", lines())
    return f"hf:{folder / 'hub'}:train"


def streamed_with_a_configuration(folder: Path) -> str:
    write(folder / "beir-hub" / "corpus.jsonl", lines())
    write(folder / "beir-hub" / "queries.jsonl", b'{"_id": "q1", "text": "what?"}\n')
    files = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: {name}\n    path: {name}.jsonl\n"
        for name in ("corpus", "queries")
    )
    write(folder / "beir-hub" / "README.md", f"---\nconfigs:\n{files}---\n".encode())
    return f"hf:{folder / 'beir-hub'}#corpus:corpus"


CONTAINERS = [
    plain,
    gzipped,
    zstd,
    zip_file,
    beir,
    parquet,
    shards,
    saved,
    streamed,
    streamed_with_a_configuration,
]


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_passages(tmp_path: Path, container: Callable[[Path], str]) -> None:
    datasets.disable_progress_bars()
    location = container(tmp_path)
    assert list(read_corpus(location)) == PASSAGES
    assert survey_corpus(location).checksum == survey_corpus(plain(tmp_path)).checksum


@given(
    row=st.integers(0, 1),
    field=st.sampled_from(["_id", "text", "title"]),
    change=st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=3),
)
def test_every_text_changes_the_checksum(
    tmp_path_factory: pytest.TempPathFactory, row: int, field: str, change: str
) -> None:
    folder = tmp_path_factory.mktemp("corpus")
    changed = [dict(row_before) for row_before in ROWS[:2]]
    changed[row][field] += change
    before = write(folder / "before.jsonl", lines(ROWS[:2]))
    assert survey_corpus(before).checksum != survey_corpus(write(folder / "after.jsonl", lines(changed))).checksum


def test_the_checksum_depends_on_field_borders_and_order_and_not_on_other_fields(tmp_path: Path) -> None:
    def checksum(*rows: dict[str, object]) -> str:
        return survey_corpus(write(tmp_path / "c.jsonl", b"".join(orjson.dumps(row) + b"\n" for row in rows))).checksum

    first: dict[str, object] = {"_id": "a", "text": "bc", "title": "d"}
    second: dict[str, object] = {"_id": "b", "text": "bc"}
    assert checksum(first) == checksum({**first, "url": "https://example.org", "id": "other", "score": 1})
    assert checksum(second) == checksum({**second, "title": None}) == checksum({"id": "b", "text": "bc", "title": ""})
    assert checksum(first) != checksum({"_id": "a", "text": "b", "title": "dc"})
    assert checksum(first, second) != checksum(second, first)


def test_ids_may_be_numbers_and_texts_require_a_known_column(tmp_path: Path) -> None:
    table = pa.table({"docid": [7, 8], "body": ["one", "two"], "title": ["h", "h"], "vector": [[0.5], [1.0]]})
    pq.write_table(table, tmp_path / "c.parquet")
    assert list(read_corpus(str(tmp_path / "c.parquet"))) == [Passage("7", "one", "h"), Passage("8", "two", "h")]
    pq.write_table(table.rename_columns(["docid", "words", "title", "vector"]), tmp_path / "c.parquet")
    with raises(BenchmarkFileError):
        list(read_corpus(str(tmp_path / "c.parquet")))


def test_segments_of_ms_marco_are_read_by_their_own_field_names(tmp_path: Path) -> None:
    row = {"docid": "d#0_0", "url": "u", "title": "T", "headings": "h", "segment": "one", "start_char": 0}
    location = write(tmp_path / "c.json.gz", gzip.compress(orjson.dumps(row)))
    assert list(read_corpus(location)) == [Passage("d#0_0", "one", "T", "u")]


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (b"no json at all", "line 40000: not JSON .*'no json at all'"),
        (b"[1, 2]", "line 40000: not a JSON object"),
        (b'{"_id": "x", "title": "t"}', "line 40000: no text in 'text' .x.; the row has _id, title"),
        (b'{"text": "t"}', "line 40000: no id in _id or id or docid"),
        (b'{"_id": "x y", "text": "t"}', "line 40000: an id that is empty or contains white space"),
        (b'{"_id": "x", "text": "t", "title": 3}', "line 40000: a title or url that is not text"),
        (b'{"_id": "x", "text": "\\ud800"}', "line 40000: not JSON"),
        (b'{"_id": "17", "text": "t"}', "line 40000: the id '17' once more; first at .*line 18"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, broken: bytes, expected: str) -> None:
    content = b"".join(b'{"_id": "%d", "text": "t"}\n' % number for number in range(39_999))
    location = write(tmp_path / "c.jsonl", content + broken + b'\n{"_id": "last", "text": "t"}\n')
    with pytest.raises(BenchmarkFileError, match=expected):
        survey_corpus(location)


def test_one_error_lists_all_problems_and_no_passage_follows_the_first(tmp_path: Path) -> None:
    location = write(tmp_path / "c.jsonl", b'{"_id": "a", "text": "t"}\nx\n{"_id": "b", "text": "t"}\n{}\n')
    passages = read_corpus(location)
    assert next(passages).passage_id == "a"
    with pytest.raises(BenchmarkFileError) as error:
        next(passages)
    assert "line 2: not JSON" in str(error.value)
    assert "line 4: no id" in str(error.value)


def test_reading_stops_after_twenty_errors(tmp_path: Path) -> None:
    with raises(BenchmarkFileError) as error:
        list(read_corpus(write(tmp_path / "c.jsonl", b"{}\n" * 500)))
    assert "line 21" not in str(error.value)


@pytest.mark.parametrize("container", [gzipped, zstd, zip_file, parquet])
@pytest.mark.parametrize("left", [0.1, 0.6, 0.95])
def test_a_corrupt_container_is_one_clear_error(tmp_path: Path, container: Callable[[Path], str], left: float) -> None:
    path = Path(container(tmp_path))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * left)])
    with pytest.raises(BenchmarkFileError, match=r"(line|row) \d+: unreadable from here"):
        list(read_corpus(str(path)))


def test_a_changed_byte_in_a_zip_is_detected(tmp_path: Path) -> None:
    path = Path(zip_file(tmp_path))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(BenchmarkFileError, match=r"unreadable from here|not JSON"):
        list(read_corpus(str(path)))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("c.jsonl", b"", "no passage at all"),
        ("c.jsonl", b"\n\n", "no passage at all"),
        ("c.jsonl", b"version https://git-lfs.github.com/spec/v1\n", "line 1: not JSON .*git-lfs"),
        ("c.jsonl.zip", b"<!doctype html>", "line 1: unreadable from here"),
        ("folder/notes.txt", b"x", "found: notes.txt"),
    ],
)
def test_files_that_are_not_a_corpus_are_refused(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    path = Path(write(tmp_path / name, content))
    with pytest.raises(BenchmarkFileError, match=expected):
        list(read_corpus(str(path.parent if name.startswith("folder") else path)))


def test_a_zip_with_two_files_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "c.jsonl.zip", "w") as archive:
        archive.writestr("a.jsonl", lines())
        archive.writestr("b.jsonl", lines())
    with raises(BenchmarkFileError):
        list(read_corpus(str(tmp_path / "c.jsonl.zip")))


def test_missing_unknown_and_ambiguous_locations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkFileError, match="found: nothing"):
        list(read_corpus(str(tmp_path / "absent.jsonl")))
    with pytest.raises(ConfigurationError, match="a name that ends in"):
        list(read_corpus(write(tmp_path / "c.csv", b"x")))
    write(tmp_path / "mixed" / "a.jsonl", lines())
    write(tmp_path / "mixed" / "b.jsonl.gz", gzip.compress(lines()))
    with raises(ConfigurationError):
        list(read_corpus(str(tmp_path / "mixed")))
    with pytest.raises(BenchmarkFileError, match="hf:NAME"):
        list(read_corpus(f"hf:{tmp_path / 'nowhere'}:train"))


def test_blank_passages_are_counted_and_left_out(tmp_path: Path) -> None:
    location = write(tmp_path / "c.jsonl", lines([*ROWS[:2], {"_id": "blank", "text": "\n", "title": "only a title"}]))
    survey = survey_corpus(location)
    assert (survey.n_passages, survey.n_blank) == (2, 1)
    assert list(read_corpus(location)) == PASSAGES[:2]
    assert survey.checksum == survey_corpus(write(tmp_path / "d.jsonl", lines(ROWS[:2]))).checksum


def test_a_reader_that_stops_early_closes_the_file(tmp_path: Path) -> None:
    location = gzipped(tmp_path)
    passages = read_corpus(location)
    assert list(islice(passages, 3)) == PASSAGES[:3]
    passages.close()  # type: ignore[attr-defined] # a generator; an unclosed file would warn, which fails the test


@pytest.mark.parametrize(
    ("domain", "n_passages", "n_blank"),
    [("clapnq", 12_628, 0), ("cloud", 13_294, 3), ("fiqa", 15_332, 0), ("govt", 1_258, 0)],
)
def test_the_official_corpora_have_the_expected_sizes(
    mtrag_root: Path, domain: str, n_passages: int, n_blank: int
) -> None:
    survey = survey_corpus(str(mtrag_root / "corpora/passage_level" / f"{domain}.jsonl.zip"))
    assert (survey.n_passages, survey.n_blank) == (n_passages, n_blank)


PEAK = """
import re, sys
from pathlib import Path
from retrieval_cache.corpora.passages import read_corpus
n = sum(1 for _ in read_corpus(sys.argv[1]))
# Not `ru_maxrss`: on Linux a child inherits that from the process which started it.
print(n, re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_memory_is_constant_for_a_corpus_of_ten_times_the_size(mtrag_root: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(mtrag_root / "corpora/passage_level/govt.jsonl.zip") as archive:
        rows = [json.loads(line) for line in archive.read(archive.namelist()[0]).splitlines()]
    peaks = {}
    for times in (1, 10):
        copies = [{**row, "_id": f"{row['_id']}-{copy}"} for copy in range(times) for row in rows]
        location = write(tmp_path / f"{times}.jsonl.zst", zstandard.compress(lines(copies)))
        output = subprocess.run([sys.executable, "-c", PEAK, location], capture_output=True, check=True, text=True)
        n_passages, peaks[times] = map(int, output.stdout.split())
        assert n_passages == times * len(rows)
    # 26 MB more of JSON must cost less than a tenth of that in memory (KiB).
    assert peaks[10] - peaks[1] < 2600
