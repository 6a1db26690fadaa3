"""The rows of commands that are clients of a broker: what each does in every state."""

from support.terminal.cases import INTERRUPTED, NO_BROKER, Case, State, begun, row

BROKER_ROWS: dict[str, dict[State, Case | str]] = {
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
    "transactions": row(
        Case("transactions -b {idle}", shows="There are no transactional ids"),
        "a transaction is open only as long as a producer lives: tests/integration/test_transactions_command.py",
        Case("transactions -b {closed}", 1, NO_BROKER),
        begun("transactions -b {at}"),
    ),
    "transactions list": row(
        Case("transactions list -b {idle}", shows="There are no transactional ids"),
        "an open transaction has a test of its own: tests/integration/test_transactions_command.py",
        Case("transactions list -b {closed}", 1, NO_BROKER),
        begun("transactions list -b {at}"),
    ),
    "transactions describe": row(
        Case("transactions describe billing -b {idle}", 2, "there is no transactional id billing"),
        "an open transaction has a test of its own: tests/integration/test_transactions_command.py",
        Case("transactions describe billing -b {closed}", 1, NO_BROKER),
        begun("transactions describe billing -b {at}"),
    ),
    "transactions abort": row(
        Case("transactions abort billing --yes -b {idle}", 2, "there is no transactional id billing"),
        "an open transaction has a test of its own: tests/integration/test_transactions_command.py",
        Case("transactions abort billing --yes -b {closed}", 1, NO_BROKER),
        begun("transactions abort billing --yes -b {at}"),
    ),
    "transactions find-hanging": row(
        Case("transactions find-hanging -b {at}", shows="No transaction hangs in"),
        "no transaction of ours hangs: tests/integration/test_transactions_command.py",
        Case("transactions find-hanging -b {closed}", 1, NO_BROKER),
        begun("transactions find-hanging -b {at}"),
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
        Case("consume -b {at} full -g g --protocol share --until-end", 2, "use -n N"),
        Case(
            "consume -b {at} full -g new-{group} --from-beginning", INTERRUPTED, "value-2", ctrl_c="value-2"
        ),
    ),
    "table": row(
        Case("table -b {at} new-{topic} --key x", 2, "there is no topic"),
        Case("table -b {at} full", shows="value-2"),
        Case("table -b {at} full --key nosuch", 1, "not found"),
        begun("table -b {at} full"),
    ),
    "clients": row(
        "a list needs a broker with an admin listener: tests/integration/test_clients_command.py",
        "a client needs a broker with an admin listener, as above",
        Case("clients --admin {closed}", 1, "no admin listener answers at 127.0.0.1"),
        begun("clients --admin {closed}"),
    ),
}
