"""``siltstone maintain plan``: shows what maintenance would do now, without doing it."""

import click

from siltstone.cli.maintain.options import force_option, kind_option, scope_of, topic_option
from siltstone.cli.maintain.progress import Progress
from siltstone.cli.maintain.tables import plan_shown
from siltstone.cli.output import print_json, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.maintenance.overview import overview


@click.command()
@kind_option
@topic_option
@force_option
@json_option
@store_options
def plan(
    choice: StoreChoice, kinds: tuple[str, ...], topics: tuple[str, ...], force: bool, as_json: bool
) -> None:
    """Show what maintenance would do now, and why.

    Units are listed in the order in which siltstone maintain run does them. The command writes nothing and starts no
    Spark; of the objects it reads only the indexes.
    """
    show_plan(choice, kinds, topics, force=force, as_json=as_json)


def show_plan(
    choice: StoreChoice,
    kinds: tuple[str, ...],
    topics: tuple[str, ...],
    *,
    force: bool,
    as_json: bool,
    up_to: int | None = None,
) -> None:
    with choice.open() as store, Progress(store) as shown:
        scope = scope_of(store.metadata.image, topics, force=force, up_to=up_to)
        planned = overview(
            store.context, chosen_kinds(store.kind_settings, kinds), scope, on_step_progress=shown.show
        )
    if as_json:
        print_json(planned)
    else:
        results().print(plan_shown(planned))
