import pytest

from siltstone.kafka_client.connection import Address, parse_bootstrap
from siltstone.kafka_client.failures import InvalidAddress
from siltstone.kafka_client.keyed_view import KeyedView


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("localhost:9093", [Address("localhost", 9093)]),
        ("broker.example", [Address("broker.example", 9092)]),
        ("[::1]:9094", [Address("::1", 9094)]),
        ("[::1]", [Address("::1", 9092)]),
        ("PLAINTEXT://a:1", [Address("a", 1)]),
        (" a:1, b ,", [Address("a", 1), Address("b", 9092)]),
    ],
)
def test_addresses_as_people_write_them(text: str, addresses: list[Address]) -> None:
    assert [*parse_bootstrap(text)] == addresses


@pytest.mark.parametrize(
    "text", ["", " , ", "a:b", "a:", ":9092", "a:0", "a:65536", "a:1:2", "::1", "http://a:1/x"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InvalidAddress, match=r"such as 127\.0\.0\.1:9092"):
        parse_bootstrap(text)


@pytest.mark.parametrize("text", ["", "host:port"])
def test_a_view_of_keys_names_its_own_argument(text: str) -> None:
    with pytest.raises(InvalidAddress, match=r"^bootstrap_servers"):
        KeyedView(text, "planes")


def test_an_address_is_written_as_it_is_read() -> None:
    for text in ("a:1", "[::1]:9092"):
        assert str(parse_bootstrap(text)[0]) == text
