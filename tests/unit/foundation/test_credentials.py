"""What people, logs and plans get to see of texts with credentials."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.foundation.credentials import (
    HIDDEN,
    is_secret,
    shown_properties,
    without_credentials,
    without_password,
    without_url_credentials,
)

SECRETS = st.text(st.characters(codec="utf-8", exclude_characters=" \t\n'\"&;"), min_size=1).filter(
    lambda text: not any(character.isspace() for character in text)
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no URL at all: a@b, c:d@e", "no URL at all: a@b, c:d@e"),
        ("s3://bucket/prefix?region=us-east-1", "s3://bucket/prefix?region=us-east-1"),
        ("https://me:s3cret@host/path", "https://me:****@host/path"),
        ("cannot reach 'https://me:s3cret@host/path': refused", "cannot reach 'https://me:****@host/path': refused"),
        ("https://TOKEN@host/path", "https://****@host/path"),
        ("postgresql://h/db?user=me&password=s3cret&schema=a", "postgresql://h/db?user=me&password=****&schema=a"),
        ("https://h/?token=s3cret", "https://h/?token=****"),
        ("two: http://a:s3@h and http://b:s4@i", "two: http://a:****@h and http://b:****@i"),
    ],
)  # fmt: skip
def test_what_is_shown_of_a_text(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


@pytest.mark.parametrize(
    "password", ["s3 cret", "s3'cr\"et", "s3\ncret", "s3@c/r:et?", "s3;cret", "s3\tcret"]
)
def test_a_password_of_a_url_may_have_blanks_and_quotes(password: str) -> None:
    for url in (
        f"postgresql://me:{password}@h/db",
        f"postgresql://h/db?user=me&password={password}&schema=a",
    ):
        for shown in (without_password(url), without_url_credentials(url)):
            assert "s3" not in shown and "cret" not in shown and "****" in shown
    assert without_url_credentials("https://TOKEN@registry") == "https://****@registry"


def test_a_user_name_is_shown_where_it_is_no_token() -> None:
    assert without_password("postgresql://me@h/db") == "postgresql://me@h/db"


@given(SECRETS)
def test_no_password_of_a_url_survives(secret: str) -> None:
    planted = f"<{secret}>"
    for text in (
        f"http://me:{planted}@host/",
        f"failed: 'http://:{planted}@host/x': no",
        f"postgresql://h/db?password={planted}&a=b",
    ):
        assert planted not in without_credentials(text)
        assert HIDDEN in without_credentials(text)


def test_properties_of_a_catalog_that_are_not_known_to_be_harmless_are_hidden() -> None:
    shown = shown_properties({
        "type": "rest", "uri": "https://TOKEN@catalog/api", "header.Authorization": "Bearer x", "Token": "x",
        "credential": "id:x", "s3.access-key-id": "x",
    })  # fmt: skip
    assert shown == {
        "type": "rest", "uri": "https://****@catalog/api", "header.Authorization": HIDDEN, "Token": HIDDEN,
        "credential": HIDDEN, "s3.access-key-id": HIDDEN,
    }  # fmt: skip
    assert (
        is_secret("Token", "x") and is_secret("uri", "https://TOKEN@h") and not is_secret("uri", "https://h")
    )
