"""The limits of the console, each with its reason."""

from siltstone.model.limits import HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS

CONSOLE_REFRESH_MS = 1 * SECOND_MS
"""How often a console without a node reads the metadata: a look at its head costs a fraction of a millisecond."""

CONSOLE_THREADS = 2
"""Scans, queries and plans that run at the same time. Python runs one of them at a time; the second reads from the
bucket meanwhile."""

CONSOLE_WAITING_MAX = 20
"""Pages that wait for one of the threads. Further ones are refused by 503, so that tabs which follow a topic
cannot pile up."""

CONSOLE_WATCHERS_MAX = 20
"""Pages that load a part of themselves again by themselves. Each has at most one load under way, so they never take all
the places of CONSOLE_WAITING_MAX, and a page that somebody opens finds one."""

CONSOLE_WATCHER_MS = 15 * SECOND_MS
"""How long a page counts as a watcher after a load: three loads of the overview, which is loaded most seldom."""

CONSOLE_ANSWER_SECONDS_MAX = 10.0
CONSOLE_QUERY_SECONDS_MAX = 30.0
CONSOLE_PLAN_SECONDS_MAX = 60.0
"""How long a page waits for messages, for a query, and for a plan of maintenance, which reads indexes of objects."""

CONSOLE_CLOSE_SECONDS_MAX = 2.0
"""How long the end of a console waits for what its pages read, and for what it runs, which is cancelled first. A thread
that takes longer hangs in a bucket or a database, and ends with the process."""

CONSOLE_GROUPS_MS = 5 * SECOND_MS
"""How long the positions of groups are kept: reading them from the objects takes a tenth of a second and more."""

CONSOLE_PAGE_MS_MAX = 75 * SECOND_MS
"""How long a browser may wait for a page at an admin listener, and then take for reading it: longer than a plan."""

CONSOLE_SESSION_MS = 8 * HOUR_MS
CONSOLE_IDLE_MS = 30 * MINUTE_MS
CONSOLE_SESSIONS_MAX = 1_000
"""A working day; a break; and more browsers than one link lets in."""

CONSOLE_MESSAGES_MAX = 200
"""Messages of one page. A download has CONSOLE_DOWNLOAD_MAX."""

CONSOLE_DEAD_LETTERS_MAX = 100
"""Dead letters of one page: each has a key and a value of up to CONSOLE_VALUE_BYTES_MAX."""

CONSOLE_DOWNLOAD_MAX = 100_000
CONSOLE_SEARCH_RECORDS_MAX = 50_000
CONSOLE_SEARCH_BYTES_MAX = 64 * MIB
"""Records and bytes in objects among which one page looks for messages that pass a filter: a second of work. The page
says how far it has looked, and offers to look further."""

CONSOLE_DECODED_BYTES_MAX = 128 * MIB
"""What the records of one page, or of one download, may have when they are decompressed: a batch of a few KiB may have
as much (``DECOMPRESSED_BATCH_BYTES_MAX``), and thousands of them are among CONSOLE_SEARCH_BYTES_MAX."""

CONSOLE_HEADER_BYTES = 256
"""What a header counts besides its bytes: as much it takes in Python, and a batch may have millions of empty ones."""

CONSOLE_HEADERS_MAX = 100
"""Headers that are shown of one message. A download has all of them."""

CONSOLE_VALUE_BYTES_MAX = 64 * KIB
"""What is shown of one key, value or header. The rest is counted, and a download has all of it."""

CONSOLE_CELL_CHARACTERS_MAX = 4 * KIB
"""What is shown of one cell of a query's rows: 500 rows of ten such cells are a page that a browser still draws. A
download has all of it."""

CONSOLE_FORM_BYTES_MAX = 64 * KIB
"""The largest form, such as a query."""

CONSOLE_FORM_FIELDS_MAX = 400
"""The most fields of a form: that of a topic's configurations has three for each of some seventy."""

CONSOLE_QUERY_ROWS_MAX = 500
CONSOLE_QUERY_BYTES_MAX = 1024 * MIB
"""Rows of a query that are shown, and stored bytes of the topics that a query of the console may read. ``siltstone
sql`` reads more, and Spark as much as there is."""

CONSOLE_QUERY_MEMORY_BYTES = 512 * MIB
CONSOLE_QUERY_DISK_BYTES_MAX = 4 * 1024 * MIB
CONSOLE_QUERY_PROCESS_BYTES_MAX = 1024 * MIB
"""Memory of DuckDB for one query, what it writes to a temporary folder beyond that, and all memory of the process that
runs the query: twice that of DuckDB, since it does not count everything. Two run at a time."""

CONSOLE_ANSWER_BYTES_MAX = 64 * MIB
"""The most that the rows of a query have as text: a file that a spreadsheet still opens. The page shows less."""

CONSOLE_ROWS_MAX = 500
"""Rows of one table of a page, such as topics; a filter finds the others."""

CONSOLE_PORT = 9650
"""Where ``siltstone console`` listens by default: beside 9644, the port of metrics in the documents."""
