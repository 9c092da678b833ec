"""Is the flag really in force? What the server's log and arguments show, against what the arm says they should."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from loadkit.experiment.plan import Proof

TELLING = (
    r"enforce_eager=\w+",
    r"Graph capturing finished in .*",
    r"(?i)breakable.{0,20}graph.*",
    r"enable_prefix_caching=\w+",
    r"speculative_config=\S+",
    r"Available KV cache memory: .*",
    r"GPU KV cache size: .*",
    r"Model loading took .*",
)
"""Lines of a vLLM log that tell how it runs and what graph capture cost; kept with each launch."""

MOST_LINES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was seen: `missing` are the parts of the proof that did not show, `lines` what the log tells anyway."""

    missing: tuple[str, ...]
    lines: tuple[str, ...]


def evidence(proof: Proof, log: str, arguments: Sequence[str]) -> Evidence:
    """Check a proof against a log and a command line."""
    words = " ".join(arguments)
    missing = [f"the log does not hold /{pattern}/" for pattern in proof.log if not re.search(pattern, log)]
    missing += [f"the log holds /{pattern}/" for pattern in proof.no_log if re.search(pattern, log)]
    missing += [f"{word} is not among the server's arguments" for word in proof.argument if word not in words]
    missing += [f"{word} is among the server's arguments" for word in proof.no_argument if word in words]
    told = [match.group(0).strip()[:300] for pattern in TELLING for match in re.finditer(pattern, log)]
    return Evidence(missing=tuple(missing), lines=tuple(dict.fromkeys(told))[:MOST_LINES])
