"""Copies: objects that are in fewer buckets than replication wants are copied into further ones, and copies that a
listing of a bucket shows to be missing count no more.

``planning`` (which objects lack copies, and where these go; pure), ``listing`` (a bucket compared with the image),
``carrying_out`` (a wave of copies: one run of tasks, a command for each copy), ``kind`` (plans and carries out).
"""
