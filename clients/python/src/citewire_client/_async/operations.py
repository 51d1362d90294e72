"""Every operation of the API, as a method: scripts/python_client/ wrote it."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from citewire_client import models
from citewire_client._async.chat import AsyncChatStream
from citewire_client._async.transport import AsyncTransport
from citewire_client.files import FileSource, Progress, opened
from citewire_client.requests import NOT_GIVEN, NotGiven, Request, form_fields, given, idempotent, path_of, query


class AsyncOperations:
    """The API's operations. What a method doesn't give is the gateway's default."""

    def __init__(self, transport: AsyncTransport) -> None:
        """`transport` sends what the methods ask for."""
        self._transport = transport

    async def activate_provider(
        self, type: str, name: str, *, scope: Literal["org", "user"] | None = None
    ) -> models.ProviderInfo:
        """Activates another saved provider from the next request on; the previously active one stays saved."""
        return await self._transport.call(
            Request("POST", path_of("/v1/providers/{}/{}:activate", type, name), query(scope=scope), repeatable=False),
            models.ProviderInfo,
        )

    async def add_document(
        self,
        content: str,
        title: str,
        type: Literal["file", "article", "repository", "capture"],
        *,
        collection: str | NotGiven | None = NOT_GIVEN,
        metadata: Mapping[str, Any] | NotGiven | None = NOT_GIVEN,
        readers: Sequence[str] | NotGiven = NOT_GIVEN,
        tags: Sequence[str] | NotGiven = NOT_GIVEN,
        url: str | NotGiven | None = NOT_GIVEN,
        valid_from: str | NotGiven | None = NOT_GIVEN,
        valid_until: str | NotGiven | None = NOT_GIVEN,
        idempotency_key: str | None = None,
    ) -> models.Document:
        """Stores a file, a text, or a file fetched from a URL.

        It is durable on return, and processed afterwards.
        """
        return await self._transport.call(
            Request(
                "POST",
                "/v1/documents",
                json=given(
                    content=content,
                    title=title,
                    type=type,
                    collection=collection,
                    metadata=metadata,
                    readers=readers,
                    tags=tags,
                    url=url,
                    valid_from=valid_from,
                    valid_until=valid_until,
                ),
                headers=idempotent(idempotency_key),
            ),
            models.Document,
        )

    async def upload_document(
        self,
        file: FileSource,
        *,
        file_name: str | None = None,
        collection: str | NotGiven = NOT_GIVEN,
        metadata: Mapping[str, Any] | NotGiven = NOT_GIVEN,
        path: str | NotGiven = NOT_GIVEN,
        readers: Sequence[str] | NotGiven = NOT_GIVEN,
        tags: Sequence[str] | NotGiven = NOT_GIVEN,
        title: str | NotGiven = NOT_GIVEN,
        type: Literal["file", "article", "repository", "capture"] | NotGiven = NOT_GIVEN,
        url: str | NotGiven = NOT_GIVEN,
        valid_from: str | NotGiven = NOT_GIVEN,
        valid_until: str | NotGiven = NOT_GIVEN,
        progress: Progress | None = None,
        idempotency_key: str | None = None,
    ) -> models.Document:
        """Stores a file, a text, or a file fetched from a URL.

        It is durable on return, and processed afterwards. This one takes a file; `progress` is told how many bytes were
        sent, and of how many.
        """
        with opened(file, file_name, progress) as part:
            return await self._transport.call(
                Request(
                    "POST",
                    "/v1/documents",
                    form=form_fields(
                        collection=collection,
                        metadata=metadata,
                        path=path,
                        readers=readers,
                        tags=tags,
                        title=title,
                        type=type,
                        url=url,
                        valid_from=valid_from,
                        valid_until=valid_until,
                    ),
                    file=part,
                    headers=idempotent(idempotency_key),
                ),
                models.Document,
            )

    async def add_group_member(self, name: str, user: str) -> models.GroupInfo:
        """Adds a user to a group, effective from the next request; with an identity provider's token, within 30
        seconds.


        For owners and admins.
        """
        return await self._transport.call(
            Request("PUT", path_of("/v1/admin/groups/{}/members/{}", name, user)), models.GroupInfo
        )

    async def cancel_run(self, run_id: UUID | str) -> models.RunCancelled:
        """Stops one of the caller's chats on any gateway; what was written so far is stored."""
        return await self._transport.call(
            Request("POST", path_of("/v1/chat/{}/cancel", run_id), repeatable=False), models.RunCancelled
        )

    async def change_many(
        self, operations: Sequence[models.Operation | Mapping[str, Any]], *, idempotency_key: str | None = None
    ) -> models.BatchResults:
        """Runs operations in order.

        A failed one doesn't affect the others; its result has the error.
        """
        return await self._transport.call(
            Request(
                "POST", "/v1/documents:batch", json=given(operations=operations), headers=idempotent(idempotency_key)
            ),
            models.BatchResults,
        )

    async def change_provider_rules(self, require_own: bool) -> models.ProviderRulesBody:
        """Sets whether the organisation uses only its own providers.

        For owners and admins.
        """
        return await self._transport.call(
            Request("PATCH", "/v1/providers", json=given(require_own=require_own)), models.ProviderRulesBody
        )

    async def chat(
        self,
        question: str | NotGiven = NOT_GIVEN,
        *,
        any_validity: bool | NotGiven = NOT_GIVEN,
        as_of: str | NotGiven | None = NOT_GIVEN,
        collection: str | NotGiven | None = NOT_GIVEN,
        conversation_id: UUID | str | NotGiven | None = NOT_GIVEN,
        detach: bool | NotGiven = NOT_GIVEN,
        document_ids: Sequence[int] | NotGiven | None = NOT_GIVEN,
        filter: Any | NotGiven = NOT_GIVEN,
        grace_seconds: int | NotGiven = NOT_GIVEN,
        include: Sequence[Literal["step", "assessment", "citation", "uncited", "cost"]] | NotGiven = NOT_GIVEN,
        keep: bool | NotGiven | None = NOT_GIVEN,
        messages: Sequence[models.ChatMessage | Mapping[str, Any]] | NotGiven | None = NOT_GIVEN,
        min_score: float | NotGiven | None = NOT_GIVEN,
        model: str | NotGiven | None = NOT_GIVEN,
        options: models.ProfileOptions | Mapping[str, Any] | NotGiven | None = NOT_GIVEN,
        parallel_tool_calls: bool | NotGiven | None = NOT_GIVEN,
        profile: str | NotGiven | None = NOT_GIVEN,
        response_format: models.ResponseFormat | Mapping[str, Any] | NotGiven | None = NOT_GIVEN,
        time_zone: str | NotGiven | None = NOT_GIVEN,
        tool_choice: Literal["none", "auto", "required"]
        | models.NamedTool
        | Mapping[str, Any]
        | NotGiven
        | None = NOT_GIVEN,
        tools: Sequence[models.ToolParam | Mapping[str, Any]] | NotGiven | None = NOT_GIVEN,
        top_k: int | NotGiven | None = NOT_GIVEN,
        idempotency_key: str | None = None,
    ) -> models.ChatAnswer:
        """Answers from the caller's documents, as a stream of events or as one JSON body.

        This one waits for the whole answer.
        """
        return await self._transport.call(
            Request(
                "POST",
                "/v1/chat",
                json=given(
                    question=question,
                    any_validity=any_validity,
                    as_of=as_of,
                    collection=collection,
                    conversation_id=conversation_id,
                    detach=detach,
                    document_ids=document_ids,
                    filter=filter,
                    grace_seconds=grace_seconds,
                    include=include,
                    keep=keep,
                    messages=messages,
                    min_score=min_score,
                    model=model,
                    options=options,
                    parallel_tool_calls=parallel_tool_calls,
                    profile=profile,
                    response_format=response_format,
                    time_zone=time_zone,
                    tool_choice=tool_choice,
                    tools=tools,
                    top_k=top_k,
                    stream=False,
                ),
                headers=idempotent(idempotency_key),
            ),
            models.ChatAnswer,
        )

    def stream_chat(
        self,
        question: str | NotGiven = NOT_GIVEN,
        *,
        any_validity: bool | NotGiven = NOT_GIVEN,
        as_of: str | NotGiven | None = NOT_GIVEN,
        collection: str | NotGiven | None = NOT_GIVEN,
        conversation_id: UUID | str | NotGiven | None = NOT_GIVEN,
        detach: bool | NotGiven = NOT_GIVEN,
        document_ids: Sequence[int] | NotGiven | None = NOT_GIVEN,
        filter: Any | NotGiven = NOT_GIVEN,
        grace_seconds: int | NotGiven = NOT_GIVEN,
        include: Sequence[Literal["step", "assessment", "citation", "uncited", "cost"]] | NotGiven = NOT_GIVEN,
        keep: bool | NotGiven | None = NOT_GIVEN,
        messages: Sequence[models.ChatMessage | Mapping[str, Any]] | NotGiven | None = NOT_GIVEN,
        min_score: float | NotGiven | None = NOT_GIVEN,
        model: str | NotGiven | None = NOT_GIVEN,
        options: models.ProfileOptions | Mapping[str, Any] | NotGiven | None = NOT_GIVEN,
        parallel_tool_calls: bool | NotGiven | None = NOT_GIVEN,
        profile: str | NotGiven | None = NOT_GIVEN,
        response_format: models.ResponseFormat | Mapping[str, Any] | NotGiven | None = NOT_GIVEN,
        time_zone: str | NotGiven | None = NOT_GIVEN,
        tool_choice: Literal["none", "auto", "required"]
        | models.NamedTool
        | Mapping[str, Any]
        | NotGiven
        | None = NOT_GIVEN,
        tools: Sequence[models.ToolParam | Mapping[str, Any]] | NotGiven | None = NOT_GIVEN,
        top_k: int | NotGiven | None = NOT_GIVEN,
        idempotency_key: str | None = None,
    ) -> AsyncChatStream:
        """Answers from the caller's documents, as a stream of events or as one JSON body.

        This one streams: enter what it returns, then iterate over its events.
        """
        return AsyncChatStream(
            self._transport,
            Request(
                "POST",
                "/v1/chat",
                json=given(
                    question=question,
                    any_validity=any_validity,
                    as_of=as_of,
                    collection=collection,
                    conversation_id=conversation_id,
                    detach=detach,
                    document_ids=document_ids,
                    filter=filter,
                    grace_seconds=grace_seconds,
                    include=include,
                    keep=keep,
                    messages=messages,
                    min_score=min_score,
                    model=model,
                    options=options,
                    parallel_tool_calls=parallel_tool_calls,
                    profile=profile,
                    response_format=response_format,
                    time_zone=time_zone,
                    tool_choice=tool_choice,
                    tools=tools,
                    top_k=top_k,
                    stream=True,
                ),
                headers=idempotent(idempotency_key),
            ),
        )

    async def come_back_from(self, issuer: str) -> None:
        """Does the same if there are several providers, for one that doesn't identify itself in its responses."""
        await self._transport.do(Request("GET", path_of("/v1/auth/callback/{}", issuer)))

    async def count_message_tokens(
        self,
        messages: Sequence[models.MessageParam | Mapping[str, Any]],
        model: str,
        *,
        cache_control: Any | NotGiven = NOT_GIVEN,
        citewire: models.Extras | Mapping[str, Any] | NotGiven = NOT_GIVEN,
        container: Any | NotGiven = NOT_GIVEN,
        max_tokens: int | NotGiven = NOT_GIVEN,
        mcp_servers: Any | NotGiven = NOT_GIVEN,
        metadata: Any | NotGiven = NOT_GIVEN,
        output_config: Any | NotGiven = NOT_GIVEN,
        output_format: Any | NotGiven = NOT_GIVEN,
        service_tier: Any | NotGiven = NOT_GIVEN,
        stop_sequences: Any | NotGiven = NOT_GIVEN,
        stream: bool | NotGiven = NOT_GIVEN,
        system: str | Sequence[models.TextParam | Mapping[str, Any]] | NotGiven = NOT_GIVEN,
        temperature: float | NotGiven | None = NOT_GIVEN,
        thinking: Any | NotGiven = NOT_GIVEN,
        tool_choice: models.ToolChoiceParam | Mapping[str, Any] | NotGiven | None = NOT_GIVEN,
        tools: Sequence[models.AnthropicTool | Mapping[str, Any]] | NotGiven | None = NOT_GIVEN,
        top_k: Any | NotGiven = NOT_GIVEN,
        top_p: Any | NotGiven = NOT_GIVEN,
        beta: bool | None = None,
    ) -> models.TokenCount:
        """Estimates the tokens of a conversation, without the passages that its answer would read."""
        return await self._transport.call(
            Request(
                "POST",
                "/anthropic/v1/messages/count_tokens",
                query(beta=beta),
                json=given(
                    messages=messages,
                    model=model,
                    cache_control=cache_control,
                    citewire=citewire,
                    container=container,
                    max_tokens=max_tokens,
                    mcp_servers=mcp_servers,
                    metadata=metadata,
                    output_config=output_config,
                    output_format=output_format,
                    service_tier=service_tier,
                    stop_sequences=stop_sequences,
                    stream=stream,
                    system=system,
                    temperature=temperature,
                    thinking=thinking,
                    tool_choice=tool_choice,
                    tools=tools,
                    top_k=top_k,
                    top_p=top_p,
                ),
                repeatable=False,
            ),
            models.TokenCount,
        )

    async def create_collection(self, name: str, *, enrich: bool | NotGiven = NOT_GIVEN) -> models.Collection:
        """Creates an empty collection.

        Uploads also create the one that they name. With `enrich`, missing summaries, kinds, categories and tags of its
        documents are filled in the background.
        """
        return await self._transport.call(
            Request("POST", "/v1/collections", json=given(name=name, enrich=enrich), repeatable=False),
            models.Collection,
        )

    async def create_erasure(
        self,
        *,
        documents: Literal["delete", "keep"] | NotGiven = NOT_GIVEN,
        organisation: str | NotGiven | None = NOT_GIVEN,
        user: str | NotGiven | None = NOT_GIVEN,
    ) -> models.Erasure:
        """Starts the erasure of a user, or of the whole organisation, in the background.

        Keys stop working within seconds. It is complete once no earlier request can still write.
        """
        return await self._transport.call(
            Request(
                "POST",
                "/v1/erasures",
                json=given(documents=documents, organisation=organisation, user=user),
                repeatable=False,
            ),
            models.Erasure,
        )

    async def create_group(self, name: str) -> models.GroupInfo:
        """Creates an empty group.

        It is the same as an identity provider's group of that name. For owners and admins.
        """
        return await self._transport.call(
            Request("POST", "/v1/admin/groups", json=given(name=name), repeatable=False), models.GroupInfo
        )

    async def create_key(
        self,
        *,
        expires_at: datetime | str | NotGiven | None = NOT_GIVEN,
        groups: Sequence[str] | NotGiven | None = NOT_GIVEN,
        name: str | NotGiven = NOT_GIVEN,
        scopes: Sequence[Literal["read", "chat", "write", "admin"]] | NotGiven | None = NOT_GIVEN,
        user: str | NotGiven | None = NOT_GIVEN,
    ) -> models.NewApiKey:
        """Creates a key and shows it once.

        It can't do more than the caller's key or session, or outlive it. Named groups apply only as long as its creator
        is in them.
        """
        return await self._transport.call(
            Request(
                "POST",
                "/v1/keys",
                json=given(expires_at=expires_at, groups=groups, name=name, scopes=scopes, user=user),
                repeatable=False,
            ),
            models.NewApiKey,
        )

    async def create_message(
        self,
        max_tokens: int,
        messages: Sequence[models.MessageParam | Mapping[str, Any]],
        model: str,
        *,
        cache_control: Any | NotGiven = NOT_GIVEN,
        citewire: models.Extras | Mapping[str, Any] | NotGiven = NOT_GIVEN,
        container: Any | NotGiven = NOT_GIVEN,
        mcp_servers: Any | NotGiven = NOT_GIVEN,
        metadata: Any | NotGiven = NOT_GIVEN,
        output_config: Any | NotGiven = NOT_GIVEN,
        output_format: Any | NotGiven = NOT_GIVEN,
        service_tier: Any | NotGiven = NOT_GIVEN,
        stop_sequences: Any | NotGiven = NOT_GIVEN,
        stream: bool | NotGiven = NOT_GIVEN,
        system: str | Sequence[models.TextParam | Mapping[str, Any]] | NotGiven = NOT_GIVEN,
        temperature: float | NotGiven | None = NOT_GIVEN,
        thinking: Any | NotGiven = NOT_GIVEN,
        tool_choice: models.ToolChoiceParam | Mapping[str, Any] | NotGiven | None = NOT_GIVEN,
        tools: Sequence[models.AnthropicTool | Mapping[str, Any]] | NotGiven | None = NOT_GIVEN,
        top_k: Any | NotGiven = NOT_GIVEN,
        top_p: Any | NotGiven = NOT_GIVEN,
        beta: bool | None = None,
        idempotency_key: str | None = None,
    ) -> models.Message:
        """Anthropic's Messages API; `model` names a profile, optionally with a chat model after a slash.

        Search results in the request are passages in addition to the library's; no conversation is stored then.
        """
        return await self._transport.call(
            Request(
                "POST",
                "/anthropic/v1/messages",
                query(beta=beta),
                json=given(
                    max_tokens=max_tokens,
                    messages=messages,
                    model=model,
                    cache_control=cache_control,
                    citewire=citewire,
                    container=container,
                    mcp_servers=mcp_servers,
                    metadata=metadata,
                    output_config=output_config,
                    output_format=output_format,
                    service_tier=service_tier,
                    stop_sequences=stop_sequences,
                    stream=stream,
                    system=system,
                    temperature=temperature,
                    thinking=thinking,
                    tool_choice=tool_choice,
                    tools=tools,
                    top_k=top_k,
                    top_p=top_p,
                ),
                headers=idempotent(idempotency_key),
            ),
            models.Message,
        )

    async def create_organisation(
        self,
        id: str,
        *,
        owner: str | NotGiven | None = NOT_GIVEN,
        plan: Literal["free", "basic", "pro"] | NotGiven = NOT_GIVEN,
    ) -> models.OperatedOrganisation:
        """Creates an organisation, optionally with its owner.

        The owner signs in at the identity provider. Without one, create the first API key with `citewire keys create`,
        which needs the database: an operator can't create members' keys.
        """
        return await self._transport.call(
            Request("POST", "/v1/operator/organisations", json=given(id=id, owner=owner, plan=plan), repeatable=False),
            models.OperatedOrganisation,
        )

    async def create_user(
        self, user: str, *, role: Literal["reader", "editor", "admin", "owner"] | NotGiven = NOT_GIVEN
    ) -> models.UserInfo:
        """Creates a user before the first sign-in or key.

        For owners and admins, with roles up to their own.
        """
        return await self._transport.call(
            Request("POST", "/v1/admin/users", json=given(user=user, role=role), repeatable=False), models.UserInfo
        )

    async def deactivate_provider(
        self, type: str, *, scope: Literal["org", "user"] | None = None
    ) -> models.ProviderInfo:
        """Switches back to the organisation's or the server's provider; the deactivated one stays saved."""
        return await self._transport.call(
            Request("POST", path_of("/v1/providers/{}:deactivate", type), query(scope=scope), repeatable=False),
            models.ProviderInfo,
        )

    async def delete_budget(
        self,
        *,
        period: Literal["day", "month"],
        scope: Literal["org", "user", "key"] | None = None,
        key_id: str | None = None,
        user: str | None = None,
    ) -> None:
        """Deletes a budget; its limit no longer applies from the next call on.

        For owners and admins.
        """
        await self._transport.do(
            Request("DELETE", "/v1/budgets", query(period=period, scope=scope, key_id=key_id, user=user))
        )

    async def delete_collection(self, name: str, *, force: bool | None = None) -> models.CollectionDeleted:
        """Deletes an empty collection, or with `force` one with all its documents."""
        return await self._transport.call(
            Request("DELETE", path_of("/v1/collections/{}", name), query(force=force)), models.CollectionDeleted
        )

    async def delete_conversation(self, conversation_id: UUID | str) -> None:
        """Deletes a conversation with its messages."""
        await self._transport.do(Request("DELETE", path_of("/v1/conversations/{}", conversation_id)))

    async def delete_document(self, document_id: int) -> None:
        """Deletes a document with all its versions, and the answers that were written from it."""
        await self._transport.do(Request("DELETE", path_of("/v1/documents/{}", document_id)))

    async def delete_feedback(self, conversation_id: UUID | str, exchange_id: UUID | str) -> None:
        """Deletes the caller's feedback on an answer."""
        await self._transport.do(
            Request("DELETE", path_of("/v1/conversations/{}/answers/{}/feedback", conversation_id, exchange_id))
        )

    async def delete_group(self, name: str) -> None:
        """Removes all users from a group and deletes it.

        Its grants apply again to a later group with the same name. For owners and admins.
        """
        await self._transport.do(Request("DELETE", path_of("/v1/admin/groups/{}", name)))

    async def delete_organisation_limit(self, organisation: str, measure: str) -> None:
        """Deletes a limit; the plan's applies again within 30 seconds on every gateway."""
        await self._transport.do(
            Request("DELETE", path_of("/v1/operator/organisations/{}/limits/{}", organisation, measure))
        )

    async def delete_own_limit(
        self,
        *,
        scope: Literal["user", "key"],
        measure: Literal["requests", "tokens", "streams", "uploads", "upload-bytes"],
        user: str | None = None,
        key_id: str | None = None,
    ) -> None:
        """Deletes a limit; the plan's applies again within 30 seconds on every gateway.

        For owners and admins.
        """
        await self._transport.do(
            Request("DELETE", "/v1/admin/limits", query(scope=scope, measure=measure, user=user, key_id=key_id))
        )

    async def delete_profile(self, name: str) -> None:
        """Deletes one of the organisation's own profiles."""
        await self._transport.do(Request("DELETE", path_of("/v1/profiles/{}", name)))

    async def delete_provider(self, type: str, *, scope: Literal["org", "user"] | None = None) -> None:
        """Deletes the active provider with its key; requests in progress finish with it.

        None of the other saved providers becomes active.
        """
        await self._transport.do(Request("DELETE", path_of("/v1/providers/{}", type), query(scope=scope)))

    async def delete_saved_provider(self, type: str, name: str, *, scope: Literal["org", "user"] | None = None) -> None:
        """Deletes a provider with its key, active or not; none of the others becomes active."""
        await self._transport.do(Request("DELETE", path_of("/v1/providers/{}/{}", type, name), query(scope=scope)))

    async def disable_user(self, user: str) -> models.UserInfo:
        """Disables a user.

        Sessions and keys fail from the next request, an identity provider's tokens within 30 seconds. For owners and
        admins, for users with no role above their own except the last owner. Documents and keys stay.
        """
        return await self._transport.call(
            Request("POST", path_of("/v1/admin/users/{}:disable", user), repeatable=False), models.UserInfo
        )

    async def embed(
        self,
        input: str | Sequence[str | int | Sequence[int]],
        *,
        dimensions: int | NotGiven | None = NOT_GIVEN,
        encoding_format: Literal["float", "base64"] | NotGiven = NOT_GIVEN,
        input_type: Literal["query", "document"] | NotGiven = NOT_GIVEN,
        model: str | NotGiven | None = NOT_GIVEN,
        user: Any | NotGiven = NOT_GIVEN,
    ) -> models.Embeddings:
        """Returns a vector per text, in order."""
        return await self._transport.call(
            Request(
                "POST",
                "/v1/embeddings",
                json=given(
                    input=input,
                    dimensions=dimensions,
                    encoding_format=encoding_format,
                    input_type=input_type,
                    model=model,
                    user=user,
                ),
            ),
            models.Embeddings,
        )

    async def enable_user(self, user: str) -> models.UserInfo:
        """Enables a disabled user; keys that weren't revoked work again.

        For owners and admins.
        """
        return await self._transport.call(
            Request("POST", path_of("/v1/admin/users/{}:enable", user), repeatable=False), models.UserInfo
        )

    async def erase_organisation(self, organisation: str) -> models.Erasure:
        """Starts the permanent erasure of an organisation with all its data, in the background."""
        return await self._transport.call(
            Request("DELETE", path_of("/v1/operator/organisations/{}", organisation)), models.Erasure
        )

    async def export_conversation(self, conversation_id: UUID | str) -> models.ConversationExport:
        """Returns a whole conversation as a file, in JSON or Markdown."""
        return await self._transport.call(
            Request("GET", path_of("/v1/conversations/{}/export", conversation_id)), models.ConversationExport
        )

    async def fetch_document(
        self,
        url: str,
        *,
        collection: str | NotGiven | None = NOT_GIVEN,
        file_name: str | NotGiven | None = NOT_GIVEN,
        metadata: Mapping[str, Any] | NotGiven | None = NOT_GIVEN,
        readers: Sequence[str] | NotGiven = NOT_GIVEN,
        tags: Sequence[str] | NotGiven = NOT_GIVEN,
        title: str | NotGiven = NOT_GIVEN,
        type: Literal["file", "article", "repository", "capture"] | NotGiven = NOT_GIVEN,
        valid_from: str | NotGiven | None = NOT_GIVEN,
        valid_until: str | NotGiven | None = NOT_GIVEN,
        idempotency_key: str | None = None,
    ) -> models.Document:
        """Stores a file, a text, or a file fetched from a URL.

        It is durable on return, and processed afterwards.
        """
        return await self._transport.call(
            Request(
                "POST",
                "/v1/documents",
                json=given(
                    url=url,
                    collection=collection,
                    file_name=file_name,
                    metadata=metadata,
                    readers=readers,
                    tags=tags,
                    title=title,
                    type=type,
                    valid_from=valid_from,
                    valid_until=valid_until,
                ),
                headers=idempotent(idempotency_key),
            ),
            models.Document,
        )

    async def fetch_version(
        self,
        document_id: int,
        url: str,
        *,
        collection: str | NotGiven | None = NOT_GIVEN,
        file_name: str | NotGiven | None = NOT_GIVEN,
        metadata: Mapping[str, Any] | NotGiven | None = NOT_GIVEN,
        readers: Sequence[str] | NotGiven = NOT_GIVEN,
        tags: Sequence[str] | NotGiven = NOT_GIVEN,
        title: str | NotGiven = NOT_GIVEN,
        type: Literal["file", "article", "repository", "capture"] | NotGiven = NOT_GIVEN,
        valid_from: str | NotGiven | None = NOT_GIVEN,
        valid_until: str | NotGiven | None = NOT_GIVEN,
        idempotency_key: str | None = None,
    ) -> models.Document:
        """Stores a new version; the current one is served until the new one is ready."""
        return await self._transport.call(
            Request(
                "PUT",
                path_of("/v1/documents/{}", document_id),
                json=given(
                    url=url,
                    collection=collection,
                    file_name=file_name,
                    metadata=metadata,
                    readers=readers,
                    tags=tags,
                    title=title,
                    type=type,
                    valid_from=valid_from,
                    valid_until=valid_until,
                ),
                headers=idempotent(idempotency_key),
            ),
            models.Document,
        )

    async def get_anthropic_model(self, name: str, *, beta: bool | None = None) -> models.ModelEntry:
        """Returns one profile."""
        return await self._transport.call(
            Request("GET", path_of("/anthropic/v1/models/{}", name), query(beta=beta)), models.ModelEntry
        )

    async def get_any_organisation(self, organisation: str) -> models.OperatedOrganisation:
        """Returns an organisation with its plan and its number of users and keys."""
        return await self._transport.call(
            Request("GET", path_of("/v1/operator/organisations/{}", organisation)), models.OperatedOrganisation
        )

    async def get_caller(self) -> models.CallerInfo:
        """Returns the caller that the session, key or token identifies."""
        return await self._transport.call(Request("GET", "/v1/auth/session"), models.CallerInfo)

    async def get_chunk(self, chunk_id: int) -> models.Chunk:
        """Returns a chunk, including those of superseded versions while these are kept."""
        return await self._transport.call(Request("GET", path_of("/v1/chunks/{}", chunk_id)), models.Chunk)

    async def get_conversation(
        self, conversation_id: UUID | str, *, page_size: int | None = None, page_token: str | None = None
    ) -> models.ConversationPage:
        """Returns a conversation with its messages, oldest first; long ones come in pages."""
        return await self._transport.call(
            Request(
                "GET",
                path_of("/v1/conversations/{}", conversation_id),
                query(page_size=page_size, page_token=page_token),
            ),
            models.ConversationPage,
        )

    def iter_messages(
        self, conversation_id: UUID | str, *, page_size: int | None = None
    ) -> AsyncGenerator[models.UserMessage | Mapping[str, Any] | models.StoredAnswer, None]:
        """Returns a conversation with its messages, oldest first; long ones come in pages.

        Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", path_of("/v1/conversations/{}", conversation_id), query(page_size=page_size)),
            models.ConversationPage,
            "messages",
        )

    async def get_document(self, document_id: int) -> models.Document:
        """Returns a document, described by its latest version."""
        return await self._transport.call(Request("GET", path_of("/v1/documents/{}", document_id)), models.Document)

    async def get_erasure(self, erasure_id: UUID | str) -> models.Erasure:
        """Returns an erasure.

        An organisation's erasure is deleted with it.
        """
        return await self._transport.call(Request("GET", path_of("/v1/erasures/{}", erasure_id)), models.Erasure)

    async def get_grants(self, name: str) -> models.GrantList:
        """Returns a collection's grants, for those who may manage it; without any, it is open to everybody."""
        return await self._transport.call(Request("GET", path_of("/v1/collections/{}/grants", name)), models.GrantList)

    async def get_key(self, key_id: UUID | str) -> models.ApiKey:
        """Returns a key without its secret."""
        return await self._transport.call(Request("GET", path_of("/v1/keys/{}", key_id)), models.ApiKey)

    async def get_model(self, name: str) -> models.ModelInfo:
        """Returns one profile."""
        return await self._transport.call(Request("GET", path_of("/v1/models/{}", name)), models.ModelInfo)

    async def get_organisation(self) -> models.OrganisationInfo:
        """Returns the caller's organisation with its plan, which the operator sets.

        For owners and admins.
        """
        return await self._transport.call(Request("GET", "/v1/admin/organisation"), models.OrganisationInfo)

    async def get_organisation_erasure(self, organisation: str) -> models.Erasure:
        """Returns a running erasure of an organisation; afterwards nothing is left of it."""
        return await self._transport.call(
            Request("GET", path_of("/v1/operator/organisations/{}/erasure", organisation)), models.Erasure
        )

    async def get_organisations_usage(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        group_by: str | None = None,
        organisation: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
    ) -> models.OperatorUsage:
        """Adds up the spending of organisations on provider calls, in pages of at most 100 organisations."""
        return await self._transport.call(
            Request(
                "GET",
                "/v1/operator/usage",
                query(
                    from_=from_,
                    to=to,
                    group_by=group_by,
                    organisation=organisation,
                    page_size=page_size,
                    page_token=page_token,
                ),
            ),
            models.OperatorUsage,
        )

    def iter_get_organisations_usage(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        group_by: str | None = None,
        organisation: str | None = None,
        page_size: int | None = None,
    ) -> AsyncGenerator[models.Group, None]:
        """Adds up the spending of organisations on provider calls, in pages of at most 100 organisations.

        Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request(
                "GET",
                "/v1/operator/usage",
                query(from_=from_, to=to, group_by=group_by, organisation=organisation, page_size=page_size),
            ),
            models.OperatorUsage,
            "group_by",
        )

    async def get_profile(self, name: str) -> models.ProfileInfo:
        """Returns a profile with all its fields; `name@3` is version 3."""
        return await self._transport.call(Request("GET", path_of("/v1/profiles/{}", name)), models.ProfileInfo)

    async def get_provider(self, type: str, *, scope: Literal["org", "user"] | None = None) -> models.ProviderInfo:
        """Returns a provider without its key and address."""
        return await self._transport.call(
            Request("GET", path_of("/v1/providers/{}", type), query(scope=scope)), models.ProviderInfo
        )

    async def get_retention(self) -> models.RetentionInfo:
        """Returns the organisation's policy.

        For owners and admins.
        """
        return await self._transport.call(Request("GET", "/v1/admin/retention"), models.RetentionInfo)

    async def get_saved_provider(
        self, type: str, name: str, *, scope: Literal["org", "user"] | None = None
    ) -> models.ProviderInfo:
        """Returns a provider saved under a name, active or not, without its key and address."""
        return await self._transport.call(
            Request("GET", path_of("/v1/providers/{}/{}", type, name), query(scope=scope)), models.ProviderInfo
        )

    async def get_sharing(self, conversation_id: UUID | str) -> models.Sharing:
        """Returns who may read one of the caller's conversations."""
        return await self._transport.call(
            Request("GET", path_of("/v1/conversations/{}/sharing", conversation_id)), models.Sharing
        )

    async def get_usage(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        group_by: str | None = None,
        user: str | None = None,
        key_id: str | None = None,
        source: Literal["calls", "exchanges"] | None = None,
    ) -> models.UsageReport:
        """Adds up the usage of the organisation, a user or an API key.

        Other users than owners and admins see their own.
        """
        return await self._transport.call(
            Request(
                "GET",
                "/v1/usage",
                query(from_=from_, to=to, group_by=group_by, user=user, key_id=key_id, source=source),
            ),
            models.UsageReport,
        )

    async def get_user(self, user: str) -> models.UserDetails:
        """Returns a user with its groups.

        For owners and admins.
        """
        return await self._transport.call(Request("GET", path_of("/v1/admin/users/{}", user)), models.UserDetails)

    async def give_feedback(
        self,
        conversation_id: UUID | str,
        exchange_id: UUID | str,
        rating: Literal["up", "down"],
        *,
        comment: str | NotGiven = NOT_GIVEN,
        reasons: Sequence[
            Literal[
                "correct",
                "complete",
                "well_cited",
                "clear",
                "incorrect",
                "unsupported",
                "incomplete",
                "off_topic",
                "outdated",
                "unclear",
            ]
        ]
        | NotGiven = NOT_GIVEN,
    ) -> models.FeedbackInfo:
        """Stores the caller's feedback on an answer in one of their conversations, replacing earlier feedback.

        Owners and admins of the organisation can see it, with the question and the answer.
        """
        return await self._transport.call(
            Request(
                "PUT",
                path_of("/v1/conversations/{}/answers/{}/feedback", conversation_id, exchange_id),
                json=given(rating=rating, comment=comment, reasons=reasons),
            ),
            models.FeedbackInfo,
        )

    async def list_anthropic_models(
        self,
        *,
        limit: int | None = None,
        after_id: str | None = None,
        before_id: str | None = None,
        beta: bool | None = None,
    ) -> models.ModelEntries:
        """Returns the profiles by name, each as a model."""
        return await self._transport.call(
            Request(
                "GET", "/anthropic/v1/models", query(limit=limit, after_id=after_id, before_id=before_id, beta=beta)
            ),
            models.ModelEntries,
        )

    async def list_audit_events(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        user: str | None = None,
        action: Literal[
            "audit.cut",
            "audit.dropped",
            "audit.export",
            "budget.delete",
            "budget.list",
            "budget.set",
            "chat",
            "chat.cancel",
            "chat.read",
            "chunk.read",
            "collection.create",
            "collection.delete",
            "collection.grant",
            "collection.grants",
            "collection.list",
            "collection.update",
            "conversation.delete",
            "conversation.expire",
            "conversation.export",
            "conversation.list",
            "conversation.read",
            "conversation.share",
            "conversation.update",
            "document.batch",
            "document.create",
            "document.delete",
            "document.expire",
            "document.list",
            "document.read",
            "document.replace",
            "document.retry",
            "document.update",
            "erasure.create",
            "erasure.read",
            "feedback.delete",
            "feedback.list",
            "feedback.set",
            "group.add",
            "group.create",
            "group.delete",
            "group.list",
            "group.read",
            "group.remove",
            "key.create",
            "key.list",
            "key.read",
            "key.revoke",
            "key.rotate",
            "limit.delete",
            "limit.list",
            "limit.set",
            "model.call",
            "operator_key.create",
            "operator_key.revoke",
            "organisation.audit_days",
            "organisation.create",
            "organisation.list",
            "organisation.plan",
            "organisation.read",
            "organisation.resume",
            "organisation.suspend",
            "profile.delete",
            "profile.read",
            "profile.set",
            "provider.delete",
            "provider.read",
            "provider.rules",
            "provider.set",
            "retention.read",
            "retention.set",
            "search",
            "session.begin",
            "session.end",
            "session.refresh",
            "space.calibrate",
            "space.list",
            "space.prepare",
            "space.switch",
            "usage.read",
            "user.create",
            "user.disable",
            "user.enable",
            "user.export",
            "user.list",
            "user.read",
            "user.role",
            "verify",
        ]
        | None = None,
        object: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
    ) -> models.AuditPage:
        """Returns the organisation's audit trail, oldest first, up to about a second ago.

        For owners and admins.
        """
        return await self._transport.call(
            Request(
                "GET",
                "/v1/admin/audit",
                query(
                    from_=from_,
                    to=to,
                    user=user,
                    action=action,
                    object=object,
                    page_size=page_size,
                    page_token=page_token,
                ),
            ),
            models.AuditPage,
        )

    def iter_audit_events(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        user: str | None = None,
        action: Literal[
            "audit.cut",
            "audit.dropped",
            "audit.export",
            "budget.delete",
            "budget.list",
            "budget.set",
            "chat",
            "chat.cancel",
            "chat.read",
            "chunk.read",
            "collection.create",
            "collection.delete",
            "collection.grant",
            "collection.grants",
            "collection.list",
            "collection.update",
            "conversation.delete",
            "conversation.expire",
            "conversation.export",
            "conversation.list",
            "conversation.read",
            "conversation.share",
            "conversation.update",
            "document.batch",
            "document.create",
            "document.delete",
            "document.expire",
            "document.list",
            "document.read",
            "document.replace",
            "document.retry",
            "document.update",
            "erasure.create",
            "erasure.read",
            "feedback.delete",
            "feedback.list",
            "feedback.set",
            "group.add",
            "group.create",
            "group.delete",
            "group.list",
            "group.read",
            "group.remove",
            "key.create",
            "key.list",
            "key.read",
            "key.revoke",
            "key.rotate",
            "limit.delete",
            "limit.list",
            "limit.set",
            "model.call",
            "operator_key.create",
            "operator_key.revoke",
            "organisation.audit_days",
            "organisation.create",
            "organisation.list",
            "organisation.plan",
            "organisation.read",
            "organisation.resume",
            "organisation.suspend",
            "profile.delete",
            "profile.read",
            "profile.set",
            "provider.delete",
            "provider.read",
            "provider.rules",
            "provider.set",
            "retention.read",
            "retention.set",
            "search",
            "session.begin",
            "session.end",
            "session.refresh",
            "space.calibrate",
            "space.list",
            "space.prepare",
            "space.switch",
            "usage.read",
            "user.create",
            "user.disable",
            "user.enable",
            "user.export",
            "user.list",
            "user.read",
            "user.role",
            "verify",
        ]
        | None = None,
        object: str | None = None,
        page_size: int | None = None,
    ) -> AsyncGenerator[models.AuditEntry, None]:
        """Returns the organisation's audit trail, oldest first, up to about a second ago.

        For owners and admins. Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request(
                "GET",
                "/v1/admin/audit",
                query(from_=from_, to=to, user=user, action=action, object=object, page_size=page_size),
            ),
            models.AuditPage,
            "events",
        )

    async def list_budgets(
        self, *, page_size: int | None = None, page_token: str | None = None, q: str | None = None
    ) -> models.BudgetList:
        """Returns the current budgets of the organisation and of its users and keys.

        For owners and admins. `q` searches users, ids of keys and periods.
        """
        return await self._transport.call(
            Request("GET", "/v1/budgets", query(page_size=page_size, page_token=page_token, q=q)), models.BudgetList
        )

    def iter_budgets(
        self, *, page_size: int | None = None, q: str | None = None
    ) -> AsyncGenerator[models.BudgetInfo, None]:
        """Returns the current budgets of the organisation and of its users and keys.

        For owners and admins. `q` searches users, ids of keys and periods. Yields them one by one, and asks for the
        next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/budgets", query(page_size=page_size, q=q)), models.BudgetList, "budgets"
        )

    async def list_collections(
        self, *, page_size: int | None = None, page_token: str | None = None, q: str | None = None
    ) -> models.CollectionList:
        """Returns collections by name; `q` searches names."""
        return await self._transport.call(
            Request("GET", "/v1/collections", query(page_size=page_size, page_token=page_token, q=q)),
            models.CollectionList,
        )

    def iter_collections(
        self, *, page_size: int | None = None, q: str | None = None
    ) -> AsyncGenerator[models.Collection, None]:
        """Returns collections by name; `q` searches names.

        Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/collections", query(page_size=page_size, q=q)), models.CollectionList, "collections"
        )

    async def list_conversations(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        q: str | None = None,
        shared: bool | None = None,
    ) -> models.ConversationList:
        """Returns the caller's conversations, latest first; `q` searches titles and, of the caller's own, messages."""
        return await self._transport.call(
            Request("GET", "/v1/conversations", query(page_size=page_size, page_token=page_token, q=q, shared=shared)),
            models.ConversationList,
        )

    def iter_conversations(
        self, *, page_size: int | None = None, q: str | None = None, shared: bool | None = None
    ) -> AsyncGenerator[models.Conversation, None]:
        """Returns the caller's conversations, latest first; `q` searches titles and, of the caller's own, messages.

        Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/conversations", query(page_size=page_size, q=q, shared=shared)),
            models.ConversationList,
            "conversations",
        )

    async def list_documents(
        self,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
        collection: str | None = None,
        type: Literal["file", "article", "repository", "capture"] | None = None,
        status: Literal["pending", "processing", "ready", "failed"] | None = None,
        tag: str | None = None,
        filter: str | None = None,
        q: str | None = None,
        as_of: str | None = None,
        any_validity: bool | None = None,
    ) -> models.DocumentList:
        """Returns valid documents, newest first; `q` searches titles and file names."""
        return await self._transport.call(
            Request(
                "GET",
                "/v1/documents",
                query(
                    page_size=page_size,
                    page_token=page_token,
                    collection=collection,
                    type=type,
                    status=status,
                    tag=tag,
                    filter=filter,
                    q=q,
                    as_of=as_of,
                    any_validity=any_validity,
                ),
            ),
            models.DocumentList,
        )

    def iter_documents(
        self,
        *,
        page_size: int | None = None,
        collection: str | None = None,
        type: Literal["file", "article", "repository", "capture"] | None = None,
        status: Literal["pending", "processing", "ready", "failed"] | None = None,
        tag: str | None = None,
        filter: str | None = None,
        q: str | None = None,
        as_of: str | None = None,
        any_validity: bool | None = None,
    ) -> AsyncGenerator[models.Document, None]:
        """Returns valid documents, newest first; `q` searches titles and file names.

        Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request(
                "GET",
                "/v1/documents",
                query(
                    page_size=page_size,
                    collection=collection,
                    type=type,
                    status=status,
                    tag=tag,
                    filter=filter,
                    q=q,
                    as_of=as_of,
                    any_validity=any_validity,
                ),
            ),
            models.DocumentList,
            "documents",
        )

    async def list_erasures(
        self, *, page_size: int | None = None, page_token: str | None = None, q: str | None = None
    ) -> models.ErasureList:
        """Returns the organisation's latest hundred erasures, oldest first; `q` searches users and their successors."""
        return await self._transport.call(
            Request("GET", "/v1/erasures", query(page_size=page_size, page_token=page_token, q=q)), models.ErasureList
        )

    def iter_erasures(
        self, *, page_size: int | None = None, q: str | None = None
    ) -> AsyncGenerator[models.Erasure, None]:
        """Returns the organisation's latest hundred erasures, oldest first; `q` searches users and their successors.

        Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/erasures", query(page_size=page_size, q=q)), models.ErasureList, "erasures"
        )

    async def list_feedback(
        self,
        *,
        rating: Literal["up", "down"] | None = None,
        from_: str | None = None,
        to: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
    ) -> models.FeedbackList:
        """Returns answers that users of the organisation rated, latest first.

        For owners and admins. An answer that was written from documents hidden from the caller is `withheld`.
        """
        return await self._transport.call(
            Request(
                "GET",
                "/v1/feedback",
                query(rating=rating, from_=from_, to=to, page_size=page_size, page_token=page_token),
            ),
            models.FeedbackList,
        )

    def iter_feedback(
        self,
        *,
        rating: Literal["up", "down"] | None = None,
        from_: str | None = None,
        to: str | None = None,
        page_size: int | None = None,
    ) -> AsyncGenerator[models.FeedbackEntry, None]:
        """Returns answers that users of the organisation rated, latest first.

        For owners and admins. An answer that was written from documents hidden from the caller is `withheld`. Yields
        them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/feedback", query(rating=rating, from_=from_, to=to, page_size=page_size)),
            models.FeedbackList,
            "feedback",
        )

    async def list_group_members(
        self, name: str, *, page_size: int | None = None, page_token: str | None = None, q: str | None = None
    ) -> models.GroupMemberList:
        """Returns the users of a group.

        For owners and admins; `q` searches ids.
        """
        return await self._transport.call(
            Request(
                "GET",
                path_of("/v1/admin/groups/{}/members", name),
                query(page_size=page_size, page_token=page_token, q=q),
            ),
            models.GroupMemberList,
        )

    def iter_group_members(
        self, name: str, *, page_size: int | None = None, q: str | None = None
    ) -> AsyncGenerator[str, None]:
        """Returns the users of a group.

        For owners and admins; `q` searches ids. Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", path_of("/v1/admin/groups/{}/members", name), query(page_size=page_size, q=q)),
            models.GroupMemberList,
            "users",
        )

    async def list_groups(
        self, *, page_size: int | None = None, page_token: str | None = None, q: str | None = None
    ) -> models.GroupList:
        """Returns the organisation's own groups.

        For owners and admins; `q` searches names.
        """
        return await self._transport.call(
            Request("GET", "/v1/admin/groups", query(page_size=page_size, page_token=page_token, q=q)), models.GroupList
        )

    def iter_groups(
        self, *, page_size: int | None = None, q: str | None = None
    ) -> AsyncGenerator[models.GroupInfo, None]:
        """Returns the organisation's own groups.

        For owners and admins; `q` searches names. Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/admin/groups", query(page_size=page_size, q=q)), models.GroupList, "groups"
        )

    async def list_keys(
        self,
        *,
        scope: Literal["org", "user"] | None = None,
        user: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
        q: str | None = None,
    ) -> models.ApiKeyList:
        """Returns keys without their secrets, including revoked and expired ones.

        `q` searches ids, names, users and prefixes.
        """
        return await self._transport.call(
            Request("GET", "/v1/keys", query(scope=scope, user=user, page_size=page_size, page_token=page_token, q=q)),
            models.ApiKeyList,
        )

    def iter_keys(
        self,
        *,
        scope: Literal["org", "user"] | None = None,
        user: str | None = None,
        page_size: int | None = None,
        q: str | None = None,
    ) -> AsyncGenerator[models.ApiKey, None]:
        """Returns keys without their secrets, including revoked and expired ones.

        `q` searches ids, names, users and prefixes. Yields them one by one, and asks for the next page when it is
        needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/keys", query(scope=scope, user=user, page_size=page_size, q=q)),
            models.ApiKeyList,
            "keys",
        )

    async def list_limits(self, *, user: str | None = None, key_id: str | None = None) -> models.LimitReport:
        """Returns the limits of the caller's key, the caller and the organisation, with the current usage.

        Owners and admins may ask for another user, or for an API key with its user. Stored bytes are left out then.
        While the retriever, which counts stored bytes, doesn't answer, `unknown` lists them.
        """
        return await self._transport.call(
            Request("GET", "/v1/limits", query(user=user, key_id=key_id)), models.LimitReport
        )

    async def list_models(
        self, *, page_size: int | None = None, page_token: str | None = None, q: str | None = None
    ) -> models.ModelList:
        """Returns the profiles, each as a model; `q` searches names."""
        return await self._transport.call(
            Request("GET", "/v1/models", query(page_size=page_size, page_token=page_token, q=q)), models.ModelList
        )

    def iter_models(
        self, *, page_size: int | None = None, q: str | None = None
    ) -> AsyncGenerator[models.ModelInfo, None]:
        """Returns the profiles, each as a model; `q` searches names.

        Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/models", query(page_size=page_size, q=q)), models.ModelList, "data"
        )

    async def list_operator_events(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        action: Literal[
            "audit.cut",
            "audit.dropped",
            "audit.export",
            "budget.delete",
            "budget.list",
            "budget.set",
            "chat",
            "chat.cancel",
            "chat.read",
            "chunk.read",
            "collection.create",
            "collection.delete",
            "collection.grant",
            "collection.grants",
            "collection.list",
            "collection.update",
            "conversation.delete",
            "conversation.expire",
            "conversation.export",
            "conversation.list",
            "conversation.read",
            "conversation.share",
            "conversation.update",
            "document.batch",
            "document.create",
            "document.delete",
            "document.expire",
            "document.list",
            "document.read",
            "document.replace",
            "document.retry",
            "document.update",
            "erasure.create",
            "erasure.read",
            "feedback.delete",
            "feedback.list",
            "feedback.set",
            "group.add",
            "group.create",
            "group.delete",
            "group.list",
            "group.read",
            "group.remove",
            "key.create",
            "key.list",
            "key.read",
            "key.revoke",
            "key.rotate",
            "limit.delete",
            "limit.list",
            "limit.set",
            "model.call",
            "operator_key.create",
            "operator_key.revoke",
            "organisation.audit_days",
            "organisation.create",
            "organisation.list",
            "organisation.plan",
            "organisation.read",
            "organisation.resume",
            "organisation.suspend",
            "profile.delete",
            "profile.read",
            "profile.set",
            "provider.delete",
            "provider.read",
            "provider.rules",
            "provider.set",
            "retention.read",
            "retention.set",
            "search",
            "session.begin",
            "session.end",
            "session.refresh",
            "space.calibrate",
            "space.list",
            "space.prepare",
            "space.switch",
            "usage.read",
            "user.create",
            "user.disable",
            "user.enable",
            "user.export",
            "user.list",
            "user.read",
            "user.role",
            "verify",
        ]
        | None = None,
        object: str | None = None,
        page_size: int | None = None,
        page_token: str | None = None,
    ) -> models.AuditPage:
        """Returns the operators' actions and attempts, oldest first, about a second after they ended.

        Actions on an organisation are in its own trail too.
        """
        return await self._transport.call(
            Request(
                "GET",
                "/v1/operator/audit",
                query(from_=from_, to=to, action=action, object=object, page_size=page_size, page_token=page_token),
            ),
            models.AuditPage,
        )

    def iter_operator_events(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        action: Literal[
            "audit.cut",
            "audit.dropped",
            "audit.export",
            "budget.delete",
            "budget.list",
            "budget.set",
            "chat",
            "chat.cancel",
            "chat.read",
            "chunk.read",
            "collection.create",
            "collection.delete",
            "collection.grant",
            "collection.grants",
            "collection.list",
            "collection.update",
            "conversation.delete",
            "conversation.expire",
            "conversation.export",
            "conversation.list",
            "conversation.read",
            "conversation.share",
            "conversation.update",
            "document.batch",
            "document.create",
            "document.delete",
            "document.expire",
            "document.list",
            "document.read",
            "document.replace",
            "document.retry",
            "document.update",
            "erasure.create",
            "erasure.read",
            "feedback.delete",
            "feedback.list",
            "feedback.set",
            "group.add",
            "group.create",
            "group.delete",
            "group.list",
            "group.read",
            "group.remove",
            "key.create",
            "key.list",
            "key.read",
            "key.revoke",
            "key.rotate",
            "limit.delete",
            "limit.list",
            "limit.set",
            "model.call",
            "operator_key.create",
            "operator_key.revoke",
            "organisation.audit_days",
            "organisation.create",
            "organisation.list",
            "organisation.plan",
            "organisation.read",
            "organisation.resume",
            "organisation.suspend",
            "profile.delete",
            "profile.read",
            "profile.set",
            "provider.delete",
            "provider.read",
            "provider.rules",
            "provider.set",
            "retention.read",
            "retention.set",
            "search",
            "session.begin",
            "session.end",
            "session.refresh",
            "space.calibrate",
            "space.list",
            "space.prepare",
            "space.switch",
            "usage.read",
            "user.create",
            "user.disable",
            "user.enable",
            "user.export",
            "user.list",
            "user.read",
            "user.role",
            "verify",
        ]
        | None = None,
        object: str | None = None,
        page_size: int | None = None,
    ) -> AsyncGenerator[models.AuditEntry, None]:
        """Returns the operators' actions and attempts, oldest first, about a second after they ended.

        Actions on an organisation are in its own trail too. Yields them one by one, and asks for the next page when it
        is needed.
        """
        return self._transport.pages(
            Request(
                "GET",
                "/v1/operator/audit",
                query(from_=from_, to=to, action=action, object=object, page_size=page_size),
            ),
            models.AuditPage,
            "events",
        )

    async def list_organisation_limits(self, organisation: str) -> models.OrganisationLimits:
        """Returns the limits that override an organisation's plan, without those of its users and keys."""
        return await self._transport.call(
            Request("GET", path_of("/v1/operator/organisations/{}/limits", organisation)), models.OrganisationLimits
        )

    async def list_organisations(
        self, *, page_size: int | None = None, page_token: str | None = None, q: str | None = None
    ) -> models.OperatedOrganisationList:
        """Returns organisations by their ids; `q` searches those."""
        return await self._transport.call(
            Request("GET", "/v1/operator/organisations", query(page_size=page_size, page_token=page_token, q=q)),
            models.OperatedOrganisationList,
        )

    def iter_organisations(
        self, *, page_size: int | None = None, q: str | None = None
    ) -> AsyncGenerator[models.OperatedOrganisation, None]:
        """Returns organisations by their ids; `q` searches those.

        Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/operator/organisations", query(page_size=page_size, q=q)),
            models.OperatedOrganisationList,
            "organisations",
        )

    async def list_own_limits(
        self, *, page_size: int | None = None, page_token: str | None = None, q: str | None = None
    ) -> models.OwnLimitList:
        """Returns the limits that override the plan's.

        For owners and admins. `q` searches users, ids of keys and measures.
        """
        return await self._transport.call(
            Request("GET", "/v1/admin/limits", query(page_size=page_size, page_token=page_token, q=q)),
            models.OwnLimitList,
        )

    def iter_own_limits(
        self, *, page_size: int | None = None, q: str | None = None
    ) -> AsyncGenerator[models.OwnLimitInfo, None]:
        """Returns the limits that override the plan's.

        For owners and admins. `q` searches users, ids of keys and measures. Yields them one by one, and asks for the
        next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/admin/limits", query(page_size=page_size, q=q)), models.OwnLimitList, "limits"
        )

    async def list_plans(self) -> models.Plans:
        """Returns the plans with their limits, from the server's settings (`CITEWIRE_PLAN_LIMITS`)."""
        return await self._transport.call(Request("GET", "/v1/operator/plans"), models.Plans)

    async def list_profiles(
        self, *, page_size: int | None = None, page_token: str | None = None, q: str | None = None
    ) -> models.ProfileList:
        """Returns the available profiles: the built-in ones, then the organisation's own, by name.

        `q` searches names and descriptions.
        """
        return await self._transport.call(
            Request("GET", "/v1/profiles", query(page_size=page_size, page_token=page_token, q=q)), models.ProfileList
        )

    def iter_profiles(
        self, *, page_size: int | None = None, q: str | None = None
    ) -> AsyncGenerator[models.ProfileInfo, None]:
        """Returns the available profiles: the built-in ones, then the organisation's own, by name.

        `q` searches names and descriptions. Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/profiles", query(page_size=page_size, q=q)), models.ProfileList, "profiles"
        )

    async def list_providers(
        self, *, page_size: int | None = None, page_token: str | None = None, q: str | None = None
    ) -> models.ProviderList:
        """Returns the caller's providers and the organisation's, and whether the organisation requires its own.

        Several may be saved per type; one of them is active. `q` searches types, names, providers and models, including
        those of fallbacks.
        """
        return await self._transport.call(
            Request("GET", "/v1/providers", query(page_size=page_size, page_token=page_token, q=q)), models.ProviderList
        )

    def iter_providers(
        self, *, page_size: int | None = None, q: str | None = None
    ) -> AsyncGenerator[models.ProviderInfo, None]:
        """Returns the caller's providers and the organisation's, and whether the organisation requires its own.

        Several may be saved per type; one of them is active. `q` searches types, names, providers and models, including
        those of fallbacks. Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/providers", query(page_size=page_size, q=q)), models.ProviderList, "providers"
        )

    async def list_spaces(
        self, *, page_size: int | None = None, page_token: str | None = None, q: str | None = None
    ) -> models.SpaceList:
        """Returns the live space, the one being prepared, the previous one and those of further models.

        Documents that lack vectors (`missing`) are embedded in the background, except in the `previous` space.
        `calibration` has the measured values of a space's scores: null if there are none, without `measured_at` if they
        come with the server. `q` searches models.
        """
        return await self._transport.call(
            Request("GET", "/v1/spaces", query(page_size=page_size, page_token=page_token, q=q)), models.SpaceList
        )

    def iter_spaces(self, *, page_size: int | None = None, q: str | None = None) -> AsyncGenerator[models.Space, None]:
        """Returns the live space, the one being prepared, the previous one and those of further models.

        Documents that lack vectors (`missing`) are embedded in the background, except in the `previous` space.
        `calibration` has the measured values of a space's scores: null if there are none, without `measured_at` if they
        come with the server. `q` searches models. Yields them one by one, and asks for the next page when it is needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/spaces", query(page_size=page_size, q=q)), models.SpaceList, "spaces"
        )

    async def list_tables(self, document_id: int, *, version: int | None = None) -> models.DocumentTables:
        """Returns a version's tables with their columns; by default the live version's."""
        return await self._transport.call(
            Request("GET", path_of("/v1/documents/{}/tables", document_id), query(version=version)),
            models.DocumentTables,
        )

    async def list_users(
        self, *, page_size: int | None = None, page_token: str | None = None, q: str | None = None
    ) -> models.UserList:
        """Returns the organisation's users with their roles.

        For owners and admins; `q` searches ids and roles.
        """
        return await self._transport.call(
            Request("GET", "/v1/admin/users", query(page_size=page_size, page_token=page_token, q=q)), models.UserList
        )

    def iter_users(
        self, *, page_size: int | None = None, q: str | None = None
    ) -> AsyncGenerator[models.UserInfo, None]:
        """Returns the organisation's users with their roles.

        For owners and admins; `q` searches ids and roles. Yields them one by one, and asks for the next page when it is
        needed.
        """
        return self._transport.pages(
            Request("GET", "/v1/admin/users", query(page_size=page_size, q=q)), models.UserList, "users"
        )

    async def locate_span(
        self, document_id: int, *, char_start: int, char_end: int, version: int | None = None
    ) -> models.SpanPlaces:
        """Locates a part of a version's text in the original: for a PDF, a box per line on each page."""
        return await self._transport.call(
            Request(
                "GET",
                path_of("/v1/documents/{}/locate", document_id),
                query(char_start=char_start, char_end=char_end, version=version),
            ),
            models.SpanPlaces,
        )

    async def prepare_space(self, space: models.SpaceChoice | Mapping[str, Any]) -> models.Space:
        """Starts embedding the library in another space, in the background; searches stay in the live one.

        It replaces a space that was being prepared; preparing the live one cancels that. A model of the server is
        identified by its name; the space of an organisation's own provider also by revision and dimensions. For owners
        and admins.
        """
        return await self._transport.call(
            Request("POST", "/v1/spaces:prepare", json=given(space=space), repeatable=False), models.Space
        )

    async def put_audit_days(self, organisation: str, days: int) -> models.OperatedOrganisation:
        """Sets how many days an organisation's audit trail is kept."""
        return await self._transport.call(
            Request("PUT", path_of("/v1/operator/organisations/{}/audit-days", organisation), json=given(days=days)),
            models.OperatedOrganisation,
        )

    async def put_budget(
        self,
        limit_usd: int | float,
        period: Literal["day", "month"],
        *,
        key_id: str | NotGiven | None = NOT_GIVEN,
        scope: Literal["org", "user", "key"] | NotGiven = NOT_GIVEN,
        user: str | NotGiven | None = NOT_GIVEN,
    ) -> models.BudgetInfo:
        """Sets a budget's limit, effective from the next call; the current period's spending counts.

        For owners and admins.
        """
        return await self._transport.call(
            Request(
                "PUT",
                "/v1/budgets",
                json=given(limit_usd=limit_usd, period=period, key_id=key_id, scope=scope, user=user),
            ),
            models.BudgetInfo,
        )

    async def put_calibration(
        self,
        calibration: models.CalibrationValues | Mapping[str, Any] | None,
        space: models.SpaceBody | Mapping[str, Any],
    ) -> models.Space:
        """Stores measured thresholds, replacing the stored ones, from the next request on.

        `'calibration': null` removes them, so that the server's own apply again. For owners and admins.
        """
        return await self._transport.call(
            Request("PUT", "/v1/spaces/calibration", json=given(calibration=calibration, space=space)), models.Space
        )

    async def put_grants(self, name: str, grants: Sequence[models.GrantBody | Mapping[str, Any]]) -> models.GrantList:
        """Replaces a collection's grants to users, groups or everyone, effective from the next request.

        The first grant closes the collection to everybody else except owners and admins. Requires `manage`.
        """
        return await self._transport.call(
            Request("PUT", path_of("/v1/collections/{}/grants", name), json=given(grants=grants)), models.GrantList
        )

    async def put_organisation_limit(self, organisation: str, measure: str, limit: int) -> models.OwnLimitInfo:
        """Overrides a plan's limit for an organisation, within 30 seconds on every gateway."""
        return await self._transport.call(
            Request(
                "PUT",
                path_of("/v1/operator/organisations/{}/limits/{}", organisation, measure),
                json=given(limit=limit),
            ),
            models.OwnLimitInfo,
        )

    async def put_own_limit(
        self,
        limit: int,
        measure: Literal["requests", "tokens", "streams", "uploads", "upload-bytes"],
        scope: Literal["user", "key"],
        *,
        key_id: str | NotGiven | None = NOT_GIVEN,
        user: str | NotGiven | None = NOT_GIVEN,
    ) -> models.OwnLimitInfo:
        """Sets a limit, effective within 30 seconds on every gateway.

        It never allows more than the plan. For owners and admins.
        """
        return await self._transport.call(
            Request(
                "PUT",
                "/v1/admin/limits",
                json=given(limit=limit, measure=measure, scope=scope, key_id=key_id, user=user),
            ),
            models.OwnLimitInfo,
        )

    async def put_plan(self, organisation: str, plan: Literal["free", "basic", "pro"]) -> models.OperatedOrganisation:
        """Changes an organisation's plan, effective from its next request."""
        return await self._transport.call(
            Request("PUT", path_of("/v1/operator/organisations/{}/plan", organisation), json=given(plan=plan)),
            models.OperatedOrganisation,
        )

    async def put_profile(
        self,
        name: str,
        base: str,
        *,
        changes: models.ProfileOptions | Mapping[str, Any] | NotGiven = NOT_GIVEN,
        description: str | NotGiven = NOT_GIVEN,
    ) -> models.ProfileInfo:
        """Stores a modified built-in profile under its own name, each time as a new version."""
        return await self._transport.call(
            Request(
                "PUT", path_of("/v1/profiles/{}", name), json=given(base=base, changes=changes, description=description)
            ),
            models.ProfileInfo,
        )

    async def put_provider(
        self,
        type: str,
        provider: str,
        *,
        api_base: str | NotGiven | None = NOT_GIVEN,
        api_key: str | NotGiven | None = NOT_GIVEN,
        dimensions: int | NotGiven | None = NOT_GIVEN,
        fallbacks: Sequence[models.FallbackBody | Mapping[str, Any]] | NotGiven = NOT_GIVEN,
        model: str | NotGiven | None = NOT_GIVEN,
        test: bool | NotGiven = NOT_GIVEN,
        scope: Literal["org", "user"] | None = None,
    ) -> models.ProviderInfo:
        """Tests a provider and saves it, sealed, in place of the active one.

        It takes effect with the next request. It is saved even if the test call fails; `test` has the result.
        """
        return await self._transport.call(
            Request(
                "PUT",
                path_of("/v1/providers/{}", type),
                query(scope=scope),
                json=given(
                    provider=provider,
                    api_base=api_base,
                    api_key=api_key,
                    dimensions=dimensions,
                    fallbacks=fallbacks,
                    model=model,
                    test=test,
                ),
            ),
            models.ProviderInfo,
        )

    async def put_retention(
        self,
        *,
        conversation_days: int | NotGiven | None = NOT_GIVEN,
        document_days: int | NotGiven | None = NOT_GIVEN,
        expired_document_days: int | NotGiven | None = NOT_GIVEN,
    ) -> models.RetentionInfo:
        """Changes the organisation's policy.

        Older data is permanently erased within minutes. For owners and admins.
        """
        return await self._transport.call(
            Request(
                "PUT",
                "/v1/admin/retention",
                json=given(
                    conversation_days=conversation_days,
                    document_days=document_days,
                    expired_document_days=expired_document_days,
                ),
            ),
            models.RetentionInfo,
        )

    async def put_role(self, user: str, role: Literal["reader", "editor", "admin", "owner"]) -> models.UserInfo:
        """Changes a user's role, effective from the user's next request.

        For owners and admins. Nobody can grant or revoke a role above their own, and the last owner remains an owner.
        """
        return await self._transport.call(
            Request("PUT", path_of("/v1/admin/users/{}/role", user), json=given(role=role)), models.UserInfo
        )

    async def put_saved_provider(
        self,
        type: str,
        name: str,
        provider: str,
        *,
        api_base: str | NotGiven | None = NOT_GIVEN,
        api_key: str | NotGiven | None = NOT_GIVEN,
        dimensions: int | NotGiven | None = NOT_GIVEN,
        fallbacks: Sequence[models.FallbackBody | Mapping[str, Any]] | NotGiven = NOT_GIVEN,
        model: str | NotGiven | None = NOT_GIVEN,
        test: bool | NotGiven = NOT_GIVEN,
        scope: Literal["org", "user"] | None = None,
        activate: bool | None = None,
    ) -> models.ProviderInfo:
        """Tests a provider and saves it, sealed, in addition to the active one, replacing any with that name.

        An owner can save 20 per type.
        """
        return await self._transport.call(
            Request(
                "PUT",
                path_of("/v1/providers/{}/{}", type, name),
                query(scope=scope, activate=activate),
                json=given(
                    provider=provider,
                    api_base=api_base,
                    api_key=api_key,
                    dimensions=dimensions,
                    fallbacks=fallbacks,
                    model=model,
                    test=test,
                ),
            ),
            models.ProviderInfo,
        )

    async def put_sharing(
        self,
        conversation_id: UUID | str,
        *,
        groups: Sequence[str] | NotGiven = NOT_GIVEN,
        organisation: bool | NotGiven = NOT_GIVEN,
        users: Sequence[str] | NotGiven = NOT_GIVEN,
    ) -> models.Sharing:
        """Sets who may read one of the caller's conversations; `{}` shares it with nobody.

        Answers written from documents hidden from a reader are `withheld` from them.
        """
        return await self._transport.call(
            Request(
                "PUT",
                path_of("/v1/conversations/{}/sharing", conversation_id),
                json=given(groups=groups, organisation=organisation, users=users),
            ),
            models.Sharing,
        )

    async def query_table(
        self,
        document_id: int,
        *,
        aggregates: Sequence[models.TableAggregateBody | Mapping[str, Any]] | NotGiven = NOT_GIVEN,
        columns: Sequence[str] | NotGiven = NOT_GIVEN,
        filters: Sequence[models.TableFilterBody | Mapping[str, Any]] | NotGiven = NOT_GIVEN,
        group_by: Sequence[models.TableGroupBody | Mapping[str, Any]] | NotGiven = NOT_GIVEN,
        header_row: int | NotGiven | None = NOT_GIVEN,
        limit: int | NotGiven = NOT_GIVEN,
        order_by: Sequence[models.TableOrderBody | Mapping[str, Any]] | NotGiven = NOT_GIVEN,
        sheet: str | NotGiven | None = NOT_GIVEN,
        version: int | NotGiven | None = NOT_GIVEN,
    ) -> models.TableAnswer:
        """Counts, adds up, groups and filters over the whole table that has the columns; nothing is estimated.

        If there is no exact answer, the request is rejected (`TABLE_NOT_COMPUTED`), and `detail` says why.
        """
        return await self._transport.call(
            Request(
                "POST",
                path_of("/v1/documents/{}/tables:query", document_id),
                json=given(
                    aggregates=aggregates,
                    columns=columns,
                    filters=filters,
                    group_by=group_by,
                    header_row=header_row,
                    limit=limit,
                    order_by=order_by,
                    sheet=sheet,
                    version=version,
                ),
            ),
            models.TableAnswer,
        )

    async def remove_group_member(self, name: str, user: str) -> None:
        """Removes a user from a group, from the next request; with an identity provider's token, within 30 seconds.

        For owners and admins.
        """
        await self._transport.do(Request("DELETE", path_of("/v1/admin/groups/{}/members/{}", name, user)))

    async def rename_conversation(self, conversation_id: UUID | str, title: str) -> models.Conversation:
        """Changes a conversation's title."""
        return await self._transport.call(
            Request("PATCH", path_of("/v1/conversations/{}", conversation_id), json=given(title=title)),
            models.Conversation,
        )

    async def replace_document(
        self,
        document_id: int,
        content: str,
        title: str,
        type: Literal["file", "article", "repository", "capture"],
        *,
        collection: str | NotGiven | None = NOT_GIVEN,
        metadata: Mapping[str, Any] | NotGiven | None = NOT_GIVEN,
        readers: Sequence[str] | NotGiven = NOT_GIVEN,
        tags: Sequence[str] | NotGiven = NOT_GIVEN,
        url: str | NotGiven | None = NOT_GIVEN,
        valid_from: str | NotGiven | None = NOT_GIVEN,
        valid_until: str | NotGiven | None = NOT_GIVEN,
        idempotency_key: str | None = None,
    ) -> models.Document:
        """Stores a new version; the current one is served until the new one is ready."""
        return await self._transport.call(
            Request(
                "PUT",
                path_of("/v1/documents/{}", document_id),
                json=given(
                    content=content,
                    title=title,
                    type=type,
                    collection=collection,
                    metadata=metadata,
                    readers=readers,
                    tags=tags,
                    url=url,
                    valid_from=valid_from,
                    valid_until=valid_until,
                ),
                headers=idempotent(idempotency_key),
            ),
            models.Document,
        )

    async def upload_version(
        self,
        document_id: int,
        file: FileSource,
        *,
        file_name: str | None = None,
        collection: str | NotGiven = NOT_GIVEN,
        metadata: Mapping[str, Any] | NotGiven = NOT_GIVEN,
        path: str | NotGiven = NOT_GIVEN,
        readers: Sequence[str] | NotGiven = NOT_GIVEN,
        tags: Sequence[str] | NotGiven = NOT_GIVEN,
        title: str | NotGiven = NOT_GIVEN,
        type: Literal["file", "article", "repository", "capture"] | NotGiven = NOT_GIVEN,
        url: str | NotGiven = NOT_GIVEN,
        valid_from: str | NotGiven = NOT_GIVEN,
        valid_until: str | NotGiven = NOT_GIVEN,
        progress: Progress | None = None,
        idempotency_key: str | None = None,
    ) -> models.Document:
        """Stores a new version; the current one is served until the new one is ready.

        This one takes a file; `progress` is told how many bytes were sent, and of how many.
        """
        with opened(file, file_name, progress) as part:
            return await self._transport.call(
                Request(
                    "PUT",
                    path_of("/v1/documents/{}", document_id),
                    form=form_fields(
                        collection=collection,
                        metadata=metadata,
                        path=path,
                        readers=readers,
                        tags=tags,
                        title=title,
                        type=type,
                        url=url,
                        valid_from=valid_from,
                        valid_until=valid_until,
                    ),
                    file=part,
                    headers=idempotent(idempotency_key),
                ),
                models.Document,
            )

    async def rerank(
        self,
        documents: Sequence[str | models.RerankDocument | Mapping[str, Any]],
        query: str,
        *,
        model: str | NotGiven | None = NOT_GIVEN,
        return_documents: bool | NotGiven = NOT_GIVEN,
        top_n: int | NotGiven | None = NOT_GIVEN,
    ) -> models.RerankResults:
        """Returns the texts' indices with their relevance, best first."""
        return await self._transport.call(
            Request(
                "POST",
                "/v1/rerank",
                json=given(
                    documents=documents, query=query, model=model, return_documents=return_documents, top_n=top_n
                ),
            ),
            models.RerankResults,
        )

    async def resume_organisation(self, organisation: str) -> models.OperatedOrganisation:
        """Resumes a suspended organisation."""
        return await self._transport.call(
            Request("POST", path_of("/v1/operator/organisations/{}:resume", organisation), repeatable=False),
            models.OperatedOrganisation,
        )

    async def retry_document(self, document_id: int) -> models.Document:
        """Retries a failed version."""
        return await self._transport.call(
            Request("POST", path_of("/v1/documents/{}:retry", document_id), repeatable=False), models.Document
        )

    async def revoke_key(self, key_id: UUID | str) -> None:
        """Revokes a key: it stops working with the next request, but stays in the list."""
        await self._transport.do(Request("DELETE", path_of("/v1/keys/{}", key_id)))

    async def rotate_key(
        self,
        key_id: UUID | str,
        *,
        expires_at: datetime | str | NotGiven | None = NOT_GIVEN,
        overlap_seconds: int | NotGiven = NOT_GIVEN,
    ) -> models.NewApiKey:
        """Gives a key a new text and shows it once; the previous text works until the overlap ends.

        Id, scopes, budgets and usage stay. A second rotation ends the first overlap.
        """
        return await self._transport.call(
            Request(
                "POST",
                path_of("/v1/keys/{}:rotate", key_id),
                json=given(expires_at=expires_at, overlap_seconds=overlap_seconds),
                repeatable=False,
            ),
            models.NewApiKey,
        )

    async def search(
        self,
        query: str,
        *,
        any_validity: bool | NotGiven = NOT_GIVEN,
        as_of: str | NotGiven | None = NOT_GIVEN,
        collection: str | NotGiven | None = NOT_GIVEN,
        dense_weight: float | NotGiven | None = NOT_GIVEN,
        diversity: float | NotGiven = NOT_GIVEN,
        document_ids: Sequence[int] | NotGiven | None = NOT_GIVEN,
        filter: Any | NotGiven = NOT_GIVEN,
        group_by: Literal["document"] | NotGiven | None = NOT_GIVEN,
        include: Sequence[Literal["metadata"]] | NotGiven = NOT_GIVEN,
        keep_duplicates: bool | NotGiven = NOT_GIVEN,
        max_per_document: int | NotGiven | None = NOT_GIVEN,
        min_score: float | NotGiven | None = NOT_GIVEN,
        mode: Literal["dense", "lexical", "hybrid"] | NotGiven = NOT_GIVEN,
        rerank: bool | NotGiven = NOT_GIVEN,
        rerank_seconds: float | NotGiven | None = NOT_GIVEN,
        top_k: int | NotGiven = NOT_GIVEN,
    ) -> models.SearchResults:
        """Returns the best matches, best first; `score` is their cosine similarity, `rank_score` what orders them."""
        return await self._transport.call(
            Request(
                "POST",
                "/v1/search",
                json=given(
                    query=query,
                    any_validity=any_validity,
                    as_of=as_of,
                    collection=collection,
                    dense_weight=dense_weight,
                    diversity=diversity,
                    document_ids=document_ids,
                    filter=filter,
                    group_by=group_by,
                    include=include,
                    keep_duplicates=keep_duplicates,
                    max_per_document=max_per_document,
                    min_score=min_score,
                    mode=mode,
                    rerank=rerank,
                    rerank_seconds=rerank_seconds,
                    top_k=top_k,
                ),
            ),
            models.SearchResults,
        )

    async def suspend_organisation(self, organisation: str) -> models.OperatedOrganisation:
        """Suspends an organisation.

        Keys and sessions fail from the next request, tokens within 30 seconds. Its data stays, and running ingest
        continues. Its members get `ORGANISATION_SUSPENDED`.
        """
        return await self._transport.call(
            Request("POST", path_of("/v1/operator/organisations/{}:suspend", organisation), repeatable=False),
            models.OperatedOrganisation,
        )

    async def switch_space(
        self, space: models.SpaceChoice | Mapping[str, Any], *, force: bool | NotGiven = NOT_GIVEN
    ) -> models.Space:
        """Makes a filled space the live one from the next search on; the former one is kept as `previous`.

        While documents lack vectors in it, the answer is 409 `WRONG_STATE`, unless `force` is true. For owners and
        admins.
        """
        return await self._transport.call(
            Request("POST", "/v1/spaces:switch", json=given(space=space, force=force), repeatable=False), models.Space
        )

    async def try_provider(
        self, type: str, name: str, *, scope: Literal["org", "user"] | None = None
    ) -> models.ProviderInfo:
        """Tests a saved provider, active or not, with a small call; `test` has the result.

        The call counts as usage; fallbacks aren't called.
        """
        return await self._transport.call(
            Request("POST", path_of("/v1/providers/{}/{}:test", type, name), query(scope=scope), repeatable=False),
            models.ProviderInfo,
        )

    async def update_collection(
        self, current_name: str, *, enrich: bool | NotGiven | None = NOT_GIVEN, name: str | NotGiven | None = NOT_GIVEN
    ) -> models.Collection:
        """Renames a collection, or switches `enrich` on or off; absent fields stay unchanged.

        Switching it on also enriches existing documents; switching it off keeps what was filled.
        """
        return await self._transport.call(
            Request("PATCH", path_of("/v1/collections/{}", current_name), json=given(enrich=enrich, name=name)),
            models.Collection,
        )

    async def update_document(
        self,
        document_id: int,
        *,
        collection: str | NotGiven | None = NOT_GIVEN,
        file_name: str | NotGiven | None = NOT_GIVEN,
        metadata: Mapping[str, Any] | NotGiven | None = NOT_GIVEN,
        readers: Sequence[str] | NotGiven | None = NOT_GIVEN,
        tags: Sequence[str] | NotGiven | None = NOT_GIVEN,
        title: str | NotGiven | None = NOT_GIVEN,
        url: str | NotGiven | None = NOT_GIVEN,
        valid_from: str | NotGiven | None = NOT_GIVEN,
        valid_until: str | NotGiven | None = NOT_GIVEN,
    ) -> models.Document:
        """Changes title, url, tags, metadata, collection, readers, validity or file name without a new upload."""
        return await self._transport.call(
            Request(
                "PATCH",
                path_of("/v1/documents/{}", document_id),
                json=given(
                    collection=collection,
                    file_name=file_name,
                    metadata=metadata,
                    readers=readers,
                    tags=tags,
                    title=title,
                    url=url,
                    valid_from=valid_from,
                    valid_until=valid_until,
                ),
            ),
            models.Document,
        )

    async def verify(
        self,
        answer: str,
        passages: Sequence[models.PassageBody | Mapping[str, Any]],
        *,
        marker_style: Literal["none", "ref", "source", "number"] | NotGiven = NOT_GIVEN,
    ) -> models.Verification:
        """Compares the sentences of an answer from any system with the passages that they cite.

        No model is called, and nothing is stored.
        """
        return await self._transport.call(
            Request("POST", "/v1/verify", json=given(answer=answer, passages=passages, marker_style=marker_style)),
            models.Verification,
        )
