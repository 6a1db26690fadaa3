"""The scenarios of TLS, logins, rights and quotas, the same for each client that can write and read: one function for
each of these, and the names of two errors."""

import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from conformance.drivers.payloads import numbers
from conformance.drivers.scenario import Mismatch, Scenario, holds, same
from conformance.outcome import REFUSAL_SECONDS_MAX
from conformance.secured import Access

LETS_IN = ("tls", "mutual_tls", "sasl_plain", "scram_sha_256", "scram_sha_512", "oauthbearer")
RATE, VALUE_BYTES, VALUES = 40_000, 10_000, 47
"""A client that was quiet has eleven seconds of its rate at once; the rest takes some seconds more."""
THROTTLED_SECONDS_MIN = 1.5


class SecuredClient(msgspec.Struct, frozen=True):
    """``write`` sends one value after the other, and waits for each. ``read`` reads from the beginning of partition 0.
    ``name_of``: of an error of the client."""

    write: Callable[[Access, str, Sequence[bytes]], None]
    read: Callable[[Access, str, int], Sequence[bytes | None]]
    name_of: Callable[[Exception], str]
    login_error: str
    denied_error: str


def lets_in(way: str, scenario: Scenario, client: SecuredClient) -> None:
    topic, access = scenario.topic(), access_of(scenario, way)
    client.write(access, topic, numbers(20))
    same("values", [*client.read(access, topic, 20)], numbers(20))


def wrong_password(scenario: Scenario, client: SecuredClient) -> None:
    topic, begun = scenario.topic(), time.monotonic()
    _fails(client, client.login_error, access_of(scenario, "wrong_password"), topic)
    holds("it comes late", time.monotonic() - begun < REFUSAL_SECONDS_MAX)
    same("records", _count(scenario, topic), 0)


def denied_topic(scenario: Scenario, client: SecuredClient) -> None:
    mine, others = scenario.topic(suffix="-mine"), scenario.topic(suffix="-others")
    access = access_of(scenario, "denied_topic")
    scenario.ask("allow", user=access.user, topic=mine)
    client.write(access, mine, [b"before"])
    _fails(client, client.denied_error, access, others)
    client.write(access, mine, [b"after"])
    same("records of the one and the other", (_count(scenario, mine), _count(scenario, others)), (2, 0))


def throttled(scenario: Scenario, client: SecuredClient) -> None:
    topic, access = scenario.topic(), access_of(scenario, "throttled")
    scenario.ask("limit", user=access.user, bytes_per_second=RATE)
    wanted = [value.ljust(VALUE_BYTES, b".") for value in numbers(VALUES)]
    begun = time.monotonic()
    client.write(access, topic, wanted)
    took = time.monotonic() - begun
    holds(f"nobody waited: {took:.1f} s", took > THROTTLED_SECONDS_MIN)
    same("values", [*client.read(access, topic, VALUES)], wanted)


SCENARIOS: dict[str, Callable[[Scenario, SecuredClient], None]] = {
    **{way: partial(lets_in, way) for way in LETS_IN},
    "wrong_password": wrong_password, "denied_topic": denied_topic, "throttled": throttled,
}  # fmt: skip


def scenarios_of(client: SecuredClient, lacks: Sequence[str] = ()) -> dict[str, Callable[[Scenario], None]]:
    return {
        name: partial(scenario, client=client) for name, scenario in SCENARIOS.items() if name not in lacks
    }


def access_of(scenario: Scenario, feature: str) -> Access:
    return msgspec.convert(scenario.ask("access", feature=feature), Access)


def _fails(client: SecuredClient, wanted: str, access: Access, topic: str) -> None:
    try:
        client.write(access, topic, [b"never"])
    except Mismatch:
        raise
    except Exception as error:
        same("error", client.name_of(error), wanted)
    else:
        raise Mismatch(f"it was written where {wanted} is right")


def _count(scenario: Scenario, topic: str) -> int:
    return sum(int(batch["records"]) for batch in scenario.ask("batches", topic=topic))
