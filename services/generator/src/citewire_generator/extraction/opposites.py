"""Words that turn a statement around: opposites, prefixes of negation, and words that narrow a claim to an extreme.

A question that asks for the opposite of what a passage says reads almost like one that the passage answers. The lists
are short, of common words; a language or a word that isn't in them changes nothing.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final

from citewire_verify.text.stop_words import words_of
from citewire_verify.text.terms import stem

_PAIRS: Final = """
    increase decrease; increased decreased; rise fall; rise decline; grow shrink; grew shrank; expand contract;
    expansion contraction; raise lower; raised lowered; reduce increase; improve worsen; improved worsened;
    strengthen weaken; gain loss; gained lost; profit loss; surplus deficit; high low; higher lower; highest lowest;
    large small; larger smaller; largest smallest; big little; long short; longer shorter; longest shortest;
    tall short; tallest shortest; wide narrow; broad narrow; deep shallow; thick thin; heavy light; dark light;
    strong weak; stronger weaker; strongest weakest; fast slow; faster slower; fastest slowest; hot cold; warm cold;
    wet dry; hard soft; rich poor; easy difficult; easy hard; good bad; better worse; best worst; early late;
    earlier later; earliest latest; old new; older newer; oldest newest; old young; oldest youngest; ancient modern;
    first last; past future; before after; begin end; began ended; start end; started ended; started stopped;
    start finish; open close; opened closed; arrive leave; enter leave; entered left; join leave; joined left;
    appear disappear; more less; more fewer; most least; many few; majority minority; major minor; maximum minimum;
    all none; always never; everyone nobody; north south; northern southern; east west; eastern western; left right;
    top bottom; upper lower; above below; over under; front back; inside outside; internal external; inner outer;
    near far; nearest farthest; closest furthest; public private; rural urban; civilian military; domestic foreign;
    natural artificial; permanent temporary; voluntary compulsory; mandatory optional; formal informal; legal illegal;
    active passive; direct indirect; simple complex; common rare; complete partial; same different; similar different;
    primary secondary; superior inferior; positive negative; plus minus; odd even; finite infinite; true false;
    liquid solid; liquid gas; gas solid; male female; men women; man woman; boy girl; father mother; son daughter;
    brother sister; husband wife; king queen; win lose; won lost; victory defeat; success failure; succeed fail;
    succeeded failed; accept reject; accepted rejected; agree disagree; agreed disagreed; support oppose;
    supported opposed; allow prevent; allow prohibit; allow forbid; allowed prohibited; allowed forbidden;
    include exclude; included excluded; including excluding; encourage discourage; encouraged discouraged;
    attack defend; attacked defended; offensive defensive; friend enemy; ally enemy; love hate; like dislike;
    create destroy; created destroyed; build destroy; built destroyed; build demolish; buy sell; bought sold;
    lend borrow; give take; gave took; add remove; added removed; push pull; attract repel; absorb emit; import export;
    exports imports; teach learn; teacher student; employer employee; buyer seller; cause effect; birth death;
    born died; live die; alive dead; present absent; day night; summer winter; spring autumn; unite divide;
    united divided; combine separate; gradual sudden; ascend descend; conservative liberal; catholic protestant;
    hire fire; hired fired;
    gross klein; alt neu; alt jung; hoch niedrig; lang kurz; erste letzte; mehr weniger; meisten wenigsten;
    maximal minimal; innen aussen; nord sud; osten westen; offen geschlossen; gewinn verlust; sieg niederlage;
    import export; steigen sinken; beginn ende; fruh spat; stark schwach; schnell langsam; vor nach;
    grande pequeno; alto bajo; largo corto; primero ultimo; mayor menor; mas menos; maximo minimo; norte sur;
    este oeste; antes despues; dentro fuera; viejo nuevo; ganar perder; aumento disminucion; aumentar disminuir;
    grand petit; haut bas; long court; premier dernier; plus moins; nord sud; est ouest; avant apres; interieur
    exterieur; vieux nouveau; gagner perdre; augmenter diminuer; augmentation diminution
"""
_PREFIXES: Final = ("un", "in", "im", "non", "dis", "ir", "il", "anti", "mis")
_EXTREMES: Final = words_of("""
    only sole entire every exactly least most first last never always besides except outside instead lack lacked
    lacks lacking fail failed fails refuse refused refuses reject rejected rejects oppose opposed unable prevent
    prevented prevents avoid avoided stop stopped stops without
    nur einzige niemals immer ausser ohne meisten wenigsten erste letzte
    solo unico unica nunca siempre excepto primero primera ultimo ultima
    seul seule jamais toujours sauf premier premiere dernier derniere
""")
_SHORTEST_SUPERLATIVE: Final = 6
_NO_SUPERLATIVES: Final = words_of("""
    arrest attest breast chest conquest contest digest forest guest harvest honest infest inquest interest invest
    manifest midwest modest northwest protest request rainforest reinvest southwest suggest
""")


def is_opposed(asked: frozenset[str], words: frozenset[str]) -> bool:
    """Whether one of the question's words is missing while its opposite is there.

    Args:
        asked: Keys of all words of the question.
        words: Keys of all words of a passage and its headings.
    """
    opposites = _opposites()
    return any(
        not opposites.get(key, frozenset()).isdisjoint(words) or any(form in words for form in _turned(key))
        for key in asked - words
    )


def is_extreme(word: str) -> bool:
    """Whether a normalised word narrows a claim to one, all, none or the end of a scale."""
    return word in _EXTREMES or (
        word.endswith("est") and len(word) >= _SHORTEST_SUPERLATIVE and word not in _NO_SUPERLATIVES
    )


def _turned(key: str) -> Iterator[str]:
    """A word without its negating prefix, and with each of these."""
    for prefix in _PREFIXES:
        if key.startswith(prefix) and len(key) - len(prefix) > 3:
            yield key[len(prefix) :]
        if len(key) > 3:
            yield prefix + key


@cache
def _opposites() -> dict[str, frozenset[str]]:
    opposites: dict[str, set[str]] = {}
    for pair in _PAIRS.split(";"):
        word, other = (stem(text) for text in pair.split())
        opposites.setdefault(word, set()).add(other)
        opposites.setdefault(other, set()).add(word)
    return {key: frozenset(others) for key, others in opposites.items()}
