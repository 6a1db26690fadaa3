"""Tries one feature with one client, measures the time, and judges the result."""

import time

from conformance.driving import Driver, DriverCrashed, DriverHangs
from conformance.features import Feature
from conformance.outcome import Outcome, Result, refusal
from conformance.stage import Stage

_VERSION_SECONDS_MAX = 60
_DETAIL_CHARACTERS_MAX = 300
_JUDGED = {"works": Outcome.WORKS, "lacks": Outcome.CLIENT_LACKS_IT, "failed": Outcome.FAILS}


class Trial:
    """A broker, and the APIs that it announces."""

    def __init__(self, bootstrap: str, stage: Stage, announced: frozenset[int]) -> None:
        self._bootstrap = bootstrap
        self._stage = stage
        self._announced = announced

    def try_feature(self, client: str, driver: Driver, feature: Feature, name: str) -> Result:
        """``name``: the prefix of the topics and groups of this try, which was not used before."""
        request = {"feature": feature.id, "bootstrap": self._bootstrap, "name": name}
        begun = time.monotonic()
        try:
            said = driver.tell(request, self._stage, feature.seconds_max)
        except DriverHangs as hangs:
            return Result(client, feature.id, Outcome.HANGS, str(hangs), time.monotonic() - begun)
        except DriverCrashed as crashed:
            return Result(
                client, feature.id, Outcome.CRASHES, one_line(str(crashed)), time.monotonic() - begun
            )
        detail = one_line(said.get("detail", "").replace(name, "NAME").replace(self._bootstrap, "HOST:PORT"))
        return self._judged(client, feature, said["outcome"], detail, time.monotonic() - begun)

    def version(self, driver: Driver) -> str:
        """What the driver says of its client."""
        try:
            return str(driver.tell({"feature": "version"}, self._stage, _VERSION_SECONDS_MAX)["detail"])
        except (DriverHangs, DriverCrashed) as silent:
            return one_line(f"unknown: {silent}")

    def _judged(self, client: str, feature: Feature, said: str, detail: str, seconds: float) -> Result:
        if said != "refused":
            return Result(client, feature.id, _JUDGED[said], detail, seconds)
        outcome = refusal(feature, self._announced, seconds)
        if outcome is Outcome.HANGS:
            detail = f"{detail} (only after {seconds:.0f} s)"
        return Result(client, feature.id, outcome, detail, seconds)


def one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _DETAIL_CHARACTERS_MAX else f"{line[: _DETAIL_CHARACTERS_MAX - 1]}…"
