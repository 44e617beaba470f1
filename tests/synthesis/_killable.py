"""A synthesis that a test may kill at any moment: `python -m tests.synthesis._killable URL FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.synthesis._making import make

if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]), unanswerable=0.1)
