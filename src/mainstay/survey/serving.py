"""``mainstay ui``: a job over HTTP, by its snapshot directory alone."""

from __future__ import annotations

import sys

from mainstay.api.ui import Ui, opened
from mainstay.inspect.reading import Origin


def run_ui(path: str, host: str, port: int) -> None:
    """Serve a directory until Ctrl-C."""
    Origin.open(path)  # says what is wrong with it
    server = opened(Ui(host=host, port=port))
    from mainstay.serve.stored import StoredView

    server.show(StoredView(path))
    print(server.url, flush=True)
    print("Ctrl-C ends it.", file=sys.stderr, flush=True)
    try:
        server.wait()
    except KeyboardInterrupt:
        server.close()
