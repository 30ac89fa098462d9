// Client-side router: the URL holds the current view, so that links to it can be shared.

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

/** Navigates within the page; `replace` adds no history entry. */
export function go(to: string, replace = false): void {
  if (to === location.pathname + location.search) return;
  const newPath = new URL(to, location.origin).pathname !== location.pathname;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  for (const listener of listeners) listener();
  if (newPath) window.scrollTo(0, 0);
}

/** Decodes one path segment; an invalid segment is returned unchanged. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The current path segments and query parameters. */
export function useRoute(): { path: string[]; query: URLSearchParams } {
  const current = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  const url = new URL(current, location.origin);
  const path = url.pathname.split("/").filter(Boolean).map(decoded);
  return { path, query: url.searchParams };
}

/** Link within the page that navigates without a reload. */
export function Link({ href, onClick, ...rest }: AnchorHTMLAttributes<HTMLAnchorElement> & { href: string }) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const newTab = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0;
    if (event.defaultPrevented || newTab) return;
    event.preventDefault();
    go(href);
  };
  return <a href={href} onClick={follow} {...rest} />;
}

/** The current URL with some query parameters changed; `null` removes one. */
export function withQuery(change: Record<string, string | null>): string {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(change)) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return location.pathname + (text === "" ? "" : `?${text}`);
}

/** Sets the title of the browser window. */
export function useTitle(title: string | null): void {
  useEffect(() => {
    document.title = title === null ? "Assize" : `${title} · Assize`;
  }, [title]);
}
