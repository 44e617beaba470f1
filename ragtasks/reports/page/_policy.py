"""Our own style and script, and the content policy of the pages that we write: these by their hashes, nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources


def content_policy(style: str, script: str) -> str:
    """Return a content policy that lets nothing but one inline style and one inline script run, load or leave a page.

    Pictures may stand in the page itself, as addresses that hold them.

    Args:
        style: what stands between `<style>` and its end, to the character.
        script: what stands between `<script>` and its end, to the character.
    """
    own = f"style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def own_text(name: str) -> str:
    """Return a style, a script or a template of this folder."""
    return resources.files("ragtasks.reports.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return a content policy's source for an inline element with this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


__all__ = ["content_policy", "own_text"]
