"""The write-ahead log (WAL) makes appends durable before they are answered.

Reading order: ``port`` (what the engine needs of a log), ``file_wal`` (group commit into local files),
``log_directory`` (the *log files* of one node), ``ownership`` (whether a log is the one that a starting node needs);
for a log in a bucket ``runs`` (its rules), ``bucket_log`` (its objects), ``bucket_wal`` (bulks on their way).
``opening`` chooses between the two.
"""
