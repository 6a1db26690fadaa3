"""Closes the connections of removed users, and those of principals whose sessions were ended, on one node.

The metadata notes such a principal with the version of the entry. Every connection that is open when the node learns of
it was let in under an earlier image, so all of that name are closed; its next login is judged by the new image.
"""

from collections.abc import Callable

from siltstone.metadata.image import MetadataImage
from siltstone.metadata.service import MetadataService
from siltstone.server.network.listeners import Listeners


class SessionsWatch:
    def __init__(self, image: MetadataImage, listeners: Listeners) -> None:
        self._image = image
        self._listeners = listeners

    def follow(self, image: MetadataImage) -> None:
        """Closes what the image ends that the image before did not."""
        before, self._image = self._image, image
        if image.ended_sessions.is_unchanged_from(before.ended_sessions):
            return
        changed = image.ended_sessions.changed_from(before.ended_sessions)
        self._listeners.end_sessions({principal for principal, _ in changed})


def follow_ended_sessions(metadata: MetadataService, listeners: Listeners) -> Callable[[], None]:
    """Ends sessions as the metadata says, until the function that it returns is called."""
    return metadata.add_listener(SessionsWatch(metadata.image, listeners).follow)
