"""The queries of Nexmark as programs of Mainstay, as a user would write them.

Each is a function of the environment and the inputs that returns the stream of its results. To add
one: write ``def qN(env, inputs)`` in the file of its concept, or in a new one, and name it in
``registry.BUILDERS``. The tests and the benchmark take it from there.
"""
