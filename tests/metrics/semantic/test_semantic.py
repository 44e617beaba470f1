from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtasks.errors import ConfigurationError
from ragtasks.metrics import BertScorer, resolve_encoder, semantic_scores
from ragtasks.metrics.semantic import EncoderSpec, _encoders, _specs
from ragtasks.metrics.semantic import _semantic as semantic

TOLERANCE = 1e-5
BASELINE = (0.3, 0.25, 0.2)
TEXTS = [
    "You can visit the law library to prepare for your oral argument.",
    "Yes, the library is open.  ",
    "  Yes, the library is open.",
    "No.",
    "!",
    "Ünïcode — naïve café, 東京 and ελληνικά",
    "A text that says [SEP] in the middle",
    "zzqx " * 30,
    "The court offers self-help resources online. " * 12,
    "Each Court of Appeal offers resources; ask the clerk about form APP-001. " * 60,
    "Wholly different: volcanoes erupt when magma rises through the crust. " * 50,
]
NO_TOKENS = "\u200b"
"""bert-score 0.3.13 crashes on an empty text under transformers 5; this text has no token either."""


@pytest.fixture(scope="module")
def minilm() -> BertScorer:
    scorer = BertScorer(resolve_encoder("minilm"), device="cpu")
    scorer.loaded()
    return scorer


@pytest.fixture(scope="module")
def make_oracle() -> Callable[..., Any]:
    with warnings.catch_warnings():
        # bert-score imports matplotlib and pandas; their deprecation warnings are not ours to fix.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        from bert_score import BERTScorer  # type: ignore[import-untyped]

    def make(n_layers: int = 6, **options: Any) -> Any:
        return BERTScorer(model_type=_encoders.packaged_minilm("a test"), num_layers=n_layers, device="cpu", **options)

    return make


def oracle_scores(oracle: Any, pairs: list[tuple[str, str]]) -> list[tuple[float, ...]]:
    # One pair per batch, as the official script does: in larger batches padding has similarity 0, which wins in
    # bert-score if all real similarities are negative.
    columns = oracle.score(*map(list, zip(*pairs, strict=True)), batch_size=1)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def as_tuples(scores: list[semantic.BertScore]) -> list[tuple[float, float, float]]:
    return [(score.precision, score.recall, score.f1) for score in scores]


def assert_close(actual: Sequence[tuple[float, ...]], expected: Sequence[tuple[float, ...]]) -> None:
    assert len(actual) == len(expected) > 0
    for left, right in zip(actual, expected, strict=True):
        assert left == pytest.approx(right, abs=TOLERANCE)


def all_pairs() -> list[tuple[str, str]]:
    return [(candidate, reference) for i, candidate in enumerate(TEXTS) for reference in TEXTS[i % 3 :: 3]]


def test_scores_equal_bert_score_also_on_long_texts(minilm: BertScorer, make_oracle: Callable[..., Any]) -> None:
    pairs = all_pairs()
    assert_close(as_tuples(minilm.score(pairs)), oracle_scores(make_oracle(), pairs))
    assert (minilm.n_texts, minilm.n_truncated) == (len({text.strip() for text in TEXTS}), 2)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable:UserWarning")  # how it reads its baseline
def test_scores_equal_bert_score_with_a_baseline_and_fewer_layers(
    make_oracle: Callable[..., Any], tmp_path: Path
) -> None:
    rows = ["LAYER,P,R,F", *(",".join(map(str, (layer, *BASELINE))) for layer in range(7))]
    (tmp_path / "baseline.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    oracle = make_oracle(4, lang="en", rescale_with_baseline=True, baseline_path=str(tmp_path / "baseline.tsv"))
    pairs = [*pairwise(TEXTS[:9]), (NO_TOKENS, TEXTS[0])]
    scorer = BertScorer(EncoderSpec("minilm", 4, BASELINE), device="cpu")
    assert_close(as_tuples(scorer.score(pairs)), oracle_scores(oracle, pairs))


def test_empty_texts_score_like_texts_without_tokens_in_bert_score(
    minilm: BertScorer, make_oracle: Callable[..., Any]
) -> None:
    stand_ins = [(NO_TOKENS, "word"), ("word", NO_TOKENS), (NO_TOKENS, NO_TOKENS)]
    expected = oracle_scores(make_oracle(), stand_ins)
    assert expected == [(0.0, 0.0, 0.0)] * 3
    assert as_tuples(minilm.score(stand_ins)) == expected
    assert as_tuples(minilm.score([("", "word"), ("word", " \n"), ("", "")])) == expected
    assert as_tuples(minilm.score([("[SEP]", "word")])) == [(0.0, 0.0, 0.0)]


def test_no_pairs_load_no_encoder() -> None:
    scorer = BertScorer(resolve_encoder("./no/such/folder"))
    assert scorer.score([]) == []
    assert semantic_scores([], [], [], scorer) == []


@pytest.mark.slow
def test_groups_do_not_change_a_score(minilm: BertScorer, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = all_pairs()
    expected = as_tuples(minilm.score(pairs))
    assert [as_tuples(minilm.score([pair]))[0] for pair in pairs[:8]] == expected[:8]
    monkeypatch.setattr(semantic, "_GROUP_TOKENS", 40)
    reported: list[tuple[int, int]] = []
    small = BertScorer(minilm.spec, device="cpu", progress=lambda done, total: reported.append((done, total)))
    assert as_tuples(small.score(pairs)) == expected
    assert reported[-1] == (small.n_texts, small.n_texts)
    assert len(reported) == small.n_texts


def test_the_order_of_pairs_does_not_matter(minilm: BertScorer) -> None:
    pairs = all_pairs()
    assert_close(as_tuples(minilm.score(pairs[::-1]))[::-1], as_tuples(minilm.score(pairs)))


@given(st.lists(st.sampled_from(TEXTS[:7]), min_size=2, max_size=2))
def test_scores_are_in_range_and_precision_swaps_with_recall(minilm: BertScorer, texts: list[str]) -> None:
    forward, backward = minilm.score([(texts[0], texts[1]), (texts[1], texts[0])])
    assert all(-1 <= one_score <= 1 + TOLERANCE for one_score in (forward.precision, forward.recall, forward.f1))
    assert (forward.precision, forward.recall) == pytest.approx((backward.recall, backward.precision), abs=TOLERANCE)


@pytest.mark.parametrize("baseline", [None, BASELINE])
def test_a_perfect_answer_has_the_maximum(baseline: tuple[float, float, float] | None) -> None:
    scorer = BertScorer(EncoderSpec("minilm", 2, baseline), device="cpu")
    assert_close(as_tuples(scorer.score([(text, text) for text in TEXTS])), [(1.0, 1.0, 1.0)] * len(TEXTS))


def test_semantic_scores_equal_pairwise_scores(minilm: BertScorer) -> None:
    responses, targets = [TEXTS[0], TEXTS[1], ""], [TEXTS[3], TEXTS[1], TEXTS[0]]
    passages = [[TEXTS[8], TEXTS[5]], [], [TEXTS[8]]]
    scores = semantic_scores(responses, targets, passages, minilm)
    assert minilm.n_texts == 6
    for score, response, target, given_passages in zip(scores, responses, targets, passages, strict=True):
        single = minilm.score([(response, target)])[0]
        against = [minilm.score([(response, passage)])[0].precision for passage in given_passages]
        assert (score.bert_recall, score.bert_precision) == pytest.approx((single.recall, single.precision), abs=1e-5)
        assert score.bert_k_precision == (pytest.approx(max(against), abs=TOLERANCE) if against else None)


def test_semantic_scores_require_lists_of_equal_length(minilm: BertScorer) -> None:
    with pytest.raises(ValueError, match=r"zip\(\) argument"):
        semantic_scores(["a", "b"], ["a"], [[]], minilm)


def test_the_table_of_encoders_equals_bert_score() -> None:
    package = find_spec("bert_score")
    assert package.origin is not None
    folder = Path(package.origin).parent
    layers = dict(
        re.findall(r'^    "([^"]+)": (\d+),', (folder / "utils.py").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for name, (layer, baseline) in _specs._WITH_BASELINE.items():
        assert layer == int(layers[name])
        rows = (folder / "rescale_baseline" / "en" / f"{name}.tsv").read_text(encoding="utf-8").split()[1:]
        assert [float(cell) for cell in rows[layer].split(",")] == [layer, *baseline]


def test_known_names_resolve_with_layer_and_baseline() -> None:
    official = resolve_encoder("microsoft/deberta-xlarge-mnli")
    assert (official.layer, official.baseline) == (40, (0.5169066, 0.5170288, 0.5150192))
    assert resolve_encoder("minilm") == EncoderSpec("minilm", 6, None)
    assert resolve_encoder("microsoft/deberta-v3-large") == EncoderSpec("microsoft/deberta-v3-large", None, None)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MiniLM", "minilm"),
        ("deberta-xlarge-mnli", "microsoft/deberta-xlarge-mnli"),
        ("microsoft/deberta_xlarge_mnli", "microsoft/deberta-xlarge-mnli"),
        ("mircosoft/deberta-xlarge-mnli", "microsoft/deberta-xlarge-mnli"),
        ("roberta-larg", "roberta-large"),
        ("", "minilm"),
    ],
)
def test_a_misspelled_name_lists_close_matches(name: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(meant)):
        resolve_encoder(name)


def test_a_folder_without_an_encoder_is_one_clear_error(tmp_path: Path) -> None:
    scorer = BertScorer(resolve_encoder(str(tmp_path)))
    with pytest.raises(ConfigurationError, match="next step: download it"):
        scorer.score([("a", "b")])


def test_a_folder_uses_the_last_layer(minilm: BertScorer) -> None:
    from_folder = BertScorer(resolve_encoder(_encoders.packaged_minilm("a test")), device="cpu")
    pairs = [(TEXTS[0], TEXTS[1])]
    assert as_tuples(from_folder.score(pairs)) == as_tuples(minilm.score(pairs))


def test_a_layer_above_the_last_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="at least 7 layers"):
        BertScorer(EncoderSpec("minilm", 7, None), device="cpu").loaded()
