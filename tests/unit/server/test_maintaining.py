"""The lanes that settings make: kinds that free space have a thread and a store of their own."""

from pathlib import Path

from siltstone.offline.kind_rows import FREEING, KIND_NAMES, KindLane, kinds_of
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.server.maintaining import open_service
from siltstone.server.settings.node import load_node_settings
from support.engine.small_store import small_store


def test_gc14_what_frees_space_shares_nothing_with_what_copies(tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    with open_service(settings, InProcessRunner) as service:
        freeing, rewriting, copying = service._lanes
        assert set(freeing._kinds) == FREEING and set(rewriting._kinds) == kinds_of(KindLane.REWRITING)
        assert set(copying._kinds) == set(KIND_NAMES) - FREEING - kinds_of(KindLane.REWRITING)
        assert len({id(lane._context.metadata) for lane in service._lanes}) == 3
        assert freeing._seconds_max < rewriting._seconds_max == copying._seconds_max
        service.run_once()
        assert sum(each.units_done for each in service.statistics().kinds) == 1


def test_intervals_come_from_the_settings(tmp_path: Path) -> None:
    small_store(tmp_path / "store")
    flags = {"maintenance.interval.sso_compaction_ms": "7min", "maintenance.run_ms_max": "2s"}
    settings = load_node_settings(tmp_path / "store", environment={}, flags=flags)
    with open_service(settings, InProcessRunner) as service:
        freeing, rewriting, copying = service._lanes
        assert rewriting._schedule.intervals_ms["sso-compaction"] == 7 * 60_000
        assert rewriting._spread_ms == {"sso-compaction": 6 * 60_000}, "all but a minute of its interval"
        planned = [*rewriting._schedule.intervals_ms, *copying._schedule.intervals_ms]
        assert sorted(planned) == sorted(kind for kind in KIND_NAMES if kind not in FREEING)
        assert freeing._seconds_max == copying._seconds_max == 2.0


def test_compaction_is_spread_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    small_store(tmp_path / "store")
    settings = load_node_settings(tmp_path / "store", environment={}, flags={"compaction.is_spread": "false"})
    with open_service(settings, InProcessRunner) as service:
        assert not any(lane._spread_ms for lane in service._lanes)
