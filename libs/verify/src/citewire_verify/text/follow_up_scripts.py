"""The marks of a follow-up by script: data for `follow_ups`, like `follow_up_words`."""

import re
from dataclasses import dataclass
from typing import Final

from citewire_verify.text.follow_up_words import Language, phrases
from citewire_verify.text.stop_words import words_of


@dataclass(frozen=True, slots=True)
class Unspaced:
    """A language that writes no spaces between words."""

    script: re.Pattern[str]
    """Its letters."""
    openers: re.Pattern[str]
    """As in `Language`."""
    pronouns: re.Pattern[str]
    """As in `Language`."""
    framing: re.Pattern[str]
    """The parts of a question that aren't its topic: question words, particles, pronouns, punctuation."""


_RUSSIAN: Final = Language(
    openers=phrases("""
        а
        и
        но
        что насчет
        как насчет
        что еще
        кто еще
        почему нет
        расскажи подробнее
    """),
    pronouns=words_of("""
        он она оно они его ее их ему ей им ими него нее них нем ней нему ним ними это этого этому этим этом туда оттуда
    """),
    question_words=words_of("""
        кто кого кому что чего чему чем когда где куда откуда почему зачем как какой какая какое какие каком какого
        сколько чей чья чье ли
    """),
    light=words_of("""
        и а в во на с со о об от до за к ко у по из для не был была было были есть быть год года году лет время раз
        человек люди родился родилась умер умерла случилось произошло началось называется значит долго много
    """),
    verbs=words_of("такое такой такая такие"),
    empty_subjects=re.compile(r"<это> (?:такое|правда|возможно)"),
)
_GREEK: Final = Language(
    openers=phrases("""
        και
        αλλα
        τι γινεται με
        τι αλλο
    """),
    pronouns=words_of("αυτοσ αυτη αυτο αυτοι αυτεσ αυτα αυτον αυτην αυτου αυτησ αυτων εκει"),
    verbs=words_of("ειναι ηταν"),
    question_words=words_of("τι ποιοσ ποια ποιο ποιοι ποιεσ ποτε που πωσ πωσ γιατι ποσο ποσα ποσοι ποσεσ"),
    light=words_of("ο η το οι τα του τησ των τον την τουσ τισ στο στη στην στον με σε απο για και ηταν ειναι εγινε"),
)
_HINDI: Final = Language(
    openers=phrases("""
        और
        लेकिन
        या
    """),
    pronouns=words_of("""
        उसका उसकी उसके उसने उसे उसमें उन्होंने उनका उनकी उनके उन्हें उनमें इसका इसकी इसके इसने इसे इसमें इनका इनकी इनके
    """),
    verbs=words_of("है हैं था थी थे"),
    question_words=words_of("क्या कौन किस किसने किसका किसकी किसके कब कहाँ कहां क्यों कैसे कैसा कैसी कितना कितने कितनी कौनसा"),
    light=words_of("का की के को में से पर ने है हैं था थी थे हुआ हुई हुए गया गई गए और एक साल वर्ष समय लोग नाम लिए तक"),
)
_ARABIC: Final = Language(
    openers=phrases("""
        و
        وماذا عن
        ماذا عن
        لكن
        ولماذا
        ومتى
        واين
    """),
    pronouns=words_of("هو هي هم هما هن ذلك تلك هناك"),
    question_words=words_of("ما ماذا من متى اين أين كيف لماذا كم اي أي هل"),
    empty_subjects=re.compile(r"^(?:ما|من) <(?:هو|هي)> "),
    light=words_of("في على الى إلى عن مع كان كانت كانوا يكون تم التي الذي عام سنة"),
)

BY_SCRIPT: Final[tuple[tuple[re.Pattern[str], Language], ...]] = (
    (re.compile(r"[\u0400-\u04ff]"), _RUSSIAN),
    (re.compile(r"[\u0370-\u03ff]"), _GREEK),
    (re.compile(r"[\u0900-\u097f]"), _HINDI),
    (re.compile(r"[\u0600-\u06ff]"), _ARABIC),
)
"""Languages determined by their script, as for the stems of lexical search."""

UNSPACED: Final = (
    Unspaced(
        script=re.compile(r"[\u3040-\u30ff]"),
        openers=re.compile(r"では|じゃあ|それで|そして|また|他に|ほかに|もっと|あと"),
        pronouns=re.compile(r"それ|これ|あれ|その|この|あの|そこ|ここ|彼女|彼ら|彼"),
        framing=re.compile(
            r"[^\w]+|それら?|これら?|あれ|その|この|あの|そこ|ここ|彼女|彼ら|彼|なぜ|どうして|いつ|どこ|だれ|誰|何人|何年|何|どの|どれ|どう"
            r"|いくら|いくつ|ですか|ますか|でしたか|ましたか|ください|について|教えて|とは|です|ます|した|して|する|ある|いる|から|まで"
            r"|[はがをにでとへもやのかねよ]"
        ),
    ),
    Unspaced(
        script=re.compile(r"[\u3400-\u9fff]"),
        openers=re.compile(r"那么|那麼|还有|還有|然后|然後|另外|其他|为什么不|那.{0,8}呢|.{1,8}呢[？?]?$"),
        pronouns=re.compile(r"它们?|牠|他们?|她们?|它們|他們|她們|其中|此|这|這|那"),
        framing=re.compile(
            r"[^\w]+|它们?|他们?|她们?|它們|他們|她們|其中|这个|那个|這個|那個|这里|那里|這裡|那裡|这|那|這|什么时候|什麼時候|什么|什麼|为什么|為什麼"
            r"|怎么样|怎麼樣|怎么|怎麼|如何|哪里|哪裡|哪儿|哪年|哪个|哪個|哪些|哪|谁|誰|多少|多久|几|幾|是不是|有没有|有沒有|请问|請問|告诉我|告訴我"
            r"|何时|何時|何地|何|在|于|於|是|有|的|了|吗|嗎|呢|吧|么|麼|会|會|被|由|和|与|與|就|也|都|还|還|对|對|把|从|從|年|个|個"
        ),
    ),
    Unspaced(
        script=re.compile(r"[\uac00-\ud7a3]"),
        openers=re.compile(r"그럼|그러면|그리고|그런데|또|다른"),
        pronouns=re.compile(r"그것|그거|이것|이거|저것|그녀|그들|그는|그가|그의|그를|거기|여기"),
        framing=re.compile(
            r"[^\w]+|그것[은이을의]?|그거|이것[은이을의]?|그녀[는가의를]?|그들[은이의을]?|그[는가의를]|거기|여기|왜|언제|어디[서에]?|누[구가]|무엇[을이인가]*|무슨"
            r"|뭐[야예요]*|어떻게|어떤|얼마나?|몇|입니까|습니까|인가요|나요|가요|했|하는|되었|됐|이야|예요|이에요"
        ),
    ),
    Unspaced(
        script=re.compile(r"[\u0e00-\u0e7f]"),
        openers=re.compile(r"แล้ว|และ|แต่|หรือ"),
        pronouns=re.compile(r"มัน|พวกเขา|เขา|เธอ|สิ่งนี้|สิ่งนั้น|ที่นั่น|ที่นี่"),
        framing=re.compile(
            r"[^\w\u0e00-\u0e7f]+|มัน|พวกเขา|เขา|เธอ|สิ่งนี้|สิ่งนั้น|ที่นั่น|ที่นี่|ทำไม|เมื่อไหร่|เมื่อไร|เมื่อใด|ที่ไหน|ใคร|อะไร|อย่างไร|ยังไง|เท่าไร|เท่าไหร่|เท่าใด|กี่"
            r"|หรือไม่|ไหม|คือ|เป็น|ของ|ใน|ที่|มี|ได้|ให้|จาก|โดย|และ"
        ),
    ),
)
"""Japanese before Chinese, because kana distinguish it."""
