"""A response as it goes over the wire: size, header, body."""

from siltstone.broker.context import RequestContext
from siltstone.kafka_protocol.headers import response_prefix
from siltstone.model.buffers import Buffer


def frame_of(context: RequestContext, *body: Buffer) -> list[Buffer]:
    size_bytes = sum(len(part) for part in body)
    prefix = response_prefix(context.api_key, context.api_version, context.correlation_id, size_bytes)
    return [prefix, *body]
