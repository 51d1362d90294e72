"""Follow-ups by rules: which questions need earlier ones, which stand alone, and which terms are taken over."""

import pytest

from citewire_verify.text.follow_up_words import LATIN
from citewire_verify.text.follow_ups import is_follow_up, topics
from citewire_verify.text.stop_words import STOP_WORDS_BY_LANGUAGE


@pytest.mark.parametrize(
    "question",
    [
        "Why?", "When was that?", "And how long do they take?", "What about Norway?", "How much does it cost?",
        "What music did they play?", "Who founded it?", "What countries use it?", "Tell me more about it",
        "How do refunds differ from that?", "What does that mean?", "What is the population?", "Who won?",
        "what was the purpose of it", "show me on a map where it is", "Where did he live?",
        "Who are his children?", "And in Germany?", "Any others?",
        "Warum?", "Wann wurde er geboren?", "Und in Norwegen?", "Was kostet das?", "Wie funktioniert es?",
        "Wie viele Kinder hatte sie?", "Wofür braucht man das?", "Welche Folgen hatte dies?",
        "Pourquoi ?", "Quand est-il mort ?", "Et en Norvège ?", "Combien coûtent-ils ?", "Qui a inventé cela ?",
        "¿Por qué?", "¿Cuándo nació?", "¿Y en Noruega?", "¿Cuántos hijos tuvo?", "¿Quién es su esposa?",
        "¿Qué es eso?",
        "Perché?", "Quando è nato?", "E in Norvegia?", "Chi sono i suoi figli?", "Quanto costa?",
        "Por quê?", "Quando nasceu?", "E na Noruega?", "Qual é o nome dele?", "Quem inventou isso?",
        "Waarom?", "Wanneer is hij geboren?", "En in Noorwegen?", "Hoe werkt dat?", "Wat betekent dit?",
        "Почему?", "Когда он родился?", "А в Норвегии?", "Сколько это стоит?",
        "Γιατί;", "Πότε γεννήθηκε αυτός;", "क्यों?", "उसका जन्म कब हुआ?", "لماذا؟", "وماذا عن النرويج؟",
        "为什么？", "它是什么时候建成的？", "那挪威呢？", "他的妻子是谁？",
        "なぜですか？", "それはいつ建てられましたか？",
        "왜?", "그것은 언제 지어졌나요?", "ทำไม", "เขาเกิดเมื่อไหร่",
    ],
)  # fmt: skip
def test_a_question_that_needs_earlier_ones_is_a_follow_up(question: str) -> None:
    assert is_follow_up(question)


@pytest.mark.parametrize(
    "question",
    [
        "How long do refunds take?", "What is photosynthesis?",
        "Who is Rosaline and how is she related to the Capulets?",
        "Where does the royal family of England get their income?", "How did Tesla finance his work?", "RFC 9457",
        "404",
        "How old was Elway during his Super Bowl win?", "how many jurors must agree in a criminal case",
        "Thanks a lot!",
        "When the Rhine took a right turn, what did it create?", "Is it legal to sell fish at Pike Place Market?",
        "Where does it snow the most in North Carolina?", "How many types of cilia are there?", "photosynthesis",
        "when do they throw fish at pike place market", "The band that got in trouble for lip syncing", "2024",
        "Was ist Photosynthese?", "Wie lange dauert eine Erstattung?",
        "Können Sie mir sagen, wann der Kölner Dom gebaut wurde?",
        "Wann starb Goethe und wie alt war er?", "Was ist die Photosynthese?", "Gibt es einen Bahnhof in Ulm?",
        "Qu'est-ce que la photosynthèse ?", "Quand Napoléon est-il mort ?", "Y a-t-il une gare à Lille ?",
        "Combien de temps dure un remboursement ?",
        "¿Qué es la fotosíntesis?", "¿Cuándo nació Cervantes?",
        "¿Cuántos puntos dejaron escapar en defensa los Panthers?",
        "Che cos'è la fotosintesi?", "Quando è nato Dante Alighieri?", "O que é a fotossíntese?",
        "Quando nasceu Fernando Pessoa?", "Wat is fotosynthese?", "Wanneer werd de Domtoren in Utrecht gebouwd?",
        "Что такое фотосинтез?", "Когда родился Пушкин?", "Τι είναι η φωτοσύνθεση;", "प्रकाश संश्लेषण क्या है?",
        "ما هو التمثيل الضوئي؟", "什么是光合作用？", "爱因斯坦和他的妻子住在哪里？", "光合成とは何ですか？",
        "광합성이란 무엇입니까?", "การสังเคราะห์ด้วยแสงคืออะไร", "",
    ],
)  # fmt: skip
def test_a_standalone_question_is_no_follow_up(question: str) -> None:
    assert not is_follow_up(question)


def test_the_language_of_two_words_is_that_of_the_conversation() -> None:
    assert is_follow_up("Quanto costa?", "Quando apre il museo della scienza?")


@pytest.mark.parametrize(
    ("question", "earlier", "expected"),
    [
        ("And how long do they take?", ["How do Refunds work?"], "Refunds"),
        ("Why?", ["Who built the Cologne cathedral?", "And when?"], "built Cologne cathedral"),
        ("Why?", ["Who built the cathedral?", "Thanks!", "When was it finished?"], "built cathedral finished"),
        ("And in Norway?", ["What is VAT in Sweden?", "How is it paid in Norway?"], "VAT Sweden paid"),
        ("Und wann?", ["Wer baute den Kölner Dom?"], "baute Kölner Dom"),
        ("为什么？", ["长城是什么时候建成的？"], "长城 建成"),
        ("Why?", ["Where?", "Hello!"], ""),
    ],
)
def test_a_follow_up_takes_over_topics_back_to_the_last_standalone_question(
    question: str, earlier: list[str], expected: str
) -> None:
    assert topics(question, earlier) == expected


def test_every_language_of_the_stop_words_has_rules_for_follow_ups() -> None:
    assert LATIN.keys() == STOP_WORDS_BY_LANGUAGE.keys()
