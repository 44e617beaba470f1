"""The command `ragtasks`, and `python -m ragtasks`."""

import os
import sys

_INTERRUPTED = 130
_SECONDS_BETWEEN_BARS = "30"


def main() -> None:
    """Run the command line. Ctrl-C during the import exits without a traceback.

    If stderr is not a terminal, progress bars of tqdm are updated every 30 seconds at most.
    """
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_MININTERVAL", _SECONDS_BETWEEN_BARS)  # tqdm reads this variable on import
    try:
        from ragtasks.cli import main as run
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
