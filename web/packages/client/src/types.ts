// The API's types, under the names in its document. `npm run types` writes schema.d.ts from that document.
import type { components } from "./schema.d.ts";

type Schemas = components["schemas"];

export type ChatEvent = Schemas["ChatEvent"];
export type ChatRequest = Partial<Schemas["ChatRequest"]>;
export type Citation = Schemas["Citation"];
export type VerifiedCitation = Schemas["VerifiedCitation"];
export type UncitedSentence = Schemas["UncitedSentence"];
export type Step = Schemas["Step"];
export type TokenUsage = Schemas["TokenUsage"];
export type Chunk = Schemas["Chunk"];
export type Conversation = Schemas["Conversation"];
export type ConversationList = Schemas["ConversationList"];
export type ConversationPage = Schemas["ConversationPage"];
export type StoredAnswer = Schemas["StoredAnswer"];
export type FeedbackInfo = Schemas["FeedbackInfo"];
export type Document = Schemas["Document"];
export type DocumentList = Schemas["DocumentList"];
export type CollectionList = Schemas["CollectionList"];
export type ProfileList = Schemas["ProfileList"];
export type CallerInfo = Schemas["CallerInfo"];
export type SignedOut = Schemas["SignedOut"];
export type ApiKey = Schemas["ApiKey"];
export type ApiKeyList = Schemas["ApiKeyList"];
export type NewApiKey = Schemas["NewApiKey"];
export type ProviderInfo = Schemas["ProviderInfo"];
export type ProviderList = Schemas["ProviderList"];
export type UsageReport = Schemas["UsageReport"];
export type SpanPlaces = Schemas["SpanPlaces"];
export type SearchResults = Schemas["SearchResults"];
export type Problem = Schemas["Problem"];
