"""Benchmarks: pinned official files, how they are fetched and checked, and raw file to records.

Import from the modules: a name `fetch` here would hide the module `ragtasks.benchmarks.fetch`.
"""
