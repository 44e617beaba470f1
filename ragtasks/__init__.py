"""Multi-turn retrieval-augmented generation benchmarks as tasks of lm-evaluation-harness.

Importing this package does no work: no model, no network, no logging set-up. The harness finds the tasks
through the YAML files (`ragtasks link`, or `--include_path "$(ragtasks path)"`).
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
