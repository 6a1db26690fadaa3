"""Where the password of a user comes from: a question at the terminal, a file or stdin; never an argument, which every
user of the machine can read in the list of processes."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from siltstone.model.access import ScramMechanism
from siltstone.model.errors import InvalidRequest
from siltstone.model.secret import Secret
from siltstone.model.serving_limits import SCRAM_ROUNDS, SCRAM_ROUNDS_MAX, SCRAM_ROUNDS_MIN
from siltstone.runtime.secret_sources import SecretNotReadable, read_secret_file

F = TypeVar("F", bound=Callable[..., Any])

STDIN = "-"
PASSWORD_BYTES_MAX = 4_096


class PasswordNotReadable(InvalidRequest):
    """The password cannot be read from the terminal, the file or stdin, or it is none."""


def password_options(command: F) -> F:
    """Adds --password-file, --mechanism and --rounds; the command receives ``password_file``, ``mechanisms`` and
    ``rounds``."""
    options = (
        click.option(
            "--password-file", metavar="FILE",
            help="Read the password from the first line of FILE, - from stdin. Without it the terminal is asked.",
        ),
        click.option(
            "--mechanism", "mechanisms", multiple=True,
            type=click.Choice([each.written for each in ScramMechanism], case_sensitive=False),
            help="Keep the password for this mechanism only; repeatable. Without it for all, and for PLAIN, too.",
        ),
        click.option(
            "--rounds", type=click.IntRange(SCRAM_ROUNDS_MIN, SCRAM_ROUNDS_MAX), default=SCRAM_ROUNDS,
            help=f"How often the password is hashed: more of it makes guesses and logins slower [{SCRAM_ROUNDS}].",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def read_password(name: str, file: str | None) -> Secret:
    """Returns the password of the user ``name``. Raises PasswordNotReadable."""
    if file is None:
        password = _asked(name)
    elif file == STDIN:
        password = _first_line(sys.stdin.buffer.read(PASSWORD_BYTES_MAX + 1), "stdin")
    else:
        password = _of_file(Path(file))
    if not password or "\0" in password:
        raise PasswordNotReadable("a password is not empty, and has no NUL character")
    return Secret(password)


def _asked(name: str) -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        raise PasswordNotReadable(
            "not a terminal, so no password can be asked for: give a file with --password-file, or - for stdin"
        )
    return str(click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True))


def _of_file(path: Path) -> str:
    try:
        content = read_secret_file(path, "--password-file")
    except SecretNotReadable as refusal:
        raise PasswordNotReadable(str(refusal)) from refusal
    return _first_line(content, f"password file {path}")


def _first_line(content: bytes, origin: str) -> str:
    line = content.partition(b"\n")[0].removesuffix(b"\r")
    if len(line) > PASSWORD_BYTES_MAX:
        raise PasswordNotReadable(f"the first line of {origin} has more than {PASSWORD_BYTES_MAX} bytes")
    try:
        return line.decode()
    except UnicodeDecodeError:
        raise PasswordNotReadable(f"the first line of {origin} is not UTF-8") from None
