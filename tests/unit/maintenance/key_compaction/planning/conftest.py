import pytest

from support.keyed_metadata import KeyedMetadata


@pytest.fixture
def world() -> KeyedMetadata:
    return KeyedMetadata()
