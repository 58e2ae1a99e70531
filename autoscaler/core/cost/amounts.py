"""Amounts of money as whole numbers, and how one is divided: the parts always add up to it.

An amount is a count of micros, millionths of the currency's unit. A price an hour is a count of nanos, so that a spot
price of five decimals loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal

MICROS = 1_000_000
NANOS = 1_000_000_000
HOUR_MS = 3_600_000


def nanos_of(price_per_hour: float) -> int:
    """The price in billionths, exactly as the catalogue writes it: a float holds it only nearly."""
    return int((Decimal(str(price_per_hour)) * NANOS).to_integral_value(ROUND_HALF_EVEN))


def rent(nanos: int, began: int, since: int, until: int) -> int:
    """Micros for the time from `since` to `until`, in milliseconds, of something rented since `began`. The amount due
    at a time depends on that time only, so that adjoining stretches add up to the whole.
    """
    return _due(nanos, until - began) - _due(nanos, since - began)


def _due(nanos: int, milliseconds: int) -> int:
    return nanos * milliseconds // (HOUR_MS * NANOS // MICROS)


def divided(amount: int, weights: Sequence[int]) -> list[int]:
    """An amount in parts proportional to the weights. Each is rounded down, and the rest goes to the parts that lost
    most by it, the first of equal ones. If all weights are 0, so are all parts.
    """
    total = sum(weights)
    if total <= 0:
        return [0] * len(weights)
    found = [divmod(amount * weight, total) for weight in weights]
    return _topped_up([part for part, _ in found], [lost for _, lost in found], amount)


def in_units(amounts: Sequence[int], unit: int) -> tuple[list[int], int]:
    """Amounts for people, in units of this many micros (10,000: cents), and their sum. The sum is rounded to the
    nearest unit, and the parts add up to it. No other place rounds for people.
    """
    total = round_half_even(sum(amounts), unit)
    found = [divmod(amount, unit) for amount in amounts]
    return _topped_up([part for part, _ in found], [lost for _, lost in found], total), total


def round_half_even(amount: int, unit: int) -> int:
    whole, rest = divmod(amount, unit)
    return whole + (2 * rest > unit or (2 * rest == unit and whole % 2 == 1))


def _topped_up(parts: list[int], lost: Sequence[int], total: int) -> list[int]:
    """Add one to the parts that lost most, until they add up."""
    missing = total - sum(parts)
    for at in sorted(range(len(parts)), key=lambda at: (-lost[at], at))[:missing]:
        parts[at] += 1
    return parts
