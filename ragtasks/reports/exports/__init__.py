"""Results in the formats that others read: Every Eval Ever, the model cards of the Hugging Face hub, rows."""

from ragtasks.reports.exports._every_eval_ever import every_eval_ever, write_every_eval_ever
from ragtasks.reports.exports._model_card import model_card
from ragtasks.reports.exports._rows import rows_of, written

__all__ = ["every_eval_ever", "model_card", "rows_of", "write_every_eval_ever", "written"]
