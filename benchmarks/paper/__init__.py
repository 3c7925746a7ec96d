"""Ways to take a snapshot, on the same job: those of other systems, and ours.

They are for measuring only: no job of a user can ask for them.
"""
