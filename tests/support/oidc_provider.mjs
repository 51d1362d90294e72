// The certified oidc-provider on a free loopback port, with accounts that a test can change while it runs.
// Run in a folder where `oidc-provider` is installed: node oidc_provider.mjs REDIRECT_URI POST_LOGOUT_URI
// Prints one line of JSON: {issuer}. Sign-in pages are a form with the account's name; consent is automatic.
import { createRequire } from "node:module";
import http from "node:http";
import { pathToFileURL } from "node:url";

const [redirectUri, postLogoutUri] = process.argv.slice(2);
const resolve = createRequire(`${process.cwd()}/`).resolve;
const { Provider } = await import(pathToFileURL(resolve("oidc-provider")));

const accounts = new Map([["ada", { groups: ["staff", "finance"], citewire_roles: ["kb-admins"], tenant: "acme" }]]);
const counts = {};

const server = http.createServer();
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "citewire",
      client_secret: "a+secret/with: characters%",
      grant_types: ["authorization_code", "refresh_token"],
      redirect_uris: [redirectUri],
      post_logout_redirect_uris: [postLogoutUri],
    },
    {
      client_id: "batch",
      client_secret: "batch-secret",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    },
  ],
  claims: { openid: ["sub", "groups", "citewire_roles", "tenant"] },
  conformIdTokenClaims: false,
  scopes: ["openid", "offline_access"],
  cookies: { keys: ["test"] },
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  expiresWithSession: async () => false,
  ttl: { AccessToken: 60, IdToken: 60, RefreshToken: 3600, Session: 3600, Grant: 3600, Interaction: 600 },
  features: {
    devInteractions: { enabled: false },
    rpInitiatedLogout: { enabled: true },
    revocation: { enabled: true },
    registration: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => "urn:citewire",
      useGrantedResource: () => false,
      getResourceServerInfo: (_ctx, resource) => ({
        scope: "api",
        audience: resource,
        accessTokenFormat: "jwt",
        accessTokenTTL: 60,
      }),
    },
  },
  extraTokenClaims: (_ctx, token) => ({ groups: ["robots"], tenant: "acme", kind: token.kind }),
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_ctx, id) => {
    const claims = accounts.get(id);
    return claims && { accountId: id, claims: async () => ({ sub: id, ...claims }) };
  },
});

async function interact(req, res) {
  const { prompt, params, grantId } = await provider.interactionDetails(req, res);
  const form = new URLSearchParams(await bodyOf(req));
  if (prompt.name === "login" && !form.get("account")) {
    res.setHeader("content-type", "text/html");
    res.end('<!doctype html><form method="post"><input name="account" autofocus><button>Sign in</button></form>');
    return;
  }
  if (prompt.name === "login") {
    const result = form.get("account") === "nobody" ? { error: "access_denied" } : { login: { accountId: form.get("account") } };
    await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: false });
    return;
  }
  const { session } = await provider.interactionDetails(req, res);
  const grant = grantId
    ? await provider.Grant.find(grantId)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope("openid offline_access");
  grant.addResourceScope("urn:citewire", "api");
  for (const resource of [params.resource ?? []].flat()) grant.addResourceScope(resource, "api");
  const consent = { consent: { grantId: await grant.save() } };
  await provider.interactionFinished(req, res, consent, { mergeWithLastSubmission: true });
}

async function bodyOf(req) {
  let text = "";
  for await (const part of req) text += part;
  return text;
}

server.on("request", async (req, res) => {
  const path = req.url.split("?")[0];
  counts[path] = (counts[path] ?? 0) + 1;
  try {
    if (path === "/test/account") {
      const { id, ...claims } = JSON.parse(await bodyOf(req));
      if (claims.gone) accounts.delete(id);
      else accounts.set(id, claims);
      res.end("{}");
    } else if (path === "/test/counts") res.end(JSON.stringify(counts));
    else if (path.startsWith("/interaction/")) await interact(req, res);
    else provider.callback()(req, res);
  } catch (error) {
    console.error(error);
    res.statusCode = 500;
    res.end(String(error));
  }
});
console.log(JSON.stringify({ issuer }));
