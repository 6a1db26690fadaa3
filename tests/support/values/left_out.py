"""The values of fields that were left out."""

import msgspec


def numbers_left_out(kind: type[msgspec.Struct]) -> dict[str, int | bool]:
    """Field → the number, or the truth value, that it has when it is left out."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    return {name: default for name, default in defaults.items() if isinstance(default, int)}
