"""The harness tasks of ragtasks in the stock `lm_eval`: linked, unlinked, and looked after; lm_eval is not imported."""

from ragtasks.harness.link._folders import harness_tasks_folder, task_folder
from ragtasks.harness.link._link import LinkReport, LinkState, LinkStatus, link, link_state, unlink
from ragtasks.harness.link._stubs import STUB_FOLDER

__all__ = [
    "STUB_FOLDER",
    "LinkReport",
    "LinkState",
    "LinkStatus",
    "harness_tasks_folder",
    "link",
    "link_state",
    "task_folder",
    "unlink",
]
