"""Words that turn a statement around, in a few languages: negators, what negates without saying so, opposites.

Spelled as `terms.normalise` spells them.
"""

from citewire_verify.text.stop_words import words_of

NEGATORS = words_of("""
    not never no nor neither cannot none nobody nothing nowhere without aint
    nicht kein keine keinen keiner keinem keines nie niemals weder ohne
    pas jamais aucun aucune rien sans
    nunca jamas tampoco ningun ninguna ninguno nada
    nessun nessuna nessuno niente senza
    nao nem nenhum nenhuma
    niet geen nooit zonder
    не нет ни без никогда nie nigdy bez δεν μην değil degil inte ikke
    ليس لا لم لن ليست بدون לא אין בלי नहीं न ไม่
""")
LANGUAGE_NEGATORS = {
    "es": words_of("no sin"),
    "it": words_of("non mai"),
    "fr": words_of("ne non"),
    "pt": words_of("sem"),
}
"""Negators that are other words in other languages."""
ALL_NEGATORS = NEGATORS.union(*LANGUAGE_NEGATORS.values())
"""Negators of any language, for a word that a sentence adds to what it repeats."""
POSTPOSED_NEGATORS = words_of("nicht niet pas jamais plus nie inte ikke değil degil")
"""Negators that may follow what they negate."""
TRANSPARENT = words_of(
    "possible able allowed permitted possibly need necessary want seem appear considered known said supposed meant "
    "expected believed going longer"
)
"""Words that don't end a negator's scope: what isn't possible to do can't be done."""
NEGATED_FORMS = {
    "impossible": "possible", "unable": "able", "illegal": "legal", "unlikely": "likely", "unavailable": "available",
    "unknown": "known", "invalid": "valid", "incorrect": "correct", "inactive": "active", "unlimited": "limited",
    "unsuccessful": "successful", "uncommon": "common", "unsafe": "safe", "unnecessary": "necessary",
    "unsupported": "supported", "unaffected": "affected", "unchanged": "changed", "unrelated": "related",
    "incompatible": "compatible", "incomplete": "complete", "inaccurate": "accurate", "unpaid": "paid",
    "unauthorised": "authorised", "unauthorized": "authorized", "unrestricted": "restricted",
    "inconsistent": "consistent",
}  # fmt: skip
"""Words that negate another one."""
TRANSPARENT_FORMS = words_of("impossible unable unlikely unnecessary illegal")
SOFT_NEGATORS = words_of("""
    fail fails failed failing failure lack lacks lacked lacking refuse refuses refused deny denies denied denying
    unable hardly barely rarely seldom scarcely except excluding exclude excludes instead rather prevent prevents
    prevented preventing avoid avoids avoided absence absent stop stops stopped cease ceased reject rejects rejected
    prohibit prohibits prohibited forbidden forbid forbids ban bans banned neglect neglected abandoned cancelled
    canceled declined decline contrary false wrong unless unknown unclear kaum selten verhindert verhindern verboten
    ausser sondern salvo sauf nothing nobody none nowhere nichts niemand rien personne nada nadie niente nessuno
""")
"""Words that negate without a negator, so that a paraphrase may have one."""
NOT_NEGATING_AFTER = words_of("only just merely simply least necessarily surprisingly doubt matter nur solo seulement")
"""After a negator: `not only`, `no doubt`; they don't negate what follows."""
COMPARED_WITH_NO = words_of("more less fewer later earlier longer under over above below")
"""After a negator and before `than`: `no more than`; the negator is part of the bound."""
PREFIXES = ("un", "in", "im", "il", "ir", "dis", "non", "mis")

_OPPOSITES = """
    increase/decrease increased/decreased increases/decreases increasing/decreasing before/after more/less
    more/fewer most/least higher/lower highest/lowest high/low first/last always/never all/none win/lose won/lost
    wins/loses allow/prohibit allowed/prohibited allows/prohibits allow/forbid allowed/forbidden permitted/forbidden
    above/below north/south northern/southern east/west eastern/western largest/smallest larger/smaller large/small
    big/small bigger/smaller older/younger oldest/youngest old/new early/late earlier/later earliest/latest
    begin/end began/ended begins/ends open/closed opened/closed include/exclude included/excluded includes/excludes
    including/excluding accept/reject accepted/rejected accepts/rejects agreed/refused success/failure
    successful/unsuccessful succeeded/failed true/false possible/impossible legal/illegal major/minor male/female
    men/women man/woman up/down rise/fall rises/falls rose/fell rising/falling gain/loss gained/lost
    positive/negative best/worst better/worse maximum/minimum max/min import/export imports/exports
    imported/exported buy/sell bought/sold hot/cold left/right strong/weak stronger/weaker fast/slow faster/slower
    long/short longer/shorter rich/poor inside/outside internal/external public/private with/without ancient/modern
    majority/minority many/few support/oppose supported/opposed supports/opposes for/against approved/rejected
    started/stopped start/stop enter/leave entered/left born/died victory/defeat victories/defeats upper/lower
    over/under add/remove added/removed like/unlike common/rare often/rarely frequently/rarely usually/rarely
    easy/difficult enabled/disabled enable/disable active/inactive mandatory/optional required/optional
    visible/invisible direct/indirect directly/indirectly known/unknown equal/unequal complete/incomplete
    able/unable likely/unlikely day/night father/mother son/daughter brother/sister king/queen husband/wife boy/girl
    alive/dead day/night summer/winter domestic/foreign simple/complex expanded/shrank expand/shrink grew/shrank
    encourage/discourage encouraged/discouraged opens/closes open/close opens/closed opening/closing hire/fire
    hired/fired hires/fires morning/evening enacted/repealed cheaper/costlier warmer/colder warmer/cooler
    hotter/colder warm/cool heating/cooling credit/debit lender/borrower employer/employee buyer/seller
    landlord/tenant gross/net primary/secondary full/empty inbound/outbound horizontal/vertical
    clockwise/counterclockwise online/offline wet/dry thick/thin wide/narrow guilty/innocent winner/loser
    profit/loss profits/losses surplus/deficit deposit/withdrawal arrive/depart arrives/departs arrived/departed
    arrival/departure passed/failed appear/disappear appeared/disappeared accelerate/decelerate odd/even
    northeast/southwest northwest/southeast senior/junior superior/inferior interior/exterior input/output
    inner/outer top/bottom forward/backward forwards/backwards must/may must/optional all/some always/sometimes
    compulsory/voluntary mandatory/voluntary steigt/sinkt stieg/sank steigen/sinken gestiegen/gesunken
    erhoht/gesenkt zunahme/abnahme mindestens/hochstens aumento/disminuyo aumenta/disminuye subio/bajo sube/baja
    maximo/minimo abierto/cerrado augmente/diminue augmentation/diminution hausse/baisse maximum/minimum
    ouvert/ferme выросло/снизилось вырос/снизился выросла/снизилась увеличился/уменьшился увеличилось/уменьшилось
    увеличилась/уменьшилась больше/меньше same/different beneath/above under/above upper/lower natural/artificial
    permanent/temporary wide/narrow heavy/light deep/shallow urban/rural native/foreign good/bad expensive/cheap
    deny/admit denied/admitted deny/confirm denied/confirmed confirmed/refuted love/hate loved/hated friend/enemy
    ally/enemy allies/enemies present/absent lend/borrow lent/borrowed teach/learn taught/learned send/receive
    sent/received give/take gave/took push/pull ascend/descend ascending/descending attack/defend attacked/defended
    ahead/behind dark/bright loud/quiet tall/short high/shallow clean/dirty safe/dangerous young/old near/far
    parent/child teacher/student doctor/patient host/guest master/servant attractive/repulsive conservative/liberal
    democratic/undemocratic majority/minority vertical/horizontal rural/metropolitan lengthened/shortened
    widened/narrowed strengthened/weakened improved/worsened improve/worsen improves/worsens promoted/demoted
    mehr/weniger vor/nach offnet/schliesst offen/geschlossen kauft/verkauft erster/letzter ouvre/ferme abre/cierra
    abre/fecha apre/chiude opent/sluit открывается/закрывается ανοιγει/κλεινει يفتح/يغلق immer/nie erlaubt/verboten
    gross/klein hoch/niedrig neu/alt erste/letzte mas/menos antes/despues siempre/nunca mayor/menor grande/pequeno
    primero/ultimo plus/moins avant/apres toujours/jamais grand/petit premier/dernier piu/meno prima/dopo sempre/mai
    maggiore/minore
"""


_UP = words_of("""
    increase increased increases increasing rise rises rose risen rising grow grows grew grown growing climb climbs
    climbed climbing soar soared soaring raise raises raised raising boost boosts boosted doubled tripled
""")
_DOWN = words_of("""
    decrease decreased decreases decreasing fall falls fell fallen falling drop drops dropped dropping decline declines
    declined declining shrink shrinks shrank shrunk shrinking reduce reduces reduced reducing lowers lowered lowering
    sink sinks sank plunge plunged plunging halved
""")


def _pairs() -> dict[str, frozenset[str]]:
    opposites: dict[str, set[str]] = {}
    for pair in _OPPOSITES.split():
        word, other = pair.split("/")
        opposites.setdefault(word, set()).add(other)
        opposites.setdefault(other, set()).add(word)
    for words, others in ((_UP, _DOWN), (_DOWN, _UP)):
        for other_word in words:
            opposites.setdefault(other_word, set()).update(others)
    return {other_word: frozenset(others) for other_word, others in opposites.items()}


OPPOSITES = _pairs()
"""Each word with its opposites."""

_SYNONYMS = """
    big/large/huge/great/vast begin/start/commence began/started/commenced begins/starts/commences begun/started
    buy/purchase/acquire bought/purchased/acquired show/demonstrate/display/exhibit shows/demonstrates/displays
    showed/demonstrated shown/demonstrated use/employ/utilise/utilize used/employed/utilised/utilized uses/employs
    many/numerous/several/multiple help/assist/aid helped/assisted/aided helps/assists called/named/termed/known/dubbed
    build/construct built/constructed/erected make/create/produce made/created/produced/formed makes/creates/produces
    nearly/almost roughly/about/approximately/around/circa usually/generally/typically/normally often/frequently
    main/principal/chief/primary/major wide/broad widely/broadly located/situated/lies/found/based area/region/zone
    country/nation/state city/town end/finish/conclude ended/finished/concluded get/obtain/receive/gain
    got/obtained/received/gained gets/obtains/receives give/provide/supply/offer gave/provided/supplied/offered
    gives/provides/supplies/offers given/provided need/require needs/requires needed/required keep/retain/maintain
    kept/retained/maintained try/attempt tried/attempted choose/select/pick chose/selected chosen/selected/picked
    fix/repair fixed/repaired say/state/declare said/stated/declared/claimed says/states/claims happen/occur
    happened/occurred/took happens/occurs think/believe/consider thought/believed/considered/regarded
    goods/products/items company/firm/business/corporation job/work/role/position people/persons/individuals/residents
    inhabitants/residents/people quick/fast/rapid quickly/rapidly/fast whole/entire/complete important/significant/key
    significant/considerable/substantial kid/child kids/children doctor/physician car/automobile/vehicle movie/film
    world/globe global/worldwide/international answer/reply/response rule/regulation law/statute/legislation
    tenant/renter/lessee landlord/lessor buyer/purchaser seller/vendor worker/employee workers/employees/staff
    firm/company fee/charge/cost price/cost costs/charges/prices salary/pay/wage wages/pay
    grow/increase/rise/expand/climb grew/increased/rose/expanded/climbed growing/increasing/rising growth/increase/rise
    fall/decrease/decline/drop/shrink fell/decreased/declined/dropped/shrank falling/decreasing/declining
    reduce/lower/cut reduced/lowered/cut allow/permit/let/enable allowed/permitted allows/permits/lets/enables
    ban/prohibit/forbid banned/prohibited/forbidden stop/halt/cease stopped/halted/ceased leave/depart left/departed
    arrive/come arrived/came open/launch opened/launched/inaugurated launched/introduced/released release/publish
    released/published establish/found/set/create established/founded/created/set include/contain/comprise/feature
    includes/contains/comprises/features/has included/contained/comprised consist/comprise consists/comprises
    become/turn live/reside/dwell lived/resided/dwelt lives/resides die/perish died/perished kill/slay killed/slain
    win/earn won/earned/gained/received defeat/beat defeated/beat/beaten attack/assault fight/battle/combat war/conflict
    join/enter joined/entered rename/call renamed/called change/alter/modify changed/altered/modified
    different/various/distinct/diverse similar/comparable/alike same/identical hard/difficult/tough easy/simple
    rich/wealthy poor/impoverished old/ancient/aged new/novel/recent small/little/tiny/minor good/fine/great bad/poor
    famous/well/renowned/noted/celebrated/known study/research/investigation method/technique/approach
    result/outcome/consequence results/outcomes goal/aim/objective/purpose cause/reason effect/impact influence/impact
    part/portion/section/component amount/quantity number/count kind/type/sort kinds/types/sorts type/form
    close/near/adjacent near/close nearby/close among/between amid/among inside/within across/throughout
    however/nevertheless/but/though/yet also/additionally/too/furthermore/moreover hence/thus/therefore/consequently
    because/since/as due/owing while/whereas/although although/though approximately/about/roughly
    currently/presently/now formerly/previously/earlier subsequently/later/afterwards/then initially/originally/first
    eventually/finally/ultimately quite/rather very/highly/extremely mainly/mostly/chiefly/primarily/largely
    component/element/part components/elements/parts idea/concept made/did purpose/function
    particularly/especially/notably completely/entirely/fully/totally
"""
"""Words that are interchangeable, so that replacing one with the other changes nothing."""


def _synonyms() -> dict[str, frozenset[str]]:
    synonyms: dict[str, set[str]] = {}
    for group in _SYNONYMS.split():
        words = group.split("/")
        for word in words:
            synonyms.setdefault(word, set()).update(words)
    return {word: frozenset(others) for word, others in synonyms.items()}


SYNONYMS = _synonyms()
"""Each word with those that may replace it."""
OPENERS = words_of("""
    the a an this that these those it its he she they his her their there here in on at by for from with without of
    to as and or but so if when while where after before during since until although though because however moreover
    furthermore additionally also then thus therefore hence meanwhile finally first second third firstly secondly
    lastly next later earlier overall generally typically usually often sometimes originally initially historically
    currently today yes no not only some many most few several each every all both either neither one two three four
    five six seven eight nine ten various other others another such similarly likewise instead indeed specifically
    according half quarter based due despite between among through under over within what which who whose how why
    you your we our i my please note being having once unlike like per upon even just still yet back together aside
    apart
""")
"""Words that begin English sentences with a capital without being names."""
FRAMES = words_of("""
    according document documents passage passages source sources text texts context information provided states stated
    mentions mentioned notes noted describes described explains explained specifically essentially basically overall
    laut dokument dokumente dokumenten text texten quelle quellen zufolge selon document documents texte source segun
    documento documentos texto fuente secondo documenti testo fonte conforme volgens
""")
"""Words of an answer about its sources rather than about their subject."""
