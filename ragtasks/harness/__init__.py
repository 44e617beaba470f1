"""Integration of lm-evaluation-harness. No other part of ragtasks imports it.

This module imports nothing, because `link` must work without the seconds that `import lm_eval` takes.
"""
