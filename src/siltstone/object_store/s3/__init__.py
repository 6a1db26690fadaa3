"""The adapter for S3 and compatible stores. Only ``object_store.opening`` imports it, as botocore is optional.

``store`` is the adapter, ``location`` parses ``s3://`` URLs, ``errors`` translates botocore's errors, ``multipart``
holds the uploads, ``gather_file`` sends a list of buffers without joining them.
"""
