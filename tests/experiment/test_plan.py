"""The experiment's file: what it may say, and how its mistakes are answered."""

from pathlib import Path

import pytest
import yaml

from loadkit.errors import UsageError
from loadkit.experiment.plan import load

GOOD = {
    "name": "ab",
    "arms": {"a": {"start": "serve", "base_url": "http://127.0.0.1:1"}, "b": {"base_url": "http://127.0.0.1:2"}},
    "default": "a",
    "primary": "decode_rate",
    "pairs": 6,
    "locustfile": "locustfile.py",
}


def written(folder: Path, **changes) -> Path:
    (folder / "locustfile.py").touch()
    (folder / "compose.yaml").touch()
    content = {key: value for key, value in {**GOOD, **changes}.items() if value is not ...}
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_a_plan_is_read_with_its_arms_in_order(tmp_path):
    """A is the first arm, B the second; options may be one line; shares may be percent."""
    found = load(written(tmp_path, options="--rounds 1 --ways 1", margin="1.5%", slower_at_most=0.05))
    assert found.arm_names == ("a", "b")
    assert found.file.options == ("--rounds", "1", "--ways", "1")
    assert (found.file.margin, found.file.slower_at_most) == (0.015, 0.05)
    assert [arm.kind for arm in found.file.arms.values()] == ["command", "running"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pairs": ...}, "give pairs"),
        ({"looks": [6, 12, 18]}, "give pairs"),
        ({"pairs": ..., "looks": [6, 12, 20]}, "equally far apart"),
        ({"default": "c"}, "default names the arm"),
        ({"default": ...}, "default: is missing"),
        ({"arms": {"a": {"base_url": "http://x"}}}, "two arms"),
        ({"arms": {"a": {"start": "x"}, "b": {"base_url": "http://x"}}}, "needs base_url"),
        ({"arms": {"a": {}, "b": {"base_url": "http://x"}}}, "compose, start or base_url"),
        ({"arms": {"a": {"compose": "compose.yaml", "start": "x"}, "b": {"base_url": "http://x"}}}, "two ways"),
        ({"arms": {"a": {"compose": "nowhere.yaml"}, "b": {"base_url": "http://x"}}}, "no file"),
        ({"primary": "decode_rat@1 way"}, "primary: there is no metric 'decode_rat'; did you mean 'decode_rate'"),
        ({"primry": "ttft"}, "did you mean 'primary'"),
        ({"waits": {"memory_s": 1000}}, "less than or equal to 900"),
        ({"name": "a b"}, "name"),
        ({"locustfile": "other.py"}, "no file"),
    ],
)
def test_a_mistake_names_file_and_remedy(tmp_path, changes, says):
    """One line, before anything is started."""
    with pytest.raises(UsageError, match=says) as mistake:
        load(written(tmp_path, **changes))
    assert "plan.yaml" in str(mistake.value)
