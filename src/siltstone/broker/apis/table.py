"""API → handler, for all that are answered from a decoded request. Produce and Fetch have ways of their own (``broker``)."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from siltstone.broker.context import RequestContext
from siltstone.broker.parts import BrokerParts
from siltstone.kafka_protocol.notation import Message


class Handler(msgspec.Struct, frozen=True):
    request: type[Message]
    handle: Callable[[BrokerParts, RequestContext, Any], Awaitable[Message]]
