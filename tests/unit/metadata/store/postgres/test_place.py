import pickle

import pytest

from siltstone.foundation.credentials import without_password
from siltstone.metadata.store.postgres.place import is_postgres_url, place_of

URL = (
    "postgresql://me:s3cret@a:5432,b:5433/silt?schema=flights&sslmode=verify-full&application_name=my%20node"
)


def test_the_schema_is_ours_and_the_rest_is_libpqs() -> None:
    place = place_of(URL)
    assert place.schema == "flights"
    assert place.conninfo == (
        "postgresql://me:s3cret@a:5432,b:5433/silt?sslmode=verify-full&application_name=my%20node"
    )
    assert place_of("postgresql://h/db?password=a+b&schema=%61").conninfo == "postgresql://h/db?password=a+b"
    assert place_of("postgres://h/db").schema == "siltstone"
    assert place_of("postgres://h/db").conninfo == "postgres://h/db"


@pytest.mark.parametrize(
    "url",
    ["mysql://h/db", "postgresql:h", "postgresql://h/db?schema=", "postgresql://h/db?schema=a-b", 'postgresql://h/d?schema="x"',
     "postgresql://h/d?schema=" + "a" * 64],
)  # fmt: skip
def test_what_names_no_log(url) -> None:
    assert place_of(url) is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://h/db", "postgresql://h/db"),
        ("postgresql://me@h/db?schema=a", "postgresql://me@h/db?schema=a"),
        ("postgresql://me:s3cret@h/db", "postgresql://me:****@h/db"),
        ("postgresql://:s3cret@h/db", "postgresql://:****@h/db"),
        ("postgresql://me:s3@c/r:et?@h/db", "postgresql://me:****@h/db"),
        (
            "postgresql://h/db?user=me&password=s3cret&schema=a",
            "postgresql://h/db?user=me&password=****&schema=a",
        ),
        ("postgresql://h/db?sslpassword=s3cret", "postgresql://h/db?sslpassword=****"),
        ("postgresql://h/db?PASSWORD=s3cret", "postgresql://h/db?PASSWORD=****"),
    ],
)
def test_a_password_is_never_shown(url, shown) -> None:
    assert without_password(url) == shown
    place = place_of(url)
    assert place is None or (str(place), repr(place), place.shown) == (f"PostgresPlace({shown!r})",) * 2 + (
        shown,
    )


def test_it_is_known_by_its_scheme() -> None:
    assert is_postgres_url("postgres://h/d") and is_postgres_url("postgresql:///d")
    assert not is_postgres_url("sqlite:///postgresql://x") and not is_postgres_url("")


def test_a_place_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(place_of(URL))) == place_of(URL)
