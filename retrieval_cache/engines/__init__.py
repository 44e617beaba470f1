"""Engines of other projects: Milvus and ELSER as retrievers, and Ray, whose workers encode a corpus.

An optional part: it imports the rest, which finds each of them through the entry points of `pyproject.toml`.
"""
