"""How many forms a language has for numbers, and which of them is that of one: what gettext calls
Plural-Forms, after CLDR."""

import re
from gettext import c2py

_ONE = "nplurals=2; plural=(n != 1);"
_NONE = "nplurals=1; plural=0;"
_FRENCH = "nplurals=2; plural=(n > 1);"
_SLAVIC = (
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);"
)
_CZECH = "nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;"
_MALTESE = (
    "nplurals=4; plural=(n==1 ? 0 : n==0 || (n%100>1 && n%100<11) ? 1 : (n%100>10 && n%100<20) ? 2 : 3);"
)
_ARABIC = (
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);"
)
_LANGUAGES = {
    _ONE: "af az bg bn ca da de el en eo es et eu fi fo fur fy gl gu ha he hi hu is it ka kk kn ku ky lb mk "
    "ml mn mr nb ne nl nn no pa ps pt rm sd si so sq sv sw ta te tk tl ur uz",
    _NONE: "id ja jv km ko lo ms my su th tt ug vi wo yo zh dz fa",
    _FRENCH: "fr pt_br am br fil ln mg oc ti tr wa hy",
    _SLAVIC: "ru uk be sr hr bs sh",
    _CZECH: "cs sk",
    "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);": "pl",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": "lt",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);": "lv",
    "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2);": "ro",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl",
    "nplurals=5; plural=(n==1 ? 0 : n==2 ? 1 : n<7 ? 2 : n<11 ? 3 : 4);": "ga",
    "nplurals=4; plural=(n==1 || n==11) ? 0 : (n==2 || n==12) ? 1 : (n > 2 && n < 20) ? 2 : 3;": "gd",
    "nplurals=4; plural=(n==1) ? 0 : (n==2) ? 1 : (n != 8 && n != 11) ? 2 : 3;": "cy",
    _MALTESE: "mt",
    _ARABIC: "ar",
}
RULES = {language: rule for rule, own in _LANGUAGES.items() for language in own.split()}
_RULE = re.compile(r"nplurals\s*=\s*([0-9]{1,3})\s*;\s*plural\s*=\s*([^;]+)")


class Plurals:
    """The forms of a language."""

    def __init__(self, rule: str) -> None:
        """`rule` as the header of a catalogue has it. Raises `ValueError` for one that cannot be read."""
        found = _RULE.search(rule)
        if found is None or not 1 <= int(found[1]) <= 8:
            raise ValueError(f"Plural-Forms {rule!r:.80} cannot be read")
        self.rule, self.count = rule, int(found[1])
        form = c2py(found[2].strip())
        try:
            one, many = form(1), form(5)
        except ZeroDivisionError:
            one = many = -1
        if min(one, many) < 0:
            raise ValueError(f"Plural-Forms {rule!r:.80} gives no form for some numbers")
        self.one: int = min(one, self.count - 1)
        """The form of one thing."""
        self.many: int = min(many, self.count - 1)
        """That of five."""


def plurals_of(language: str | None) -> Plurals | None:
    """None for a language that is not known."""
    code = (language or "").replace("-", "_").lower()
    rule = RULES.get(code) or RULES.get(code.partition("_")[0])
    return None if rule is None else Plurals(rule)
