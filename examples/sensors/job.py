"""Readings of pumps, and those that do not fit what the pump has shown so far.

For each sensor the mean and the spread are kept as they grow (Welford's method: three numbers, and
no history). A reading far outside is told, and does not change them.
"""

from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import mainstay as ms

DATA = Path(__file__).parent / "data" / "readings.csv"
READING = "sensor string, at timestamp, celsius double"
ANOMALY = "sensor string, at timestamp, celsius double, usual double, deviations double"
ENOUGH = 20
FAR = 6.0


class Anomalies(ms.KeyedProcess):
    usual = ms.ValueState("struct<n:long,mean:double,squares:double>")
    found = ms.ReducingState("long", lambda a, b: a + b)

    def process(self, row, ctx):
        n, mean, squares = self.usual.get() or (0, 0.0, 0.0)
        if n >= ENOUGH:
            deviations = abs(row.celsius - mean) / sqrt(squares / (n - 1))
            if deviations > FAR:
                self.found.add(1)
                yield ctx.key, row.at, row.celsius, mean, deviations
                return
        away = row.celsius - mean
        mean += away / (n + 1)
        self.usual.update((n + 1, mean, squares + away * (row.celsius - mean)))


def build(env, readings=DATA, out=None):
    source = env.source(
        ms.connectors.Files(readings, schema=READING),
        uid="readings",
        watermark=ms.Watermark("at", delay="1 min"),
    )
    (
        source.key_by("sensor")
        .process(Anomalies(), ANOMALY, uid="anomalies")
        .sink(out or ms.connectors.Memory(), uid="out")
    )


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder, every="1s"))
        out = ms.connectors.Memory()
        build(env, out=out)
        env.start("pumps").wait(progress=False)
        for sensor, at, celsius, usual, deviations in sorted(out.rows(), key=lambda row: row[1]):
            print(
                f"{at:%H:%M} {sensor}: {celsius:.1f} °C, usually {usual:.1f} ({deviations:.0f} σ)"
            )
