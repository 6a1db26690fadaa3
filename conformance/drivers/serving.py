"""The lines of a Python driver: it reads a feature and writes the result. stdout is for these lines alone."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import IO, Any

import msgspec

from conformance.drivers.scenario import Mismatch, Refused, Scenario


class Repertoire(msgspec.Struct, frozen=True):
    """The scenarios of a client. ``lacks``: why there is no scenario; ``partly``: what a scenario leaves out because
    the client lacks it; ``refusal``: the refusal of the broker in an exception of the client."""

    version: str
    scenarios: Mapping[str, Callable[[Scenario], None]]
    refusal: Callable[[Exception], str | None]
    lacks: Mapping[str, str] = {}
    partly: Mapping[str, str] = {}


def serve(repertoire: Repertoire) -> None:
    """Serves until stdin ends."""
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a client prints is no line of ours
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        _say(lines, _answer(repertoire, request, _asking(lines)))


def _answer(repertoire: Repertoire, request: Mapping[str, str], ask: Callable[..., Any]) -> Mapping[str, str]:
    feature = request["feature"]
    if feature == "version":
        return {"outcome": "works", "detail": repertoire.version}
    if feature in repertoire.lacks:
        return {"outcome": "lacks", "detail": repertoire.lacks[feature]}
    scenario = Scenario(request["bootstrap"], request["name"], ask)
    return _outcome(repertoire, feature, scenario)


def _outcome(repertoire: Repertoire, feature: str, scenario: Scenario) -> dict[str, str]:
    try:
        repertoire.scenarios[feature](scenario)
    except Mismatch as mismatch:
        return {"outcome": "failed", "detail": str(mismatch)}
    except Refused as no:
        return {"outcome": "refused", "detail": str(no)}
    except Exception as error:
        traceback.print_exc()
        if (no := repertoire.refusal(error)) is not None:
            return {"outcome": "refused", "detail": no}
        return {"outcome": "failed", "detail": f"{type(error).__name__}: {error}"}
    return {"outcome": "works", "detail": repertoire.partly.get(feature, "")}


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
