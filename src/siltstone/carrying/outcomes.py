"""The three outcomes of a commit (rule 5), in one place for every kind.

done      the metadata has the change
refused   nothing changed, so what was written for it may be discarded at once
unknown   the command is sent again; after an unknown outcome nothing is ever discarded, even when a retry is refused,
          because an earlier try may have been applied
"""

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from siltstone.carrying.pipeline.kind import Outcome, UnitReport
from siltstone.metadata.refusals import CompactedObjectsNotFound, JobNotRunning, Refusal
from siltstone.model.errors import Unavailable
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.tasks.runner import RunFailed

log = logging.getLogger(__name__)

TRIES_MAX = 10
BACKOFF_MS_MIN = 200
BACKOFF_MS_MAX = 10_000


class OutcomeUnknown(Unavailable):
    """The metadata store did not say whether a commit was applied. Either way no data is lost: the sweep deletes
    objects that were not committed."""


def _nothing() -> None:
    pass


class ObjectCommit(msgspec.Struct, frozen=True):
    """A command that puts objects into use. ``about`` names the objects in messages. ``discard`` deletes what was
    written for a command that was refused, so that its space is free at once. ``check`` looks at the newest image
    before the command is sent, because a refusal here costs the metadata store nothing; it raises the Refusal."""

    command: Any
    about: str
    discard: Callable[[], None]
    check: Callable[[], None] = _nothing


def settle(context: MaintenanceContext, commit: ObjectCommit) -> None:
    """Carries the commit out, and repeats it while its outcome is unknown. Raises the Refusal, or
    OutcomeUnknown."""
    is_uncertain = False
    for attempt in range(TRIES_MAX):
        try:
            if not is_uncertain:
                commit.check()
            context.metadata.execute(commit.command)
        except Refusal:
            if not is_uncertain:
                commit.discard()
            raise
        except Unavailable as trouble:
            log.warning("the outcome of the commit of %s is not known yet: %s", commit.about, trouble)
            is_uncertain = True
            ceiling_ms = min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2**attempt)
            context.clock.block_ms(ceiling_ms * (0.5 + context.rng.random() / 2))
        else:
            return
    raise OutcomeUnknown(
        f"the metadata store did not answer {TRIES_MAX} tries to commit {commit.about}: it may have been applied;"
        " nothing is lost either way, the next plan shows it"
    )


def settled(
    name: str,
    commit: Callable[[], None],
    overtaken: str = "",
    overtaken_by: tuple[type[Refusal], ...] = (CompactedObjectsNotFound,),
) -> UnitReport | None:
    """Commits the unit ``name``. Returns None if that was done. Otherwise returns the report: NOT_NEEDED, with the text
    ``overtaken`` or that of the refusal, if the refusal is one of ``overtaken_by``, and FAILED after every other one.
    Raises JobNotRunning, because no further unit may be committed then, and OutcomeUnknown."""
    try:
        commit()
    except JobNotRunning:
        raise
    except overtaken_by as refusal:
        return UnitReport(name=name, outcome=Outcome.NOT_NEEDED, text=overtaken or str(refusal))
    except (Refusal, RunFailed) as refusal:
        return UnitReport(name=name, outcome=Outcome.FAILED, text=str(refusal))
    return None
