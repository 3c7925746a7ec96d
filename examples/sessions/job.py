"""Clicks of visitors cut into sessions: half an hour without a click ends one.

A session is emitted when the next click of the visitor shows that it is over. Those that are still
open are in the state, where a query finds them.
"""

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import mainstay as ms

DATA = Path(__file__).parent / "data" / "clicks.json"
CLICK = "visitor string, at timestamp, page string"
SESSION = "visitor string, began timestamp, seconds long, clicks long, bought boolean"
GAP = timedelta(minutes=30)


class Sessions(ms.KeyedProcess):
    open_session = ms.ValueState(
        "struct<began:timestamp,last:timestamp,clicks:long,bought:boolean>"
    )

    def process(self, row, ctx):
        now = self.open_session.get()
        if now is not None and row.at - now.last > GAP:
            yield ctx.key, now.began, (now.last - now.began).seconds, now.clicks, now.bought
            now = None
        began, clicks, bought = (now.began, now.clicks, now.bought) if now else (row.at, 0, False)
        is_purchase = row.page == "/checkout"
        self.open_session.update((began, row.at, clicks + 1, bought or is_purchase))


def build(env, clicks=DATA, out=None):
    (
        env.source(ms.connectors.Files(clicks, schema=CLICK), uid="clicks")
        .key_by("visitor")
        .process(Sessions(), SESSION, uid="sessions")
        .sink(out or ms.connectors.Memory(), uid="out")
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder, every="1s"))
        out = ms.connectors.Memory()
        build(env, out=out)
        env.start("sessions").wait(progress=False)
        print(len(out.rows()), "sessions are over,", sum(row[4] for row in out.rows()), "bought")
        still = ms.connect(folder).query("sessions.open_session").rows()
        clicks = max(row["open_session"]["clicks"] for row in still)
        print(len(still), "are open, the longest with", clicks, "clicks")
