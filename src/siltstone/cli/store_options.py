"""The options by which every command names a store, and the store they name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from siltstone.server.components import Store, open_store
from siltstone.server.settings.store import StoreSettings, load_settings
from siltstone.server.settings.values import SettingRefused

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_FOLDER = "./siltstone-data"


class StoreChoice(msgspec.Struct, frozen=True):
    """What was typed."""

    store: Path
    config: Path | None = None
    flags: dict[str, str] = {}

    def settings(self, **flags: str | None) -> StoreSettings:
        """With further flags of the command, by key; two underscores stand for a dot."""
        named = {name.replace("__", "."): value for name, value in flags.items() if value is not None}
        return load_settings(self.store, config=self.config, flags={**self.flags, **named})

    def open(self, **flags: str | None) -> Store:
        """The store, which must exist."""
        return open_store(self.settings(**flags))


OWN_BUCKET = ""
"""What --bucket without a URL stands for, where it may: what the settings name."""


def store_options(command: F) -> F:
    """Adds --store, --config, --bucket, --metadata and --set; the command takes them as one ``choice``."""
    return _with_store_options(command, {})


def store_options_of_buckets(command: F) -> F:
    """For a command that is about the buckets: --bucket may stand alone, and changes nothing then."""
    return _with_store_options(command, {"is_flag": False, "flag_value": OWN_BUCKET})


def _with_store_options(command: F, bucket_option: dict[str, Any]) -> F:
    options = (
        click.option(
            "--store", type=click.Path(path_type=Path), envvar="SILTSTONE_STORE", default=DEFAULT_FOLDER,
            metavar="FOLDER", help=f"The store's folder [SILTSTONE_STORE; {DEFAULT_FOLDER}].",
        ),
        click.option(
            "--config", type=click.Path(path_type=Path), envvar="SILTSTONE_CONFIG", metavar="FILE",
            help="Settings to use instead of FOLDER/siltstone.toml.",
        ),
        click.option(
            "--bucket", metavar="URL", help="Where the objects are: s3://bucket/prefix, file:///folder.",
            **bucket_option,
        ),
        click.option("--metadata", metavar="URL", help="Where the metadata is: sqlite:///folder/file."),
        click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="Any setting; repeatable."),
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


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document instead of tables.")
