"""Iceberg's own REST catalog, with which Apache Iceberg tests its REST client, behind Jetty in a Java machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oracles.java_artifacts import ICEBERG_REST, PYSPARK_JARS, fetch_jars
from oracles.java_machine import running_java_machine


@contextmanager
def running_rest_catalog(folder: Path) -> Iterator[str]:
    """Yields the URL of the catalog. Its list of tables is a database in ``folder``, and its tables are files.
    Raises JavaArtifactsUnavailable."""
    hadoop = tuple(PYSPARK_JARS.glob("hadoop-client-*.jar")) + tuple(
        PYSPARK_JARS.glob("commons-logging-*.jar")
    )
    with running_java_machine(fetch_jars(ICEBERG_REST) + hadoop) as machine:
        java, iceberg, jetty = (
            machine.classes.java,
            machine.classes.org.apache.iceberg,
            machine.classes.org.eclipse.jetty,
        )
        catalog = iceberg.jdbc.JdbcCatalog()
        catalog.setConf(machine.classes.org.apache.hadoop.conf.Configuration())
        catalog.initialize(
            "rest",
            {
                "uri": f"jdbc:sqlite:{folder / 'catalog.sqlite'}",
                "warehouse": folder.as_uri(),
                "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
            },
        )
        servlet = iceberg.rest.RESTCatalogServlet(iceberg.rest.RESTCatalogAdapter(catalog))
        handler = jetty.ee10.servlet.ServletContextHandler()
        handler.addServlet(jetty.ee10.servlet.ServletHolder(servlet), "/*")
        server = jetty.server.Server(java.net.InetSocketAddress("127.0.0.1", 0))
        server.setHandler(handler)
        server.start()
        try:
            yield f"http://127.0.0.1:{server.getConnectors()[0].getLocalPort()}"
        finally:
            server.stop()
