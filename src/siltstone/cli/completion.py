"""``siltstone completion SHELL``, and the completion of names: the topics and groups of the broker that is typed.

A shell waits while it completes, and shows nothing but the names: without an answer there are no names, and no error.
"""

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class

from siltstone.cli.cluster_options import DEFAULT_BOOTSTRAP, ClusterChoice
from siltstone.cli.output import result
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import parse_bootstrap
from siltstone.kafka_client.groups import group_names
from siltstone.kafka_client.topics import all_topics
from siltstone.kafka_client.transactions import transactional_ids
from siltstone.model.errors import SiltstoneError

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_SILTSTONE_COMPLETE"
"""click's name for a program ``siltstone``: with it in the environment the program answers completions."""


@click.command()
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete commands, options, and names of topics and groups.

    For bash, add to ~/.bashrc: eval "$(siltstone completion bash)"

    For zsh, add to ~/.zshrc: eval "$(siltstone completion zsh)"

    For fish, add to ~/.config/fish/config.fish: siltstone completion fish | source
    """
    completer = get_completion_class(shell)
    assert completer is not None
    result(completer(context.find_root().command, {}, "siltstone", VARIABLE).source())


def complete_topics(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Returns the topics whose names begin with ``incomplete``; internal ones only after an underscore was typed."""
    return _names(
        context,
        incomplete,
        lambda cluster: (
            topic.name or ""
            for topic in all_topics(cluster)
            if not topic.is_internal or incomplete.startswith("_")
        ),
    )


def complete_groups(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Returns the groups whose names begin with ``incomplete``."""
    return _names(context, incomplete, group_names)


def complete_transactional_ids(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Returns the transactional ids that begin with ``incomplete``."""
    return _names(context, incomplete, transactional_ids)


def _names(
    context: click.Context, incomplete: str, find: Callable[[Cluster], Iterable[str]]
) -> list[CompletionItem]:
    try:
        choice = ClusterChoice(parse_bootstrap(_bootstrap(context)), context.params.get("client_config"))
        with choice.open() as cluster:
            return [CompletionItem(name) for name in find(cluster) if name.startswith(incomplete)]
    except SiltstoneError:
        return []


def _bootstrap(context: click.Context) -> str:
    """Returns the value of --bootstrap, or of its variable, at the command or at its group."""
    return str(context.params.get("bootstrap") or DEFAULT_BOOTSTRAP)
