"""Queries of single bids: all of them, some of them, and with other columns."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

import mainstay as ms
from benchmarks.nexmark.queries.inputs import Inputs

DOLLARS_TO_EUROS = Decimal("0.908")
# A long has 19 digits at most, so the product is exact, and a decimal(23,3).
EUROS = ms.col("price").cast("decimal(19,0)") * DOLLARS_TO_EUROS


def q0(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    return inputs["bid"]


def q1(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    return inputs["bid"].with_columns(price=EUROS, uid="in-euros")


def q2(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    return inputs["bid"].filter(ms.col("auction") % 123 == 0)


def q14(env: ms.Environment, inputs: Inputs) -> ms.Stream:
    return (
        inputs["bid"]
        .with_columns(price=EUROS, uid="in-euros")
        .filter((ms.col("price") > 1_000_000) & (ms.col("price") < 50_000_000))
        .with_columns(
            time_of_day=time_of_day(pc.hour(pc.field("at"))),
            c_count=pc.count_substring(pc.field("extra"), "c").cast(pa.int64()),
        )
        .select("auction", "bidder", "price", "time_of_day", "at", "extra", "c_count")
    )


def time_of_day(hours: pc.Expression) -> pc.Expression:
    is_day = (hours >= 8) & (hours <= 18)
    is_night = (hours <= 6) | (hours >= 20)
    rest = pc.if_else(is_night, pc.scalar("night"), pc.scalar("other"))
    return pc.if_else(is_day, pc.scalar("day"), rest)
