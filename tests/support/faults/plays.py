"""Defines the order in which things happen to a scene, with one function for each kind of row.

Each play ends in the same way: everything acknowledged is read back in order and once, the broker ends in time, and
``siltstone check`` finds nothing.
"""

import signal
import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, TopicPartition

from support.faults.row import Acks, Reads, Row, Wanted
from support.faults.scene import ENDS_SOON_SECONDS_MAX, SECONDS_MAX, TOPIC, Outcome, Scene, Unwanted, has_line
from support.faults.victim import object_in_the_middle

STALLED_SECONDS = 1.5
"""Producers wait when there was no acknowledgement for this time."""

ACKS_SECONDS_MAX = 12
"""An append that waited for the bucket would take longer, as a put is given up after 15 s."""

AT_ONCE_SECONDS_MAX = 20
"""The time for a second SIGTERM: a third of what the first one is given in these rows, since busy cores take some of
it."""


def met_by_a_broker(scene: Scene, row: Row) -> None:
    """The fault comes while producers are at work, is looked at, and is healed; the broker continues by itself."""
    scene.begin()
    if row.before is not None:
        row.before(scene)
        keep_acknowledging(scene, 1)
    row.fault(scene)
    look_at(scene, row)
    row.heal(scene)
    go_on(scene, row.wanted)
    scene.end_well()


def look_at(scene: Scene, row: Row) -> None:
    wanted = row.wanted
    if wanted.acks is Acks.UNTIL_THE_LOG_IS_FULL:
        wait_until_acks_stop(scene)
    elif wanted.acks is Acks.GO_ON:
        keep_acknowledging(scene, row.lasts_seconds)
    scene.assert_alive("under the fault")
    if wanted.log:
        scene.wait_for_log(wanted.log)
    if wanted.full_disk:
        scene.wait_for_readiness(is_ready=False)
        scene.wait_for_metric("siltstone_disk_pressure", 2, disk=wanted.full_disk)
        scene.wait_for_metric("siltstone_upload_outage", 1)
    if wanted.reads is Reads.ALL:
        scene.assert_all_is_read()
    if wanted.reads is Reads.NEWEST:
        scene.assert_newest_is_read()
    scene.assert_alive("under the fault")


def keep_acknowledging(scene: Scene, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        scene.wait_for_acks(10, ACKS_SECONDS_MAX, "under the fault")


def wait_until_acks_stop(scene: Scene) -> None:
    deadline, last, since = time.monotonic() + SECONDS_MAX, scene.acknowledged, time.monotonic()
    while time.monotonic() - since < STALLED_SECONDS:
        scene.assert_alive("under the fault")
        if scene.acknowledged != last:
            last, since = scene.acknowledged, time.monotonic()
        if time.monotonic() > deadline:
            raise Unwanted("acknowledgements do not stop, so the fault is none")
        time.sleep(0.02)


def go_on(scene: Scene, wanted: Wanted) -> None:
    scene.wait_for_acks(100, wanted.heals_seconds, "after healing")
    if not scene.place.holds_uploads:
        scene.wait_for_objects(3, "after healing")
    if wanted.full_disk:
        scene.wait_for_metric("siltstone_upload_outage", 0)
        scene.wait_for_readiness(is_ready=True)


def told_to_end(scene: Scene, row: Row) -> None:
    """SIGTERM ends the broker under the fault, in the time that it promises; nothing is lost by it."""
    scene.begin()
    row.fault(scene)
    look_at(scene, row)
    began = time.monotonic()
    status = scene.broker.stop(ENDS_SOON_SECONDS_MAX)
    if status is None or status < 0:
        raise Unwanted(
            f"SIGTERM: after {time.monotonic() - began:.1f} s {status=}. It logged: {scene.broker.log[-2000:]}"
        )
    row.heal(scene)
    scene.restart_with_time_to_end()
    go_on(scene, row.wanted)
    scene.end_well()


def told_twice(scene: Scene, row: Row) -> None:
    """The second SIGTERM ends the broker at once; nothing is lost by it."""
    scene.begin()
    row.fault(scene)
    look_at(scene, row)
    scene.broker.signal(signal.SIGTERM)
    scene.wait_for_log(("stopping", "press again to exit now"))
    deadline = time.monotonic() + AT_ONCE_SECONDS_MAX
    while scene.broker.is_alive:  # one that comes at once after the first counts as the same
        scene.broker.signal(signal.SIGTERM)
        if time.monotonic() > deadline:
            raise Unwanted(f"it lives on after a second SIGTERM. It logged: {scene.broker.log[-2000:]}")
        time.sleep(0.02)
    status = scene.broker.exit_status(0)
    if status is None or status < 0:
        raise Unwanted(f"the second SIGTERM: {status=}. It logged: {scene.broker.log[-2000:]}")
    row.heal(scene)
    scene.restart_with_time_to_end()
    go_on(scene, row.wanted)
    scene.end_well()


def refused(scene: Scene, row: Row) -> None:
    """A command must refuse to work under the fault, and say what to do: the bucket is as it was. When the fault is
    healed nothing is lost."""
    assert row.before is not None
    row.before(scene)
    row.fault(scene)
    before = scene.digests()
    outcome = scene.command(*row.command) if row.command else scene.serve_in_vain()
    assert_refused(outcome, row.wanted)
    if scene.digests() != before:
        raise Unwanted(f"it changed the bucket: {outcome.text[-2000:]}")
    row.heal(scene)
    scene.start()
    go_on(scene, row.wanted)
    scene.end_well()


def refused_beside(scene: Scene, row: Row) -> None:
    """A second broker is refused beside a living one, which is unharmed."""
    scene.begin()
    outcome = scene.serve_in_vain(**row.settings)
    assert_refused(outcome, row.wanted)
    scene.assert_alive("beside another")
    go_on(scene, row.wanted)
    scene.end_well()


def assert_refused(outcome: Outcome, wanted: Wanted) -> None:
    if outcome.status not in wanted.exit_statuses:
        raise Unwanted(f"it was not refused: {outcome.status=}, {outcome.text[-2000:]}")
    if not has_line(outcome.text, wanted.log):
        raise Unwanted(f"no line says {wanted.log}: {outcome.text[-2000:]}")


def damaged_object(scene: Scene, row: Row) -> None:
    """An object cannot be read. Consumers get the records before it, and then an error; the broker and the check
    name the object. When the object is back everything is read."""
    scene.begin()
    scene.wait_for_objects(5, "at the beginning")
    scene.stop()
    victim = scene.victim = object_in_the_middle(scene.load_node_settings(), TOPIC)
    row.fault(scene)
    scene.start()
    offsets, errors = read_until_error(scene, victim.partition)
    if not errors:
        raise Unwanted(f"a consumer of partition {victim.partition} gets {len(offsets)} records and no error")
    scene.wait_for_log([pattern.format(**victim.words) for pattern in row.wanted.log])
    missing = set(range(victim.start_offset)) - offsets
    if missing:
        raise Unwanted(
            f"{len(missing)} of the {victim.start_offset} records before the object are not served"
        )
    checked = scene.command("check")
    if checked.status != 1 or str(victim.object_id) not in checked.text:
        raise Unwanted(f"siltstone check does not name object {victim.object_id}: {checked.text}")
    row.heal(scene)
    go_on(scene, row.wanted)
    scene.end_well()


def read_until_error(scene: Scene, partition: int) -> tuple[set[int], list[str]]:
    """The offsets that a consumer gets from the beginning, until its first error or for 8 s, and that error."""
    consumer = Consumer({"bootstrap.servers": scene.bootstrap, "group.id": "looks", "log_level": 0})
    offsets: set[int] = set()
    errors: list[str] = []
    try:
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        deadline = time.monotonic() + 8
        while not errors and time.monotonic() < deadline:
            for message in consumer.consume(1_000, 0.2):
                if message.error() is None:
                    offsets.add(message.offset())
                else:
                    errors.append(str(message.error()))
    finally:
        consumer.close()
    return offsets, errors


PLAYS: Mapping[str, Callable[[Scene, Row], None]] = {
    play.__name__.replace("_", " "): play
    for play in (
        met_by_a_broker,
        told_to_end,
        told_twice,
        refused,
        refused_beside,
        damaged_object,
    )
}
