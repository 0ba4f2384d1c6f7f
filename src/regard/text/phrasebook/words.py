"""The words of the phrasebook: what they mean, how they bend, and what goes with what.

Every word has one translation. Nouns come in kinds, and the kinds decide what makes sense: verbs name the
kinds they are about, and each kind has its adjectives. German verbs are given by infinitive and participle;
`stem` is the stem of du and er where the vowel changes (lesen: du *liest*).
"""

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]
Forms = tuple[str, str, str, str, str]
"""A verb for ich, du, er, wir, sie."""


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    english: str
    english_plural: str
    """Empty where the noun has no plural: milk, bread."""
    german: str
    german_plural: str
    gender: Gender
    weak: bool = False
    """Der Junge, den Jungen: outside the nominative it looks like its plural."""


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    english: str
    german: str
    stem: str = ""
    """What endings are put to, where it differs: müde, ein müd-er Hund."""
    more: tuple[str, str] | None = None
    """The comparative, where it is used."""


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    english: str
    past: str
    german: str
    """The infinitive, without a separable prefix."""
    participle: str
    """Without the prefix too."""
    prefix: str = ""
    stem: str = ""
    sein: bool = False
    """The perfect is made with sein: er ist gegangen."""
    about: str = ""
    """The kinds of its object, or single nouns in English; empty for none."""
    case: Case = "accusative"
    """The case of that object."""
    animals: bool = False
    """Animals do it too."""
    stays: bool = False
    """It may be said where it is done."""
    company: bool = False
    """It may be done with somebody."""
    gift: bool = False
    """It may be done for somebody."""
    willed: bool = True
    """It can be wanted: not so to have, to lose."""
    told: bool = True
    """It can be told to somebody, if it can be wanted."""
    present: Forms | None = None
    """Where the rules would not give it."""


NOUNS: dict[str, tuple[Noun, ...]] = {
    "adult": (
        Noun("man", "men", "Mann", "Männer", "m"),
        Noun("woman", "women", "Frau", "Frauen", "f"),
        Noun("teacher", "teachers", "Lehrer", "Lehrer", "m"),
        Noun("doctor", "doctors", "Arzt", "Ärzte", "m"),
        Noun("neighbour", "neighbours", "Nachbar", "Nachbarn", "m", weak=True),
        Noun("student", "students", "Student", "Studenten", "m", weak=True),
        Noun("friend", "friends", "Freund", "Freunde", "m"),
        Noun("mother", "mothers", "Mutter", "Mütter", "f"),
        Noun("father", "fathers", "Vater", "Väter", "m"),
        Noun("sister", "sisters", "Schwester", "Schwestern", "f"),
        Noun("brother", "brothers", "Bruder", "Brüder", "m"),
        Noun("aunt", "aunts", "Tante", "Tanten", "f"),
        Noun("uncle", "uncles", "Onkel", "Onkel", "m"),
    ),
    "child": (
        Noun("child", "children", "Kind", "Kinder", "n"),
        Noun("boy", "boys", "Junge", "Jungen", "m", weak=True),
        Noun("girl", "girls", "Mädchen", "Mädchen", "n"),
        Noun("daughter", "daughters", "Tochter", "Töchter", "f"),
        Noun("son", "sons", "Sohn", "Söhne", "m"),
    ),
    "animal": (
        Noun("dog", "dogs", "Hund", "Hunde", "m"),
        Noun("cat", "cats", "Katze", "Katzen", "f"),
        Noun("horse", "horses", "Pferd", "Pferde", "n"),
        Noun("bird", "birds", "Vogel", "Vögel", "m"),
        Noun("cow", "cows", "Kuh", "Kühe", "f"),
    ),
    "food": (
        Noun("apple", "apples", "Apfel", "Äpfel", "m"),
        Noun("orange", "oranges", "Orange", "Orangen", "f"),
        Noun("egg", "eggs", "Ei", "Eier", "n"),
        Noun("cake", "cakes", "Kuchen", "Kuchen", "m"),
        Noun("soup", "soups", "Suppe", "Suppen", "f"),
        Noun("potato", "potatoes", "Kartoffel", "Kartoffeln", "f"),
        Noun("bread", "", "Brot", "", "n"),
        Noun("cheese", "", "Käse", "", "m"),
        Noun("meat", "", "Fleisch", "", "n"),
        Noun("rice", "", "Reis", "", "m"),
    ),
    "drink": (
        Noun("water", "", "Wasser", "", "n"),
        Noun("milk", "", "Milch", "", "f"),
        Noun("coffee", "", "Kaffee", "", "m"),
        Noun("tea", "", "Tee", "", "m"),
        Noun("lemonade", "", "Limonade", "", "f"),
        Noun("beer", "", "Bier", "", "n"),
    ),
    "text": (
        Noun("book", "books", "Buch", "Bücher", "n"),
        Noun("letter", "letters", "Brief", "Briefe", "m"),
        Noun("story", "stories", "Geschichte", "Geschichten", "f"),
        Noun("poem", "poems", "Gedicht", "Gedichte", "n"),
        Noun("report", "reports", "Bericht", "Berichte", "m"),
    ),
    "clothes": (
        Noun("coat", "coats", "Mantel", "Mäntel", "m"),
        Noun("shirt", "shirts", "Hemd", "Hemden", "n"),
        Noun("dress", "dresses", "Kleid", "Kleider", "n"),
        Noun("hat", "hats", "Hut", "Hüte", "m"),
        Noun("jacket", "jackets", "Jacke", "Jacken", "f"),
    ),
    "device": (
        Noun("lamp", "lamps", "Lampe", "Lampen", "f"),
        Noun("radio", "radios", "Radio", "Radios", "n"),
        Noun("computer", "computers", "Computer", "Computer", "m"),
        Noun("machine", "machines", "Maschine", "Maschinen", "f"),
    ),
    "opening": (
        Noun("door", "doors", "Tür", "Türen", "f"),
        Noun("window", "windows", "Fenster", "Fenster", "n"),
        Noun("suitcase", "suitcases", "Koffer", "Koffer", "m"),
        Noun("bottle", "bottles", "Flasche", "Flaschen", "f"),
    ),
    "vehicle": (
        Noun("car", "cars", "Auto", "Autos", "n"),
        Noun("bicycle", "bicycles", "Fahrrad", "Fahrräder", "n"),
        Noun("boat", "boats", "Boot", "Boote", "n"),
        Noun("bus", "buses", "Bus", "Busse", "m"),
    ),
    "thing": (
        Noun("key", "keys", "Schlüssel", "Schlüssel", "m"),
        Noun("bag", "bags", "Tasche", "Taschen", "f"),
        Noun("picture", "pictures", "Bild", "Bilder", "n"),
        Noun("ball", "balls", "Ball", "Bälle", "m"),
        Noun("flower", "flowers", "Blume", "Blumen", "f"),
        Noun("cup", "cups", "Tasse", "Tassen", "f"),
        Noun("knife", "knives", "Messer", "Messer", "n"),
    ),
    "surface": (
        Noun("table", "tables", "Tisch", "Tische", "m"),
        Noun("chair", "chairs", "Stuhl", "Stühle", "m"),
        Noun("bed", "beds", "Bett", "Betten", "n"),
    ),
    "place": (
        Noun("garden", "gardens", "Garten", "Gärten", "m"),
        Noun("park", "parks", "Park", "Parks", "m"),
        Noun("house", "houses", "Haus", "Häuser", "n"),
        Noun("room", "rooms", "Zimmer", "Zimmer", "n"),
        Noun("school", "schools", "Schule", "Schulen", "f"),
        Noun("office", "offices", "Büro", "Büros", "n"),
        Noun("city", "cities", "Stadt", "Städte", "f"),
        Noun("hotel", "hotels", "Hotel", "Hotels", "n"),
        Noun("station", "stations", "Bahnhof", "Bahnhöfe", "m"),
        Noun("church", "churches", "Kirche", "Kirchen", "f"),
        Noun("museum", "museums", "Museum", "Museen", "n"),
        Noun("library", "libraries", "Bibliothek", "Bibliotheken", "f"),
    ),
}

NAMES = ("Anna", "Maria", "Lena", "Paul", "Peter", "Tom")

ADJECTIVES: dict[str, Adjective] = {
    adjective.english: adjective
    for adjective in (
        Adjective("old", "alt", more=("older", "älter")),
        Adjective("young", "jung", more=("younger", "jünger")),
        Adjective("new", "neu", more=("newer", "neuer")),
        Adjective("small", "klein", more=("smaller", "kleiner")),
        Adjective("big", "groß", more=("bigger", "größer")),
        Adjective("tall", "groß", more=("taller", "größer")),
        Adjective("strong", "stark", more=("stronger", "stärker")),
        Adjective("clever", "klug", more=("cleverer", "klüger")),
        Adjective("friendly", "freundlich", more=("friendlier", "freundlicher")),
        Adjective("happy", "glücklich", more=("happier", "glücklicher")),
        Adjective("tired", "müde", stem="müd"),
        Adjective("sad", "traurig", more=("sadder", "trauriger")),
        Adjective("famous", "berühmt"),
        Adjective("beautiful", "schön", more=("more beautiful", "schöner")),
        Adjective("expensive", "teuer", stem="teur", more=("more expensive", "teurer")),
        Adjective("cheap", "billig", more=("cheaper", "billiger")),
        Adjective("heavy", "schwer", more=("heavier", "schwerer")),
        Adjective("long", "lang", more=("longer", "länger")),
        Adjective("interesting", "interessant", more=("more interesting", "interessanter")),
        Adjective("fresh", "frisch"),
        Adjective("good", "gut"),
        Adjective("cold", "kalt"),
        Adjective("warm", "warm"),
        Adjective("red", "rot"),
        Adjective("black", "schwarz"),
        Adjective("green", "grün"),
        Adjective("white", "weiß"),
    )
}

DESCRIBES: dict[str, tuple[Adjective, ...]] = {
    kind: tuple(ADJECTIVES[english] for english in words.split())
    for kind, words in {
        "adult": "old young tall strong clever friendly happy tired sad famous",
        "child": "small tall strong clever friendly happy tired sad",
        "animal": "old young small big strong clever tired black white beautiful",
        "food": "fresh good cold warm expensive cheap",
        "drink": "good cold warm expensive cheap",
        "text": "old new long good interesting beautiful sad famous",
        "clothes": "old new red black green white beautiful expensive cheap warm",
        "device": "old new small big good heavy expensive cheap black white",
        "opening": "old new small big heavy red green white",
        "vehicle": "old new small big red black green expensive cheap beautiful",
        "thing": "old new small big red black beautiful expensive cheap",
        "surface": "old new small big heavy white black",
        "place": "old new small big beautiful famous",
    }.items()
}
"""What may be said of each kind of noun."""

SCALES: dict[Adjective, int] = {
    ADJECTIVES[english]: scale
    for scale, group in enumerate(
        (
            "old young new",
            "small big tall",
            "happy tired sad friendly",
            "expensive cheap good",
            "fresh cold warm",
            "red black green white",
        )
    )
    for english in group.split()
}
"""Of two on the same scale only one is said of a thing."""

TRANSITIVE = (
    Verb("read", "read", "lesen", "gelesen", stem="lies", about="text", stays=True),
    Verb("write", "wrote", "schreiben", "geschrieben", about="text", stays=True, gift=True),
    Verb("eat", "ate", "essen", "gegessen", stem="iss", about="food", stays=True),
    Verb("cook", "cooked", "kochen", "gekocht", about="egg soup potato meat rice", gift=True),
    Verb("drink", "drank", "trinken", "getrunken", about="drink", stays=True),
    Verb("order", "ordered", "bestellen", "bestellt", about="food drink", stays=True, gift=True),
    Verb("buy", "bought", "kaufen", "gekauft", about="food text clothes device vehicle thing", gift=True),
    Verb("sell", "sold", "verkaufen", "verkauft", about="clothes device vehicle thing surface food"),
    Verb("wear", "wore", "tragen", "getragen", stem="träg", about="clothes"),
    Verb("put on", "put on", "ziehen", "gezogen", prefix="an", about="coat shirt dress jacket"),
    Verb("turn on", "turned on", "machen", "gemacht", prefix="an", about="device"),
    Verb("turn off", "turned off", "machen", "gemacht", prefix="aus", about="device"),
    Verb("open", "opened", "machen", "gemacht", prefix="auf", about="opening"),
    Verb("close", "closed", "machen", "gemacht", prefix="zu", about="opening"),
    Verb("clean", "cleaned", "putzen", "geputzt", about="opening surface room house office school church"),
    Verb("wash", "washed", "waschen", "gewaschen", stem="wäsch", about="clothes vehicle dog horse"),
    Verb("repair", "repaired", "reparieren", "repariert", about="device vehicle surface", gift=True),
    Verb("look for", "looked for", "suchen", "gesucht", about="adult child animal text clothes thing"),
    Verb("find", "found", "finden", "gefunden", about="child animal text clothes thing", stays=True),
    Verb("lose", "lost", "verlieren", "verloren", about="text clothes thing", willed=False),
    Verb("need", "needed", "brauchen", "gebraucht", about="clothes device vehicle thing", willed=False),
    Verb(
        "have",
        "had",
        "haben",
        "gehabt",
        about="animal device vehicle thing text clothes",
        willed=False,
        present=("habe", "hast", "hat", "haben", "haben"),
    ),
    Verb("love", "loved", "lieben", "geliebt", about="adult child animal text food drink", willed=False),
    Verb("draw", "drew", "zeichnen", "gezeichnet", about="animal thing vehicle house church", gift=True),
    Verb(
        "see",
        "saw",
        "sehen",
        "gesehen",
        stem="sieh",
        about="adult child animal vehicle place thing",
        told=False,
    ),
    Verb("hear", "heard", "hören", "gehört", about="adult child animal car bus", told=False),
    Verb("visit", "visited", "besuchen", "besucht", about="adult child city school church museum library"),
    Verb("ask", "asked", "fragen", "gefragt", about="adult child"),
    Verb("meet", "met", "treffen", "getroffen", stem="triff", about="adult child", stays=True),
    Verb("call", "called", "rufen", "gerufen", prefix="an", about="adult child"),
    Verb("pick up", "picked up", "holen", "geholt", prefix="ab", about="adult child"),
    Verb(
        "invite",
        "invited",
        "laden",
        "geladen",
        prefix="ein",
        about="adult child",
        present=("lade", "lädst", "lädt", "laden", "laden"),
    ),
    Verb("help", "helped", "helfen", "geholfen", stem="hilf", about="adult child", case="dative", stays=True),
    Verb("thank", "thanked", "danken", "gedankt", about="adult child", case="dative"),
    Verb("answer", "answered", "antworten", "geantwortet", about="adult child", case="dative"),
    Verb("follow", "followed", "folgen", "gefolgt", sein=True, about="adult child vehicle", case="dative"),
)

GIVING = (
    Verb("give", "gave", "geben", "gegeben", stem="gib", about="food text thing clothes"),
    Verb("show", "showed", "zeigen", "gezeigt", about="text thing animal clothes device"),
    Verb("bring", "brought", "bringen", "gebracht", about="food drink text thing"),
    Verb("send", "sent", "schicken", "geschickt", about="text thing clothes"),
)
"""Somebody something: two objects."""

INTRANSITIVE = (
    Verb("work", "worked", "arbeiten", "gearbeitet", stays=True, company=True),
    Verb("sleep", "slept", "schlafen", "geschlafen", stem="schläf", stays=True, animals=True),
    Verb("play", "played", "spielen", "gespielt", stays=True, company=True, animals=True),
    Verb("dance", "danced", "tanzen", "getanzt", stays=True, company=True),
    Verb("sing", "sang", "singen", "gesungen", stays=True, company=True),
    Verb("wait", "waited", "warten", "gewartet", stays=True, company=True, animals=True),
    Verb("laugh", "laughed", "lachen", "gelacht", stays=True, company=True),
    Verb("stay", "stayed", "bleiben", "geblieben", sein=True, stays=True, company=True, animals=True),
    Verb("get up", "got up", "stehen", "gestanden", prefix="auf", sein=True),
    Verb("arrive", "arrived", "kommen", "gekommen", prefix="an", sein=True, company=True, told=False),
)

MOVING = (
    Verb("go", "went", "gehen", "gegangen", sein=True, company=True),
    Verb("run", "ran", "laufen", "gelaufen", stem="läuf", sein=True, animals=True),
    Verb("drive", "drove", "fahren", "gefahren", stem="fähr", sein=True, company=True),
    Verb("come", "came", "kommen", "gekommen", sein=True, company=True, animals=True),
)
"""To a place, or into it."""

PUT = Verb("put", "put", "legen", "gelegt", about="text clothes thing")
"""Something onto something."""

BE = Verb("be", "was", "sein", "gewesen", sein=True, present=("bin", "bist", "ist", "sind", "sind"))
COST = Verb("cost", "cost", "kosten", "gekostet")

KIN = "mother father sister brother aunt uncle son daughter"
"""These are mostly somebody's."""
UNOWNED = "man woman boy girl city station church museum library park bus"
"""These are not."""
NEAR = "house school hotel station church museum library"
"""Places that somebody can be behind, or in front of."""
TO = "school station church park hotel museum library office house"
"""Places that somebody goes to."""

Two = tuple[str, str]
"""English and German."""

FREQUENCIES: tuple[Two, ...] = (
    ("often", "oft"),
    ("always", "immer"),
    ("sometimes", "manchmal"),
    ("usually", "meistens"),
)
ALWAYS: tuple[Two, ...] = (
    ("today", "heute"),
    ("in the morning", "am Morgen"),
    ("in the evening", "am Abend"),
    ("on Monday", "am Montag"),
    ("on Friday", "am Freitag"),
    ("on Sunday", "am Sonntag"),
    ("before breakfast", "vor dem Frühstück"),
    ("after work", "nach der Arbeit"),
)
"""Times that go with every tense."""
PRESENT: tuple[Two, ...] = (
    ("now", "jetzt"),
    ("every day", "jeden Tag"),
    ("every week", "jede Woche"),
    ("in summer", "im Sommer"),
)
PAST: tuple[Two, ...] = (
    ("yesterday", "gestern"),
    ("last week", "letzte Woche"),
    ("last year", "letztes Jahr"),
    ("two days ago", "vor zwei Tagen"),
)
FUTURE: tuple[Two, ...] = (
    ("tomorrow", "morgen"),
    ("soon", "bald"),
    ("next week", "nächste Woche"),
    ("next year", "nächstes Jahr"),
)

ONES: tuple[Two, ...] = (
    ("one", "ein"),
    ("two", "zwei"),
    ("three", "drei"),
    ("four", "vier"),
    ("five", "fünf"),
    ("six", "sechs"),
    ("seven", "sieben"),
    ("eight", "acht"),
    ("nine", "neun"),
    ("ten", "zehn"),
    ("eleven", "elf"),
    ("twelve", "zwölf"),
    ("thirteen", "dreizehn"),
    ("fourteen", "vierzehn"),
    ("fifteen", "fünfzehn"),
    ("sixteen", "sechzehn"),
    ("seventeen", "siebzehn"),
    ("eighteen", "achtzehn"),
    ("nineteen", "neunzehn"),
)
TENS: tuple[Two, ...] = (
    ("twenty", "zwanzig"),
    ("thirty", "dreißig"),
    ("forty", "vierzig"),
    ("fifty", "fünfzig"),
    ("sixty", "sechzig"),
    ("seventy", "siebzig"),
    ("eighty", "achtzig"),
    ("ninety", "neunzig"),
)
