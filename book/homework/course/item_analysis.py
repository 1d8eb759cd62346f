"""How each question did in the class: hard, easy, or telling nothing of who can do the rest."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from .marks import Work, order_of
from .words import counted

FEW = 5  # students, below which a correlation is noise
LOW = 0.3  # a mean share of the points, likewise
WEAK = 0.1  # a correlation with the rest below which a question deserves a look


def statistics_of(found: Iterable[Work]) -> list[dict[str, Any]]:
    """A line for each question: shares of its points, correlation with the other questions, the case failed most."""
    rows = []
    for name, group in groupby(found, lambda work: work.assignment):  # they come by assignment
        of_it = list(group)
        for question in sorted({each.question for work in of_it for each in work.given}, key=order_of):
            rows.append({"assignment": name, "question": question, **row_of(question, of_it)})
    return rows


def row_of(question: str, found: list[Work]) -> dict[str, Any]:
    shares, rest, failed = [], [], Counter[str]()
    of = 0.0
    for work in found:
        given = {each.question: each for each in work.given}
        one = given.pop(question, None)
        if one is None or one.unmarked:
            continue
        of = one.of
        failed.update(one.failed)
        shares.append(one.points / one.of)
        rest.append(sum(each.points for each in given.values()))
    most = min(failed.items(), key=lambda item: (-item[1], item[0])) if failed else ("", "")
    number = len(shares)
    return {
        "of": of or "",
        "marked": number,
        "mean_share": round(statistics.fmean(shares), 3) if shares else "",
        "share_with_full": round(sum(share >= 1.0 for share in shares) / number, 3) if shares else "",
        "share_with_none": round(sum(share <= 0.0 for share in shares) / number, 3) if shares else "",
        "discrimination": correlation(shares, rest),
        "most_failed_case": most[0],
        "failed_by": most[1],
    }


def correlation(shares: list[float], rest: list[float]) -> float | str:
    """Pearson's, of a question's share with the points of all others; "" where it says nothing."""
    if len(shares) < FEW or len(set(shares)) == 1 or len(set(rest)) == 1:
        return ""
    return round(statistics.correlation(shares, rest), 3)


def summary(found: list[Work]) -> list[str]:
    """A line for each assignment, and one for each of its questions that deserves a look; nobody is named."""
    lines = []
    rows = statistics_of(found)
    for name, group in groupby(found, lambda work: work.assignment):
        of_it = list(group)
        waiting = sum(bool(work.awaited) for work in of_it)
        total = statistics.fmean(work.score for work in of_it)
        still = f"; {waiting} still with parts for a person to mark" if waiting else ""
        lines.append(
            f"{name}: {counted(len(of_it), 'submission', 'submissions')}, mean {total:.1f} of {of_it[0].of:g}{still}"
        )
        for row in (row for row in rows if row["assignment"] == name):
            weak = row["discrimination"] != "" and row["discrimination"] < WEAK
            if row["marked"] >= FEW and (weak or row["mean_share"] < LOW):
                case = f', most failed "{row["most_failed_case"]}"' if row["most_failed_case"] else ""
                lines.append(
                    f"  {row['question']}: mean share {row['mean_share']:.2f}, "
                    f"correlation with the rest {row['discrimination'] or 'unknown'}{case}"
                )
    return lines
