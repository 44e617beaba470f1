"""Human evaluation as in the MTRAG paper: four properties and a comparison, several raters a task."""

from ragtasks.arena.forms._form import (
    QUESTIONS,
    SCALE,
    Form,
    FormError,
    Rated,
    compared,
    order_for,
    read_form,
    read_forms,
)
from ragtasks.arena.forms._form_tables import form_sections
from ragtasks.arena.forms._human_evaluation import win_rates, write_human_evaluation

__all__ = [
    "QUESTIONS",
    "SCALE",
    "Form",
    "FormError",
    "Rated",
    "compared",
    "form_sections",
    "order_for",
    "read_form",
    "read_forms",
    "win_rates",
    "write_human_evaluation",
]
