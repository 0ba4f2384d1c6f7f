"""Codes of languages: ISO 639-1 and, where it has one, that of ISO 639-3 that means the same language.

    de  deu  ger  de-AT  de_DE  deu_Latn

Of languages that ISO 639-3 takes apart, the member that models mean by the whole is among its codes: arb of
Arabic, swh of Swahili.
"""

import re

_CODES = """
aa aar, ab abk, ae ave, af afr, ak aka, am amh, an arg, ar ara arb, as asm, av ava, ay aym ayr, az aze
azj, ba bak, be bel, bg bul, bi bis, bm bam, bn ben, bo bod tib, br bre, bs bos, ca cat, ce che, ch cha,
co cos, cr cre, cs ces cze, cu chu, cv chv, cy cym wel, da dan, de deu ger, dv div, dz dzo, ee ewe, el
ell gre, en eng, eo epo, es spa, et est ekk, eu eus baq, fa fas per pes, ff ful fuv, fi fin, fj fij, fo
fao, fr fra fre, fy fry, ga gle, gd gla, gl glg, gn grn, gu guj, gv glv, ha hau, he heb iw, hi hin, ho
hmo, hr hrv, ht hat, hu hun, hy hye arm, hz her, ia ina, id ind in, ie ile, ig ibo, ii iii, ik ipk, io
ido, is isl ice, it ita, iu iku, ja jpn, jv jav, ka kat geo, kg kon, ki kik, kj kua, kk kaz, kl kal, km
khm, kn kan, ko kor, kr kau knc, ks kas, ku kur kmr, kv kom, kw cor, ky kir, la lat, lb ltz, lg lug, li
lim, ln lin, lo lao, lt lit, lu lub, lv lav lvs, mg mlg plt, mh mah, mi mri mao, mk mkd mac, ml mal, mn
mon khk, mr mar, ms msa may zsm, mt mlt, my mya bur, na nau, nb nob, nd nde, ne nep npi, ng ndo, nl nld
dut, nn nno, no nor, nr nbl, nv nav, ny nya, oc oci, oj oji, om orm gaz, or ori ory, os oss, pa pan, pi
pli, pl pol, ps pus pbt, pt por, qu que quy, rm roh, rn run, ro ron rum, ru rus, rw kin, sa san, sc srd,
sd snd, se sme, sg sag, sh hbs, si sin, sk slk slo, sl slv, sm smo, sn sna, so som, sq sqi alb als, sr
srp, ss ssw, st sot, su sun, sv swe, sw swa swh, ta tam, te tel, tg tgk, th tha, ti tir, tk tuk, tl tgl,
tn tsn, to ton, tr tur, ts tso, tt tat, tw twi, ty tah, ug uig, uk ukr, ur urd, uz uzb uzn, ve ven, vi
vie, vo vol, wa wln, wo wol, xh xho, yi yid ydd, yo yor, za zha, zh zho chi cmn, zu zul
"""
_PARTS = [row.split() for row in " ".join(_CODES.split()).split(", ")]
_SHORT = {code: short for short, *codes in _PARTS for code in codes}
_SCRIPTS = {"tw": "hant", "hk": "hant", "mo": "hant", "cn": "hans", "sg": "hans"}
"""That regions write Chinese in."""
_NAMES = """
af Afrikaans, am Amharic, ar Arabic, as Assamese, az Azerbaijani, be Belarusian, bg Bulgarian, bn Bengali,
bo Tibetan, br Breton, bs Bosnian, ca Catalan, ceb Cebuano, co Corsican, cs Czech, cy Welsh, da Danish,
de German, el Greek, en English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish,
fil Filipino, fo Faroese, fr French, fy Western Frisian, ga Irish, gd Scottish Gaelic, gl Galician,
gn Guarani, gu Gujarati, ha Hausa, haw Hawaiian, he Hebrew, hi Hindi, hr Croatian, hsb Upper Sorbian,
ht Haitian Creole, hu Hungarian, hy Armenian, id Indonesian, ig Igbo, is Icelandic, it Italian, ja Japanese,
jv Javanese, ka Georgian, kk Kazakh, km Khmer, kn Kannada, ko Korean, ku Kurdish, ky Kyrgyz, la Latin,
lb Luxembourgish, lo Lao, lt Lithuanian, lv Latvian, mg Malagasy, mi Maori, mk Macedonian, ml Malayalam,
mn Mongolian, mr Marathi, ms Malay, mt Maltese, my Burmese, nb Norwegian Bokmål, ne Nepali, nl Dutch,
nn Norwegian Nynorsk, no Norwegian, oc Occitan, or Odia, pa Punjabi, pl Polish, ps Pashto, pt Portuguese,
ro Romanian, ru Russian, rw Kinyarwanda, sa Sanskrit, sd Sindhi, si Sinhala, sk Slovak, sl Slovenian,
sm Samoan, sn Shona, so Somali, sq Albanian, sr Serbian, st Southern Sotho, su Sundanese, sv Swedish,
sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai, ti Tigrinya, tk Turkmen, tl Tagalog, tr Turkish,
tt Tatar, ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, wo Wolof, xh Xhosa, yi Yiddish,
yo Yoruba, zh Chinese, zu Zulu
"""
NAMES = dict(each.split(maxsplit=1) for each in " ".join(_NAMES.split()).split(", "))
"""In English, by ISO code."""
_NAMED = {name.lower(): code for code, name in NAMES.items()}


def base(code: str) -> str:
    """The language alone, in two letters where it has such a code: de for de-AT, deu_Latn and ger."""
    first = re.split("[-_]", code.strip())[0].lower()
    return _SHORT.get(first, first)


def known(code: str) -> bool:
    return base(code) in {short for short, *_ in _PARTS}


def script(code: str) -> str | None:
    """As far as the code says it: hant for zho_Hant and for zh-TW."""
    parts = re.split("[-_]", code.strip().lower())[1:]
    said = next((part for part in parts if len(part) == 4 and part.isalpha()), None)
    return said or next((_SCRIPTS[part] for part in parts if base(code) == "zh" and part in _SCRIPTS), None)


def same(one: str, other: str) -> bool:
    """Whether two codes are of one language: de, DE, de-AT, deu_Latn."""
    return base(one) == base(other)


def code_named(name: str) -> str | None:
    """The code of a language by its name in English; what stands in brackets behind it may be anything."""
    return _NAMED.get(name.partition("(")[0].strip().lower())
