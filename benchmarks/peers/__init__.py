"""One module per peer, each run by its own interpreter as ``python -m benchmarks.peers.PEER``.

They import nothing of Mainstay: a peer's environment holds the peer, numpy and pyarrow.
"""
