"""Reads what a certificate of X.509 says: its owner's name as Java writes it, its host names, and its validity.

Kafka's ACLs name the owner of a certificate as Java's ``X500Principal.getName()`` prints it, which is RFC 2253 with
habits of its own, so other libraries' texts would not match them. The bytes come from a TLS library that has verified
them, or from a file of our own; bytes that are no certificate raise ValueError.
"""

from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address

import msgspec

_UTC_TIME, _VERSION, _EXTENSIONS = 0x17, 0xA0, 0xA3
_TEXTS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""The types that Java prints as text: UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString. It
decodes all of them as UTF-8."""

_KEYWORDS = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O",
    "2.5.4.11": "OU", "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
}  # fmt: skip
_ESCAPED = ',=+<>#;"\\'
_BLANKS = " \r"
_ALTERNATIVE_NAMES = "2.5.29.17"
_DNS_NAME, _IP_ADDRESS = 0x82, 0x87
_PEM_BEGIN, _PEM_END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


class Certificate(msgspec.Struct, frozen=True):
    """``owner``: the name of its subject, "" if it has none. ``hosts``: the host names and addresses for which it is
    valid. Times are in ms since 1970."""

    owner: str
    hosts: tuple[str, ...]
    not_before_ms: int
    not_after_ms: int


def certificate_of_pem(text: str) -> Certificate:
    """Returns the first certificate in a PEM text. Raises ValueError."""
    return certificate_of_der(der_of_pem(text))


def der_of_pem(text: str) -> bytes:
    """Returns the bytes of the first certificate in a PEM text. Raises ValueError."""
    _, begin, rest = text.partition(_PEM_BEGIN)
    body, end, _ = rest.partition(_PEM_END)
    if not begin or not end:
        raise ValueError("it has no certificate in PEM")
    return b64decode("".join(body.split()), validate=True)


def certificate_of_der(der: bytes) -> Certificate:
    """Raises ValueError."""
    try:
        (_, outer, _) = _value(der, 0)
        (_, signed, _) = _value(outer, 0)
        fields = list(_values(signed))
        if fields[0][0] == _VERSION:
            del fields[0]
        # serial number, algorithm, issuer, validity, subject, key, and what is optional
        validity, subject = fields[3][1], fields[4][1]
        (before, after) = (_time_ms(tag, bytes(content)) for tag, content in _values(validity))
        extensions = next((content for tag, content in fields[6:] if tag == _EXTENSIONS), b"")
        return Certificate(_java_name(subject), tuple(_hosts(extensions)), before, after)
    except (IndexError, UnicodeDecodeError, OverflowError) as damage:
        raise ValueError("it is not a certificate") from damage


def java_name(name_der: bytes) -> str:
    """Returns a Name of X.501 as Java's ``X500Principal.getName()`` does. Raises ValueError."""
    try:
        return _java_name(_value(name_der, 0)[1])
    except IndexError as damage:
        raise ValueError("it is not a name") from damage


# -- names -------------------------------------------------------------------------------------------------


def _java_name(name: bytes) -> str:
    """The most specific part comes first, so in the opposite order of the bytes."""
    parts = ["+".join(_attribute(attribute) for _, attribute in _values(part)) for _, part in _values(name)]
    return ",".join(reversed(parts))


def _attribute(attribute: bytes) -> str:
    (_, oid), (tag, content) = _values(attribute)
    keyword = _KEYWORDS.get(dotted := _dotted(oid))
    if keyword is None or tag not in _TEXTS:
        return f"{keyword or dotted}=#{attribute[_value(attribute, 0)[2] :].hex()}"
    return f"{keyword}={_escaped(content.decode(errors='replace'))}"


def _escaped(text: str) -> str:
    shown = "".join(f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text)
    lead = len(shown) - len(shown.lstrip(_BLANKS))
    trail = len(shown.rstrip(_BLANKS))
    return "".join(
        f"\\{each}" if place < lead or place >= trail else each for place, each in enumerate(shown)
    )


def _dotted(oid: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _hosts(extensions: bytes) -> Iterator[str]:
    if not extensions:
        return
    for _, extension in _values(_value(extensions, 0)[1]):
        oid, *_, (_, octets) = _values(extension)
        if _dotted(oid[1]) != _ALTERNATIVE_NAMES:
            continue
        for tag, name in _values(_value(octets, 0)[1]):
            if tag == _DNS_NAME:
                yield name.decode("ascii")
            elif tag == _IP_ADDRESS:
                yield str(ip_address(bytes(name)))


# -- DER ---------------------------------------------------------------------------------------------------


def _values(content: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(content):
        tag, value, position = _value(content, position)
        yield tag, value


def _value(encoded: bytes, position: int) -> tuple[int, bytes, int]:
    """Returns tag, content, and where the next value begins."""
    tag, size = encoded[position], encoded[position + 1]
    position += 2
    if size & 0x80:
        count = size & 0x7F
        size = int.from_bytes(encoded[position : position + count], "big")
        position += count
    end = position + size
    if end > len(encoded):
        raise ValueError("it ends too early")
    return tag, encoded[position:end], end


def _time_ms(tag: int, text: bytes) -> int:
    written = text.decode("ascii")
    if tag == _UTC_TIME:  # two digits of the year: 1950 to 2049
        written = f"{'19' if written[:2] >= '50' else '20'}{written}"
    return int(datetime.strptime(written, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1000)
