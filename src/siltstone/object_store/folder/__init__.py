"""The adapter for a local folder: an object is a file whose path is its key.

``store`` is the adapter, ``files`` maps keys to paths, walks them in order, writes durably and translates OSErrors,
``multipart`` holds the uploads.
"""
