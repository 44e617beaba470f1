"""What scores of a benchmark let one conclude, where its tasks are not independent."""

from ragtasks.statistics._bootstrap import MIN_CLUSTERS, Estimate, estimate_means
from ragtasks.statistics._clusters import UNBOUNDED, Clustered, cluster
from ragtasks.statistics._comparison import Column, Comparison, Comparisons, Mean, compare_columns

__all__ = [
    "MIN_CLUSTERS",
    "UNBOUNDED",
    "Clustered",
    "Column",
    "Comparison",
    "Comparisons",
    "Estimate",
    "Mean",
    "cluster",
    "compare_columns",
    "estimate_means",
]
