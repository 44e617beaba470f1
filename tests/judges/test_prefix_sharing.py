"""Share of judge prompts that is a prefix already cached by a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf.prefix_sharing import one_model, rated, shares, table
from ragtasks.records import Setting


def test_equal_prefixes_count_once_and_a_small_cache_evicts() -> None:
    one, two = "a" * 8192, "b" * 8192
    found = shares([one + "1", two + "1", one + "2", two + "2"], 100_000)
    assert found.shared == pytest.approx(2 * 8192 / (4 * 8193))
    assert found.n_read == pytest.approx((2 * 8192 + 4) / 4)
    assert found.in_cache == 0.5
    assert found.price(0.5) == pytest.approx(found.n_tokens - 8192 / 4)
    assert shares([one + "1", two + "1", one + "2", two + "2"], 2048).in_cache == 0


def test_one_models_prompts_about_the_sample_share_prefixes() -> None:
    found = table(one_model("sample", Setting.FULL_RAG), 100_000, "sample")
    assert found.shared > 0.4
    assert found.in_cache > found.shared - 0.03  # no reply is late


@pytest.mark.slow
@pytest.mark.parametrize("setting", [Setting.REFERENCE, Setting.FULL_RAG])
def test_two_fifths_of_one_models_prompts_about_real_tasks_are_shared(mtrag_root: Path, setting: Setting) -> None:
    found = table(one_model(str(mtrag_root), setting), 100_000, f"one model, {setting.value}")
    assert found.shared >= 0.41
    assert found.in_cache >= 0.4


@pytest.mark.slow
def test_three_models_judged_together_share_most(mtrag_root: Path) -> None:
    assert table(rated(str(mtrag_root)), 100_000, "three models in one call").shared > 0.6
