"""Defines the options with which a command names a store: --store, --config, --bucket, --metadata, --set; and
``--json``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from siltstone.cli.audit_notes import leave_notes
from siltstone.cli.output import remarks
from siltstone.offline.opening.store import Store, open_store
from siltstone.offline.opening.values import SettingRefused
from siltstone.server.settings.node import NodeSettings, load_node_settings

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_FOLDER = "./siltstone-data"


class StoreChoice(msgspec.Struct, frozen=True):
    """The store options as they were typed. ``flags``: setting → value, from --bucket, --metadata and --set."""

    store: Path
    config: Path | None = None
    flags: dict[str, str] = {}

    def settings(self, **flags: str | None) -> NodeSettings:
        """Returns the settings, in which ``flags`` of the command come first: setting → value, with ``__`` for each dot
        of its name."""
        named = {name.replace("__", "."): value for name, value in flags.items() if value is not None}
        return load_node_settings(self.store, config=self.config, flags={**self.flags, **named})

    def open(self, **flags: str | None) -> Store:
        """Opens the store, which must exist; says so when it can only be read. Raises StoreNotFound."""
        store = open_store(self.settings(**flags))
        leave_notes(store.metadata)
        if note := store.metadata.read_only_note:
            remarks().print(note, style="yellow", markup=False, soft_wrap=True)
        return store

    def open_without(self, bucket_id: int) -> Store:
        """Opens the store without this bucket, which may be gone. Raises StoreNotFound."""
        return open_store(self.settings(), lost=bucket_id)


OWN_BUCKET = ""
"""The value of ``--bucket`` without a URL, where a command allows that: the buckets that the settings name."""


def store_options(command: F) -> F:
    """Adds --store, --config, --bucket, --metadata and --set; the command receives them as one ``choice``."""
    return _with_store_options(command, {})


def store_options_of_buckets(command: F) -> F:
    """Adds the same options as ``store_options``; --bucket may be given without a URL, and then has no effect."""
    return _with_store_options(command, {"is_flag": False, "flag_value": OWN_BUCKET})


def _with_store_options(command: F, bucket_option: dict[str, Any]) -> F:
    options = (
        click.option(
            "--store", type=click.Path(path_type=Path), envvar="SILTSTONE_STORE", default=DEFAULT_FOLDER,
            metavar="FOLDER", help=f"Folder of the store [SILTSTONE_STORE; {DEFAULT_FOLDER}].",
        ),
        click.option(
            "--config", type=click.Path(path_type=Path), envvar="SILTSTONE_CONFIG", metavar="FILE",
            help="Read this settings file instead of FOLDER/siltstone.toml.",
        ),
        click.option(
            "--bucket", metavar="URL", help="Location of the objects: s3://bucket/prefix or file:///folder.",
            **bucket_option,
        ),
        click.option("--metadata", metavar="URL", help="Location of the metadata: sqlite:///folder/file or postgresql://user@host/database."),
        click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Change a setting; repeatable."),
    )  # fmt: skip

    def with_choice(
        *,
        store: Path,
        config: Path | None,
        bucket: str | None,
        metadata: str | None,
        assignments: tuple[str, ...],
        **arguments: Any,
    ) -> Any:
        placed = {"buckets.0": bucket or None, "metadata": metadata}
        flags = _assigned(assignments) | {key: url for key, url in placed.items() if url is not None}
        return command(choice=StoreChoice(store, config, flags), **arguments)

    with_choice.__doc__ = command.__doc__
    with_choice.__name__ = command.__name__
    with_choice.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in reversed(options):
        with_choice = option(with_choice)
    return with_choice  # type: ignore[return-value]


def _assigned(assignments: tuple[str, ...]) -> dict[str, str]:
    assigned: dict[str, str] = {}
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator:
            raise SettingRefused(f"command line: --set {assignment}: write KEY=VALUE")
        assigned[key.strip()] = value.strip()
    return assigned


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of tables."
)
