"""``siltstone upgrade``: raises the level of a store, which ends the way back to older versions."""

import click

from siltstone.cli.levels.standing import ended_lives
from siltstone.cli.nodes.command import beats_of
from siltstone.cli.output import print_json, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.metadata.decisions.table import decide
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.levels import LEVELS, RaiseLevel, newest_level
from siltstone.metadata.refusals import LevelNeverFalls, LevelNotKnown, NodesTooOld, Refusal
from siltstone.model.errors import InvalidRequest
from siltstone.offline.opening.store import Store


class UpgradeRefused(InvalidRequest):
    """The level cannot be raised: live nodes are too old, or the level is none."""


@click.command()
@click.option(
    "--to", "level", type=click.IntRange(min=1), metavar="LEVEL", help="Raise to this level [the newest]."
)
@click.option("--dry-run", is_flag=True, help="Say what would happen; change nothing.")
@json_option
@store_options
def upgrade(choice: StoreChoice, level: int | None, dry_run: bool, as_json: bool) -> None:
    """Raise the level of a store, so that new formats may be written.

    Install the new version on every node first, one after the other, and let it run for as long as you may want to go
    back. The level never falls: from then on older versions refuse the store and write nothing. It is refused while a
    live node runs a version that does not know the level. Brokers run on.
    """
    wanted = newest_level() if level is None else level
    with choice.open() as store:
        image = store.metadata.refresh()
        ended = ended_lives(image, beats_of(store), store.metadata.now_ms())
        command = RaiseLevel(wanted, ended=ended)
        try:
            raised = _decided(store, command) if dry_run else store.metadata.execute(command)
        except (LevelNotKnown, LevelNeverFalls, NodesTooOld) as refusal:
            raise UpgradeRefused(str(refusal)) from refusal
    _tell(image, raised, dry_run=dry_run, as_json=as_json)


def _decided(store: Store, command: RaiseLevel) -> int:
    """Returns what the command would answer. Raises its Refusal."""
    decision = decide(store.metadata.image, command, store.metadata.now_ms())
    if isinstance(decision, Refusal):
        raise decision
    return decision.result


def _tell(before: MetadataImage, level: int, *, dry_run: bool, as_json: bool) -> None:
    standing = before.level.number
    if as_json:
        print_json({"upgrade": {"before": standing, "level": level, "dry_run": dry_run}})
        return
    out = results()
    if level == standing:
        out.print(f"The store has level {level} already.")
        return
    done = "would be raised" if dry_run else "is raised"
    out.print(f"The store {done} from level {standing} to level {level}:", soft_wrap=True)
    for number in range(standing + 1, level + 1):
        out.print(f"  {number}: {LEVELS[number].brings}.", markup=False, soft_wrap=True)
    out.print(
        f"Versions that do not know level {level} refuse the store from then on. "
        + ("Back up first: siltstone backup TO." if dry_run else "siltstone status shows the way back that is left."),
        markup=False, soft_wrap=True,
    )  # fmt: skip
