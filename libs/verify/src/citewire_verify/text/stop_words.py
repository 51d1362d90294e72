"""Words that carry no topic, per language: they neither support a sentence nor count as missing from it.

Spelled as `terms.normalise` spells them: lower case, Latin letters without accents.
"""

_ENGLISH = """
a about above after again against all also am an and any are aren as at be because been before being below between
both but by can could did didn do does doesn doing don down during each either else ever few for from further had has
hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just let ll may
me might mine more most much must my myself neither no nor not now of off on once only or other our ours ourselves out
over own per please re said same say says shall she should since so some such tell than that the their theirs them
themselves then there these they this those through to too under until up upon us ve very via was wasn we were weren
what when where whether which while who whom whose why will with within without won would you your yours yourself s t
d m
"""
_GERMAN = """
aber als am an auch auf aus bei bin bis das dass dem den der des dessen die dies diese diesem diesen dieser dieses
doch du durch ein eine einem einen einer eines er es fur hat hatte haben ich ihr ihre im in ist ja kann kein keine mit
nach nicht noch nur oder ohne sehr sein seine sich steht stehen sie sind so uber um und uns unter vom von vor war
waren warum was welche welchem welchen welcher welches wem wen wenn wer werden wie wird wo wurde wurden zu zum zur
"""
_FRENCH = """
a au aux avec ce ces cet cette comme d dans de des disent dit du elle elles en est et eu il ils j je l la le les leur
leurs lui ma mais me mes mon n ne nos notre nous on ont ou par pas plus pour qu quand que quel quelle quelles quels
qui quoi s sa sans se ses si son sont sur ta te tes ton tu un une vos votre vous combien comment pourquoi y
"""
_SPANISH = """
a al algo como con cual cuales cuando cuanta cuantas cuanto cuantos de del desde dice dicen donde el ella ellas ellos
en entre era es esa ese eso esta estan estas este esto estos fue fueron ha hay la las le les lo los mas me mi mis muy
no nos o para pero por porque que quien quienes se ser si sin sobre son su sus tambien te tiene tu un una uno unos y
ya
"""
_ITALIAN = """
a ad ai al alla alle anche che chi ci come con cosa da dal dalla degli dei del della delle di dice dicono dove e ed
era gli ha hanno i il in io la le lo loro ma mi ne nei nel nella no non o per perche piu quale quali quando quanto
quanti se si sono su sua sue sui sul sulla suo suoi tra un una uno
"""
_PORTUGUESE = """
a ao aos as com como da das de diz dizem do dos e ela elas ele eles em entre era essa esse esta este foi foram ha isso
isto ja la mais mas me na nas nao nem no nos o onde os ou para pela pelas pelo pelos por porque quais qual quando
quanto quantos que quem se sem ser seu seus sua suas tem um uma
"""
_DUTCH = """
aan al als bij dan dat de der deze die dit door een en er had hebben heeft het hij hoe hoeveel ik in is je kan maar
met naar niet nog of om onder ons ook staan staat op over te tot uit van voor waar waarom wanneer was wat welke werd
wie wij wordt ze zich zij zijn zo zou
"""


def words_of(text: str) -> frozenset[str]:
    """Returns a list of words as a set."""
    return frozenset(text.split())


STOP_WORDS_BY_LANGUAGE = {
    "en": words_of(_ENGLISH),
    "de": words_of(_GERMAN),
    "fr": words_of(_FRENCH),
    "es": words_of(_SPANISH),
    "it": words_of(_ITALIAN),
    "pt": words_of(_PORTUGUESE),
    "nl": words_of(_DUTCH),
}
STOP_WORDS = frozenset[str]().union(*STOP_WORDS_BY_LANGUAGE.values())
