"""Reads secrets from where an operator puts them: a file that not every user of the machine may read, or a variable of
the environment.

A setting may name its place instead of the secret itself:

    env:NAME     the variable NAME of the environment
    file:PATH    the first line of a file

A group may read a file, as it may with a mounted secret of Kubernetes: 0640 and 0440 pass, 0644 does not. The file is
looked at after it was opened, so it cannot be exchanged in between. No error shows a secret.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from siltstone.foundation.credentials import VARIABLE_REFERENCE, file_of_reference, is_reference
from siltstone.model.errors import InvalidRequest
from siltstone.model.secret import Secret

FILE_BYTES_MAX = 1 << 20
"""A key or a file of settings takes some KiB. A path may lead to a device that never ends."""

REGISTRY_AUTH_VARIABLE = "SILTSTONE_REGISTRY_AUTH"
"""``user:password`` for the schema registry."""

MENDING = "chmod 640 it; a secret that Kubernetes mounts needs defaultMode: 0440"


class SecretNotReadable(InvalidRequest):
    """A secret is not where its setting says. ``origin`` is the setting, the variable or the option."""

    def __init__(self, origin: str, reason: str) -> None:
        super().__init__(f"{origin}: {reason}")
        self.origin = origin
        self.reason = reason


def is_open_to_all(mode: int) -> bool:
    """Returns whether every user of the machine may read a file of this mode. A device or a pipe holds no secret."""
    return stat.S_ISREG(mode) and bool(mode & stat.S_IROTH)


def read_secret_file(path: Path, origin: str, bytes_max: int = FILE_BYTES_MAX) -> bytes:
    """Returns the content of a file. Raises SecretNotReadable, also when every user of the machine may read it."""
    try:
        with path.open("rb") as file:
            if is_open_to_all(os.fstat(file.fileno()).st_mode):
                raise SecretNotReadable(origin, f"every user of this machine may read {path}: {MENDING}")
            content = file.read(bytes_max + 1)
    except OSError as trouble:
        raise SecretNotReadable(origin, f"{path} cannot be read: {trouble.strerror}") from trouble
    if len(content) > bytes_max:
        raise SecretNotReadable(origin, f"{path} has more than {bytes_max} bytes: name another file")
    return content


def secret_line(path: Path, origin: str, bytes_max: int = FILE_BYTES_MAX) -> Secret:
    """Returns the first line of a file; blanks belong to it. Raises SecretNotReadable, also when it is empty."""
    try:
        line = read_secret_file(path, origin, bytes_max).decode().partition("\n")[0].removesuffix("\r")
    except UnicodeDecodeError:
        raise SecretNotReadable(origin, f"{path} is not UTF-8") from None
    if not line:
        raise SecretNotReadable(origin, f"the first line of {path} is empty: write the secret there")
    return Secret(line)


def secret_of_variables(environment: Mapping[str, str], variable: str) -> Secret | None:
    """Returns the secret that a variable holds, or the first line of the file that ``variable`` with _FILE names; None
    if neither is set. Raises SecretNotReadable, also when both are set."""
    of_file = f"{variable}_FILE"
    literal, file = environment.get(variable), environment.get(of_file)
    if literal and file:
        raise SecretNotReadable(of_file, f"{variable} is set, too: take one of them away")
    if file:
        return secret_line(Path(file), of_file)
    return Secret(literal) if literal else None


def resolved(written: str, origin: str, environment: Mapping[str, str] = os.environ) -> Secret:
    """Returns the secret that a value names, or the value itself. Raises SecretNotReadable."""
    if not is_reference(written):
        return Secret(written)
    if written.startswith(VARIABLE_REFERENCE):
        variable = written.removeprefix(VARIABLE_REFERENCE)
        if not (value := environment.get(variable)):
            raise SecretNotReadable(origin, f"the environment has no variable {variable}, which env: names")
        return Secret(value)
    return secret_line(Path(file_of_reference(written)), origin)
