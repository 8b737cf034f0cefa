"""Sums of Kubernetes quantities, for the limits of a quota. Pure."""

import re
from decimal import Decimal

_QUANTITY = re.compile(r"^(?P<number>\d{1,20}(?:\.\d{1,9})?)(?P<unit>m|k|[MGTPE]|[KMGTPE]i)?$")
_UNITS = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}


def add_quantities(used: str, amount: str, count: int) -> str | None:
    """Add a number of equal amounts to a quantity; None if one of them is not understood.

    Returns:
        The sum in the unit of the amount if that is a whole number, else in the base unit.
    """
    first, each = _parse(used), _parse(amount)
    if first is None or each is None:
        return None
    total = first[0] + each[0] * count
    for unit in (each[1], ""):
        number = total / _UNITS[unit]
        if number == number.to_integral_value():
            return f"{number:.0f}{unit}"
    return f"{total / _UNITS['m']:.0f}m"


def _parse(text: str) -> tuple[Decimal, str] | None:
    """Return a quantity in the base unit, and the unit in which it is written."""
    found = _QUANTITY.match(text)
    if found is None:
        return None
    unit = found.group("unit") or ""
    return Decimal(found.group("number")) * _UNITS[unit], unit
