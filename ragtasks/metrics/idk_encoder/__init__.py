"""An IDK detector that learned from labelled answers: the packaged encoder, tuned to tell a refusal by its meaning."""

from ragtasks.metrics.idk_encoder._reader import check_reader, read

__all__ = ["check_reader", "read"]
