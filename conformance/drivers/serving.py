"""The lines of a Python driver: a feature comes in, what came of it goes out. stdout is for these lines alone."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import IO, Any

from conformance.drivers.scenario import Lacks, Mismatch, Scenario

Scenarios = Mapping[str, Callable[[Scenario], None]]


def serve(
    version: str, scenarios: Scenarios, lacks: Mapping[str, str], refusal: Callable[[Exception], str | None]
) -> None:
    """Until stdin ends. ``lacks``: why there is no scenario; ``refusal``: the broker's no in a client's exception."""
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a client prints is no line of ours
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        if request["feature"] == "version":
            _say(lines, {"outcome": "works", "detail": version})
        elif request["feature"] in lacks:
            _say(lines, {"outcome": "lacks", "detail": lacks[request["feature"]]})
        else:
            scenario = Scenario(request["bootstrap"], request["name"], _asking(lines))
            _say(lines, _outcome(scenarios[request["feature"]], scenario, refusal))


def _outcome(
    run: Callable[[Scenario], None], scenario: Scenario, refusal: Callable[[Exception], str | None]
) -> dict[str, str]:
    try:
        run(scenario)
    except Lacks as lack:
        return {"outcome": "lacks", "detail": str(lack)}
    except Mismatch as mismatch:
        return {"outcome": "failed", "detail": str(mismatch)}
    except Exception as error:
        traceback.print_exc()
        if (no := refusal(error)) is not None:
            return {"outcome": "refused", "detail": no}
        return {"outcome": "failed", "detail": f"{type(error).__name__}: {error}"}
    return {"outcome": "works"}


def _asking(lines: IO[str]) -> Callable[..., Any]:
    def ask(name: str, **arguments: object) -> Any:
        _say(lines, {"ask": name, **arguments})
        said = json.loads(sys.stdin.readline())
        if "error" in said:
            raise Mismatch(f"{name}: {said['error']}")
        return said["answer"]

    return ask


def _say(lines: IO[str], message: Mapping[str, object]) -> None:
    lines.write(json.dumps(message) + "\n")
    lines.flush()
