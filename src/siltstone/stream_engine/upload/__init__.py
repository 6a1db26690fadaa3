"""Uploads: a sealed cache block becomes committed objects. ``upload_plan`` decides and encodes the objects of a block
(pure), ``pipeline`` prepares, uploads and commits them and then has the WAL trimmed."""
