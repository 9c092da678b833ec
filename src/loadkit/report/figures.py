"""Figures as people read them: three digits, a unit, and a dash where nothing is known (never 0 for "unknown")."""

from __future__ import annotations

DASH = "–"

_SCALES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))
_MIB = 1 << 20
_GIB = 1 << 30


def digits(value: float, significant: int = 3) -> str:
    """`value` with `significant` digits, no exponent, whole digits never dropped: 1234.5 → "1,234", 0.0123 → "0.0123"."""
    if value == 0:
        return "0"
    size = abs(float(f"{value:.{significant}g}"))  # 0.9996 is about to be written as 1.00
    if size >= 1:
        return f"{value:,.{max(0, significant - len(str(int(size))))}f}"
    leading = 0
    while size < 0.1 and leading < 9:
        size *= 10
        leading += 1
    return f"{value:.{leading + significant}f}"


def duration(value_ns: float | None) -> str:
    """Nanoseconds as "1.42 s", "23.1 ms", "850 µs"; from two minutes on "3 min 20 s"."""
    if value_ns is None:
        return DASH
    seconds = value_ns / 1e9
    if abs(seconds) >= 120:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
    if value_ns == 0:
        return "0 ms"
    for size, unit in _SCALES:
        if abs(value_ns) >= size * 0.9995:  # what would round to 1,000 ms is 1.00 s
            return f"{digits(value_ns / size)} {unit}"
    return f"{value_ns:.0f} ns"


def rate(value_per_s: float | None) -> str:
    """Tokens a second without the unit, which stands in the column's head."""
    return DASH if value_per_s is None else digits(value_per_s)


def share(value: float | None) -> str:
    """0.4567 → "45.7 %"; exact ends stay exact ("0 %", "100 %"), anything between never reads as one of them."""
    if value is None:
        return DASH
    if value in (0, 1):
        return f"{value * 100:.0f} %"
    shown = min(99.9, max(0.1, value * 100)) if 0 < value < 1 else value * 100
    return f"{shown:.1f} %"


def count(value: float | None) -> str:
    """A number of things, with thousands separated."""
    return DASH if value is None else f"{value:,.0f}"


def size(value_bytes: float | None) -> str:
    """Bytes as GiB or MiB."""
    if value_bytes is None:
        return DASH
    if abs(value_bytes) >= _GIB:
        return f"{digits(value_bytes / _GIB)} GiB"
    return f"{digits(value_bytes / _MIB)} MiB"


def scaling(value: float | None) -> str:
    """Scaling against one way: 0.79 → "79 %"."""
    return DASH if value is None else f"{value * 100:.0f} %"
