"""A score for each payment of a card, by what the card has done so far, as machine code.

``python examples/compiled/fraud.py`` needs ``mainstay[compiled]``.
"""

from datetime import datetime, timedelta
from tempfile import TemporaryDirectory

import mainstay as ms

PAYMENT = "card long, at timestamp_ntz, amount double, country string"
SCORED = "card long, at timestamp_ntz, amount double, score double"
LARGE = 5.0
SOON = timedelta(minutes=10)


class Scores(ms.KeyedProcess, compiled=True):
    usual = ms.ValueState("struct<n:long,mean:double>")
    last_at = ms.ValueState("timestamp_ntz")
    last_country = ms.ValueState("string")

    def __init__(self, least=1.0):
        self.least = least

    def process(self, row, ctx):
        n, mean = self.usual.get() or (0, 0.0)
        score = unusual(row.amount, n, mean)
        last_at, last_country = self.last_at.get(), self.last_country.get()
        if last_at is not None and row.at - last_at < SOON:
            score += 0.5
            if row.country != last_country:
                score += 2.0
        if row.at.hour < 6:
            score += 0.25
        self.usual.update((n + 1, mean + (row.amount - mean) / (n + 1)))
        self.last_at.update(row.at)
        self.last_country.update(row.country)
        if score >= self.least:
            yield ctx.key, row.at, row.amount, score


def unusual(amount, n, mean):
    """How far a payment is above what the card usually pays, once that is known."""
    if n < 3 or mean <= 0.0:
        return 0.0
    return min(amount / mean / LARGE, 3.0)


def payments():
    """A few cards; card 7 is used in two countries within minutes, and for much."""
    start = datetime(2026, 3, 2, 9)
    rows = [
        (card, start + timedelta(hours=n, minutes=card), 10.0 + card + n % 4, "DE")
        for n in range(8)
        for card in range(10)
    ]
    abroad = start + timedelta(hours=7, minutes=11)
    return [*rows, (7, abroad, 480.0, "BR"), (7, abroad + timedelta(minutes=2), 510.0, "DE")]


def build(env, rows=None, out=None):
    source = env.source(ms.connectors.Rows(PAYMENT, rows or payments()), uid="payments")
    scored = source.key_by("card").process(Scores(), SCORED, uid="scores")
    scored.sink(out or ms.connectors.Memory(), uid="out")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder, every="1s"))
        out = ms.connectors.Memory()
        build(env, out=out)
        env.start("scores").wait(progress=False)
        for card, at, amount, score in sorted(out.rows(), key=lambda row: row[1]):
            print(f"{at:%H:%M} card {card}: {amount:.2f} scores {score:.2f}")
