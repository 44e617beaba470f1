"""Human evaluation as in the MTRAG paper: four properties and a comparison, several raters a task."""

from ragtasks.arena.forms._form import QUESTIONS, SCALE, Form, FormError, Rated, order_for, read_form, read_forms
from ragtasks.arena.forms._form_tables import form_sections
from ragtasks.arena.forms._human_evaluation import win_rates, write_human_evaluation

__all__ = [
    "QUESTIONS",
    "SCALE",
    "Form",
    "FormError",
    "Rated",
    "form_sections",
    "order_for",
    "read_form",
    "read_forms",
    "win_rates",
    "write_human_evaluation",
]
