"""Readings that are far from an exponentially weighted mean of their sensor, as machine code.

``python examples/compiled/anomalies.py`` needs ``mainstay[compiled]``.
"""

import math
from tempfile import TemporaryDirectory

import mainstay as ms

READING = "sensor long, celsius double"
ANOMALY = "sensor long, celsius double, usual double, deviations double"


class Anomalies(ms.KeyedProcess, compiled=True):
    """The mean and the variance move by a tenth of the way with each reading."""

    mean = ms.ValueState("double")
    variance = ms.ValueState("double")
    readings = ms.ReducingState("long", lambda a, b: a + b)

    def __init__(self, weight=0.1, far=6.0, enough=20):
        self.weight = weight
        self.far = far
        self.enough = enough

    def process(self, row, ctx):
        if row.celsius is None:
            return
        mean = self.mean.get()
        self.readings.add(1)
        if mean is None:
            self.mean.update(row.celsius)
            self.variance.update(0.0)
            return
        away = row.celsius - mean
        variance = self.variance.get()
        if self.readings.get() > self.enough and variance > 0.0:
            deviations = abs(away) / math.sqrt(variance)
            if deviations > self.far:
                yield ctx.key, row.celsius, mean, deviations
                return
        step = self.weight * away
        self.mean.update(mean + step)
        self.variance.update((1.0 - self.weight) * (variance + away * step))


def readings():
    """Pumps at 40 degrees and something; two readings stand out, and one is missing."""
    rows = [
        (sensor, 40.0 + sensor + math.sin(1.7 * n + sensor))
        for n in range(200)
        for sensor in range(5)
    ]
    return [*rows, (3, 71.5), (4, None), (0, 12.25), (3, 43.5)]


def build(env, rows=None, out=None):
    source = env.source(ms.connectors.Rows(READING, rows or readings()), uid="readings")
    found = source.key_by("sensor").process(Anomalies(), ANOMALY, uid="anomalies")
    found.sink(out or ms.connectors.Memory(), uid="out")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        env = ms.Environment(spark="embedded", snapshots=ms.Snapshots(folder, every="1s"))
        out = ms.connectors.Memory()
        build(env, out=out)
        env.start("anomalies").wait(progress=False)
        for sensor, celsius, usual, deviations in sorted(out.rows()):
            print(f"sensor {sensor}: {celsius:.1f}, usually {usual:.1f} ({deviations:.0f} sigma)")
