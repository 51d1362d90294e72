// A user's own models: added with a test call, chosen, removed. Keys are write-only.
import type { ProviderInfo, ProviderList } from "@citewire/client";
import { useEffect, useState } from "preact/hooks";

import { loadChoices } from "../ask/chat";
import { attempt, caller, client } from "../state";
import { words } from "../words";

type Type = ProviderInfo["type"];
type Scope = ProviderInfo["scope"];

const OFFERED: Record<Type, string[]> = {
  chat: ["anthropic", "openai", "ollama", "openai-compatible"],
  embedding: ["openai", "ollama", "openai-compatible"],
  rerank: ["cohere", "jina", "openai-compatible"],
};
const NAMES = "[a-z0-9][a-z0-9._\\-]{0,63}";

export function Providers() {
  const [list, setList] = useState<ProviderList | null>(null);
  const load = () => attempt(async () => setList(await client.call("GET", "/v1/providers?page_size=500")));
  useEffect(() => void load(), []);
  const changed = async () => {
    await load();
    await attempt(loadChoices);
  };
  if (list === null) return null;
  return (
    <>
      <h2>{words.value.providers}</h2>
      <p class="quiet">{list.require_own ? words.value.ownRequired : words.value.providersText}</p>
      <ul class="rows providers">
        {list.providers.map((entry) => <Row key={`${entry.scope} ${entry.type} ${entry.name}`} entry={entry} onChange={changed} />)}
        {list.providers.length === 0 && <li class="quiet">{words.value.noProviders}</li>}
      </ul>
      <AddProvider onSaved={changed} />
    </>
  );
}

function isAdmin(): boolean {
  return caller.value?.roles.some((role) => role === "owner" || role === "admin") === true;
}

function Row({ entry, onChange }: { entry: ProviderInfo; onChange: () => Promise<void> }) {
  const [asks, setAsks] = useState(false);
  const [isTrying, setTrying] = useState(false);
  const path = `/v1/providers/${entry.type}/${entry.name}`;
  const act = (method: string, address: string) => attempt(async () => {
    await client.call(method, `${address}?scope=${entry.scope}`);
    setAsks(false);
    await onChange();
  });
  const tryOut = async () => {
    setTrying(true);
    await act("POST", `${path}:test`);
    setTrying(false);
  };
  const may = entry.scope === "user" || isAdmin();
  const model = [entry.provider, entry.model].filter(Boolean).join(" · ");
  return (
    <li>
      <span class="name">
        <strong>{entry.name}</strong> <span class="quiet">{words.value.providerTypes[entry.type]} · {model}{entry.scope === "org" ? ` · ${words.value.ofOrganisation}` : ""}</span>
      </span>
      {entry.test?.tried && <span class={entry.test.ok ? "state ready" : "state failed"}>{entry.test.ok ? words.value.tested : words.value.testFailed}</span>}
      {entry.active && <span class="state">{words.value.inUse}</span>}
      {may && !asks && (
        <span class="row">
          {!entry.active && <button type="button" aria-label={words.value.useProvider(entry.name)} onClick={() => void act("POST", `${path}:activate`)}>{words.value.use}</button>}
          {entry.active && <button type="button" aria-label={words.value.stopUsing(entry.name)} onClick={() => void act("POST", `/v1/providers/${entry.type}:deactivate`)}>{words.value.stopUse}</button>}
          <button type="button" disabled={isTrying} aria-label={words.value.tryProvider(entry.name)} onClick={() => void tryOut()}>{isTrying ? words.value.trying : words.value.tryOut}</button>
          <button type="button" class="link" aria-label={words.value.removeSubject(entry.name)} onClick={() => setAsks(true)}>{words.value.remove}</button>
        </span>
      )}
      {asks && (
        <span class="row">
          <span>{words.value.removeProvider(entry.name)}</span>
          <button type="button" class="danger" onClick={() => void act("DELETE", path)}>{words.value.remove}</button>
          <button type="button" onClick={() => setAsks(false)}>{words.value.cancel}</button>
        </span>
      )}
      <div role="status">{entry.test?.ok === false && <p class="fault" dir="auto">{faultOf(entry.test)}</p>}</div>
    </li>
  );
}

/** The error in the page's language if it is known, otherwise the server's message. */
function faultOf({ reason, text = "" }: NonNullable<ProviderInfo["test"]>): string {
  const known = words.value.providerFaults[reason ?? ""];
  return known === undefined ? text : `${known}: ${text}`;
}

const EMPTY = { name: "", model: "", apiBase: "", apiKey: "" };

function AddProvider({ onSaved }: { onSaved: () => Promise<void> }) {
  const [type, setType] = useState<Type>("chat");
  const [provider, setProvider] = useState(OFFERED.chat[0]!);
  const [scope, setScope] = useState<Scope>("user");
  const [fields, setFields] = useState(EMPTY);
  const [isSaving, setSaving] = useState(false);
  const choose = (chosen: Type) => {
    setType(chosen);
    setProvider(OFFERED[chosen][0]!);
  };
  const save = async () => {
    setSaving(true);
    const body = {
      provider,
      ...(fields.model.trim() && { model: fields.model.trim() }),
      ...(fields.apiBase.trim() && { api_base: fields.apiBase.trim() }),
      ...(fields.apiKey.trim() && { api_key: fields.apiKey.trim() }),
    };
    const path = `/v1/providers/${type}/${fields.name || provider}?scope=${scope}&activate=true`;
    if (await attempt(() => client.call("PUT", path, body))) {
      setFields(EMPTY); // remove the key from the page too
      await onSaved();
    }
    setSaving(false);
  };
  const field = (name: keyof typeof EMPTY, label: string, more: object = {}) => (
    <label>
      {label}
      <input value={fields[name]} autoComplete="off" spellcheck={false} {...more} onInput={(event) => setFields({ ...fields, [name]: event.currentTarget.value })} />
    </label>
  );
  return (
    <form class="add-provider" aria-label={words.value.addProvider} onSubmit={(event) => { event.preventDefault(); void save(); }}>
      <label>
        {words.value.providerFor}
        <select value={type} onChange={(event) => choose(event.currentTarget.value as Type)}>
          {(Object.keys(OFFERED) as Type[]).map((name) => <option key={name} value={name}>{words.value.providerTypes[name]}</option>)}
        </select>
      </label>
      <label>
        {words.value.provider}
        <select value={provider} onChange={(event) => setProvider(event.currentTarget.value)}>
          {OFFERED[type].map((name) => <option key={name} value={name}>{name}</option>)}
        </select>
      </label>
      {field("model", words.value.model, { maxLength: 200, placeholder: words.value.providersDefault })}
      {field("apiBase", words.value.apiBase, { type: "url", maxLength: 2048, placeholder: "https://" })}
      {field("apiKey", words.value.apiKey, { type: "password", maxLength: 4096, autoComplete: "new-password" })}
      {field("name", words.value.savedAs, { pattern: NAMES, placeholder: provider, title: words.value.nameRule })}
      {isAdmin() && (
        <label>
          {words.value.providerOf}
          <select value={scope} onChange={(event) => setScope(event.currentTarget.value as Scope)}>
            <option value="user">{words.value.forMe}</option>
            <option value="org">{words.value.everyone}</option>
          </select>
        </label>
      )}
      <p class="quiet">{words.value.keySealed}</p>
      <button type="submit" disabled={isSaving}>{isSaving ? words.value.trying : words.value.tryAndSave}</button>
    </form>
  );
}
