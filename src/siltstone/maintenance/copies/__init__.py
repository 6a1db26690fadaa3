"""Copies objects that are in fewer buckets than replication wants into further buckets, and takes copies out of the
metadata that a listing of their bucket shows to be missing.

``planning`` (which objects lack copies, and where these go; pure), ``listing`` (a bucket compared with the image),
``carrying_out`` (a wave of copies: one run of tasks, a command for each copy), ``kind`` (plans and carries out).
"""
