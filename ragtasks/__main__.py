"""The command `ragtasks`, and `python -m ragtasks`."""

import os
import sys

_INTERRUPTED = 130
_SECONDS_BETWEEN_BARS = "30"


def main() -> None:
    """Run the command line. Ctrl-C while it loads exits without a traceback. A log file gets few progress lines."""
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_MININTERVAL", _SECONDS_BETWEEN_BARS)  # tqdm reads this variable on import
    try:
        from ragtasks.cli import main as run
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
