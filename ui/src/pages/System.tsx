// System page: load of the server or cluster, sandbox backends, providers, named sandboxes, tokens and attack results.

import { RefreshCw, Trash2 } from "lucide-react";

import { apiUrl, remove } from "../model/api";
import { useFetch, useAction } from "../model/hooks";
import type { ServerInfo, BackendReport, ClusterNode, DoctorReport, ProviderReport, Scorecard, WarmPoolInfo } from "../model/schema";
import { formatAgo, formatCount, formatDuration } from "../model/format";
import { ProblemNotice } from "../parts/notices";
import { Badge, Button, Card, EmptyState, Heading, InlineCode, Notice, type Tone } from "../parts/ui";
import { Link, useTitle } from "../route";
import { Tokens } from "./Tokens";

export function System() {
  useTitle("System");
  const doctor = useFetch(apiUrl("/api/doctor", {}));
  const about = useFetch(apiUrl("/api/about", {}));
  const cluster = about.value?.cluster ?? null;
  return (
    <div className="grid gap-6">
      <div className="flex items-center gap-3">
        <h1 className="flex-1 text-xl font-semibold">System</h1>
        <Button onClick={doctor.refetch}>
          <RefreshCw aria-hidden className="size-4" />
          Run checks again
        </Button>
      </div>
      {about.problem && <ProblemNotice problem={about.problem} />}
      {about.value && (cluster === null ? <ServerUsage about={about.value} /> : <Cluster name={cluster} servers={about.value.store} />)}
      {doctor.problem && <ProblemNotice problem={doctor.problem} />}
      {!doctor.value && !doctor.problem && <p className="text-sm text-soft">Checking: starting a sandbox of each backend and calling each provider…</p>}
      {doctor.value && (
        <>
          <section aria-labelledby="backends" className="grid gap-3">
            <Heading id="backends">
              {cluster === null ? "Sandbox backends" : "Sandbox backends of this server (workers have their own)"}
            </Heading>
            <p className="-mt-2 text-sm text-soft">
              <InlineCode text={doctor.value.sandboxes.why} />
            </p>
            <ul className="grid gap-3 lg:grid-cols-3">
              {doctor.value.sandboxes.backends.map((backend) => (
                <li key={backend.isolation}>
                  <BackendCard backend={backend} uses={usesOf(backend.isolation, doctor.value)} />
                </li>
              ))}
            </ul>
          </section>
          <section aria-labelledby="providers" className="grid gap-3">
            <Heading id="providers">
              Provider in use: {doctor.value.used} ({doctor.value.why})
            </Heading>
            <ul className="divide-y divide-line rounded-lg border border-line bg-raised">
              {doctor.value.providers.map((provider) => (
                <ProviderRow key={provider.provider} provider={provider} used={provider.provider === doctor.value?.used} />
              ))}
            </ul>
          </section>
        </>
      )}
      <NamedSandboxes />
      <Tokens />
      <Attacks />
    </div>
  );
}

/** Figures of a server without a cluster: running trials, the warm pool of each backend, and the version. */
function ServerUsage({ about: { run_slots, warm_pools, store, version } }: { about: ServerInfo }) {
  const several = warm_pools.length > 1;
  const figures = [
    { name: "Running trials", figure: `${run_slots.running} of ${run_slots.max}`, about: `at most ${formatCount(run_slots.max, "trial")} at the same time` },
    ...warm_pools.flatMap((pool) => warmPoolFigures(pool, several ? ` (${pool.isolation})` : "")),
    { name: "Version", figure: version, about: `data is stored in ${store}` },
  ];
  return (
    <dl className="grid gap-3 sm:grid-cols-2 lg:grid-cols-4">
      {figures.map(({ name, figure, about }) => (
        <div key={name} className="rounded-lg border border-line bg-raised p-4">
          <dt className="text-xs text-soft">{name}</dt>
          <dd className="text-lg font-semibold tabular-nums">{figure}</dd>
          <dd className="text-xs wrap-anywhere text-soft">{about}</dd>
        </div>
      ))}
    </dl>
  );
}

function warmPoolFigures({ idle, size, hits, misses, refill_ms, low_memory }: WarmPoolInfo, suffix: string) {
  const requests = hits + misses;
  return [
    {
      name: `Idle sandboxes${suffix}`,
      figure: `${idle} of ${size}`,
      about: low_memory ? "warm pool not refilled: too little free memory" : "started in advance, ready for a program",
    },
    {
      name: `Warm-pool hit rate${suffix}`,
      figure: requests === 0 ? "no data yet" : `${Math.round((hits / requests) * 100)} %`,
      about: requests === 0 ? "no sandbox requested since the server started" : `idle sandboxes served ${hits} of ${formatCount(requests, "sandbox request")}`,
    },
    {
      name: `Warm-pool refill time${suffix}`,
      figure: refill_ms === null ? "no data yet" : `${Math.round(refill_ms)} ms`,
      about: "mean time to start an idle sandbox",
    },
  ];
}

/** Status of the cluster: sandboxes in use, runs, problems and nodes. */
function Cluster({ name, servers }: { name: string; servers: string }) {
  const { value, problem, refetch } = useFetch(apiUrl("/api/cluster", {}));
  return (
    <section aria-labelledby="cluster" className="grid gap-3">
      <div className="flex items-center gap-3">
        <Heading id="cluster" className="flex-1">
          Cluster {name}: its workers execute the runs of this server
        </Heading>
        <Button onClick={refetch} aria-label="Refresh the cluster status">
          <RefreshCw aria-hidden className="size-4" />
        </Button>
      </div>
      {problem && <ProblemNotice problem={problem} />}
      {value && (
        <>
          <p className="text-sm text-soft">
            {value.busy} of {formatCount(value.slots, "sandbox", "sandboxes")} in use; {formatCount(value.running, "active run")},{" "}
            {formatCount(value.waiting, "waiting run")}. Data is stored at <span className="font-mono">{servers}</span>.
          </p>
          {value.stuck.map(({ subject, why }) => (
            <Notice key={subject} tone="bad" title={`Stuck: ${subject}`}>
              {why}
            </Notice>
          ))}
          {value.dead_letters.map(({ subject, reason, time }) => (
            <Notice key={`${subject} ${time}`} tone="bad" title={`Dead letter: ${subject}`}>
              {reason}
            </Notice>
          ))}
          <ul className="divide-y divide-line rounded-lg border border-line bg-raised">
            {value.nodes.map((node) => (
              <NodeRow key={node.id} node={node} />
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

/** Row of one cluster node, with its backends, region and labels. */
function NodeRow({ node: { role, host, pid, since, slots, busy, leases, version, capabilities } }: { node: ClusterNode }) {
  const backends = capabilities.isolations.filter((name) => !name.includes("="));
  const labels = Object.entries(capabilities.labels).map(([name, value]) => `${name}=${value}`);
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2 text-sm">
      <Badge tone={role === "worker" ? "good" : "plain"}>{role}</Badge>
      <span className="font-mono text-xs">
        {host}, pid {pid}
      </span>
      {role === "worker" && (
        <span className="tabular-nums">
          {busy} of {formatCount(slots, "sandbox", "sandboxes")} in use, {formatCount(leases.length, "active run")}
        </span>
      )}
      <span className="flex-1" />
      {[...backends, ...(capabilities.region === null ? [] : [capabilities.region]), ...labels].map((label) => (
        <Badge key={label}>{label}</Badge>
      ))}
      <span className="text-xs text-soft">
        version {version}, started {formatAgo(since)}
      </span>
    </li>
  );
}

/** Results of the last attack (`assize attack`) on each sandbox backend. */
function Attacks() {
  const { value, problem } = useFetch(apiUrl("/api/attacks", {}));
  return (
    <section aria-labelledby="attacks" className="grid gap-3">
      <Heading id="attacks">Last attack test of each sandbox backend</Heading>
      {problem && <ProblemNotice problem={problem} />}
      {value?.attacks.length === 0 && (
        <EmptyState title="No attack results yet">
          <code className="font-mono">assize attack</code> makes about 270 attempts to break out of each backend; the results appear here.
        </EmptyState>
      )}
      <ul className="grid gap-3 empty:hidden lg:grid-cols-2">
        {value?.attacks.map((attack) => (
          <li key={attack.isolation}>
            <AttackCard attack={attack} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function AttackCard({ attack: { isolation, version, at, seconds, groups, escaped } }: { attack: Scorecard }) {
  const blocked = groups.reduce((sum, group) => sum + group.blocked, 0);
  return (
    <Card className="h-full">
      <p className="mb-2 flex flex-wrap items-center gap-2 font-medium">
        <span className="mr-auto whitespace-nowrap">{isolation}</span>
        {escaped.length > 0 ? <Badge tone="bad">{formatCount(escaped.length, "attack")} escaped</Badge> : <Badge tone="good">{formatCount(blocked, "attack")} blocked, none escaped</Badge>}
      </p>
      <p className="mb-3 text-xs text-soft">
        {formatAgo(at)}, took {formatDuration(seconds * 1000)}, version {version}
      </p>
      <table className="w-full text-xs">
        <thead className="text-soft">
          <tr>
            <th scope="col" className="text-left font-normal">
              Attack
            </th>
            <th scope="col" className="px-2 text-right font-normal">
              blocked
            </th>
            <th scope="col" className="px-2 text-right font-normal">
              escaped
            </th>
            <th scope="col" className="text-right font-normal">
              not applicable
            </th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <tr key={group.title}>
              <th scope="row" className="py-0.5 text-left font-normal">
                {group.title}
                {group.failed > 0 && <span className="text-warning"> ({group.failed} failed to run)</span>}
              </th>
              <td className="px-2 text-right tabular-nums">{group.blocked}</td>
              <td className={group.escaped > 0 ? "px-2 text-right font-semibold text-bad tabular-nums" : "px-2 text-right tabular-nums"}>{group.escaped}</td>
              <td className="text-right text-soft tabular-nums">{group.not_applicable}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {escaped.map(({ name, description, detail }) => (
        <p key={name} className="mt-2 border-l-2 border-bad pl-2 text-xs">
          <span className="font-mono">{name}</span>: {description} ({detail})
        </p>
      ))}
    </Card>
  );
}

/** Returns the kinds of runs for which a backend is the default: code, debates, both or none. */
function usesOf(isolation: string, doctor: DoctorReport | null): string[] {
  const { used, used_for_debates } = doctor?.sandboxes ?? {};
  return [used === isolation && "code", used_for_debates === isolation && "debates"].filter((use) => use !== false);
}

function BackendCard({ backend, uses }: { backend: BackendReport; uses: string[] }) {
  return (
    <Card className="h-full">
      <p className="flex flex-wrap items-center gap-2 font-medium">
        <span className="mr-auto whitespace-nowrap">{backend.isolation}</span>
        {uses.length > 0 && <Badge tone="accent">in use for {uses.join(" and ")}</Badge>}
        <Badge tone={backend.available ? "good" : "plain"}>
          {backend.available ? `starts in ${Math.round(backend.start_ms ?? 0)} ms` : "unavailable"}
        </Badge>
      </p>
      {backend.unavailable_reason && (
        <p className="mt-2 text-sm text-soft">
          <InlineCode text={backend.unavailable_reason} />
        </p>
      )}
      {backend.hint && (
        <p className="mt-1 text-sm">
          <InlineCode text={backend.hint} />
        </p>
      )}
      {backend.method && (
        <p className="mt-2 text-sm text-soft">
          <InlineCode text={backend.method} />
        </p>
      )}
      {backend.enforcement && (
        <dl className="mt-3 grid grid-cols-[auto_1fr] gap-x-3 gap-y-1 text-xs">
          {Object.entries(backend.enforcement).map(([name, by]) => (
            <div key={name} className="contents">
              <dt className="text-soft">{name === "cpu" ? "CPU" : name.replaceAll("_", " ")}</dt>
              <dd>{by}</dd>
            </div>
          ))}
        </dl>
      )}
    </Card>
  );
}

const STATES: Record<ProviderReport["state"], { tone: Tone; label: string }> = {
  answers: { tone: "good", label: "answered" },
  fails: { tone: "bad", label: "failed" },
  no_key: { tone: "plain", label: "no API key" },
  not_tried: { tone: "plain", label: "not checked" },
};

function ProviderRow({ provider, used }: { provider: ProviderReport; used: boolean }) {
  const { tone, label } = STATES[provider.state];
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5 text-sm">
      <span className="min-w-28 font-medium whitespace-nowrap">{provider.provider}</span>
      <span className="flex-1 basis-40 wrap-anywhere text-soft">{provider.model}</span>
      {used && <Badge tone="accent">in use</Badge>}
      <Badge tone={tone}>{label}</Badge>
      <span className="w-full text-xs text-soft sm:w-auto">{provider.detail}</span>
    </li>
  );
}

/** List of the named sandboxes, which outlive a single program. Each row has a button that removes the sandbox. */
function NamedSandboxes() {
  const { value, problem, refetch } = useFetch(apiUrl("/api/sandboxes", {}));
  const { pending, problem: refused, perform } = useAction();
  return (
    <section aria-labelledby="sandboxes" className="grid gap-3">
      <Heading id="sandboxes">Named sandboxes</Heading>
      {(problem ?? refused) && <ProblemNotice problem={(problem ?? refused)!} />}
      {value?.sandboxes.length === 0 && (
        <EmptyState title="No named sandboxes">
          <code className="font-mono">assize sandbox create NAME</code> creates a sandbox that stays until it expires or is removed. Each running debate also has one.
        </EmptyState>
      )}
      <ul className="divide-y divide-line rounded-lg border border-line bg-raised empty:hidden">
        {value?.sandboxes.map((one) => (
          <li key={`${one.run ?? ""}/${one.name}`} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2 text-sm">
            <span className="font-mono wrap-anywhere">{one.name}</span>
            <Badge>{one.isolation}</Badge>
            {one.run && (
              <Link href={`/runs/${one.run}`} className="truncate text-xs text-accent underline">
                {one.run}
              </Link>
            )}
            <span className="flex-1" />
            <Button
              variant="danger"
              disabled={pending}
              aria-label={`Remove sandbox ${one.name}`}
              onClick={() =>
                void perform(async () => {
                  await remove("/api/sandboxes/{sandbox}", { sandbox: one.name }, one.run === null ? {} : { run: one.run });
                  refetch();
                })
              }
            >
              <Trash2 aria-hidden className="size-4" />
            </Button>
          </li>
        ))}
      </ul>
    </section>
  );
}
