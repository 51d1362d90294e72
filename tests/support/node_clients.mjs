// Calls our address with third-party Node clients for third-party APIs; prints the result as one line of JSON.
// Run in a folder where the client is installed: node node_clients.mjs CLIENT URL
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [client, url] = process.argv.slice(2);
const resolve = createRequire(`${process.cwd()}/`).resolve;
const load = (name) => import(pathToFileURL(resolve(name)));
const QUESTION = "At how many degrees does water boil?";
const asked = { model: "grounded", messages: [{ role: "user", content: QUESTION }] };
const key = "none is asked for";

const CLIENTS = {
  async openai() {
    const { OpenAI } = await load("openai");
    const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
    const whole = await openai.chat.completions.create(asked);
    let streamed = "";
    for await (const chunk of await openai.chat.completions.create({ ...asked, stream: true })) {
      streamed += chunk.choices[0]?.delta.content ?? "";
    }
    const response = await openai.responses.create({ model: "grounded", input: QUESTION });
    const refused = await openai.chat.completions.create({ ...asked, n: 2 }).catch((error) => error);
    return {
      whole: whole.choices[0].message.content,
      cited: whole.choices[0].message.annotations[0].url_citation.url,
      streamed,
      response: response.output_text,
      refused: [refused.constructor.name, refused.param],
    };
  },

  async anthropic() {
    const { Anthropic } = await load("@anthropic-ai/sdk");
    const anthropic = new Anthropic({ baseURL: `${url}/anthropic`, apiKey: key, maxRetries: 0 });
    const whole = await anthropic.messages.create({ ...asked, max_tokens: 100 });
    const streamed = await anthropic.messages.stream({ ...asked, max_tokens: 100 }).finalMessage();
    const refused = await anthropic.messages
      .create({ ...asked, max_tokens: 100, stop_sequences: ["x"] })
      .catch((error) => error);
    return {
      whole: whole.content.map((block) => block.text).join(""),
      streamed: streamed.content.map((block) => block.text).join(""),
      cited: streamed.content[0].citations?.[0]?.cited_text ?? null,
      refused: [refused.constructor.name, refused.status],
    };
  },

  async ai_providers() {
    const { generateText, streamText, Output, jsonSchema } = await load("ai");
    const { createOpenAI } = await load("@ai-sdk/openai");
    const { createAnthropic } = await load("@ai-sdk/anthropic");
    const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: key });
    const anthropic = createAnthropic({ baseURL: `${url}/anthropic/v1`, apiKey: key });
    const models = {
      chat: openai.chat("grounded"),
      responses: openai.responses("grounded"),
      anthropic: anthropic("grounded"),
    };
    const said = {};
    for (const [name, model] of Object.entries(models)) {
      const { text } = await generateText({ model, prompt: QUESTION, maxRetries: 0 });
      const streamed = streamText({ model, prompt: QUESTION, maxRetries: 0 });
      said[name] = [text, await streamed.text];
    }
    const schema = jsonSchema({
      type: "object",
      properties: { boils: { type: "string" }, degrees: { type: "integer" } },
      required: ["boils", "degrees"],
      additionalProperties: false,
    });
    const object = await generateText({
      model: models.chat,
      prompt: QUESTION,
      output: Output.object({ schema }),
      maxRetries: 0,
    });
    return { ...said, object: object.output };
  },
};

console.log(JSON.stringify(await CLIENTS[client]()));
