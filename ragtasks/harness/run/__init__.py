"""The harness as a call of ours: its arguments, its output, and what it fails of."""

from ragtasks.harness.run._run import own_tasks, run_harness

__all__ = ["own_tasks", "run_harness"]
