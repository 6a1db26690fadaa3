import pytest

from support.maintenance.keyed_metadata import KeyedMetadata


@pytest.fixture
def world() -> KeyedMetadata:
    return KeyedMetadata()
