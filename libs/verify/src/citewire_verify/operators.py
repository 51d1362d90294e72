"""Words that decide how far a statement goes: bounds, frequencies, duties, quantifiers, conditions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from citewire_verify.text.stop_words import words_of
from citewire_verify.text.terms import normalise
from citewire_verify.tokens import Token
from citewire_verify.units import unit_named


class OperatorKind(Enum):
    """The kind of an operator."""

    BOUND = auto()
    FREQUENCY = auto()
    MODALITY = auto()
    QUANTIFIER = auto()
    CONDITION = auto()


@dataclass(frozen=True, slots=True)
class Operator:
    """One or more tokens with a meaning such as `at least`."""

    kind: OperatorKind
    value: str
    start: int
    """Indices of the tokens, the end exclusive."""
    end: int


_PHRASES = {
    (OperatorKind.BOUND, "more"): """
        more than; over; above; at least; no less than; not less than; no fewer than; not fewer than;
        exceeding;  exceeds; exceed; exceeded; upwards of; in excess of; minimum; minimum of; greater
        than; higher than; larger; than; longer than; older than; beyond; not under; not below; mehr als;
        über; mindestens; wenigstens; nicht weniger als; minimal; nicht unter; älter als; oberhalb; plus
        de; plus que; au moins; au-dessus de; supérieur à; supérieure à; pas moins de; más de; más que;
        al menos; por lo menos; superior a; como mínimo; no menos de; mayores de; mayor de; mínimo; più
        di; più che; almeno; oltre; superiore a; non meno di; minimo; mais de; mais do que; pelo menos;
        ao menos; acima de; no mínimo; não menos de; meer dan; minstens; ten minste; boven; minimaal;
        niet minder dan; более; больше; свыше; не менее; не меньше; как минимум; по меньшей мере; выше;
        старше; πάνω από; περισσότερο από; περισσότερα από; τουλάχιστον; أكثر من; على الأقل; فوق; ما لا
        يقل عن; ավելի քան; առնվազն; से अधिक; से ज्यादा; कम से कम""",
    (OperatorKind.BOUND, "less"): """
        less than; fewer than; under; below; at most; no more than; not more than; not over; not above;
        not exceeding;  up to; maximum; maximum of; lower than; smaller than; shorter than; younger than;
        short of; no longer than; weniger als; unter; höchstens; maximal; bis zu; nicht mehr als; nicht
        über; jünger als; unterhalb; moins de; moins que; au plus; au maximum; inférieur à; inférieure à;
        pas plus de; jusqu'à; au-dessous de; menos de; menos que; como máximo; a lo sumo; inferior a; no
        más de; hasta; menores de; menor de; máximo; meno di; meno che; al massimo; inferiore a; non più
        di; fino a; sotto; massimo; menos do que; no máximo; abaixo de; não mais de; até; minder dan;
        hoogstens; ten hoogste; onder; maximaal; niet meer dan; tot en met; менее; меньше; не более; не
        больше; не свыше; максимум; до; ниже; младше; κάτω από; λιγότερο από; λιγότερα από; το πολύ; έως;
        μέχρι; أقل من; على الأكثر; ما لا يزيد عن; تحت; պակաս քան; առավելագույնը; से कम; अधिकतम; ज्यादा से
        ज्यादा""",
    (OperatorKind.FREQUENCY, "time hour"): """
        hourly; stündlich; horaire; ежечасно; ωριαία; ժամական; प्रति घंटे; every hour""",
    (OperatorKind.FREQUENCY, "time day"): """
        daily; nightly; everyday; täglich; quotidien; quotidienne; quotidiennement; diario; diaria;
        diarios; diarias;  diariamente; giornaliero; giornaliera; giornalmente; quotidiano; quotidiana;
        quotidianamente; diária; dagelijks;  dagelijkse; ежедневно; ежедневный; ежедневная; ежедневные;
        καθημερινά; ημερήσια; يوميا; يومي; օրական; ամենօրյա;  प्रतिदिन; रोज; दैनिक; தினமும்; tous les
        jours; todos los días; todos os dias; tutti i giorni""",
    (OperatorKind.FREQUENCY, "time week"): """
        weekly; wöchentlich; hebdomadaire; hebdomadairement; semanal; semanales; semanalmente;
        settimanale; settimanali;  settimanalmente; semanais; wekelijks; wekelijkse; еженедельно;
        еженедельный; εβδομαδιαία; أسبوعيا; أسبوعي;  շաբաթական; साप्ताहिक; வாரந்தோறும்; toutes les
        semaines; todas las semanas; todas as semanas""",
    (OperatorKind.FREQUENCY, "time fortnight"): "fortnightly; biweekly; vierzehntäglich; quincenal; bimensuel",
    (OperatorKind.FREQUENCY, "time month"): """
        monthly; monatlich; mensuel; mensuelle; mensuellement; mensual; mensuales; mensualmente; mensile;
        mensili;  mensilmente; mensal; mensais; mensalmente; maandelijks; maandelijkse; ежемесячно;
        ежемесячный; μηνιαία; μηνιαίο;  شهريا; شهري; ամսական; मासिक; மாதந்தோறும்; tous les mois; todos
        los meses; todos os meses""",
    (OperatorKind.FREQUENCY, "time quarter"): """
        quarterly; vierteljährlich; quartalsweise; trimestriel; trimestral; trimestrale""",
    (OperatorKind.FREQUENCY, "time year"): """
        yearly; annual; annually; jährlich; annuel; annuelle; annuellement; anual; anuales; anualmente;
        annuale; annuali;  annualmente; anuais; jaarlijks; jaarlijkse; ежегодно; ежегодный; ετήσια;
        ετησίως; سنويا; سنوي; տարեկան; वार्षिक;  सालाना; ஆண்டுதோறும்; tous les ans; todos los años; todos
        os anos""",
    (OperatorKind.MODALITY, "must"): """
        must; shall; have to; has to; had to; need to; needs to; required; requires; require; obliged;
        obligatory;  mandatory; compulsory; muss; müssen; musste; mussten; verpflichtet; doit; doivent;
        devait; devra; devront;  obligatoire; il faut; debe; deben; deberá; deberán; obligatorio;
        obligatoria; tiene que; tienen que; deve; devono;  dovrà; dovranno; obbligatorio; devem; deverá;
        deverão; obrigatório; tem que; moet; moeten; verplicht; должен;  должна; должно; должны; обязан;
        обязаны; необходимо; πρέπει; يجب; պետք է; պարտավոր; अनिवार्य; வேண்டும்""",
    (OperatorKind.MODALITY, "may"): """
        may; might; can; could; allowed; permitted; optional; optionally; darf; dürfen; durfte; kann;
        können; konnte;  konnten; könnte; könnten; peut; peuvent; pouvait; pourra; pourrait; pourraient;
        puede; pueden; podrá; podrán;  podría; podrían; può; possono; potrà; potrebbe; pode; podem;
        poderá; poderão; poderia; mag; mogen; kan; kunnen;  может; могут; можно; вправе; μπορεί; μπορούν;
        يمكن; يجوز; կարող; सकते; सकता; सकती; முடியும்""",
    (OperatorKind.MODALITY, "should"): """
        should; ought; recommended; sollte; sollten; devrait; devraient; debería; deberían; dovrebbe;
        dovrebbero;  deveria; deveriam; следует; चाहिए""",
    (OperatorKind.MODALITY, "will"): """
        will; would; wird; werden; würde; würden; zal; zullen; zou; zouden; будет; будут""",
    (OperatorKind.QUANTIFIER, "all"): """
        all; every; each; always; everyone; everybody; everything; entire; whole; both; alle; aller;
        allen; alles; jede; jeder; jedes; jeden; immer; sämtliche; tous; toutes; toute; chaque; toujours;
        todos; todas; cada; siempre; tutti; tutte; ogni; sempre; iedere; elke; altijd; все; всех; всем;
        каждый; каждая;  всегда; όλοι; όλες; όλα; κάθε; πάντα; جميع; كل; دائما; բոլոր; ամեն; միշտ; सभी;
        सब; हर; हमेशा; அனைத்து; எல்லா""",
    (OperatorKind.QUANTIFIER, "most"): """
        most; mostly; usually; often; generally; typically; majority; meisten; meist; meistens; la
        plupart; souvent; mayoría; la mayoría de; maggior parte; spesso; maioria; meeste; meestal; vaak;
        oft; большинство; часто; अधिकांश""",
    (OperatorKind.QUANTIFIER, "many"): """
        many; several; numerous; multiple; various; viele; vielen; mehrere; beaucoup; plusieurs;
        nombreux; nombreuses; muchos; muchas; varios; varias; molti; molte; diversi; diverse; muitos;
        muitas; vários; várias; veel; verschillende; многие; многих; несколько; πολλοί; πολλές; كثير; शत;
        कई; பல""",
    (OperatorKind.QUANTIFIER, "some"): """
        some; certain; sometimes; occasionally; partly; partially; a few; einige; einigen; manche;
        manchmal; teilweise; certains; certaines; quelques; parfois; algunos; algunas; a veces; alcuni;
        alcune; qualche; talvolta; alguns; algumas; às vezes; sommige; enkele; soms; некоторые;
        некоторых; иногда; μερικοί; μερικές; μερικά; μερικές φορές; بعض; أحيانا; որոշ; कुछ; சில""",
    (OperatorKind.QUANTIFIER, "few"): """
        few; little; rarely; seldom; hardly; barely; scarcely; hardly ever; wenige; wenig; kaum; selten;
        peu; rarement; pocos; pocas; raramente; apenas; pochi; poche; poucos; poucas; weinig; zelden;
        мало; редко; едва; λίγοι; λίγες; σπάνια; قليل; نادرا""",
    (OperatorKind.QUANTIFIER, "only"): """
        only; solely; exclusively; merely; nur; lediglich; ausschließlich; seulement; uniquement;
        solamente; únicamente; sólo; soltanto; solo; somente; alleen; slechts; только; лишь; μόνο; فقط;
        միայն; केवल; सिर्फ""",
    (OperatorKind.CONDITION, "if"): """
        if; when; whenever; provided that; as long as; while; wenn; falls; sofern; si; quand; lorsque;
        lorsqu; cuando; se; quando; als; indien; wanneer; если; когда; αν; εάν; όταν; إذا; عندما; եթե;
        երբ; यदि; अगर; जब""",
    (OperatorKind.CONDITION, "unless"): """
        unless; except; except if; except for; excepting; excluding; other than; but not; apart from;
        besides; save for; es sei denn; außer; außer wenn; ausgenommen; mit Ausnahme; sauf; sauf si; à
        moins que; à moins qu; hormis; excepté; salvo; salvo si; excepto; a menos que; a no ser que; a
        meno che; tranne; eccetto; exceto; a não ser que; tenzij; behalve; uitgezonderd; кроме; за
        исключением; если не; εκτός; εκτός αν; إلا إذا; باستثناء; ما لم; բացի; եթե չ; सिवाय; के अलावा; जब
        तक""",
}  # fmt: skip
_LONGEST = 4
_EACH = frozenset(
    normalise(word)
    for word in words_of("""
        per each every a an pro je jede jeden jedes par chaque por al a la cada ogni por à ao elk elke в каждый каждую
        каждые τον την το κάθε في كل प्रति हर за alle the nel
    """)
)
"""Words that turn a following period into a frequency: `per day`, `each week`."""
_ONE_OF = frozenset({frozenset({"many", "some"}), frozenset({"most", "many"})})
"""Values that people use interchangeably."""


def _table() -> dict[tuple[str, ...], tuple[OperatorKind, str]]:
    table: dict[tuple[str, ...], tuple[OperatorKind, str]] = {}
    for meaning, phrases in _PHRASES.items():
        for phrase in phrases.split(";"):
            words = tuple(normalise(word) for word in re.split(r"[\s'-]+", phrase.strip()) if word)
            if words:
                table.setdefault(words, meaning)
    return table


_TABLE = _table()
_FIRST = frozenset(words[0] for words in _TABLE)


def find_operators(tokens: Sequence[Token]) -> list[Operator]:
    """Finds the operators among tokens; of several that begin at one token, the longest."""
    operators: list[Operator] = []
    at = 0
    while at < len(tokens):
        operator = _operator_at(tokens, at)
        if operator is not None:
            operators.append(operator)
            at = operator.end
        else:
            at += 1
    return operators


def _operator_at(tokens: Sequence[Token], at: int) -> Operator | None:
    normal = tokens[at].normal
    if normal in _FIRST:
        words = tuple(token.normal for token in tokens[at : at + _LONGEST])
        for length in range(len(words), 0, -1):
            meaning = _TABLE.get(words[:length])
            if meaning is not None and (length > 1 or not _period_after(tokens, at)):
                return Operator(*meaning, at, at + length)
    period = _period_after(tokens, at)
    return Operator(OperatorKind.FREQUENCY, period, at, at + 2) if period else None


def _period_after(tokens: Sequence[Token], at: int) -> str:
    """The period of `per day`, `every week`; "" if there is none."""
    if tokens[at].normal not in _EACH or at + 1 == len(tokens):
        return ""
    unit = unit_named(tokens[at + 1].normal)
    return unit if unit.startswith("time ") else ""


def differ(value: str, other: str) -> bool:
    """Whether two values of one kind have different meanings."""
    return value != other and frozenset({value, other}) not in _ONE_OF


# Scripts without spaces: spellings by kind and value.
_UNSPACED = {
    (OperatorKind.BOUND, "less"): (
        r"不超过|不超過|不多于|不高于|少于|少於|低于|低於|不到|不足|至多|最多|小于|多くとも|最大で|高々|"
        r"以下|未満|以内|を下回|より少な"
    ),
    (OperatorKind.BOUND, "more"): (
        r"超过|超過|不少于|不低于|多于|多於|大于|高于|至少|最少|少なくとも|以上|を超え|を上回|より多"
    ),
    (OperatorKind.FREQUENCY, "time hour"): (
        r"每小时|每小時|每时|每個小時|毎時|1時間ごと|一時間ごと|時間に"
    ),
    (OperatorKind.FREQUENCY, "time day"): (
        r"每天|每日|天天|毎日|日ごと|一日に|日に(?!ち)|매일|ทุกวัน|ต่อวัน"
    ),
    (OperatorKind.FREQUENCY, "time week"): (
        r"每周|每週|每星期|毎週|週に|週ごと|매주|ทุกสัปดาห์|ต่อสัปดาห์"
    ),
    (OperatorKind.FREQUENCY, "time month"): (
        r"每月|每个月|每個月|毎月|月に|月ごと|매월|매달|ทุกเดือน|ต่อเดือน"
    ),
    (OperatorKind.FREQUENCY, "time year"): (
        r"每年|毎年|年に|年ごと|매년|ทุกปี|ต่อปี"
    ),
    (OperatorKind.MODALITY, "must"): (
        r"必须|必須|须|須|务必|なければならない|なければなりません|義務|必要がある|해야|ต้อง"
    ),
    (OperatorKind.MODALITY, "may"): (
        r"可以|可能|能够|てもよい|てもいい|ことができる|できる|かもしれない|수 있|อาจ|สามารถ"
    ),
    (OperatorKind.MODALITY, "should"): (
        r"应该|應該|应当|應當|べき"
    ),
    (OperatorKind.QUANTIFIER, "all"): (
        r"所有|全部|全体|全體|一切|每个|すべて|全て|全員|あらゆる|いつも|总是|總是|모든|ทั้งหมด|ทุกคน"
    ),
    (OperatorKind.QUANTIFIER, "most"): (
        r"大多数|大多數|大部分|多半|通常|ほとんど|多くの|대부분|ส่วนใหญ่"
    ),
    (OperatorKind.QUANTIFIER, "some"): (
        r"有些|一些|某些|部分(?!地)|有时|有時|一部(?!分)|いくつか|時々|일부|บาง"
    ),
    (OperatorKind.QUANTIFIER, "few"): (
        r"很少|少数|极少|めったに|わずか|거의"
    ),
    (OperatorKind.QUANTIFIER, "only"): (
        r"仅|僅|只有|だけ|のみ|만이|เท่านั้น"
    ),
    (OperatorKind.CONDITION, "unless"): (
        r"除非|除了|以外|を除|のぞい|ない限り|제외|ยกเว้น|เว้นแต่"
    ),
    (OperatorKind.CONDITION, "if"): (
        r"如果|若|假如|当|もし|場合|만약|ถ้า|หาก"
    ),
}  # fmt: skip
_UNSPACED_PATTERN = re.compile(
    "|".join(f"(?P<o{number}>{pattern})" for number, pattern in enumerate(_UNSPACED.values()))
)
_UNSPACED_MEANINGS = tuple(_UNSPACED)


def unspaced_values(text: str) -> dict[OperatorKind, set[str]]:
    """The values of each kind in a text without spaces between words."""
    values: dict[OperatorKind, set[str]] = {}
    for match in _UNSPACED_PATTERN.finditer(text):
        kind, value = _UNSPACED_MEANINGS[int((match.lastgroup or "o0")[1:])]
        values.setdefault(kind, set()).add(value)
    return values
