"""Spec files: TOML into checked values, with errors that name the file, the field and the nearest known key."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from recshard.errors import InputError, nearest


class Spec(BaseModel):
    """Base of every spec file's schema: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, arbitrary_types_allowed=True)


S = TypeVar("S", bound=Spec)


def read_toml(path: str | Path) -> dict[str, Any]:
    """Return the TOML document at `path`.

    Raises:
        InputError: the file is missing, unreadable, or no TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML text: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None


def read_spec(path: str | Path, schema: type[S]) -> S:
    """Return the TOML file at `path`, checked against `schema`.

    Raises:
        InputError: as `read_toml`, or the first field that does not fit the schema.
    """
    return parse_spec(read_toml(path), schema, source=str(path))


def parse_spec(document: dict[str, Any], schema: type[S], source: str) -> S:
    """Return `document` checked against `schema`; `source` names it in errors.

    Raises:
        InputError: the first field that does not fit the schema.
    """
    try:
        return schema.model_validate(document)
    except ValidationError as error:
        raise InputError(f"{source}: {_first_message(error, schema)}") from None


def _first_message(error: ValidationError, schema: type[Spec]) -> str:
    """Say what is wrong with the first offending field, unknown keys first: they explain missing ones."""
    details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
    detail = details[0]
    location = tuple(part for part in detail["loc"] if not str(part).startswith("function-"))
    field = _path(location)
    if detail["type"] == "extra_forbidden":
        known = _keys_at(schema, location[:-1])
        return f"unknown key '{field}'{nearest(str(location[-1]), known)}; accepted: {', '.join(sorted(known))}"
    if detail["type"] == "missing":
        return f"key '{field}' is missing"
    message = detail["msg"].removeprefix("Value error, ")
    if message.startswith("found ") or not field:
        return f"{field + ': ' if field else ''}{message}"
    return f"{field}: found {detail['input']!r}; {message[0].lower() + message[1:]}"


def _path(location: tuple[int | str, ...]) -> str:
    """Write a location as a user counts: `tables[2].rows` is the second table's rows."""
    text = ""
    for part in location:
        text += f"[{part + 1}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text


def _keys_at(schema: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that the schema accepts at a location."""
    for part in location:
        if isinstance(part, int):
            continue
        field = schema.model_fields.get(str(part))
        inner = _inner_model(field.annotation) if field else None
        if inner is None:
            return []
        schema = inner
    return list(schema.model_fields)


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _inner_model(argument)
        if found is not None:
            return found
    return None
