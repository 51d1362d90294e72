// The user, the page's appearance, the user's keys and usage.
import type { ApiKey, ApiKeyList, NewApiKey, SignedOut, UsageReport } from "@citewire/client";
import { useEffect, useState } from "preact/hooks";

import { apiKey, attempt, caller, chooseTheme, client, forgetKey, type Theme, theme } from "../state";
import { Providers } from "./Providers";
import { tokensOf, UsageChart } from "./UsageChart";
import { chooseLanguage, day, type Language, LANGUAGES, language, money, number, words } from "../words";

export function Account() {
  const who = caller.value!;
  return (
    <main class="page" id="main" tabIndex={-1}>
      <h1>{words.value.account}</h1>
      <p class="quiet" dir="auto">{words.value.signedInAs(who.user, who.org)}</p>
      <dl class="fields">
        <dt>{words.value.plan}</dt><dd>{who.plan}</dd>
        <dt>{words.value.role}</dt><dd>{who.roles.map((role) => words.value.roles[role] ?? role).join(", ")}</dd>
        <dt><label for="language">{words.value.chooseLanguage}</label></dt>
        <dd>
          <select id="language" value={language.value} onChange={(event) => chooseLanguage(event.currentTarget.value as Language)}>
            {Object.entries(LANGUAGES).map(([name, texts]) => <option key={name} value={name} lang={name}>{texts.language}</option>)}
          </select>
        </dd>
        <dt><label for="theme">{words.value.theme}</label></dt>
        <dd>
          <select id="theme" value={theme.value} onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}>
            {(Object.keys(words.value.themes) as Theme[]).map((name) => <option key={name} value={name}>{words.value.themes[name]}</option>)}
          </select>
        </dd>
      </dl>
      <Leave />
      <Usage />
      <Providers />
      <Keys />
    </main>
  );
}

function Leave() {
  const signOut = () => attempt(async () => {
    const { end_session_url: url } = await client.call<SignedOut>("POST", "/v1/auth/logout");
    if (url === null) location.reload();
    else location.assign(url);
  });
  const forget = () => {
    forgetKey();
    location.reload();
  };
  if (apiKey.value !== null) return <p><button type="button" onClick={forget}>{words.value.forgetKey}</button></p>;
  if (caller.value?.kind === "session") return <p><button type="button" onClick={() => void signOut()}>{words.value.signOut}</button></p>;
  return <p class="quiet">{words.value.noSignIn}</p>;
}

function Usage() {
  const [report, setReport] = useState<UsageReport | null>(null);
  useEffect(() => void attempt(async () => setReport(await client.call("GET", "/v1/usage?group_by=day,model"))), []);
  if (report === null) return null;
  return (
    <>
      <h2>{words.value.usageTitle}</h2>
      <p class="quiet">{report.rows.length === 0 ? words.value.noUsage : words.value.usageNote}</p>
      {report.rows.length > 0 && <UsageChart rows={report.rows} />}
      {report.rows.length > 0 && (
        <div class="table" tabIndex={0} role="group" aria-label={words.value.usageTitle}>
          <table>
            <thead><tr><th>{words.value.day}</th><th>{words.value.model}</th><th class="align-right">{words.value.calls}</th><th class="align-right">{words.value.usage}</th><th class="align-right">{words.value.cost}</th></tr></thead>
            <tbody>
              {report.rows.map((row) => (
                <tr key={`${row.day} ${row.model}`}>
                  <td class="whole-line">{day(row.day ?? "")}</td>
                  <td class="model">{row.model}</td>
                  <td class="align-right">{number(row.calls ?? 0)}</td>
                  <td class="align-right">{number(tokensOf(row))}</td>
                  <td class="align-right whole-line">{money(row.cost_usd ?? 0)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

function Keys() {
  const [keys, setKeys] = useState<ApiKey[] | null>(null);
  const [name, setName] = useState("");
  const [made, setMade] = useState<NewApiKey | null>(null);
  const load = () => attempt(async () => setKeys((await client.call<ApiKeyList>("GET", "/v1/keys?page_size=200")).keys));
  useEffect(() => void load(), []);
  const create = () => attempt(async () => {
    setMade(await client.call<NewApiKey>("POST", "/v1/keys", { name: name.trim() }));
    setName("");
    await load();
  });
  if (keys === null) return null;
  return (
    <>
      <h2>{words.value.keys}</h2>
      <p class="quiet">{words.value.keysText}</p>
      <form class="tools" onSubmit={(event) => { event.preventDefault(); void create(); }}>
        <input aria-label={words.value.keyName} placeholder={words.value.keyName} required maxLength={100} value={name} onInput={(event) => setName(event.currentTarget.value)} />
        <button type="submit">{words.value.createKey}</button>
      </form>
      {made !== null && <div role="status"><p>{words.value.newKey}</p><p class="secret">{made.key}</p></div>}
      <ul class="rows">
        {keys.map((key) => <KeyRow key={key.id} entry={key} onRevoked={() => void load()} />)}
        {keys.length === 0 && <li class="quiet">{words.value.noKeys}</li>}
      </ul>
    </>
  );
}

function KeyRow({ entry, onRevoked }: { entry: ApiKey; onRevoked: () => void }) {
  const [asks, setAsks] = useState(false);
  const revoke = async () => {
    if (await attempt(() => client.call("DELETE", `/v1/keys/${entry.id}`))) onRevoked();
  };
  return (
    <li>
      <span class="name"><strong><bdi>{entry.name}</bdi></strong> <span class="quiet">{entry.prefix}… · {entry.scopes.join(", ")} · {day(entry.created_at)}</span></span>
      {entry.revoked_at === null && !asks && <button type="button" aria-label={`${words.value.revoke}: ${entry.name}`} onClick={() => setAsks(true)}>{words.value.revoke}</button>}
      {asks && (
        <span class="row">
          <span>{words.value.revokeKey(entry.name)}</span>
          <button type="button" class="danger" onClick={() => void revoke()}>{words.value.revoke}</button>
          <button type="button" onClick={() => setAsks(false)}>{words.value.cancel}</button>
        </span>
      )}
    </li>
  );
}
