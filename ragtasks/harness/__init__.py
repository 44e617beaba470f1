"""The only part of ragtasks that imports the harness.

Nothing is imported here: `link` must work without the seconds that `import lm_eval` takes.
"""
