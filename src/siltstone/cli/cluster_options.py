"""``--bootstrap``, ``--client-config`` and ``--json``: the options of commands that are clients of a broker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from click.core import ParameterSource

from siltstone.kafka_client.client_settings import BOOTSTRAP, CONFIG_VARIABLE, settings_of_file
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import Address, Security, parse_bootstrap
from siltstone.kafka_protocol.notation import TEXT_BYTES_MAX
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

NAME = "NAME"
"""The metavar of options that take the name of a topic, a group or a field."""

SHOWN_CHARACTERS = 40


class ClusterChoice(msgspec.Struct, frozen=True):
    """The addresses that were typed with --bootstrap, and the file of --client-config. Raises InvalidClientConfig."""

    bootstrap: tuple[Address, ...]
    client_config: Path | None = None

    def open(self) -> Cluster:
        """Returns a client of the cluster, which connects at its first request; use it in a ``with`` statement, which
        closes it."""
        file = self.client_config
        security = None if file is None else Security(settings_of_file(file))
        return Cluster(self.bootstrap, SystemClock(), system_randomness(), security)


def _inherited(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Lets the option stand before the subcommand, too: ``siltstone topics --bootstrap x create y``."""
    name = str(parameter.name)
    parent = context.parent
    if context.get_parameter_source(name) is ParameterSource.COMMANDLINE or parent is None:
        return value
    if parent.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        return parent.params[name]
    return value


def _refuse_unsendable(parameter: click.Parameter, value: Any) -> None:
    """Raises click.BadParameter for a text that no request of Kafka's protocol can hold."""
    for text in value if isinstance(value, tuple) else (value,):
        if not isinstance(text, str):
            continue
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise click.BadParameter(f"{text[:SHOWN_CHARACTERS]!r} is not UTF-8", param=parameter) from None
        if size > TEXT_BYTES_MAX:
            start = f"{text[:SHOWN_CHARACTERS]}…"
            raise click.BadParameter(
                f"{start!r} has {size} bytes, and Kafka's protocol takes {TEXT_BYTES_MAX}", param=parameter
            )


def _typed_or_of_file(bootstrap: str, client_config: Path | None) -> tuple[Address, ...]:
    """Returns the addresses of the brokers. If neither the command line nor the environment names any, they are the
    bootstrap.servers of the file, and without these the default. Raises InvalidClientConfig, and what
    ``parse_bootstrap`` raises."""
    context: click.Context | None = click.get_current_context()
    is_default = True
    while context is not None:
        is_default = is_default and context.get_parameter_source("bootstrap") in (
            None,
            ParameterSource.DEFAULT,
        )
        context = context.parent
    if is_default and client_config is not None and (found := settings_of_file(client_config).bootstrap):
        return parse_bootstrap(found, f"{BOOTSTRAP} in {client_config}")
    return parse_bootstrap(bootstrap)


def client_config_option(**options: Any) -> Callable[[F], F]:
    """Adds --client-config, which the command receives as ``client_config``."""
    return click.option(
        "--client-config", type=click.Path(path_type=Path), envvar=CONFIG_VARIABLE, metavar="FILE",
        help=f"File of name=value lines that say how to connect, such as security.protocol=SSL [{CONFIG_VARIABLE}].",
        **options,
    )  # fmt: skip


def cluster_options(command: F) -> F:
    """Adds --bootstrap, --client-config and --json; the command receives them as ``choice`` and ``as_json``."""
    bootstrap = click.option(
        "-b", "--bootstrap", "--bootstrap-server", "bootstrap", envvar="SILTSTONE_BOOTSTRAP",
        default=DEFAULT_BOOTSTRAP, metavar="HOST:PORT", callback=_inherited,
        help="Address of the broker, or several, separated by commas [SILTSTONE_BOOTSTRAP; bootstrap.servers in the "
        f"file of --client-config; {DEFAULT_BOOTSTRAP}].",
    )  # fmt: skip
    as_json = click.option(
        "--json", "as_json", is_flag=True, callback=_inherited, help="Print JSON instead of text."
    )

    def with_choice(*, bootstrap: str, client_config: Path | None, **arguments: Any) -> Any:
        for parameter in click.get_current_context().command.params:
            if isinstance(parameter, click.Argument) or parameter.metavar == NAME:
                _refuse_unsendable(parameter, arguments.get(str(parameter.name)))
        addresses = _typed_or_of_file(bootstrap, client_config)
        return command(choice=ClusterChoice(addresses, client_config), **arguments)

    with_choice.__doc__ = command.__doc__
    with_choice.__name__ = command.__name__
    with_choice.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    return bootstrap(client_config_option(callback=_inherited)(as_json(with_choice)))  # type: ignore[return-value]
