"""A job over HTTP: REST, health, metrics and a page. Needs ``mainstay[ui]``.

Nothing of the package imports it until a job is started with ``Environment(ui=...)``.
"""
