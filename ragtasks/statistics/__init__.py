"""What scores of a benchmark let one conclude, where its tasks are not independent."""

from ragtasks.statistics._clusters import UNBOUNDED, Clustered, Floats, cluster
from ragtasks.statistics._comparison import Column, Comparison, Comparisons, Mean, compare_columns
from ragtasks.statistics._detectable import LEVEL
from ragtasks.statistics._holm import holm
from ragtasks.statistics._means import MIN_CLUSTERS, Estimate, estimate_means

__all__ = [
    "LEVEL",
    "MIN_CLUSTERS",
    "UNBOUNDED",
    "Clustered",
    "Column",
    "Comparison",
    "Comparisons",
    "Estimate",
    "Floats",
    "Mean",
    "cluster",
    "compare_columns",
    "estimate_means",
    "holm",
]
