"""A family is one file and one row of a table: nothing else in hub knows one by its name."""

import ast
import json

import pytest

import regard.hub
from regard.hub import HubError, head_kind, read_decoder, read_folder, read_translator
from regard.hub.families import DECODERS, ENCODERS, TRANSLATORS, family_named
from regard.hub.family import DecoderFamily, EncoderFamily, TranslatorFamily
from tests.hub.toys import toy

FAMILIES = (*ENCODERS, *DECODERS, *TRANSLATORS)
FOLDER = next(iter(regard.hub.__path__))


def test_each_family_has_a_name_of_its_own():
    names = [family.name for family in FAMILIES]
    assert len({*names}) == len(names)
    for sort, families in (
        (EncoderFamily, ENCODERS),
        (DecoderFamily, DECODERS),
        (TranslatorFamily, TRANSLATORS),
    ):
        assert all(family_named(family.name, sort) is family for family in families)


def test_nothing_outside_the_table_knows_a_family_by_its_name():
    from pathlib import Path

    known = {family.name for family in FAMILIES} | {family.stem for family in FAMILIES}
    constants = {family.stem.upper() for family in FAMILIES} | {"XLM_ROBERTA"}
    for path in Path(FOLDER).rglob("*.py"):
        if path.parent.name == "families" or path.name == "tokens.py":
            continue  # the latter has llama.cpp's names of tokenizers, of which some are called alike
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Constant(str(text)):
                    assert text not in known, f"{path.name}:{node.lineno}: {text!r}"
                case ast.Name(name) | ast.alias(name):
                    assert name not in constants, f"{path.name}: {name}"


@pytest.mark.parametrize("look", [read_folder, read_decoder, read_translator, head_kind])
def test_any_other_architecture_is_refused_by_its_name_and_what_it_would_need_is_told(hf, tmp_path, look):
    folder = toy(hf, tmp_path)
    path = folder / "config.json"
    other = {"model_type": "electra", "architectures": ["ElectraForPreTraining"]}
    path.write_text(json.dumps({**json.loads(path.read_text()), **other}))
    with pytest.raises(HubError, match=r"'electra'.*ElectraForPreTraining.*hub/families.*CONTRIBUTING"):
        look(folder)


def test_an_architecture_of_another_family_is_not_opened_as_this_one(hf, tmp_path):
    folder = toy(hf, tmp_path)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "architectures": ["ElectraModel"]}))
    with pytest.raises(HubError, match=r"ElectraModel.*only.*BertModel"):
        read_folder(folder)
