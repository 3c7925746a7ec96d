"""``mainstay run`` and ``mainstay init``: programs of jobs, from the outside."""
