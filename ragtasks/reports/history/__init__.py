"""A folder of results: listed, shown, compared, ranked."""

from ragtasks.reports.history._diff import diff_entries
from ragtasks.reports.history._entries import Entry
from ragtasks.reports.history._history import History, read_file, read_history, select_entries
from ragtasks.reports.history._leaderboard import write_leaderboard
from ragtasks.reports.history._tables import render_differences, render_entries, render_list, render_skipped

__all__ = [
    "Entry",
    "History",
    "diff_entries",
    "read_file",
    "read_history",
    "render_differences",
    "render_entries",
    "render_list",
    "render_skipped",
    "select_entries",
    "write_leaderboard",
]
