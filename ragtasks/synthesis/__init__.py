"""Benchmarks from documents, written by a model: dialogues, multi-hop questions, and models trained on them.

The prompts are ours. The client caches replies, so a killed synthesis pays for no reply twice. Replies are parsed and
checked against the documents. Parts without a valid reply are left out and counted.

`pipeline` makes dialogues and `multihop` makes multi-hop questions. `quality` measures dialogues, and `review` serves
pages on which people accept or reject them. `rewriter_training` and `encoder_training` train models on them. Importing
this package imports none of these modules.
"""
