"""Payments that look like fraud, by two rules over the state of a card.

A stolen card is often tried with a tiny payment before a large one. And a program that drains a
card pays more often than a person can.
"""

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import mainstay as ms

DATA = Path(__file__).parent / "data" / "payments.csv"
PAYMENT = "card string, at timestamp, amount double, merchant string"
ALERT = "card string, at timestamp, rule string, amount double, merchant string"

SMALL, LARGE = 1.00, 500.00
SOON = timedelta(minutes=1)
MOST_A_MINUTE = 5


class Suspicion(ms.KeyedProcess):
    tried_at = ms.ValueState("timestamp", ttl="1 day")
    recent = ms.ListState("timestamp", ttl="1 day")

    def process(self, row, ctx):
        for rule in (self.small_then_large(row), self.too_many(row)):
            if rule:
                yield ctx.key, row.at, rule, row.amount, row.merchant

    def small_then_large(self, row):
        tried_at = self.tried_at.get()
        self.tried_at.update(row.at if row.amount < SMALL else None)
        if tried_at and row.amount > LARGE and row.at - tried_at <= SOON:
            return "small then large"
        return None

    def too_many(self, row):
        recent = [at for at in self.recent.get() if row.at - at < SOON] + [row.at]
        self.recent.update(recent)
        return "too many" if len(recent) > MOST_A_MINUTE else None


def build(env, payments=DATA, out=None):
    (
        env.source(ms.connectors.Files(payments, schema=PAYMENT), uid="payments")
        .key_by("card")
        .process(Suspicion(), ALERT, uid="suspicion")
        .sink(out or ms.connectors.Memory(), uid="alerts")
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder, every="1s"))
        out = ms.connectors.Memory()
        build(env, out=out)
        env.start("fraud").wait(progress=False)
        for card, at, rule, amount, merchant in sorted(out.rows(), key=lambda alert: alert[1]):
            print(f"{at:%H:%M:%S} {card} {rule}: {amount:.2f} at {merchant}")
