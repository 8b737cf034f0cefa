"""Resource quantities (``500m``, ``1Gi``, ``2e3``)."""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

QUANTITY_ERROR = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)

_FORM = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)([A-Za-z]*|[eE][-+]?\d+)", re.ASCII)
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_KIBI = 1024
# Like the API server, which reduces larger numbers to this one.
_MAX_NUMBER = Decimal(2**63 - 1)
# Decimal raises for larger exponents. The result is 0 or the largest number in any case.
_MAX_EXPONENT = 1000
_MAX_MANTISSA = Decimal(10) ** _MAX_EXPONENT


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Decimal:
    """Return the number of a quantity; any other text is a ValueError."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(QUANTITY_ERROR)
    sign, digits, suffix = match.groups()
    number = min(Decimal(digits), _MAX_MANTISSA).copy_sign(Decimal(f"{sign}1"))
    if suffix in _BINARY:
        return _cap(number * _KIBI ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return _round(number.scaleb(_DECIMAL[suffix]))
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and not suffix[1:].isalpha():
        exponent = max(-_MAX_EXPONENT, min(int(suffix[1:]), _MAX_EXPONENT))
        return _round(number.scaleb(exponent))
    raise ValueError(QUANTITY_ERROR)


def _cap(number: Decimal) -> Decimal:
    return max(-_MAX_NUMBER, min(number, _MAX_NUMBER))


def _round(number: Decimal) -> Decimal:
    nano = _cap(number).scaleb(9)
    return nano.to_integral_value(ROUND_CEILING).scaleb(-9)
