"""Settings that cannot be meant are refused, with the rule."""

import pytest

from regard.config import from_dict, to_dict
from regard.decode import DecodeConfig

WRONG = [
    ({"method": "bean"}, "did you mean 'beam'"),
    ({"stop": "never"}, "is none of full, exact"),
    ({"beam": 0}, "beam=0 must be at least 1"),
    ({"n_best": 0}, "n_best=0 must be at least 1"),
    ({"beam": 4, "n_best": 5}, "n_best=5 hypotheses cannot come out of beam=4"),
    ({"method": "greedy", "n_best": 2}, "take a beam"),
    ({"minimum": -1}, "minimum=-1 must be at least 0"),
    ({"maximum": -1}, "maximum=-1 must be at least 0"),
    ({"minimum": 300}, "minimum=300 is above maximum=256"),
    ({"no_repeat": -1}, "no_repeat=-1 must be at least 0"),
    ({"length_penalty": float("nan")}, "finite"),
    ({"repetition_penalty": 0.0}, "above 0"),
    ({"temperature": 0.0}, "method='greedy'"),
    ({"top_k": -1}, "0 for all tokens"),
    ({"top_p": 0.0}, r"in \(0, 1\]"),
    ({"top_p": 1.1}, r"in \(0, 1\]"),
    ({"min_p": -0.1}, r"in \[0, 1\]"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG, ids=[str(settings) for settings, _ in WRONG])
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DecodeConfig(**settings)


def test_settings_go_through_plain_data():
    config = DecodeConfig(method="sample", n_best=9, top_p=0.9)
    assert from_dict(DecodeConfig, to_dict(config)) == config
