"""Each feature of Delta and Iceberg has a decision; what is in no list stops everything that writes."""

from typing import Any

import pytest
from msgspec.structs import replace

from siltstone.tables.formats.features import (
    DELTA,
    ICEBERG,
    DeltaTraits,
    FeatureDecision,
    IcebergTraits,
    stopping_delta_features,
    stopping_iceberg_features,
)
from siltstone.tables.formats.port import TableUse

USED: dict[str, dict[str, Any]] = {
    "appendOnly": {"configuration": {"delta.appendOnly": "true"}},
    "invariants": {"field_keys": frozenset({"delta.invariants"})},
    "checkConstraints": {"configuration": {"delta.constraints.x": "a > 0"}},
    "changeDataFeed": {"configuration": {"delta.enableChangeDataFeed": "true"}},
    "generatedColumns": {"field_keys": frozenset({"delta.generationExpression"})},
    "identityColumns": {"field_keys": frozenset({"delta.identity.start"})},
    "allowColumnDefaults": {"field_keys": frozenset({"CURRENT_DEFAULT"})},
    "columnMapping": {"configuration": {"delta.columnMapping.mode": "name"}},
    "inCommitTimestamp": {"configuration": {"delta.enableInCommitTimestamps": "True"}},
    "variantType": {"types": frozenset({"variant"})},
    "variantType-preview": {"types": frozenset({"variant"})},
}
"""How a table uses the features that count only in use."""


@pytest.mark.parametrize("feature", DELTA, ids=lambda each: each.name)
def test_rule_16_a_feature_of_delta_stops_what_its_decision_says(feature: Any) -> None:
    listed = DeltaTraits(reader_version=3, writer_version=7, writers=frozenset({feature.name}))
    used = replace(listed, **USED.get(feature.name, {}))
    assert (feature.is_used is None) == (feature.name not in USED)
    for use in TableUse:
        named = [each for each in stopping_delta_features(used, use) if f" {feature.name} " in each]
        assert bool(named) == feature.decision.stops(use)
        if feature.name in USED:
            assert stopping_delta_features(listed, use) == [], "nothing in the table uses it"
            old = replace(used, writers=frozenset(), writer_version=6, reader_version=2)
            assert bool(stopping_delta_features(old, use)) == feature.decision.stops(use), "also unlisted"


def test_rule_16_a_feature_that_is_in_no_list_stops_all_that_needs_it() -> None:
    writers = DeltaTraits(writer_version=7, writers=frozenset({"newest"}))
    assert stopping_delta_features(writers, TableUse.READ) == []
    assert stopping_delta_features(writers, TableUse.APPEND) == [
        "the feature newest, which this program does not know"
    ]
    readers = replace(writers, reader_version=3, readers=frozenset({"newest"}))
    assert all(stopping_delta_features(readers, use) for use in TableUse)
    assert stopping_delta_features(DeltaTraits(reader_version=4), TableUse.READ) != []
    assert stopping_delta_features(DeltaTraits(writer_version=8), TableUse.APPEND) != []
    assert stopping_delta_features(DeltaTraits(writer_version=8), TableUse.READ) == []
    assert stopping_delta_features(DeltaTraits(), TableUse.UPSERT) == []


def test_rule_16_features_of_iceberg() -> None:
    given: dict[str, dict[str, Any]] = {
        "format version": {"version": 3},
        "encryption": {"properties": {"encryption.key-id": "k"}},
        "default values": {"default_columns": ("a",)},
        "row lineage": {"has_row_ids": True},
        "sort order": {"sort_fields": 1},
        "statistics files": {"statistics": 1},
        "branches and tags": {"refs": frozenset({"main", "audit"})},
    }
    assert set(given) == {each.name for each in ICEBERG}
    for feature in ICEBERG:
        traits = IcebergTraits(**given[feature.name])
        assert feature.is_in(traits) and not feature.is_in(IcebergTraits())
        for use in TableUse:
            assert bool(stopping_iceberg_features(traits, use)) == feature.decision.stops(use)
    assert stopping_iceberg_features(IcebergTraits(version=1), TableUse.READ) == [
        "format version 1 (an export knows version 2 alone)"
    ]


def test_a_decision_stops_its_use_and_all_that_need_more() -> None:
    assert [FeatureDecision.STOPS_UPSERT.stops(use) for use in TableUse] == [False, False, True]
    assert [FeatureDecision.STOPS_READING.stops(use) for use in TableUse] == [True] * 3
    assert not any(FeatureDecision.KEPT.stops(use) or FeatureDecision.HARMLESS.stops(use) for use in TableUse)
