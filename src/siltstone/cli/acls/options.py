"""How the commands about ACLs name a resource, operations and a principal."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from siltstone.model.acls import CLUSTER_NAME, AclOperation, AclResourceType, PatternType
from siltstone.model.errors import InvalidRequest

F = TypeVar("F", bound=Callable[..., Any])

OPERATIONS = [each.name.lower() for each in AclOperation if each >= AclOperation.ALL]


class ResourceNotNamed(InvalidRequest):
    """The command line names no resource, or several."""


class Resource(msgspec.Struct, frozen=True):
    resource_type: AclResourceType
    name: str
    pattern_type: PatternType


def resource_options(command: F) -> F:
    """Adds --topic, --group, --transactional-id, --cluster and --prefixed; the command receives ``resource``, None if
    none of them was given."""
    options = (
        click.option("--topic", metavar="NAME", help="This topic; * is every topic."),
        click.option("--group", metavar="NAME", help="This consumer group; * is every group."),
        click.option("--transactional-id", metavar="NAME", help="This transactional id; * is every one."),
        click.option("--cluster", is_flag=True, help="The cluster as a whole."),
        click.option("--prefixed", is_flag=True, help="NAME is the beginning of names."),
    )

    def with_resource(
        *,
        topic: str | None,
        group: str | None,
        transactional_id: str | None,
        cluster: bool,
        prefixed: bool,
        **others: Any,
    ) -> Any:
        named = {
            AclResourceType.TOPIC: topic,
            AclResourceType.GROUP: group,
            AclResourceType.TRANSACTIONAL_ID: transactional_id,
            AclResourceType.CLUSTER: CLUSTER_NAME if cluster else None,
        }
        return command(resource=_only(named, prefixed=prefixed), **others)

    with_resource.__name__ = command.__name__
    with_resource.__doc__ = command.__doc__
    with_resource.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in reversed(options):
        option(with_resource)
    return with_resource  # type: ignore[return-value]


def _only(named: dict[AclResourceType, str | None], *, prefixed: bool) -> Resource | None:
    """Raises ResourceNotNamed."""
    given = [(kind, name) for kind, name in named.items() if name is not None]
    if len(given) > 1:
        raise ResourceNotNamed(
            "several resources are named: write one of --topic, --group, --transactional-id and --cluster"
        )
    if not given:
        return None
    return Resource(*given[0], PatternType.PREFIXED if prefixed else PatternType.LITERAL)


def needed(resource: Resource | None) -> Resource:
    """Raises ResourceNotNamed."""
    if resource is None:
        raise ResourceNotNamed(
            "no resource is named: write one of --topic, --group, --transactional-id and --cluster"
        )
    return resource


def principal_of(text: str) -> str:
    """Returns the principal; a name without a type is that of a user."""
    return text if ":" in text else f"User:{text}"


def operation_of(text: str) -> AclOperation:
    return AclOperation[text.upper()]


operation_choice = click.Choice(OPERATIONS, case_sensitive=False)
