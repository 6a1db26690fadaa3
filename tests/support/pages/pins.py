"""Reads a list of pins with hashes, as pip reads it."""

import re
from pathlib import Path
from typing import NamedTuple

_PIN = re.compile(
    r"^(?P<name>[a-z0-9._-]+)==(?P<version>[^ ;]+)(?: ; [^\\]*[^\\ ])?"
    r"(?P<hashes>(?: \\\n +--hash=sha256:[0-9a-f]{64})*)\n",
    re.MULTILINE,
)


class Pin(NamedTuple):
    version: str
    hashes: frozenset[str]


def normal(name: str) -> str:
    """Returns the name as indexes compare it."""
    return re.sub("[-_.]+", "-", name).lower()


def pins_of(file: Path) -> dict[str, Pin]:
    """Name → pin. Every line of the file belongs to one."""
    text = file.read_text()
    found = list(_PIN.finditer(text))
    assert "".join(each[0] for each in found) == text, f"{file.name}: run make hashes"
    return {
        normal(each["name"]): Pin(each["version"], frozenset(re.findall("sha256:[0-9a-f]+", each["hashes"])))
        for each in found
    }
