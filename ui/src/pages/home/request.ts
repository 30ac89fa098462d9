// What the start form asks the server for.

import type { Start } from "../../model/schema";

export type StartKind = "consult" | "run" | "debate";

/** A file that is sent with a request. */
export interface Upload {
  name: string;
  bytes: number;
  base64: string;
}

/** The server's bound on files, and ours on their size: a request has 32 MB by default, and base64 takes a third more. */
export const MAX_FILES = 200;
export const MAX_BYTES = 20 * 1024 * 1024;

/** As many rounds as are debated by default, and the most. */
export const ROUNDS = 10;
export const MAX_ROUNDS = 50;

export interface Options {
  rounds: number;
  blindScores: boolean;
  /** The text is the name of a private company, not a ticker. */
  privateCompany: boolean;
  files: Upload[];
}

/** Whether the server takes a text as a ticker. */
export const isTicker = (text: string) => /^[A-Za-z0-9][A-Za-z0-9.-]{0,9}$/.test(text.trim());

/** The kind that a text looks like; only a suggestion. */
export function looksLike(text: string): StartKind {
  const plain = text.trim();
  if (plain === "" || isTicker(plain)) return "consult";
  return plain.startsWith("#") || plain.endsWith("?") || plain.split("\n").length > 3 ? "debate" : "run";
}

/** The body of a request that starts a run. What is usual is left to the server. */
export function startBody(kind: StartKind, text: string, { rounds, blindScores, privateCompany, files }: Options): Start {
  const plain = text.trim();
  const uploads = files.length === 0 || kind === "debate" ? {} : { files: files.map(({ name, base64 }) => ({ name, base64 })) };
  if (kind === "run") return { kind, task: plain, ...uploads };
  const more = rounds === ROUNDS ? {} : { rounds };
  if (kind === "debate") return { kind, document: plain, ...more };
  const company = privateCompany ? { name: plain } : { ticker: plain.toUpperCase() };
  return { kind, ...company, ...more, ...(blindScores ? { blind_scores: true } : {}), ...uploads };
}

/** Why files cannot be added to those there are, if they cannot. */
export function refusal(before: readonly { name: string; bytes: number }[], more: readonly { name: string; size: number }[]): string | null {
  if (before.length + more.length > MAX_FILES) return `At most ${MAX_FILES} files can be sent.`;
  const names = new Set(before.map((file) => file.name));
  for (const file of more) {
    if (names.has(file.name)) return `A file named ${file.name} is there already.`;
    names.add(file.name);
  }
  const bytes = before.reduce((sum, file) => sum + file.bytes, 0) + more.reduce((sum, file) => sum + file.size, 0);
  return bytes > MAX_BYTES ? `At most ${MAX_BYTES / (1024 * 1024)} MB can be sent from this page; the command line takes more.` : null;
}

/** A file's content in base64. */
export async function upload(file: File): Promise<Upload> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read`));
    reader.readAsDataURL(file);
  });
  return { name: file.name, bytes: file.size, base64: url.slice(url.indexOf(",") + 1) };
}
