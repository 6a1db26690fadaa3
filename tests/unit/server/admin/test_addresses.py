import pytest

from siltstone.server.admin.addresses import allowed_hosts, may_be_called, parse_admin_addresses
from siltstone.server.network.addresses import InvalidListener
from siltstone.server.settings.admin import AdminSettings


def settings(listeners: str, **fields) -> AdminSettings:
    return AdminSettings(listeners=listeners, **fields)


def test_there_are_none_until_the_setting_names_some():
    assert parse_admin_addresses(AdminSettings()) == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:9644", [("127.0.0.1", 9644)]),
        ("localhost:0", [("localhost", 0)]),
        ("[::1]:1, 127.0.0.2:2", [("::1", 1), ("127.0.0.2", 2)]),
    ],
)
def test_addresses_of_this_machine(text: str, found: list[tuple[str, int]]):
    assert [(each.host, each.port) for each in parse_admin_addresses(settings(text))] == found


@pytest.mark.parametrize(
    "text", ["0.0.0.0:9644", ":9644", "[::]:9644", "10.1.2.3:1", "127.0.0.1:1,metrics.example:2"]
)
def test_an_address_that_others_reach_needs_the_setting_that_says_so(text: str):
    with pytest.raises(InvalidListener, match=r"admin\.open_to_network_without_login=true"):
        parse_admin_addresses(settings(text))
    assert parse_admin_addresses(settings(text, open_to_network_without_login=True))


@pytest.mark.parametrize(
    "text", ["9644", "127.0.0.1", "127.0.0.1:70000", "[::g]:1", "[:::]:1", "http://127.0.0.1:1", "::1:9"]
)
def test_what_is_no_address_is_refused(text: str):
    with pytest.raises(InvalidListener, match="write HOST:PORT"):
        parse_admin_addresses(settings(text, open_to_network_without_login=True))


@pytest.mark.parametrize(
    "host", ["", "127.0.0.1", "::1", "10.9.8.7", "localhost", "broker.example", "metrics.example"]
)
def test_a_request_may_name_an_ip_address_or_a_host_of_the_settings(host: str):
    given = settings(
        "broker.example:1", allowed_hosts="localhost, Metrics.example", open_to_network_without_login=True
    )
    assert may_be_called(host, allowed_hosts(given, parse_admin_addresses(given)))


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.", "metrics.example.evil"]
)
def test_another_name_is_not_answered(host: str):
    given = settings("127.0.0.1:1", allowed_hosts="localhost,metrics.example")
    assert not may_be_called(host, allowed_hosts(given, parse_admin_addresses(given)))
