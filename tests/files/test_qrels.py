from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.errors import BenchmarkFileError
from ragtasks.files import read_qrels
from ragtasks.records import Qrel


@pytest.mark.parametrize(
    "text",
    ["query-id\tcorpus-id\tscore\nc<::>2\tp\t1\nq\ta\t-1\n", "c::2 0 p 1\n\nq Q0 a -1\n", "c<::>2 0 p 1\r\nq 0 a -1"],
)
def test_both_formats_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "qrels").write_bytes(text.encode())
    assert read_qrels(tmp_path / "qrels") == (Qrel("c<::>2", "p", 1), Qrel("q", "a", -1))


def test_all_errors_are_listed(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q 0 a 1\nq 0 a 2\nq a\nq 0 b high\n", encoding="utf-8")
    with pytest.raises(BenchmarkFileError) as caught:
        read_qrels(tmp_path / "qrels")
    assert all(part in str(caught.value) for part in ("line 2", "line 3", "line 4"))
    with pytest.raises(BenchmarkFileError, match="none"):
        read_qrels(tmp_path / "none")
