"""A family is one file and one row of a table: nothing else in hub knows one by its name."""

import ast
import json
import re
from pathlib import Path

import pytest

import regard.hub.families
from regard.hub import HubError, head_kind, read_decoder, read_folder, read_translator
from regard.hub.families import DECODERS, ENCODERS, TRANSLATORS, family_named
from regard.hub.family import DecoderFamily, EncoderFamily, TranslatorFamily
from regard.hub.names import Family
from tests.hub.toys import toy

FAMILIES = (*ENCODERS, *DECODERS, *TRANSLATORS)
FOLDER = Path(next(iter(regard.hub.__path__)))


def test_each_family_has_a_name_of_its_own():
    names = [family.name for family in FAMILIES]
    assert len({*names}) == len(names)
    for sort, families in (
        (EncoderFamily, ENCODERS),
        (DecoderFamily, DECODERS),
        (TranslatorFamily, TRANSLATORS),
    ):
        assert all(family_named(family.name, sort) is family for family in families)


def names_of_families(text: str) -> list[str]:
    """Where a source asks for one: its name, a class of transformers' (BertTokenizer), its row."""
    names = {family.name for family in FAMILIES} | {family.stem for family in FAMILIES}
    classes = re.compile(rf"({'|'.join(names)})(Tokenizer|For[A-Z]|LMHead|Encoder|Model|Config)")
    rows = {name for name, value in vars(regard.hub.families).items() if isinstance(value, Family)}
    rows |= {family.stem.upper() for family in FAMILIES}
    tree, found = ast.parse(text), []
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        match node:
            case ast.Constant(str(word)) if id(node) not in prose:
                found += [word] if word in names or classes.match(word) else []
            case ast.Name(word) | ast.alias(word) | ast.Attribute(attr=word):
                found += [word] if word in rows else []
    return found


def test_nothing_outside_the_table_knows_a_family_by_its_name():
    alike = FOLDER / "gguf_files" / "tokens.py"  # it has llama.cpp's tokenizers
    paths = {path for path in FOLDER.rglob("*.py") if path.parent != FOLDER / "families"} - {alike}
    assert FOLDER / "tokens.py" in paths
    for path in sorted(paths):
        found = names_of_families(path.read_text(encoding="utf-8"))
        if (
            path.name == "vocabularies.py"
        ):  # a table of its own: a folder of any family may name any tokenizer
            found = [name for name in found if not name.endswith("Tokenizer")]
        assert not found, path.relative_to(FOLDER)


@pytest.mark.parametrize(
    "source",
    [
        'kind == "bert"',
        'name.startswith(("BertTokenizer", "x"))',
        'name in ("", "GPT2Tokenizer")',
        "family is families.XLM_ROBERTA",
        "from regard.hub.families import T5",
        'stem == "MPNet"',
    ],
)
def test_each_way_to_ask_for_a_family_is_seen(source):
    assert names_of_families(source)
    assert not names_of_families(f'"""BertTokenizer is one of these."""\nx = "roberta is prose"  # {source}')


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
