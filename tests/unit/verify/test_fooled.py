"""Sentences that repeat their passage except for a change that makes them false, and true paraphrases."""

from __future__ import annotations

import pytest

from citewire_verify import Passage, Sentence, Verdict, VerifiedCitation, Verifier
from citewire_verify.segment import SentenceKind

LIMIT = "The limit is 500 euros."
DOSE = "Take 20 mg daily."
LETTING = "The tenant must notify the landlord in writing if the rent is paid late."


def verdict(claim: str, passage: str) -> Verdict:
    [citation] = Verifier({1: Passage(passage)}).verify(Sentence(0, len(claim), claim, SentenceKind.TEXT, (1,)))
    assert isinstance(citation, VerifiedCitation)
    assert (citation.verdict is Verdict.SUPPORTED) == (citation.mismatches == ())
    return citation.verdict


@pytest.mark.parametrize(
    ("passage", "claim"),
    [
        (LIMIT, "The limit is not 500 euros."),
        (LIMIT, "The limit isn't 500 euros."),
        (LIMIT, "The limit is never 500 euros."),
        (LIMIT, "The limit is no longer 500 euros."),
        (LIMIT, "The limit is above 500 euros."),
        (LIMIT, "The limit is below 500 euros."),
        (LIMIT, "The limit is at least 500 euros."),
        (LIMIT, "The limit is 500 000 euros."),
        (LIMIT, "The limit is 500.000 euros."),
        (LIMIT, "The limit is 500m euros."),
        (LIMIT, "The limit is 500m."),
        (LIMIT, "The limit is 0.500 euros."),
        (LIMIT, "The limit is .500 euros."),
        (LIMIT, "The limit is -500 euros."),
        (LIMIT, "The limit is 500 %."),
        (DOSE, "Take 20 mg hourly."),
        (DOSE, "Take .20 mg daily."),
        (DOSE, "Take 20 µg daily."),
        (LETTING, "The tenant must notify the landlord in writing unless the rent is paid late."),
        (LETTING, "The tenant may notify the landlord in writing if the rent is paid late."),
        (LETTING, "The landlord must notify the tenant in writing if the rent is paid late."),
        (LETTING, "The tenant must notify the landlord in writing if the rent is paid early."),
        ("Acme Foods acquired Borealis in 2010.", "Borealis acquired Acme Foods in 2010."),
        ("All visitors register.", "Some visitors register."),
        ("The cause is not known.", "The cause is known."),
        ("The cause is unknown to doctors.", "The cause is known to doctors."),
        ("Between 5 and 10 percent of the buses are late.", "Between 5 and 10 of the buses are late."),
        ("She finished third in the final.", "She finished second in the final."),
        ("The river carries 70 m3/s (2,500 cu ft/s).", "The river carries 70 m3/s (2,500m cu ft/s)."),
        ("The river is 400 m wide.", "The river is 400m m wide."),
        ("The river is 400 m wide.", "The river is 400 million m wide."),
        ("Some 110–120 thousand people lived there.", "Some 110–120k thousand people lived there."),
        ("Some 80 percent die within eight days.", "Some 80 % percent die within eight days."),
        ("It rises by 1–3 cm (0.39–1.18 in) a century.", "It rises by 1–3 cm (0.39–−1.18 in) a century."),
        ("It began ~11,700 years ago.", "It began ~-11,700 years ago."),
        (
            "It was called the first oil shock, followed by the second oil shock.",
            "It was called the first oil shock, followed by the first oil shock.",
        ),
        ("Take p + 1 or p − 1 of the primes.", "Take p + 1 or p − 2 of the primes, of the form 2p."),
        ("Five is prime because 1 and 5 divide it, unlike 6.", "Five is prime because 1 and 6 divide it, unlike 6."),
        ("Die Gebühr beträgt 20 Euro pro Monat.", "Die Gebühr beträgt 20 Euro pro Tag."),
        ("Les visiteurs doivent payer à la caisse.", "Les visiteurs peuvent payer à la caisse."),
        ("Der Umsatz betrug 1.234,5 Mio. Euro.", "Der Umsatz betrug 12.345 Mio. Euro."),
        ("Der Umsatz betrug 1.234,5 Mio. Euro.", "Der Umsatz betrug 1,2345 Mio. Euro."),
        ("Die Dosis beträgt 2,5 mg.", "Die Dosis beträgt 2,5 g."),
        (
            "Der Zutritt ist erlaubt, wenn ein Ausweis vorliegt.",
            "Der Zutritt ist erlaubt, es sei denn, ein Ausweis vorliegt.",
        ),
        ("Die Prüfung endet am 3. Mai.", "Die Prüfung endet nicht am 3. Mai."),
        ("La dose est de 2,5 mg.", "La dose est de 25 mg."),
        ("Le chiffre est de 1 234,5 euros.", "Le chiffre est de 12 345 euros."),
        ("Le bail cesse si le loyer n'est pas versé.", "Le bail cesse sauf si le loyer n'est pas versé."),
        ("L'accès est permis à tous.", "L'accès n'est permis à personne."),
        ("El museo abre a las 9.", "El museo cierra a las 9."),
        ("Музей открыт ежедневно.", "Музей открыт еженедельно."),
        ("Το όριο είναι 500 ευρώ.", "Το όριο δεν είναι 500 ευρώ."),
        ("सीमा 500 यूरो है।", "सीमा 500 यूरो से अधिक है।"),
        ("博物馆每天9点开门。", "博物馆每周9点开门。"),
        ("2019年至少有20人参加了会议。", "2019年至多有20人参加了会议。"),
        ("従業員は名札を着用しなければならない。", "従業員は名札を着用してもよい。"),
    ],
)
def test_a_sentence_that_reverses_its_passage_is_not_supported(passage: str, claim: str) -> None:
    assert verdict(claim, passage) is not Verdict.SUPPORTED
    assert verdict(passage, passage) is Verdict.SUPPORTED


@pytest.mark.parametrize(
    ("passage", "claim"),
    [
        (LIMIT, "The limit is five hundred euros."),
        (LIMIT, "The limit is €500."),
        (LIMIT, "The limit is 500.00 euros."),
        ("It holds 1,000 people.", "It holds 1 000 people."),
        ("It holds 1,000 people.", "It holds one thousand people."),
        ("Die Halle fasst 1.000 Personen.", "The hall, die Halle, fasst 1,000 Personen."),
        ("Der Umsatz betrug 1.234,5 Mio. Euro.", "Der Umsatz betrug 1234,5 Millionen Euro."),
        ("Le chiffre est de 1 234,5 euros.", "Le chiffre est de 1234,50 euros."),
        ("Sales rose by 50 %.", "Sales rose by 50 percent."),
        ("It has 3,512,456 inhabitants.", "It has more than 3.5 million inhabitants."),
        ("At least 20 people came.", "No fewer than 20 people came."),
        ("The tower was built by Ada Smith.", "Ada Smith built the tower."),
        ("It is not possible to cancel.", "It isn't possible to cancel."),
        ("Buses to the old airport run every day.", "Buses to the old airport run daily."),
        ("Rooms cost between 80 and 120 euros.", "Rooms cost from 80 to 120 euros."),
        ("The loss was -500 euros in May.", "The loss in May was 500 euros."),
        ("Buses and trams stop at Mill Lane.", "Trams and buses stop at Mill Lane."),
        ("The ferry leaves at 7:40 from pier 4, except on Sundays.", "The ferry leaves from pier 4 at 7:40."),
        ("The gorge is 599 m deep.", "The gorge is 599 metres deep."),
        ("The plague of 1479–80 killed many.", "The plague of 1479--80 killed many."),
        ("Sales reached 500 million last year.", "Sales reached 500m last year."),
        ("The ratio is 24:4.5 in this alloy.", "The ratio is 24:4.5 in this alloy."),
    ],
)
def test_the_same_in_other_words_or_digits_is_supported(passage: str, claim: str) -> None:
    assert verdict(claim, passage) is Verdict.SUPPORTED


def test_an_unknown_word_in_a_quotation_is_noticed() -> None:
    passage = "The committee adjourned the hearing on Tuesday after the second witness."
    assert (
        verdict("The committee televised the hearing on Tuesday after the second witness.", passage) is Verdict.PARTIAL
    )
