"""A response as it goes over the wire: size, header, body."""

import msgspec

from siltstone.broker.context import RequestContext
from siltstone.kafka_protocol.headers import response_prefix
from siltstone.model.buffers import Buffer


class EncodedBody(msgspec.Struct, frozen=True):
    """A response's body that a handler has as bytes already, in the version that was asked."""

    body: bytes


def frame_of(context: RequestContext, *body: Buffer) -> list[Buffer]:
    size_bytes = sum(len(part) for part in body)
    prefix = response_prefix(context.api_key, context.api_version, context.correlation_id, size_bytes)
    return [prefix, *body]
