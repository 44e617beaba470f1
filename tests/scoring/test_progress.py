"""Long parts of the scoring show their progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

from ragtasks.benchmarks import benchmark_folder, open_benchmark
from ragtasks.config import config_from_options
from ragtasks.results import ScoredAnswer
from ragtasks.scoring import ResponseScorer
from tests.judges._scripted import response


def test_bertscore_shows_its_encoder_and_all_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, int, int | None]] = []

    @contextmanager
    def bars() -> Iterator[Callable[[str, int, int | None], None]]:
        yield lambda *step: steps.append(step)

    monkeypatch.setenv("RAGTASKS_RUNS", str(tmp_path))
    loads: list[str] = []

    def step(note: str) -> AbstractContextManager[None]:
        loads.append(note)
        return nullcontext()

    monkeypatch.setattr("ragtasks.scoring._encoding.progress_bars", bars)
    monkeypatch.setattr("ragtasks.scoring._encoding.step", step)
    sample = open_benchmark("mtrag", benchmark_folder("mtrag", "sample", Path()).resolve())
    scorer = ResponseScorer(sample, config_from_options({"encoder": "minilm"}))
    scorer.score([ScoredAnswer(response(text), "reference") for text in ("From April.", "It opens in April.")])
    assert "loading the encoder minilm" in loads
    texts = [(done, total) for note, done, total in steps if note == "BERTScore: texts"]
    assert len(texts) == len(steps) > 2
    assert texts == [(n, len(texts)) for n in range(1, len(texts) + 1)]
