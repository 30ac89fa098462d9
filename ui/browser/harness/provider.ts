// Fake provider with OpenAI's chat completions API. It returns answers that a test supplies. The fake is stricter than
// the real API: it rejects an unexpected request with status 400 and records the error in `unexpected`.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const KEY = "sk-fake-0123456789abcdef";
const MODEL = "gpt-5.4-mini";

export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: string | null;
}

/** Model request, with only the fields that tests need. */
export interface ModelRequest {
  /** Name of the requested JSON schema, such as `Proposal`; null for plain text. */
  schema: string | null;
  messages: Message[];
  /** Content of the last message, which contains the task. */
  last: string;
  /** Names of the tools that the model may call. */
  tools: string[];
}

/** Answer of the model: a text, an object of the requested JSON schema, or a tool call. */
export type ModelAnswer = string | { tool: string; arguments: object } | { tool?: never; [field: string]: unknown };

/** Names of the fields that a chat completions request may have. */
const FIELDS = ["model", "messages", "max_completion_tokens", "temperature", "tools", "response_format", "stream", "stream_options", "reasoning_effort"];

export class FakeProvider {
  /** Messages about requests that failed the checks. */
  readonly unexpected: string[] = [];
  private readonly server = createServer((request, response) => void this.answer(request, response));

  private constructor(private readonly respond: (request: ModelRequest) => ModelAnswer) {}

  static async start(respond: (request: ModelRequest) => ModelAnswer): Promise<FakeProvider> {
    const provider = new FakeProvider(respond);
    await new Promise<void>((resolve) => provider.server.listen(0, "127.0.0.1", resolve));
    return provider;
  }

  /** Environment variables that make a server use this provider. */
  get env(): Record<string, string> {
    const { port } = this.server.address() as AddressInfo;
    return { OPENAI_API_KEY: KEY, OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`, ASSIZE_PROVIDER: "openai", ASSIZE_MODEL: MODEL };
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const send = (status: number, body: object) => {
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(JSON.stringify(body));
    };
    try {
      const pieces: Buffer[] = [];
      for await (const piece of request) pieces.push(piece as Buffer);
      const { modelRequest, streams } = check(request, Buffer.concat(pieces).toString("utf8"));
      const { message, finish_reason } = completion(this.respond(modelRequest));
      if (!streams) return send(200, { ...ABOUT, choices: [{ index: 0, message, finish_reason }], usage: USAGE });
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      const chunk = (body: object) => response.write(`data: ${JSON.stringify({ ...ABOUT, ...body })}\n\n`);
      chunk({ choices: [{ index: 0, delta: message, finish_reason: null }] });
      chunk({ choices: [{ index: 0, delta: {}, finish_reason }] });
      chunk({ choices: [], usage: USAGE });
      response.end("data: [DONE]\n\n");
    } catch (error) {
      this.unexpected.push(String(error));
      send(400, { error: { message: String(error), type: "invalid_request_error" } });
    }
  }
}

function ensure(condition: boolean, message: string): void {
  if (!condition) throw new Error(message);
}

/** Checks a request strictly, and returns the model request in it. Throws an error if a check fails. */
function check(request: IncomingMessage, text: string): { modelRequest: ModelRequest; streams: boolean } {
  ensure(request.method === "POST" && request.url === "/v1/chat/completions", `request to an unexpected route: ${request.method} ${request.url}`);
  ensure(request.headers.authorization === `Bearer ${KEY}`, "request with a wrong API key");
  ensure(request.headers["content-type"]?.startsWith("application/json") ?? false, "content type of the request is not JSON");
  const body = JSON.parse(text) as Record<string, any>;
  for (const name of Object.keys(body)) ensure(FIELDS.includes(name), `request with the unknown field ${name}`);
  ensure(body.model === MODEL, `request for the unexpected model ${body.model}`);
  ensure(body.stream === undefined || (body.stream === true && body.stream_options?.include_usage === true), "request for a stream without include_usage");
  const messages = body.messages as Message[];
  ensure(Array.isArray(messages) && messages.length > 0, "request without messages");
  for (const one of messages) ensure(["system", "user", "assistant", "tool"].includes(one.role), `message with the unknown role ${one.role}`);
  const last = messages.at(-1)!;
  ensure(last.role === "user" || last.role === "tool", "the last message of the request is not from the user or a tool");
  const tools = ((body.tools ?? []) as any[]).map((tool) => String(tool.function.name));
  const schema = (body.response_format?.json_schema?.name ?? null) as string | null;
  return { modelRequest: { schema, messages, last: String(last.content), tools }, streams: body.stream === true };
}

/** Fields of every completion that the fake provider returns. */
const ABOUT = { id: "chatcmpl-1", created: 1, model: MODEL };
const USAGE = { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 };

/** Returns the assistant message and the finish reason of a completion with this answer. */
function completion(answer: ModelAnswer): { message: object; finish_reason: string } {
  if (typeof answer === "object" && answer.tool !== undefined) {
    const called = { name: answer.tool, arguments: JSON.stringify(answer.arguments) };
    const tool_calls = [{ index: 0, id: "call_0", type: "function", function: called }];
    return { message: { role: "assistant", content: null, tool_calls }, finish_reason: "tool_calls" };
  }
  const content = typeof answer === "string" ? answer : JSON.stringify(answer);
  return { message: { role: "assistant", content }, finish_reason: "stop" };
}
