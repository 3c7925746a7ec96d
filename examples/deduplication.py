"""Events that are delivered more than once, let through once.

A key is remembered for an hour after it was last seen (``ttl``), and forgotten by itself, so that
the state does not grow for ever.
"""

import mainstay as ms

EVENT = "id string, amount long"


class Once(ms.KeyedProcess):
    is_seen = ms.ValueState("boolean", ttl="1 hour")

    def process(self, row, ctx):
        if self.is_seen.get():
            return None
        self.is_seen.update(True)
        return row


def build(env, events, out):
    (
        env.source(events, uid="events")
        .key_by("id")
        .process(Once(), EVENT, uid="once")
        .sink(out, uid="out")
    )


EVENTS = [("a", 5), ("b", 3), ("a", 5), ("c", 1), ("b", 3), ("a", 5)]

if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        out = ms.connectors.Memory()
        env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder, every="1s"))
        build(env, ms.connectors.Rows(EVENT, EVENTS), out)
        print(env.start("once").wait(progress=False), sorted(out.rows()))
