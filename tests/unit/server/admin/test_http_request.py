import pytest

from siltstone.server.admin.http_request import RequestRefused, parse_head


def head(first: str, *headers: str) -> bytes:
    return "\r\n".join([first, *headers]).encode("latin-1")


def test_what_prometheus_sends_is_read():
    request = parse_head(
        head(
            "GET /metrics?name=x HTTP/1.1",
            "Host: 127.0.0.1:9644",
            "User-Agent: Prometheus/3.1.0",
            "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
            "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,*/*;q=0.1",
            "Accept-Encoding: gzip",
            "X-Prometheus-Scrape-Timeout-Seconds: 10",
        )
    )
    assert (request.method, request.path, request.host) == ("GET", "/metrics", "127.0.0.1")
    assert request.wants_openmetrics


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
    headers = [f"Accept: {accept}"] if accept else []
    assert parse_head(head("GET / HTTP/1.1", "Host: h", *headers)).wants_openmetrics is is_wanted


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
    assert parse_head(head("HEAD / HTTP/1.1", f"Host: {host}")).host == named


def test_an_old_client_need_not_name_the_host():
    assert parse_head(b"GET /livez HTTP/1.0").host == ""


REFUSED = {
    "nothing": (b"", 400),
    "no version": (b"GET /", 400),
    "HTTP/2": (b"PRI * HTTP/2.0", 400),
    "an absolute target": (head("GET http://h/metrics HTTP/1.1", "Host: h"), 400),
    "a space in the path": (head("GET /a b HTTP/1.1", "Host: h"), 400),
    "a control character": (head("GET /\x01 HTTP/1.1", "Host: h"), 400),
    "a lonely line feed": (b"GET / HTTP/1.1\nHost: h", 400),
    "a folded header": (head("GET / HTTP/1.1", "Host: h", " more"), 400),
    "a space before the colon": (head("GET / HTTP/1.1", "Host : h"), 400),
    "a header without a colon": (head("GET / HTTP/1.1", "Host: h", "what"), 400),
    "a zero byte in a header": (head("GET / HTTP/1.1", "Host: h\x00"), 400),
    "no host": (head("GET / HTTP/1.1"), 400),
    "two hosts": (head("GET / HTTP/1.1", "Host: h", "host: h"), 400),
    "a body": (head("GET / HTTP/1.1", "Host: h", "Content-Length: 5"), 400),
    "a body in chunks": (head("GET / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked"), 400),
    "a length that is none": (head("GET / HTTP/1.1", "Host: h", "Content-Length: 0, 0"), 400),
    "another method": (head("POST / HTTP/1.1", "Host: h"), 405),
    "a method of TLS": (b"\x16\x03\x01\x02\x00\x01", 400),
    "a request for a proxy": (head("CONNECT h:443 HTTP/1.1", "Host: h"), 400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_everything_else_is_refused(name: str):
    text, status = REFUSED[name]
    with pytest.raises(RequestRefused) as refusal:
        parse_head(text)
    assert refusal.value.status == status


def test_a_body_of_nothing_is_no_body():
    assert parse_head(head("GET / HTTP/1.1", "Host: h", "Content-Length: 0")).path == "/"


def test_a_header_that_is_a_list_may_be_sent_in_parts():
    request = parse_head(
        head("GET / HTTP/1.1", "Host: h", "Accept: text/plain;q=0.5", "Accept: application/openmetrics-text")
    )
    assert request.wants_openmetrics


@pytest.mark.timeout(60)
@pytest.mark.parametrize("blanks", [" " * 8_000, "\t" * 8_000, " \t" * 4_000], ids=["spaces", "tabs", "both"])
def test_a_header_of_blanks_is_read_at_once(blanks: str):
    """One pattern for the blanks and the value took ten minutes, in which the broker answered no client."""
    assert parse_head(head("GET / HTTP/1.1", f"Host:{blanks}h{blanks}")).host == "h"
    with pytest.raises(RequestRefused):
        parse_head(head("GET / HTTP/1.1", "Host: h", f"X:{blanks}a{blanks}\x00"))
