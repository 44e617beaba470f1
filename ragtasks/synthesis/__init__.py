"""Benchmarks from documents, written by a model: dialogues, multi-hop questions, and models trained on them.

Prompts are ours. The client caches replies, so a killed synthesis pays for no reply twice. Replies are parsed, checked
against the documents and counted; missing parts are never filled in.

`pipeline` makes dialogues, `multihop` multi-hop questions, `quality` measures dialogues, `review` lets people decide on
them, and `training` trains a rewriter or an encoder on them. Importing this package imports none of these.
"""
