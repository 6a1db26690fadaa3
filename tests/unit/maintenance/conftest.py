"""The fixture ``world``: a store with objects to compact."""

from support.maintenance.compaction_world import world

__all__ = ["world"]
