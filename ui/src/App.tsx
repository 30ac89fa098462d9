import { Scale } from "lucide-react";
import { LazyMotion, MotionConfig } from "motion/react";
import { useEffect, type ReactNode } from "react";

import { at } from "./model/api";
import { useAsked } from "./model/hooks";
import { Drafts } from "./pages/Drafts";
import { Home } from "./pages/Home";
import { RunPage } from "./pages/Run";
import { System } from "./pages/System";
import { cn, Empty } from "./parts/ui";
import { Scheme } from "./parts/Scheme";
import { Link, useRoute } from "./route";

const PLACES = [
  { href: "/", name: "Trials" },
  { href: "/drafts", name: "Drafts" },
  { href: "/system", name: "System" },
] as const;

export function App() {
  const { path } = useRoute();
  const here = path[0] ?? "";
  const waiting = useWaiting(path.join("/"));
  return (
    <LazyMotion strict features={() => import("./parts/motion").then((motion) => motion.default)}>
      <MotionConfig reducedMotion="user" transition={{ duration: 0.35 }}>
        <div className="flex min-h-dvh flex-col">
          <a
            href="#content"
            className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:m-2 focus:rounded-md focus:bg-raised focus:p-2"
          >
            To the content
          </a>
          <header className="border-b border-line bg-raised print:hidden">
            <nav aria-label="Main" className="mx-auto flex max-w-[96rem] items-center gap-1 px-3 py-2 sm:px-4">
              <Link href="/" className="mr-2 flex items-center gap-2 rounded-md px-1 py-1 font-semibold">
                <Scale aria-hidden className="size-5 text-accent" />
                Assize
              </Link>
              {PLACES.map(({ href, name }) => {
                const current = href === "/" ? here === "" || here === "runs" : here === href.slice(1);
                return (
                  <Link
                    key={href}
                    href={href}
                    aria-current={current ? "page" : undefined}
                    className={cn(
                      "rounded-md px-2.5 py-1.5 text-sm text-soft hover:bg-sunken hover:text-ink",
                      current && "bg-sunken font-medium text-ink",
                    )}
                  >
                    {name}
                    {href === "/drafts" && waiting > 0 && (
                      <span className="ml-1.5 rounded-full bg-doubt/15 px-1.5 text-xs font-medium text-doubt" aria-label={`${waiting} waiting`}>
                        {waiting}
                      </span>
                    )}
                  </Link>
                );
              })}
              <div className="ml-auto">
                <Scheme />
              </div>
            </nav>
          </header>
          <main id="content" tabIndex={-1} className="mx-auto flex w-full max-w-[96rem] flex-1 flex-col px-3 py-5 outline-none sm:px-4">
            {place(path)}
          </main>
        </div>
      </MotionConfig>
    </LazyMotion>
  );
}

/** How many drafts wait for somebody, looked for whenever they go somewhere else. */
function useWaiting(path: string): number {
  const { value, again } = useAsked(at("/api/workspaces", {}));
  useEffect(again, [again, path]);
  return value?.workspaces.reduce((sum, one) => sum + one.waiting, 0) ?? 0;
}

function place(path: string[]): ReactNode {
  const [room, id] = path;
  if (room === undefined) return <Home />;
  if (room === "runs" && id !== undefined) return <RunPage key={id} id={id} />;
  if (room === "drafts") return <Drafts workspace={id ?? null} submission={path[2] ?? null} />;
  if (room === "system") return <System />;
  return (
    <Empty page title="There is nothing at this address">
      <Link href="/" className="text-accent underline">
        To the trials
      </Link>
    </Empty>
  );
}
