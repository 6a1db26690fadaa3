"""Whether a command line of Siltstone exists: its command, its options, its settings. For files that no test runs."""

import shlex
from pathlib import Path

import click

from siltstone.cli.main import cli
from siltstone.server.settings.node import load_node_settings


def assert_known(line: str) -> list[str]:
    """``line`` begins behind the word siltstone. Returns the words of the command that it names."""
    words = shlex.split(line)
    command: click.Command = cli
    named = []
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0]) if words else None
        assert found is not None, f"siltstone {line}: there is no such command"
        command, named = found, [*named, words.pop(0)]
    known = {name: option for option in command.params for name in (*option.opts, *option.secondary_opts)}
    for place, word in enumerate(words):
        name, _, value = word.partition("=")
        if name.startswith("-"):
            assert name in known, f"siltstone {line}: {name} is no option of it"
        if name == "--set":
            key, _, given = (value or words[place + 1]).partition("=")
            load_node_settings(Path("any"), environment={}, flags={key: given})
        if name == "--runner":
            assert (value or words[place + 1]) in known[name].type.choices  # type: ignore[attr-defined]
    return named
