"""Build hook that makes the description of a package index from README.

Relative links and pictures are dead on an index. They become addresses at the tag of the version if `[project.urls]`
contains a `Repository`, and plain text otherwise. `pip install` names the package instead of the checkout.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)\[([^\]]+)\]\((?!\w+:)([^)]+)\)")
_NO_RELEASE = "There is no release on a package index yet: install from a checkout. "


class IndexDescription(MetadataHookInterface):
    """Sets the description of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme`, which pyproject.toml declares as dynamic."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = described(readme, metadata.get("urls", {}).get("Repository"), metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def described(readme: str, repository: str | None, version: str) -> str:
    """Return the description of a version, with links to a repository if its address is known."""

    def link(found: re.Match[str]) -> str:
        mark, text, path = found.groups()
        if repository is None:
            return "" if mark else text
        return f"{mark}[{text}]({repository}/{'raw' if mark else 'blob'}/v{version}/{path})"

    text = _LINK.sub(link, readme.replace(_NO_RELEASE, ""))
    return text.replace("pip install '.[", "pip install 'ragtasks[")
