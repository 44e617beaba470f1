"""How numbers and names are written in tables."""

from __future__ import annotations

import pytest

from ragtasks.tables import fixed, plain


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (-0.0004, 3, "0.000"),
        (-0.0, 3, "0.000"),
        (0.0004, 3, "0.000"),
        (-0.0006, 3, "-0.001"),
        (-0.004, 2, "0.00"),
        (-0.4, 0, "0"),
        (12.3456, 3, "12.346"),
    ],
)
def test_what_rounds_to_zero_has_no_sign(value: float, digits: int, text: str) -> None:
    assert fixed(value, digits) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", r"a\nb"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("a\u2028b", r"a\u2028b"),
        ("naïve 模型 | x", "naïve 模型 | x"),
    ],
)
def test_a_name_stays_on_its_line_and_moves_no_terminal(text: str, shown: str) -> None:
    assert plain(text) == shown
