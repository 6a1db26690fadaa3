"""Kafka's StandardAuthorizer in a JVM, without a broker: bindings go in, and questions are asked of it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from oracles.java_artifacts import APACHE_KAFKA, fetch_jars
from oracles.java_machine import JavaMachine, running_java_machine

LISTENER = "PLAINTEXT"


class JavaAuthorizer:
    """Types, patterns, operations and permissions are Kafka's names: TOPIC, LITERAL, READ, ALLOW."""

    def __init__(self, machine: JavaMachine, super_users: str = "") -> None:
        self._machine = machine
        self._kafka = machine.classes.org.apache.kafka
        self._super_users = super_users
        self._enums: dict[tuple[Any, ...], Any] = {}
        self._contexts: dict[tuple[str, str], Any] = {}
        interface = machine.classes.java.lang.Class.forName(self._kafka.server.authorizer.Authorizer._fqn)
        self._of_any = next(
            each for each in interface.getMethods() if each.getName() == "authorizeByResourceType"
        )
        self._authorizer: Any = None
        self.load(())

    def load(self, bindings: Iterable[tuple[str, str, str, str, str, str, str]]) -> None:
        """Makes an authorizer with these bindings alone. A binding is what StandardAcl is made of: the type and name of
        a resource, the type of the pattern, principal, host, operation, permission."""
        self._authorizer = self._kafka.metadata.authorizer.StandardAuthorizer()
        self._authorizer.configure(self._machine.hash_map({"super.users": self._super_users}))
        metrics = self._kafka.common.metrics
        self._authorizer.withPluginMetrics(
            metrics.internals.PluginMetricsImpl(
                metrics.Metrics(), self._machine.classes.java.util.LinkedHashMap()
            )
        )
        acls = self._machine.classes.java.util.HashMap()
        for number, (kind, name, pattern, principal, host, operation, permission) in enumerate(bindings, 1):
            made = self._kafka.metadata.authorizer.StandardAcl(
                self._named("resource.ResourceType", kind),
                name,
                self._named("resource.PatternType", pattern),
                principal,
                host,
                self._named("acl.AclOperation", operation),
                self._named("acl.AclPermissionType", permission),
            )
            acls.put(self._kafka.common.Uuid(0, number), made)
        self._authorizer.loadSnapshot(acls)
        self._authorizer.completeInitialLoad()

    def allows(self, user: str, host: str, operation: str, kind: str, name: str) -> bool:
        literal = self._named("resource.PatternType", "LITERAL")
        resource = self._kafka.common.resource.ResourcePattern(
            self._named("resource.ResourceType", kind), name, literal
        )
        action = self._kafka.server.authorizer.Action(
            self._named("acl.AclOperation", operation), resource, 1, False, False
        )
        (result,) = self._authorizer.authorize(self._context(user, host), [action])
        return bool(result.toString() == "ALLOWED")

    def allows_any(self, user: str, host: str, operation: str, kind: str) -> bool:
        """Returns whether the operation is allowed on some resource of the type, whatever its name. The method has
        a default in its interface, where py4j does not look."""
        arguments = (
            self._context(user, host),
            self._named("acl.AclOperation", operation),
            self._named("resource.ResourceType", kind),
        )
        objects = self._machine.array(self._machine.classes.java.lang.Object, arguments)
        result = self._of_any.invoke(self._authorizer, objects)
        return bool(result.toString() == "ALLOWED")

    def _named(self, enum: str, name: str) -> Any:
        if (enum, name) not in self._enums:
            package, kind = enum.split(".")
            self._enums[enum, name] = getattr(getattr(self._kafka.common, package), kind).valueOf(name)
        return self._enums[enum, name]

    def _context(self, user: str, host: str) -> Any:
        """A request of the user from this address: the class is Kafka's own, and only its principal and address are
        read."""
        if (user, host) not in self._contexts:
            common = self._kafka.common
            header = common.requests.RequestHeader(
                common.protocol.ApiKeys.API_VERSIONS,
                self._machine.classes.java.lang.Short.valueOf("0"),
                "oracle",
                1,
            )
            self._contexts[user, host] = common.requests.RequestContext(
                header,
                "1",
                self._machine.classes.java.net.InetAddress.getByName(host),
                common.security.auth.KafkaPrincipal("User", user),
                common.network.ListenerName(LISTENER),
                common.security.auth.SecurityProtocol.PLAINTEXT,
                common.network.ClientInformation.EMPTY,
                False,
            )
        return self._contexts[user, host]


@contextmanager
def running_java_authorizer(super_users: str = "") -> Iterator[JavaAuthorizer]:
    """Raises JavaArtifactsUnavailable."""
    with running_java_machine(fetch_jars(APACHE_KAFKA)) as machine:
        yield JavaAuthorizer(machine, super_users)
