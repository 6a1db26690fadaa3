"""Floor 8: the kinds of maintenance: retention, garbage collection, the compactions, copies, the sweep. Knows no
broker and no Spark.

``kinds`` lists all kinds, those of ``tables`` among them. Each kind that works on objects has a room of the same
shape: ``kind`` (plan, carry out), ``planning`` or ``planner`` (pure), ``carrying_out`` (ids, runner, commits),
``task_input`` and ``task`` (what an executor runs). ``carrying`` has the words and how any plan is carried out.
``service`` runs kinds on a schedule, ``checking`` verifies a store from outside.

For programs: ``siltstone.maintenance.plan(store)``, loaded when it is first used, since every task on an executor
imports this package.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.maintenance.from_python import plan

__all__ = ["plan"]


def __getattr__(name: str) -> object:
    if name == "plan":
        from siltstone.maintenance.from_python import plan  # noqa: PLC0415

        return plan
    raise AttributeError(f"module 'siltstone.maintenance' has no attribute {name!r}")
