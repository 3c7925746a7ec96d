"""Pictures of figures, where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


class NoPlotError(Exception):
    """There is no matplotlib; the message says how to get it."""


def panels(path: Path, heights: Sequence[float]) -> tuple[Any, list[Any]]:
    """A figure for ``path`` with panels one below the other, of so many inches each."""
    try:
        import matplotlib
    except ImportError as error:
        raise NoPlotError(
            f"{path.name} was not drawn: matplotlib is missing; pip install 'mainstay[bench]'"
        ) from error
    # Without a display, and with the same bytes for the same figures.
    matplotlib.use("svg" if path.suffix == ".svg" else "agg")
    matplotlib.rcParams["svg.hashsalt"] = "mainstay"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        len(heights),
        figsize=(9, sum(heights) + 0.5 * len(heights)),
        gridspec_kw={"height_ratios": heights},
        squeeze=False,
    )
    return figure, list(axes[:, 0])


def save(figure: Any, path: Path) -> None:
    """Write a figure to ``path``; its suffix says in which format."""
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
