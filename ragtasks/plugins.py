"""Extension points: what ragtasks finds by name, its own and what other packages add.

Another package adds by an entry point of the group; docs/extending.md has the recipes. Nothing is imported before it is
named, so a package that is broken harms only those who ask for it. Names of our own win. Where only a user's own
command line names things, and no file that others wrote, an import path `module:object` is a name as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Generic, TypeVar

from ragtasks.errors import ConfigurationError, RagtasksError, close_matches

_Kind = TypeVar("_Kind")
_Made = TypeVar("_Made")
_IMPORT_PATH = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)")


@dataclass(frozen=True, slots=True)
class ExtensionPoint(Generic[_Kind]):
    """One kind of thing that is found by name."""

    group: str
    """Group of entry points, such as `ragtasks.suites`."""
    what: str
    """One word for messages, such as `suite`."""
    contract: type[_Kind]
    """What everything of this kind is an instance of."""
    built_in: Mapping[str, str]
    """Our own: name -> import path."""
    by_import_path: bool = False
    """Whether an import path is a name too: results name benchmarks, suites and metrics, and what a file says may not
    choose what is imported.
    """

    def names(self) -> list[str]:
        """Return all names, sorted, without importing anything."""
        return sorted({*self.built_in, *self.plugin_names()})

    def plugin_names(self) -> list[str]:
        """Return the names that other packages add, sorted; none that is ours already."""
        return sorted({entry.name for entry in entry_points(group=self.group)} - self.built_in.keys())

    def get(self, name: str) -> _Kind:
        """Return what a name means.

        Raises:
            ConfigurationError: nothing has this name; or what has cannot be imported, or is not what it should be.
        """
        found = self.find(name)
        if found is None:
            raise ConfigurationError(f"unknown {self.what} {name!r}: {close_matches(name, self.names())}")
        return found

    def find(self, name: str) -> _Kind | None:
        """Return what a name means; None where nothing has it.

        Raises:
            ConfigurationError: what has it cannot be imported, or is not what it should be.
        """
        if name in self.built_in:
            return self._loaded(EntryPoint(name, self.built_in[name], self.group))
        entries = entry_points(group=self.group, name=name)
        if len({entry.value for entry in entries}) > 1:
            raise self.refused(name, "one package that adds it", f"{len(entries)} packages")
        if entries:
            return self._loaded(next(iter(entries)))
        named = self.by_import_path and is_import_path(name)
        return self._loaded(EntryPoint(name, name, self.group)) if named else None

    def made(self, name: str, kind: type[_Made], make: Callable[[_Kind], object]) -> _Made:
        """Return what the object of a name makes, which is of a kind.

        Args:
            name: as for `get`.
            kind: what its contract says that it makes.
            make: calls it.

        Raises:
            ConfigurationError: as `get`; or it raises an error, or makes something else.
        """
        maker, expected = self.get(name), f"an object of the kind {kind.__name__}"
        try:
            found = make(maker)
        except Exception as error:  # code of others may raise anything
            message = str(error) if isinstance(error, RagtasksError) else f"{type(error).__name__}: {error}"
            raise self.refused(name, expected, message) from error
        if not isinstance(found, kind):
            raise self.refused(name, expected, type(found).__name__)
        return found

    def refused(self, name: str, expected: str, found: str) -> ConfigurationError:
        """Return the error for an object that makes something that cannot be used."""
        added = ", ".join(
            sorted(
                f"package {entry.dist.name} ({entry.value})" if entry.dist else entry.value
                for entry in entry_points(group=self.group, name=name)
            )
        )
        next_step = "fix or uninstall that package, or name another; docs/extending.md has the contracts"
        return ConfigurationError(
            f"{self.what} {name!r}",
            where=f"{self.built_in.get(name) or added or name}, group {self.group}",
            expected=expected,
            found=found,
            next_step=next_step,
        )

    def _loaded(self, entry: EntryPoint) -> _Kind:
        try:
            found = entry.load()
        except (Exception, SystemExit) as error:  # a module of others may raise anything, and may exit
            message = str(error) if isinstance(error, RagtasksError) else f"{type(error).__name__}: {error}"
            raise self.refused(entry.name, "a module that can be imported", message) from error
        if not isinstance(found, self.contract):
            raise self.refused(entry.name, f"an object of the kind {self.contract.__name__}", type(found).__name__)
        return found


def is_import_path(text: str) -> bool:
    """Return whether a text is `module:object` with a module that is there; nothing is imported to find out."""
    match = _IMPORT_PATH.fullmatch(text)
    return match is not None and find_spec(match[1].partition(".")[0]) is not None
