"""What the OpenAPI document says of profiles and of tenants' own providers."""

from citewire_gateway.api import examples
from citewire_gateway.api.operation_docs import Docs, json_content, json_docs, operation_docs
from citewire_gateway.api.schemas import ProfileBody, ProviderBody, ProviderRulesBody


def profiles_docs() -> Docs:
    """The list of profiles."""
    return json_docs("The profiles that a chat may name.", examples.PROFILES)


def profile_docs() -> Docs:
    """`GET /v1/profiles/{name}`."""
    return json_docs("The profile.", examples.PROFILES["profiles"][0], missing=True)


def profile_body_docs() -> Docs:
    """`PUT /v1/profiles/{name}`."""
    example = examples.PROFILES["profiles"][-1] | {"name": "support", "version": 1, "base": "grounded"}
    return operation_docs(
        {"description": "The profile, as it is kept.", **json_content(example)},
        body=ProfileBody,
        conflicts=True,
        more=(403,),
    )


def providers_docs() -> Docs:
    """The list of own providers."""
    return json_docs("The caller's and the organisation's.", {"require_own": False, "providers": [examples.PROVIDER]})


def rules_docs() -> Docs:
    """`PATCH /v1/providers`."""
    return operation_docs(
        {"description": "What counts from now on.", **json_content({"require_own": True})},
        body=ProviderRulesBody,
        more=(403,),
    )


def provider_docs() -> Docs:
    """One own provider."""
    return json_docs("The provider, without key and address.", examples.PROVIDER, missing=True)


def provider_body_docs() -> Docs:
    """`PUT /v1/providers/{type}`."""
    return operation_docs(
        {"description": "Saved; `test` says what the provider said.", **json_content(examples.PROVIDER)},
        body=ProviderBody,
        conflicts=True,
        unavailable=True,
        more=(403,),
    )
