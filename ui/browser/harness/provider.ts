// A provider that speaks OpenAI's chat completions and says what a test wants it to say. It is stricter than the real
// one: whatever it does not expect is answered 400, and kept to be shown.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

const KEY = "sk-fake-0123456789abcdef";
const MODEL = "gpt-5.4-mini";

export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: string | null;
}

/** What a model is asked. */
export interface Question {
  /** The name of the shape that is asked for, such as `Proposal`; null where plain words are. */
  shape: string | null;
  messages: Message[];
  /** The last words, which say what to do now. */
  last: string;
  tools: string[];
}

/** What it answers: words, an object of the asked shape, or a call of a tool. */
export type Answer = string | { tool: string; arguments: object } | { tool?: never; [field: string]: unknown };

const FIELDS = ["model", "messages", "max_completion_tokens", "temperature", "tools", "response_format", "stream", "stream_options", "reasoning_effort"];

export class FakeProvider {
  /** What was asked and should not have been. */
  readonly wrong: string[] = [];
  private readonly server = createServer((request, response) => void this.answer(request, response));

  private constructor(private readonly say: (question: Question) => Answer) {}

  static async start(say: (question: Question) => Answer): Promise<FakeProvider> {
    const provider = new FakeProvider(say);
    await new Promise<void>((resolve) => provider.server.listen(0, "127.0.0.1", resolve));
    return provider;
  }

  /** What a server is told so that it asks this one. */
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
      const { question, streams } = check(request, Buffer.concat(pieces).toString("utf8"));
      const { message, finish_reason } = said(this.say(question));
      if (!streams) return send(200, { ...ABOUT, choices: [{ index: 0, message, finish_reason }], usage: USAGE });
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      const chunk = (body: object) => response.write(`data: ${JSON.stringify({ ...ABOUT, ...body })}\n\n`);
      chunk({ choices: [{ index: 0, delta: message, finish_reason: null }] });
      chunk({ choices: [{ index: 0, delta: {}, finish_reason }] });
      chunk({ choices: [], usage: USAGE });
      response.end("data: [DONE]\n\n");
    } catch (error) {
      this.wrong.push(String(error));
      send(400, { error: { message: String(error), type: "invalid_request_error" } });
    }
  }
}

function ensure(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

function check(request: IncomingMessage, text: string): { question: Question; streams: boolean } {
  ensure(request.method === "POST" && request.url === "/v1/chat/completions", `${request.method} ${request.url}`);
  ensure(request.headers.authorization === `Bearer ${KEY}`, "another key");
  ensure(request.headers["content-type"]?.startsWith("application/json") ?? false, "no JSON");
  const body = JSON.parse(text) as Record<string, any>;
  for (const name of Object.keys(body)) ensure(FIELDS.includes(name), `the field ${name}`);
  ensure(body.model === MODEL, `the model ${body.model}`);
  ensure(body.stream === undefined || (body.stream === true && body.stream_options?.include_usage === true), "a stream without usage");
  const messages = body.messages as Message[];
  ensure(Array.isArray(messages) && messages.length > 0, "no messages");
  for (const one of messages) ensure(["system", "user", "assistant", "tool"].includes(one.role), `the role ${one.role}`);
  const last = messages.at(-1)!;
  ensure(last.role === "user" || last.role === "tool", "the last word is not the user's");
  const tools = ((body.tools ?? []) as any[]).map((tool) => String(tool.function.name));
  const shape = (body.response_format?.json_schema?.name ?? null) as string | null;
  return { question: { shape, messages, last: String(last.content), tools }, streams: body.stream === true };
}

const ABOUT = { id: "chatcmpl-1", created: 1, model: MODEL };
const USAGE = { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 };

function said(answer: Answer): { message: object; finish_reason: string } {
  if (typeof answer === "object" && answer.tool !== undefined) {
    const called = { name: answer.tool, arguments: JSON.stringify(answer.arguments) };
    const tool_calls = [{ index: 0, id: "call_0", type: "function", function: called }];
    return { message: { role: "assistant", content: null, tool_calls }, finish_reason: "tool_calls" };
  }
  const content = typeof answer === "string" ? answer : JSON.stringify(answer);
  return { message: { role: "assistant", content }, finish_reason: "stop" };
}
