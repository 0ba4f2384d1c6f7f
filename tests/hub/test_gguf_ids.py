"""The tokenizer inside a GGUF file parts a text as the model learned it, and begins it as llama.cpp does."""

import re
from itertools import combinations

import pytest
import regex
from tokenizers import Tokenizer, models, pre_tokenizers

from regard.hub import HubError, HubWarning, read_decoder
from regard.hub.gguf_files.tokens import read_conventions, read_tokenizer
from regard.tasks.language.generator import open_generator
from tests.hub.gpts import TEXTS
from tests.hub.llamas import build
from tests.hub.test_gguf import SIZES, written

MERGES = [("1", "2"), ("12", "3"), ("123", "4"), ("a", "t"), ("Ġ", "t"), ("(", "at"), (".", "Ċ"), ("'", "S")]
START = "<|begin|>"
TOKENS = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, MERGES), "mat", START]
"""No pieces lead to "mat"."""
VOCABULARY = {token: id for id, token in enumerate(TOKENS)}
HARD = ["It'S 12345 (at the mat.\n\nthat", "cafe\u0301 mat", " 1234's", *TEXTS]
BEGUN = {"llama-bpe": True, "llama3": True, "llama-v3": True, "gpt-2": False, "smollm": False, "qwen2": False}
"""Whether llama.cpp sets the start token where the file does not say."""


def fields(pre: str | None = None, **more) -> dict:
    table = {
        "model": "gpt2",
        "tokens": TOKENS,
        "token_type": [3 if token == START else 1 for token in TOKENS],
        "merges": [" ".join(pair) for pair in MERGES],
        "bos_token_id": VOCABULARY[START],
        **({} if pre is None else {"pre": pre}),
        **more,
    }
    return {f"tokenizer.ggml.{name}": value for name, value in table.items()}


def expected(hf, pre: str, text: str) -> list[int]:
    """By the classes of transformers, or piece by piece."""
    gpt2 = hf.GPT2Tokenizer(
        vocab=VOCABULARY, merges=MERGES, unk_token=START, bos_token=START, eos_token=START
    )
    match pre:
        case "gpt-2":
            return gpt2(text)["input_ids"]
        case "smollm":
            return [id for part in re.split(r"(\d)", text) if part for id in gpt2(part)["input_ids"]]
        case "qwen2":
            names = {"unk_token": START, "eos_token": START, "pad_token": START}
            return hf.Qwen2Tokenizer(vocab=VOCABULARY, merges=MERGES, **names)(text)["input_ids"]
    from transformers.convert_slow_tokenizer import bytes_to_unicode
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    letters = bytes_to_unicode()
    plain, ids = Tokenizer(models.BPE(VOCABULARY, MERGES)), []
    for part in regex.findall(GGUF_PRE_TOKENIZER_SPLITS[pre], text):
        spelled = "".join(letters[byte] for byte in part.encode())
        ids += [VOCABULARY[spelled]] if spelled in VOCABULARY else plain.encode(spelled).ids
    return ids


@pytest.mark.parametrize("pre", BEGUN)
def test_each_kind_parts_a_text_as_its_models_learned_it(hf, tmp_path, pre):
    tokenizer = read_tokenizer(tmp_path, fields(pre), len(TOKENS))
    for text in HARD:
        assert list(tokenizer.encode(text).ids) == expected(hf, pre, text), text


def test_no_two_of_these_kinds_are_alike(hf):
    kinds = [[expected(hf, pre, text) for text in HARD] for pre in ("llama-bpe", "gpt-2", "smollm", "qwen2")]
    assert all(one != other for one, other in combinations(kinds, 2))


@pytest.mark.parametrize("told", [None, True, False])
@pytest.mark.parametrize("pre", BEGUN)
def test_a_text_begins_as_llama_cpp_begins_it(tmp_path, pre, told):
    table = fields(pre, **({} if told is None else {"add_bos_token": told}))
    found = read_conventions(tmp_path, table, read_tokenizer(tmp_path, table, len(TOKENS)))
    assert found.begins == (BEGUN[pre] if told is None else told)


@pytest.mark.parametrize("pre", ["llama3", "qwen2"])
def test_a_prompt_of_such_a_file_has_its_start_token(hf, tmp_path, pre):
    path = written(build(hf, "Llama", **SIZES), tmp_path / "model.gguf", pre=pre, begins=None)
    assert read_decoder(path).conventions.begins == BEGUN[pre]
    generator = open_generator(path)
    [asked] = generator._encoded(["at"], None, generator._options(generator.decoding, {}, (), "stop", None))
    assert (asked.ids[0] == generator.tokenizer.ids.start) == BEGUN[pre]


def test_a_file_that_does_not_say_how_is_read_as_gpt2s_with_a_warning(hf, tmp_path):
    with pytest.warns(HubWarning, match=r"tokenizer\.ggml\.pre does not say how a text is parted"):
        tokenizer = read_tokenizer(tmp_path, fields(), len(TOKENS))
    assert tokenizer.encode_batch(HARD) == [expected(hf, "gpt-2", text) for text in HARD]


@pytest.mark.parametrize("pre", ["tekken", "llama4", ["llama3"]])
def test_a_kind_that_is_not_known_is_refused_by_its_name(tmp_path, pre):
    with pytest.raises(
        HubError, match=rf"pre=.*{pre if isinstance(pre, str) else 'llama3'}.* is none of .*llama-v3"
    ):
        read_tokenizer(tmp_path, fields(pre), len(TOKENS))
