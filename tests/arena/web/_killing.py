"""A process that serves an arena until it is killed. Its arguments are a folder and a port."""

from __future__ import annotations

import sys
from pathlib import Path

from ragtasks.arena.web import serve
from tests.arena.web._served import small_pool

if __name__ == "__main__":
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    serve(small_pool(n=400), folder / "arena.sqlite", port=port, raters_per_battle=4, types_names=True)
