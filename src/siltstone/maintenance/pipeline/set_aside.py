"""Units that failed: set aside with the reason, and tried again after a while that doubles each time.

It stands in the metadata, so every driver knows it, and a restart forgets nothing. A unit that succeeds begins
anew.
"""

from collections.abc import Iterable, Iterator

import msgspec

from siltstone.maintenance.context import MaintenanceContext
from siltstone.metadata.commands import PutKey, RemoveKey
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import SET_ASIDE_MS_MAX, SET_ASIDE_MS_MIN

_PREFIX = "set-aside/"
_TEXT_CHARACTERS_MAX = 500


class SetAside(msgspec.Struct, frozen=True):
    """Unit ``name`` of ``kind`` failed ``failures`` times in a row, the last time for ``reason``."""

    kind: str
    name: str
    reason: str
    failures: int
    since_ms: int
    retry_at_ms: int


def all_set_aside(image: MetadataImage) -> Iterator[SetAside]:
    for key, value in image.keys.items():
        if key.startswith(_PREFIX):
            yield msgspec.json.decode(value, type=SetAside)


def set_aside(image: MetadataImage, kind: str, name: str) -> SetAside | None:
    value = image.keys.get(_key(kind, name))
    return None if value is None else msgspec.json.decode(value, type=SetAside)


def put_aside(context: MaintenanceContext, kind: str, name: str, reason: str) -> SetAside:
    before = set_aside(context.metadata.image, kind, name)
    now_ms = context.clock.now_ms()
    failures = 1 if before is None else before.failures + 1
    wait_ms = min(SET_ASIDE_MS_MAX, SET_ASIDE_MS_MIN * 2 ** min(failures - 1, 30))
    after = SetAside(
        kind=kind,
        name=name,
        reason=reason[:_TEXT_CHARACTERS_MAX],
        failures=failures,
        since_ms=now_ms if before is None else before.since_ms,
        retry_at_ms=now_ms + wait_ms,
    )
    context.metadata.execute(PutKey(_key(kind, name), msgspec.json.encode(after), overwrite=True))
    return after


def take_back(context: MaintenanceContext, kind: str, names: Iterable[str]) -> None:
    for name in names:
        if _key(kind, name) in context.metadata.image.keys:
            context.metadata.execute(RemoveKey(_key(kind, name)))


def _key(kind: str, name: str) -> str:
    return f"{_PREFIX}{kind}/{name}"
