"""Floor 5: plans, jobs, tasks, commits. Knows no broker and no Spark: it gives tasks to a ``Runner`` and needs only
the buckets and the metadata store.

Words. A *kind* of maintenance (retention, garbage collection, a compaction, the sweep) makes a *plan* from the image;
a plan has *units*, each committed by itself, each with a reason. A *job* is the durable decision to carry a plan out;
an *attempt* is a plan being carried out now. Work on objects is done by *tasks*, each given one *task input*. A *run*
is one plan of one kind, carried out; a *driver* does one run after another.

Flow: image → plan → job → tasks on a runner → a commit for each unit → report.

Rooms. ``kinds`` lists all kinds. Each kind that works on objects has a room of the same shape: ``kind`` (plan, carry
out), ``planning`` or ``planner`` (pure), ``carrying_out`` (ids, runner, commits), ``task_input`` and ``task`` (what
an executor runs). The kinds share ``pipeline`` (how any plan is carried out), ``tasks`` (what any task needs),
``blocks`` (index entries as columns), ``settings`` and ``committing``. ``service`` runs kinds on a schedule,
``checking`` verifies a store from outside.

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
