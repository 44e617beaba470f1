"""Length of the text that BERTScore reads: all of it with the official encoder, as the official scripts do."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from ragtasks.metrics import BertScorer
from ragtasks.metrics.semantic import EncoderSpec, _encoders
from tests.metrics._deberta import write_deberta

LAYER = 2
UNCUT = 100_000
"""A limit above every text here: bert-score 0.3.13 fails under transformers 5 on a tokenizer without a limit."""
SHORT = "The ferry of Lindvik runs from April to October."
LONG = "; ".join(f"in week {week} the ferry made {week * 7 % 23} trips" for week in range(1, 40))
LONGER = LONG + " and then the season was over"
PAIRS = [(SHORT, SHORT + " Not in winter."), (SHORT, LONG), (LONG, SHORT), (LONGER, LONG), (LONG, LONGER[::-1])]


@pytest.fixture(scope="module")
def unlimited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_deberta(tmp_path_factory.mktemp("encoders") / "deberta")


def ours(folder: Path) -> tuple[list[tuple[float, float, float]], int]:
    scorer = BertScorer(EncoderSpec(str(folder), LAYER, None), device="cpu")
    result = [(score.precision, score.recall, score.f1) for score in scorer.score(PAIRS)]
    return result, scorer.n_truncated


def bert_score(folder: Path) -> list[tuple[float, ...]]:
    with warnings.catch_warnings():
        # bert-score imports matplotlib and pandas; their deprecation warnings are not ours to fix.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        from bert_score import BERTScorer  # type: ignore[import-untyped]
    scorer = BERTScorer(model_type=str(folder), num_layers=LAYER, device="cpu")
    columns = scorer.score(*map(list, zip(*PAIRS, strict=True)), batch_size=1)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.slow
def test_a_text_over_512_tokens_is_read_completely_as_in_bert_score(unlimited: Path, tmp_path: Path) -> None:
    tokeniser = _encoders.Encoder(EncoderSpec(str(unlimited), LAYER, None), "cpu")
    lengths = [len(ids) for ids in tokeniser.token_ids([SHORT, LONG, LONGER])[0]]
    assert lengths[0] < 512 < lengths[1] < lengths[2]
    for limit, n_cut in ((lengths[0], 0), (lengths[0] - 1, 1)):
        tokeniser.max_tokens = limit
        assert tokeniser.token_ids([SHORT])[1] == n_cut
    result, n_truncated = ours(unlimited)
    assert n_truncated == 0
    for own, theirs in zip(result, bert_score(write_deberta(tmp_path, model_max_length=UNCUT)), strict=True):
        assert own == pytest.approx(theirs, abs=1e-6)


@pytest.mark.slow
def test_the_limit_of_the_tokenizer_is_applied_as_in_bert_score(unlimited: Path, tmp_path: Path) -> None:
    limited = write_deberta(tmp_path, model_max_length=512)
    result, n_truncated = ours(limited)
    assert n_truncated == 3  # two long texts, and the first reversed
    for own, theirs in zip(result, bert_score(limited), strict=True):
        assert own == pytest.approx(theirs, abs=1e-6)
    untruncated = ours(unlimited)[0]
    assert result[0] == pytest.approx(untruncated[0], abs=1e-6)
    assert all(abs(cut[0] - full[0]) > 1e-4 for cut, full in zip(result[1:], untruncated[1:], strict=True))


@pytest.mark.parametrize(("named", "limit"), [(int(1e30), None), (512, 512), (8192, 8192)])
def test_the_ibm_limit_is_the_tokenizers_own(named: int, limit: int | None) -> None:
    class Tokeniser:
        model_max_length = named

    assert _encoders.ibm_max_tokens(Tokeniser()) == limit


def test_a_tokenizer_without_a_limit_is_limited_to_absolute_positions() -> None:
    from transformers import AutoTokenizer, BertConfig, DebertaConfig, RobertaConfig

    tokeniser = AutoTokenizer.from_pretrained(_encoders.packaged_minilm("a test"), model_max_length=int(1e30))
    relative = {"max_position_embeddings": 512, "relative_attention": True}
    assert _encoders._max_tokens(tokeniser, BertConfig(max_position_embeddings=300)) == 300
    assert _encoders._max_tokens(tokeniser, RobertaConfig(max_position_embeddings=514, pad_token_id=1)) == 512
    assert _encoders._max_tokens(tokeniser, DebertaConfig(**relative, position_biased_input=True)) == 512
    assert _encoders._max_tokens(tokeniser, DebertaConfig(**relative, position_biased_input=False)) is None
