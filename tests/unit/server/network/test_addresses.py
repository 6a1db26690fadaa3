import pytest

from siltstone.model.access import SecurityProtocol
from siltstone.server.network.addresses import InvalidListener, ListenerAddress, parse_addresses, written_host
from siltstone.server.network.listener_settings import ListenerSettings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9092", ListenerAddress("PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1", 9092)),
        ("INTERNAL://127.0.0.1:0", ListenerAddress("INTERNAL", "127.0.0.1", 0, "127.0.0.1", 0)),
        ("internal://Host.example:1", ListenerAddress("INTERNAL", "Host.example", 1, "Host.example", 1)),
        ("A_b-1://[::1]:9092", ListenerAddress("A_B-1", "::1", 9092, "::1", 9092)),
        ("[0:0::1]:65535", ListenerAddress("PLAINTEXT", "::1", 65535, "::1", 65535)),
    ],
)
def test_a_listener_as_people_write_it(text: str, expected: ListenerAddress) -> None:
    assert parse_addresses([text], protocols="internal:plaintext, A_b-1:PLAINTEXT") == (expected,)


def test_several_and_what_is_advertised_for_them() -> None:
    addresses = parse_addresses(
        ["INTERNAL://10.0.0.1:9092, EXTERNAL://:9093", "LOCAL://[::]:0"],
        ["EXTERNAL://kafka.example:19093", "local://[fe80::1]:0"],
        "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,LOCAL:PLAINTEXT,UNUSED:PLAINTEXT",
    )
    assert addresses == (
        ListenerAddress("INTERNAL", "10.0.0.1", 9092, "10.0.0.1", 9092),
        ListenerAddress("EXTERNAL", "", 9093, "kafka.example", 19093),
        ListenerAddress("LOCAL", "::", 0, "fe80::1", 0),
    )
    assert [str(address) for address in addresses] == [
        "INTERNAL://10.0.0.1:9092",
        "EXTERNAL://:9093",
        "LOCAL://[::]:0",
    ]


def test_sa01_listeners_with_a_login() -> None:
    first, second = parse_addresses(["SASL_SSL://host:1,IN://host:2"], (), "IN:SASL_PLAINTEXT")
    assert (first.protocol, second.protocol) == (SecurityProtocol.SASL_SSL, SecurityProtocol.SASL_PLAINTEXT)


def test_tl17_passwords_do_not_travel_in_clear() -> None:
    settings = {
        name: ListenerSettings(sasl_mechanisms="SCRAM-SHA-512,PLAIN")
        for name in ("SASL_SSL", "SASL_PLAINTEXT")
    }
    parse_addresses(["SASL_SSL://host:1"], settings=settings)
    with pytest.raises(InvalidListener, match="has PLAIN, which sends passwords or tokens as they are"):
        parse_addresses(["SASL_PLAINTEXT://host:1"], settings=settings)


@pytest.mark.parametrize(
    ("listeners", "advertised", "says"),
    [
        ("", "", "listeners is empty: name at least one"),
        ("localhost", "", "'localhost' is not a listener: write"),
        ("A://host:port", "", "is not a listener"),
        ("A://host:99999", "", "port 99999 of A is above 65535"),
        ("A://host:1234567", "", "is not a listener"),
        ("A://host:1,a://host:2", "", "the name A is used twice"),
        ("A://host:1,B://host:1", "", "host:1 is used twice"),
        ("A://[::1]:1,B://[::1]:1", "", r"\[::1\]:1 is used twice"),
        ("A://[::z]:1", "", "'::z' is not an IPv6 address"),
        ("A://::1:1", "", "is not a listener"),
        ("A://host:1/path", "", "is not a listener"),
        ("A://host:1", "B://host:1", "advertised_listeners names B, but listeners has only A"),
        ("A://host:1", "A://other", "advertised_listeners: 'A://other' is not a listener"),
        (
            "A://:9092",
            "",
            "give the host under which clients reach A, as A://HOST:9092; it listens on all addresses",
        ),
        ("A://0.0.0.0:9092", "", "it listens on 0.0.0.0, and clients cannot connect to 0.0.0.0"),
        ("A://[::]:9092", "A://0.0.0.0:9092", "clients cannot connect to 0.0.0.0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(listeners: str, advertised: str, says: str) -> None:
    with pytest.raises(InvalidListener, match=says) as refused:
        parse_addresses([listeners], [advertised], "A:PLAINTEXT,B:PLAINTEXT")
    assert "\n" not in str(refused.value)


def test_two_listeners_may_have_any_free_port() -> None:
    assert len(parse_addresses(["A://127.0.0.1:0", "B://127.0.0.1:0"], (), "A:PLAINTEXT,B:PLAINTEXT")) == 2


@pytest.mark.parametrize(
    ("listeners", "protocols", "says"),
    [
        (
            "TLS://host:1",
            "",
            "TLS is not a protocol; the known protocols are PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL. .*=TLS",
        ),
        ("PLAINTEXT://host:1,A://host:2,B://host:3", "B:PLAINTEXT", "listeners: A is not a protocol"),
        (
            "A://host:1",
            "A:TLS",
            "listener_security_protocol_map: 'A:TLS' is not NAME:PROTOCOL; the known protocols are",
        ),
        ("A://host:1", "A", "'A' is not NAME:PROTOCOL"),
        ("A://host:1", "A:PLAINTEXT,PLAINTEXT:SSL", "'PLAINTEXT:SSL' is not NAME:PROTOCOL"),
    ],
)
def test_a_name_that_is_no_protocol_needs_one(listeners: str, protocols: str, says: str) -> None:
    with pytest.raises(InvalidListener, match=says):
        parse_addresses([listeners], (), protocols)


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        (("10.0.0.1", 5), "10.0.0.1"),
        (("::1", 5, 0, 0), "::1"),
        (("::ffff:10.0.0.1", 5, 0, 0), "10.0.0.1"),
        (("fe80::1%eth0", 5, 0, 2), "fe80::1"),
        (None, "unknown"),
        ("", "unknown"),
        ((), "unknown"),
        (("a name", 1), "a name"),
    ],
)
def test_one_name_for_one_peer(peer: object, host: str) -> None:
    assert written_host(peer) == host


@pytest.mark.parametrize(
    ("listeners", "advertised", "misleads"),
    [
        ("0.0.0.0:9092", "localhost:9092", True),
        (":9092", "127.0.0.1:9092", True),
        ("[::]:9092", "[::1]:9092", True),
        ("10.0.0.1:9092", "LOCALHOST:9092", True),
        ("0.0.0.0:9092", "broker.example:9092", False),
        ("127.0.0.1:9092", "", False),
        ("localhost:9092", "localhost:9093", False),
        ("10.0.0.1:9092", "", False),
    ],
)
def test_others_that_are_let_in_and_sent_to_themselves_are_noticed(
    listeners: str, advertised: str, misleads: bool
) -> None:
    (address,) = parse_addresses([listeners], [advertised])
    assert address.misleads_others is misleads
