"""`python -m ragtasks` is the command line, as `ragtasks` is."""

from ragtasks.cli import main

if __name__ == "__main__":
    main()
