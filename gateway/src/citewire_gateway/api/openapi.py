"""The OpenAPI document, beyond what FastAPI finds out: the schemas of bodies and events, the key."""

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from citewire_gateway.api import examples
from citewire_gateway.api.openai_schemas import CompletionRequest, EmbeddingsRequest, RerankBody
from citewire_gateway.api.operation_docs import REF, Docs
from citewire_gateway.api.resource_schemas import SCHEMAS
from citewire_gateway.api.schemas import (
    BudgetBody,
    CalibrationBody,
    ChatRequest,
    CollectionBody,
    ConversationPatch,
    DocumentBody,
    DocumentPatch,
    ProfileBody,
    ProviderBody,
    ProviderRulesBody,
    SearchBody,
    SelfRagRequest,
    SimpleRequest,
)

_BODIES: tuple[type[BaseModel], ...] = (
    ChatRequest,
    SimpleRequest,
    SelfRagRequest,
    CompletionRequest,
    EmbeddingsRequest,
    RerankBody,
    SearchBody,
    DocumentBody,
    DocumentPatch,
    CollectionBody,
    ConversationPatch,
    ProfileBody,
    ProviderBody,
    ProviderRulesBody,
    BudgetBody,
    CalibrationBody,
)
_OPEN_PATHS = frozenset({"/livez", "/readyz"})


def install(app: FastAPI) -> None:
    """Makes `app.openapi()` give the whole document."""

    def openapi() -> Docs:
        if app.openapi_schema is None:
            app.openapi_schema = _build(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign] # FastAPI's documented way


def _build(app: FastAPI) -> Docs:
    schema = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=examples.TAGS,
    )
    _, definitions = models_json_schema([(model, "validation") for model in _BODIES], ref_template=f"{REF}{{model}}")
    components: Docs = schema.setdefault("components", {})
    found: Docs = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own error body, which nobody gets here
        found.pop(name, None)
    found.update(definitions["$defs"])
    found.update(SCHEMAS)
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": "`cw_…`"}}
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            operation["security"] = [] if path in _OPEN_PATHS else [{"key": []}]
    return schema
