"""A picture of bars as SVG: readable on a light page, on a dark one and on a phone.

It brings its own background and asks for the reader's colours, so it needs nothing of the page it
is on. Every bar has its name above it and its figures beside the name, so the picture is narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

WIDTH = 480
MARGIN = 14
ROW, LINE, HEAD, FOOT = 42, 18, 28, 26
TITLE, NAME, SMALL = 14, 13, 11
TITLE_LETTERS = 54
"""What fits into a line of the title, in a bold font that is wide."""

STYLE = """
  svg { color-scheme: light dark; font-family: system-ui, sans-serif; }
  .page { fill: #ffffff; } .text { fill: #1f2430; } .faint { fill: #5c6470; }
  .rule { stroke: #d5d9e0; } .range { stroke: #1f2430; }
  .ours { fill: #c0392b; } .peer { fill: #4a6fa5; } .bound { fill: #9aa3b0; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #1e2129; } .text { fill: #e6e9f0; } .faint { fill: #a4adbb; }
    .rule { stroke: #3a404d; } .range { stroke: #e6e9f0; }
    .ours { fill: #ef7a6c; } .peer { fill: #7fa6dd; } .bound { fill: #7b8494; }
  }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A name with a value, the smallest and the largest run, and what is written at the right."""

    name: str
    value: float
    low: float
    high: float
    said: str
    kind: str
    """``ours``, ``peer`` or ``bound``, which is a class of the style."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Places on a logarithmic axis, which begins below the smallest value."""

    low: float
    high: float

    def at(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return MARGIN + share * (WIDTH - 2 * MARGIN)

    def ticks(self) -> list[float]:
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        step = max(1, (last - first) // 5)
        return [10.0**power for power in range(first, last + 1, step)]


def scale_of(bars: Sequence[Bar]) -> Scale:
    """A bar has no natural foot on a logarithmic scale; the shortest should still be seen."""
    return Scale(min(bar.low for bar in bars) / 3, max(bar.high for bar in bars) * 1.1)


def picture(title: str, unit: str, description: str, bars: Sequence[Bar]) -> str:
    """The whole file. ``description`` is for those who cannot see it."""
    lines = wrap(title, TITLE_LETTERS)
    top = HEAD + LINE * len(lines)
    scale, bottom = scale_of(bars), top + ROW * len(bars)
    height = bottom + FOOT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH * 4 // 3}" role="img" aria-labelledby="title described">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="described">{escape(description)}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="6"/>',
        *(
            _text(MARGIN, 2 + LINE * number, line, TITLE, weight="bold")
            for number, line in enumerate(lines, 1)
        ),
        _text(MARGIN, top - 10, unit, SMALL, "faint"),
        *_axis(scale, top, bottom),
    ]
    for number, bar in enumerate(bars):
        parts += _bar(bar, scale, top + ROW * number)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axis(scale: Scale, top: int, bottom: int) -> list[str]:
    parts = []
    for value in scale.ticks():
        x = scale.at(value)
        parts.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom + 4}"/>')
        parts.append(_text(x, bottom + 18, short(value), SMALL, "faint", anchor="middle"))
    return parts


def _bar(bar: Bar, scale: Scale, top: int) -> list[str]:
    end, low, high = (scale.at(value) for value in (bar.value, bar.low, bar.high))
    middle = top + 28.5
    return [
        _text(MARGIN, top + 15, bar.name, NAME),
        _text(WIDTH - MARGIN, top + 15, bar.said, SMALL, "faint", anchor="end"),
        f'<rect class="{bar.kind}" x="{MARGIN}" y="{top + 22}" '
        f'width="{end - MARGIN:.1f}" height="13" rx="2"/>',
        f'<path class="range" fill="none" d="M{low:.1f} {middle}H{high:.1f}'
        f'M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8"/>',
    ]


def _text(
    x: float,
    y: float,
    said: str,
    size: int,
    kind: str = "text",
    anchor: str = "start",
    weight: str = "normal",
) -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(said)}</text>'
    )


def short(value: float) -> str:
    """A number for an axis or a bar: three digits at most, and a letter for thousands."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * 0.9995:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
