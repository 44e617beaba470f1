"""Holm's correction: who looks at many differences finds some by chance."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return the adjusted p values, in their order, each at least the plain one and at most 1; [] for none.

    Calling a difference real where its adjusted p is at most 5 % errs about even one of those that are not real in at
    most 5 % of all such families, whatever the differences have to do with one another.

    Source: S. Holm, A simple sequentially rejective multiple test procedure (1979).

    Args:
        p_values: of everything that was tested together; None where nothing could be tested, which stays None and does
            not count.

    Raises:
        ValueError: a p value outside 0 to 1.
    """
    tested = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    if not all(0 <= p <= 1 for p, _ in tested):
        raise ValueError("a p value is not between 0 and 1")
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for place, (p, index) in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - place) * p))
        adjusted[index] = largest
    return adjusted


__all__ = ["holm"]
