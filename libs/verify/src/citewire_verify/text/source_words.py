"""Words with which models name a source in a marker, in the languages of the shipped stemmers and a few more.

Words are normalised as everywhere (lower case, Latin letters without accents). Both numbers are listed; cases only
where a label has them.
"""

from typing import Final

from citewire_verify.text.terms import normalise


def _normal_words(text: str) -> frozenset[str]:
    return frozenset(normalise(word) for word in text.split())


SOURCE_WORDS: Final = _normal_words("""
    source sources ref refs
    quelle quellen fuente fuentes fonte fontes fonti bron bronnen kilde kilder kilden kilderne källa källor källan
    lähde lähteet forrás források sumber sursa sursă surse zdroj zdroje źródło źródła allikas allikad šaltinis šaltiniai
    kaynak kaynaklar kaynağı foinse foinsí iturri iturria iturriak mohlodi
    izvor izvori извор извори источник источники источника джерело джерела източник източници
    πηγή πηγές աղբյուր աղբյուրը աղբյուրներ
    مصدر المصدر مصادر المصادر منبع منابع מקור מקורות קוואל קוואלן
    स्रोत स्त्रोत ஆதாரம் ஆதாரங்கள்
    来源 來源 资料来源 資料來源 出处 出處 出典 情報源 引用元 参照元 출처 nguồn แหล่งที่มา
""")
"""Words for an answer's source: a marker even alone, and with any name after a colon."""

DOCUMENT_WORDS: Final = _normal_words("""
    reference references citation citations cite cited doc docs document documents passage passages chunk chunks
    excerpt excerpts context webpage src
    dokument dokumente dokumenten referenz referenzen verweis zitat beleg belege auszug auszüge abschnitt textstelle
    documento documentos documenti referencia referencias cita citas pasaje pasajes referência referências citação
    trecho trechos passagem passagens riferimento riferimenti citazione citazioni passaggio passaggi brano brani
    référence références citation extrait extraits verwijzing verwijzingen referentie referenties fragment fragmenten
    dokumenter dokumentet reference referencer referanse referanser henvisning henvisninger referens referenser
    viite viitteet asiakirja asiakirjat hivatkozás dokumentum dokumentumok dokumen referensi kutipan rujukan
    referință referințe referinta referinte odkaz odkazy reference dokumenty viide viited dokumendid nuoroda nuorodos
    dokumentas dokumentai odniesienie odniesienia referencja cytat belge belgeler alıntı tagairt tagairtí doiciméad
    referència referències font fonts fonto fontoj document documents erreferentzia dokumentua referenco dokumento
    документ документы документа ссылка ссылки сноска цитата отрывок референца посилання
    έγγραφο έγγραφα αναφορά αναφορές παραπομπή փաստաթուղթ հղում
    مرجع المرجع مراجع المراجع وثيقة الوثيقة مستند المستند سند
    दस्तावेज़ दस्तावेज संदर्भ सन्दर्भ ஆவணம் மூலம் குறிப்பு மேற்கோள்
    源 ソース 文档 文檔 文件
    参考 參考 参考资料 参考資料 參考資料 参考文献 參考文獻 引用
    资料 資料 段落 片段 文書 ドキュメント 参照 문서 참조 참고
""")
"""Words for parts of a context, or with other meanings: a marker only with a number or a file."""

SEE_WORDS: Final = _normal_words("""
    see cf siehe vgl s voir véase ver vedi zie se katso lásd lihat vezi viz zobacz vaata žr bkz féach ikusi vidu
    см смотри див вж види βλ տես انظر راجع ببینید देखें பார்க்க 见 見 参见 參見 详见 詳見 参照 참조
""")
"""Words before a marker in parentheses that belong to it: `(see [1])`."""

AND_WORDS: Final = _normal_words("""
    and und et y e en og och ja és dan și si a oraz ja ir ve agus i eta kaj и і та και և و और மற்றும் 和 及 与 與 と 및
""")
"""Words between the numbers of a marker, or between two markers."""


def _prefixes(words: frozenset[str]) -> frozenset[str]:
    return frozenset(word[:end] for word in words for end in range(1, len(word) + 1))


NAMING_WORDS: Final = SOURCE_WORDS | DOCUMENT_WORDS
"""All words that name a source."""
NAMING_PREFIXES: Final = _prefixes(NAMING_WORDS)
"""Their beginnings."""
PARENTHESIS_PREFIXES: Final = _prefixes(NAMING_WORDS | SEE_WORDS)
"""Possible beginnings of words in parentheses."""
AND_PREFIXES: Final = _prefixes(AND_WORDS)
"""Possible beginnings of words between two markers."""
