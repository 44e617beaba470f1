"""What the official scripts ask judges, and how they read the replies."""

from ragtasks.judges.official._parsers import IBM
from ragtasks.judges.official._prompts import official_rubrics
from ragtasks.judges.official._ragas import ragas_rl_f, unasked_rl_f

__all__ = [
    "IBM",
    "official_rubrics",
    "ragas_rl_f",
    "unasked_rl_f",
]
