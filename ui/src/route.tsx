// Where in the page somebody is: its address says so, and can be sent to others.

import { useEffect, useSyncExternalStore, type AnchorHTMLAttributes, type MouseEvent } from "react";

const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener("popstate", listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener("popstate", listener);
  };
}

/** Goes somewhere else in the page; `replace` leaves no step to come back to. */
export function go(to: string, replace = false): void {
  if (to === location.pathname + location.search) return;
  const elsewhere = new URL(to, location.origin).pathname !== location.pathname;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  for (const listener of listeners) listener();
  if (elsewhere) window.scrollTo(0, 0);
}

/** A part of an address; what cannot be read stays as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The path and what stands behind the question mark. */
export function useRoute(): { path: string[]; query: URLSearchParams } {
  const whole = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  const url = new URL(whole, location.origin);
  const path = url.pathname.split("/").filter(Boolean).map(decoded);
  return { path, query: url.searchParams };
}

export function Link({ href, onClick, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string }) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const elsewhere = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0;
    if (event.defaultPrevented || elsewhere) return;
    event.preventDefault();
    go(href);
  };
  return <a href={href} onClick={follow} {...rest} />;
}

/** This address, with some of what stands behind the question mark changed. */
export function withQuery(change: Record<string, string | null>): string {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(change)) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return location.pathname + (text === "" ? "" : `?${text}`);
}

/** What the window is called. */
export function useTitle(title: string | null): void {
  useEffect(() => {
    document.title = title === null ? "Assize" : `${title} · Assize`;
  }, [title]);
}
