"""``Secret``: a text that no log, error, repr or pickle shows.

Code that needs the text asks for it by name, so a search for ``revealed`` finds every place where one is unwrapped.
"""

from typing import Any

from siltstone.model.errors import InvalidRequest

SHOWN = "<secret>"


class SecretStays(InvalidRequest):
    """A secret was to be pickled, which nothing had allowed: a pickle is sent to other machines or written to disk."""


class Secret:
    """Shows as ``<secret>``. Two secrets of one text are equal. ``may_travel``: it may be pickled, because the program
    that it is sent to has to log in with it."""

    __slots__ = ("_may_travel", "_text")

    def __init__(self, text: str, *, may_travel: bool = False) -> None:
        self._text = text
        self._may_travel = may_travel

    def revealed(self) -> str:
        return self._text

    def travelling(self) -> "Secret":
        """Returns the same secret, which may be pickled."""
        return Secret(self._text, may_travel=True)

    def __repr__(self) -> str:
        return SHOWN

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return SHOWN

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> tuple[Any, ...]:
        if not self._may_travel:
            raise SecretStays("a secret is not pickled: name the file that holds it on each machine instead")
        return _arrived, (self._text,)


def _arrived(text: str) -> Secret:
    return Secret(text, may_travel=True)


NO_SECRET = Secret("")
