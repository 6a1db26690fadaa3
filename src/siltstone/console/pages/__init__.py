"""The pages: a module for each subject, and the table of all of them. A path that is not in it is not there."""

from siltstone.console.application import PageRoute
from siltstone.console.pages import (
    cost,
    groups,
    maintenance,
    messages,
    objects,
    overview,
    sql,
    tables,
    topics,
)

PAGES = (
    PageRoute("/", overview.overview),
    PageRoute("/overview/live", overview.overview_live),
    PageRoute("/topics", topics.topics),
    PageRoute("/topics/{topic}", topics.topic),
    PageRoute("/topics/{topic}/groups", groups.groups_of_topic),
    PageRoute("/topics/{topic}/messages", messages.messages),
    PageRoute("/topics/{topic}/messages/rows", messages.rows),
    PageRoute("/topics/{topic}/messages/download", messages.download),
    PageRoute("/topics/{topic}/partitions/{partition}", topics.partition),
    PageRoute("/sql", sql.sql),
    PageRoute("/sql/plan", sql.plan),
    PageRoute("/sql/rows", sql.rows),
    PageRoute("/sql/download", sql.download),
    PageRoute("/groups", groups.groups),
    PageRoute("/groups/{group:path}", groups.group),
    PageRoute("/objects", objects.objects, of_cluster=True),
    PageRoute("/objects/{object}", objects.one_object, of_cluster=True),
    PageRoute("/maintenance", maintenance.maintenance, of_cluster=True),
    PageRoute("/maintenance/jobs", maintenance.jobs, of_cluster=True),
    PageRoute("/maintenance/plan", maintenance.plan, of_cluster=True),
    PageRoute("/maintenance/run", maintenance.run, is_change=True, of_cluster=True),
    PageRoute("/maintenance/cancel", maintenance.cancel, is_change=True, of_cluster=True),
    PageRoute("/tables", tables.tables),
    PageRoute("/tables/{topic}", tables.one_table),
    PageRoute("/cost", cost.cost, of_cluster=True),
    PageRoute("/cluster", overview.cluster, of_cluster=True),
)
