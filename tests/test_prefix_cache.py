import pytest

from loadkit.prefix_cache import expected_hit


@pytest.mark.parametrize(
    ("shared", "prompt", "block", "drops", "hit"),
    [
        (259_963, 259_964, 1600, True, 257_600),
        (1228, 1228, 128, False, 1152),
        (128, 128, 128, False, 0),
        (129, 129, 128, False, 128),
        (3000, 4000, 1600, True, 0),
        (0, 4000, 16, False, 0),
    ],
)
def test_the_formula_gives_what_servers_gave(shared, prompt, block, drops, hit):
    """Whole blocks, at most prompt − 1, one less with MTP; 257600 and 1152 were measured."""
    assert expected_hit(shared, prompt, block_size=block, drops_last_block=drops) == hit
