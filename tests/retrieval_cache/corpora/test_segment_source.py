"""Segments by id from a folder of shards: results, stored files, memory, and errors by line."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.benchmarks import Benchmark, retrieval_side
from ragtasks.errors import BenchmarkFileError, CacheError
from ragtasks.records import Passage
from retrieval_cache.corpora import passages as segment_source
from retrieval_cache.corpora.passages import SegmentSource, read_corpus
from retrieval_cache.queries import build_queries
from retrieval_cache.spec import parse
from retrieval_cache.stage import RunRequest, build_run, read_run
from retrieval_cache.store import RunStore, StoredRun, verify_run


def segment(number: int, text: str = "", title: str = "") -> dict[str, Any]:
    """Return a segment in the official format."""
    return {
        "docid": segment_id(number),
        "url": f"https://example.org/{number}",
        "title": title or f"Title {number}",
        "headings": "One\nTwo",
        "segment": text or f'Text "{number}": größer, 大.\n',
        "start_char": 0,
        "end_char": 9,
    }


def segment_id(number: int) -> str:
    return f"msmarco_v2.1_doc_{number // 10:02}_{number * 7}#{number % 10}_{number * 11}"


def passage(number: int) -> Passage:
    row = segment(number)
    return Passage(row["docid"], row["segment"], row["title"], row["url"])


def lines_of(rows: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def write_shards(folder: Path, contents: Sequence[bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(contents):
        (folder / f"segmented_{number:02}.json.gz").write_bytes(gzip.compress(content, mtime=0))
    return folder


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Thirty segments in three shards."""
    contents = [lines_of(segment(number) for number in range(start, start + 10)) for start in (0, 10, 20)]
    return write_shards(tmp_path / "source", contents)


def opened(shards: Path, named: Iterable[str], **options: Any) -> SegmentSource:
    return SegmentSource(str(shards), frozenset(named), lambda key: shards.parent / "kept" / key, **options)


def problem_of(shards: Path, named: Iterable[str]) -> str:
    with pytest.raises(BenchmarkFileError) as error:
        list(opened(shards, named))
    return str(error.value)


def test_named_segments_are_returned_in_the_order_of_the_source(shards: Path) -> None:
    numbers = [29, 3, 17, 11]
    steps: list[tuple[str, int, int | None]] = []
    source = opened(shards, map(segment_id, numbers), progress=lambda *step: steps.append(step))
    assert list(source) == [passage(number) for number in sorted(numbers)]
    assert steps == [("checksum", n, 3) for n in (1, 2, 3)] + [("look up", n, 3) for n in (1, 2, 3)]
    assert list(opened(shards, [])) == []


WAYS = [
    orjson.dumps,
    lambda row: orjson.dumps(row).replace(b'{"docid":', b'{"docid": '),
    lambda row: orjson.dumps(row).replace(b"#", b"\\u0023"),
    lambda row: orjson.dumps(row, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2).replace(b"\n", b""),
    lambda row: orjson.dumps(dict(reversed(row.items()))),
    lambda row: b"  " + orjson.dumps(row) + b"\r",
    lambda row: orjson.dumps({"_id": row["docid"], "text": row["segment"], "title": row["title"], "url": row["url"]}),
]
"""Formats of a segment on one line."""


@given(written=st.lists(st.sampled_from(WAYS), min_size=1, max_size=30), data=st.data())
def test_segments_are_found_in_any_json_format(
    tmp_path_factory: pytest.TempPathFactory, written: list[Any], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("source")
    content = b"\n".join(way(segment(number)) for number, way in enumerate(written))
    shards = write_shards(folder / "shards", [content])
    numbers = data.draw(st.sets(st.integers(0, len(written) - 1)))
    passages = list(opened(shards, map(segment_id, numbers)))
    assert passages == [
        segment_passage
        for segment_passage in read_corpus(str(shards))
        if segment_passage.passage_id in set(map(segment_id, numbers))
    ]
    assert len(passages) == len(numbers)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that records the name of every shard whose lines are read."""
    read: list[str] = []
    raw_lines = segment_source.raw_lines

    def noted(path: Path) -> Iterator[tuple[int, bytes | str]]:
        read.append(path.name)
        return raw_lines(path)

    monkeypatch.setattr(segment_source, "raw_lines", noted)
    return read


def test_only_unfinished_shards_are_read_again(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = counted(monkeypatch)
    named = [segment_id(number) for number in (3, 17, 29)]
    passages = list(opened(shards, named))
    assert sorted(read) == ["segmented_00.json.gz", "segmented_01.json.gz", "segmented_02.json.gz"]
    read.clear()
    assert list(opened(shards, named)) == passages
    assert read == []
    second = next(path for path in shards.parent.glob("kept/*/*.jsonl") if segment_id(17).encode() in path.read_bytes())
    second.unlink()
    assert list(opened(shards, named)) == passages
    assert read == ["segmented_01.json.gz"]
    read.clear()
    list(opened(shards, named[:2]))
    assert len(read) == 3  # other segments require another pass


def test_a_corrupt_file_of_stored_segments_is_named(shards: Path) -> None:
    named = [segment_id(3)]
    list(opened(shards, named))
    kept = next(path for path in shards.parent.glob("kept/*/*.jsonl") if path.stat().st_size)
    kept.write_bytes(kept.read_bytes()[:20])
    with pytest.raises(CacheError, match=f"{kept.name} is corrupt(.|\n)*delete it"):
        list(opened(shards, named))


def test_the_description_depends_on_content_and_wanted_segments_and_not_on_the_folder(shards: Path) -> None:
    def described(*named: str) -> dict[str, Any]:
        return opened(shards, named).describe()

    before = described("a")
    assert described("b") != before
    assert {key: value for key, value in described("b").items() if "named" not in key} == {
        key: value for key, value in before.items() if "named" not in key
    }
    moved = shards.rename(shards.with_name("elsewhere"))
    assert opened(moved, ["a"]).describe() == before
    shard = moved / "segmented_01.json.gz"
    times, content = shard.stat(), shard.read_bytes()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    os.utime(shard, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert shard.stat().st_size == times.st_size
    assert opened(moved, ["a"]).describe() != before
    shard.write_bytes(content)
    assert opened(moved, ["a"]).describe() == before
    shard.rename(moved / "segmented_03.json.gz")
    assert opened(moved, ["a"]).describe() != before


def test_memory_does_not_grow_with_the_source(tmp_path: Path) -> None:
    peaks = []
    for size in (6_000, 48_000):
        content = [lines_of(segment(number, "word " * 40) for number in range(size))]
        source = opened(write_shards(tmp_path / str(size) / "source", content), map(segment_id, range(0, 6_000, 100)))
        tracemalloc.start()
        assert len(list(source)) == 60
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.1


def test_missing_segments_are_all_listed(shards: Path) -> None:
    missing = [segment_id(number) for number in range(100, 150)]
    message = problem_of(shards, [segment_id(3), *missing])
    assert "50 of 51 segments are missing" in message
    assert all(name in message for name in missing)
    assert "name the source of the run" in message


def test_a_source_without_any_wanted_segment_is_a_short_error(shards: Path) -> None:
    message = problem_of(shards, [f"other{number}" for number in range(5000)])
    assert "none of the 5000 segments" in message
    assert len(message) < 600


def test_a_repeated_segment_is_named_with_both_lines(tmp_path: Path) -> None:
    first = [segment(1), segment(2), segment(1)]
    shards = write_shards(tmp_path / "source", [lines_of(first), lines_of([segment(5), segment(2)])])
    message = problem_of(shards, [segment_id(1), segment_id(2)])
    assert f"segmented_00.json.gz, line 3: the id {segment_id(1)!r} once more; first at {shards}" in message
    assert f"segmented_01.json.gz, line 2: the id {segment_id(2)!r} once more" in message
    assert [found_passage.passage_id for found_passage in opened(shards, [segment_id(5)])] == [segment_id(5)]


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (b"no json\n", "line 4: not JSON"),
        (b'{"docid":"' + segment_id(3).encode() + b'","segment":"cut of\n', "line 4: not JSON"),
        (b'{"docid":"of nobody","segment":"cut of\n', "line 4: not JSON"),
        (b'{"docid":"nothing\n', "line 4: not JSON"),
        (b'{"title":"t"}\n', "line 4: no id"),
        (b"[1]\n", "line 4: not a JSON object"),
        (lines_of([segment(3, " \n")]), "line 4: an empty text"),
        (lines_of([{"docid": segment_id(3), "title": "t"}]), "line 4: no text in 'text'"),
    ],
)
def test_broken_lines_are_named(tmp_path: Path, broken: bytes, expected: str) -> None:
    good = [lines_of([segment(number)]) for number in range(3)]
    shards = write_shards(tmp_path / "source", [lines_of([segment(9)]), b"".join(good) + broken])
    assert f"segmented_01.json.gz, {expected}" in problem_of(shards, [segment_id(3)])


def test_one_error_lists_problems_of_all_shards_and_good_shards_are_kept(
    shards: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corrupt, unreadable = shards / "segmented_00.json.gz", shards / "segmented_02.json.gz"
    contents = {path: path.read_bytes() for path in (corrupt, unreadable)}
    corrupt.write_bytes(contents[corrupt][:60])
    unreadable.write_bytes(b"\x00" * 40)
    message = problem_of(shards, [segment_id(3), segment_id(17)])
    assert f"{corrupt}, line" in message
    assert f"{unreadable}, line 1: unreadable from here" in message
    assert "fetch broken shards again" in message
    for path, content in contents.items():
        path.write_bytes(content)
    read = counted(monkeypatch)
    assert len(list(opened(shards, [segment_id(3), segment_id(17)]))) == 2
    assert sorted(read) == [corrupt.name, unreadable.name]


@pytest.mark.parametrize("n_lost", [1, 8, 30])
def test_a_truncated_shard_is_detected(shards: Path, n_lost: int) -> None:
    shard = shards / "segmented_01.json.gz"
    shard.write_bytes(shard.read_bytes()[:-n_lost])
    assert f"{shard}, line " in problem_of(shards, [segment_id(3)])


def test_reading_a_shard_stops_after_twenty_errors(tmp_path: Path) -> None:
    shards = write_shards(tmp_path / "source", [b"x\n" * 5000])
    message = problem_of(shards, [segment_id(3)])
    assert "line 20: not JSON" in message
    assert "line 21" not in message
    assert "possibly more" in message


@pytest.fixture(scope="module")
def sharded(sample: Benchmark, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path, StoredRun]:
    """The sample's corpora as folders of shards, a TREC file over all of them, and the stored run of that file."""
    folder = tmp_path_factory.mktemp("sharded")
    side = retrieval_side(sample.name)
    corpora = {}
    for domain in side.domains:
        passages = list(read_corpus(str(side.corpus_file(sample.root, domain))))
        rows = [
            {
                "docid": segment_passage.passage_id,
                "url": segment_passage.url,
                "title": segment_passage.title,
                "segment": segment_passage.text,
            }
            for segment_passage in passages
        ]
        contents = [lines_of(rows[start::3]) for start in range(3)]
        corpora[domain] = str(write_shards(folder / "corpora" / domain, contents))
    stored = build_run(
        RunRequest(sample, build_queries(sample, "last_turn"), lambda: parse("bm25"), 12), RunStore(folder)
    )
    trec = folder / "all.trec"
    trec.write_bytes(b"".join(path.read_bytes() for path in sorted(stored.folder.glob("*.trec"))))
    return corpora, trec, stored


@pytest.mark.parametrize("line", ["run:{trec}", "hybrid(run:{trec},run:{trec})", "rerank(run:{trec},cross-encoder:x)"])
def test_retrievers_over_runs_name_their_passages_in_advance(
    line: str, sharded: tuple[dict[str, str], Path, StoredRun]
) -> None:
    from retrieval_cache.retrievers.protocol import wanted_passages

    _, trec, stored = sharded
    query_id, ranking = next(iter(read_run(stored).items()))
    wanted = wanted_passages(parse(line.format(trec=trec)), [{query_id: "text"}])
    assert wanted == {ranked.passage_id for ranked in ranking}
    for retriever in ("bm25", "milvus:x.db,mode=bm25"):
        assert wanted_passages(parse(f"hybrid({retriever},run:{trec})"), [{query_id: "text"}]) is None


def test_contexts_from_shards_equal_those_from_complete_corpora(
    sample: Benchmark,
    sharded: tuple[dict[str, str], Path, StoredRun],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    corpora, trec, stored = sharded
    queries = build_queries(sample, "last_turn")
    request = RunRequest(sample, queries, lambda: parse(f"run:{trec}"), 7, corpora=corpora)
    run = build_run(request, RunStore(tmp_path))
    assert verify_run(run) == []
    assert read_run(run) == {query_id: ranking[:7] for query_id, ranking in read_run(stored).items()}
    for setting in ("full_rag", "reference_rag"):
        path = Path("contexts") / f"{setting}.jsonl"
        assert (run.folder / path).read_bytes() == (stored.folder / path).read_bytes()
    assert {corpus["kind"] for corpus in run.manifest.spec["corpora"].values()} == {"shards"}
    read = counted(monkeypatch)
    assert build_run(request, RunStore(tmp_path)).folder == run.folder
    deeper = build_run(RunRequest(sample, queries, request.make_retriever, 12, corpora=corpora), RunStore(tmp_path))
    assert read_run(deeper) == read_run(stored)
    assert read == []


def test_a_corpus_in_shards_is_read_completely_for_other_retrievers(
    sample: Benchmark, sharded: tuple[dict[str, str], Path, StoredRun], tmp_path: Path
) -> None:
    corpora, _, stored = sharded
    request = RunRequest(sample, build_queries(sample, "last_turn"), lambda: parse("bm25"), 12, corpora=corpora)
    assert set(read_run(build_run(request, RunStore(tmp_path)))) == set(read_run(stored))


def test_a_broken_run_is_reported_before_shards_are_read(
    sample: Benchmark, sharded: tuple[dict[str, str], Path, StoredRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpora, trec, _ = sharded
    rows = trec.read_text().splitlines(keepends=True)
    broken = tmp_path / "broken.trec"
    broken.write_text("".join([*rows[:2], rows[1], *rows[4:]]))

    def unread(path: Path) -> str:
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr(segment_source, "file_hash", unread)
    request = RunRequest(sample, build_queries(sample, "last_turn"), lambda: parse(f"run:{broken}"), 5, corpora=corpora)
    with pytest.raises(CacheError, match=r"line 3 .*each passage of a query once"):
        build_run(request, RunStore(tmp_path / "store"))
