from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from ragtasks.errors import BenchmarkFileError
from ragtasks.files import read_qrels, write_qrels
from ragtasks.records import Qrel
from tests._messages import raises


@pytest.mark.parametrize(
    "text",
    ["query-id\tcorpus-id\tscore\nc<::>2\tp\t1\nq\ta\t-1\n", "c::2 0 p 1\n\nq Q0 a -1\n", "c<::>2 0 p 1\r\nq 0 a -1"],
)
def test_both_formats_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "qrels").write_bytes(text.encode())
    assert read_qrels(tmp_path / "qrels") == (Qrel("c<::>2", "p", 1), Qrel("q", "a", -1))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    "text",
    [
        '{"q": {"a": 1, "b": -1}}',
        '{"query-id": "q", "corpus-id": "a", "score": 1}\n{"query-id": "q", "corpus-id": "b", "score": -1.0}\n',
        "q 0 a 1.0\nq 0 b -1.0\n",
        "query-id,corpus-id,score\nq,a,1\nq,b,-1\n",
        '"q","a",1\n"q","b",-1\n',
    ],
)
def test_json_compressed_files_and_whole_numbers_with_a_point_are_read(
    tmp_path: Path, text: str, pack: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "qrels.txt").write_bytes(pack(text.encode()))
    assert read_qrels(tmp_path / "qrels.txt") == (Qrel("q", "a", 1), Qrel("q", "b", -1))


@pytest.mark.parametrize(
    "text", ["q 0 a 0.5\n", '{"q": {"a": 0.5}}', '{"q": {"a": true}}', '{"q": ["a"]}', '{"q": {"a": 1}']
)
def test_invalid_judgements_are_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "qrels").write_text(text, encoding="utf-8")
    with raises(BenchmarkFileError):
        read_qrels(tmp_path / "qrels")


def test_all_errors_are_listed(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q 0 a 1\nq 0 a 2\nq a\nq 0 b high\n", encoding="utf-8")
    with pytest.raises(BenchmarkFileError) as caught:
        read_qrels(tmp_path / "qrels")
    assert all(part in str(caught.value) for part in ("line 2", "line 3", "line 4"))
    with pytest.raises(BenchmarkFileError, match="none"):
        read_qrels(tmp_path / "none")


HARBOURS = (Qrel("north", "Old Harbour", 2), Qrel("south", "Quay", 0))


@pytest.mark.parametrize(
    "text",
    [
        "query-id\tcorpus-id\tscore\nnorth\tOld Harbour\t2\nsouth\tQuay\t0\n",
        "\ufeffquery-id\tcorpus-id\tscore\r\nnorth\tOld Harbour\t2\r\nsouth\tQuay\t0",
        "north\tOld Harbour\t2\nsouth\tQuay\t0\n",
        "Query ID\tDoc ID\tRelevance\nnorth\tOld Harbour\t2\n\nsouth\tQuay\t0\n",
        "north\t0\tOld Harbour\t2\nsouth\t0\tQuay\t0\n",
        "query\t0\tpassage\tgrade\nnorth\t0\tOld Harbour\t2\nsouth\t0\tQuay\t0\n",
        "topic\titeration\tdocno\trel\nnorth\tQ0\tOld Harbour\t2\nsouth\tQ0\tQuay\t0\n",
        " north\t Old Harbour \t2 \nsouth\tQuay\t0\t\n",
    ],
)
def test_ids_may_contain_blanks_between_tabs(tmp_path: Path, text: str) -> None:
    (tmp_path / "qrels.tsv").write_bytes(text.encode())
    assert read_qrels(tmp_path / "qrels.tsv") == HARBOURS


@pytest.mark.parametrize(
    "text",
    [
        "query-id corpus-id score\nq a 1\nr b 0\n",
        "q a 1\nr b 0\n",
        "q 0 a 1\nr 0 b 0\n",
        "q\t0\ta\t1\nr   0  b\t0\n",
    ],
)
def test_blanks_separate_cells_if_no_id_contains_blanks(tmp_path: Path, text: str) -> None:
    (tmp_path / "qrels").write_bytes(text.encode())
    assert read_qrels(tmp_path / "qrels") == (Qrel("q", "a", 1), Qrel("r", "b", 0))


def test_a_no_break_space_is_part_of_an_id(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q Old\u00a0Harbour 1\nq Quay 0\n", encoding="utf-8")
    assert read_qrels(tmp_path / "qrels") == (Qrel("q", "Old\u00a0Harbour", 1), Qrel("q", "Quay", 0))


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("north\tOld Harbour\t2\nsouth Quay 0\n", 1, "tabs between the cells of all lines, or of none"),
        ("south 0 Quay 0\nnorth\tOld Harbour\t2\n", 2, "tabs between the cells of all lines, or of none"),
        ("query-id\tcorpus-id\tscore\nnorth Harbour 2\n", 2, "3 cells"),
        ("south Quay 0\nnorth Old Harbour 2\n", 2, "3 cells"),
        ("query-id corpus-id score\nnorth Old Harbour 2\n", 2, "3 cells"),
        ("north\t\t2\nsouth\tQuay\t0\n", 1, "3 cells"),
        ("north\tOld Harbour\thigh\nsouth\tQuay\t0\n", 1, "a grade that is a whole number"),
        ("south 0 Quay 1\nsouth 0 p\0 1\n", 2, "text, found 'a NUL"),
    ],
)
def test_an_ambiguous_line_is_an_error(tmp_path: Path, text: str, line: int, expected: str) -> None:
    (tmp_path / "qrels").write_bytes(text.encode())
    with pytest.raises(BenchmarkFileError) as caught:
        read_qrels(tmp_path / "qrels")
    (error,) = str(caught.value).splitlines()[1:-1]
    assert f"line {line}: expected {expected}" in error


def test_written_judgements_read_back_equal(tmp_path: Path) -> None:
    for name, qrels in (("blanks", HARBOURS), ("none", HARBOURS[1:])):
        write_qrels(tmp_path / name, qrels)
        assert read_qrels(tmp_path / name) == qrels
    assert (tmp_path / "none").read_bytes() == b"south 0 Quay 0\n"
