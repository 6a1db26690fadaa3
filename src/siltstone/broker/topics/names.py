"""Names of topics: which are illegal, in Kafka's words, and which are the broker's own. The rule itself is the
metadata's (``metadata.topic_names``)."""

from siltstone.metadata.topic_names import is_topic_name
from siltstone.model.limits import TOPIC_NAME_CHARACTERS_MAX

OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})
"""Consumers that subscribe to a pattern leave them out, by the flag in the metadata."""


def why_illegal(name: str) -> str | None:
    """None: it may be a topic's name."""
    if is_topic_name(name):
        return None
    return f"Topic name is invalid: {_reason(name)}"


def _reason(name: str) -> str:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > TOPIC_NAME_CHARACTERS_MAX:
        begin = name[:TOPIC_NAME_CHARACTERS_MAX]
        return f"the length of '{begin}…' is longer than the max allowed length {TOPIC_NAME_CHARACTERS_MAX}"
    return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
