"""What kcat can do, which is producing, reading and asking."""

import json
import re
import time
from collections.abc import Callable
from contextlib import ExitStack

from conformance.drivers import exchange
from conformance.drivers.kcat.program import (
    KcatFailed,
    Printed,
    Running,
    member,
    read,
    read_to_end,
    run,
    running,
    send_files,
    send_lines,
)
from conformance.drivers.payloads import START_MS, codec_values
from conformance.drivers.scenario import Mismatch, Scenario, holds, same, until, values

MIB = 1 << 20
PARTITIONS = 6


def values_of(records: list[Printed]) -> list[bytes | None]:
    return [record.value for record in records]


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def blocks(count: int, first: int = 0) -> list[bytes]:
    """Lines of the size in which kcat reads its input: a line is sent when it is complete."""
    return [number.ljust(1023) for number in numbers(count, first)]


def typed(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def plain(scenario: Scenario) -> None:
    topic = scenario.topic(3)
    payloads = [bytes([number]) * number + bytes(range(256)) for number in range(30)]
    for partition in range(3):
        send_files(scenario, topic, payloads[partition::3], "-p", str(partition))
    got = read(scenario, topic, 30)
    for partition in range(3):
        mine = [record for record in got if record.partition == partition]
        same(f"values of {partition}", values_of(mine), payloads[partition::3])
        same(f"offsets of {partition}", [record.offset for record in mine], [*range(len(mine))])


def keys_and_nulls(scenario: Scenario) -> None:
    topic = scenario.topic()
    send_lines(scenario, topic, [b"k:v", b"k:", b":v"], "-K:", "-Z")
    send_lines(scenario, topic, [b"v"])
    wanted = [(b"k", b"v"), (b"k", None), (None, b"v"), (None, b"v")]
    same("records", [(record.key, record.value) for record in read(scenario, topic, 4)], wanted)


def headers(scenario: Scenario) -> None:
    topic = scenario.topic()
    send_lines(scenario, topic, [b"x"], "-H", "a=1", "-H", "b=", "-H", "a=2")
    same("headers", read(scenario, topic, 1)[0].headers, "a=1,b=,a=2")


def codec(name: str) -> Callable[[Scenario], None]:
    def scenario_of_codec(scenario: Scenario) -> None:
        topic = scenario.topic()
        lines = [b"%d " % number * 100 for number in range(200)]
        send_lines(scenario, topic, lines, "-X", f"compression.codec={name}", "-X", "linger.ms=100")
        same("stored", {batch["codec"] for batch in scenario.ask("batches", topic=topic)}, {name})
        same("values", values_of(read(scenario, topic, 200)), lines)

    return scenario_of_codec


def create_time(scenario: Scenario) -> None:
    """kcat gives the time of sending; that others' are kept is seen by reading them."""
    topic = scenario.filled(3, first_timestamp_ms=START_MS, step_ms=10)
    before = int(time.time() * 1000)
    send_lines(scenario, topic, [b"now"])
    *given, now = (record.timestamp_ms for record in read(scenario, topic, 4))
    same("timestamps", given, [START_MS, START_MS + 10, START_MS + 20])
    holds(f"{now} is not the time of sending", before <= now <= time.time() * 1000)


def log_append_time(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    scenario.ask("fill", topic=topic, count=1, first_timestamp_ms=1_000)
    record = json.loads(run(scenario, "-C", "-q", "-J", "-t", topic, "-o", "beginning", "-c", "1"))
    same("kind", record["tstype"], "logappend")
    holds(f"{record['ts']} is not now", before <= record["ts"] <= time.time() * 1000)


def acks(scenario: Scenario) -> None:
    for level in ("0", "1", "all"):
        topic = scenario.topic(suffix=f"-{level}")
        send_lines(scenario, topic, numbers(50), "-X", f"topic.acks={level}")
        same(f"values with acks={level}", values_of(read(scenario, topic, 50)), numbers(50))


def idempotence(scenario: Scenario) -> None:
    topic = scenario.topic()
    send_lines(scenario, topic, numbers(1000), "-X", "enable.idempotence=true")
    same("values", values_of(read(scenario, topic, 1000)), numbers(1000))
    batches = scenario.ask("batches", topic=topic)
    holds("the batches carry no producer id", all(batch["producer_id"] >= 0 for batch in batches))


def idempotence_restart(scenario: Scenario) -> None:
    topic = scenario.topic()
    options = ("-X", "enable.idempotence=true", "-X", "reconnect.backoff.max.ms=500", "-X", "linger.ms=1")
    with running(scenario, "-P", "-E", "-t", topic, *options) as sender:
        sender.write(typed(blocks(100)))
        until("the first records", lambda: len(read_to_end(scenario, topic)) == 100)
        scenario.ask("kill")
        sender.write(typed(blocks(500, 100)))
        scenario.ask("start")
        sender.write(typed(blocks(100, 600)))
        sender.finish()
    same("values", values_of(read_to_end(scenario, topic)), blocks(700))


def large(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"max.message.bytes": str(9 * MIB)})
    value = bytes(range(256)) * (8 * MIB // 256)
    send_files(scenario, topic, [value], "-X", f"message.max.bytes={9 * MIB}")
    (record,) = read(scenario, topic, 1, "-X", f"fetch.message.max.bytes={9 * MIB}")
    holds("8 MiB came back otherwise", record.value == value)


def too_large(scenario: Scenario) -> None:
    topic = scenario.topic(configs={"max.message.bytes": "100000"})
    try:
        send_files(scenario, topic, [bytes(200_000)])
    except KcatFailed as failed:
        holds(f"not the right error: {failed}", "Message size too large" in str(failed))
    else:
        raise Mismatch("200,000 bytes were taken where 100,000 are allowed")


def many_partitions(scenario: Scenario) -> None:
    topic = scenario.topic(200)
    send_lines(scenario, topic, numbers(2_000), "-p", "-1", "-X", "sticky.partitioning.linger.ms=0")
    got = read_to_end(scenario, topic)
    same("values", sorted(int(record.value or b"-1") for record in got), [*range(2_000)])
    holds("few partitions were written", len({record.partition for record in got}) > 150)


def auto_create(scenario: Scenario) -> None:
    send_lines(scenario, scenario.name, [b"first"])
    same("values", values_of(read(scenario, scenario.name, 1)), [b"first"])


def transactions(scenario: Scenario) -> None:
    """One kcat is killed within its transaction: the next one of that name ends it."""
    topic = scenario.topic()
    option = ("-X", f"transactional.id={scenario.name}")
    send_lines(scenario, topic, [b"committed"], *option)
    with running(scenario, "-P", "-t", topic, *option) as sender:
        sender.write(typed(blocks(1)))
        until(
            "what is not committed",
            lambda: len(read_to_end(scenario, topic, *_isolation("read_uncommitted"))) == 2,
        )
    send_lines(scenario, topic, [b"after"], *option)
    got = values_of(read_to_end(scenario, topic, *_isolation("read_committed")))
    same("committed", got, [b"committed", b"after"])


def _isolation(level: str) -> tuple[str, str]:
    return "-X", f"isolation.level={level}"


def earliest_latest(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    same("from the earliest", values_of(read_to_end(scenario, topic)), values(0, range(10)))
    same("at the end", read_to_end(scenario, topic, "-o", "end"), [])
    same("the last three", values_of(read_to_end(scenario, topic, "-o", "-3")), values(0, range(7, 10)))


def seek_offset(scenario: Scenario) -> None:
    topic = scenario.filled(100)
    for offset in (60, 3, 99):
        (record,) = read(scenario, topic, 1, "-o", str(offset), "-p", "0")
        same(f"at {offset}", (record.offset, record.value), (offset, b"0-%d" % offset))


def seek_time(scenario: Scenario) -> None:
    topic = scenario.filled(100, first_timestamp_ms=START_MS, step_ms=10)
    for stamp, wanted in ((START_MS - 5, 0), (START_MS + 500, 50), (START_MS + 501, 51)):
        (record,) = read(scenario, topic, 1, "-o", f"s@{stamp}", "-p", "0")
        same(f"first from {stamp - START_MS} ms", record.offset, wanted)
    until_stamp = read_to_end(
        scenario, topic, "-o", f"s@{START_MS + 200}", "-o", f"e@{START_MS + 300}", "-p", "0"
    )
    same("from 200 to 300 ms", [record.offset for record in until_stamp], [*range(20, 30)])


def out_of_range(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    got = read(scenario, topic, 10, "-o", "1000", "-p", "0", "-X", "topic.auto.offset.reset=earliest")
    same("with earliest", values_of(got), values(0, range(10)))
    try:
        read(scenario, topic, 1, "-o", "1000", "-p", "0", "-X", "topic.auto.offset.reset=error")
    except KcatFailed as failed:
        holds(f"no word of the cause: {failed}", "out of range" in str(failed).lower())
    else:
        raise Mismatch("an offset that is not there was read")


def small_fetches(scenario: Scenario) -> None:
    topic = scenario.topic()
    payloads = [bytes([number]) * 50_000 for number in range(10)]
    for payload in payloads:
        send_files(scenario, topic, [payload])
    got = read(scenario, topic, 10, "-X", "fetch.message.max.bytes=1000")
    holds("records are not whole or not in order", values_of(got) == payloads)


def pattern(scenario: Scenario) -> None:
    topics = [scenario.topic(suffix="-a"), scenario.topic(suffix="-b")]
    for topic in topics:
        scenario.ask("fill", topic=topic, count=3)
    with member(
        scenario, f"^{scenario.name}-[a-z]$", "-X", "topic.metadata.refresh.interval.ms=500"
    ) as reader:
        until("six records", lambda: len(reader.records) == 6)
        same("topics", {record.topic for record in reader.records}, set(topics))
        later = scenario.topic(suffix="-c")
        scenario.ask("fill", topic=later, count=3)
        until("a topic made later", lambda: [record.topic for record in reader.records].count(later) == 3)


def read_committed(scenario: Scenario) -> None:
    topic = scenario.filled(20)
    same(
        "values", values_of(read_to_end(scenario, topic, *_isolation("read_committed"))), values(0, range(20))
    )


def long_idle(scenario: Scenario) -> None:
    topic = scenario.topic()
    with running(scenario, "-P", "-E", "-t", topic) as sender:
        sender.write(typed(blocks(1)))
        until("the first record", lambda: len(read_to_end(scenario, topic)) == 1)
        time.sleep(3)
        sender.write(typed(blocks(1, 1)))
        sender.finish()
    same("values", values_of(read_to_end(scenario, topic)), blocks(2))


def every_record_once(*options: str) -> Callable[[Scenario], None]:
    def scenario_of_members(scenario: Scenario) -> None:
        topic = scenario.topic(PARTITIONS)
        with ExitStack() as started:
            members = [started.enter_context(member(scenario, topic, *options)) for _ in range(2)]
            fill_all(scenario, topic, range(20))
            until("two members with three each", lambda: _owned(members) == [3, 3])
            members.append(started.enter_context(member(scenario, topic, *options)))
            fill_all(scenario, topic, range(20, 40))
            until("three members with two each", lambda: _owned(members) == [2, 2, 2])
            members[0].end()
            fill_all(scenario, topic, range(40, 60))
            until("two members again", lambda: _owned(members[1:]) == [3, 3])
            until("360 records", lambda: sum(len(each.records) for each in members) >= 360)
            for left in members[1:]:
                left.end()
        got = sorted(record.value or b"" for each in members for record in each.records)
        same("records", got, sorted(value for part in range(PARTITIONS) for value in values(part, range(60))))

    return scenario_of_members


def _owned(members: list[Running]) -> list[int]:
    return [each.partitions for each in members]


def fill_all(scenario: Scenario, topic: str, wanted: range) -> None:
    for partition in range(PARTITIONS):
        scenario.ask("fill", topic=topic, count=len(wanted), partition=partition, first=wanted.start)


def static_member(scenario: Scenario) -> None:
    topic = scenario.topic(PARTITIONS)
    with member(scenario, topic, "-X", "group.instance.id=stays") as stays:
        with member(scenario, topic, "-X", "group.instance.id=returns") as returns:
            until(
                "three partitions each",
                lambda: _owned([stays, returns]) == [3, 3],
            )
            rebalances = stays.rebalances
            returns.end()
        with member(scenario, topic, "-X", "group.instance.id=returns") as again:
            until("its partitions again", lambda: again.partitions == 3)
            fill_all(scenario, topic, range(5))
            until("all records", lambda: len(stays.records) + len(again.records) == 5 * PARTITIONS)
            same("rebalances that the other saw", stays.rebalances, rebalances)


def group_restart(scenario: Scenario) -> None:
    topic = scenario.filled(100)
    with member(scenario, topic, "-c", "50") as reader:
        until("its end", lambda: reader.process.poll() is not None)
        same("before", values_of(reader.records), values(0, range(50)))
    scenario.ask("kill")
    scenario.ask("start")
    with member(scenario, topic, "-c", "50") as reader:
        until("its end", lambda: reader.process.poll() is not None)
        same("after", values_of(reader.records), values(0, range(50, 100)))


def cluster(scenario: Scenario) -> None:
    topic = scenario.topic(4)
    found = json.loads(run(scenario, "-L", "-J"))
    same("brokers", [broker["name"] for broker in found["brokers"]], [scenario.bootstrap])
    same("controller", found["controllerid"], found["brokers"][0]["id"])
    described = {each["topic"]: each["partitions"] for each in found["topics"]}
    same("leaders", {each["leader"] for each in described[topic]}, {found["controllerid"]})
    same("partitions", len(described[topic]), 4)


def list_offsets(scenario: Scenario) -> None:
    topic = scenario.filled(100, first_timestamp_ms=START_MS, step_ms=10)
    for asked, wanted in ((-2, 0), (-1, 100), (START_MS + 555, 56), (START_MS + 5_000, -1)):
        told = run(scenario, "-Q", "-t", f"{topic}:0:{asked}").decode()
        found = re.search(r"offset (-?\d+)", told)
        holds(f"no offset in {told!r}", found)
        same(f"offset for {asked}", found and int(found[1]), wanted)


def exchange_write(scenario: Scenario) -> None:
    for partition, name in enumerate(exchange.CODECS):
        options = ("-p", str(partition), "-X", f"compression.codec={name}", "-X", "linger.ms=100")
        send_lines(scenario, scenario.name, codec_values(), *options)


def exchange_read(scenario: Scenario) -> None:
    got = read_to_end(scenario, scenario.name)
    exchange.check_exchange((record.partition, record.value) for record in got)


SCENARIOS = {
    "exchange_write": exchange_write, "exchange_read": exchange_read,
    "plain": plain, "keys_and_nulls": keys_and_nulls, "headers": headers, "create_time": create_time,
    "log_append_time": log_append_time, "acks": acks, "idempotence": idempotence,
    "idempotence_restart": idempotence_restart, "large": large, "too_large": too_large,
    "many_partitions": many_partitions, "auto_create": auto_create, "transactions": transactions,
    **{name: codec(name) for name in ("gzip", "snappy", "lz4", "zstd")},
    "earliest_latest": earliest_latest, "seek_offset": seek_offset, "seek_time": seek_time,
    "out_of_range": out_of_range, "small_fetches": small_fetches, "pattern": pattern,
    "read_committed": read_committed, "long_idle": long_idle,
    "rebalance": every_record_once(),
    "cooperative": every_record_once("-X", "partition.assignment.strategy=cooperative-sticky"),
    "static_member": static_member, "group_restart": group_restart, "cluster": cluster, "list_offsets": list_offsets,
}  # fmt: skip

NO_ADMIN = "kcat changes nothing in a cluster"
LACKS = {
    "pause_resume": "kcat cannot pause", "manual_commit": "kcat commits by itself only",
    "kip848": "librdkafka 2.0.2 has the classic protocol only",
    **dict.fromkeys(
        ("topics", "partitions", "describe_configs", "alter_configs", "incremental_alter", "groups", "group_offsets",
         "delete_records"),
        NO_ADMIN,
    ),
}  # fmt: skip
PARTLY = {
    "keys_and_nulls": "kcat sends no empty key beside an absent one", "headers": "kcat's headers are text",
    "create_time": "kcat sends its own time only", "list_offsets": "kcat has no max timestamp",
    "cluster": "kcat shows no cluster id",
}  # fmt: skip
