"""Engines of other projects: Milvus and ELSER as retrievers, and Ray workers that encode a corpus.

An optional part. It imports the other modules, which find the engines through the entry points of `pyproject.toml`.
"""
