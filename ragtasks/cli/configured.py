"""`--config evaluation.yaml`: the section of a command in an evaluation file gives the defaults of its options.

What stands on the command line wins. `benchmark`, `data`, `judges` and `options` at the top of the file serve every
command that has such options, and a command's section wins over them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main

from ragtasks.config import FILE_KEYS, ReadEvaluation, read_evaluation_file
from ragtasks.errors import ConfigurationError, close_matches
from ragtasks.files import read_yaml, yaml_text

FOR_HARNESS = "ragtasks.for_harness"
"""Key of a context's `meta`: what the file says to the harness's part of `ragtasks run`."""

_HELP = "evaluation.yaml that gives defaults of these options."
_SHARED = ("benchmark", "data", "judges")


def add_config_option(root: Any) -> None:
    """Give every command of an application the option `--config`."""
    option = _option()
    for command in _leaves(root):
        if not any("--config" in parameter.opts for parameter in command.params):
            command.params.append(option)


def _leaves(group: Any) -> Iterator[Any]:
    for command in group.commands.values():
        yield from _leaves(command) if hasattr(command, "commands") else [command]


def _option() -> Any:
    """Return the option as Typer builds it, of whichever version."""
    single = typer.Typer(add_completion=False)

    @single.command()
    def _command(
        config: Annotated[
            str | None,
            typer.Option(
                "--config", metavar="FILE", help=_HELP, is_eager=True, expose_value=False, callback=_take_defaults
            ),
        ] = None,
    ) -> None:
        """Have the option built."""

    (found,) = (item for item in typer.main.get_command(single).params if item.name == "config")
    return found


def _take_defaults(context: typer.Context, named: str | None) -> None:
    """Give the options of the command that is called their defaults."""
    if named is None or context.resilient_parsing:
        return
    above = []
    place: Any = context
    while place.parent is not None:
        above.append(str(place.info_name))
        place = place.parent
    words, path = tuple(reversed(above)), Path(named)
    if words == ("run",) and not is_evaluation_file(path):
        context.meta[FOR_HARNESS] = {"config": named}
    else:
        context.default_map = {**(context.default_map or {}), **_defaults(place.command, words, context, path)}


def is_evaluation_file(path: Path) -> bool:
    """Return whether a file is ours, and not one of the harness's own, which has `model: hf` and `model_args`."""
    import yaml

    try:
        content = read_yaml(yaml_text(path))[1]
    except (FileNotFoundError, UnicodeError, yaml.YAMLError):
        return False
    except (OSError, ValueError, RecursionError) as error:  # the harness would read it without any limit
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"{path}: cannot be read ({why}). Next step: name a YAML file") from None
    if not isinstance(content, dict) or "model_args" in content:
        return False
    return isinstance(content.get("model"), dict) or bool(
        (set(FILE_KEYS) - {"model", "tasks"} | {"run"}) & content.keys()
    )


def _defaults(root: Any, words: tuple[str, ...], context: Any, path: Path) -> dict[str, Any]:
    """Return parameter -> default, as text where a command line has text."""
    found = read_evaluation_file(path, commands=root.commands)
    section: Any = found.sections
    for word in words:
        section = section.get(word, section.get(word.replace("-", "_"))) or {}
        if not isinstance(section, dict):
            raise ConfigurationError(f"{path}: {'.'.join(words)}: expected the command's options with values")
    by_name = {name: item for item in context.command.params for name in _names(item)}
    unknown = [key for key in section if _plain(key) not in by_name]
    if words == ("run",):
        context.meta[FOR_HARNESS] = {key: section[key] for key in unknown}
    elif unknown:
        problems = "; ".join(f"{'.'.join(words)}.{key}: {close_matches(_plain(key), by_name)}" for key in unknown)
        raise ConfigurationError(f"{path}: no such option: {problems}")
    shared = {key: getattr(found.evaluation, key) for key in _SHARED if key in found.content}
    given = {**shared, **found.evaluation.options, **section}
    return {
        str(by_name[_plain(key)].name): _as_typed(by_name[_plain(key)], value)
        for key, value in given.items()
        if _plain(key) in by_name and value is not None
    }


def refuse_unknown_keys(root: Any, found: ReadEvaluation) -> None:
    """Refuse what the sections of commands hold and no command has as an option, with all problems at once."""
    sections = {name: section for name, section in found.sections.items() if name not in FILE_KEYS or name == "report"}
    problems = [line for name, section in sections.items() for line in _unread(root.commands[name], section, name)]
    if problems:
        raise ConfigurationError(f"{found.path}:" + "".join(f"\n  {line}" for line in problems))


def _unread(command: Any, section: Any, name: str) -> Iterator[str]:
    """Yield what is wrong with the section of a command or of a group of commands."""
    if not isinstance(section, dict):
        yield f"{name}: expected the command's options with values"
        return
    members = {_plain(key): item for key, item in getattr(command, "commands", {}).items()}
    by_name = members or {key: item for item in command.params for key in _names(item)}
    for key, value in section.items():
        item = by_name.get(_plain(key))
        if item is None and name != "run":  # the harness's arguments stand there too
            yield f"{name}.{key}: no such {'command' if members else 'option'}; {close_matches(_plain(key), by_name)}"
        elif item is not None and members:
            yield from _unread(item, value, f"{name}.{key}")


def _names(parameter: Any) -> Iterator[str]:
    """Yield what a parameter is called in a file: its options without hyphens, or the argument's name."""
    for option in [*parameter.opts, parameter.name or ""]:
        yield _plain(option)


def _plain(key: object) -> str:
    return str(key).lstrip("-").replace("-", "_")


def _as_typed(parameter: Any, value: Any) -> Any:
    """Return a value as it would stand on the command line; objects are JSON there."""
    if getattr(parameter, "multiple", False) or parameter.nargs == -1:
        return [_text(item) for item in (value if isinstance(value, (list, tuple)) else [value])]
    if isinstance(value, bool) and getattr(parameter, "is_flag", False):
        return value
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value, default=str)


def schema_of(root: Any) -> dict[str, Any]:
    """Return command -> JSON schema of its section."""
    return {name: _schema(command) for name, command in root.commands.items()}


def _schema(command: Any) -> dict[str, Any]:
    options = [item for item in getattr(command, "params", ()) if item.name not in {"config", "help"}]
    inner = schema_of(command) if hasattr(command, "commands") else {_key(item): _kind(item) for item in options}
    text = (command.help or "").partition("\n")[0]
    is_open = command.name == "run"  # the harness's arguments stand there too
    return {"type": "object", "description": text, "properties": inner, "additionalProperties": is_open}


def _key(parameter: Any) -> str:
    options = [option for option in parameter.opts if option.startswith("--")]
    return _plain(options[-1] if options else parameter.name)


def _kind(parameter: Any) -> dict[str, Any]:
    described = {"description": getattr(parameter, "help", None) or ""}
    if getattr(parameter, "is_flag", False):
        return {"type": "boolean", **described}
    choices = [getattr(item, "value", item) for item in getattr(_type(parameter), "choices", ())]
    return {"enum": choices, **described} if choices else described


def _type(parameter: Any) -> Any:
    """Return a parameter's type; Typer calls it otherwise from release to release."""
    return getattr(parameter, "type", None) or getattr(parameter, "param_type", None)
