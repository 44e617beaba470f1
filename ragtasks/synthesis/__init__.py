"""Documents made into benchmarks by a model: dialogues, multi-hop questions, and what they train.

Prompts are ours; a client answers them and keeps its replies, so that a killed synthesis pays for nothing twice. What a
model writes is read, checked against the documents and counted; nothing is filled in.

`pipeline` makes dialogues, `multihop` multi-hop questions, `quality` measures dialogues, `review` has people decide on
them, and `training` trains a rewriter or an encoder on them. Importing this package imports none of these.
"""
