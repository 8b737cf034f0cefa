"""Ages as kubectl prints them: seconds below two minutes, then minutes and seconds, and so on."""

from datetime import UTC, datetime

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


def parse_time(value: object) -> datetime | None:
    """Return the instant of an RFC 3339 text, None if it is no such text."""
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def format_age(timestamp: object, now: datetime, *, unknown: str = "<unknown>") -> str:
    """Return how long ago ``timestamp`` was."""
    moment = parse_time(timestamp)
    return unknown if moment is None else format_seconds((now - moment).total_seconds())


def format_seconds(seconds: float) -> str:
    """Return a duration in at most two units."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    for limit, big, small, names in (
        (2 * _MINUTE, 1, 0, "s"),
        (10 * _MINUTE, _MINUTE, 1, "ms"),
        (3 * _HOUR, _MINUTE, 0, "m"),
        (8 * _HOUR, _HOUR, _MINUTE, "hm"),
        (2 * _DAY, _HOUR, 0, "h"),
        (8 * _DAY, _DAY, _HOUR, "dh"),
        (2 * _YEAR, _DAY, 0, "d"),
        (8 * _YEAR, _YEAR, _DAY, "yd"),
    ):
        if whole < limit:
            return _in_units(whole, big, small, names)
    return f"{whole // _YEAR}y"


def _in_units(seconds: int, big: int, small: int, names: str) -> str:
    rest = (seconds % big) // small if small else 0
    return f"{seconds // big}{names[0]}" + (f"{rest}{names[1]}" if rest else "")
