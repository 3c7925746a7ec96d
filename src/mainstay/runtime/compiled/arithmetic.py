"""What compiled functions compute with: Python's own results, or a trap.

This text is run as it stands by the interpreter, and is part of the file that is compiled to
machine code, where whole numbers have 64 bits: so nothing here may go beyond them before it is
checked. ``add``, ``sub`` and ``mul`` are others there, which ask the processor for an overflow.

A trap is no error: the function itself is called for that row, and gives the value or the error.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

LOWEST = -(1 << 63)
HIGHEST = (1 << 63) - 1
EXACT = 1 << 53
"""Whole numbers up to here are doubles without a loss."""
SINGLE_HIGHEST = 3.4028235677973366e38
"""From here on a number is rounded beyond the largest of single precision."""
NAN = math.nan
DAY_US = 86_400_000_000
FIRST_US = -62_135_596_800_000_000
LAST_US = 253_402_300_799_999_999
"""The first and the last microsecond that a datetime can hold."""
FIRST_DAY = -719_162
LAST_DAY = 2_932_896
MOST_DELTA_DAYS = 999_999_999


class Trap(ArithmeticError):  # noqa: N818 (it is not an error)
    """The function itself has to be called for this row."""


class Full(ArithmeticError):  # noqa: N818
    """There is no room for another row."""


# ---------------------------------------------------------------- what arrays hold


def int_(a: Any) -> int:
    return int(a)


def float_(a: Any) -> float:
    return float(a)


def bool_(a: Any) -> bool:
    return bool(a)


# ---------------------------------------------------------------- whole numbers


def add(a: int, b: int) -> int:
    total = a + b
    if total > HIGHEST or total < LOWEST:
        raise Trap
    return total


def sub(a: int, b: int) -> int:
    difference = a - b
    if difference > HIGHEST or difference < LOWEST:
        raise Trap
    return difference


def mul(a: int, b: int) -> int:
    product = a * b
    if product > HIGHEST or product < LOWEST:
        raise Trap
    return product


def neg(a: int) -> int:
    if a == LOWEST:
        raise Trap
    return -a


def absolute(a: int) -> int:
    if a == LOWEST:
        raise Trap
    return -a if a < 0 else a


def floordiv(a: int, b: int) -> int:
    if b == 0 or (b == -1 and a == LOWEST):
        raise Trap
    return a // b


def mod(a: int, b: int) -> int:
    if b == 0:
        raise Trap
    if b == -1:
        return 0
    return a % b


def truediv(a: int, b: int) -> float:
    if b == 0 or a > EXACT or a < -EXACT or b > EXACT or b < -EXACT:
        raise Trap
    return float(a) / float(b)


def power(a: int, exponent: int) -> int:
    """An exponent that is not negative."""
    result = 1
    base = a
    left = exponent
    while left > 0:
        if left & 1:
            result = mul(result, base)
        left >>= 1
        if left > 0:
            base = mul(base, base)
    return result


def shl(a: int, b: int) -> int:
    if b < 0 or b > 62:
        raise Trap
    if a > (HIGHEST >> b) or a < (LOWEST >> b):
        raise Trap
    return a << b


def shr(a: int, b: int) -> int:
    if b < 0:
        raise Trap
    return a >> (63 if b > 63 else b)


def fit(a: int, low: int, high: int) -> int:
    """A whole number within the bounds of a narrower type."""
    if a < low or a > high:
        raise Trap
    return a


# ---------------------------------------------------------------- floats


def exact(a: int) -> float:
    """A whole number as a float that is the same number."""
    if a > EXACT or a < -EXACT:
        raise Trap
    return float(a)


def fdiv(a: float, b: float) -> float:
    if b == 0.0:
        raise Trap
    return a / b


def ffloordiv(a: float, b: float) -> float:
    if b == 0.0 or not math.isfinite(a) or not math.isfinite(b):
        raise Trap
    rest = float(np.fmod(a, b))
    quotient = (a - rest) / b
    if rest != 0.0 and (b < 0.0) != (rest < 0.0):
        quotient -= 1.0
    if quotient == 0.0:
        return math.copysign(0.0, a / b)
    whole = float(np.floor(quotient))
    if quotient - whole > 0.5:
        whole += 1.0
    return whole


def ffmod(a: float, b: float) -> float:
    if b == 0.0 or not math.isfinite(a) or not math.isfinite(b):
        raise Trap
    rest = float(np.fmod(a, b))
    if rest == 0.0:
        return math.copysign(0.0, b)
    if (b < 0.0) != (rest < 0.0):
        rest += b
    return rest


def fpower(a: float, b: float) -> float:
    if not math.isfinite(a) or not math.isfinite(b):
        raise Trap
    if (a == 0.0 and b < 0.0) or (a < 0.0 and b != float(np.floor(b))):
        raise Trap
    result: float = a**b
    if math.isinf(result):
        raise Trap
    return result


def canonical(a: float) -> float:
    """There is one NaN in state."""
    return NAN if a != a else a


def single(a: float) -> float:
    """A number in single precision, if it is within it."""
    if a != a:
        return NAN
    if math.isinf(a):
        return a
    if a >= SINGLE_HIGHEST or a <= -SINGLE_HIGHEST:
        raise Trap
    return float(np.float32(a))


def truncated(a: float) -> int:
    if not (-9.2233720368547758e18 <= a < 9.2233720368547758e18):
        raise Trap
    return int(a)


def floor(a: float) -> int:
    return truncated(float(np.floor(a)))


def ceil(a: float) -> int:
    return truncated(float(np.ceil(a)))


def rounded(a: float) -> int:
    """Half to even, as ``round`` does."""
    return truncated(float(np.rint(a)))


# ---------------------------------------------------------------- numbers of either kind


def number(value: float, is_whole: bool) -> float:
    """A number that may be whole, as a float: whole ones are exact and have no sign at zero."""
    if is_whole:
        if value > 9007199254740992.0 or value < -9007199254740992.0:
            raise Trap
        return value + 0.0
    return value


def whole(value: float, is_whole: bool) -> int:
    """The whole number that it is."""
    if not is_whole:
        raise Trap
    return int(value)


# ---------------------------------------------------------------- functions of math


def m_finite(a: float) -> float:
    if not math.isfinite(a):
        raise Trap
    return a


def m_sqrt(a: float) -> float:
    if not (a >= 0.0) or math.isinf(a):
        raise Trap
    return math.sqrt(a)


def m_exp(a: float) -> float:
    result = math.exp(m_within(a))
    if math.isinf(result):
        raise Trap
    return result


def m_within(a: float) -> float:
    """An argument of exp within which it neither overflows nor vanishes."""
    if not (-700.0 <= a <= 700.0):
        raise Trap
    return a


def m_log(a: float) -> float:
    if not (a > 0.0) or math.isinf(a):
        raise Trap
    return math.log(a)


def m_log2(a: float) -> float:
    if not (a > 0.0) or math.isinf(a):
        raise Trap
    return math.log2(a)


def m_log10(a: float) -> float:
    if not (a > 0.0) or math.isinf(a):
        raise Trap
    return math.log10(a)


def m_sin(a: float) -> float:
    return math.sin(m_finite(a))


def m_cos(a: float) -> float:
    return math.cos(m_finite(a))


def m_tan(a: float) -> float:
    return math.tan(m_finite(a))


def m_atan(a: float) -> float:
    return math.atan(m_finite(a))


def m_tanh(a: float) -> float:
    return math.tanh(m_finite(a))


def m_atan2(a: float, b: float) -> float:
    return math.atan2(m_finite(a), m_finite(b))


def m_fmod(a: float, b: float) -> float:
    if b == 0.0:
        raise Trap
    return float(np.fmod(m_finite(a), m_finite(b)))


# ---------------------------------------------------------------- time


def at(us: int) -> int:
    """A time that a datetime can hold."""
    if us < FIRST_US or us > LAST_US:
        raise Trap
    return us


def rounded_up(us: int, every_us: int) -> int:
    """The time of a timer: a whole multiple of a duration, or the last that there is."""
    over = us % every_us
    if over == 0:
        return us
    if every_us - over > LAST_US - us:
        return LAST_US
    return us + every_us - over


def day(days: int) -> int:
    if days < FIRST_DAY or days > LAST_DAY:
        raise Trap
    return days


def span(us: int) -> int:
    """A duration that a timedelta can hold."""
    days = us // DAY_US
    if days < -MOST_DELTA_DAYS or days > MOST_DELTA_DAYS:
        raise Trap
    return us


def total_seconds(us: int) -> float:
    if us > EXACT or us < -EXACT:
        raise Trap
    return float(us) / 1e6


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day since 1970, in the calendar of ``datetime``."""
    shifted = days + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    return year, month, of_year - (153 * shifted_month + 2) // 5 + 1
