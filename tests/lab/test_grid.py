"""Settings with several values become variants."""

from pathlib import Path

import pytest

from regard.config import ConfigError
from regard.lab.grid import (
    Named,
    Variant,
    is_study,
    named,
    overridden,
    read_study,
    split_values,
    started,
    variants,
)
from regard.lab.work import check_settings


def test_every_combination_is_a_variant_and_the_rest_is_set_in_all():
    found = variants(["model.positions=learned,rotary", "train.steps=5", "head.pool=first,mean"])
    assert [each.name for each in found] == [
        "positions=learned, pool=first",
        "positions=learned, pool=mean",
        "positions=rotary, pool=first",
        "positions=rotary, pool=mean",
    ]
    assert found[1].settings == ("train.steps=5", "model.positions=learned", "head.pool=mean")
    assert found[1].slug.startswith("positions=learned_pool=mean-")
    assert len({each.slug for each in variants(["model.start=a/b,a_b"])}) == 2
    assert variants(["a.b=1"]) == [Variant("as it is", ("a.b=1",))]


def test_one_at_a_time_there_is_the_recipe_itself_and_each_value_alone():
    found = variants(["model.heads=1,2", "train.steps=5", "loss.r_drop=0.0,1.0"], one_at_a_time=True)
    assert [each.name for each in found] == ["as it is", "heads=1", "heads=2", "r_drop=0.0", "r_drop=1.0"]
    assert found[0].settings == ("train.steps=5",)
    assert found[3].settings == ("train.steps=5", "loss.r_drop=0.0")


def test_a_folder_is_called_by_its_last_name():
    assert [each.name for each in variants(['model.start=some/where/bert,""'])] == [
        "start=bert",
        "start=none",
    ]


def test_settings_that_go_together_have_a_name():
    given = [Named(name="small", settings=("model.layers=1", "model.d_model=8")), Named(name="large")]
    found = named(variants(["head.pool=first,mean"]), given)
    assert [each.name for each in found] == [
        "small, pool=first",
        "small, pool=mean",
        "large, pool=first",
        "large, pool=mean",
    ]
    assert found[1].settings == ("head.pool=mean", "model.layers=1", "model.d_model=8")
    assert named(variants(["a.b=1"]), given)[0].name == "small"
    assert named(variants(["a.b=1"]), ()) == variants(["a.b=1"])


@pytest.mark.parametrize("path", sorted(Path("recipes/studies").glob("*.toml")), ids=lambda path: path.stem)
def test_every_variant_of_the_shipped_studies_is_a_recipe(path):
    study = read_study(path)
    made: dict[str, list[Variant]] = {}
    for part in study.part:
        own = named(variants(part.settings, one_at_a_time=part.one_at_a_time), part.variant)
        own = started(own, made[part.start]) if part.start else own
        check_settings(path.parent / part.recipe, own)
        made[part.name] = own
    assert (path.parent.parent.parent / "docs" / "studies" / f"{path.stem}.md").exists()


def test_names_keep_their_table_where_two_have_the_same():
    [first, *_] = variants(["model.dropout=0.1,0.2", "head.dropout=0.1,0.2"])
    assert first.name == "model.dropout=0.1, head.dropout=0.1"


def test_commas_inside_brackets_and_quotes_part_nothing():
    assert split_values("[1,2],[3,4]") == ["[1,2]", "[3,4]"]
    assert split_values('"a,b",c') == ['"a,b"', "c"]
    assert split_values("{x=1,y=2}") == ["{x=1,y=2}"]


@pytest.mark.parametrize(
    ("setting", "reason"),
    [("model.layers", "sets nothing"), ("a.b=1,,2", "an empty value"), ("a.b=1,2,1", "a value twice")],
)
def test_what_cannot_be_varied_is_named(setting, reason):
    with pytest.raises(ConfigError, match=reason):
        variants([setting])


def test_a_study_is_a_file_and_the_prompt_has_the_last_word(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(
        'title = "T"\nseeds = 2\n[[part]]\nrecipe = "../x.toml"\nsettings = ["a.b=1,2", "c.d=3"]\n'
    )
    assert is_study(path)
    study = read_study(path)
    assert (study.title, study.seeds, study.part[0].recipe) == ("T", 2, "../x.toml")
    assert overridden(study.part[0].settings, ["c.d=4", "e.f=5"]) == ["a.b=1,2", "c.d=4", "e.f=5"]
    path.write_text('title = "T"\n[[part]]\nrecipe = "x"\n[[part]]\nrecipe = "y"\n')
    with pytest.raises(ConfigError, match="give each a name of its own"):
        read_study(path)
    path.write_text('title = "T"\npart = []\n')
    with pytest.raises(ConfigError, match=r"study.toml.*without a \[\[part\]\]"):
        read_study(path)
