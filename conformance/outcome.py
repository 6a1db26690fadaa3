"""The result of one client's try of one feature, as a frozen value, and the expected result."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from conformance.features import Feature

REFUSAL_SECONDS_MAX = 10.0
"""A refusal that takes longer is a hang. librdkafka asks for some seconds before it gives up."""


class Outcome(StrEnum):
    WORKS = "works"
    REFUSED = "refused"
    NOT_ANNOUNCED = "not announced"
    CLIENT_LACKS_IT = "client lacks it"
    FAILS = "fails"
    HANGS = "hangs"
    CRASHES = "crashes"
    NOT_RUN = "not run"


class Result(msgspec.Struct, frozen=True):
    """``detail``: the error or the reason, in one line."""

    client: str
    feature: str
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.client} {self.feature}: {self.outcome} {self.detail}".rstrip()


_FINE = frozenset({Outcome.WORKS, Outcome.CLIENT_LACKS_IT, Outcome.NOT_RUN})

EXPECTED: Mapping[str, Mapping[str, frozenset[Outcome]]] = {}
"""The expected results by broker, then by feature. A feature that is not named here has to work."""


def is_expected(result: Result, broker: str) -> bool:
    return result.outcome in EXPECTED.get(broker, {}).get(result.feature, _FINE)


def refusal(feature: Feature, announced: frozenset[int], seconds: float) -> Outcome:
    """Returns the kind of the refusal."""
    if seconds > REFUSAL_SECONDS_MAX:
        return Outcome.HANGS
    return Outcome.REFUSED if feature.needs <= announced else Outcome.NOT_ANNOUNCED
