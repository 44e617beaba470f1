"""Extension points: objects that are looked up by name, built in or added by other packages.

Another package adds an object with an entry point of the group (examples in docs/extending.md). Objects are imported
only when they are looked up, so a broken package affects only runs that use it. Built-in names take precedence. If the
name can only come from the user's own command line, an import path `module:object` is accepted too. Names in files from
others are never imported that way.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from importlib.util import find_spec
from typing import Generic, TypeVar

from ragtasks.errors import ConfigurationError, RagtasksError, close_matches

_Object = TypeVar("_Object")
_Result = TypeVar("_Result")
_IMPORT_PATH = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)")


def entries_of(group: str) -> EntryPoints:
    """Return the entry points of a group. Reading those of all packages takes longer than most commands."""
    return _read_entries(group, tuple(sys.path))


@cache
def _read_entries(group: str, _path: tuple[str, ...]) -> EntryPoints:
    return entry_points(group=group)


@dataclass(frozen=True, slots=True)
class ExtensionPoint(Generic[_Object]):
    """Objects of one type that are looked up by name."""

    group: str
    """Entry point group, such as `ragtasks.suites`."""
    noun: str
    """Noun for messages, such as `suite`."""
    contract: type[_Object]
    """Required type of the objects."""
    built_in: Mapping[str, str]
    """Built-in objects: name -> import path."""
    by_import_path: bool = False
    """An import path is accepted as a name. False for benchmarks, suites and metrics: result files contain their
    names, and a file must not choose which module is imported.
    """

    def names(self) -> list[str]:
        """Return all names, sorted, without imports."""
        return sorted({*self.built_in, *self.plugin_names()})

    def plugin_names(self) -> list[str]:
        """Return the names that other packages add, sorted, without built-in names."""
        return sorted({entry.name for entry in entries_of(self.group)} - self.built_in.keys())

    def get(self, name: str) -> _Object:
        """Return the object with a name.

        Raises:
            ConfigurationError: if no object has this name, the import fails, or the object has the wrong type.
        """
        loaded = self.find(name)
        if loaded is None:
            raise ConfigurationError(f"unknown {self.noun} {name!r}: {close_matches(name, self.names())}")
        return loaded

    def find(self, name: str) -> _Object | None:
        """Return the object with a name, or None if no object has it.

        Raises:
            ConfigurationError: if the import fails or the object has the wrong type.
        """
        if name in self.built_in:
            return self._load(EntryPoint(name, self.built_in[name], self.group))
        entries = entries_of(self.group).select(name=name)
        if len({entry.value for entry in entries}) > 1:
            raise self.refusal(name, "one package that adds it", f"{len(entries)} packages")
        if entries:
            return self._load(next(iter(entries)))
        named = self.by_import_path and is_import_path(name)
        return self._load(EntryPoint(name, name, self.group)) if named else None

    def build(self, name: str, expected_type: type[_Result], make: Callable[[_Object], object]) -> _Result:
        """Return the result of calling the object with a name.

        Args:
            name: as for `get`.
            expected_type: required type of the result.
            make: receives the object and calls it.

        Raises:
            ConfigurationError: as for `get`, or if the call fails or returns the wrong type.
        """
        maker, expected = self.get(name), f"an object of the kind {expected_type.__name__}"
        try:
            result = make(maker)
        except Exception as error:  # code of other packages may raise any exception
            message = str(error) if isinstance(error, RagtasksError) else f"{type(error).__name__}: {error}"
            raise self.refusal(name, expected, message) from error
        if not isinstance(result, expected_type):
            raise self.refusal(name, expected, type(result).__name__)
        return result

    def refusal(self, name: str, expected: str, found: str) -> ConfigurationError:
        """Return the error for an object that cannot be used, with the package that adds it."""
        added = ", ".join(
            sorted(
                f"package {entry.dist.name} ({entry.value})" if entry.dist else entry.value
                for entry in entries_of(self.group).select(name=name)
            )
        )
        next_step = "fix or uninstall that package, or name another; docs/extending.md has the contracts"
        return ConfigurationError(
            f"{self.noun} {name!r}",
            where=f"{self.built_in.get(name) or added or name}, group {self.group}",
            expected=expected,
            found=found,
            next_step=next_step,
        )

    def _load(self, entry: EntryPoint) -> _Object:
        try:
            loaded = entry.load()
        except (Exception, SystemExit) as error:  # a module of another package may raise any exception, or exit
            message = str(error) if isinstance(error, RagtasksError) else f"{type(error).__name__}: {error}"
            raise self.refusal(entry.name, "a module that can be imported", message) from error
        if not isinstance(loaded, self.contract):
            raise self.refusal(entry.name, f"an object of the kind {self.contract.__name__}", type(loaded).__name__)
        return loaded


def is_import_path(text: str) -> bool:
    """Return whether a text is `module:object` and the top-level package exists. Imports nothing."""
    match = _IMPORT_PATH.fullmatch(text)
    return match is not None and find_spec(match[1].partition(".")[0]) is not None
