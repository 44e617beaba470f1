"""`ragtasks link`, `unlink` and `path`: how lm_eval finds our tasks."""

from __future__ import annotations

from ragtasks.cli.app import app, say


@app.command()
def link() -> None:
    """Let the stock `lm_eval` that imports here find our tasks without a flag."""
    from ragtasks.harness import link as linking

    done = linking.link()
    say(*(f"wrote {path}" for path in done.written), *(f"removed {path}" for path in done.removed))
    say(f"{len(done.written)} written, {len(done.kept)} already right, {len(done.removed)} removed in {done.folder}")


@app.command()
def unlink() -> None:
    """Remove what `link` wrote."""
    from ragtasks.harness import link as linking

    done = linking.unlink()
    say(*(f"removed {path}" for path in done.removed), f"{len(done.removed)} removed from {done.folder}")


@app.command()
def path() -> None:
    """Print the folder with our task YAML files, for `lm_eval --include_path`."""
    from ragtasks.harness.link import task_folder

    say(task_folder())


__all__ = ["link", "path", "unlink"]
