"""When each kind last looked at everything and did what it found, whoever drove it: the schedule goes by it, so that
a service that starts again, or a run by hand, does not make a daily run an hourly one.
"""

from collections.abc import Iterator

import msgspec

from siltstone.maintenance.context import MaintenanceContext
from siltstone.metadata.commands import PutKey
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import LAST_RUN_NOTED_MS

_PREFIX = "last-run/"


class LastRun(msgspec.Struct, frozen=True):
    kind: str
    ended_ms: int
    report: str


def last_runs(image: MetadataImage) -> dict[str, LastRun]:
    """By kind."""
    return {each.kind: each for each in _all(image)}


def note_run(context: MaintenanceContext, kind: str, report: str) -> None:
    """Kinds that run every minute are noted now and then: the metadata need not know more."""
    now_ms = context.clock.now_ms()
    standing = context.metadata.image.keys.get(_PREFIX + kind)
    # One in the future was noted by a clock that is or was ahead.
    if standing is None or not 0 <= now_ms - _decoded(standing).ended_ms < LAST_RUN_NOTED_MS:
        value = msgspec.json.encode(LastRun(kind, now_ms, report))
        context.metadata.execute(PutKey(_PREFIX + kind, value, overwrite=True))


def _all(image: MetadataImage) -> Iterator[LastRun]:
    for key, value in image.keys.items():
        if key.startswith(_PREFIX):
            yield _decoded(value)


def _decoded(value: bytes) -> LastRun:
    return msgspec.json.decode(value, type=LastRun)
