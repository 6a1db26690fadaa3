"""A topic's id as Kafka's own tools write it: 22 letters of URL-safe base 64. Pure."""

from base64 import urlsafe_b64encode


def written_topic_id(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")
