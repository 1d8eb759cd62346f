"""The look of the book's pictures: colors, and settings of Matplotlib."""

from __future__ import annotations

import matplotlib as mpl

# Okabe and Ito's colors: told apart by color-blind readers, dark enough on white.
BLUE, ORANGE, GREEN, RED, GRAY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6E6E6E"


def book_style() -> dict:
    """Matplotlib settings of the book: white background (legible in the dark theme too), fonts of 9 pt or more."""
    return {
        "figure.figsize": (6.4, 3.8), "figure.dpi": 100, "savefig.dpi": 160, "figure.facecolor": "white",
        "figure.constrained_layout.use": True, "savefig.facecolor": "white",
        "font.size": 10, "axes.titlesize": 11, "axes.labelsize": 10,
        "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9, "legend.frameon": False,
        "axes.prop_cycle": mpl.cycler(color=[BLUE, RED, GREEN, ORANGE, GRAY]),
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.color": "#E5E5E5", "grid.linewidth": 0.8, "lines.linewidth": 2.0,
        "svg.fonttype": "path", "svg.hashsalt": "minerva_lite",
    }  # fmt: skip


def use_book_style() -> None:
    """Draw every later figure of this process in the book's style."""
    mpl.rcParams.update(book_style())
