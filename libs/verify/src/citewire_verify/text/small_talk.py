"""Greetings, thanks and small talk, in a few languages."""

import re

from citewire_verify.text.stop_words import words_of
from citewire_verify.text.terms import normalise, words

MAX_SMALL_TALK = 12
"""Maximum number of words in small talk."""

_GREETINGS = words_of("""
    hi hello hey hiya howdy greetings morning afternoon evening night bye goodbye cheers thanks thank thx please ok okay
    great cool nice perfect awesome welcome sorry lol haha yes no
    hallo servus moin tschuss danke bitte guten tag morgen abend gruss super prima ja nein
    bonjour salut bonsoir merci revoir oui non d'accord
    hola gracias adios buenos buenas dias tardes noches vale si
    ciao buongiorno buonasera grazie arrivederci prego
    ola obrigado obrigada bom dia boa tarde noite tchau
    hoi goedemorgen goedemiddag goedenavond dank bedankt dag doei
""")
_FILLERS = words_of("""
    good day very much so a lot you there all everyone again well and for the help your
    dir ihnen sehr vielen schon und fur die hilfe alle zusammen
    beaucoup a tous bien et pour l aide muchas todos y por la ayuda muito mille je u wel
""")
_SMALL_TALK = re.compile(
    r"how are you(?: doing)?(?: today)?|how is it going|what is up|whats up|who are you|what are you"
    r"|what can you do|what is your name|nice to meet you|tell me a joke|are you (?:a bot|human|there)"
    r"|wie geht(?:s| s| es| is)(?: dir| ihnen)?|wer bist du|wer sind sie|was kannst du|wie heisst du"
    r"|comment (?:ca va|allez vous)|ca va|qui es tu|qui etes vous"
    r"|que tal|como estas|como esta usted|quien eres|come stai|come va|chi sei|tudo bem|quem e voce"
    r"|hoe gaat het|wie ben je"
)
_UNSPACED_GREETINGS = re.compile(
    r"(?:你好|您好|谢谢|謝謝|早上好|晚上好|再见|再見|こんにちは|こんばんは|おはよう(?:ございます)?|ありがとう(?:ございます)?|さようなら"
    r"|안녕(?:하세요)?|감사합니다|고마워요?|สวัสดี|ขอบคุณ)[\s!！。.,、~～啊呀你您吗嗎]*"
)


def is_small_talk(message: str) -> bool:
    """Whether a message is a greeting, thanks or small talk and nothing else."""
    if _UNSPACED_GREETINGS.fullmatch(message.strip()):
        return True
    normals = [normalise(word) for word in words(message.replace("'", " ").replace("’", " "))]
    if len(normals) > MAX_SMALL_TALK:
        return False
    if not normals:
        return not any(char.isalnum() for char in message)
    spelled = " ".join(normals).replace(" s ", " is ").replace("what is up", "whats up")
    rest = _SMALL_TALK.sub(" ", spelled).split()
    greets = rest != spelled.split() or any(word in _GREETINGS for word in rest)
    return greets and all(word in _GREETINGS or word in _FILLERS for word in rest)
