"""The console: a store as pages that a person looks at.

A *visitor* asks for a *page*. The page reads a *view* of the store: values that a pure function makes of the image
(``views``), or of records that a scan has read (``messages``, ``queries``). A template draws the view.

``application`` has the table of all pages, the right that each asks for, and what every answer carries. ``visitors``
says who is asking: the holder of a one-time token (``siltstone console``), or a user of the broker (``server.admin``).
``store`` is what pages read from: an opened store that follows its metadata, or the parts of a running node.

Reading order: ``store``, ``visitors``, ``application``, ``views``, ``pages``. docs/decisions/0064-console.md says why
it is made of these libraries.
"""
