"""The content policy of the pages that we write: our own style and script, by their hashes, and nothing else."""

from __future__ import annotations

import base64
import hashlib


def content_policy(style: str, script: str) -> str:
    """Return a content policy that lets nothing but one inline style and one inline script run, load or leave a page.

    Pictures may stand in the page itself, as addresses that hold them.

    Args:
        style: what stands between `<style>` and its end, to the character.
        script: what stands between `<script>` and its end, to the character.
    """
    own = f"style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    """Return a content policy's source for an inline element with this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


__all__ = ["content_policy"]
