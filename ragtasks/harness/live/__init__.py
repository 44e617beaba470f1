"""Live conversations: each turn is asked with the model's own earlier answers, not with the benchmark's."""

from ragtasks.harness.live._live_task import LiveTask

__all__ = ["LiveTask"]
