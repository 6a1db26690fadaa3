from pathlib import Path

import pytest

from siltstone.maintenance.checking.check import check
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import RegisterNode
from siltstone.metadata.store.opening import open_log
from siltstone.model.objects import object_key
from siltstone.object_store.buckets import Buckets
from siltstone.offline.context import MaintenanceContext
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.maintenance.maintained_store import MaintainedStore
from support.values.left_out import numbers_left_out


def test_rule_10_the_bucket_and_the_metadata_store_are_enough(tmp_path: Path) -> None:
    """Opened by their URLs, no node anywhere: what one process left, another checks and sweeps."""
    (tmp_path / "metadata").mkdir()
    (tmp_path / "bucket").mkdir()
    clock = ManualClock()

    def opened() -> MaintenanceContext:
        log = open_log(f"sqlite://{tmp_path}/metadata/metadata.sqlite")
        buckets = Buckets.open({0: f"file://{tmp_path}/bucket"})
        return MaintenanceContext(
            MetadataClient(log, clock, seeded_randomness(1)), buckets, clock, seeded_randomness(2)
        )

    left = MaintainedStore()
    left.context = opened()
    left.stores = {0: left.context.buckets.store(0)}
    left.clock = clock
    left.metadata.execute(RegisterNode(0, "first", "nowhere"))
    kept = left.append(left.new_stream())
    (gone,) = left.destroyed(1)
    left.metadata.close()

    context = opened()
    assert [finding.object_id for finding in check(context).findings] == [gone]
    assert sweep(context, 0).objects_deleted == 1
    report = check(context)
    assert (report.findings, report.objects_checked) == ((), 1)
    assert [summary.key for summary in context.buckets.store(0).list()] == [object_key(kept)]
    context.metadata.close()


def test_it_is_a_value() -> None:
    context = MaintainedStore().context
    with pytest.raises(AttributeError):
        context.clock = ManualClock()  # type: ignore[misc]


def test_what_is_left_out() -> None:
    assert numbers_left_out(MaintenanceContext).items() >= {"quota_bytes": 0}.items()
