"""Maps settings to a tree of frozen structs: lists the leaves of the tree, and builds the tree from leaf values.

Every leaf has a key, its path with dots, from which the name of its environment variable is derived. The structs check
their own invariants; what they raise is reported as SettingRefused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from siltstone.model.errors import InvalidRequest
from siltstone.offline.opening.values import Setting, SettingRefused

S = TypeVar("S", bound=msgspec.Struct)

ENVIRONMENT_PREFIX = "SILTSTONE_"


def settings_of(tree: type[msgspec.Struct], prefix: str = "") -> Iterator[Setting]:
    """Yields all leaves below a struct in the order of their declaration. Mappings (``topics.…``) are not leaves."""
    for field in msgspec.structs.fields(tree):
        key = f"{prefix}{field.encode_name}"
        if _is_branch(field.type):
            yield from settings_of(field.type, f"{key}.")
        elif isinstance(field.type, type):
            yield Setting(key, field.type, field.default)


def sections_of(tree: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct]]:
    """Returns the sections of a tree of settings by name: its fields that are structs. ``tables`` has places and no
    values with defaults of their own, and is no section."""
    fields = msgspec.structs.fields(tree)
    return {
        field.encode_name: field.type for field in fields if _is_branch(field.type) and field.name != "tables"
    }


def settings_of_sections(tree: type[msgspec.Struct]) -> Iterator[Setting]:
    """Yields all leaves of the sections of a tree."""
    for name, kind in sections_of(tree).items():
        yield from settings_of(kind, f"{name}.")


def build_tree(tree: type[S], values: Mapping[str, object], prefix: str = "") -> S:
    """Builds the struct from values by key; leaves without a value get their defaults. Raises SettingRefused."""
    arguments: dict[str, Any] = {}
    for field in msgspec.structs.fields(tree):
        key = f"{prefix}{field.encode_name}"
        if _is_branch(field.type):
            arguments[field.name] = build_tree(field.type, values, f"{key}.")
        elif key in values:
            arguments[field.name] = values[key]
    try:
        return tree(**arguments)
    except SettingRefused:
        raise
    except (InvalidRequest, ValueError) as refusal:
        raise SettingRefused(f"settings in [{prefix[:-1]}] are not allowed: {refusal}") from refusal


def values_of(tree: msgspec.Struct, prefix: str = "") -> Iterator[tuple[Setting, object]]:
    """Yields all leaves with their values."""
    for field in msgspec.structs.fields(tree):
        key = f"{prefix}{field.encode_name}"
        value = getattr(tree, field.name)
        if isinstance(value, msgspec.Struct):
            yield from values_of(value, f"{key}.")
        elif isinstance(field.type, type):
            yield Setting(key, field.type, field.default), value


def environment_name(key: str) -> str:
    return ENVIRONMENT_PREFIX + key.replace(".", "_").upper()


def unknown_key(key: str, known: Mapping[str, object], origin: str) -> SettingRefused:
    """Returns the error for an unknown key, which suggests the most similar known key."""
    by_name = {candidate.rpartition(".")[2]: candidate for candidate in known}
    near = (
        _with_all_words_of(key, known)
        or get_close_matches(key, known, n=1)
        or [by_name[name] for name in get_close_matches(key.rpartition(".")[2], by_name, n=1)]
    )
    hint = f"did you mean {near[0]}?" if near else known_settings(key, known)
    return SettingRefused(f"{origin}: {key} is not a setting; {hint}")


def _with_all_words_of(key: str, known: Iterable[str]) -> list[str]:
    """Returns the shortest known key that has all words of this one, if there is any."""
    words = set(re.split(r"[._]", key))
    found = [candidate for candidate in known if words <= set(re.split(r"[._]", candidate))]
    return sorted(found, key=lambda candidate: (len(candidate), candidate))[:1]


def known_settings(key: str, known: Iterable[str]) -> str:
    """Returns the settings in the section of ``key``, or all sections when there is no such section, for error
    texts."""
    section = key.rpartition(".")[0]
    names = [candidate for candidate in known if section and candidate.rpartition(".")[0] == section]
    if names:
        return f"known are {', '.join(names)}"
    heads = dict.fromkeys(
        f"{head}.…" if rest else head for head, _, rest in (candidate.partition(".") for candidate in known)
    )
    return f"known are {', '.join(heads)}, buckets.…, listener.… and topics.…"


def _is_branch(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
