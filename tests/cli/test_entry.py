"""The entry point, before the command line is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_INTERRUPTED_IMPORT = """
import sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == "ragtasks.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from ragtasks.__main__ import main
main()
"""


def test_ctrl_c_while_the_command_line_loads_ends_it_quietly() -> None:
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED_IMPORT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device of this system is always full")
def test_a_full_output_is_one_error() -> None:
    line = f"{sys.executable} -m ragtasks init --schema > /dev/full"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "ragtasks: No space left on device. Next step: check the disk, the path and its permissions\n"
