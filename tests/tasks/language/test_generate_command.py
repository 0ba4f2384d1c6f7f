"""What `regard generate` writes, without the prompt of a shell."""

import io
import json
import sys
import warnings

import pytest

from regard.config import ConfigError
from regard.decode import DecodeConfig
from regard.tasks.base.decoding import changed
from regard.tasks.language import commands as generate_command
from regard.tasks.language.generator import SAMPLING
from regard.text import DataError
from tests.tasks.language.scripted import generator

pytestmark = pytest.mark.usefixtures("unchecked")
SHORT = {"maximum": 8}


@pytest.fixture
def made(monkeypatch):
    """The model that every folder holds."""
    found = generator(longest=32)
    monkeypatch.setattr(generate_command, "open_generator", lambda folder, **how: found)
    return found


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Flushed(io.StringIO):
    """Remembers what could be read at each flush."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def flush(self):
        self.seen.append(self.getvalue())


def written(prompts=(), file=None, **settings) -> str:
    out = io.StringIO()
    generate_command.generate(
        "folder", prompts, file, out=out, **{"device": "cpu", "decoding": SHORT, **settings}
    )
    return out.getvalue()


def test_one_text_is_written_as_it_comes(made):
    out = Flushed()
    generate_command.generate("folder", ["The cat"], out=out, decoding={**SHORT, "seed": 3})
    [expected] = made.generate("The cat", max_tokens=8, seed=3)
    assert out.getvalue() == f"The cat{expected.text}\n"
    assert out.seen[0] == "The cat"
    assert len(set(out.seen)) > 3


def test_several_texts_have_a_line_of_dashes_between_them(made):
    found = made.generate(["The cat", "two"], samples=2, max_tokens=8)
    expected = "\n---\n".join(str(each) for row in found for each in row) + "\n"
    assert written(["The cat", "two"], decoding={**SHORT, "n_best": 2}) == expected


def test_json_has_one_object_for_each_text(made):
    found = made.generate("The cat", samples=3, max_tokens=8)
    lines = written(["The cat"], decoding={**SHORT, "n_best": 3}, as_json=True).splitlines()
    assert [json.loads(line) for line in lines] == [each.to_dict() for each in found]


def test_a_file_has_a_prompt_a_line_and_windows_do_not_show(made, tmp_path, monkeypatch):
    path = tmp_path / "prompts.txt"
    path.write_text("The cat\ntwo\na red house\n", encoding="utf-8")
    whole = written(file=str(path))
    assert whole.count("\n---\n") >= 2
    monkeypatch.setattr(generate_command, "WINDOW", 2)
    assert written(file=str(path)) == whole
    assert written(["The cat", "two", "a red house"]) == whole


def test_what_comes_in_is_read_line_by_line(made, monkeypatch):
    expected = written(["The cat", "two"])
    for terminal in (False, True):
        coming = io.TextIOWrapper(io.BytesIO(b"The cat\ntwo\n"))
        coming.isatty = lambda terminal=terminal: terminal
        monkeypatch.setattr(sys, "stdin", coming)
        assert written(file="-") == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"The cat\ntwo\n")))
    assert written() == expected


def test_without_a_prompt_on_a_terminal_the_way_is_shown(made, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(ConfigError, match="give --prompt TEXT, or --file"):
        written()
    with pytest.raises(ConfigError, match="give prompts in one way"):
        written(["The cat"], "prompts.txt")


def test_stop_strings_and_the_context_are_passed_on(made):
    [free] = made.generate("The cat", max_tokens=8)
    stop = free.text[3:5]
    assert written(["The cat"], stop=[stop]) == f"The cat{free.text[: free.text.index(stop)]}\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slid = written(["The cat"], past="slide", decoding={"maximum": 50}, as_json=True)
    assert json.loads(slid)["tokens"] == 50


def test_a_prompt_that_is_refused_is_told_by_its_place(made, tmp_path, monkeypatch):
    path = tmp_path / "prompts.txt"
    path.write_text("a\n" * 3 + "word " * 60 + "\n", encoding="utf-8")
    monkeypatch.setattr(generate_command, "WINDOW", 2)
    with pytest.raises(DataError, match=r"prompts.txt:4: the prompt is too long.*--past slide"):
        written(file=str(path))
    with pytest.raises(DataError, match=r"--prompt:1: the prompt is too long"):
        written(["word " * 60])


def test_searches_take_the_place_of_sampling(made):
    [greedy] = made.generate("The cat", decoding=DecodeConfig(method="greedy", maximum=8))
    assert written(["The cat"], greedy=True) == f"{greedy}\n"
    beams = made.generate("The cat", decoding=DecodeConfig(beam=4, n_best=2, maximum=8))
    assert (
        written(["The cat"], decoding={**SHORT, "beam": 4, "n_best": 2})
        == "\n---\n".join(map(str, beams)) + "\n"
    )


def test_settings_are_those_that_were_asked_for_and_none_is_idle():
    assert changed(SAMPLING, {}) == SAMPLING
    assert changed(SAMPLING, {"temperature": 0.5}).temperature == 0.5
    assert changed(SAMPLING, {"beam": 3, "no_repeat": 2}) == DecodeConfig(beam=3, no_repeat=2)
    assert changed(SAMPLING, {}, greedy=True) == DecodeConfig(method="greedy")
    assert changed(DecodeConfig(), {"n_best": 7}) == DecodeConfig(beam=7, n_best=7)
    with pytest.raises(ConfigError, match="--greedy and --beam"):
        changed(SAMPLING, {"beam": 2}, greedy=True)
    with pytest.raises(ConfigError, match="--top-p is for sampling"):
        changed(SAMPLING, {"top_p": 0.9}, greedy=True)
    with pytest.raises(ConfigError, match=r"--seed is for sampling.*add --method sample"):
        changed(DecodeConfig(), {"seed": 3})
    with pytest.raises(ValueError, match="beam=0 must be at least 1"):
        changed(SAMPLING, {"beam": 0})
