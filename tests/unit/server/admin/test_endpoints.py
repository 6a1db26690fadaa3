import asyncio
import json

import pytest

from siltstone.runtime.clock import ManualClock
from siltstone.server.admin.endpoints import Endpoints
from siltstone.server.admin.exposition import TextFormat
from siltstone.server.admin.http_request import HttpAnswer, HttpRequest, RequestRefused
from support.metrics.scraping import parsed, value_of, values_of


class Fake:
    def __init__(self, state: str = "running", *reasons: str) -> None:
        self.sources = ()
        self.state = state
        self.reasons = list(reasons)


@pytest.fixture
def endpoints():
    made = Endpoints(ManualClock(), {"localhost"})
    yield made
    made.process.close()


def ask(endpoints: Endpoints, path: str, *, host: str = "localhost", accept: str = "") -> HttpAnswer:
    return asyncio.run(endpoints.answer(HttpRequest("GET", path, host, accept)))


def test_livez_asks_nothing(endpoints: Endpoints):
    assert ask(endpoints, "/livez") == HttpAnswer(200, b"ok\n")
    endpoints.observed = Fake("failed", "the disk is full")
    assert ask(endpoints, "/livez").status == 200


def test_readyz_says_why_not(endpoints: Endpoints):
    assert ask(endpoints, "/readyz") == HttpAnswer(503, b"not ready\nthe process is starting\n")
    endpoints.observed = Fake()
    assert ask(endpoints, "/readyz") == HttpAnswer(200, b"ok\n")
    endpoints.observed = Fake("running", "appends wait for room")
    assert ask(endpoints, "/readyz").body == b"not ready\nappends wait for room\n"
    endpoints.observed, endpoints.is_draining = Fake(), True
    assert ask(endpoints, "/readyz") == HttpAnswer(503, b"not ready\nthe process is stopping\n")


def test_readyz_in_json(endpoints: Endpoints):
    endpoints.observed, endpoints.is_draining = Fake("running", "one"), True
    answer = ask(endpoints, "/readyz", accept="application/json")
    assert (answer.status, answer.content_type) == (503, "application/json")
    assert json.loads(answer.body) == {
        "ready": False,
        "state": "draining",
        "reasons": ["the process is stopping", "one"],
    }


@pytest.mark.parametrize(
    ("accept", "text_format"),
    [("", TextFormat.PROMETHEUS), ("application/openmetrics-text", TextFormat.OPENMETRICS)],
)
def test_metrics_say_state_and_readiness(endpoints: Endpoints, accept: str, text_format: TextFormat):
    endpoints.observed = Fake("failed", "broken")
    answer = ask(endpoints, "/metrics", accept=accept)
    assert answer.content_type == text_format.value
    scrape = parsed(answer.body.decode(), text_format)
    assert value_of(scrape, "siltstone_ready") == 0
    states = values_of(scrape, "siltstone_state")
    assert [labels for labels, value in states.items() if value] == [(("state", "failed"),)]


@pytest.mark.parametrize("path", ["/", "/metrics/", "/metrics/x", "//metrics", "/Metrics", "/health"])
def test_there_is_nothing_else(endpoints: Endpoints, path: str):
    with pytest.raises(RequestRefused) as refusal:
        ask(endpoints, path)
    assert refusal.value.status == 404


@pytest.mark.parametrize("path", ["/metrics", "/livez", "/readyz", "/"])
def test_a_request_for_another_host_is_not_answered(endpoints: Endpoints, path: str):
    with pytest.raises(RequestRefused, match=r"admin\.allowed_hosts") as refusal:
        ask(endpoints, path, host="evil.example")
    assert refusal.value.status == 421


def test_the_state_is_that_of_what_is_observed_and_a_running_one_drains(endpoints: Endpoints):
    assert endpoints.state == "starting"
    for state, draining in (("running", "draining"), ("failed", "failed"), ("recovering", "recovering")):
        endpoints.observed, endpoints.is_draining = Fake(state), False
        assert endpoints.state == state
        endpoints.is_draining = True
        assert endpoints.state == draining
