from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ragtasks.benchmarks import open_benchmark, retrieval_side
from ragtasks.errors import ConfigurationError
from ragtasks.files import Ranked
from ragtasks.metrics import RETRIEVAL_METRICS, RunScores
from ragtasks.published import OFFICIAL_CORPUS_SIZES, published_subsets, published_table
from ragtasks.records import Score
from ragtasks.tables import Format, render
from retrieval_cache.evaluation import (
    OFFICIAL_QUERIES,
    JudgedRun,
    QueryResult,
    judge,
    not_comparable,
    retrieval_section,
)
from retrieval_cache.rankings import Ranking

MTRAG = retrieval_side("mtrag")

N_FIRST = 102


def result(position: int, domain: str, *, turn: int, value: float, standalone: bool | None = None) -> QueryResult:
    values = {metric.name: value for metric in RETRIEVAL_METRICS}
    conversation = f"{domain}{position}"
    return QueryResult(f"{conversation}<::>{turn}", domain, conversation, turn, standalone, values)


def evaluation(
    name: str = "mine",
    *,
    benchmark: str = "mtrag",
    sizes: Mapping[str, int] = OFFICIAL_CORPUS_SIZES,
    domains: Iterable[str] = MTRAG.domains,
    value: float = 0.5,
    depth: int = 20,
) -> JudgedRun:
    """A run with as many queries per domain as the official qrels."""
    queries = [(position, domain) for domain in domains for position in range(OFFICIAL_QUERIES[domain])]
    results = tuple(
        result(position, domain, turn=1 if number < N_FIRST else 2, value=value)
        for number, (position, domain) in enumerate(queries)
    )
    ranking = tuple(Ranked(f"passage{rank}", -float(rank)) for rank in range(depth))
    return JudgedRun(
        ranking=Ranking(name, {results[0].query_id: ranking}, "rewrite", sizes),
        data=benchmark,
        results=results,
        coverage=RunScores({query_result.query_id: {} for query_result in results}, (), (), (), ()),
        standalone_source="no labels",
        ibm={metric.name: Score(value) for metric in RETRIEVAL_METRICS},
    )


def rendered(runs: list[JudgedRun]) -> str:
    return render([retrieval_section(runs)], Format.MARKDOWN)


def cells(text: str, *start: str) -> list[list[str]]:
    """Return the rows whose first cells are `start`."""
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines() if line[:1] == "|"]
    return [line for line in lines if tuple(line[: len(start)]) == start]


def section(text: str, heading: str) -> str:
    return text.split(f"## {heading}")[1].split("\n## ", maxsplit=1)[0]


def test_the_papers_domain_scores_average_to_its_totals() -> None:
    table_3, table_15 = published_table("MTRAG paper, Table 3"), published_table("MTRAG paper, Table 15")
    for form in ("last_turn", "rewrite"):
        (total,) = (row.scores for row in table_3.of(form) if row.name == "Elser")
        parts = [(row.n or 0, row.scores) for row in table_15.of(form)]
        assert sum(n for n, _ in parts) == 780
        for column, printed in enumerate(total):
            average = sum(n * float(scores[column]) for n, scores in parts) / 780
            assert average == pytest.approx(float(printed), abs=0.0101)


def test_the_papers_subsets_average_to_its_total() -> None:
    subsets = published_subsets()

    def average(*keys: tuple[str, str]) -> float:
        parts = [subsets[key] for key in keys]
        return sum(n * float(score) for n, score in parts) / sum(n for n, _ in parts)

    assert subsets["all", ""] == (777, "0.52")
    assert average(("turn", "first"), ("turn", "later")) == pytest.approx(0.52, abs=0.0101)
    assert average(*(("domain", domain) for domain in MTRAG.domains)) == pytest.approx(0.52, abs=0.0101)
    standalone = average(("later turns", "standalone"), ("later turns", "non-standalone"))
    assert standalone == pytest.approx(float(subsets["turn", "later"][1]), abs=0.0101)
    assert {domain: subsets["domain", domain][0] for domain in MTRAG.domains} == OFFICIAL_QUERIES


def test_scores_on_the_official_corpora_are_shown_next_to_the_papers() -> None:
    text = rendered([evaluation()])
    assert "not compar" not in text
    ours, *paper = cells(section(text, "All queries"), "mine") + cells(section(text, "All queries"), "paper: BM25")
    assert ours == ["mine", "rewrite", "777", *["0.500"] * 11]
    assert paper[1] == [
        "paper: BM25",
        "rewrite",
        "-",
        "0.09",
        "0.18",
        "0.25",
        "0.33",
        "0.20",
        "0.19",
        "0.22",
        "0.25",
        "-",
        "-",
        "-",
    ]
    assert cells(section(text, "R@5 by subset"), "turn", "first") == [["turn", "first", "102", "0.500", "0.89 (102)"]]
    govt = cells(section(text, "By domain"), "govt", "paper: Elser", "rewrite")
    assert govt == [
        [
            "govt",
            "paper: Elser",
            "rewrite",
            "203",
            "0.21",
            "0.47",
            "0.56",
            "0.67",
            "0.47",
            "0.48",
            "0.51",
            "0.56",
            "-",
            "-",
            "-",
        ]
    ]


def test_a_smaller_corpus_is_marked_as_not_comparable() -> None:
    text = rendered([evaluation(sizes={**OFFICIAL_CORPUS_SIZES, "govt": 1_258})])
    assert "mine is not comparable with the paper" in text
    assert "govt: 1,258 of 49,607 passages searched" in text
    assert "clapnq:" not in text
    assert cells(text, "paper: BM25", "rewrite")


def test_corpora_of_unknown_size_are_marked_as_not_comparable() -> None:
    assert not_comparable(evaluation(sizes={})) == "the number of searched passages is unknown"
    assert "fiqa: unknown of 61,022" in not_comparable(evaluation(sizes={"govt": 49_607}))
    assert not_comparable(evaluation(sizes={"govt": 49_607}, domains=["govt"])) == ""
    # Both of IBM's sizes of Cloud count as the complete corpus.
    assert {not_comparable(evaluation(sizes={"cloud": n}, domains=["cloud"])) for n in (72_422, 72_442)} == {""}


def test_other_data_are_shown_without_the_papers_scores() -> None:
    for run in (evaluation(benchmark="mtrag (sample)"), replace(evaluation(), results=evaluation().results[:-1])):
        text = rendered([run])
        assert "mine: other data than the paper's, so its scores are left out." in text
        assert "paper: " not in text


def test_the_paper_is_only_named_for_its_own_benchmark() -> None:
    for benchmark in ("mtrag", "mtrag (sample)"):
        text = rendered([evaluation(benchmark=benchmark, sizes={})])
        assert all(f"As Table {n} of the MTRAG paper." in text for n in (3, 4, 15))
    for benchmark in ("mtrag_un", "mtrag_un (sample)", "custom: mtrag", "multihop_rag (sample)"):
        text = rendered([evaluation(benchmark=benchmark, sizes={})])
        assert "## All queries\n" in text
        assert "Table" not in text
        assert "paper" not in text


def un(n: int = 332, sizes: Mapping[str, int] = OFFICIAL_CORPUS_SIZES) -> JudgedRun:
    run = evaluation(benchmark="mtrag_un", sizes=sizes)
    return replace(run, results=run.results[:n])


def test_published_scores_of_mtrag_un_are_next_to_runs_of_complete_corpora() -> None:
    text = rendered([un()])
    table = section(text, "Published: MTRAG-UN paper, Table 2")
    assert "Over 468 tasks, of which 332 are public" in table
    assert cells(table, "mine") == [["mine", "rewrite", "332", "0.500", "0.500", "0.500", "0.500"]]
    assert cells(table, "published: Elser", "rewrite")[0][2:] == ["468", "0.49", "0.60", "0.45", "0.51"]
    track = section(text, "Published: MTRAGEval task A")
    assert cells(track, "published: AILS-NTUA (rank 1 of 38)") == [
        ["published: AILS-NTUA (rank 1 of 38)", "-", "332", "0.5776"]
    ]


def test_other_queries_and_smaller_corpora_are_not_next_to_published_scores() -> None:
    for run in (un(331), un(sizes={}), un(sizes={**OFFICIAL_CORPUS_SIZES, "clapnq": 12_628})):
        assert "Published" not in rendered([run])


def test_a_single_domain_is_only_compared_with_the_papers_scores_of_that_domain() -> None:
    text = rendered([evaluation(domains=["govt"])])
    assert not cells(section(text, "All queries"), "paper: BM25")
    assert cells(section(text, "R@5 by subset"), "turn", "later")[0][-1] == "-"
    assert cells(section(text, "R@5 by subset"), "domain", "govt")[0][-1] == "0.56 (201)"
    assert {line[0] for line in cells(section(text, "By domain"))} >= {"govt"}
    assert not cells(section(text, "By domain"), "fiqa")


def test_the_papers_standalone_scores_require_labels_of_every_later_turn() -> None:
    bare = evaluation()
    few = replace(bare, results=(*bare.results[:-1], replace(bare.results[-1], standalone=True)))
    everyone = replace(bare, results=tuple(replace(r, standalone=r.query_id < "d") for r in bare.results))
    shown = [cells(rendered([run]), "later turns", "standalone")[0][-1] for run in (few, everyone)]
    assert shown == ["-", "0.48 (555)"]
    assert "1 of 675 later turns are labelled" in rendered([few])
    assert not cells(rendered([bare]), "later turns")


def test_omitted_queries_are_counted_and_named() -> None:
    names = tuple(r.query_id for r in evaluation().results[:12])
    coverage = replace(evaluation().coverage, omitted=names, without_relevant=names[:1], unjudged=("a", "b", "c"))
    text = rendered([replace(evaluation(), coverage=coverage)])
    assert f"mine omits 12 of 777 judged queries (counted 0): {', '.join(names[:10])} and 2 more.\n" in text
    assert f"without a relevant passage (counted 0): {names[0]}.\n" in text
    assert "mine: 3 of its queries are not judged (ignored)." in text


def test_a_note_names_the_metrics_that_a_shallow_run_cannot_reach() -> None:
    notes = {depth: "ranks at most" in rendered([evaluation(depth=depth)]) for depth in (19, 20)}
    assert notes == {19: True, 20: False}
    note = "mine ranks at most 5 passages per query, below the cut-off of R@10, nDCG@10, R@20"
    assert note in rendered([evaluation(depth=5)])


def test_without_standalone_labels_there_is_no_note_on_them() -> None:
    assert "labelled" in rendered([evaluation()])
    assert "labelled" not in rendered([evaluation(benchmark="custom: mine")])


def test_several_runs_are_shown_side_by_side_with_paired_counts() -> None:
    text = rendered([evaluation("old"), evaluation("new|er", value=0.75)])
    subset = section(text, "R@5 by subset")
    assert cells(subset, "all")[0][3:5] == ["0.500", "0.750"]
    pairs = section(text, "Against old, query by query")
    assert r"| new\|er | R@5    | 777 |     +0.250 |  777 |      0 |    0 |" in pairs
    assert "Against" not in rendered([evaluation()])


def test_an_unscored_cell_is_a_dash_with_the_reason() -> None:
    bare = evaluation()
    text = section(rendered([replace(bare, ibm={k: Score(None, "no predictions") for k in bare.ibm})]), "Profile")
    assert cells(text, "mine") == [["mine", *["-"] * 8]]
    assert text.count("unscored: mine: no predictions") == 1
    note = "mine: it ranks passages of another corpus, so the judgements do not apply to it."
    assert rendered([replace(bare, unscored="it ranks passages of another corpus")]).count(note) == 1
    assert "do not apply" not in rendered([bare])


def test_a_table_without_judged_queries_has_dashes() -> None:
    empty = replace(evaluation(), results=())
    assert cells(rendered([empty]), "mine")[0][:3] == ["mine", "0", "-"]


def test_runs_with_different_queries_share_no_table() -> None:
    with pytest.raises(ConfigurationError, match="the same judged queries"):
        rendered([evaluation(), evaluation("less", domains=["govt"])])


def test_every_table_is_rectangular_on_real_queries(mtrag_root: Path) -> None:
    benchmark = open_benchmark("mtrag", mtrag_root)
    qrels = [qrel for domain in MTRAG.domains for qrel in MTRAG.load_qrels(mtrag_root, domain)]
    mine = judge(Ranking("empty", {}), qrels, benchmark.tasks, data=benchmark.label)
    text = rendered([mine, replace(mine, ranking=Ranking("again", {}))])
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(blocks) == 5
    assert all(len({line.count("|") for line in block}) == len({len(line) for line in block}) == 1 for block in blocks)
    assert "every run omits 777 of 777 judged queries" in text
