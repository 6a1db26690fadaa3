"""Lists what every command does in every state: nothing to do, work, failure, Ctrl-C.

A command has one ``Case`` for each state, or a sentence that says why it has none. ``{...}`` in words are places of the
scene: ``{store}`` a store with work to do, of which each run gets a copy of its own, ``{done}`` the same after
maintenance, ``{tabled}`` a store with the topic ``kept``, which was exported to a table, and ``fresh``, which was not
exported yet, ``{empty}`` a store without streams, ``{broken}`` a store that has lost an object, ``{nowhere}`` a folder
that does not exist; ``{at}`` a broker with the topic ``full``, ``{idle}`` one without topics, ``{closed}`` an address
at which nothing listens; ``{topic}`` and ``{group}`` a topic and a group that only this run uses.
"""

import shlex
from collections.abc import Mapping
from enum import StrEnum

import msgspec


class State(StrEnum):
    NOTHING = "nothing to do"
    WORK = "work"
    FAILURE = "failure"
    CTRL_C = "ctrl-c"


class Case(msgspec.Struct, frozen=True):
    """``shows``: a pattern that stdout or stderr has. ``ctrl_c``: the pattern after which Ctrl-C is pressed; "" presses
    it when the command begins, None never. ``typed``: the input; at a terminal Ctrl-D follows. ``is_slow``: runs with
    the nightly tests only. ``is_story``: is drawn in a pipe, too."""

    line: str
    status: int = 0
    shows: str = "."
    ctrl_c: str | None = None
    typed: str = ""
    is_slow: bool = False
    is_story: bool = False

    def words(self, places: Mapping[str, str]) -> list[str]:
        return [word.format_map(places) for word in shlex.split(self.line)]


INTERRUPTED = 130
SAID_INTERRUPTED = "siltstone: interrupted"


def begun(line: str) -> Case:
    """Makes a case with Ctrl-C when the command begins."""
    return Case(line, INTERRUPTED, SAID_INTERRUPTED, ctrl_c="")


def row(
    nothing: Case | str, work: Case | str, failure: Case | str, ctrl_c: Case | str
) -> dict[State, Case | str]:
    return dict(zip(State, (nothing, work, failure, ctrl_c), strict=True))


NO_BROKER = "no broker at 127.0.0.1"
NO_STORE = "no store"

ROWS: dict[str, dict[State, Case | str]] = {
    "": row(
        Case("", shows="Run a broker"),
        "it only shows its help",
        Case("nonsense", 2, "No such command 'nonsense'"),
        "it only shows its help",
    ),
    "demo": row(
        "it always has something to do",
        Case("demo --runner in-process --flights 3000", shows="What each step changed", is_slow=True, is_story=True),
        Case("demo --runner nonsense", 2, "nonsense"),
        Case(
            "demo --runner in-process --flights 3000", INTERRUPTED, SAID_INTERRUPTED, ctrl_c="Produce",
            is_slow=True, is_story=True,
        ),
    ),
    "serve": row(
        Case("serve --store {nowhere} --listener 127.0.0.1:0", 0, "ready at", ctrl_c="ready at"),
        Case("serve --store {store} --listener 127.0.0.1:0", 0, "ready at", ctrl_c="ready at"),
        Case("serve --store {nowhere} --listener {at}", 2, "another process listens there"),
        begun("serve --store {nowhere} --listener 127.0.0.1:0"),
    ),
    "topics": row(
        Case("topics -b {idle}", shows="There are no topics yet"),
        Case("topics -b {at}", shows="full"),
        Case("topics -b {closed}", 1, NO_BROKER),
        begun("topics -b {at}"),
    ),
    "topics list": row(
        Case("topics list -b {idle}", shows="There are no topics yet"),
        Case("topics list -b {at}", shows="full"),
        Case("topics list -b {closed}", 1, NO_BROKER),
        begun("topics list -b {at}"),
    ),
    "topics create": row(
        Case("topics create -b {at} {topic} --if-missing", shows="already exists"),
        Case("topics create -b {at} new-{topic} -p 2", shows="Created new-"),
        Case("topics create -b {at} full", 2, "TOPIC_ALREADY_EXISTS"),
        begun("topics create -b {at} never-{topic}"),
    ),
    "topics describe": row(
        Case("topics describe -b {at} {topic}", shows="Every configuration has its default value"),
        Case("topics describe -b {at} full --all", shows="retention.ms"),
        Case("topics describe -b {at} ful", 2, "did you mean full"),
        begun("topics describe -b {at} full"),
    ),
    "topics configure": row(
        Case("topics configure -b {at} {topic} --dry-run retention.ms=7d", shows="nothing was changed"),
        Case("topics configure -b {at} {topic} retention.ms=7d -p 3", shows="retention.ms.*604800000"),
        Case("topics configure -b {at} {topic} retention.ms=banana", 2, "write retention.ms=7d"),
        begun("topics configure -b {at} {topic} retention.ms=7d"),
    ),
    "topics trim": row(
        Case("topics trim -b {at} {topic} --before 0 --yes", shows="Nothing was deleted"),
        Case("topics trim -b {at} {topic} --before 2 --yes", shows="Deleted 2 records"),
        Case("topics trim -b {at} {topic}", 2, "say how far to trim"),
        begun("topics trim -b {at} {topic} --before 2 --yes"),
    ),
    "topics move": row(
        "it is told what to move",
        Case("topics move -b {at} {topic} --to 0", shows="Node 0 leads it already"),
        Case("topics move -b {at} {topic} --to 9", 2, "node 9"),
        begun("topics move -b {at} {topic} --to 0"),
    ),
    "topics delete": row(
        "it is told what to delete",
        Case("topics delete -b {at} {topic} --yes", shows="Deleted"),
        Case("topics delete -b {at} nosuch --yes", 2, "there is no topic nosuch"),
        begun("topics delete -b {at} {topic} --yes"),
    ),
    "tables": row(
        Case("tables --store {done}", shows="No topic is kept as a table"),
        Case("tables --store {tabled}", shows="kafka.kept"),
        Case("tables --store {nowhere}", 2, NO_STORE),
        begun("tables --store {tabled}"),
    ),
    "tables list": row(
        Case("tables list --store {done}", shows="No topic is kept as a table"),
        Case("tables list --store {tabled}", shows="kafka.kept"),
        Case("tables list --store {nowhere}", 2, NO_STORE),
        begun("tables list --store {tabled}"),
    ),
    "tables show": row(
        Case("tables show fresh --store {tabled}", 2, "there is no table kafka.fresh yet"),
        Case("tables show kept --store {tabled}", shows="exported up to"),
        Case("tables show nosuch --store {tabled}", 2, "topic nosuch is not kept as a table"),
        begun("tables show kept --store {tabled}"),
    ),
    "tables explain": row(
        Case("tables explain fresh --store {tabled}", shows="is not exported"),
        Case("tables explain kept --store {tabled}", shows="kafka.kept"),
        Case("tables explain nosuch --store {tabled}", 2, "topic nosuch is not kept as a table"),
        begun("tables explain kept --store {tabled}"),
    ),
    "tables forget": row(
        "it is told what to forget",
        Case("tables forget fresh --store {tabled} --yes", shows="Forgotten"),
        Case("tables forget kept --store {tabled} --yes", 2, "is still there"),
        begun("tables forget fresh --store {tabled} --yes"),
    ),
    "groups": row(
        Case("groups -b {idle}", shows="There are no consumer groups"),
        Case("groups -b {at}", shows="readers"),
        Case("groups -b {closed}", 1, NO_BROKER),
        begun("groups -b {at}"),
    ),
    "groups list": row(
        Case("groups list -b {idle}", shows="There are no consumer groups"),
        Case("groups list -b {at}", shows="readers"),
        Case("groups list -b {closed}", 1, NO_BROKER),
        begun("groups list -b {at}"),
    ),
    "groups describe": row(
        "a group that exists has something to show",
        Case("groups describe -b {at} readers", shows="full"),
        Case("groups describe -b {at} reader", 2, "did you mean readers"),
        begun("groups describe -b {at} readers"),
    ),
    "groups reset": row(
        Case("groups reset -b {at} readers -t full --to earliest --dry-run", shows="Nothing was changed"),
        Case("groups reset -b {at} readers -t full --to latest", shows="full"),
        Case("groups reset -b {at} readers -t full --to never", 2, "earliest, latest, an offset"),
        begun("groups reset -b {at} readers -t full --to latest"),
    ),
    "groups delete": row(
        "it is told what to delete",
        Case("groups delete -b {at} {group} --yes", shows="Deleted"),
        Case("groups delete -b {at} nosuch --yes", 2, "there is no consumer group nosuch"),
        begun("groups delete -b {at} {group} --yes"),
    ),
    "produce": row(
        Case("produce -b {at} {topic} /dev/null", shows="0 records to"),
        Case("produce -b {at} {topic} -K :", shows="2 records to", typed="a:1\nb:2\n"),
        Case("produce -b {at} {topic} --json-lines", 1, "line 2 is not JSON", typed='{"a": 1}\nb\n'),
        begun("produce -b {at} {topic}"),
    ),
    "tail": row(
        Case("tail -b {at} {topic} -o end -e", shows=""),
        Case("tail -b {at} full --all -e", shows="value-2"),
        Case("tail -b {at} full -p 7", 2, "has no partition 7"),
        Case("tail -b {at} full", INTERRUPTED, "value-2", ctrl_c="value-2"),
    ),
    "consume": row(
        Case("consume -b {at} {topic} -g {group} -e", shows=""),
        Case("consume -b {at} full -g new-{group} --from-beginning -n 3", shows="value-2"),
        Case("consume -b {at} full", 2, "Missing option '-g'"),
        Case("consume -b {at} full -g new-{group} --from-beginning", INTERRUPTED, "value-2", ctrl_c="value-2"),
    ),
    "table": row(
        Case("table -b {at} new-{topic} --key x", 2, "there is no topic"),
        Case("table -b {at} full", shows="value-2"),
        Case("table -b {at} full --key nosuch", 1, "not found"),
        begun("table -b {at} full"),
    ),
    "sql": row(
        "a query always has an answer",
        Case("sql 'select 7 as seven' --store {store}", shows="seven"),
        Case("sql 'select 1' --store {nowhere}", 2, NO_STORE),
        begun("sql 'select 1' --store {store}"),
    ),
    "clients": row(
        "a list needs a broker with an admin listener: tests/integration/test_clients_command.py",
        "a client needs a broker with an admin listener, as above",
        Case("clients --admin {closed}", 1, "no admin listener answers at 127.0.0.1"),
        begun("clients --admin {closed}"),
    ),
    "users": row(
        Case("users --store {empty}", shows="There are no users"),
        Case("users --store {store}", shows="There are no users"),
        Case("users --store {nowhere}", 2, NO_STORE),
        begun("users --store {store}"),
    ),
    "users list": row(
        Case("users list --store {empty}", shows="There are no users"),
        Case("users list --store {store}", shows="There are no users"),
        Case("users list --store {nowhere}", 2, NO_STORE),
        begun("users list --store {store}"),
    ),
    "users add": row(
        "its argument names the user",
        Case("users add ada --password-file - --store {store}", shows="User ada was added", typed="pencil\n"),
        Case("users add siltstone-node --store {store}", 2, "cannot be the name of a user"),
        begun("users add ada --password-file - --store {store}"),
    ),
    "users password": row(
        "its argument names the user",
        Case("users password ada --store {store}", 2, "there is no user ada"),
        Case("users password ada --store {nowhere}", 2, NO_STORE),
        begun("users password ada --store {store}"),
    ),
    "users remove": row(
        "its argument names the user",
        Case("users remove ada --store {store}", 2, "there is no user ada"),
        Case("users remove ada --store {nowhere}", 2, NO_STORE),
        begun("users remove ada --store {store}"),
    ),
    "users end-sessions": row(
        "its argument names the user",
        Case("users end-sessions ada --store {store}", shows="The sessions of User:ada end now"),
        Case("users end-sessions ada --store {nowhere}", 2, NO_STORE),
        begun("users end-sessions ada --store {store}"),
    ),
    "nodes": row(
        Case("nodes --store {empty}"),
        Case("nodes --store {store}"),
        Case("nodes --store {nowhere}", 2, NO_STORE),
        begun("nodes --store {store}"),
    ),
    "nodes list": row(
        Case("nodes list --store {empty}"),
        Case("nodes list --store {store}"),
        Case("nodes list --store {nowhere}", 2, NO_STORE),
        begun("nodes list --store {store}"),
    ),
    "nodes drain": row(
        "it is told what to drain",
        Case("nodes drain 9 --store {store}", 2, "there is no node 9"),
        Case("nodes drain 9 --store {nowhere}", 2, NO_STORE),
        begun("nodes drain 0 --store {store}"),
    ),
    "nodes resume": row(
        "it is told what to resume",
        Case("nodes resume 0 --store {store}", shows="Node 0 is"),
        Case("nodes resume 9 --store {store}", 2, "there is no node 9"),
        begun("nodes resume 0 --store {store}"),
    ),
    "nodes unregister": row(
        "it is told what to forget",
        Case("nodes unregister 9 --store {store}", 2, "there is no node 9"),
        Case("nodes unregister 9 --store {nowhere}", 2, NO_STORE),
        begun("nodes unregister 0 --store {store}"),
    ),
    "nodes listener": row(
        Case("nodes listener --store {empty}", shows="by its first listener"),
        Case("nodes listener --store {store}", shows="by its first listener"),
        Case("nodes listener --store {nowhere}", 2, NO_STORE),
        begun("nodes listener --store {store}"),
    ),
    "nodes give-up": row(
        "it is told whose log to give up",
        Case("nodes give-up 0 --store {store}", shows="Node 0 left nothing open"),
        Case("nodes give-up 9 --store {store}", 2, "there is no node 9"),
        begun("nodes give-up 0 --store {store}"),
    ),
    "authorization": row(
        Case("authorization --store {empty}", shows="Authorization is off"),
        Case("authorization --super-user ops --store {store}", shows="Super users: User:ops"),
        Case("authorization on --store {empty}", 2, "cannot be on without a super user"),
        begun("authorization --store {store}"),
    ),
    "acls": row(
        Case("acls --store {empty}", shows="There are no such ACLs"),
        Case("acls --store {store}"),
        Case("acls --store {nowhere}", 2, NO_STORE),
        begun("acls --store {store}"),
    ),
    "acls list": row(
        Case("acls list --topic flights --store {empty}", shows="There are no such ACLs"),
        Case("acls list --principal ada --store {store}"),
        Case("acls list --topic a --cluster --store {store}", 2, "several resources are named"),
        begun("acls list --store {store}"),
    ),
    "acls add": row(
        "it is told what to add",
        Case("acls add ada read --topic flights --store {store}", shows="added"),
        Case("acls add ada read --store {store}", 2, "no resource is named"),
        begun("acls add ada read --topic flights --store {store}"),
    ),
    "acls remove": row(
        Case("acls remove --principal nobody --store {empty}", shows="there are no such ACLs"),
        Case("acls remove --principal nobody --store {store}", shows="there are no such ACLs"),
        Case("acls remove --store {store}", 2, "all ACLs at once are not removed"),
        begun("acls remove --principal nobody --store {store}"),
    ),
    "acls who-may": row(
        Case("acls who-may read --topic flights --store {empty}", shows="Nobody may"),
        Case("acls who-may delete --cluster --store {store}"),
        Case("acls who-may fly --topic a --store {store}", 2, "Invalid value"),
        begun("acls who-may read --topic flights --store {store}"),
    ),
    "buckets": row(
        Case("buckets --store {empty}", shows="New objects are put into bucket 0"),
        Case("buckets --store {store}", shows="New objects are put into bucket 0"),
        Case("buckets --store {nowhere}", 2, NO_STORE),
        begun("buckets --store {store}"),
    ),
    "buckets list": row(
        Case("buckets list --store {empty}"),
        Case("buckets list --store {store}"),
        Case("buckets list --store {nowhere}", 2, NO_STORE),
        begun("buckets list --store {store}"),
    ),
    "buckets add": row(
        "it is told what to add",
        Case("buckets add {store}/second --store {store}", shows="while it takes no writes, into 1"),
        Case("buckets add ftp://there --store {store}", 2, "write file:///absolute/folder or s3://bucket/prefix"),
        begun("buckets add {store}/second --store {store}"),
    ),
    "buckets drain": row(
        "it is told what to drain",
        Case("buckets drain 0 --store {store}", 1, "add another one first"),
        Case("buckets drain 7 --store {store}", 1, "there is no bucket 7"),
        begun("buckets drain 0 --store {store}"),
    ),
    "buckets remove": row(
        "it is told what to remove",
        Case("buckets remove 0 --store {store}", 1, "drain it first"),
        Case("buckets remove 7 --store {store}", 1, "there is no bucket 7"),
        begun("buckets remove 0 --store {store}"),
    ),
    "buckets lost": row(
        "it is told what is lost",
        Case("buckets lost 0 --store {store}", 2, "is not lost"),
        Case("buckets lost 7 --store {store}", 1, "there is no bucket 7"),
        begun("buckets lost 0 --store {store}"),
    ),
    "buckets strategy": row(
        "it is told which one",
        Case("buckets strategy round-robin --store {store}", shows="New objects are put into bucket 0"),
        Case("buckets strategy failover --order 7 --store {store}", 1, "there is no bucket 7"),
        begun("buckets strategy round-robin --store {store}"),
    ),
    "balance": row(
        Case("balance --store {empty}", shows="fewer than two live brokers"),
        Case("balance --store {store}", shows="Nothing is moved"),
        Case("balance --store {nowhere}", 2, NO_STORE),
        begun("balance --store {store}"),
    ),
    "balance plan": row(
        Case("balance plan --store {empty}", shows="fewer than two live brokers"),
        Case("balance plan --store {store}", shows="Nothing is moved"),
        Case("balance plan --store {nowhere}", 2, NO_STORE),
        begun("balance plan --store {store}"),
    ),
    "balance run": row(
        Case("balance run --store {empty}", shows="fewer than two live brokers"),
        Case("balance run --store {store}", shows="Nothing is moved"),
        Case("balance run --store {nowhere}", 2, NO_STORE),
        begun("balance run --store {store}"),
    ),
    "balance on": row(
        "it is the same whatever is there",
        Case("balance on --store {store}", shows="balance by themselves now"),
        Case("balance on --store {nowhere}", 2, NO_STORE),
        begun("balance on --store {store}"),
    ),
    "balance off": row(
        "it is the same whatever is there",
        Case("balance off --store {store}", shows="where they are now"),
        Case("balance off --store {nowhere}", 2, NO_STORE),
        begun("balance off --store {store}"),
    ),
    "balance status": row(
        Case("balance status --store {empty}", shows="by themselves: no"),
        Case("balance status --store {store}", shows="by themselves: no"),
        Case("balance status --store {nowhere}", 2, NO_STORE),
        begun("balance status --store {store}"),
    ),
    "streams": row(
        Case("streams --store {empty}", shows="This store has no streams yet"),
        Case("streams --store {store}", shows="topic=t2"),
        Case("streams --store {nowhere}", 2, NO_STORE),
        begun("streams --store {store}"),
    ),
    "inspect": row(
        "an object that exists has something to show",
        Case("inspect 0 --blocks --store {store}", shows="checksum verified"),
        Case("inspect 999 --store {store}", 2, "999"),
        begun("inspect 0 --store {store}"),
    ),
    "compact": row(
        Case("compact --runner in-process --store {empty}", shows="nothing to do"),
        Case("compact --runner in-process --store {store}", shows="became"),
        Case("compact --runner in-process --store {nowhere}", 2, NO_STORE),
        begun("compact --runner in-process --store {store}"),
    ),
    "maintain": row(
        Case("maintain", shows="plan"),
        "it only shows its help",
        Case("maintain plam", 2, "No such command 'plam'"),
        begun("maintain"),
    ),
    "maintain plan": row(
        Case("maintain plan --store {done}", shows="[Nn]othing to do"),
        Case("maintain plan --store {store}", shows="sso-compaction"),
        Case("maintain plan --store {nowhere}", 2, NO_STORE),
        begun("maintain plan --store {store}"),
    ),
    "maintain explain": row(
        Case("maintain explain --store {empty}", shows="there is nothing to do"),
        Case("maintain explain --store {store}", shows="will be done"),
        Case("maintain explain --store {nowhere}", 2, NO_STORE),
        begun("maintain explain --store {store}"),
    ),
    "maintain run": row(
        Case("maintain run --runner in-process --store {done}", shows="nothing to do"),
        Case("maintain run --runner in-process --store {store}", shows="became"),
        Case("maintain run --runner in-process --kind sso-compaction --store {broken}", 1, "failed"),
        begun("maintain run --runner in-process --store {store}"),
    ),
    "maintain status": row(
        Case("maintain status --store {empty}", shows="No job has found work yet"),
        Case("maintain status --store {done}", shows="Recent jobs"),
        Case("maintain status --store {nowhere}", 2, NO_STORE),
        begun("maintain status --store {done}"),
    ),
    "maintain cancel": row(
        Case("maintain cancel 0 --store {done}", shows="had already ended"),
        Case("maintain cancel 0 --store {leased}", shows="was cancelled"),
        Case("maintain cancel 99 --store {done}", 2, "there is no job 99"),
        begun("maintain cancel 0 --store {leased}"),
    ),
    "maintain unpin": row(
        Case("maintain unpin all --store {done}", shows="0 scan pins ended"),
        Case("maintain unpin query-1 --store {leased}", shows="1 scan pin ended"),
        Case("maintain unpin query-2 --store {done}", 2, "there is no pin query-2"),
        begun("maintain unpin all --store {leased}"),
    ),
    "sinks": row(
        Case("sinks --store {empty}", shows="There are no sinks"),
        Case("sinks --store {leased}", shows="orders.*intent"),
        Case("sinks --store {nowhere}", 2, NO_STORE),
        begun("sinks --store {done}"),
    ),
    "sinks list": row(
        Case("sinks list --store {empty}", shows="There are no sinks"),
        Case("sinks list --store {leased}", shows="orders.*intent"),
        Case("sinks list --store {nowhere}", 2, NO_STORE),
        begun("sinks list --store {done}"),
    ),
    "sinks abandon": row(
        Case("sinks abandon loads --store {leased}", shows="nothing to give up"),
        Case("sinks abandon orders --store {leased}", shows="was given up"),
        Case("sinks abandon orders --store {done}", 2, "there is no sink orders"),
        begun("sinks abandon orders --store {leased}"),
    ),
    "sinks forget": row(
        "it always has a sink to forget, or fails",
        Case("sinks forget loads --store {leased}", shows="Sink loads was forgotten"),
        Case("sinks forget orders --store {leased}", 2, "is not finished"),
        begun("sinks forget loads --store {leased}"),
    ),
    "maintain sweep": row(
        Case("maintain sweep --store {store}", shows="0 objects"),
        Case("maintain sweep --grace-period 0ms --store {done}", shows=r"[1-9] objects"),
        Case("maintain sweep --store {nowhere}", 2, NO_STORE),
        begun("maintain sweep --store {done}"),
    ),
    "maintain serve": row(
        Case("maintain serve --once --runner in-process --store {empty}", shows="Maintenance is running"),
        Case("maintain serve --once --runner in-process --store {store}", shows="became"),
        Case("maintain serve --runner in-process --store {nowhere}", 2, NO_STORE),
        Case("maintain serve --runner in-process --store {done}", 0, "stopping", ctrl_c="Maintenance is running"),
    ),
    "check": row(
        Case("check --store {empty}", shows="clean"),
        Case("check --store {store}", shows="clean"),
        Case("check --store {broken}", 1, "something is wrong"),
        begun("check --store {store}"),
    ),
    "metadata": row(
        Case("metadata", shows="copy"),
        "it only shows its help",
        Case("metadata move", 2, "No such command 'move'"),
        begun("metadata"),
    ),
    "metadata copy": row(
        "tests/integration/test_metadata_copy.py repeats it, with a PostgreSQL",
        "tests/integration/test_metadata_copy.py runs it, with a PostgreSQL",
        Case("metadata copy --to sqlite:///elsewhere.sqlite --store {store}", 2, "is no place for a copy"),
        begun("metadata copy --to postgresql://user@host/database --store {store}"),
    ),
    "completion": row(
        "it always has something to print",
        Case("completion bash", shows="_SILTSTONE_COMPLETE"),
        Case("completion tcsh", 2, "tcsh"),
        begun("completion bash"),
    ),
}  # fmt: skip
