"""Whether a flag is in force."""

from loadkit.experiment.plan import Proof
from loadkit.experiment.proof import evidence

LOG = """INFO 10-02 non-default args: {'enforce_eager': True}
INFO Initializing a V1 LLM engine (v0.32.0) with config: enforce_eager=False, enable_prefix_caching=True
INFO Graph capturing finished in 12 secs, took 0.39 GiB
"""


def test_a_proof_that_shows_is_complete():
    """Patterns in the log, words among the arguments, and their absence."""
    proof = Proof(
        log="Graph capturing finished", no_log="CUDA out of memory", argument="--max-num-seqs", no_argument="--enforce-eager"
    )
    assert evidence(proof, LOG, ["vllm", "serve", "--max-num-seqs", "4"]).missing == ()


def test_what_is_missing_is_named():
    """Each part that fails, in words."""
    proof = Proof(log="speculative", no_log="Graph capturing", argument="--enforce-eager", no_argument="serve")
    assert len(evidence(proof, LOG, ["vllm", "serve"]).missing) == 4


def test_lines_that_tell_are_kept():
    """Graph capture with its memory, eager or not, prefix cache."""
    lines = evidence(Proof(), LOG, []).lines
    assert "Graph capturing finished in 12 secs, took 0.39 GiB" in lines
    assert "enforce_eager=False" in lines
    assert "enable_prefix_caching=True" in lines
