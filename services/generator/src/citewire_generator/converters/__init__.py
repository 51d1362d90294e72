"""Between the proto and the domain: every field of a request is checked here, and nowhere else."""

from citewire_generator.converters.answers import (
    from_event,
    from_models,
    from_suggestions,
    from_verification,
    to_request,
    to_suggest,
    to_verify,
)
from citewire_generator.converters.judgements import (
    from_assessment,
    from_decision,
    from_rewritten,
    to_assess,
    to_decide,
    to_rewrite,
)

__all__ = [
    "from_assessment",
    "from_decision",
    "from_event",
    "from_models",
    "from_rewritten",
    "from_suggestions",
    "from_verification",
    "to_assess",
    "to_decide",
    "to_request",
    "to_rewrite",
    "to_suggest",
    "to_verify",
]
