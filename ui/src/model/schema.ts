// Types of the API, generated from the server's OpenAPI document by `scripts/page-schema`. Do not edit.

export interface paths {
    "/api/about": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["about"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/attacks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["attacks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/cluster": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["cluster"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/doctor": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["examine"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/estimates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["estimate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["of_runs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/exec": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["run_once"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/links": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["link"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/personas": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["personas"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list"];
        put?: never;
        post: operations["start"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show"];
        put?: never;
        post?: never;
        delete: operations["remove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/artifacts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["artifacts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/artifacts/{artifact}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["artifact"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["cancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/documents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["documents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/documents/{document}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["document"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["of_run"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["fork"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/scores": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["scores"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/runs/{id}/transcripts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["transcripts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sandboxes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_sandboxes"];
        put?: never;
        post: operations["create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sandboxes/{sandbox}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["show_sandbox"];
        put?: never;
        post?: never;
        delete: operations["remove_sandbox"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sandboxes/{sandbox}/exec": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sandboxes/{sandbox}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["read"];
        put: operations["write"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sandboxes/{sandbox}/folder": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["folder"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["sessions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{session}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["remove_session"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{session}/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["session_file"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["list_tokens"];
        put?: never;
        post: operations["create_token"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/tokens/{token_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["revoke_token"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/version": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["version"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["workspaces"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces/{workspace}/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["audit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces/{workspace}/audit/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["verify"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces/{workspace}/clean": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["clean"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces/{workspace}/drafts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["open_drafts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces/{workspace}/drafts/{draft}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["draft"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces/{workspace}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["of_workspace"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces/{workspace}/submissions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["submissions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces/{workspace}/submissions/{submission}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["submission"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces/{workspace}/submissions/{submission}/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["accept"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces/{workspace}/submissions/{submission}/reject": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["reject"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces/{workspace}/submissions/{submission}/undo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["undo"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/workspaces/{workspace}/tools": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["switch"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["ready"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        AcceptBody: {
            /**
             * @description Overwrite files that have changed since the draft was created
             * @default false
             */
            force?: boolean;
        };
        /** @description Files of a run. */
        Artifacts: {
            /** @description Input files */
            given: components["schemas"]["FileInfo"][];
            /** @description Other stored files, such as the task, and the files that the programs of each attempt left */
            kept: components["schemas"]["FileInfo"][];
            /** @description Files that the last program left */
            left: components["schemas"]["FileInfo"][];
        };
        /** @description Number of probes in one group, by outcome. */
        AttackGroup: {
            blocked: number;
            /** @description Probes without a result, because the test itself failed. */
            broke: number;
            escaped: number;
            not_applicable: number;
            title: string;
        };
        /** @description One attempt at the task. */
        Attempt: {
            /** @description Number of the attempt, from 1. */
            attempt: number;
            /** @description Number of the candidate, from 1; `None` if the attempt has only one. */
            candidate?: number | null;
            /** @description Code of the program; `None` if the answer had no code. */
            code: string | null;
            /**
             * Format: double
             * @description From 0 to 1; `None` if the answer had no confidence.
             */
            confidence: number | null;
            /** @description Critique of the attempt; `None` if it succeeded, or the critic's answer was invalid. */
            critique: components["schemas"]["Critique"] | null;
            dependencies: string[];
            /** @description Why the attempt failed. */
            error: components["schemas"]["CodeFailure"] | null;
            execution: components["schemas"]["CodeExecution"] | null;
            /** @description Whether the code was found in an answer that does not match the schema. */
            found_in_prose?: boolean;
            reasoning: string;
        };
        AuditLog: {
            entries: components["schemas"]["LogEntry"][];
            /** @description Cursor of the next page; null on the last page */
            next: number | null;
        };
        /** @description State of one sandbox backend. */
        BackendReport: {
            available: boolean;
            /** @description How each limit is enforced. */
            enforcement: components["schemas"]["Enforcement"] | null;
            hint: string | null;
            /** @description How the backend runs sandboxes, if it has several ways. */
            how: string | null;
            isolation: components["schemas"]["Isolation"];
            /**
             * Format: double
             * @description Time to create one sandbox.
             */
            made_in_ms: number | null;
            why_not: string | null;
        };
        /** @description Totals of several calls: count, tokens and cost. */
        CallTotals: {
            calls: number;
            cost: components["schemas"]["Cost"];
            /**
             * @description Calls that were not planned: repeated questions and summaries.
             * @default 0
             */
            extra: number;
            /** @description Whether the rehearsal model gave any of the answers. */
            rehearsal: boolean;
            /** @description Tokens of the calls that reported them. */
            usage: components["schemas"]["Usage"];
        };
        /** @description A cited finding. */
        CitedFinding: {
            /** @description Number of the finding, such as `F1.2`. */
            finding: string;
            title: string;
        };
        CleanBody: {
            /**
             * @description Delete drafts settled more than this many days ago; default: the server's setting
             * @default null
             */
            older_than_days?: number | null;
        };
        /** @description A server or worker process of a cluster. */
        ClusterNode: {
            abilities: components["schemas"]["NodeCapabilities"];
            /** @description Number of sandboxes in use. */
            busy: number;
            /**
             * @description Ids of the runs whose leases the node holds.
             * @default []
             */
            holds: string[];
            host: string;
            /** @description Unique id of the process. */
            id: string;
            /**
             * @description Providers whose rate limits this node enforces for the whole cluster.
             * @default []
             */
            keeps: string[];
            pid: number;
            role: components["schemas"]["NodeRole"];
            /** @description Start time, in milliseconds since 1970. */
            since: number;
            /** @description Number of sandboxes that the node can use at once. */
            slots: number;
            /** @description Version of the cluster's data format. */
            speaks: number;
            /** @description Version of assize. */
            version: string;
        };
        /** @description State of the configured cluster. */
        ClusterReport: {
            detail: string | null;
            servers: string;
            /** @description Total number of sandboxes of these workers. */
            slots: number | null;
            state: components["schemas"]["ClusterReportState"];
            /** @description Number of workers that take jobs. */
            workers: number | null;
        };
        /** @enum {string} */
        ClusterReportState: "answers" | "fails" | "not_tried";
        /** @description Status of a cluster. */
        ClusterStatus: {
            /** @description Number of sandboxes in use. */
            busy: number;
            /** @description Jobs that no worker can run, newest first. */
            dead_letters: components["schemas"]["DeadLetter"][];
            nodes: components["schemas"]["ClusterNode"][];
            queue: components["schemas"]["QueueStatus"][];
            /** @description Number of runs that a process executes. */
            running: number;
            /** @description Number of sandboxes that all workers together can run concurrently. */
            slots: number;
            streams: components["schemas"]["StreamStatus"][];
            stuck: components["schemas"]["StuckWork"][];
            /** @description Number of runs that wait for a worker. */
            waiting: number;
        };
        /** @description Stored result of one execution. */
        CodeExecution: {
            /** @description The disk was full when the program ended. */
            disk_full: boolean;
            /** Format: double */
            duration_ms: number;
            exit_code: number | null;
            /** @description Why the execution failed; `None` if it succeeded. */
            failure: components["schemas"]["CodeFailure"] | null;
            /** @description Files that the program left, by name. */
            files?: components["schemas"]["OutputFile"][];
            /** @description Fingerprint of the session's files before the program ran. */
            found?: components["schemas"]["Fingerprint"] | null;
            /** @description Files that were not collected, with reasons. */
            not_taken?: string[];
            /**
             * @description A process in the sandbox was killed because memory ran out: the program itself if `signal` is 9, or a process
             *     that it started.
             */
            out_of_memory: boolean;
            /** @description The output exceeded the limit and was truncated. */
            output_cut: boolean;
            /** @description Peak memory use of the sandbox; of its largest process where the total is not measured. */
            peak_memory_bytes: number;
            signal: number | null;
            stderr: string;
            /** @description Standard output, with invalid UTF-8 replaced. */
            stdout: string;
            /** @description Test report; `None` if there are no tests, or they did not finish. */
            tests?: components["schemas"]["TestReport"] | null;
            timed_out: boolean;
            /** @description The program ran in a pre-started interpreter. */
            warm: boolean;
        };
        /** @description Why a program failed. */
        CodeFailure: {
            /** @constant */
            kind: "no_code";
        } | {
            /** @constant */
            kind: "declined";
        } | {
            exit_code: number;
            /** @constant */
            kind: "exit_code";
        } | {
            /** @constant */
            kind: "signal";
            signal: number;
        } | {
            /** @constant */
            kind: "timed_out";
            limit_ms: number;
        } | {
            /** @constant */
            kind: "out_of_memory";
            megabytes: number;
        } | {
            failed: number;
            /** @constant */
            kind: "tests_failed";
            of: number;
        } | {
            /** @constant */
            kind: "left_early";
        } | {
            /** @constant */
            kind: "no_tests";
        } | {
            /** @constant */
            kind: "tests_broken";
            reason: string;
        } | {
            expected: string;
            /** @constant */
            kind: "not_expected";
            /**
             * @description Start of the actual output.
             * @default
             */
            printed: string;
        } | {
            /** @constant */
            kind: "package_refused";
            name: string;
        } | {
            /** @constant */
            kind: "packages_not_had";
            names: string;
            reason: string;
        };
        /** @description Stored input of a code run, enough to resume it. Task, tests and input files are artifacts of the run. */
        CodeInput: {
            candidates: number;
            expect: string | null;
            image: string | null;
            /** @description The requested isolation; a resumed run uses it unless the resume request overrides it. */
            isolation?: string | null;
            language: components["schemas"]["Language"];
            limits: components["schemas"]["SandboxLimits"];
            max_attempts: number;
            max_output_tokens: number;
            model: string;
            /** @description Folder to copy the program's files to. */
            out: string | null;
            /** @description Packages that programs may use. */
            packages: string[];
            provider: string;
            /** @description File to save the program in. */
            save: string | null;
            session: string | null;
            /** Format: double */
            temperature: number;
        };
        /** @description Final result of the code loop. */
        CodeVerdict: {
            /** @description Standard output of the program, if it succeeded. */
            answer: string | null;
            /** @description Number of attempts. */
            attempts: number;
            /** @description Program of the last attempt. */
            code: string | null;
            /** @description Why the last attempt failed. */
            error: string | null;
            /** @description All attempts, with code, execution and critique. */
            history: components["schemas"]["Attempt"][];
            spent: components["schemas"]["CallTotals"];
            success: boolean;
        };
        /** @description Company of a consultation. */
        ConsultCompany: {
            /** @description Name, from the SEC's list or given by the user. */
            name: string | null;
            /** @description `None` for a private company, which has a name instead. */
            ticker?: components["schemas"]["Ticker"] | null;
        };
        /** @description How a consultation differs from the run it was forked from. */
        ConsultFork: {
            at: components["schemas"]["ForkPoint"];
            /** @description Run it was forked from. */
            from: string;
            /** @description New personas from that point on, by role: `critic`, `D1` and so on. */
            personas?: {
                [key: string]: string;
            };
        };
        /** @description Input stored with a run, to resume or fork it. Large parts are stored as artifacts. */
        ConsultInput: {
            /** @description Models that gave the reused answers, if they differ from the current ones. */
            answered_before_by?: string | null;
            /** @default false */
            blind_scores: boolean;
            company: components["schemas"]["ConsultCompany"];
            context_window: number | null;
            image: string | null;
            /** @description The requested isolation; a resumed run uses it unless the resume request overrides it. */
            isolation?: string | null;
            limits: components["schemas"]["SandboxLimits"];
            max_output_tokens: number;
            model: string;
            /** @description Other models of the same provider, by role. */
            models?: {
                [key: string]: string;
            };
            moves: number;
            /** @description Maximum number of concurrent debates, if set by the user. */
            parallel_moves?: number | null;
            provider: string;
            region: string | null;
            rounds: number;
            /** @description Whether synthetic data was requested in addition to the sources. */
            synthetic: boolean;
            /** Format: double */
            temperature: number;
            /** @description Changes against the runs it was forked from, the earliest first. */
            turnings?: components["schemas"]["ConsultFork"][];
        };
        /** @description Result of a consultation, with all its documents. */
        ConsultReport: {
            company: components["schemas"]["ConsultCompany"];
            /** @description Ticker; null for a private company. */
            company_ticker: string | null;
            f1_financial_inference: string;
            f2_trend_inference: string;
            /** @description Figures from filings, each with its source and date. */
            figures?: components["schemas"]["Figure"][];
            financial_data_raw: string;
            flags: components["schemas"]["Flag"][];
            /** @description When and how the report was made, if known. */
            made?: components["schemas"]["ReportOrigin"] | null;
            move_suggestions: components["schemas"]["MoveSuggestion"][];
            news_data_raw: string;
            other_moves: components["schemas"]["RankedMove"][];
            /** @description Verdicts by move, with their conversations. */
            policy_scores: components["schemas"]["DebateVerdict"][];
            recommended_moves: components["schemas"]["RankedMove"][];
            spent: components["schemas"]["CallTotals"];
            tie_rule: string;
        };
        ConsultStart: {
            blind_scores?: boolean;
            /** @description Documents about the company */
            files?: components["schemas"]["Upload"][];
            image?: string | null;
            /** @description Models that override the default, by role such as critic or D1 */
            models?: {
                [key: string]: string;
            };
            /**
             * @description Number of moves that each analyst proposes
             * @default 3
             */
            moves?: number;
            /** @description Name of a private company; either this or `ticker` */
            name?: string | null;
            /** @description Maximum number of concurrent debates */
            parallel_moves?: number | null;
            /** @description Personas of the roles, in the format of `assize consult --export-personas` */
            personas?: string | null;
            /** @description Name of a folder of the server with documents about the company (`assize serve --root`) */
            root?: string | null;
            /** @default 10 */
            rounds?: number;
            settings?: components["schemas"]["RequestSettings"];
            /** @description Sources of data about the company; without any, and without files, the model makes synthetic data */
            sources?: components["schemas"]["SourceKind"][];
            /** @description Ticker of a listed company; either this or `name` */
            ticker?: string | null;
            /** @description Confirm a cost above the limit that needs confirmation */
            yes?: boolean;
        };
        /** @description One entry of a conversation. */
        ConversationEntry: {
            content: string;
            /** @description Whether the answer was truncated at the token limit. */
            cut_off?: boolean;
            /** @description `critic`, `D1`, `D2` and so on. */
            role: string;
            round: number;
        };
        /**
         * @description Cost of a call: a known amount, free because the model runs locally, or unknown.
         *
         *     A model without a configured price costs [`Cost::Unknown`], never 0.
         */
        Cost: "unknown" | {
            nano_usd: components["schemas"]["Money"];
        } | "local";
        /** @description New token with its secret text, which is returned only once. */
        CreatedToken: {
            /** @description Milliseconds since 1970 */
            created: number;
            /** @description Milliseconds since 1970 */
            expires: number;
            id: string;
            /** @description Path of the MCP endpoint on this server */
            path: string;
            /** @description `drafts/NAME` or `code` */
            scope: string;
            token: string;
        };
        /** @description Sandbox to create. */
        CreateSandbox: {
            image?: string | null;
            labels?: {
                [key: string]: string;
            };
            /** @description Lower-case letters, digits and `-` */
            name: string;
            region?: string | null;
            settings?: components["schemas"]["RequestSettings"];
            /** @description Lifetime in seconds; default: one hour */
            ttl_seconds?: number | null;
        };
        /** @description Token to create. */
        CreateToken: {
            /** @description `drafts/NAME` for the draft tools of a workspace, or `code` for code execution */
            scope: string;
            /** @description Seconds until the token expires; default: 30 days */
            ttl_seconds?: number | null;
        };
        /** @description Why a program failed, in a model's words. */
        Critique: {
            /** @description What is wrong with it, most serious first. */
            issues: string[];
            /** @description What to change, in the same order. */
            suggested_fixes: string[];
        };
        /** @description A message that was removed from the queue because no worker can run it. */
        DeadLetter: {
            /** @description Number of deliveries. */
            deliveries: number;
            /** @description Beginning of the payload, as text. */
            payload: string;
            /** @description Size of the whole payload, in bytes. */
            payload_bytes: number;
            /** @description Why no worker can run it. */
            reason: string;
            /** @description NATS subject of the message. */
            subject: string;
            /** @description When the message was moved to the list, in milliseconds since 1970. */
            time: number;
        };
        /** @description Input stored with a run, to resume or fork it. The move is stored as an artifact. */
        DebateInput: {
            /** @description Model that answered the earlier rounds, if it differs from the current one. */
            answered_before_by: string | null;
            /** @description Round from which a fork repeats the calls. */
            at: number | null;
            /** @description Persona changes, each from a round on. */
            changes?: components["schemas"]["PersonaChange"][];
            context_window: number | null;
            image?: string | null;
            /** @description Requested isolation; it also applies when the run is resumed, unless another is requested then. */
            isolation?: string | null;
            /**
             * @description Limits of its sandbox.
             * @default {
             *       "memory": 268435456,
             *       "cpu_millis": 500,
             *       "wall": {
             *         "secs": 30,
             *         "nanos": 0
             *       },
             *       "processes": 128,
             *       "output": 8388608,
             *       "disk": 67108864
             *     }
             */
            limits: components["schemas"]["SandboxLimits"];
            max_output_tokens: number;
            model: string;
            move_id: string;
            provider: string;
            rounds: number;
            /** Format: double */
            temperature: number;
            ticker: string | null;
        };
        /** @description Verdict of a single debate, with its isolation. */
        DebateReport: {
            /**
             * @description Names of the decision makers by id.
             * @default {}
             */
            agents: {
                [key: string]: string;
            };
            /** @description Scores given before the debate, if requested. */
            blind_scores?: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            /**
             * @description Caveats of the verdict.
             * @default []
             */
            flags: components["schemas"]["Flag"][];
            /**
             * @description Isolation of the debate, and why it was chosen.
             * @default
             */
            isolation: string;
            move_id: string;
            out_of: number;
            /** @description Conversations that ended early. */
            partial?: {
                [key: string]: components["schemas"]["PartialConversation"];
            };
            /** @description Number of rounds requested. */
            rounds: number;
            scores_by_agent: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            spent: components["schemas"]["CallTotals"];
            /** @description Conversations with rounds that were summarized for the model. */
            summaries?: {
                [key: string]: components["schemas"]["SummarizedRounds"];
            };
            ticker: string | null;
            /** @description Sum of all scores, at most `out_of`. */
            total_score: number;
        };
        DebateStart: {
            /** @description Text of the move, in Markdown or as plain text */
            document: string;
            /** @description Container image of the sandbox */
            image?: string | null;
            rounds?: number | null;
            settings?: components["schemas"]["RequestSettings"];
            ticker?: string | null;
        };
        /** @description The outcome of a debate. */
        DebateVerdict: {
            /**
             * @description Names of the decision makers by id.
             * @default {}
             */
            agents: {
                [key: string]: string;
            };
            /** @description Scores given before the debate, if requested. */
            blind_scores?: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            move_id: string;
            out_of: number;
            /** @description Conversations that ended early. */
            partial?: {
                [key: string]: components["schemas"]["PartialConversation"];
            };
            /** @description Number of rounds requested. */
            rounds: number;
            scores_by_agent: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            spent: components["schemas"]["CallTotals"];
            /** @description Conversations with rounds that were summarized for the model. */
            summaries?: {
                [key: string]: components["schemas"]["SummarizedRounds"];
            };
            ticker: string | null;
            /** @description Sum of all scores, at most `out_of`. */
            total_score: number;
        };
        /** @description Report on the providers, sandboxes and the cluster of this machine. */
        DoctorReport: {
            arch: string;
            /** @description Null if no cluster is configured. */
            cluster: components["schemas"]["ClusterReport"] | null;
            /** @description Order in which providers are tried if none is configured. */
            order: string[];
            os: string;
            /** @description Date of the built-in price table. */
            prices_as_of: string;
            providers: components["schemas"]["ProviderReport"][];
            sandboxes: components["schemas"]["SandboxesReport"];
            /** @description Name of the provider in use, or `rehearsal`. */
            used: string;
            version: string;
            /** @description Why this provider is used. */
            why: string;
            /** @description Settings of an untrusted project. */
            withheld: components["schemas"]["WithheldSetting"][];
        };
        DraftView: {
            content: string;
            /** @description Unified diff against the file when the draft was created */
            diff: string;
            draft: components["schemas"]["OpenDraft"];
        };
        Duration: {
            nanos: number;
            secs: number;
        };
        /** @description How each limit is enforced, as text for users. */
        Enforcement: {
            cpu: string;
            disk: string;
            files: string;
            memory: string;
            network: string;
            output: string;
            processes: string;
            system_calls: string;
            wall: string;
        };
        /** @description A probe that escaped from the sandbox. */
        EscapedProbe: {
            detail: string;
            name: string;
            what: string;
        };
        /** @description Estimated usage and cost of a run. */
        EstimateView: {
            calls: number;
            /** @description Length of the longest chain of sequential calls */
            calls_in_a_row: number;
            /**
             * Format: double
             * @description Cost in dollars if the provider caches prompts
             */
            cost_cached_usd: number | null;
            /** @description `local` if the model runs on the user's own server at no cost */
            cost_note?: string | null;
            /**
             * Format: double
             * @description In dollars; null if the price is unknown
             */
            cost_usd: number | null;
            input_tokens: number;
            output_tokens: number;
            rehearsal: boolean;
        };
        /** @description Stored input of an evaluation, enough to resume it. The problems are an artifact of the run. */
        EvalInput: {
            image: string | null;
            /** @description The requested isolation; a resumed run uses it unless the resume request overrides it. */
            isolation?: string | null;
            limits: components["schemas"]["SandboxLimits"];
            max_attempts: number;
            max_output_tokens: number;
            model: string;
            provider: string;
            samples: number;
            /** Format: double */
            temperature: number;
        };
        /** @description Results of one problem. */
        EvalOutcome: {
            samples: components["schemas"]["EvalSample"][];
            task_id: string;
        };
        /** @description Report of an evaluation. */
        EvalReport: {
            max_attempts: number;
            /**
             * @description Provider and model.
             * @default
             */
            model: string;
            /** @description Pass rates from 0 to 1 for one sample. */
            pass_at_1: components["schemas"]["PassShares"];
            /** @description Pass rates from 0 to 1 that at least one of all samples passes; null with one sample. */
            pass_at_k: components["schemas"]["PassShares"] | null;
            problems: number;
            /** @description Results of all samples, by problem. */
            results: components["schemas"]["EvalOutcome"][];
            samples: number;
            spent: components["schemas"]["CallTotals"];
            /** @description Problems that no sample solved. */
            unsolved: string[];
        };
        /** @description Result of one sample of one problem. */
        EvalSample: {
            attempts: number;
            error: components["schemas"]["CodeFailure"] | null;
            /** @description Whether the first attempt passed. */
            first: boolean;
            /** @description Whether any attempt passed. */
            success: boolean;
        };
        EvalStart: {
            image?: string | null;
            /** @default 3 */
            max_attempts?: number;
            /** @description Name of the problem set */
            name: string;
            parallel?: number | null;
            /** @description Problems, one JSON object per line: task_id, prompt, entry_point, test, canonical_solution */
            problems: string;
            /** @default 1 */
            samples?: number;
            settings?: components["schemas"]["RequestSettings"];
        };
        /** @description Code to run once. */
        ExecBody: {
            /** @description Command-line arguments of the program */
            arguments?: string[];
            code: string;
            env?: {
                [key: string]: string;
            };
            /** @description Input files, placed in the working folder of the program */
            files?: components["schemas"]["Upload"][];
            image?: string | null;
            /** @description Return the files that the program leaves */
            keep_files?: boolean;
            language?: components["schemas"]["LanguageName"];
            settings?: components["schemas"]["RequestSettings"];
            /** @description Standard input of the program */
            stdin?: string | null;
        };
        /** @description File that a program left. */
        ExecFile: {
            base64: string;
            name: string;
        };
        /** @description Outcome of a program. */
        ExecResult: {
            disk_full: boolean;
            /** Format: double */
            duration_ms: number;
            exit_code: number | null;
            files: components["schemas"]["ExecFile"][];
            /** @description Backend of the sandbox, and why it was chosen */
            isolation: string;
            /** @description Files that the program left and that are not returned, with reasons */
            not_taken: string[];
            out_of_memory: boolean;
            output_cut: boolean;
            /** @description Peak memory of the sandbox since it was created */
            peak_memory_bytes: number;
            signal: number | null;
            stderr: string;
            stdout: string;
            timed_out: boolean;
        };
        FailedTest: {
            /** @description End of the error message. */
            error: string;
            name: string;
        };
        /** @description One number with a traceable origin. */
        Figure: {
            /** @description Date for which it holds. */
            as_of: string;
            /** @description The measure, such as `revenue` or `gross margin`. */
            name: string;
            period: components["schemas"]["FigurePeriod"];
            /**
             * Format: double
             * @description Earlier value, if it was restated.
             */
            restated_from?: number | null;
            /** @description The filing it comes from, or how it was computed. */
            source: components["schemas"]["FigureSource"];
            unit: components["schemas"]["FigureUnit"];
            /** Format: double */
            value: number;
        };
        /** @description Period of a figure. */
        FigurePeriod: {
            year: string;
        } | {
            quarter: string;
        } | {
            day: string;
        };
        /** @description Origin of a figure. */
        FigureSource: {
            filed: {
                accession: string;
                concept: string;
                filed: string;
                form: string;
            };
        } | {
            computed: {
                from: string;
            };
        };
        /** @description Unit of a figure. */
        FigureUnit: "count" | {
            money: string;
        } | {
            money_per_share: string;
        } | "percent" | "times";
        /** @description Diff of one file of a submission. */
        FileDiff: {
            /** @description Diff of the file since the draft was created; null if it is unchanged. */
            changed_meanwhile: string | null;
            /** @description Unified diff; null once the copies are deleted. */
            diff: string | null;
            path: string;
        };
        /** @description Name and size of a file. */
        FileInfo: {
            bytes: number;
            name: string;
        };
        FileList: {
            files: components["schemas"]["FileInfo"][];
        };
        /** @description SHA-256 of a request or other content, displayed as 64 hexadecimal digits. */
        Fingerprint: string;
        /**
         * @description A repair that was needed to parse an answer.
         * @enum {string}
         */
        Fix: "code_fence" | "surrounding_text" | "thinking" | "invisible_characters" | "comments" | "trailing_comma" | "quotes" | "unquoted_key" | "literal" | "number_format" | "raw_control_characters" | "bad_escape" | "repeated_key" | "retyped" | "key_spelling";
        /** @description Caveat for readers of the report. */
        Flag: {
            kind: components["schemas"]["FlagKind"];
            message: string;
            /** @description Move it applies to; `None` for the whole report. */
            move_id?: string | null;
        };
        /** @description Kind of a flag. */
        FlagKind: ("company_not_verified" | "synthetic" | "rehearsal" | "tie" | "unsupported_figure" | "unresolved_citation") | "source" | "moves" | "partial" | "repaired" | "no_isolation" | "weaker_isolation" | "forked" | "not_debated" | "assumed";
        /** @description Entry of a folder in a sandbox. */
        FolderItem: {
            bytes: number;
            /** @description file, folder, link or other */
            kind: string;
            name: string;
        };
        FolderListing: {
            entries: components["schemas"]["FolderItem"][];
        };
        ForkBody: {
            /**
             * @description Point from which all model calls are repeated: a round such as `round-4`, or in a consultation a round of one
             *     move such as `m3/round-4`. Default: unchanged prompts reuse their recorded answers
             * @default null
             */
            at?: string | null;
            /**
             * @description Debate only: new text of the move
             * @default null
             */
            document?: string | null;
            /**
             * @description Consultation only: new models, by role
             * @default {}
             */
            models?: {
                [key: string]: string;
            };
            /**
             * @description Debate only: new number of rounds
             * @default null
             */
            rounds?: number | null;
            /**
             * @default {
             *       "provider": null,
             *       "model": null,
             *       "temperature": null,
             *       "max_output_tokens": null,
             *       "max_cost": null,
             *       "max_tokens": null,
             *       "isolation": null,
             *       "memory": null,
             *       "cpus": null,
             *       "timeout_seconds": null,
             *       "processes": null,
             *       "disk": null,
             *       "output": null
             *     }
             */
            settings?: components["schemas"]["RequestSettings"];
            /**
             * @description New personas from that point on, by role: `critic`, `D1` and so on
             * @default {}
             */
            told?: {
                [key: string]: string;
            };
            /**
             * @description Confirm a cost above the limit that needs confirmation
             * @default false
             */
            yes?: boolean;
        };
        /** @description Fork point: a round, in the debate of one move or of all. */
        ForkPoint: string;
        /**
         * @description The gate's verdict on a submission.
         * @enum {string}
         */
        GateVerdict: "accepted" | "rejected" | "escalated";
        /** @description A figure found in a source. */
        GroundedFigure: {
            /** @description Whether the contexts share words. If not, the numbers may be equal by chance. */
            alike: boolean;
            /** @description The figure as written in the move. */
            figure: string;
            /** @description Context of the figure in the source. */
            place: string;
            /** @description Name of the source. */
            source: string;
        };
        HealthView: {
            status: string;
        };
        /**
         * @description Isolation backend of a sandbox, ordered from the weakest to the strongest.
         * @enum {string}
         */
        Isolation: "jail" | "docker" | "microvm";
        /** @description Scores of one decision maker. */
        JudgeScore: {
            /** @description Metrics that could not be parsed, for which 5 is assumed. */
            assumed?: string[];
            /** @description Error of the judge's call, if it failed and 5 is therefore assumed for every metric. */
            failed?: string | null;
            /** @description How realistic it is with the people, money and time there are. */
            feasibility: number;
            /** @description How much it would change the company's growth, revenue or position in its market. */
            impact: number;
            /** @description How the scores were obtained: from the requested JSON, extracted by pattern, or defaulted. */
            provenance: components["schemas"]["Provenance"];
            /**
             * @description One or two sentences: what decided the scores.
             * @example The doubt about the second year was not met; the rest was.
             * @example What it asks of two teams at once was never priced.
             * @example The first stage is small enough to stop, which settled it.
             */
            reasoning: string;
            /** @description How the upside compares with what can be lost. */
            risk_adjusted_return: number;
            /** @description How well it fits where the company is going. */
            strategic_alignment: number;
            /**
             * @description The critic's strongest point that nobody could answer, in one sentence; empty if there is none.
             * @example What happens if the second year brings no volume was asked, and never answered.
             * @example Nobody could say who would run it.
             * @example That a rival would answer with its price was granted, without a reply to it.
             */
            unanswered?: string;
        };
        /**
         * @description Language of code that a sandbox runs.
         * @enum {string}
         */
        Language: "python" | "bash" | "javascript";
        /** @enum {string} */
        LanguageName: "python" | "bash" | "javascript";
        /** @description Result of checking the log. */
        LogCheck: {
            /** @description Occasions when the log in the workspace was too short and was completed. */
            completed: components["schemas"]["LogCompletion"][];
            /** @description Number of entries in the store, of all workspaces. */
            entries: number;
            /** @description Current head of the log as `ID:HASH`; a later check can confirm that the log still contains it. */
            head: string | null;
            intact: boolean;
            of_workspace: number;
            /** @description Problems found. */
            wrong: string[];
        };
        /** @description One completion of the log in the workspace. */
        LogCompletion: {
            entry: number;
            lines_added: number;
            lines_there: number;
        };
        /** @description Entry of the audit log, chained to the previous entry by its hash. The `action` determines the fields of `detail`. */
        LogEntry: {
            action: string;
            actor: string;
            at: number;
            detail: unknown;
            hash: components["schemas"]["Fingerprint"];
            id: number;
            /** @description Hash of the previous entry; all zeros for the first. */
            previous: components["schemas"]["Fingerprint"];
            subject: string;
        } & ({
            /** @constant */
            action: "requested";
            detail: {
                /** @description Hash of the file's content, if the file exists. */
                before: components["schemas"]["Fingerprint"] | null;
                draft: string;
                path: string;
                policy: components["schemas"]["Fingerprint"];
                task: components["schemas"]["TaskId"];
            };
        } | {
            /** @constant */
            action: "submitted";
            detail: {
                files: components["schemas"]["ProposedFile"][];
                /** @description Idempotency key: a second entry with the same key is the same submission. */
                key?: string | null;
                policy: components["schemas"]["Fingerprint"];
                summary: string;
                task: components["schemas"]["TaskId"];
            };
        } | {
            /** @constant */
            action: "decided";
            detail: {
                /** @description Files to replace. */
                files: components["schemas"]["ReplacedFile"][];
                policy: components["schemas"]["Fingerprint"];
                reasons: components["schemas"]["Reason"][];
                submission: number;
                /** @description Whether the response to the agent's call reports the verdict; otherwise a message does. */
                told: boolean;
                verdict: components["schemas"]["GateVerdict"];
                verified?: components["schemas"]["VerifyResult"] | null;
            };
        } | {
            /** @constant */
            action: "applied";
            detail: {
                submission: number;
                told: boolean;
            };
        } | {
            /** @constant */
            action: "not_applied";
            detail: {
                submission: number;
                why: string;
            };
        } | {
            /** @constant */
            action: "undoing";
            detail: {
                files: components["schemas"]["ReplacedFile"][];
                submission: number;
            };
        } | {
            /** @constant */
            action: "undone";
            detail: {
                submission: number;
            };
        } | {
            /** @constant */
            action: "refused";
            detail: {
                path: string;
                task?: string | null;
                tool: string;
                why: string;
            };
        } | {
            /** @constant */
            action: "told";
            detail: {
                task: components["schemas"]["TaskId"];
                up_to: number;
            };
        } | {
            /** @constant */
            action: "switched";
            detail: {
                on: boolean;
            };
        } | {
            /** @constant */
            action: "expired";
            detail: {
                draft: string;
                task: components["schemas"]["TaskId"];
            };
        } | {
            /** @constant */
            action: "swept";
            detail: {
                copies: number;
                submissions: number[];
            };
        } | {
            /** @constant */
            action: "log_completed";
            detail: {
                lines_added: number;
                lines_there: number;
            };
        } | {
            /** @constant */
            action: "log_set_aside";
            detail: {
                name: string;
            };
        });
        /** @description Masked API key, and where it was found. */
        MaskedKey: {
            from: string;
            masked: string;
        };
        /** @description An amount of US dollars, stored as whole nano-dollars. */
        Money: number;
        /** @description A move with its document for the debate and the results of its checks. */
        MoveSuggestion: {
            /** @description What is done first, second and so on, each with who does it. */
            actions: string[];
            /** @description Id of the analyst who proposed it; `persona` is the name. */
            agent_id: string;
            /** @description The findings that it rests on, by their numbers, such as F1.2. */
            citations: string[];
            /** @description Findings it cites, with their titles. */
            cited?: components["schemas"]["CitedFinding"][];
            /** @description Document for the debate. */
            content: string;
            /** @description What it costs, in money and attention; an estimate of yours, and said so. */
            cost: string;
            /** @description Figures found in a source. */
            figures?: components["schemas"]["GroundedFigure"][];
            /** @description Id of the move: `m1`, `m2` and so on. */
            move_id: string;
            persona: string;
            /** @description What could make it fail, the likeliest first. */
            risks: string[];
            /** @description Why it is right for this company now, in four to eight sentences, resting on the findings. */
            thesis: string;
            /** @description How long it takes until it shows, and by when it must have worked. */
            timeline: string;
            /** @description What is done, in at most twelve words. */
            title: string;
            /** @description Citations of unknown findings. */
            unresolved_citations?: string[];
            /** @description Figures found in no source. */
            unsupported_figures?: string[];
        };
        /** @description What a worker offers. */
        NodeCapabilities: {
            isolations: string[];
            labels: {
                [key: string]: string;
            };
            /** @description Maximum memory of one sandbox, in megabytes. */
            memory: number;
            region: string | null;
        };
        /** @enum {string} */
        NodeRole: "server" | "worker";
        /** @description A draft that was requested and not settled. */
        OpenDraft: {
            before: components["schemas"]["Fingerprint"] | null;
            /** @description File name in the drafts folder. */
            name: string;
            path: string;
            /** @description When it was requested, in milliseconds since 1970. */
            since: number;
            /** @description The waiting submission that contains it. */
            submission: number | null;
            task: components["schemas"]["TaskId"];
        };
        OpenDrafts: {
            drafts: components["schemas"]["OpenDraft"][];
        };
        /** @description File that a program left; its content is stored under its hash. */
        OutputFile: {
            bytes: number;
            name: string;
            sha256: components["schemas"]["Fingerprint"];
        };
        /** @description Why a conversation ended early. */
        PartialConversation: {
            /** @description Number of rounds in which both sides spoke. */
            completed_rounds: number;
            error: string;
        };
        /** @description Pass rates of the first attempt alone, and with retries. */
        PassShares: {
            /** Format: double */
            first_attempt: number;
            /** Format: double */
            with_retries: number;
        };
        /** @description Personas replaced from a round on. */
        PersonaChange: {
            from_round: number;
            /** @description New personas by role: `critic`, `D1` and so on. */
            personas: {
                [key: string]: string;
            };
        };
        /** @description Everything that the gate's decisions depend on. Its fingerprint is recorded with every decision. */
        Policy: {
            /** @description Files that may be changed; all if absent. */
            allowed: string[] | null;
            /** @description Maximum size of a file and of a draft in bytes. */
            max_bytes: number;
            /**
             * Format: double
             * @description Maximum share of a file's lines that may be removed or replaced.
             */
            max_deletion: number;
            /** @description Maximum number of files of one task. */
            max_files: number;
            /** @description Maximum number of lines that a draft may add and remove. */
            max_lines: number;
            /** @description Files whose changes always need a reviewer, in addition to the built-in ones. */
            protected: string[];
            /** @description Files that agents may read although their names suggest secrets. */
            readable: string[];
            review: components["schemas"]["Review"];
            /** @description The only task that may be worked on. */
            task: string | null;
            /** @description Commands that must pass: those of the settings and that of the contract. */
            verify: components["schemas"]["VerifyCommand"][];
            /** @description Limits of a verification. */
            verify_most: components["schemas"]["VerifyLimits"];
        };
        /** @description Problem details of a request that failed. */
        Problem: {
            /** @description Why this request failed */
            detail: string;
            /** @description How to fix it */
            hint?: string | null;
            status: number;
            title: string;
            /** @description URI reference that identifies the kind of problem */
            type: string;
        };
        /** @description A file of a submission. */
        ProposedFile: {
            added: number;
            after: components["schemas"]["Fingerprint"];
            before: components["schemas"]["Fingerprint"] | null;
            /** @description File name in the drafts folder; `None` for a change that an agent without tools wrote as text. */
            draft?: string | null;
            /** @description Permissions of the draft. */
            draft_mode: number;
            path: string;
            removed: number;
        };
        /** @description How an answer was obtained: the step of parsing that succeeded. */
        Provenance: ("native" | "parsed") | {
            repaired: components["schemas"]["Fix"][];
        } | {
            reasked: components["schemas"]["Fix"][];
        } | "extracted" | "defaulted";
        /** @description State of one provider. */
        ProviderReport: {
            base_url: string;
            detail: string | null;
            key: components["schemas"]["MaskedKey"] | null;
            model: string;
            provider: string;
            state: components["schemas"]["ProviderState"];
        };
        /** @enum {string} */
        ProviderState: "answers" | "fails" | "no_key" | "not_tried";
        /** @description Queued jobs with the same requirements. */
        QueueStatus: {
            /** @description How many of `under_way` were redelivered at least once. */
            again: number;
            needs: components["schemas"]["WorkNeeds"];
            /** @description Jobs that are delivered and not finished. */
            under_way: number;
            /** @description Jobs that were never delivered. */
            waiting: number;
            /** @description Number of workers that meet the requirements. */
            workers: number;
        };
        /** @description A move with its rank. */
        RankedMove: {
            /** @description Score before the debate, if requested. */
            blind_score?: number | null;
            /** @description Share of new words in the debate, by round. */
            drift?: components["schemas"]["RoundDrift"][];
            move_id: string;
            out_of: number;
            /** @description Rank, counted from 1. */
            rank: number;
            title: string;
            total_score: number;
        };
        /** @description A reason against a draft. */
        Reason: {
            effect: components["schemas"]["ReasonEffect"];
            file: string;
            line?: number | null;
            /** @description Description of the finding. */
            message: string;
            /** @description Rule name, such as `secret/github-token` or `scope`. */
            rule: string;
            /** @description Advice to the agent. */
            what_to_do: string;
        };
        /** @description Effect of a reason on a draft. */
        ReasonEffect: "escalate" | "reject";
        /** @description View of a journal record, with its outcome as JSON. */
        RecordView: {
            key: string;
            request: components["schemas"]["Fingerprint"];
        } & ({
            done: unknown;
        } | {
            failed: unknown;
        });
        RejectBody: {
            /**
             * @description Reason that the agent gets
             * @default
             */
            reason?: string;
        };
        /** @description Replacement of one file's content; `None` means that the file does not exist. */
        ReplacedFile: {
            after: components["schemas"]["Fingerprint"] | null;
            before: components["schemas"]["Fingerprint"] | null;
            path: string;
        };
        /** @description When and how a report was made. */
        ReportOrigin: {
            /** @description Isolation of the debates. */
            isolation: string;
            model: string;
            /** @description Models of single roles, where they differ. */
            models?: {
                [key: string]: string;
            };
            /** @description Date, such as `2026-11-15`. */
            on: string;
            provider: string;
            run: string;
        };
        /**
         * @description Settings for this request only. A request cannot exceed the amounts, nor weaken the isolation, that the operator has
         *     set; it can override defaults. The schema has the bounds that are in force.
         */
        RequestSettings: {
            cpus?: number | null;
            /** @description With a unit, such as 64M */
            disk?: string | null;
            /**
             * @description auto, jail, docker, microvm or at-least=NAME
             * @enum {string|null}
             */
            isolation?: "auto" | "jail" | "docker" | "microvm" | "at-least=jail" | "at-least=docker" | "at-least=microvm" | null;
            /** @description In dollars */
            max_cost?: number | null;
            max_output_tokens?: number | null;
            max_tokens?: number | null;
            /** @description With a unit, such as 256M */
            memory?: string | null;
            model?: string | null;
            /** @description Bytes kept of standard output and of standard error, with a unit */
            output?: string | null;
            processes?: number | null;
            /**
             * @description anthropic, openai, google, groq, openrouter, ollama, or rehearsal (offline, no model)
             * @enum {string|null}
             */
            provider?: "anthropic" | "openai" | "google" | "groq" | "openrouter" | "ollama" | "rehearsal" | null;
            temperature?: number | null;
            timeout_seconds?: number | null;
        };
        ResumeBody: {
            /**
             * @default {
             *       "provider": null,
             *       "model": null,
             *       "temperature": null,
             *       "max_output_tokens": null,
             *       "max_cost": null,
             *       "max_tokens": null,
             *       "isolation": null,
             *       "memory": null,
             *       "cpus": null,
             *       "timeout_seconds": null,
             *       "processes": null,
             *       "disk": null,
             *       "output": null
             *     }
             */
            settings?: components["schemas"]["RequestSettings"];
            /**
             * @description Resume even if another process holds the lease
             * @default false
             */
            take_over?: boolean;
        };
        /** @description When a draft needs a reviewer's approval before it is applied. */
        Review: "always" | "escalated" | "never";
        /** @description Share of new words in a round, from 0 to 1, over all conversations. */
        RoundDrift: {
            /**
             * Format: double
             * @description `None` if the critic has no entry in this round.
             */
            critic: number | null;
            /** Format: double */
            decision_makers: number | null;
            round: number;
        };
        /** @description Kind of a run. Its name is the command that starts it, and the first part of a [`RunId`](crate::RunId). */
        RunKind: "run" | "consult" | "debate" | "work" | "eval";
        /** @description Page of runs, newest first. */
        RunPage: {
            /** @description Cursor of the next page; null on the last page */
            next: number | null;
            runs: components["schemas"]["RunSummary"][];
        };
        /** @description Program to run. */
        RunProgram: {
            /** @description Folder to start in: absolute, or relative to the working folder, which is the default */
            cwd?: string | null;
            env?: {
                [key: string]: string;
            };
            /** @description Program and its arguments */
            program: string[];
            stdin?: string | null;
            /**
             * Format: double
             * @description Timeout, at most that of the sandbox, which is the default
             */
            timeout_seconds?: number | null;
        };
        RunSlots: {
            /** @description Maximum number of concurrent runs */
            most: number;
            running: number;
        };
        RunStart: {
            /**
             * @description Number of programs written and run in parallel in each attempt
             * @default 1
             */
            candidates?: number;
            /** @description Text that the output must contain; between slashes, a regular expression that it must match */
            expect?: string | null;
            /** @description Input files, placed in the working folder of the program */
            files?: components["schemas"]["Upload"][];
            /** @description Container image of the sandbox */
            image?: string | null;
            /** @description python, bash or javascript */
            language?: components["schemas"]["LanguageName"];
            /** @default 3 */
            max_attempts?: number;
            /** @description Name of a session that keeps the working files between runs */
            session?: string | null;
            settings?: components["schemas"]["RequestSettings"];
            /** @description Task in natural language */
            task: string;
            /** @description Tests that the program must pass, as source text */
            tests?: string | null;
        };
        /** @description State of a run, as users see it. Unlike [`RunStatus`], it depends on whether the lease holder is alive. */
        RunState: ("running" | "done" | "failed" | "cancelled") | "waiting" | "stopped";
        /** @description Summary of a run. */
        RunSummary: {
            /** @description Milliseconds since 1970 */
            created: number;
            /** @description Why the run failed or was stopped */
            error: string | null;
            id: string;
            kind: components["schemas"]["RunKind"];
            /** @description Notice to show with the run, such as that no model was used */
            label: string | null;
            parent: string | null;
            status: components["schemas"]["RunState"];
            title: string;
            updated: number;
        };
        /** @description Current state of a run. */
        RunView: {
            /** @description Milliseconds since 1970 */
            created: number;
            /** @description Why the run failed or was stopped */
            error: string | null;
            /** @description Whether this server executes the run */
            held_here: boolean;
            id: string;
            kind: components["schemas"]["RunKind"];
            /** @description Notice to show with the run, such as that no model was used */
            label: string | null;
            parent: string | null;
            /** @description Usage so far, including attempts before a resume */
            spent: components["schemas"]["UsageView"];
            status: components["schemas"]["RunState"];
            title: string;
            updated: number;
        } & ({
            input: components["schemas"]["CodeInput"];
            /** @constant */
            kind: "run";
            result: components["schemas"]["CodeVerdict"] | null;
        } | {
            input: components["schemas"]["ConsultInput"];
            /** @constant */
            kind: "consult";
            result: components["schemas"]["ConsultReport"] | null;
        } | {
            input: components["schemas"]["DebateInput"];
            /** @constant */
            kind: "debate";
            result: components["schemas"]["DebateReport"] | null;
        } | {
            input: components["schemas"]["WorkInput"];
            /** @constant */
            kind: "work";
            result: components["schemas"]["WorkReport"] | null;
        } | {
            input: components["schemas"]["EvalInput"];
            /** @constant */
            kind: "eval";
            result: components["schemas"]["EvalReport"] | null;
        });
        /** @description State of every sandbox backend, and which backend is used. */
        SandboxesReport: {
            backends: components["schemas"]["BackendReport"][];
            /** @description Paths of interpreters by language; null if none was found. */
            interpreters: {
                [key: string]: string | null;
            };
            /** @description Backend for code. */
            used: components["schemas"]["Isolation"] | null;
            /** @description Backend for debates. */
            used_for_debates: components["schemas"]["Isolation"] | null;
            /** @description Why this backend is used for code, or why none can be. */
            why: string;
            /** @description Why this backend is used for debates, or why none can be. */
            why_for_debates: string;
        };
        /** @description Long-lived sandbox. */
        SandboxInfo: {
            /** @description Seconds since 1970 */
            expires: number;
            image: string | null;
            isolation: string;
            labels: {
                [key: string]: string;
            };
            /** @description Seconds since 1970 */
            made: number;
            memory_bytes: number;
            name: string;
            /** @description Process that owns the sandbox */
            pid: number;
            region: string | null;
            /** @description Id of the run that the sandbox belongs to; null if it was created through the API */
            run: string | null;
        };
        /** @description Resource limits that all processes in a sandbox share. */
        SandboxLimits: {
            /** @description CPU share, in thousandths of a processor. */
            cpu_millis: number;
            /** @description Bytes that programs can write to files. */
            disk: number;
            /** @description Bytes of memory, without swap. */
            memory: number;
            /** @description Bytes of standard output, and of standard error, that are kept from one execution. */
            output: number;
            /** @description Maximum number of processes and threads. */
            processes: number;
            /** @description Time limit of one execution. */
            wall: components["schemas"]["Duration"];
        };
        SandboxList: {
            sandboxes: components["schemas"]["SandboxInfo"][];
        };
        /** @description Scores of one move. The transcripts have the reasons. */
        Score: {
            /** @description Names of the judges, by role */
            agents: {
                [key: string]: string;
            };
            /**
             * @description Scores before the debate, if `blind_scores` was requested
             * @default {}
             */
            blind_scores: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            move_id: string;
            out_of: number;
            rounds: number;
            /** @description Scores, by role of the judge */
            scores_by_agent: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            ticker: string | null;
            total_score: number;
        };
        /** @description Result of an attack with all probes on one kind of sandbox. */
        Scorecard: {
            /** @description Time of the attack, in milliseconds since 1970. */
            at: number;
            /** @description Probes that escaped from the sandbox. */
            escaped: components["schemas"]["EscapedProbe"][];
            groups: components["schemas"]["AttackGroup"][];
            isolation: string;
            /**
             * Format: double
             * @description Duration of the attack.
             */
            seconds: number;
            /** @description Version of assize that made the attack. */
            version: string;
        };
        ScorecardList: {
            attacks: components["schemas"]["Scorecard"][];
        };
        Scores: {
            /** @description Final scores; empty until the run is done */
            scores: components["schemas"]["Score"][];
            /** @description Data of the `sandbox_scored` events, until the run is done */
            so_far: {
                [key: string]: unknown;
            }[];
        };
        ServerInfo: {
            /** @description Name of the cluster; null if the server is not part of a cluster. Sandboxes are then those of the workers */
            cluster: string | null;
            /** @description Sandbox backend that new runs use; null if none is available */
            isolation: components["schemas"]["Isolation"] | null;
            /** @description Why this backend is used, or why none is available */
            isolation_why: string;
            model: string | null;
            /** @description Provider that new runs use, or `rehearsal` */
            provider: string;
            /** @description Code tasks that the rehearsal model knows; empty with another provider */
            rehearsed: string[];
            /** @description File edits that the rehearsal model knows; empty with another provider */
            rehearsed_changes: string[];
            /** @description Where runs are stored: path of the file, or address of the cluster's NATS servers */
            store: string;
            trials: components["schemas"]["RunSlots"];
            version: string;
            /** @description Warm pools of the default backend and of every other backend used since the start */
            warm_pools: components["schemas"]["WarmPoolInfo"][];
            /** @description Why this provider is used */
            why: string;
        };
        SessionInfo: {
            files: components["schemas"]["FileInfo"][];
            name: string;
        };
        SessionList: {
            sessions: components["schemas"]["SessionInfo"][];
        };
        SignInLink: {
            /** @description Path on this server to open in a browser */
            path: string;
        };
        /** @enum {string} */
        SourceKind: "edgar" | "files" | "synthetic";
        /** @description Run to start, by kind. */
        StartBody: {
            /**
             * @description Number of programs written and run in parallel in each attempt
             * @default 1
             */
            candidates?: number;
            /** @description Text that the output must contain; between slashes, a regular expression that it must match */
            expect?: string | null;
            /** @description Input files, placed in the working folder of the program */
            files?: components["schemas"]["Upload"][];
            /** @description Container image of the sandbox */
            image?: string | null;
            /** @enum {string} */
            kind: "run";
            /** @description python, bash or javascript */
            language?: components["schemas"]["LanguageName"];
            /** @default 3 */
            max_attempts?: number;
            /** @description Name of a session that keeps the working files between runs */
            session?: string | null;
            settings?: components["schemas"]["RequestSettings"];
            /** @description Task in natural language */
            task: string;
            /** @description Tests that the program must pass, as source text */
            tests?: string | null;
        } | {
            blind_scores?: boolean;
            /** @description Documents about the company */
            files?: components["schemas"]["Upload"][];
            image?: string | null;
            /** @enum {string} */
            kind: "consult";
            /** @description Models that override the default, by role such as critic or D1 */
            models?: {
                [key: string]: string;
            };
            /**
             * @description Number of moves that each analyst proposes
             * @default 3
             */
            moves?: number;
            /** @description Name of a private company; either this or `ticker` */
            name?: string | null;
            /** @description Maximum number of concurrent debates */
            parallel_moves?: number | null;
            /** @description Personas of the roles, in the format of `assize consult --export-personas` */
            personas?: string | null;
            /** @description Name of a folder of the server with documents about the company (`assize serve --root`) */
            root?: string | null;
            /** @default 10 */
            rounds?: number;
            settings?: components["schemas"]["RequestSettings"];
            /** @description Sources of data about the company; without any, and without files, the model makes synthetic data */
            sources?: components["schemas"]["SourceKind"][];
            /** @description Ticker of a listed company; either this or `name` */
            ticker?: string | null;
            /** @description Confirm a cost above the limit that needs confirmation */
            yes?: boolean;
        } | {
            /** @description Text of the move, in Markdown or as plain text */
            document: string;
            /** @description Container image of the sandbox */
            image?: string | null;
            /** @enum {string} */
            kind: "debate";
            rounds?: number | null;
            settings?: components["schemas"]["RequestSettings"];
            ticker?: string | null;
        } | {
            /** @description Files included in the prompt of a model without tools */
            files?: string[];
            /** @enum {string} */
            kind: "work";
            /** @default 5 */
            max_rejections?: number;
            /** @default 40 */
            max_steps?: number;
            mode?: components["schemas"]["WorkMode"];
            /** @description When a reviewer must approve a draft before it is applied: always, escalated or never */
            review?: string | null;
            settings?: components["schemas"]["RequestSettings"];
            /** @description Task in natural language; default: the task in the workspace's contract */
            task?: string | null;
            task_id?: string | null;
            /** @description Command that must succeed before a draft is accepted; runs in a sandbox on a copy of the workspace */
            verify?: string | null;
            /** @description Name of the workspace (`assize serve --root`) */
            workspace: string;
        } | {
            image?: string | null;
            /** @enum {string} */
            kind: "eval";
            /** @default 3 */
            max_attempts?: number;
            /** @description Name of the problem set */
            name: string;
            parallel?: number | null;
            /** @description Problems, one JSON object per line: task_id, prompt, entry_point, test, canonical_solution */
            problems: string;
            /** @default 1 */
            samples?: number;
            settings?: components["schemas"]["RequestSettings"];
        };
        /** @description Replica of a stream on another server. */
        StreamCopy: {
            /** @description Number of messages that the replica lags behind. */
            behind: number;
            /** @description Whether the replica is up to date. */
            current: boolean;
            offline: boolean;
            server: string;
        };
        /** @description One server-sent event. docs/reference/events.md lists the event names and their data. */
        StreamEvent: {
            data: string;
            /** @description Name of the event, such as `snapshot` or `run_ended` */
            event: string;
            /** @description Position in the log, for `Last-Event-ID`; absent from events that are not stored */
            id?: string;
            /** @description Milliseconds to wait before reconnecting */
            retry?: number;
        };
        /** @description Status of a stream and its replicas. */
        StreamStatus: {
            bytes: number;
            /** @description Replicas on other servers. */
            copies: components["schemas"]["StreamCopy"][];
            /** @description Leader of the stream; none while there is no leader, or if the server is not part of a NATS cluster. */
            leader: string | null;
            messages: number;
            name: string;
            /** @description Seconds since the oldest message was written. */
            oldest: number | null;
        };
        /** @description Work that makes no progress. */
        StuckWork: {
            /** @description Run id, or number of jobs. */
            what: string;
            why: string;
        };
        /** @description Drafts that were submitted together. */
        Submission: {
            at: number;
            /** @description Actor who decided. */
            by: string | null;
            /** @description Number of the submission's log entry, from which its message id is built. */
            entry: number;
            files: components["schemas"]["ProposedFile"][];
            /** @description Number of the submission in its workspace, from 1. */
            id: number;
            /** @description Policy at the time of submission. */
            policy: components["schemas"]["Fingerprint"];
            reasons: components["schemas"]["Reason"][];
            /** @description Files that were replaced when it was applied. */
            replaced: components["schemas"]["ReplacedFile"][];
            /** @description When the submission reached its stage, in milliseconds since 1970. */
            settled: number;
            stage: components["schemas"]["SubmissionStage"];
            summary: string;
            /** @description Whether its file copies were deleted, so that it cannot be shown or undone any more. */
            swept: boolean;
            task: components["schemas"]["TaskId"];
            verified: components["schemas"]["VerifyResult"] | null;
            worker: string;
        };
        SubmissionList: {
            /** @description Cursor of the next page; null on the last page */
            next: number | null;
            submissions: components["schemas"]["Submission"][];
        };
        /** @description Stage of a submission. */
        SubmissionStage: ("escalated" | "accepted" | "rejected" | "undone") | "submitted" | "accepting" | "undoing";
        /** @description A submission and its diffs. */
        SubmissionView: {
            at: number;
            /** @description Actor who decided. */
            by: string | null;
            diffs: components["schemas"]["FileDiff"][];
            /** @description Number of the submission's log entry, from which its message id is built. */
            entry: number;
            files: components["schemas"]["ProposedFile"][];
            /** @description Number of the submission in its workspace, from 1. */
            id: number;
            /** @description Policy at the time of submission. */
            policy: components["schemas"]["Fingerprint"];
            reasons: components["schemas"]["Reason"][];
            /** @description Files that were replaced when it was applied. */
            replaced: components["schemas"]["ReplacedFile"][];
            /** @description When the submission reached its stage, in milliseconds since 1970. */
            settled: number;
            stage: components["schemas"]["SubmissionStage"];
            summary: string;
            /** @description Whether its file copies were deleted, so that it cannot be shown or undone any more. */
            swept: boolean;
            task: components["schemas"]["TaskId"];
            verified: components["schemas"]["VerifyResult"] | null;
            worker: string;
        };
        /** @description Summary that replaces rounds in a prompt. */
        SummarizedRounds: {
            /** @description Whether the text consists of the first lines of the entries, because no model could summarize them. */
            extracted: boolean;
            text: string;
            /** @description Rounds 2 to this one are summarized. */
            up_to_round: number;
        };
        /** @description Number of items deleted by a sweep. */
        SweepResult: {
            copies: number;
            drafts: number;
            submissions: number;
        };
        /** @description Id of a task, chosen by the task's author. It is part of the file names of the task's drafts. */
        TaskId: string;
        /** @description Results of the user's tests. */
        TestReport: {
            /** @description Why the tests themselves cannot be run, whatever the program does. */
            broken?: string | null;
            failed: components["schemas"]["FailedTest"][];
            passed: number;
        };
        /** @description Ticker of a listed company, such as `NVDA` or `BRK.B`. */
        Ticker: string;
        /** @description A scoped token, without its secret. */
        TokenInfo: {
            /** @description Milliseconds since 1970 */
            created: number;
            /** @description Milliseconds since 1970 */
            expires: number;
            id: string;
            /** @description `drafts/NAME` or `code` */
            scope: string;
        };
        TokenList: {
            tokens: components["schemas"]["TokenInfo"][];
        };
        ToolsSwitch: {
            on: boolean;
        };
        /** @description Transcript of a run, by its kind */
        Transcripts: {
            conversation_logs: {
                [key: string]: components["schemas"]["ConversationEntry"][];
            };
        } | {
            moves: {
                [key: string]: {
                    [key: string]: components["schemas"]["ConversationEntry"][];
                };
            };
        } | {
            attempts: components["schemas"]["Attempt"][];
        } | {
            records: components["schemas"]["RecordView"][];
        };
        /** @description Uploaded file: as `text`, or any bytes as `base64`. */
        Upload: {
            base64?: string | null;
            /** @description Relative path, such as data/prices.csv */
            name: string;
            text?: string | null;
        } & ({
            base64?: null;
            text: string;
        } | {
            base64: string;
            text?: null;
        });
        /**
         * @description Token counts of one call, or the sum of many.
         *
         *     `input` counts every input token; `cached_input` and `cache_write` are parts of it. Providers
         *     disagree on this (some leave cached tokens out of their input count), so each provider adapter
         *     converts its counts to this convention.
         */
        Usage: {
            /** @description The part of `input` that the provider wrote to its prompt cache, and charges for separately. */
            cache_write: number;
            /** @description The part of `input` that the provider read from its prompt cache. */
            cached_input: number;
            /** @description All input tokens, cached ones included. */
            input: number;
            /** @description All output tokens, hidden reasoning included. */
            output: number;
        };
        /** @description Usage and cost of model calls. */
        UsageView: {
            cached_input_tokens: number;
            calls: number;
            /** @description `local` if the model ran on the user's own server at no cost */
            cost_note?: string | null;
            /**
             * Format: double
             * @description In dollars; null if the price is unknown
             */
            cost_usd: number | null;
            input_tokens: number;
            /** @description Calls in flight when an earlier lease holder died: they are repeated, and the provider may have charged for them */
            lost_calls: number;
            /**
             * Format: double
             * @description Maximum cost of the lost calls, in dollars
             */
            lost_usd: number;
            output_tokens: number;
        };
        /** @description A command that must succeed. */
        VerifyCommand: {
            /** @description Shell command, run in the workspace's folder in a sandbox without network. */
            command: string;
            /**
             * @description Patterns of files to leave out of the copy; `.git` and files with secrets are always left out.
             * @default [
             *       "**\/target/",
             *       "**\/node_modules/",
             *       "**\/.venv/",
             *       "**\/venv/"
             *     ]
             */
            exclude: string[];
            /**
             * @description Host folders that the command needs, such as a toolchain; the settings must allow each.
             * @default []
             */
            layers: string[];
            /**
             * @description Memory limit in megabytes; files in the sandbox count.
             * @default 512
             */
            memory_mb: number;
            /** @description Python virtual environment to use, such as `.venv`: in the workspace, or allowed by the settings. */
            python?: string | null;
            /**
             * @description Time limit in seconds.
             * @default 120
             */
            seconds: number;
        };
        /** @description Upper limits that the settings put on a verification. */
        VerifyLimits: {
            /** @description Host folders that the command may see. */
            layers: string[];
            memory_mb: number;
            /** @description Virtual environment for commands that name none. */
            python?: string | null;
            seconds: number;
        };
        /** @description Result of a verification. */
        VerifyResult: {
            command: string;
            /**
             * @description Description of the evidence for the result.
             * @default
             */
            evidence: string;
            /** @description Name of the isolation that the command ran in. */
            isolation: string;
            /** @description Outcome of the command, such as `exit code 1` or `took longer than 120 s`. */
            outcome: string;
            /** @description The last kilobytes of output. */
            output: string;
            passed: boolean;
            seconds: number;
        };
        VersionInfo: {
            name: string;
            version: string;
        };
        /** @description Warm pools of one backend */
        WarmPoolInfo: {
            /** @description Requests served by an idle sandbox since the server was started */
            hits: number;
            /** @description Idle sandboxes now */
            idle: number;
            isolation: components["schemas"]["Isolation"];
            /** @description Whether the pool is not refilled because free memory is low */
            low_memory: boolean;
            /** @description Requests that had to start a sandbox */
            misses: number;
            /**
             * Format: double
             * @description Mean time to create an idle sandbox; null if none was created yet
             */
            refill_ms: number | null;
            /** @description Capacity */
            size: number;
        };
        /** @description Setting that is ignored, or that makes commands fail, because its folder is not trusted. */
        WithheldSetting: {
            from: string;
            ignored: boolean;
            key: string;
            why: string;
        };
        /** @description Input of a run, from which it can be resumed. */
        WorkInput: {
            /** @description Requested isolation; it also applies when the run is resumed, unless another is requested then. */
            isolation?: string | null;
            model: string;
            /** @description Policy of the gate when the run began. */
            policy: components["schemas"]["Policy"];
            provider: string;
            work: components["schemas"]["WorkTask"];
            /** @description The API returns the workspace's name instead, or null if it has none. */
            workspace: string | null;
        };
        /** @description How the agent proposes changes. */
        WorkMode: "tools" | "text" | "auto";
        /** @description What a job requires of the worker that executes it. */
        WorkNeeds: {
            /** @description Name of the sandbox isolation; any if not set. */
            isolation: string | null;
            labels: {
                [key: string]: string;
            };
            /** @description Memory of the sandbox, in megabytes. */
            memory: number;
            /** @description Kind of slot that the job occupies. Jobs never wait for slots of another kind. */
            place: components["schemas"]["WorkPlace"];
            region: string | null;
        };
        /** @description Outcome of an agent's work. */
        WorkOutcome: "accepted" | "escalated" | "pending" | "rejected" | "nothing";
        /** @description Kind of slot that a job occupies on its worker. */
        WorkPlace: "run" | "sandbox" | "keeper";
        /** @description Stored report of a run. */
        WorkReport: {
            /** @description Whether the agent stopped at a limit. */
            limit_reached: boolean;
            /** @description Mode at the end. */
            mode: components["schemas"]["WorkMode"];
            outcome: components["schemas"]["WorkOutcome"];
            /** @description Text of the last answer. */
            said: string;
            spent: components["schemas"]["CallTotals"];
            steps: number;
            submissions: components["schemas"]["WorkSubmission"][];
            task_id: string;
        };
        /** @description Status of a workspace. */
        WorkspaceInfo: {
            /** @description Why agents cannot work here, such as an invalid contract */
            blocked: string | null;
            name: string;
            /** @description Number of drafts that are not submitted yet */
            open_drafts: number;
            /** @description Whether the draft tools are enabled */
            tools_on: boolean;
            /** @description Number of submissions that wait for a reviewer */
            waiting: number;
        };
        WorkspaceList: {
            workspaces: components["schemas"]["WorkspaceInfo"][];
        };
        WorkStart: {
            /** @description Files included in the prompt of a model without tools */
            files?: string[];
            /** @default 5 */
            max_rejections?: number;
            /** @default 40 */
            max_steps?: number;
            mode?: components["schemas"]["WorkMode"];
            /** @description When a reviewer must approve a draft before it is applied: always, escalated or never */
            review?: string | null;
            settings?: components["schemas"]["RequestSettings"];
            /** @description Task in natural language; default: the task in the workspace's contract */
            task?: string | null;
            task_id?: string | null;
            /** @description Command that must succeed before a draft is accepted; runs in a sandbox on a copy of the workspace */
            verify?: string | null;
            /** @description Name of the workspace (`assize serve --root`) */
            workspace: string;
        };
        /** @description A submission as reported to the agent. */
        WorkSubmission: {
            files: string[];
            reasons: components["schemas"]["Reason"][];
            /** @description Number of the submission in its workspace. */
            submission: number;
            /** @description `accepted`, `rejected`, `escalated` or `pending`. */
            verdict: string;
        };
        /** @description A task and its limits. */
        WorkTask: {
            /** @description Files shown to an agent without tools. */
            files: string[];
            /** @description Maximum number of rejections. */
            max_rejections: number;
            /** @description Maximum number of model calls. */
            max_steps: number;
            max_tokens: number;
            mode: components["schemas"]["WorkMode"];
            task: string;
            task_id: components["schemas"]["TaskId"];
            /** Format: double */
            temperature: number;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type AcceptBody = components['schemas']['AcceptBody'];
export type Artifacts = components['schemas']['Artifacts'];
export type AttackGroup = components['schemas']['AttackGroup'];
export type Attempt = components['schemas']['Attempt'];
export type AuditLog = components['schemas']['AuditLog'];
export type BackendReport = components['schemas']['BackendReport'];
export type CallTotals = components['schemas']['CallTotals'];
export type CitedFinding = components['schemas']['CitedFinding'];
export type CleanBody = components['schemas']['CleanBody'];
export type ClusterNode = components['schemas']['ClusterNode'];
export type ClusterReport = components['schemas']['ClusterReport'];
export type ClusterReportState = components['schemas']['ClusterReportState'];
export type ClusterStatus = components['schemas']['ClusterStatus'];
export type CodeExecution = components['schemas']['CodeExecution'];
export type CodeFailure = components['schemas']['CodeFailure'];
export type CodeInput = components['schemas']['CodeInput'];
export type CodeVerdict = components['schemas']['CodeVerdict'];
export type ConsultCompany = components['schemas']['ConsultCompany'];
export type ConsultFork = components['schemas']['ConsultFork'];
export type ConsultInput = components['schemas']['ConsultInput'];
export type ConsultReport = components['schemas']['ConsultReport'];
export type ConsultStart = components['schemas']['ConsultStart'];
export type ConversationEntry = components['schemas']['ConversationEntry'];
export type Cost = components['schemas']['Cost'];
export type CreatedToken = components['schemas']['CreatedToken'];
export type CreateSandbox = components['schemas']['CreateSandbox'];
export type CreateToken = components['schemas']['CreateToken'];
export type Critique = components['schemas']['Critique'];
export type DeadLetter = components['schemas']['DeadLetter'];
export type DebateInput = components['schemas']['DebateInput'];
export type DebateReport = components['schemas']['DebateReport'];
export type DebateStart = components['schemas']['DebateStart'];
export type DebateVerdict = components['schemas']['DebateVerdict'];
export type DoctorReport = components['schemas']['DoctorReport'];
export type DraftView = components['schemas']['DraftView'];
export type Duration = components['schemas']['Duration'];
export type Enforcement = components['schemas']['Enforcement'];
export type EscapedProbe = components['schemas']['EscapedProbe'];
export type EstimateView = components['schemas']['EstimateView'];
export type EvalInput = components['schemas']['EvalInput'];
export type EvalOutcome = components['schemas']['EvalOutcome'];
export type EvalReport = components['schemas']['EvalReport'];
export type EvalSample = components['schemas']['EvalSample'];
export type EvalStart = components['schemas']['EvalStart'];
export type ExecBody = components['schemas']['ExecBody'];
export type ExecFile = components['schemas']['ExecFile'];
export type ExecResult = components['schemas']['ExecResult'];
export type FailedTest = components['schemas']['FailedTest'];
export type Figure = components['schemas']['Figure'];
export type FigurePeriod = components['schemas']['FigurePeriod'];
export type FigureSource = components['schemas']['FigureSource'];
export type FigureUnit = components['schemas']['FigureUnit'];
export type FileDiff = components['schemas']['FileDiff'];
export type FileInfo = components['schemas']['FileInfo'];
export type FileList = components['schemas']['FileList'];
export type Fingerprint = components['schemas']['Fingerprint'];
export type Fix = components['schemas']['Fix'];
export type Flag = components['schemas']['Flag'];
export type FlagKind = components['schemas']['FlagKind'];
export type FolderItem = components['schemas']['FolderItem'];
export type FolderListing = components['schemas']['FolderListing'];
export type ForkBody = components['schemas']['ForkBody'];
export type ForkPoint = components['schemas']['ForkPoint'];
export type GateVerdict = components['schemas']['GateVerdict'];
export type GroundedFigure = components['schemas']['GroundedFigure'];
export type HealthView = components['schemas']['HealthView'];
export type Isolation = components['schemas']['Isolation'];
export type JudgeScore = components['schemas']['JudgeScore'];
export type Language = components['schemas']['Language'];
export type LanguageName = components['schemas']['LanguageName'];
export type LogCheck = components['schemas']['LogCheck'];
export type LogCompletion = components['schemas']['LogCompletion'];
export type LogEntry = components['schemas']['LogEntry'];
export type MaskedKey = components['schemas']['MaskedKey'];
export type Money = components['schemas']['Money'];
export type MoveSuggestion = components['schemas']['MoveSuggestion'];
export type NodeCapabilities = components['schemas']['NodeCapabilities'];
export type NodeRole = components['schemas']['NodeRole'];
export type OpenDraft = components['schemas']['OpenDraft'];
export type OpenDrafts = components['schemas']['OpenDrafts'];
export type OutputFile = components['schemas']['OutputFile'];
export type PartialConversation = components['schemas']['PartialConversation'];
export type PassShares = components['schemas']['PassShares'];
export type PersonaChange = components['schemas']['PersonaChange'];
export type Policy = components['schemas']['Policy'];
export type Problem = components['schemas']['Problem'];
export type ProposedFile = components['schemas']['ProposedFile'];
export type Provenance = components['schemas']['Provenance'];
export type ProviderReport = components['schemas']['ProviderReport'];
export type ProviderState = components['schemas']['ProviderState'];
export type QueueStatus = components['schemas']['QueueStatus'];
export type RankedMove = components['schemas']['RankedMove'];
export type Reason = components['schemas']['Reason'];
export type ReasonEffect = components['schemas']['ReasonEffect'];
export type RecordView = components['schemas']['RecordView'];
export type RejectBody = components['schemas']['RejectBody'];
export type ReplacedFile = components['schemas']['ReplacedFile'];
export type ReportOrigin = components['schemas']['ReportOrigin'];
export type RequestSettings = components['schemas']['RequestSettings'];
export type ResumeBody = components['schemas']['ResumeBody'];
export type Review = components['schemas']['Review'];
export type RoundDrift = components['schemas']['RoundDrift'];
export type RunKind = components['schemas']['RunKind'];
export type RunPage = components['schemas']['RunPage'];
export type RunProgram = components['schemas']['RunProgram'];
export type RunSlots = components['schemas']['RunSlots'];
export type RunStart = components['schemas']['RunStart'];
export type RunState = components['schemas']['RunState'];
export type RunSummary = components['schemas']['RunSummary'];
export type RunView = components['schemas']['RunView'];
export type SandboxesReport = components['schemas']['SandboxesReport'];
export type SandboxInfo = components['schemas']['SandboxInfo'];
export type SandboxLimits = components['schemas']['SandboxLimits'];
export type SandboxList = components['schemas']['SandboxList'];
export type Score = components['schemas']['Score'];
export type Scorecard = components['schemas']['Scorecard'];
export type ScorecardList = components['schemas']['ScorecardList'];
export type Scores = components['schemas']['Scores'];
export type ServerInfo = components['schemas']['ServerInfo'];
export type SessionInfo = components['schemas']['SessionInfo'];
export type SessionList = components['schemas']['SessionList'];
export type SignInLink = components['schemas']['SignInLink'];
export type SourceKind = components['schemas']['SourceKind'];
export type StartBody = components['schemas']['StartBody'];
export type StreamCopy = components['schemas']['StreamCopy'];
export type StreamEvent = components['schemas']['StreamEvent'];
export type StreamStatus = components['schemas']['StreamStatus'];
export type StuckWork = components['schemas']['StuckWork'];
export type Submission = components['schemas']['Submission'];
export type SubmissionList = components['schemas']['SubmissionList'];
export type SubmissionStage = components['schemas']['SubmissionStage'];
export type SubmissionView = components['schemas']['SubmissionView'];
export type SummarizedRounds = components['schemas']['SummarizedRounds'];
export type SweepResult = components['schemas']['SweepResult'];
export type TaskId = components['schemas']['TaskId'];
export type TestReport = components['schemas']['TestReport'];
export type Ticker = components['schemas']['Ticker'];
export type TokenInfo = components['schemas']['TokenInfo'];
export type TokenList = components['schemas']['TokenList'];
export type ToolsSwitch = components['schemas']['ToolsSwitch'];
export type Transcripts = components['schemas']['Transcripts'];
export type Upload = components['schemas']['Upload'];
export type Usage = components['schemas']['Usage'];
export type UsageView = components['schemas']['UsageView'];
export type VerifyCommand = components['schemas']['VerifyCommand'];
export type VerifyLimits = components['schemas']['VerifyLimits'];
export type VerifyResult = components['schemas']['VerifyResult'];
export type VersionInfo = components['schemas']['VersionInfo'];
export type WarmPoolInfo = components['schemas']['WarmPoolInfo'];
export type WithheldSetting = components['schemas']['WithheldSetting'];
export type WorkInput = components['schemas']['WorkInput'];
export type WorkMode = components['schemas']['WorkMode'];
export type WorkNeeds = components['schemas']['WorkNeeds'];
export type WorkOutcome = components['schemas']['WorkOutcome'];
export type WorkPlace = components['schemas']['WorkPlace'];
export type WorkReport = components['schemas']['WorkReport'];
export type WorkspaceInfo = components['schemas']['WorkspaceInfo'];
export type WorkspaceList = components['schemas']['WorkspaceList'];
export type WorkStart = components['schemas']['WorkStart'];
export type WorkSubmission = components['schemas']['WorkSubmission'];
export type WorkTask = components['schemas']['WorkTask'];
export type $defs = Record<string, never>;
export interface operations {
    about: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ServerInfo"];
                };
            };
        };
    };
    attacks: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScorecardList"];
                };
            };
        };
    };
    cluster: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterStatus"];
                };
            };
        };
    };
    examine: {
        parameters: {
            query?: {
                offline?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DoctorReport"];
                };
            };
        };
    };
    estimate: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StartBody"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EstimateView"];
                };
            };
        };
    };
    of_runs: {
        parameters: {
            query?: {
                after?: number;
                runs?: string;
            };
            header?: {
                "Last-Event-ID"?: number;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": unknown;
                };
            };
        };
    };
    run_once: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ExecBody"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExecResult"];
                };
            };
        };
    };
    link: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignInLink"];
                };
            };
        };
    };
    personas: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    list: {
        parameters: {
            query?: {
                before?: number;
                kind?: components["schemas"]["RunKind"];
                limit?: number;
                status?: components["schemas"]["RunState"];
                title?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunPage"];
                };
            };
        };
    };
    start: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StartBody"];
            };
        };
        responses: {
            200: {
                headers: {
                    /** @description Path of the run */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            201: {
                headers: {
                    /** @description Path of the run */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
        };
    };
    show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
        };
    };
    remove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    artifacts: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Artifacts"];
                };
            };
        };
    };
    artifact: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                artifact: string;
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": unknown;
                };
            };
        };
    };
    cancel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
        };
    };
    documents: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileList"];
                };
            };
        };
    };
    document: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                document: string;
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": unknown;
                };
            };
        };
    };
    of_run: {
        parameters: {
            query?: {
                after?: number;
            };
            header?: {
                "Last-Event-ID"?: number;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": unknown;
                };
            };
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    export: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
                };
            };
        };
    };
    fork: {
        parameters: {
            query?: never;
            header?: {
                "Idempotency-Key"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ForkBody"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
        };
    };
    resume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ResumeBody"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
        };
    };
    scores: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Scores"];
                };
            };
        };
    };
    transcripts: {
        parameters: {
            query?: {
                move?: string;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Transcripts"];
                };
            };
        };
    };
    list_sandboxes: {
        parameters: {
            query?: {
                labels?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SandboxList"];
                };
            };
        };
    };
    create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateSandbox"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SandboxInfo"];
                };
            };
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SandboxInfo"];
                };
            };
        };
    };
    show_sandbox: {
        parameters: {
            query?: {
                run?: string;
            };
            header?: never;
            path: {
                sandbox: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SandboxInfo"];
                };
            };
        };
    };
    remove_sandbox: {
        parameters: {
            query?: {
                run?: string;
            };
            header?: never;
            path: {
                sandbox: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    run: {
        parameters: {
            query?: {
                run?: string;
            };
            header?: never;
            path: {
                sandbox: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RunProgram"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExecResult"];
                };
            };
        };
    };
    read: {
        parameters: {
            query: {
                path: string;
                run?: string;
            };
            header?: never;
            path: {
                sandbox: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": unknown;
                };
            };
        };
    };
    write: {
        parameters: {
            query: {
                path: string;
                run?: string;
            };
            header?: never;
            path: {
                sandbox: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    folder: {
        parameters: {
            query?: {
                path?: string;
                run?: string;
            };
            header?: never;
            path: {
                sandbox: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FolderListing"];
                };
            };
        };
    };
    sessions: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionList"];
                };
            };
        };
    };
    remove_session: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    session_file: {
        parameters: {
            query: {
                path: string;
            };
            header?: never;
            path: {
                session: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "*/*": unknown;
                };
            };
        };
    };
    list_tokens: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokenList"];
                };
            };
        };
    };
    create_token: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateToken"];
            };
        };
        responses: {
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedToken"];
                };
            };
        };
    };
    revoke_token: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                token_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    version: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VersionInfo"];
                };
            };
        };
    };
    workspaces: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WorkspaceList"];
                };
            };
        };
    };
    audit: {
        parameters: {
            query?: {
                after?: number;
                limit?: number;
                refused?: boolean;
                task?: string;
            };
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditLog"];
                };
            };
        };
    };
    verify: {
        parameters: {
            query?: {
                since?: string;
            };
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogCheck"];
                };
            };
        };
    };
    clean: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CleanBody"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SweepResult"];
                };
            };
        };
    };
    open_drafts: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenDrafts"];
                };
            };
        };
    };
    draft: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                draft: string;
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DraftView"];
                };
            };
        };
    };
    of_workspace: {
        parameters: {
            query?: {
                after?: number;
            };
            header?: {
                "Last-Event-ID"?: number;
            };
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": unknown;
                };
            };
        };
    };
    submissions: {
        parameters: {
            query?: {
                all?: boolean;
                before?: number;
                limit?: number;
            };
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubmissionList"];
                };
            };
        };
    };
    submission: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                submission: string;
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubmissionView"];
                };
            };
        };
    };
    accept: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                submission: string;
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["AcceptBody"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubmissionView"];
                };
            };
        };
    };
    reject: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                submission: string;
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["RejectBody"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubmissionView"];
                };
            };
        };
    };
    undo: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                submission: string;
                workspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SubmissionView"];
                };
            };
        };
    };
    switch: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                workspace: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ToolsSwitch"];
            };
        };
        responses: {
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    health: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealthView"];
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    ready: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealthView"];
                };
            };
        };
    };
}
