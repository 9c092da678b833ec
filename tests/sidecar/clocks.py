"""A clock that jumps, and samples at times of one's choosing."""

from typing import Any

from loadkit.record import Sample

S = 1_000_000_000
BOOT = "84c2756d-d983-4f7f-ae55-542ea7210ff4"


class JumpingClock:
    """Stands still until it is moved."""

    def __init__(self, now_ns: int = 0):
        self.now_ns = now_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return 1_789_659_000 * S + self.now_ns


def sample(source: str, at_s: float, *, boot: str = BOOT, missing: str | None = None, **data: Any) -> Sample:
    at_ns = int(at_s * S)
    return Sample(
        source=source, monotonic_ns=at_ns, wall_ns=1_789_659_000 * S + at_ns, boot_id=boot, data=data, missing=missing
    )
