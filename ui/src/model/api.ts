// Requests to the server. Routes, parameters, bodies and answers are typed by its OpenAPI document (`schema.ts`).

import type { paths, Problem, RunKind, RunState, RunView } from "./schema";

type Method = "get" | "post" | "delete";
type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>;
/** Routes with this method. */
type Route<M extends Method> = { [P in keyof paths]: [Operation<P, M>] extends [never] ? never : P }[keyof paths];
type Path<O> = O extends { parameters: { path: infer T } } ? T : Record<never, never>;
type Query<O> = O extends { parameters: { query?: infer T } } ? T : never;
type Body<O> = O extends { requestBody?: { content: { "application/json": infer T } } } ? T : never;
type Json<R> = R extends { content: { "application/json": infer T } } ? T : never;
type Answer<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201 | 202)]> : never;

declare const ANSWER: unique symbol;

/** Address of the server, with the type of what `GET` answers there. */
export type Address<T> = string & { readonly [ANSWER]?: T };

/** A run of one kind, with its input and result. */
export type RunOf<K extends RunKind> = Extract<RunView, { kind: K }>;

/** The server refused a request, or could not be reached. */
export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

/** A problem that no server has told of. */
export const ownProblem = (title: string, detail: string, hint?: string): Problem => ({
  type: "about:blank",
  title,
  status: 0,
  detail,
  ...(hint === undefined ? {} : { hint }),
});

const GONE = ownProblem(
  "the server does not answer",
  "The server does not answer.",
  "Is `assize serve` still running? What it was working on goes on when it is started again.",
);

/** Parameters that are paths of their own: their slashes stay. */
const FOLDERS = ["document", "artifact"];

function address(route: string, path: object, query: object = {}): string {
  const values = new Map(Object.entries(path).map(([name, value]) => [name, String(value)]));
  const filled = route.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values.get(name) ?? "";
    return FOLDERS.includes(name) ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value);
  });
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === "" ? filled : `${filled}?${text}`;
}

/** The address of a route that is read. */
export function at<P extends Route<"get">>(route: P, path: Path<Operation<P, "get">>, query?: Query<Operation<P, "get">>): Address<Answer<Operation<P, "get">>> {
  return address(route, path, query ?? {});
}

async function send(path: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Refused(GONE);
  }
  if (response.ok) return response;
  const text = await response.text();
  let problem: Problem;
  try {
    problem = JSON.parse(text) as Problem;
  } catch {
    problem = { ...ownProblem(response.statusText, text || response.statusText), status: response.status };
  }
  throw new Refused(problem);
}

export async function get<T>(address: Address<T>): Promise<T> {
  return (await send(address)).json() as Promise<T>;
}

export async function getText(address: string): Promise<string> {
  return (await send(address)).text();
}

export async function post<P extends Route<"post">>(
  route: P,
  path: Path<Operation<P, "post">>,
  body?: Body<Operation<P, "post">>,
  headers: Record<string, string> = {},
): Promise<Answer<Operation<P, "post">>> {
  const init = {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body ?? {}),
  };
  return (await send(address(route, path), init)).json() as Promise<Answer<Operation<P, "post">>>;
}

export async function remove<P extends Route<"delete">>(route: P, path: Path<Operation<P, "delete">>, query?: Query<Operation<P, "delete">>): Promise<void> {
  await send(address(route, path, query ?? {}), { method: "DELETE" });
}

/** Whether a worker runs it, or is about to. */
export const isUnderWay = (status: RunState | undefined) => status === "running" || status === "waiting";
