"""The options by which a command names the brokers it speaks to, and the cluster they name."""

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec
from click.core import ParameterSource

from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import Address, parse_bootstrap
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


class ClusterChoice(msgspec.Struct, frozen=True):
    """What was typed."""

    bootstrap: tuple[Address, ...]

    def open(self) -> Cluster:
        """Connects when it is first asked; ``with`` closes it."""
        return Cluster(self.bootstrap, SystemClock(), system_randomness())


def _inherited(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """``siltstone topics --bootstrap x create y`` means the same as with the option at the end."""
    name = str(parameter.name)
    parent = context.parent
    if context.get_parameter_source(name) is ParameterSource.COMMANDLINE or parent is None:
        return value
    if parent.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        return parent.params[name]
    return value


def cluster_options(command: F) -> F:
    """Adds --bootstrap and --json; the command takes them as ``choice`` and ``as_json``."""
    bootstrap = click.option(
        "--bootstrap", envvar="SILTSTONE_BOOTSTRAP", default=DEFAULT_BOOTSTRAP, metavar="HOST:PORT",
        callback=_inherited,
        help=f"The broker, or several with commas [SILTSTONE_BOOTSTRAP; {DEFAULT_BOOTSTRAP}].",
    )  # fmt: skip
    as_json = click.option(
        "--json", "as_json", is_flag=True, callback=_inherited, help="JSON instead of tables."
    )

    def with_choice(*, bootstrap: str, **arguments: Any) -> Any:
        return command(choice=ClusterChoice(parse_bootstrap(bootstrap)), **arguments)

    with_choice.__doc__ = command.__doc__
    with_choice.__name__ = command.__name__
    with_choice.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    return bootstrap(as_json(with_choice))  # type: ignore[return-value]
