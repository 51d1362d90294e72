"""Access to the operators' routes, and its records in the audit trails."""

from typing import Annotated

from fastapi import Depends, Request

from citewire_accounts.api.dependencies import AccountsDep, find_caller, note_operator, site_of_request
from citewire_accounts.tenants.operators import Operator, OperatorScope
from citewire_http.api.parameters import check_parameters
from citewire_kit.errors import PermissionDenied


async def authenticate_operator(request: Request, services: AccountsDep) -> Operator:
    """Finds the operator who sent the request.

    Raises:
        Unauthenticated: There is no valid key.
        PermissionDenied: It is a member's key, token or session; or the operator's key lacks the scope; or the server
            runs without authentication.
        ResourceExhausted: The client's address sent too many wrong keys.
        InvalidArgument: The URL has a parameter that the route doesn't know.
    """
    authenticator, authorization = services.authenticator, request.headers.get("authorization")
    if authenticator.off:
        raise PermissionDenied(
            "without authentication there are no operators: set CITEWIRE_AUTH=keys, and use the commands until then",
            reason="PERMISSION_DENIED",
        )
    if not authenticator.is_operator(authorization):
        await find_caller(request)
        raise PermissionDenied(
            "this needs an operator's key; members of an organisation use /v1/admin",
            reason="PERMISSION_DENIED",
        )
    operator = await authenticator.operator_of(authorization, site_of_request(request))
    note_operator(operator)
    needed: OperatorScope = "read" if request.method == "GET" else "manage"
    if needed not in operator.scopes:
        raise PermissionDenied(
            f"this needs the scope {needed}; the operator's key has {', '.join(operator.scopes)}",
            reason="SCOPE_MISSING",
            metadata={"scope": needed},
        )
    await check_parameters(request)
    return operator


OperatorDep = Annotated[Operator, Depends(authenticate_operator)]
