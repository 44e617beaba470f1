"""How far metrics and judges agree with the people who rated MTRAG's answers."""

from ragtasks.reports.calibration._agreement import consolidated
from ragtasks.reports.calibration._calibrate import calibrate_judges
from ragtasks.reports.calibration._records import ALL, HUMAN, PAPER_TABLE_6, Consolidation

__all__ = [
    "ALL",
    "HUMAN",
    "PAPER_TABLE_6",
    "Consolidation",
    "calibrate_judges",
    "consolidated",
]
