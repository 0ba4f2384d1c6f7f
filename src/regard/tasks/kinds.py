"""The tasks there are, by the name that a recipe gives."""

from typing import Any

from regard.tasks.encoders.classify_recipe import CLASSIFY
from regard.tasks.encoders.embed_recipe import EMBED
from regard.tasks.encoders.pretrain_recipe import PRETRAIN
from regard.tasks.encoders.tag_recipe import TAG
from regard.tasks.language.recipe import LANGUAGE
from regard.tasks.recipe import Kind
from regard.tasks.translate_recipe import TRANSLATE

KINDS: dict[str, Kind[Any]] = {
    "translate": TRANSLATE,
    "pretrain": PRETRAIN,
    "classify": CLASSIFY,
    "tag": TAG,
    "embed": EMBED,
    "language": LANGUAGE,
}
