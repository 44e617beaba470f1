"""RAGChecker's labeled pairs: counts of the real file, direction of the labels, and invalid files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtasks.benchmarks.ragchecker import load_labelled_pairs
from ragtasks.errors import BenchmarkFileError


def test_the_real_file_has_280_pairs_and_positive_labels_prefer_the_first(mtrag_root: Path) -> None:
    path = mtrag_root.parent / "ragchecker" / "human_labeled_data.json"
    if not path.is_file():
        pytest.skip(f"no real RAGChecker data at {path}")
    pairs = load_labelled_pairs(path)
    assert len(pairs) == 280
    assert len({pair.first.task.conversation_id for pair in pairs}) == 280
    first = pairs[0]
    assert first.models == ("bm25_llama3_8b", "e5_mistral_gpt_4")
    assert first.first.task == first.second.task
    assert first.first.task.question.startswith("How are pre-training corpora constructed")
    assert tuple(first.labels) == ("correctness", "completeness", "overall")
    assert all(label < 0 for label in first.labels["overall"]), "both annotators find the second better"
    assert all(-2 <= label <= 2 for pair in pairs for labels in pair.labels.values() for label in labels)


@pytest.mark.parametrize("content", [b"{", b"[]x", b'[{"instance_id": 0}]', b'{"a": 1}'])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pairs.json"
    path.write_bytes(content)
    with pytest.raises(BenchmarkFileError, match="amazon-science/RAGChecker"):
        load_labelled_pairs(path)
    with pytest.raises(BenchmarkFileError, match="No such file"):
        load_labelled_pairs(tmp_path / "missing.json")
