"""What a node says at SIGHUP: which settings have changed since its start, and that they need a restart.

A node takes new files of certificates, and new keys of issuers, while it runs. A setting itself it takes at its start
only. The text names settings and no value, which may be a secret.
"""

from collections.abc import Callable

from siltstone.model.errors import SiltstoneError
from siltstone.server.settings.node import NodeSettings, printed_settings

NAMED_MAX = 20
"""A line of a log names so many settings; another file of settings may differ in all."""

TAKEN = "the files of certificates and the keys of issuers are read again"

Reread = Callable[[], NodeSettings]
"""Reads the settings as the start of the node has read them: the file, the environment, and the flags."""


def changed_settings(before: NodeSettings, after: NodeSettings) -> tuple[str, ...]:
    """Returns the names of the settings that differ, in the order of the reference."""
    old, new = dict(printed_settings(before)), dict(printed_settings(after))
    return tuple(name for name in {**old, **new} if old.get(name) != new.get(name))


def reread_words(running: NodeSettings, reread: Reread) -> tuple[str, bool]:
    """Reads the settings again; returns what to say, and whether somebody should act on it."""
    try:
        changed = changed_settings(running, reread())
    except (SiltstoneError, OSError) as refusal:
        return (
            f"SIGHUP: {TAKEN}. The settings cannot be read, so the next start would be refused: {refusal}",
            True,
        )
    if not changed:
        return f"SIGHUP: {TAKEN}; no setting has changed since the start", False
    names = ", ".join(changed[:NAMED_MAX])
    more = f" and {len(changed) - NAMED_MAX} more" if len(changed) > NAMED_MAX else ""
    return f"SIGHUP: {TAKEN}. Changed since the start, and taken by the next one: {names}{more}", True
