"""``siltstone maintain explain``: why each topic or object is, or is not, maintained now."""

import click

from siltstone.cli.maintain.buckets import buckets_of
from siltstone.cli.maintain.options import kind_option, scope_of, topic_option
from siltstone.cli.maintain.progress import Progress
from siltstone.cli.maintain.tables import explanation_rows, explanation_shown
from siltstone.cli.output import print_json, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.maintenance.overview import overview
from siltstone.metadata.buckets import bucket_list_of


@click.command()
@kind_option
@topic_option
@json_option
@store_options
def explain(choice: StoreChoice, kinds: tuple[str, ...], topics: tuple[str, ...], as_json: bool) -> None:
    """Show why maintenance will, or will not, touch each topic now.

    Lists every topic and object with the reason, such as: a consumer group keeps a segment from retention, a topic is
    below the threshold of compaction, an object is damaged and skipped. It also lists the buckets of the data, if the
    store has several."""
    with choice.open() as store, Progress(store) as shown:
        scope = scope_of(store.metadata.image, topics)
        planned = overview(
            store.context, chosen_kinds(store.kind_settings, kinds), scope, on_step_progress=shown.show
        )
        image = store.metadata.image
    if as_json:
        print_json(
            [
                {
                    "kind": each.kind,
                    "what": name,
                    "now": now,
                    "because": reason,
                    "buckets": buckets_of(name, image),
                }
                for each in planned.kinds
                for name, now, reason in explanation_rows(each)
            ]
        )
    else:
        results().print(explanation_shown(planned, image if bucket_list_of(image).are_several else None))
