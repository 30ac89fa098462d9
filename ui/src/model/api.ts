// Typed requests to the server. The types of routes, parameters, bodies and responses come from the server's OpenAPI
// document (`schema.ts`).

import type { paths, Problem, RunKind, RunState, RunView } from "./schema";

type Method = "get" | "post" | "delete";
type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>;
/** Routes of the API that support the HTTP method `M`. */
type Route<M extends Method> = { [P in keyof paths]: [Operation<P, M>] extends [never] ? never : P }[keyof paths];
type Path<O> = O extends { parameters: { path: infer T } } ? T : Record<never, never>;
type Query<O> = O extends { parameters: { query?: infer T } } ? T : never;
type Body<O> = O extends { requestBody?: { content: { "application/json": infer T } } } ? T : never;
type Json<R> = R extends { content: { "application/json": infer T } } ? T : never;
type ResponseBody<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201 | 202)]> : never;

declare const RESPONSE: unique symbol;

/** URL of an API route. `T` is the type of the response to a `GET` request. */
export type Address<T> = string & { readonly [RESPONSE]?: T };

/** Type of the runs of kind `K`, with the input and result of that kind. */
export type RunOf<K extends RunKind> = Extract<RunView, { kind: K }>;

/** Error of a failed request: the server returned an error or could not be reached. */
export class RequestError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

/** Creates a problem that the page detected itself. Its status is 0, unlike a problem reported by the server. */
export const localProblem = (title: string, detail: string, hint?: string): Problem => ({
  type: "about:blank",
  title,
  status: 0,
  detail,
  ...(hint === undefined ? {} : { hint }),
});

const UNREACHABLE = localProblem(
  "server unreachable",
  "Cannot reach the server.",
  "Check that `assize serve` is running. After a restart the server resumes its unfinished runs.",
);

/** Names of route parameters that are file paths. Slashes in their values are not percent-encoded. */
const PATH_PARAMETERS = ["document", "artifact"];

function address(route: string, path: object, query: object = {}): string {
  const values = new Map(Object.entries(path).map(([name, value]) => [name, String(value)]));
  const filled = route.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = values.get(name) ?? "";
    return PATH_PARAMETERS.includes(name) ? value.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(value);
  });
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text === "" ? filled : `${filled}?${text}`;
}

/** Returns the URL of a `GET` route with its path and query parameters filled in. */
export function apiUrl<P extends Route<"get">>(route: P, path: Path<Operation<P, "get">>, query?: Query<Operation<P, "get">>): Address<ResponseBody<Operation<P, "get">>> {
  return address(route, path, query ?? {});
}

async function send(path: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new RequestError(UNREACHABLE);
  }
  if (response.ok) return response;
  const text = await response.text();
  let problem: Problem;
  try {
    problem = JSON.parse(text) as Problem;
  } catch {
    problem = { ...localProblem(response.statusText, text || response.statusText), status: response.status };
  }
  throw new RequestError(problem);
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
): Promise<ResponseBody<Operation<P, "post">>> {
  const init = {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body ?? {}),
  };
  return (await send(address(route, path), init)).json() as Promise<ResponseBody<Operation<P, "post">>>;
}

export async function remove<P extends Route<"delete">>(route: P, path: Path<Operation<P, "delete">>, query?: Query<Operation<P, "delete">>): Promise<void> {
  await send(address(route, path, query ?? {}), { method: "DELETE" });
}

/** Returns whether a run with this status is being executed or waits for a worker. */
export const isActive = (status: RunState | undefined) => status === "running" || status === "waiting";
