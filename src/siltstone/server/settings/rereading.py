"""What a node says at SIGHUP: which settings have changed since its start, and that they need a restart.

A node takes new files of certificates, and new keys of issuers, while it runs. A setting itself it takes at its start
only. The text names settings and no value, which may be a secret.
"""

from collections.abc import Callable

from siltstone.model.errors import SiltstoneError
from siltstone.server.settings.node import NodeSettings, printed_settings

TAKEN = "the files of certificates and the keys of issuers are read again"


def changed_settings(before: NodeSettings, after: NodeSettings) -> tuple[str, ...]:
    """Returns the names of the settings that differ, in the order of the reference."""
    old, new = dict(printed_settings(before)), dict(printed_settings(after))
    return tuple(name for name in {**old, **new} if old.get(name) != new.get(name))


def reread_words(running: NodeSettings, reread: Callable[[], NodeSettings]) -> tuple[str, bool]:
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
    return f"SIGHUP: {TAKEN}. Changed since the start, and taken by the next one: {', '.join(changed)}", True
