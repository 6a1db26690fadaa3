"""TL04: the owner of a certificate, as Java writes it. The texts were printed by Java 17's X500Principal.getName()."""

import ssl
from pathlib import Path

import pytest
from cryptography.x509.oid import NameOID

from siltstone.foundation.certificates import certificate_of_der, certificate_of_pem, java_name
from support.tls.authority import Authority

NAMES = {
    "e-mail and comma": (
        "303931133011060355040a0c0a41636d652c20496e632e310e300c06035504030c057376632d313112301006092a864886f70d01"
        "09011603614062",
        "1.2.840.113549.1.9.1=#1603614062,CN=svc-1,O=Acme\\, Inc.",
    ),
    "plus and all that is escaped": (
        "301a3118301606035504030c0f612b6222635c643c653e663b673d68",
        'CN=a\\+b\\"c\\\\d\\<e\\>f\\;g\\=h',
    ),
    "leading #": ("300d310b300906035504030c022378", "CN=\\#x"),
    "inner #": ("300e310c300a06035504030c03782379", "CN=x\\#y"),
    "blanks": ("30163114301206035504030c0b202074776f2020696e2020", "CN=\\ \\ two  in\\ \\ "),
    "only blanks": ("300e310c300a06035504030c03202020", "CN=\\ \\ \\ "),
    "multi-valued": (
        "302a310b3009060355040613024445311b300806035504030c0162300f060a0992268993f22c6401010c0161",
        "CN=b+UID=a,C=DE",
    ),
    "UTF-8, and every keyword": (
        "3061311b301906035504030c125a6fc3ab20c39c6ec3af636f646520e282ac310e300c06035504070c054bc3b66c6e310b300906"
        "035504080c024e57310c300a06035504090c0378203131173015060a0992268993f22c64011916076578616d706c65",
        "DC=example,STREET=x 1,ST=NW,L=Köln,CN=Zoë Ünïcode €",
    ),
    "keywords that Java does not have": (
        "3025310b3009060355040513023132310a3008060355042a0c0167310a300806035504030c0178",
        "CN=x,2.5.4.42=#0c0167,2.5.4.5=#13023132",
    ),
    "BMPString": ("3011310f300d06035504031e06005a006f00eb", "CN=\\00Z\\00o\\00�"),
    "T61String": ("300e310c300a060355040314035a6f65", "CN=Zoe"),
    "IA5String": ("300e310c300a060355040316035a6f65", "CN=Zoe"),
    "NumericString": ("300e310c300a06035504031203313233", "CN=#1203313233"),
    "VisibleString": ("300e310c300a06035504031a03313233", "CN=#1a03313233"),
    "UniversalString": ("30133111300f06035504031c080000003100000032", "CN=#1c080000003100000032"),
    "NUL": ("300e310c300a06035504030c03610062", "CN=a\\00b"),
    "tab": ("300e310c300a06035504030c03610962", "CN=a\tb"),
    "beyond the basic plane": ("3010310e300c06035504030c0561f09f9880", "CN=a😀"),
    "line ends": ("3010310e300c06035504030c05200d0a610d", "CN=\\ \\\r\na\\\r"),
    "nothing": ("3000", ""),
}


@pytest.mark.parametrize("case", NAMES)
def test_tl04_a_name_is_as_java_writes_it(case: str) -> None:
    der, text = NAMES[case]
    assert java_name(bytes.fromhex(der)) == text


def test_a_certificate_says_whose_it_is_for_which_hosts_and_how_long(tmp_path: Path) -> None:
    name = [(NameOID.ORGANIZATION_NAME, "Acme, Inc."), (NameOID.COMMON_NAME, "svc-1")]
    pair = Authority(tmp_path).issue("one", name, hosts=("a.example", "10.0.0.1", "::1"), days=3)
    text = pair.certificate.read_text()
    found = certificate_of_pem(text)
    assert (found.owner, found.hosts) == ("CN=svc-1,O=Acme\\, Inc.", ("a.example", "10.0.0.1", "::1"))
    assert found == certificate_of_der(ssl.PEM_cert_to_DER_cert(text))
    days = (found.not_after_ms - found.not_before_ms) / 86_400_000
    assert round(days) == 13
    assert certificate_of_pem(f"# a remark\n{text}\n{text}") == found


def test_every_damage_is_one_error(tmp_path: Path) -> None:
    der = ssl.PEM_cert_to_DER_cert(Authority(tmp_path).issue("one").certificate.read_text())
    for end in range(len(der)):
        with pytest.raises(ValueError, match=r"too early|not a certificate|unpack"):
            certificate_of_der(der[:end])
    for place in range(200):
        damaged = bytearray(der)
        damaged[place] ^= 0xFF
        try:
            certificate_of_der(bytes(damaged))
        except ValueError:
            continue


@pytest.mark.parametrize(
    "text",
    ["", "-----BEGIN CERTIFICATE-----\nAA==", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"],
)
def test_a_text_without_a_certificate(text: str) -> None:
    with pytest.raises(ValueError):
        certificate_of_pem(text)
