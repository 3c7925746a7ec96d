"""``mainstay snapshots``: what a snapshot directory or a savepoint holds, for people and programs.

The figures come from ``mainstay.inspect.survey`` and its neighbours; here they are shown.
"""
