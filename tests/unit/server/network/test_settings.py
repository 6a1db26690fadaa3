import pytest

from siltstone.server.network.settings import (
    OVERRIDES,
    InvalidNetworkSetting,
    NetworkSettings,
    parse_overrides,
)


def test_the_defaults_fit_each_other() -> None:
    settings = NetworkSettings()
    assert settings.connection_request_bytes_max < settings.queued_max_request_bytes
    assert 2 * settings.socket_request_max_bytes <= settings.queued_max_request_bytes
    assert settings.request_stalled_ms_max < settings.answer_stalled_ms_max < settings.connections_max_idle_ms
    assert settings.max_connections_per_ip < settings.max_connections


NUMBERS = [name for name in NetworkSettings.__struct_fields__ if name != OVERRIDES]


@pytest.mark.parametrize("name", NUMBERS)
def test_nothing_may_be_zero(name: str) -> None:
    with pytest.raises(InvalidNetworkSetting, match=f"network.{name} is 0"):
        NetworkSettings(**{name: 0})


def test_what_looks_like_tls_must_stay_too_large() -> None:
    NetworkSettings(socket_request_max_bytes=0x1602_FFFF, queued_max_request_bytes=1 << 40)
    with pytest.raises(InvalidNetworkSetting, match="TLS"):
        NetworkSettings(socket_request_max_bytes=0x1603_0000, queued_max_request_bytes=1 << 40)


def test_all_together_must_hold_the_largest_request() -> None:
    with pytest.raises(InvalidNetworkSetting, match="must hold the largest request"):
        NetworkSettings(socket_request_max_bytes=101, queued_max_request_bytes=100)


@pytest.mark.parametrize("name", NUMBERS)
def test_everything_may_be_one(name: str) -> None:
    others = {"socket_request_max_bytes": 1} if name == "queued_max_request_bytes" else {}
    assert getattr(NetworkSettings(**{name: 1}, **others), name) == 1


def test_one_request_may_take_all_the_memory_there_is() -> None:
    settings = NetworkSettings(socket_request_max_bytes=100, queued_max_request_bytes=100)
    assert settings.queued_max_request_bytes == 100


def test_ab06_limits_of_hosts_are_written_as_in_kafka() -> None:
    assert parse_overrides("") == {}
    assert parse_overrides(" 10.0.0.1:200 , [::1]:7,fe80::2:0,") == {"10.0.0.1": 200, "::1": 7, "fe80::2": 0}


@pytest.mark.parametrize(
    "text", ["10.0.0.1", "10.0.0.1:", "10.0.0.1:-1", "10.0.0.1:x", "proxy.example:5", ":5", "::1"]
)
def test_a_limit_of_a_host_without_address_or_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidNetworkSetting, match="is not ADDRESS:COUNT"):
        NetworkSettings(max_connections_per_ip_overrides=text)


def test_a_host_has_one_limit_of_its_own() -> None:
    with pytest.raises(InvalidNetworkSetting, match=r"10\.0\.0\.1 is there twice"):
        NetworkSettings(max_connections_per_ip_overrides="10.0.0.1:1,::ffff:10.0.0.1:2")
