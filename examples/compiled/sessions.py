"""Clicks cut into sessions in the order in which they come, as machine code.

A session is over when the next click of its user comes more than half an hour later: that emits
it. Where sessions are to end by event time, also those of users who
never come back, there are session windows. ``python examples/compiled/sessions.py`` needs
``mainstay[compiled]``.
"""

from datetime import datetime, timedelta
from tempfile import TemporaryDirectory

import mainstay as ms

CLICK = "user long, at timestamp_ntz, price long"
SESSION = "user long, began timestamp_ntz, seconds double, clicks long, spent long"
GAP = timedelta(minutes=30)


class Sessions(ms.KeyedProcess, compiled=True):
    open_since = ms.ValueState("timestamp_ntz")
    last = ms.ValueState("timestamp_ntz")
    clicks = ms.ReducingState("long", lambda a, b: a + b)
    spent = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row, ctx):
        last = self.last.get()
        if last is not None and row.at - last > GAP:
            began = self.open_since.get()
            lasted = (last - began).total_seconds()
            yield ctx.key, began, lasted, self.clicks.get(), self.spent.get()
            self.open_since.clear()
            self.clicks.clear()
            self.spent.clear()
        if self.open_since.get() is None:
            self.open_since.update(row.at)
        self.last.update(row.at)
        self.clicks.add(1)
        self.spent.add(row.price or 0)


def clicks():
    """Three users who click every few minutes, go away for an hour, and come back."""
    start = datetime(2026, 3, 2, 9)
    rows = []
    for hour in range(0, 6, 2):
        for n in range(4):
            at = start + timedelta(hours=hour, minutes=5 * n)
            rows += [(user, at + timedelta(seconds=user), n * user or None) for user in range(3)]
    return rows


def build(env, rows=None, out=None):
    source = env.source(ms.connectors.Rows(CLICK, rows or clicks()), uid="clicks")
    sessions = source.key_by("user").process(Sessions(), SESSION, uid="sessions")
    sessions.sink(out or ms.connectors.Memory(), uid="out")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder, every="1s"))
        out = ms.connectors.Memory()
        build(env, out=out)
        env.start("sessions").wait(progress=False)
        for user, began, seconds, count, spent in sorted(out.rows()):
            print(f"user {user}: {began:%H:%M} {count} clicks in {seconds:.0f} s, spent {spent}")
