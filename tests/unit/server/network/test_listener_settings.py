import pytest

from siltstone.model.access import LoginMechanism
from siltstone.server.network.listener_settings import InvalidListenerSetting, ListenerSettings


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("scram-sha-256", [LoginMechanism.SCRAM_SHA_256]),
        (
            "PLAIN, SCRAM-SHA-256,SCRAM-SHA-512,",
            [LoginMechanism.SCRAM_SHA_512, LoginMechanism.SCRAM_SHA_256, LoginMechanism.PLAIN],
        ),
    ],
)
def test_mechanisms_are_read_and_the_strongest_comes_first(written: str, read: list[LoginMechanism]) -> None:
    assert list(ListenerSettings(sasl_mechanisms=written).mechanisms) == read


def test_no_listener_takes_passwords_as_they_are_by_default() -> None:
    assert LoginMechanism.PLAIN not in ListenerSettings().mechanisms


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ({"sasl_mechanisms": ""}, "it is empty; known are SCRAM-SHA-512"),
        ({"sasl_mechanisms": "SCRAM-SHA-512,GSSAPI"}, "GSSAPI is not known"),
        ({"reauthentication_ms_max": 500}, "a session lasts 2000 ms at least"),
    ],
)
def test_tl17_settings_of_logins_that_cannot_work(setting: dict, says: str) -> None:
    with pytest.raises(InvalidListenerSetting, match=says):
        ListenerSettings(**setting)
