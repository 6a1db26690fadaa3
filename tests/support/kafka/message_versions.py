"""The versions of a message in which a test of its API has to ask."""

from siltstone.kafka_protocol.compiling.layout import Layout, layout_of
from siltstone.kafka_protocol.notation import Message


def versions_with_own_layout(*messages: type[Message]) -> list[int]:
    """The first version, the last, and each in which one of the messages, the request or its response, has another
    layout than in the version before. Codecs are tested in every version elsewhere; where a handler decides by the
    version without a change of the layout, a test names that version besides."""
    lowest, highest = messages[0].versions
    layouts = {
        version: [_layout(message, version) for message in messages] for version in range(lowest, highest + 1)
    }
    changes = {version for version in layouts if layouts[version] != layouts.get(version - 1)}
    return sorted(changes | {highest})


def _layout(message: type[Message], version: int) -> Layout:
    is_flexible = message.flexible_since is not None and version >= message.flexible_since
    return layout_of(message, version, is_flexible)
