"""The definitions of the reference page that are not functions of one record: stamps, aggregates, invariants, other tools."""

from __future__ import annotations

STAMPS: tuple[tuple[str, str], ...] = (
    (
        "`due`",
        "open loop: when it was planned; closed loop: when the user asked for it, before the engine saw it, or, later in a "
        "user's row, when its last answer ended (`closed`)",
    ),
    ("`sent`", "just before the first byte of the already serialised body is written"),
    (
        "`connected`",
        "set up (absent where a pooled one was used); before `due` for requests held for a common start",
    ),
    ("`headers`", "response headers arrived; vLLM sends them before the prefill, so this is never a first token"),
    (
        "`events[]`",
        "(time, tokens k, kind) of each SSE chunk that carries at least one token; kind is `reasoning`, `answer` or `tool`; "
        "k may count tokens that are not shown (`</think>`, `<tool_call>`, end of sequence)",
    ),
    (
        "`end`",
        "the chunk that carries finish_reason; without one, the last event. The usage chunk and `[DONE]` come later and do not "
        "end a request",
    ),
    ("`closed`", "`[DONE]`, end of stream or the error"),
)

AGGREGATES: tuple[tuple[str, str, str], ...] = (
    (
        "makespan throughput",
        "Σ N / (last end − first sent) of one round",
        "the figure of the 1/2/4-way comparison: median of the rounds, with minimum and maximum; unknown as soon as one "
        "completed request has no usage",
    ),
    (
        "output throughput",
        "Σ tokens whose time lies in [a, b] / (b − a)",
        "sustained load only: a = every user has finished its first request; b = first moment a user has nothing left to send; "
        "at least 20 requests end in the window. `estimated` where tokens per event are unknown (N / events each), `lower "
        "bound` where such a request was cut off",
    ),
    ("per-user rate", "makespan throughput / ways", ""),
    (
        "scaling",
        "makespan throughput at n ways / (n × at 1 way)",
        "speed workloads with exactly one stage of one way; never against a decode rate",
    ),
    ("request throughput", "completed requests / window", "the makespan where there is no sustained window"),
    (
        "goodput",
        "requests that are completed, not wrong and within every objective, per second",
        'where no check is declared, "not wrong" is dropped',
    ),
    ("SLO attainment", "good / attempted", "errors, truncations and aborted requests stay in the denominator"),
    ("achieved concurrency", "∫ in-flight dt / (last end − first sent)", "printed beside the one asked for"),
    ("peak token rate", "most tokens in one of the equal parts (of at most 1 s) of a round, per second", ""),
    ("ICG, inter-chunk gap", "every gap between events", "what a person sees as stutter; gaps over 1 s are counted as stalls"),
    ("ITL", "gap_j / k_j, weighted by k_j", "only with known k"),
    ("prefix hit share", "Σ cached tokens / Σ prompt tokens", "of the requests that report both"),
    (
        "failures as infinity",
        "the same percentiles with failed requests as +∞",
        "printed beside the success-only ones as soon as one request failed",
    ),
)

INVARIANTS: tuple[str, ...] = (
    "0 ≤ TTFT ≤ e2e",
    "gaps sum to last event − first event, and none is negative",
    "event columns are of equal length, and tokens of events ≤ N",
    "completed means that a finish_reason was seen",
    "peak token rate ≥ mean rate",
    "sent = completed + failed + cancelled + lost: each request ends once, each record has its start",
    "prompt tokens = planned tokens where a plan exists",
    "client N = rise of the server's counter where nothing was cut and the server is ours alone, else client ≤ server",
)

ELSEWHERE: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "vLLM bench 0.32",
        "(last − first)/(n−1)",
        "`tpot`, with one token in the first chunk",
        "every gap between chunks, pooled; plus one ≈0 ms gap a request (role chunk)",
        "ICG",
    ),
    ("AIPerf", "–", "–", "per-request mean (latency − TTFT)/(n−1)", "`tpot`"),
    (
        "GuideLLM",
        "(last − start)/n, so TTFT is inside",
        "`e2e` / N",
        "per-request mean (last − first)/(n−1); stalls invisible",
        "`tpot`",
    ),
    ("genai-bench", "(e2e − TTFT)/(n−1)", "`tpot`", "–", "–"),
    ("inference-perf", "(e2e − TTFT)/(n−1)", "`tpot`", "every gap, pooled; reasoning ignored", "ICG (reasoning included)"),
)
"""(tool, its TPOT, the row here, its ITL, the row here)."""
