"""Each function gives what it gives as ordinary Python, whatever crashes."""

from datetime import datetime, timedelta
from random import Random

import pytest

import mainstay as ms
from examples.compiled import anomalies, fraud, sessions
from mainstay.errors import MainstayError
from mainstay.testing import rows, run

START = datetime(2026, 3, 2)


def payments(random):
    for _ in range(400):
        at = START + timedelta(minutes=random.randrange(3000))
        amount = random.choice([random.random() * 100, 1e308, -1.0])
        yield random.randrange(12), at, amount, random.choice(["DE", "BR", None])


def readings(random):
    for _ in range(600):
        yield random.randrange(6), random.choice([random.gauss(40, 1), 80.0, None])


def clicks(random):
    at = START
    for _ in range(400):
        at += timedelta(minutes=random.choice([1, 2, 40]))
        yield random.randrange(5), at, random.choice([3, None, 2**62])


CASES = {
    "fraud": (fraud.Scores, fraud.PAYMENT, "card", fraud.SCORED, payments),
    "anomalies": (anomalies.Anomalies, anomalies.READING, "sensor", anomalies.ANOMALY, readings),
    "sessions": (sessions.Sessions, sessions.CLICK, "user", sessions.SESSION, clicks),
}


def outcome(function, schema, key, out, values, **how):
    """What a function emits, or the error that it ends with."""

    def build(env):
        source = env.source(rows(schema, values), uid="in")
        emitted = source.key_by(key).process(function, out, uid="function")
        emitted.sink(ms.connectors.Memory(), uid="out")

    try:
        return sorted(map(repr, run(build, **how).output("out")))
    except MainstayError as error:
        return str(error).splitlines()[0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CASES)
def test_a_compiled_example_gives_what_its_plain_form_gives(name, seed):
    compiled, schema, key, out, made = CASES[name]
    plain = type("Plain", (compiled,), {}, compiled=False)
    values = list(made(Random(seed)))
    # One subtask: of several that fail, any may be the first.
    expected = outcome(plain(), schema, key, out, values, parallelism=1)
    assert outcome(compiled(), schema, key, out, values, parallelism=1) == expected
    crashed = outcome(compiled(), schema, key, out, values, seed=seed, crashes=2, rescales=[3])
    assert crashed == expected or isinstance(expected, str)
