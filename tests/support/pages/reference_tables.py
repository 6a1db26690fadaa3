"""Makes the tables of docs/reference.md from the code: settings with default and reason, commands with options.

``python tests/support/pages/reference_tables.py`` writes them into the file, between its markers; ``tests/tidy``
compares. The reason for a default is the text below its constant in ``model/limits.py`` or ``serving_limits.py``;
the few settings without one have theirs here.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

import click
import msgspec

from siltstone.cli.cluster_options import cluster_options
from siltstone.cli.main import cli
from siltstone.cli.store_options import store_options
from siltstone.offline.kind_rows import KIND_ROWS
from siltstone.offline.opening.tree import sections_of, settings_of_sections
from siltstone.offline.opening.values import Setting, format_setting
from siltstone.offline.settings import Intervals, Rates
from siltstone.server.settings.node import DEFAULT_LISTENER, PLACES, NodeSettings

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs" / "reference.md"

REASONS = {
    "broker.authorization": "`off`, `report` or `on`: the node does not start on a store whose mode is less strict, "
    "and stays at this mode if the store's is lowered meanwhile ([who may do what](authorization.md)).",
    "broker.audit": "`off`, `changes` or `all`: what this node writes to the topic of the audit: changes and "
    "maintenance, or logins and refusals, too ([the audit](audit.md)).",
    "groups.group_consumer_migration_policy": "`bidirectional`, `upgrade`, `downgrade` or `disabled`: whether a "
    "group with members changes to the protocol of KIP-848 with the first member that speaks it, and back when the "
    "last one goes [Kafka: group.consumer.migration.policy].",
    "engine.node_id": "The number of this node; its write-ahead log and its epoch belong to the number.",
    "engine.wal.sync": "`every-group`: before the answer, so an acknowledged record survives a power failure. "
    "`every-interval`: at least every `sync_interval_ms`; a power failure loses up to that much. "
    "`never`: when the operating system likes; a power failure may lose half a minute or more. "
    "With all three, acknowledged records survive the end of the process.",
    "engine.wal.location": "`file`: in the folder `wal_folder`. `bucket:0`: in the bucket of that number, so that the "
    "loss of the disk loses nothing ([the log in the bucket](bucket-log.md)); `sync`, `sync_interval_ms` and "
    "`segment_bytes` are for files only.",
    "read.catch_up_gives_way": "Reads that catch up are slowed down while appends take longer than without them "
    "([bandwidth](maintenance.md#bandwidth)).",
    "compaction.is_spread": "The service spreads what a compaction reads over its interval "
    "([bandwidth](maintenance.md#bandwidth)).",
    "read.block_cache_bytes_max": "Blocks read from objects, kept for the next reader.",
    "compaction.part_count_max": "The most parts of one multipart upload: the rule of S3 and all its compatibles.",
    "engine.wal.lost_epoch": "A start is refused when the write-ahead log is not the one that this node used last, and "
    "the error names a node epoch. To give up the records that only the log of that epoch held, write the epoch here "
    "once. 0: nothing is given up.",
    "broker.rack": "The place of this node, such as a zone. Clients get it with the broker's address, and leaders "
    "are spread over the racks [Kafka: broker.rack].",
    "broker.auto_create_topics_enable": "Whether a topic is created when a client names it and it does not exist "
    "[Kafka: auto.create.topics.enable].",
    "broker.num_partitions": "Partitions of a topic that is created without a number of partitions "
    "[Kafka: num.partitions].",
    "broker.default_replication_factor": "The replication factor that clients see. It has no effect: the bucket keeps "
    "the data.",
    "engine.wal.sync_interval_ms": "Only for `every-interval`: a power failure may lose this much.",
}
PLACE_REASONS = {
    "metadata": (
        "FOLDER/metadata.sqlite",
        "Where the metadata log is: `sqlite:///folder/file`, or `postgresql://user@host/database?schema=siltstone` "
        "([metadata in PostgreSQL](postgresql.md)).",
    ),
    "wal_folder": ("FOLDER/wal/node-N", "Where the write-ahead log is; relative to the store's folder."),
    "listeners": (
        DEFAULT_LISTENER,
        "Where `siltstone serve` listens: `[NAME://]HOST:PORT`, several with commas, in a file also as a list. "
        "`--listener` wins.",
    ),
    "advertised_listeners": (
        "as they listen",
        "Where clients find a listener, by its name, if not where it listens: behind a proxy, in a container, on all "
        "addresses. `--advertised-listener` wins.",
    ),
    "listener_security_protocol_map": (
        "each name is a protocol",
        "Which protocol a listener speaks whose name is not a protocol, such as `INTERNAL:PLAINTEXT,EXTERNAL:SSL`; "
        "`listener.NAME.protocol` says the same [Kafka: listener.security.protocol.map].",
    ),
    "tables.location": (
        "FOLDER/tables",
        "Where [tables](tables.md) are: `file:///folder` or `s3://bucket/prefix`.",
    ),
    "tables.registry": (
        "none",
        "The schema registry of tables with Avro or Protobuf values, `http://HOST:PORT`, or a folder of schemas, "
        "`file:///folder`.",
    ),
    "tables.catalog.type": (
        "sql",
        "The type of the Iceberg catalog, as pyiceberg names it: `sql`, `rest`, `glue`, `hive` …",
    ),
    "tables.catalog.uri": (
        "sqlite:///FOLDER/tables/catalog.sqlite",
        "Where the catalog is, such as `postgresql+psycopg://user@host/catalog`. Any other `tables.catalog.NAME` of a "
        "settings file goes to the catalog, too.",
    ),
}


def _texts_below_constants(path: Path) -> dict[str, str]:
    """Returns the texts below constants. A text applies to all constants above it since the last text."""
    texts: dict[str, str] = {}
    waiting: list[str] = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign):
            waiting += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            texts |= dict.fromkeys(waiting, " ".join(str(node.value.value).split()))
            waiting = []
    return texts


def _text_of(constant: str) -> str:
    return _texts_below_constants(ROOT / "src/siltstone/model/serving_limits.py")[constant]


LISTENER_REASONS = {
    "protocol": (
        "by its name",
        "`PLAINTEXT`, `SSL`, or with a login `SASL_PLAINTEXT`, `SASL_SSL` [Kafka: listener.security.protocol.map].",
    ),
    "tls_certificate_file": (
        "none",
        "The certificate and its chain, in PEM; the listener's own comes first. It is read again each minute and at "
        "SIGHUP, as the other files are [Kafka: ssl.keystore.location].",
    ),
    "tls_key_file": (
        "none",
        "Its key, in PEM. A file that every user of the machine may read is refused.",
    ),
    "tls_key_password_file": ("none", "A file with the password of the key [Kafka: ssl.key.password]."),
    "tls_client_ca_file": (
        "none",
        "The authorities whose clients are let in, in PEM [Kafka: ssl.truststore.location].",
    ),
    "tls_client_auth": (
        "none",
        "Whether clients show a certificate: `none`, `requested` (one that is shown must be good), or `required` "
        "[Kafka: ssl.client.auth].",
    ),
    "tls_version_min": ("1.2", "`1.2` or `1.3` [Kafka: ssl.enabled.protocols]."),
    "tls_ciphers": (
        "OpenSSL's",
        "The ciphers of TLS 1.2, as OpenSSL writes them; those of 1.3 are all good [Kafka: ssl.cipher.suites].",
    ),
    "tls_principal_mapping_rules": (
        "DEFAULT",
        "Rules that make the name of a client of its certificate: `RULE:pattern/replacement/`, with `L` or `U` for "
        "lower or upper case, or `DEFAULT`, with commas between [Kafka: ssl.principal.mapping.rules].",
    ),
    "handshake_ms_max": ("10 s", _text_of("HANDSHAKE_MS_MAX")),
    "sasl_mechanisms": (
        "SCRAM-SHA-512, SCRAM-SHA-256",
        "How clients may log in, with commas between: those two; `PLAIN` and `OAUTHBEARER` on a listener that encrypts "
        "[Kafka: sasl.enabled.mechanisms].",
    ),
    "reauthentication_ms_max": (
        "0",
        "How long a session lasts, at least 2,000 ms; clients log in again on the same connection before its end. 0: "
        "as long as the connection [Kafka: connections.max.reauth.ms].",
    ),
    "oauth_jwks_file": (
        "none",
        "OAUTHBEARER: a file with the keys of the issuer (JWKS). It is read again each hour.",
    ),
    "oauth_jwks_url": (
        "none",
        "The same at an https URL, for which redirects are not followed [Kafka: sasl.oauthbearer.jwks.endpoint.url].",
    ),
    "oauth_ca_file": (
        "none",
        "The authorities that may have certified that URL's server, in PEM; none: this machine's.",
    ),
    "oauth_issuer": (
        "none",
        "The issuer of tokens, compared as a text [Kafka: sasl.oauthbearer.expected.issuer].",
    ),
    "oauth_audience": (
        "none",
        "For whom tokens have to be; one of several suffices [Kafka: sasl.oauthbearer.expected.audience].",
    ),
    "oauth_algorithms": (
        "RS256,ES256",
        "How tokens may be signed: RS, PS and ES with 256, 384 or 512, and EdDSA. There are no symmetric ones.",
    ),
    "oauth_principal_claim": (
        "sub",
        "The claim that names the client [Kafka: sasl.oauthbearer.sub.claim.name].",
    ),
    "max_connections": (
        "0",
        "The most connections of this listener; further ones are closed. 0: as `network.max_connections` allows "
        "[Kafka: listener.name.NAME.max.connections].",
    ),
    "max_connection_creation_rate": (
        "0",
        "The most new connections a second; above it the listener rests, and clients wait. 0: any number [Kafka: "
        "listener.name.NAME.max.connection.creation.rate].",
    ),
    "bytes_per_second_max": (
        "0",
        "The most bytes a second, in and out together, of all clients of this listener; above it they are held back, "
        "10 s at a time. Ten seconds of it may pass at once. 0: any number.",
    ),
}
"""Of the settings ``listener.NAME.…``: default and reason."""

SECTIONS = {
    "engine": "Appends, the write-ahead log, uploads",
    "read": "Reads",
    "retry": "Requests to buckets",
    "bandwidth": "Bandwidth",
    "compaction": "Compaction of stream set objects",
    "sweep": "The sweep",
    "maintenance": "Maintenance",
    "broker": "The broker",
    "groups": "Consumer groups",
    "network": "Network",
    "admin": "Metrics and health",
}
"""First part of a key → title of the section. A part that is missing here is its own title."""

HEADER = ["| setting | default | reason |", "|---|---|---|"]


def settings_table() -> str:
    """Makes a table for the places, and one for each first part of the keys."""
    reasons = limit_reasons()
    rows = ["### Places and addresses", "", *HEADER]
    for place in PLACES:
        default, reason = PLACE_REASONS[place.key]
        rows.append(f"| `{place.key}` | {default} | {reason} |")
    rows.append("| `buckets.N` | `buckets.0`: FOLDER/bucket | Where the objects of bucket N are: an object's bucket is "
                "part of its metadata, so a bucket with objects in it must stay in the settings. |")  # fmt: skip
    rows.append("| `topics.NAME` | [topic configurations](topic-configurations.md) | What holds where a topic itself "
                "says nothing, such as `topics.retention.ms`; values as Kafka writes them, or "
                "with a unit: `86400000` or `1d`. |")  # fmt: skip
    about = (
        "NAME is the name of a listener in `listeners`, or ADMIN for those of metrics and health "
        "([security](security.md)). Files are relative to the store's folder."
    )
    rows += ["", "### Single listeners", "", about, "", *HEADER]
    rows += (f"| `listener.NAME.{name}` | {each[0]} | {each[1]} |" for name, each in LISTENER_REASONS.items())
    for part, settings in groupby(
        settings_of_sections(NodeSettings), key=lambda each: each.key.partition(".")[0]
    ):
        rows += ["", f"### {SECTIONS.get(part, part)}", "", *HEADER]
        rows += (
            f"| `{each.key}` | {format_setting(each, each.default) or 'none'} | {_reason(each, reasons)} |"
            for each in settings
        )
    return "\n".join(rows)


def _reason(setting: Setting, reasons: dict[str, str]) -> str:
    return REASONS.get(setting.key) or reasons[setting.key]


def limit_reasons() -> dict[str, str]:
    """Returns the reason for each setting whose default is a constant of the limits."""
    model = ROOT / "src/siltstone/model"
    texts = _texts_below_constants(model / "limits.py") | _texts_below_constants(model / "serving_limits.py")
    constants = {
        f"{key}{name}": constant
        for section, tree_of_section in sections_of(NodeSettings).items()
        for key, tree in _structs(tree_of_section, f"{section}.")
        for name, constant in _defaults(tree).items()
        if constant in texts
    }
    keys = {constant: key for key, constant in constants.items()}
    return {key: _for_readers(texts[constant], keys) for key, constant in constants.items()}


def _for_readers(text: str, keys: Mapping[str, str]) -> str:
    """Replaces names of constants by names of settings, which the readers of the reference know."""
    text = re.sub(r"\b[A-Z]+(?:_[A-Z]+)+\b", lambda found: f"`{keys.get(found[0], found[0])}`", text)
    return text.replace("``", "`")


def _structs(tree: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, type[msgspec.Struct]]]:
    yield prefix, tree
    for field in msgspec.structs.fields(tree):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _structs(field.type, f"{prefix}{field.name}.")


_OF_ROWS = {
    Intervals: {f"{row.setting}_ms": f"{row.setting.upper()}_INTERVAL_MS" for row in KIND_ROWS},
    Rates: {f"{row.setting}_bytes_per_second": "COPY_BYTES_PER_SECOND" for row in KIND_ROWS if row.has_rate},
}
"""Settings whose fields are made of the rows of kinds."""


def _defaults(tree: type[msgspec.Struct]) -> dict[str, str]:
    """Returns field name → name of the constant that is its default."""
    if tree in _OF_ROWS:
        return _OF_ROWS[tree]
    path = ROOT / "src" / (tree.__module__.replace(".", "/") + ".py")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef) and node.name == tree.__name__:
            assignments = [line for line in node.body if isinstance(line, ast.AnnAssign)]
            return {
                line.target.id: ast.unparse(line.value).removeprefix("serving_").removeprefix("limits.")
                for line in assignments
                if isinstance(line.target, ast.Name) and line.value is not None
            }
    raise LookupError(tree)


STORE_COMMANDS = "Which store, for all commands but the ones that ask a broker, below"
CLUSTER_COMMANDS = (
    "Which broker, for `topics`, `groups`, `produce`, `tail`, `consume` and `table`; any that speaks as Apache Kafka "
    "3.0 or later"
)


def commands_list() -> str:
    """Lists the commands. The options that name a store or a broker are listed only once."""
    shared = "\n\n".join(
        f"{title}:\n\n{_options_table(_options_of(decorator))}"
        for title, decorator in ((STORE_COMMANDS, store_options), (CLUSTER_COMMANDS, cluster_options))
    )
    sections = "\n\n".join(_command_section(path, command) for path, command in walk_commands(cli))
    return f"{shared}\n\n{sections}"


def _options_of(decorator: Callable[[Callable[[], None]], Callable[[], None]]) -> list[click.Option]:
    @decorator
    def nothing() -> None: ...

    return list(reversed(nothing.__click_params__))


def walk_commands(group: click.Group, before: str = "siltstone") -> Iterator[tuple[str, click.Command]]:
    """Yields the commands. Groups that do something by themselves are commands, too. A hidden command is a former
    name."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue
        if not isinstance(command, click.Group) or command.params:
            yield f"{before} {name}", command
        if isinstance(command, click.Group):
            yield from walk_commands(command, f"{before} {name}")


def _command_section(path: str, command: click.Command) -> str:
    arguments = " ".join(str(p.metavar) for p in command.params if isinstance(p, click.Argument))
    first, *rest = (command.help or "").split("\n\n")
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    for decorator in (store_options, cluster_options):
        shared = {option.name for option in _options_of(decorator)}
        if shared <= {option.name for option in options}:
            options = [option for option in options if option.name not in shared]
    text = "\n\n".join(_paragraph(part) for part in (first, *rest))
    table = f"\n\n{_options_table(options)}" if options else ""
    return f"### `{f'{path} {arguments}'.strip()}`\n\n{text}{table}"


def _paragraph(part: str) -> str:
    """Returns a paragraph of a help text on one line; one that Click must not wrap (``\\b``) as a list."""
    if not part.lstrip(" ").startswith("\b"):
        return " ".join(part.split())
    lines = [re.split(r":? {2,}", line.strip(), maxsplit=1) for line in part.splitlines()[1:]]
    return "\n".join(f"- {': '.join(line)}" for line in lines)


def _options_table(options: Iterable[click.Option]) -> str:
    return "\n".join(
        ["| option | |", "|---|---|", *(f"| `{_usage(option)}` | {option.help} |" for option in options)]
    )


def _usage(option: click.Option) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    if option.is_flag or option.count:
        return names
    if isinstance(option.type, click.Choice):
        return f"{names} {' or '.join(map(str, option.type.choices))}"
    return f"{names} {option.metavar or option.type.name.upper()}"


def written(text: str) -> str:
    """Returns the document with its generated parts made anew."""
    for name, content in (("settings", settings_table()), ("commands", commands_list())):
        begin, end = (
            f"<!-- {name}: made by tests/support/pages/reference_tables.py -->",
            f"<!-- end of {name} -->",
        )
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{content}\n{end}{after}"
    return text


if __name__ == "__main__":
    REFERENCE.write_text(written(REFERENCE.read_text()))
