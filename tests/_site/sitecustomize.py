"""Runs first in every process that a test starts: leaves out the stock harness's description of the machine, for which
it imports torch and starts pip and ten other programs, longer than most evaluations here take. Does not wait for the
disk either: tests end processes, never the machine.
"""

import os
import sys
from types import ModuleType

_none = ModuleType("torch.utils.collect_env")
_none.get_pretty_env_info = lambda: "left out by the tests"  # type: ignore[attr-defined]
sys.modules[_none.__name__] = _none
os.fsync = lambda _: None
