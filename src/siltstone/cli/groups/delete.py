"""``siltstone groups delete GROUP …``: deletes consumer groups with their committed offsets."""

import click

from siltstone.cli.asking import confirm, tell_deleted, yes_option
from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_groups
from siltstone.kafka_client.groups import delete_groups, find_groups


@click.command()
@click.argument("group_ids", metavar="GROUP...", nargs=-1, required=True, shell_complete=complete_groups)
@yes_option
@cluster_options
def delete(choice: ClusterChoice, group_ids: tuple[str, ...], is_answered: bool, as_json: bool) -> None:
    """Delete consumer groups with their committed offsets.

    Only a group without members can be deleted. Asks for confirmation at a terminal; elsewhere --yes is required.
    """
    group_ids = tuple(dict.fromkeys(group_ids))
    with choice.open() as cluster:
        find_groups(cluster, group_ids)
        confirm(f"Delete the committed offsets of {', '.join(group_ids)}?", is_answered=is_answered)
        refused = delete_groups(cluster, group_ids)
    tell_deleted(group_ids, refused, as_json)
