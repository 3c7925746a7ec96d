"""Events that are delivered more than once, let through once.

An id is remembered for an hour after it was first seen (``within``), and forgotten by itself, so
that the state does not grow for ever.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import mainstay as ms

DATA = Path(__file__).parent / "data" / "events.json"
EVENT = "id string, at timestamp, cents long"


def build(env, events=DATA, out=None):
    (
        env.source(ms.connectors.Files(events, schema=EVENT), uid="events")
        .key_by("id")
        .deduplicate(within="1 hour", uid="once")
        .sink(out or ms.connectors.Memory(), uid="out")
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        out = ms.connectors.Memory()
        env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder, every="1s"))
        build(env, out=out)
        env.start("once").wait(progress=False)
        events = len(DATA.read_text().splitlines())
        print(f"{events} events came, {len(out.rows())} of them for the first time")
