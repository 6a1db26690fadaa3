import pytest

from siltstone.server.admin.http_request import HttpCaller, HttpRequest, RequestRefused, request_of


def asked(*headers: tuple[str, str], path: str = "/metrics") -> HttpRequest:
    lines = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return request_of({"method": "GET", "path": path, "headers": lines}, HttpCaller("10.0.0.1"))


def test_what_prometheus_sends_is_read():
    request = asked(
        ("host", "127.0.0.1:9644"),
        ("user-agent", "Prometheus/3.1.0"),
        (
            "accept",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
            "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,*/*;q=0.1",
        ),
        ("authorization", "Bearer x"),
    )
    assert (request.method, request.path, request.host) == ("GET", "/metrics", "127.0.0.1")
    assert request.wants_openmetrics and request.authorization.revealed() == "Bearer x"
    assert request.caller.host == "10.0.0.1"


@pytest.mark.parametrize(
    ("accept", "is_wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; q=0", False),
        ("application/openmetrics-text;q=0.2, text/plain;q=0.9", False),
        ("Application/OpenMetrics-Text;version=1.0.0", True),
        ("application/openmetrics-text;q=nan", False),
    ],
)
def test_the_format_is_the_one_that_the_client_prefers(accept: str, is_wanted: bool):
    headers = [("accept", accept)] if accept else []
    assert asked(("host", "h"), *headers).wants_openmetrics is is_wanted


@pytest.mark.parametrize(
    ("host", "named"),
    [
        ("h", "h"),
        ("H:1", "h"),
        ("[::1]:9644", "::1"),
        ("[::1]", "::1"),
        ("127.0.0.1:1", "127.0.0.1"),
        ("", ""),
    ],
)
def test_a_host_is_read_without_its_port(host: str, named: str):
    assert asked(("host", host)).host == named


def test_an_old_client_need_not_name_the_host():
    assert asked().host == ""


@pytest.mark.parametrize("name", ["host", "authorization"])
def test_a_header_that_must_be_single_is_not_taken_twice(name: str):
    with pytest.raises(RequestRefused, match=f"{name} is sent twice") as refusal:
        asked((name, "a"), (name, "a"))
    assert refusal.value.status == 400


def test_a_header_that_is_a_list_may_be_sent_in_parts():
    parts = (("accept", "text/plain;q=0.5"), ("accept", "application/openmetrics-text"))
    assert asked(("host", "h"), *parts).wants_openmetrics
