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
            raise self._error(name, "one package that adds it", ", ".join(sorted(map(_origin, entries))), "")
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
        maker = self.get(name)
        try:
            found = make(maker)
        except Exception as error:  # code of others may raise anything
            message = str(error) if isinstance(error, RagtasksError) else f"{type(error).__name__}: {error}"
            raise self._error(name, f"an object of the kind {kind.__name__}", message, self._origin(name)) from error
        if not isinstance(found, kind):
            expected = f"an object of the kind {kind.__name__}"
            raise self._error(name, expected, type(found).__name__, self._origin(name))
        return found

    def refused(self, name: str, expected: str, found: str) -> ConfigurationError:
        """Return the error for an object that makes something that cannot be used."""
        return self._error(name, expected, found, self._origin(name))

    def _origin(self, name: str) -> str:
        if name in self.built_in:
            return self.built_in[name]
        return ", ".join(_origin(entry) for entry in entry_points(group=self.group, name=name)) or name

    def _loaded(self, entry: EntryPoint) -> _Kind:
        try:
            found = entry.load()
        except (Exception, SystemExit) as error:  # a module of others may raise anything, and may exit
            message = str(error) if isinstance(error, RagtasksError) else f"{type(error).__name__}: {error}"
            raise self._error(entry.name, "a module that can be imported", message, _origin(entry)) from error
        if not isinstance(found, self.contract):
            expected, kind = self.contract.__name__, type(found).__name__
            raise self._error(entry.name, f"an object of the kind {expected}", f"{kind}", _origin(entry))
        return found

    def _error(self, name: str, expected: str, found: str, origin: str) -> ConfigurationError:
        where = f"{origin}, group {self.group}" if origin else f"group {self.group}"
        next_step = "fix or uninstall that package, or name another; docs/extending.md has the contracts"
        return ConfigurationError(
            f"{self.what} {name!r}", where=where, expected=expected, found=found, next_step=next_step
        )


def is_import_path(text: str) -> bool:
    """Return whether a text is `module:object` with a module that is there; nothing is imported to find out."""
    match = _IMPORT_PATH.fullmatch(text)
    return match is not None and find_spec(match[1].partition(".")[0]) is not None


def _origin(entry: EntryPoint) -> str:
    """Return the package that adds an entry point, else the import path."""
    return f"package {entry.dist.name} ({entry.value})" if entry.dist else entry.value
