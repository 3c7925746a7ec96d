"""Three readings stand out, whatever crashes; and the running figures are the usual ones."""

import csv
from statistics import mean, stdev

import pytest

from examples.sensors.job import DATA, READING, build
from mainstay.testing import rows, run


def readings():
    with DATA.open() as file:
        return [(row["sensor"], float(row["celsius"])) for row in csv.DictReader(file)]


@pytest.mark.parametrize("seed", range(5))
def test_the_readings_that_stand_out_are_found_whatever_crashes(seed):
    result = run(build, seed=seed, crashes=2, rescales=[3])
    assert sorted(row[0] for row in result.output("out")) == ["pump-3", "pump-6", "pump-7"]
    assert result.state("anomalies", "found") == {"pump-3": 1, "pump-6": 1, "pump-7": 1}


def test_the_running_figures_are_those_of_all_readings():
    usual = run(build).state("anomalies", "usual")["pump-1"]
    values = [celsius for sensor, celsius in readings() if sensor == "pump-1"]
    assert usual.n == len(values)
    assert usual.mean == pytest.approx(mean(values))
    assert (usual.squares / (usual.n - 1)) ** 0.5 == pytest.approx(stdev(values))


def test_nothing_is_told_before_there_are_enough_readings():
    wild = [("pump", None, float(100 * (n % 2))) for n in range(20)]
    result = run(build, {"readings": rows(READING, wild)})
    assert result.output("out") == []
