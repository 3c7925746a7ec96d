"""Alerts for cards with three declined payments in a row, from CSV files to Parquet."""

from pathlib import Path
from tempfile import TemporaryDirectory

import mainstay as ms

PAYMENT = "card string, amount long, is_declined boolean"
ALERT = "card string, amount long"
TOO_MANY = 3


class Declines(ms.KeyedProcess):
    in_a_row = ms.ListState("long")

    def process(self, row, ctx):
        if not row.is_declined:
            self.in_a_row.clear()
            return
        self.in_a_row.add(row.amount)
        amounts = self.in_a_row.get()
        if len(amounts) == TOO_MANY:
            self.in_a_row.clear()
            yield ctx.key, sum(amounts)


def build(env, folder="."):
    payments = ms.connectors.Files(f"{folder}/payments/*.csv", schema=PAYMENT)
    (
        env.source(payments, uid="payments")
        .key_by("card")
        .process(Declines(), ALERT, uid="declines")
        .sink(ms.connectors.ParquetSink(f"{folder}/alerts"), uid="alerts")
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        (Path(folder) / "payments").mkdir()
        lines = ["card,amount,is_declined", "a,10,true", "a,20,true", "b,5,false", "a,30,true"]
        (Path(folder) / "payments" / "monday.csv").write_text("\n".join(lines))
        env = ms.Environment(
            spark="embedded", snapshots=ms.Snapshots(f"{folder}/snapshots", every="1s")
        )
        build(env, folder)
        print(env.start("alerts").wait(progress=False))
        print(ms.connectors.read_committed(f"{folder}/alerts").to_pylist())
