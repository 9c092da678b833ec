"""How far the run is, in words."""

from __future__ import annotations

from loadkit.language import Language, say
from loadkit.live.run import Live, eta_s
from loadkit.report import figures


def line(live: Live, at_ns: int, language: Language) -> str:
    """Everything in one line: round, stage, requests, failed, tokens/s, time to go, MemAvailable."""
    return " · ".join(filter(None, (where(live, language), state(live, at_ns, language))))


def where(live: Live, language: Language) -> str:
    """Round and stage."""
    progress = live.progress
    rounds = f"{progress.round}/{progress.rounds}" if progress.rounds else str(progress.round)
    parts = [say("round {number}", language, number=rounds)] if progress.round else []
    stage = progress.stage + (f" ({say('warm-up', language)})" if progress.phase == "warmup" else "")
    return " · ".join([*parts, *([stage] if stage else [])])


def state(live: Live, at_ns: int, language: Language) -> str:
    """Requests, rate, time to go and memory; what is not known is left out."""
    progress = live.progress
    total = "" if progress.total is None else f"/{progress.total}"
    parts = [say("{done} done", language, done=f"{progress.done}{total}")]
    if progress.failed:
        parts.append(say("{count} failed", language, count=progress.failed))
    rate, left, memory = live.output_per_s(at_ns), eta_s(live, at_ns), live.memory_gib
    if rate is not None:
        parts.append(f"{figures.rate(rate)} tok/s")
    if left is not None:
        parts.append(say("about {time} left", language, time=clock(left)))
    if memory is not None:
        parts.append(f"MemAvailable {figures.digits(memory)} GiB")
    return " · ".join(parts)


def clock(seconds: float) -> str:
    """75 → "1:15"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
