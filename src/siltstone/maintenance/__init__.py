"""Floor 5: plans (``planning``, pure), jobs, rewriting, commit, sweep, check. Knows no broker and no Spark: it
hands iterations to a ``Runner`` and needs only the buckets and the metadata store.

For programs: ``siltstone.maintenance.plan(store)``, loaded when it is first asked for, since every task on an executor
imports this package.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.maintenance.kinds.from_python import plan

__all__ = ["plan"]


def __getattr__(name: str) -> object:
    if name == "plan":
        from siltstone.maintenance.kinds.from_python import plan  # noqa: PLC0415

        return plan
    raise AttributeError(f"module 'siltstone.maintenance' has no attribute {name!r}")
