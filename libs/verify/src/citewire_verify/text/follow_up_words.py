"""The marks of a follow-up by language: data for `follow_ups`, with `follow_up_scripts` for non-Latin scripts.

Words are spelled as `terms.normalise` spells them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from citewire_verify.text.stop_words import words_of

_NEVER: Final = re.compile(r"(?!)")
_NONE: Final = frozenset[str]()


def phrases(text: str) -> re.Pattern[str]:
    """Phrases, one per line, that end at the end of a word."""
    lines = [" ".join(line.split()) for line in text.strip().splitlines()]
    return re.compile(rf"(?:{'|'.join(lines)})(?!\w)")


@dataclass(frozen=True, slots=True)
class Language:
    """A language that writes spaces between words."""

    openers: re.Pattern[str]
    """Beginnings of questions that continue the previous one."""
    pronouns: frozenset[str]
    """Words that refer to a person or thing named before."""
    question_words: frozenset[str]
    """Question words."""
    light: frozenset[str]
    """Words that say little about a question's topic, besides stop words."""
    pointers: frozenset[str] = _NONE
    """Words that refer back, but may also precede a noun or open a clause."""
    articles: frozenset[str] = _NONE
    """Articles before a noun to which a pronoun may refer."""
    definite: frozenset[str] = _NONE
    """Definite articles; empty if the language uses them before any noun."""
    complements: frozenset[str] = _NONE
    """Words after a noun that specify which one is meant."""
    verbs: frozenset[str] = _NONE
    """Auxiliaries, which precede the subject of a question."""
    possessives: frozenset[str] = _NONE
    """Pronouns that usually refer to the subject of their own question."""
    prepositions: frozenset[str] = _NONE
    """Words before a pronoun that isn't a subject."""
    general: frozenset[str] = _NONE
    """Pronouns that may mean people in general."""
    polite: frozenset[str] = _NONE
    """Polite forms of pronouns, which address the reader."""
    empty_subjects: re.Pattern[str] = field(default=_NEVER)
    """Expressions in which a pronoun, written between `<` and `>`, refers to nothing."""
    capital_nouns: bool = False
    """Whether nouns are capitalised like names."""
    drops_subjects: bool = False
    """Whether a verb alone may refer to a person or thing named before."""

    @property
    def little(self) -> frozenset[str]:
        """Words that aren't a topic, besides stop words."""
        return self.light | self.question_words | self.pronouns


LATIN: Final[Mapping[str, Language]] = {
    "en": Language(
        openers=phrases("""
            and
            but
            what about
            how about
            what else
            who else
            where else
            anything else
            any others?
            any more
            tell me more
            more about
            why not
            why so
            how so
            such as
            or
            also
            then
        """),
        pronouns=words_of("it its he him his himself she her hers herself they them their theirs themselves itself"),
        pointers=words_of("this that these those there ones same former latter then"),
        possessives=words_of("its his her their themselves himself herself itself"),
        articles=words_of("the a an"),
        definite=words_of("the"),
        complements=words_of("of in on for from at to by with between during after before"),
        verbs=words_of(
            "is are was were am do does did has have had can could will would shall should may might must isn aren"
            " wasn weren doesn didn don hasn haven hadn"
        ),
        prepositions=words_of("of to about for in on from with by at into like after before behind"),
        general=words_of("they them their"),
        question_words=words_of("what which who whom whose when where why how"),
        light=words_of("""
            people person someone anyone everyone something anything thing things time times year years date day days
            month first last next much many long old far tall big large often deep high kind type sort name names named
            called mean means meaning work works happen happened happens start started begin began get got make made
            take took use used become became come came go went know known tell explain describe give list example
            examples show main true important different difference else there possible born die died
        """),
        empty_subjects=re.compile(
            r"<it> (?:possible|legal|illegal|true|better|best|safe|ok|okay|necessary|hard|easy|difficult|important"
            r"|worth|good|bad|normal|common|take|cost|mean|feel|matter|help)(?!\w).* (?:to|that|when|if|for)(?!\w)"
            r"|<it> (?:snow|rain|storm)s?(?!\w)|(?:is|are|was|were|be|been|isn|aren) <there>"
            r"|<there> (?:is|are|was|were)(?!\w)"
        ),
    ),
    "de": Language(
        openers=phrases("""
            und
            aber
            oder
            was ist mit
            wie steht es mit
            was noch
            wer noch
            und was
            warum nicht
            sonst noch
            noch was
            mehr dazu
            erzahl mehr
            was gibt es noch
        """),
        pronouns=words_of("""
            er sie ihn ihm ihnen ihr ihre ihrem ihren ihrer ihres sein seine seinem seinen seiner seines es davon damit
            dafur dazu daran darauf daraus darin dabei dagegen daruber darunter dadurch danach deren dessen dort dorthin
        """),
        pointers=words_of("das dies diese dieser dieses diesem diesen jene jener jenes letztere erstere"),
        articles=words_of("der die das den dem des ein eine einen einem einer eines im am zum zur vom beim"),
        complements=words_of("von des der in im bei fur aus"),
        verbs=words_of("""
            ist sind war waren hat haben hatte hatten wird werden wurde wurden kann konnen konnte konnten muss mussen
            darf durfen soll sollen sollte mag macht machen machte tut gibt gab geht
        """),
        polite=frozenset({"Sie", "Ihnen", "Ihr", "Ihre", "Ihrem", "Ihren", "Ihrer", "Ihres"}),
        question_words=words_of("""
            was wer wem wen wessen wann wo wohin woher warum weshalb wieso wie welche welcher welches welchem welchen
            wieviel wieviele wozu womit wofur woran worauf
        """),
        light=words_of("""
            viel viele lange lang alt gross hoch weit oft menschen leute person jemand ding sache zeit jahr jahre tag
            datum erste ersten letzte letzten art name namen heisst hiess bedeutet passiert passierte beginnt begann
            macht gemacht kommt kam geht ging gibt gab weiss wichtig genau geboren gestorben starb funktioniert kostet
            ist sind war waren ja denn eigentlich damals noch mehr
        """),
        empty_subjects=re.compile(r"(?:gibt|gab|geht|ging|heisst|handelt) <es>|<es> (?:gibt|gab|geht|heisst|um)(?!\w)"),
        capital_nouns=True,
    ),
    "fr": Language(
        openers=phrases("""
            et
            mais
            ou bien
            qu en est il
            quoi d autre
            qui d autre
            pourquoi pas
            et pour
            parle m en
            dis m en plus
        """),
        pronouns=words_of("il elle ils elles lui leur leurs cela ca ceci celui celle ceux celles son sa ses"),
        pointers=words_of("la bas dernier derniere"),
        articles=words_of("le la les l un une des du au aux"),
        complements=words_of("de d du des en dans pour"),
        verbs=words_of("""
            est sont etait etaient a ont avait avaient fut furent sera peut peuvent doit fait font va vont faut
        """),
        question_words=words_of("""
            qui que quoi qu quel quelle quels quelles quand ou comment combien pourquoi est ce
        """),
        light=words_of("""
            gens personne chose temps annee annees an ans jour date premier premiere dernier derniere type sorte nom
            appelle appelait signifie veut dire passe commence vient fait mort ne nee c etait ont t
        """),
        empty_subjects=re.compile(
            r"y a t <il>|<il> (?:y|faut|faudrait|s agit|existe|pleut|est (?:possible|vrai|legal))(?!\w)"
        ),
    ),
    "es": Language(
        openers=phrases("""
            y
            e
            pero
            o
            que hay de
            que tal
            que mas
            quien mas
            algo mas
            y si
            por que no
            cuentame mas
        """),
        pronouns=words_of("""
            ella ellos ellas ello eso esto aquello su sus suyo suya consigo alli ahi
        """),
        articles=words_of("el la los las un una unos unas del al lo"),
        complements=words_of("de del en para por con"),
        verbs=words_of("""
            es son era eran fue fueron esta estan estaba ha han habia tiene tienen tenia puede pueden debe hay sera
        """),
        question_words=words_of("""
            que quien quienes cual cuales cuando donde como cuanto cuanta cuantos cuantas por
        """),
        light=words_of("""
            gente persona cosa tiempo ano anos dia fecha primero primera ultimo ultima tipo nombre llama llamaba
            significa paso pasa empezo hizo hace murio nacio nacido vino mucho muchos
        """),
        empty_subjects=re.compile(r"<su> vez|<eso> que"),
        drops_subjects=True,
    ),
    "it": Language(
        openers=phrases("""
            e
            ed
            ma
            o
            che ne dici di
            che altro
            chi altro
            perche no
            e per
            dimmi di piu
        """),
        pronouns=words_of("lui lei esso essa essi esse cio suo sua suoi sue loro"),
        pointers=words_of("questo questa quello quella questi queste"),
        articles=words_of(
            "il lo la i gli le l un uno una del dello della dei degli delle al allo alla ai agli alle nel nella nei"
            " nelle dal dalla sul sulla"
        ),
        complements=words_of("di del della dello dei degli delle in nel nella per"),
        verbs=words_of("e sono era erano ha hanno aveva avevano fu furono puo possono deve sta stanno fa"),
        question_words=words_of("che chi cosa quale quali qual quando dove come quanto quanta quanti quante perche"),
        light=words_of("""
            gente persona cosa tempo anno anni giorno data primo prima ultimo ultima tipo nome chiama chiamava significa
            succede successo inizio fatto nato nata morto morta mori nacque
        """),
        drops_subjects=True,
    ),
    "pt": Language(
        openers=phrases("""
            e
            mas
            ou
            que tal
            o que mais
            quem mais
            mais alguma
            por que nao
            e quanto
            conte mais
        """),
        pronouns=words_of("""
            ele ela eles elas dele dela deles delas nele nela neles nelas isso isto aquilo disso disto seu sua seus suas
            ali
        """),
        articles=words_of("o a os as um uma do da dos das no na nos nas ao aos pelo pela"),
        complements=words_of("de do da dos das em no na para por"),
        verbs=words_of("e sao era eram foi foram esta estao tem tinha tinham ha pode podem deve"),
        question_words=words_of("que quem qual quais quando onde como quanto quanta quantos quantas por porque o"),
        light=words_of("""
            gente pessoa coisa tempo ano anos dia data primeiro primeira ultimo ultima tipo nome chama chamava significa
            aconteceu acontece comecou fez nasceu morreu
        """),
        drops_subjects=True,
    ),
    "nl": Language(
        openers=phrases("""
            en
            maar
            of
            hoe zit het met
            wat nog meer
            wie nog meer
            waarom niet
            vertel meer
            en wat
        """),
        pronouns=words_of("""
            hij zij ze hem haar hen hun ervan daarvan ermee daarmee ervoor daarvoor erover daarover erin daarin erop
            daarop eraan daaraan daar
        """),
        pointers=words_of("dat dit deze die het"),
        articles=words_of("de het een"),
        definite=words_of("de het"),
        complements=words_of("van in op voor bij uit tussen"),
        verbs=words_of("is zijn was waren heeft hebben had hadden wordt worden werd werden kan kunnen kon moet doet"),
        question_words=words_of("wat wie waar wanneer waarom hoe welke welk hoeveel wiens waarvoor waarmee"),
        light=words_of("""
            mensen persoon iemand ding tijd jaar jaren dag datum eerste laatste soort naam heet heette betekent gebeurde
            gebeurt begon begint maakt gemaakt komt kwam gaat ging oud lang groot hoog veel vaak geboren overleden
        """),
        empty_subjects=re.compile(r"<daar> (?:is|zijn|was|waren)(?!\w)"),
    ),
}
"""By the codes of `languages.detect_language`."""
