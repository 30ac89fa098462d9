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
             * @description Overwrite files that have changed in the workspace since the draft was created
             * @default false
             */
            force?: boolean;
        };
        /** @description Files of a run, grouped by their origin. */
        Artifacts: {
            /** @description Input files of the run */
            inputs: components["schemas"]["FileInfo"][];
            /** @description Other stored files of the run, such as the task and the files that the programs of each attempt wrote */
            other: components["schemas"]["FileInfo"][];
            /** @description Files that the last program of the run wrote */
            outputs: components["schemas"]["FileInfo"][];
        };
        /** @description How many probes of one group had each outcome. */
        AttackGroup: {
            blocked: number;
            escaped: number;
            /** @description Number of probes without a result, because the probe or the sandbox failed with an error. */
            failed: number;
            not_applicable: number;
            title: string;
        };
        /** @description One attempt of the model to solve the task. */
        Attempt: {
            /** @description Number of the attempt, from 1. */
            attempt: number;
            /** @description Number of the candidate program, from 1; null if the attempt has only one program. */
            candidate?: number | null;
            /** @description Code of the program; null if the answer contained no code. */
            code: string | null;
            /**
             * Format: double
             * @description The model's confidence in its program, from 0 to 1; null if the answer did not contain it.
             */
            confidence: number | null;
            /** @description Critique of the attempt; null if the attempt succeeded, or the critic's answer was invalid. */
            critique: components["schemas"]["Critique"] | null;
            /** @description Packages that the program requires. */
            dependencies: string[];
            /** @description Why the attempt failed; null if it succeeded or was stopped. */
            error: components["schemas"]["CodeFailure"] | null;
            /** @description Result of running the program; null if the program was not run. */
            execution: components["schemas"]["CodeExecution"] | null;
            /** @description Whether the code was extracted from an answer that does not match the schema. */
            found_in_prose?: boolean;
            /** @description The model's explanation of its program. */
            reasoning: string;
        };
        AuditLog: {
            entries: components["schemas"]["LogEntry"][];
            /** @description Cursor of the next page; null on the last page */
            next: number | null;
        };
        /** @description Result of the checks on one sandbox backend. */
        BackendReport: {
            available: boolean;
            /** @description How the backend enforces each limit. */
            enforcement: components["schemas"]["Enforcement"] | null;
            hint: string | null;
            isolation: components["schemas"]["Isolation"];
            /**
             * @description How the backend runs sandboxes, such as microVMs with KVM or with emulation; null if the backend has only one
             *     way to run sandboxes.
             */
            method: string | null;
            /**
             * Format: double
             * @description Time in milliseconds to create one sandbox; null if the backend is not available.
             */
            start_ms: number | null;
            unavailable_reason: string | null;
        };
        /** @description Totals of several model calls: number of calls, tokens and cost. */
        CallTotals: {
            calls: number;
            cost: components["schemas"]["Cost"];
            /**
             * @description Number of calls that were not planned: repeated requests and summaries.
             * @default 0
             */
            extra: number;
            /** @description Whether the rehearsal model answered any of the calls. */
            rehearsal: boolean;
            /** @description Sum of the token counts that the responses report. */
            usage: components["schemas"]["Usage"];
        };
        /** @description A finding that a move cites. */
        CitedFinding: {
            /** @description Id of the finding, such as `F1.2`. */
            finding: string;
            title: string;
        };
        CleanBody: {
            /**
             * @description Minimum age, in days, of the drafts and file versions to delete; default: the setting `draft.keep_days`
             * @default null
             */
            older_than_days?: number | null;
        };
        /** @description Status of a server or worker process of a cluster. */
        ClusterNode: {
            /** @description Number of sandboxes of the node that are in use. */
            busy: number;
            capabilities: components["schemas"]["NodeCapabilities"];
            host: string;
            /** @description Unique id of the process. */
            id: string;
            /**
             * @description Ids of the runs whose leases the node holds.
             * @default []
             */
            leases: string[];
            pid: number;
            /**
             * @description Names of the providers whose rate limits this node enforces for the whole cluster.
             * @default []
             */
            rate_limits: string[];
            role: components["schemas"]["NodeRole"];
            /** @description Time at which the process started, in milliseconds since 1970. */
            since: number;
            /** @description Maximum number of sandboxes that the node uses at once. */
            slots: number;
            /** @description Version of the cluster's data format that the node uses. */
            speaks: number;
            /** @description Version of assize that the node runs. */
            version: string;
        };
        /** @description Result of the checks on the configured cluster. */
        ClusterReport: {
            detail: string | null;
            servers: string;
            /**
             * @description Total number of sandboxes that the workers counted in `workers` can use at once; null if the check was skipped
             *     or failed.
             */
            slots: number | null;
            state: components["schemas"]["ClusterReportState"];
            /** @description Number of workers that accept jobs from this version of assize; null if the check was skipped or failed. */
            workers: number | null;
        };
        /** @enum {string} */
        ClusterReportState: "answers" | "fails" | "not_tried";
        /** @description Status of a cluster: its nodes, queued jobs, stuck jobs and runs, and dead letters. */
        ClusterStatus: {
            /** @description Number of sandboxes that are in use. */
            busy: number;
            /** @description Jobs that were removed from the queue because no worker can execute them, newest first. */
            dead_letters: components["schemas"]["DeadLetter"][];
            nodes: components["schemas"]["ClusterNode"][];
            queue: components["schemas"]["QueueStatus"][];
            /** @description Number of runs that a process is executing. */
            running: number;
            /** @description Maximum number of sandboxes that all workers together run concurrently. */
            slots: number;
            streams: components["schemas"]["StreamStatus"][];
            stuck: components["schemas"]["StuckWork"][];
            /** @description Number of runs that wait for a worker. */
            waiting: number;
        };
        /** @description Stored result of one execution of a program. */
        CodeExecution: {
            /** @description The disk was full when the program ended. */
            disk_full: boolean;
            /** Format: double */
            duration_ms: number;
            exit_code: number | null;
            /** @description Why the execution failed; null if it succeeded. */
            failure: components["schemas"]["CodeFailure"] | null;
            /** @description Files that the program created, sorted by name; with a session, all files of the session. */
            files?: components["schemas"]["OutputFile"][];
            /**
             * @description Fingerprint of the session's files before the program ran, to detect changes by other runs; null without a
             *     session.
             */
            found?: components["schemas"]["Fingerprint"] | null;
            /** @description Descriptions of files that were not collected, with reasons. */
            not_collected?: string[];
            /**
             * @description A process in the sandbox was killed because memory ran out: the program itself if `signal` is 9, or a process
             *     that it started.
             */
            out_of_memory: boolean;
            /** @description The output exceeded the limit and was truncated. */
            output_cut: boolean;
            /** @description Peak memory use of the sandbox in bytes, or of its largest process if the total is not measured. */
            peak_memory_bytes: number;
            signal: number | null;
            /** @description Standard error of the program, with invalid UTF-8 replaced. */
            stderr: string;
            /** @description Standard output of the program, with invalid UTF-8 replaced. */
            stdout: string;
            /** @description Report of the user's tests; null if there are no tests, or they did not finish. */
            tests?: components["schemas"]["TestReport"] | null;
            timed_out: boolean;
            /** @description The program ran in a pre-started interpreter. */
            warm: boolean;
        };
        /** @description Why an attempt to write a correct program failed. */
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
             * @description Start of the program's actual output.
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
        /**
         * @description Stored input of a code run; the run can be resumed from this input. Task, tests and input files are artifacts of the
         *     run.
         */
        CodeInput: {
            /** @description Number of programs that are written in parallel in each attempt. */
            candidates: number;
            /** @description Text that the output must contain. A text between slashes is a regular expression. */
            expect: string | null;
            image: string | null;
            /** @description The requested isolation; a resumed run uses it unless the resume request overrides it. */
            isolation?: string | null;
            language: components["schemas"]["Language"];
            limits: components["schemas"]["SandboxLimits"];
            /** @description Maximum number of attempts. */
            max_attempts: number;
            max_output_tokens: number;
            model: string;
            /** @description Folder that receives copies of the files created by the program. */
            out: string | null;
            /** @description Names of the packages that programs may use. */
            packages: string[];
            provider: string;
            /** @description File in which the program is saved. */
            save: string | null;
            /** @description Name of the session whose files the programs use. */
            session: string | null;
            /** Format: double */
            temperature: number;
        };
        /** @description Final result of a code run. */
        CodeVerdict: {
            /** @description Standard output of the successful program; null if no attempt succeeded. */
            answer: string | null;
            /** @description Number of attempts. */
            attempts: number;
            /** @description Code of the last attempt's program; null if the model's answer contained no code. */
            code: string | null;
            /** @description Why the last attempt failed; null if it succeeded. */
            error: string | null;
            /** @description All attempts, with code, execution and critique. */
            history: components["schemas"]["Attempt"][];
            /** @description Tokens and cost of all model calls. */
            spent: components["schemas"]["CallTotals"];
            /** @description Whether the last attempt succeeded. */
            success: boolean;
        };
        /** @description Company of a consultation. */
        ConsultCompany: {
            /** @description Name of the company, from the SEC's list or given by the user. */
            name: string | null;
            /** @description Stock ticker; null for a private company, which has a name instead. */
            ticker?: components["schemas"]["Ticker"] | null;
        };
        /** @description How a fork of a consultation differs from its parent run: the fork point and the new personas. */
        ConsultFork: {
            at: components["schemas"]["ForkPoint"];
            /** @description Id of the parent run. */
            from: string;
            /** @description New personas from the fork point on, by role: `critic`, `D1` and so on. */
            personas?: {
                [key: string]: string;
            };
        };
        /** @description Stored input of a consultation, from which its run can be resumed or forked. Large parts are stored as artifacts. */
        ConsultInput: {
            /** @default false */
            blind_scores: boolean;
            company: components["schemas"]["ConsultCompany"];
            context_window: number | null;
            /** @description Forks that led to this run, the earliest first: how each differs from its parent run. */
            forks?: components["schemas"]["ConsultFork"][];
            image: string | null;
            /** @description The requested isolation; a resumed run uses it unless the resume request overrides it. */
            isolation?: string | null;
            limits: components["schemas"]["SandboxLimits"];
            max_output_tokens: number;
            model: string;
            /** @description Models of roles that do not use the default model, by role. All models belong to the same provider. */
            models?: {
                [key: string]: string;
            };
            moves: number;
            /** @description Maximum number of concurrent debates, if set by the user. */
            parallel_moves?: number | null;
            provider: string;
            region: string | null;
            /** @description Provider and model of the answers that a fork reuses; null if they are the provider and model of this run. */
            reused_model?: string | null;
            rounds: number;
            /** @description Whether the user requested synthetic data, which a model makes up. */
            synthetic: boolean;
            /** Format: double */
            temperature: number;
        };
        /** @description Result of a consultation, with all its documents. */
        ConsultReport: {
            company: components["schemas"]["ConsultCompany"];
            /** @description Ticker of the company; null for a private company. */
            company_ticker: string | null;
            f1_financial_inference: string;
            f2_trend_inference: string;
            /** @description Figures from filings, each with its source and date. */
            figures?: components["schemas"]["Figure"][];
            financial_data_raw: string;
            flags: components["schemas"]["Flag"][];
            move_suggestions: components["schemas"]["MoveSuggestion"][];
            news_data_raw: string;
            /** @description When and how the report was created, if known. */
            origin?: components["schemas"]["ReportOrigin"] | null;
            other_moves: components["schemas"]["RankedMove"][];
            /** @description Verdict of each debate, with the conversations of the debate. */
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
            /** @description Models that replace the default model, by role such as `critic` or `D1` */
            models?: {
                [key: string]: string;
            };
            /**
             * @description Number of business moves that each analyst proposes
             * @default 3
             */
            moves?: number;
            /** @description Name of a private company; a request has either `name` or `ticker` */
            name?: string | null;
            /** @description Maximum number of proposed business moves that are debated concurrently */
            parallel_moves?: number | null;
            /** @description Personas of the roles, in the TOML format that `assize consult --export-personas` writes */
            personas?: string | null;
            /** @description Name of a folder on the server (`assize serve --root`) that contains documents about the company */
            root?: string | null;
            /** @default 10 */
            rounds?: number;
            settings?: components["schemas"]["RequestSettings"];
            /**
             * @description Sources of data about the company. If `sources`, `files` and `root` are all omitted, the model generates
             *     synthetic data
             */
            sources?: components["schemas"]["SourceKind"][];
            /** @description Ticker symbol of a listed company; a request has either `ticker` or `name` */
            ticker?: string | null;
            /** @description Start the consultation even if its estimated cost exceeds the setting `consult.confirm_above` */
            yes?: boolean;
        };
        /** @description One entry of a conversation. */
        ConversationEntry: {
            content: string;
            /** @description Whether the answer was truncated at the token limit. */
            cut_off?: boolean;
            /** @description Role that wrote the entry: `critic`, `D1`, `D2` and so on. */
            role: string;
            round: number;
        };
        /**
         * @description Cost of a call: a known amount, free because the model runs locally, or unknown.
         *
         *     If the price of a model is not known, the cost is [`Cost::Unknown`], never 0.
         */
        Cost: "unknown" | {
            nano_usd: components["schemas"]["Money"];
        } | "local";
        /** @description New scoped token with its secret text. Only the response that creates the token contains the secret text. */
        CreatedToken: {
            /** @description Time of creation, in milliseconds since 1970 */
            created: number;
            /** @description Time at which the token expires, in milliseconds since 1970 */
            expires: number;
            id: string;
            /** @description Path of the MCP endpoint on this server that the token grants access to */
            path: string;
            /** @description What the token grants access to: `drafts/NAME` or `code` */
            scope: string;
            token: string;
        };
        /** @description Request body that creates a long-lived sandbox. */
        CreateSandbox: {
            image?: string | null;
            labels?: {
                [key: string]: string;
            };
            /** @description Name of the sandbox: lower-case letters, digits and `-` */
            name: string;
            region?: string | null;
            settings?: components["schemas"]["RequestSettings"];
            /** @description Lifetime of the sandbox in seconds; default: one hour */
            ttl_seconds?: number | null;
        };
        /** @description Request body that creates a scoped token. */
        CreateToken: {
            /** @description What the token grants access to: `drafts/NAME` for the draft tools of a workspace, or `code` for code execution */
            scope: string;
            /** @description Seconds until the token expires; default: 30 days */
            ttl_seconds?: number | null;
        };
        /** @description Why a program failed, in a model's words. */
        Critique: {
            /** @description Errors of the program, most serious first. */
            issues: string[];
            /** @description Proposed correction for each error, in the same order. */
            suggested_fixes: string[];
        };
        /** @description Dead letter: a message that was removed from the queue because no worker can execute it. */
        DeadLetter: {
            /** @description Number of times that the message was delivered to a worker. */
            deliveries: number;
            /** @description Beginning of the message's payload, as text. */
            payload: string;
            /** @description Size of the message's whole payload, in bytes. */
            payload_bytes: number;
            /** @description Why no worker can execute the message. */
            reason: string;
            /** @description NATS subject of the message. */
            subject: string;
            /** @description Time at which the message was moved to the list, in milliseconds since 1970. */
            time: number;
        };
        /** @description Stored input of a debate, from which its run can be resumed or forked. The move is stored as an artifact. */
        DebateInput: {
            /** @description Round from which a fork repeats the calls; null if the run is not a fork, or is a fork without a fork point. */
            at: number | null;
            /** @description Persona changes; each change applies from a given round on. */
            changes?: components["schemas"]["PersonaChange"][];
            context_window: number | null;
            image?: string | null;
            /** @description Requested isolation. A resumed run uses the same isolation, unless the user requests a different isolation. */
            isolation?: string | null;
            /**
             * @description Resource limits of the sandbox in which the debate runs.
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
            /** @description Provider and model that answered the rounds before `at`; null if they are the provider and model of this run. */
            reused_model: string | null;
            rounds: number;
            /** Format: double */
            temperature: number;
            ticker: string | null;
        };
        /** @description Verdict of a single debate, with the isolation of the debate and caveats about the verdict. */
        DebateReport: {
            /**
             * @description Names of the decision makers by id.
             * @default {}
             */
            agents: {
                [key: string]: string;
            };
            /** @description Scores that the decision makers gave before the debate; empty if they were not requested. */
            blind_scores?: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            /**
             * @description Caveats about the verdict.
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
            /** @description Text of the proposed business move to debate, in Markdown or as plain text */
            document: string;
            /** @description Container image of the sandbox */
            image?: string | null;
            rounds?: number | null;
            settings?: components["schemas"]["RequestSettings"];
            ticker?: string | null;
        };
        /** @description Verdict of a debate: the scores of all decision makers, and failures that affected them. */
        DebateVerdict: {
            /**
             * @description Names of the decision makers by id.
             * @default {}
             */
            agents: {
                [key: string]: string;
            };
            /** @description Scores that the decision makers gave before the debate; empty if they were not requested. */
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
        /** @description Report on the providers, the sandbox backends and the cluster that this machine can use. */
        DoctorReport: {
            arch: string;
            /** @description Report on the cluster; null if no cluster is configured. */
            cluster: components["schemas"]["ClusterReport"] | null;
            /** @description Order in which providers are tried if no provider is set in the settings. */
            order: string[];
            os: string;
            /** @description Date of the built-in price table. */
            prices_as_of: string;
            providers: components["schemas"]["ProviderReport"][];
            sandboxes: components["schemas"]["SandboxesReport"];
            /** @description Name of the provider that new runs use, or `rehearsal` if they use the offline rehearsal model. */
            used: string;
            version: string;
            /** @description Why new runs use this provider. */
            why: string;
            /** @description Settings that are not applied, because they come from a project folder that is not trusted. */
            withheld: components["schemas"]["WithheldSetting"][];
        };
        DraftView: {
            content: string;
            /** @description Unified diff of the draft against the file as it was when the draft was created */
            diff: string;
            draft: components["schemas"]["OpenDraft"];
        };
        Duration: {
            nanos: number;
            secs: number;
        };
        /** @description Text for users that describes, for each sandbox limit, how the limit is enforced. */
        Enforcement: {
            cpu: string;
            disk: string;
            files: string;
            memory: string;
            network: string;
            output: string;
            processes: string;
            system_calls: string;
            time: string;
        };
        /** @description A probe that escaped from the sandbox. */
        EscapedProbe: {
            description: string;
            detail: string;
            name: string;
        };
        /** @description Estimated usage and cost of a run. */
        EstimateView: {
            calls: number;
            /** @description Length of the longest chain of model calls in which each call needs the answer of the previous call */
            calls_in_a_row: number;
            /**
             * Format: double
             * @description Estimated cost in dollars if the provider caches prompts; null if the price of the model is unknown
             */
            cost_cached_usd: number | null;
            /** @description `local` if the cost is zero because the model runs on the user's own server; null for other models */
            cost_note?: string | null;
            /**
             * Format: double
             * @description Estimated cost in dollars without prompt caching; null if the price of the model is unknown
             */
            cost_usd: number | null;
            input_tokens: number;
            output_tokens: number;
            rehearsal: boolean;
        };
        /** @description Stored input of an evaluation; the run can be resumed from this input. The problems are an artifact of the run. */
        EvalInput: {
            image: string | null;
            /** @description The requested isolation; a resumed run uses it unless the resume request overrides it. */
            isolation?: string | null;
            limits: components["schemas"]["SandboxLimits"];
            /** @description Maximum number of attempts per sample. */
            max_attempts: number;
            max_output_tokens: number;
            model: string;
            provider: string;
            /** @description Number of samples per problem: how many times the model tries to solve each problem. */
            samples: number;
            /** Format: double */
            temperature: number;
        };
        /** @description Results of all samples of one problem. */
        EvalOutcome: {
            samples: components["schemas"]["EvalSample"][];
            task_id: string;
        };
        /** @description Report of an evaluation. */
        EvalReport: {
            /** @description Maximum number of attempts per sample. */
            max_attempts: number;
            /**
             * @description Name of the provider and name of the model, separated by a space.
             * @default
             */
            model: string;
            /** @description Estimated probabilities, from 0 to 1, that one sample of a problem passes: without and with retries. */
            pass_at_1: components["schemas"]["PassShares"];
            /**
             * @description Estimated probabilities, from 0 to 1, that at least one of the samples of a problem passes: without and with
             *     retries; null if each problem has only one sample.
             */
            pass_at_k: components["schemas"]["PassShares"] | null;
            /** @description Number of problems. */
            problems: number;
            /** @description Results of all samples, by problem. */
            results: components["schemas"]["EvalOutcome"][];
            /** @description Number of samples per problem. */
            samples: number;
            /** @description Tokens and cost of all model calls. */
            spent: components["schemas"]["CallTotals"];
            /** @description Ids of the problems that no sample solved. */
            unsolved: string[];
        };
        /** @description Result of one sample: one try to solve a problem, with further attempts if programs fail. */
        EvalSample: {
            /** @description Number of attempts. */
            attempts: number;
            /** @description Why the last attempt failed; null if it passed. */
            error: components["schemas"]["CodeFailure"] | null;
            /** @description Whether the first attempt passed. */
            first_attempt_passed: boolean;
            /** @description Whether one of the attempts passed. */
            success: boolean;
        };
        EvalStart: {
            image?: string | null;
            /** @default 3 */
            max_attempts?: number;
            /** @description Name of the problem set */
            name: string;
            parallel?: number | null;
            /**
             * @description Problems of the set, one JSON object per line with the fields task_id, prompt, entry_point, test and
             *     canonical_solution
             */
            problems: string;
            /** @default 1 */
            samples?: number;
            settings?: components["schemas"]["RequestSettings"];
        };
        /** @description Request body with a program to run once in a new sandbox. */
        ExecBody: {
            /** @description Command-line arguments of the program */
            arguments?: string[];
            code: string;
            env?: {
                [key: string]: string;
            };
            /** @description Input files, copied to the working folder of the program */
            files?: components["schemas"]["Upload"][];
            image?: string | null;
            /** @description Return the files that the program writes to its working folder */
            keep_files?: boolean;
            language?: components["schemas"]["LanguageName"];
            settings?: components["schemas"]["RequestSettings"];
            /** @description Standard input of the program */
            stdin?: string | null;
        };
        /** @description File that a program wrote to its working folder. */
        ExecFile: {
            base64: string;
            name: string;
        };
        /** @description Outcome of a program that ran in a sandbox. */
        ExecResult: {
            disk_full: boolean;
            /** Format: double */
            duration_ms: number;
            exit_code: number | null;
            files: components["schemas"]["ExecFile"][];
            /** @description Backend of the sandbox; in responses to `/api/exec`, followed by the reason why this backend was chosen */
            isolation: string;
            /** @description Files that the program wrote but that the response omits, each with the reason */
            not_collected: string[];
            out_of_memory: boolean;
            output_cut: boolean;
            /** @description Peak memory usage of the sandbox since the sandbox was created */
            peak_memory_bytes: number;
            signal: number | null;
            stderr: string;
            stdout: string;
            timed_out: boolean;
        };
        /** @description A test that failed. */
        FailedTest: {
            /** @description Error message of the test; only the end if the message is long. */
            error: string;
            name: string;
        };
        /** @description One financial figure with a traceable origin. */
        Figure: {
            /** @description Last day of the period of the figure. */
            as_of: string;
            /** @description The measure, such as `revenue` or `gross margin`. */
            name: string;
            period: components["schemas"]["FigurePeriod"];
            /**
             * Format: double
             * @description Value in an earlier filing, if a later filing restated the figure.
             */
            restated_from?: number | null;
            /** @description Filing that contains the figure, or how the figure was computed. */
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
            /**
             * @description Unified diff of the changes to the file since the draft was created; null if there are none, or the submission
             *     is not escalated.
             */
            changed_meanwhile: string | null;
            /** @description Unified diff from the old to the proposed content; null after a cleanup deleted the stored contents. */
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
         * @description A repair that was needed to parse a model's answer.
         * @enum {string}
         */
        Fix: "code_fence" | "surrounding_text" | "thinking" | "invisible_characters" | "comments" | "trailing_comma" | "quotes" | "unquoted_key" | "literal" | "number_format" | "raw_control_characters" | "bad_escape" | "repeated_key" | "retyped" | "key_spelling";
        /** @description Caveat about a report or about one of its moves, shown to readers. */
        Flag: {
            kind: components["schemas"]["FlagKind"];
            message: string;
            /** @description Id of the move that the caveat applies to; null for the whole report. */
            move_id?: string | null;
        };
        /** @description Kind of a caveat about a report. */
        FlagKind: ("company_not_verified" | "synthetic" | "rehearsal" | "tie" | "unsupported_figure" | "unresolved_citation") | "source" | "moves" | "partial" | "repaired" | "no_isolation" | "weaker_isolation" | "forked" | "not_debated" | "assumed";
        /** @description Entry of a folder in a sandbox. */
        FolderItem: {
            bytes: number;
            /** @description Type of the entry: file, folder, link or other */
            kind: string;
            name: string;
        };
        FolderListing: {
            entries: components["schemas"]["FolderItem"][];
        };
        ForkBody: {
            /**
             * @description Point from which the fork repeats all model calls. For a debate: a round, such as `round-4`. For a consultation:
             *     a proposed business move and a round of the debate on it, such as `m3/round-4`. If omitted, every unchanged
             *     prompt reuses its recorded answer
             * @default null
             */
            at?: string | null;
            /**
             * @description New text of the proposed business move; only for the fork of a debate
             * @default null
             */
            document?: string | null;
            /**
             * @description New models, by role; only for the fork of a consultation
             * @default {}
             */
            models?: {
                [key: string]: string;
            };
            /**
             * @description New personas by role (`critic`, `D1` and so on), used from the point `at` on; requires `at`
             * @default {}
             */
            personas?: {
                [key: string]: string;
            };
            /**
             * @description New number of rounds of the debate; only for the fork of a debate
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
             * @description Start the fork even if its estimated cost exceeds the setting `consult.confirm_above`
             * @default false
             */
            yes?: boolean;
        };
        /** @description Fork point: a round, either in the debate of one move or in the debates of all moves. */
        ForkPoint: string;
        /**
         * @description The gate's verdict on a submission.
         * @enum {string}
         */
        GateVerdict: "accepted" | "rejected" | "escalated";
        /** @description A figure of a move that was found in a source document. */
        GroundedFigure: {
            /**
             * @description Whether the contexts of the figure in the move and in the source have words in common. If not, the numbers may
             *     be equal by chance.
             */
            alike: boolean;
            /** @description The figure as written in the move. */
            figure: string;
            /** @description Context of the figure in the source document: its line, or its row and column in a table. */
            place: string;
            /** @description Title of the source document. */
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
            /** @description Metrics whose scores could not be parsed; a score of 5 is assumed for each. */
            assumed?: string[];
            /** @description Error of the judge's call, if the call failed. In that case, 5 is assumed for every metric. */
            failed?: string | null;
            /** @description How realistic the move is with the available people, money and time. */
            feasibility: number;
            /** @description How much the move would change the company's growth, revenue or position in its market. */
            impact: number;
            /** @description How the scores were obtained: from the requested JSON, extracted by pattern, or defaulted. */
            provenance: components["schemas"]["Provenance"];
            /**
             * @description One or two sentences: what decided the scores.
             * @example The doubts about the second year remain; the other objections were answered.
             * @example The cost of occupying two teams at once was not estimated.
             * @example The first stage is cheap and can be stopped early; this decided the scores.
             */
            reasoning: string;
            /** @description How the possible gain from the move compares with the possible loss. */
            risk_adjusted_return: number;
            /** @description How well the move fits the direction of the company. */
            strategic_alignment: number;
            /**
             * @description The critic's strongest point that was not answered, in one sentence; empty if there is none.
             * @example The question of low sales in the second year was not answered.
             * @example The question of who would manage the project was not answered.
             * @example A price cut by a competitor was accepted as likely, without a plan against it.
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
        /** @description Result of checking the audit log of a workspace. */
        LogCheck: {
            /** @description Repairs of the log file in the workspace. A repair appends the missing lines to a log file that is too short. */
            completed: components["schemas"]["LogCompletion"][];
            /** @description Number of audit log entries of all workspaces in the store. */
            entries: number;
            /**
             * @description Id and hash of the last log entry, as `ID:HASH`; null if the log is empty. A later check with this value as
             *     `since` detects whether the entry was changed or removed.
             */
            head: string | null;
            /** @description Whether the check found no problem. */
            intact: boolean;
            /** @description Number of audit log entries of this workspace. */
            of_workspace: number;
            /** @description Descriptions of the problems that the check found. */
            problems: string[];
        };
        /** @description One repair of the log file in the workspace: Assize appended the missing lines. */
        LogCompletion: {
            /** @description Id of the log entry that records the repair. */
            entry: number;
            /** @description Number of lines that the repair appended. */
            lines_added: number;
            /** @description Number of complete lines of the log file before the repair. */
            lines_present: number;
        };
        /**
         * @description Entry of the audit log. Each entry contains the hash of the previous entry. The value of `action` determines the
         *     fields of `detail`.
         */
        LogEntry: {
            action: string;
            actor: string;
            at: number;
            detail: unknown;
            hash: components["schemas"]["Fingerprint"];
            id: number;
            /** @description Hash of the previous audit entry; all zeros for the first entry of the log. */
            previous: components["schemas"]["Fingerprint"];
            subject: string;
        } & ({
            /** @constant */
            action: "requested";
            detail: {
                /** @description Hash of the file's content; null if the file does not exist. */
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
                /** @description Idempotency key: a second entry with the same key does not create a second submission. */
                key?: string | null;
                policy: components["schemas"]["Fingerprint"];
                summary: string;
                task: components["schemas"]["TaskId"];
            };
        } | {
            /** @constant */
            action: "decided";
            detail: {
                /** @description Files that will be replaced; empty unless the verdict is `accepted`. */
                files: components["schemas"]["ReplacedFile"][];
                policy: components["schemas"]["Fingerprint"];
                reasons: components["schemas"]["Reason"][];
                /** @description Whether the response to the agent's call reports the verdict; if false, a later message reports it. */
                reported: boolean;
                submission: number;
                verdict: components["schemas"]["GateVerdict"];
                verified?: components["schemas"]["VerifyResult"] | null;
            };
        } | {
            /** @constant */
            action: "applied";
            detail: {
                reported: boolean;
                submission: number;
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
            action: "messages_delivered";
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
            action: "contents_deleted";
            detail: {
                copies: number;
                submissions: number[];
            };
        } | {
            /** @constant */
            action: "log_completed";
            detail: {
                lines_added: number;
                lines_present: number;
            };
        } | {
            /** @constant */
            action: "log_set_aside";
            detail: {
                name: string;
            };
        });
        /** @description API key with most characters masked, and the source that it was read from. */
        MaskedKey: {
            from: string;
            masked: string;
        };
        /** @description An amount of US dollars, stored as whole nano-dollars. */
        Money: number;
        /** @description A proposed move, with its document for the debate and the results of checking its citations and figures. */
        MoveSuggestion: {
            /** @description The steps of the move in order, each with the person or team that takes it. */
            actions: string[];
            /** @description Id of the analyst who proposed the move; `persona` is the analyst's name. */
            agent_id: string;
            /** @description The findings on which the move rests, by their numbers, such as F1.2. */
            citations: string[];
            /** @description Findings that the move cites, with their titles. */
            cited?: components["schemas"]["CitedFinding"][];
            /** @description Document about the move, as Markdown. The debate is about this document. */
            content: string;
            /** @description What the move costs, in money and attention: your own estimate, marked as an estimate. */
            cost: string;
            /** @description Figures of the move that were found in a source document. */
            figures?: components["schemas"]["GroundedFigure"][];
            /** @description Id of the move: `m1`, `m2` and so on. */
            move_id: string;
            persona: string;
            /** @description What could make the move fail, the likeliest first. */
            risks: string[];
            /** @description Why the move is right for this company now, in four to eight sentences based on the findings. */
            thesis: string;
            /** @description How long the move takes to show results, and by when it must have succeeded. */
            timeline: string;
            /** @description What the company would do, in at most twelve words. */
            title: string;
            /** @description Citations in the move that match no finding. */
            unresolved_citations?: string[];
            /** @description Figures of the move that were found in no source document. */
            unsupported_figures?: string[];
        };
        /** @description Capabilities that a worker offers to jobs. */
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
        /** @description A draft that an agent requested and that is not decided on yet. */
        OpenDraft: {
            /** @description Hash of the content from which the draft was created; null for a new file. */
            before: components["schemas"]["Fingerprint"] | null;
            /** @description File name in the drafts folder. */
            name: string;
            path: string;
            /** @description When the draft was requested, in milliseconds since 1970. */
            since: number;
            /** @description Number of the waiting submission that contains the draft; null if the draft is not submitted. */
            submission: number | null;
            task: components["schemas"]["TaskId"];
        };
        OpenDrafts: {
            drafts: components["schemas"]["OpenDraft"][];
        };
        /** @description File that a program created; its content is stored under its hash. */
        OutputFile: {
            /** @description Size in bytes. */
            bytes: number;
            /** @description Path relative to the program's working folder. */
            name: string;
            /** @description Hash of the content. */
            sha256: components["schemas"]["Fingerprint"];
        };
        /** @description A conversation that ended early: the number of its completed rounds, and the error that ended it. */
        PartialConversation: {
            /** @description Number of rounds in which both the critic and the decision maker wrote an entry. */
            completed_rounds: number;
            error: string;
        };
        /** @description Pass rates of an evaluation, from 0 to 1. */
        PassShares: {
            /**
             * Format: double
             * @description Pass rate if only the first attempt of each sample counts.
             */
            first_attempt: number;
            /**
             * Format: double
             * @description Pass rate if all attempts of each sample count.
             */
            with_retries: number;
        };
        /** @description New personas that replace earlier ones from a given round on. */
        PersonaChange: {
            from_round: number;
            /** @description New personas by role: `critic`, `D1` and so on. */
            personas: {
                [key: string]: string;
            };
        };
        /** @description Policy of the gate: limits and rules for the gate's decisions. Each decision records the policy's fingerprint. */
        Policy: {
            /** @description Patterns of files that the task may change; all files if absent. */
            allowed: string[] | null;
            /** @description Maximum size of a file and of a draft, in bytes. */
            max_bytes: number;
            /**
             * Format: double
             * @description Maximum share of a file's lines that a draft may remove or replace, from 0 to 1.
             */
            max_deletion: number;
            /** @description Maximum number of files that one task may change. */
            max_files: number;
            /** @description Maximum number of lines that a draft may add and remove, counted together. */
            max_lines: number;
            /** @description Patterns of files whose changes always need a reviewer, in addition to the built-in patterns. */
            protected: string[];
            /** @description Patterns of files that agents may read although their names suggest secrets. */
            readable: string[];
            review: components["schemas"]["Review"];
            /** @description Id of the only task that may change files; any task if absent. */
            task: string | null;
            /** @description Verification commands that must succeed: the command of the settings and the command of the contract. */
            verify: components["schemas"]["VerifyCommand"][];
            /** @description Limits that apply to every verification command. */
            verify_most: components["schemas"]["VerifyLimits"];
        };
        /** @description Problem details (RFC 9457) of a request that failed. */
        Problem: {
            /** @description Why the request failed */
            detail: string;
            /** @description What the client or the operator can do about the problem */
            hint?: string | null;
            status: number;
            title: string;
            /** @description URI reference that identifies the kind of problem */
            type: string;
        };
        /** @description One file of a submission. */
        ProposedFile: {
            /** @description Number of added lines. */
            added: number;
            /** @description Hash of the proposed content. */
            after: components["schemas"]["Fingerprint"];
            /** @description Hash of the old content; null for a new file. */
            before: components["schemas"]["Fingerprint"] | null;
            /** @description Name of the draft in the drafts folder; null for a change that an agent without tools wrote as text. */
            draft?: string | null;
            /** @description Unix permission bits of the draft. */
            draft_mode: number;
            path: string;
            /** @description Number of removed lines. */
            removed: number;
        };
        /** @description How a typed answer was obtained: the parsing step that succeeded. */
        Provenance: ("native" | "parsed") | {
            repaired: components["schemas"]["Fix"][];
        } | {
            reasked: components["schemas"]["Fix"][];
        } | "extracted" | "defaulted";
        /** @description Result of the checks on one provider. */
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
        /** @description How many jobs with the same requirements are queued, and how many workers can execute such jobs. */
        QueueStatus: {
            /** @description Number of jobs in `under_way` that were redelivered at least once. */
            again: number;
            needs: components["schemas"]["WorkNeeds"];
            /** @description Number of jobs that were delivered to a worker and are not acknowledged yet. */
            under_way: number;
            /** @description Number of jobs that were never delivered to a worker. */
            waiting: number;
            /** @description Number of workers that meet the requirements. */
            workers: number;
        };
        /** @description A move with its rank. */
        RankedMove: {
            /** @description Total score that the judges gave before the debate, if the run requested scores before the debate. */
            blind_score?: number | null;
            /** @description New words as a share of the words in the debate, by round. */
            drift?: components["schemas"]["RoundDrift"][];
            move_id: string;
            out_of: number;
            /** @description Rank, counted from 1. */
            rank: number;
            title: string;
            total_score: number;
        };
        /** @description Reason of the gate against a draft: a finding of one rule. */
        Reason: {
            effect: components["schemas"]["ReasonEffect"];
            file: string;
            line?: number | null;
            /** @description Description of the finding, for people and agents. */
            message: string;
            /** @description Name of the rule that the draft violates, such as `secret/github-token` or `scope/lines`. */
            rule: string;
            /** @description Advice to the agent: how to fix the finding. Empty if there is no advice. */
            what_to_do: string;
        };
        /** @description Effect that a reason of the gate has on a draft. */
        ReasonEffect: "escalate" | "reject";
        /** @description Journal record of a run, with the recorded outcome as a JSON value. */
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
             * @description Reason for the rejection, which the agent receives
             * @default
             */
            reason?: string;
        };
        /**
         * @description Hashes of a file's content before and after a change. `before` is null for a new file; `after` is null for a deleted
         *     file.
         */
        ReplacedFile: {
            after: components["schemas"]["Fingerprint"] | null;
            before: components["schemas"]["Fingerprint"] | null;
            path: string;
        };
        /** @description When and how a report was created. */
        ReportOrigin: {
            /** @description Isolation of the debates. */
            isolation: string;
            model: string;
            /** @description Models of roles that did not use the default model, by role. */
            models?: {
                [key: string]: string;
            };
            /** @description Date on which the report was created, such as `2026-11-15`. */
            on: string;
            provider: string;
            run: string;
        };
        /**
         * @description Settings that apply to this request only. A request can override defaults, but it can neither exceed a limit nor
         *     weaken the isolation that the operator has set. The bounds in this schema are those that the server enforces.
         */
        RequestSettings: {
            cpus?: number | null;
            /** @description Disk limit of the sandbox with a unit, such as 64M */
            disk?: string | null;
            /**
             * @description Sandbox backend: auto, jail, docker, microvm, or at-least=NAME for NAME or a backend with stronger isolation
             * @enum {string|null}
             */
            isolation?: "auto" | "jail" | "docker" | "microvm" | "at-least=jail" | "at-least=docker" | "at-least=microvm" | null;
            /** @description Maximum cost of the run in dollars */
            max_cost?: number | null;
            max_output_tokens?: number | null;
            /** @description Maximum number of tokens that the run may use */
            max_tokens?: number | null;
            /** @description Memory limit of the sandbox with a unit, such as 256M */
            memory?: string | null;
            model?: string | null;
            /** @description Maximum size of standard output, and of standard error, with a unit such as 64K; longer output is truncated */
            output?: string | null;
            processes?: number | null;
            /**
             * @description Provider: anthropic, openai, google, groq, openrouter, ollama, or rehearsal (offline, without a model)
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
             * @description Resume the run even if another process holds its lease
             * @default false
             */
            take_over?: boolean;
        };
        /** @description When a draft needs a reviewer's approval before it is applied. */
        Review: "always" | "escalated" | "never";
        /** @description New words as a share of the words in a round of a debate, from 0 to 1, over all conversations. */
        RoundDrift: {
            /**
             * Format: double
             * @description New words as a share of the words in the critic's entries; null if the critic has no entry in this round.
             */
            critic: number | null;
            /** Format: double */
            decision_makers: number | null;
            round: number;
        };
        /** @description Kind of a run. The kind's name is the command that starts the run, and the first part of a [`RunId`](crate::RunId). */
        RunKind: "run" | "consult" | "debate" | "work" | "eval";
        /** @description Page of runs, newest first. */
        RunPage: {
            /** @description Cursor of the next page; null on the last page */
            next: number | null;
            runs: components["schemas"]["RunSummary"][];
        };
        /** @description Request body with a program to run in a long-lived sandbox. */
        RunProgram: {
            /**
             * @description Folder in which the program starts: absolute, or relative to the working folder of the sandbox; default: the
             *     working folder
             */
            cwd?: string | null;
            env?: {
                [key: string]: string;
            };
            /** @description Name or path of the program, followed by its arguments */
            program: string[];
            stdin?: string | null;
            /**
             * Format: double
             * @description Timeout of the program; maximum and default: the timeout of the sandbox
             */
            timeout_seconds?: number | null;
        };
        RunSlots: {
            /** @description Maximum number of concurrent runs */
            max: number;
            running: number;
        };
        RunStart: {
            /**
             * @description Number of programs that are written and run in parallel in each attempt
             * @default 1
             */
            candidates?: number;
            /**
             * @description Text that the output of the program must contain. A value between slashes is a regular expression that the
             *     output must match
             */
            expect?: string | null;
            /** @description Input files, copied to the working folder of the program */
            files?: components["schemas"]["Upload"][];
            /** @description Container image of the sandbox */
            image?: string | null;
            /** @description Language of the program: python, bash or javascript */
            language?: components["schemas"]["LanguageName"];
            /** @default 3 */
            max_attempts?: number;
            /** @description Name of a session: runs of the same session share their working files */
            session?: string | null;
            settings?: components["schemas"]["RequestSettings"];
            /** @description Task of the program, in natural language */
            task: string;
            /** @description Tests that the program must pass, as source text */
            tests?: string | null;
        };
        /** @description State of a run that users see. Unlike [`RunStatus`], the state depends on whether the lease holder is alive. */
        RunState: ("running" | "done" | "failed" | "cancelled") | "waiting" | "stopped";
        /** @description Summary of a run. */
        RunSummary: {
            /** @description Time of creation, in milliseconds since 1970 */
            created: number;
            /** @description Why the run failed or was stopped; null otherwise */
            error: string | null;
            id: string;
            kind: components["schemas"]["RunKind"];
            /** @description Notice that clients show with a run that used the rehearsal model; null for other runs */
            label: string | null;
            parent: string | null;
            status: components["schemas"]["RunState"];
            title: string;
            /** @description Time of the last change, in milliseconds since 1970 */
            updated: number;
        };
        /** @description Current state of a run, with the usage of its model calls. */
        RunView: {
            /** @description Time of creation, in milliseconds since 1970 */
            created: number;
            /** @description Why the run failed or was stopped; null otherwise */
            error: string | null;
            /** @description Whether this server process, and not another process, is executing the run */
            executed_here: boolean;
            id: string;
            kind: components["schemas"]["RunKind"];
            /** @description Notice that clients show with a run that used the rehearsal model; null for other runs */
            label: string | null;
            parent: string | null;
            /** @description Usage of the model calls so far, including the calls made before the run was resumed */
            spent: components["schemas"]["UsageView"];
            status: components["schemas"]["RunState"];
            title: string;
            /** @description Time of the last change, in milliseconds since 1970 */
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
        /** @description Results of the checks on all sandbox backends, and which backends new runs use. */
        SandboxesReport: {
            backends: components["schemas"]["BackendReport"][];
            /** @description Path of the interpreter for each language; null if none was found. */
            interpreters: {
                [key: string]: string | null;
            };
            /** @description Sandbox backend that new code runs use; null if none is available. */
            used: components["schemas"]["Isolation"] | null;
            /** @description Sandbox backend that new debates use; null if none is available. */
            used_for_debates: components["schemas"]["Isolation"] | null;
            /** @description Why new code runs use this backend, or why no backend is available. */
            why: string;
            /** @description Why new debates use this backend, or why no backend is available. */
            why_for_debates: string;
        };
        /** @description Description of a long-lived sandbox. */
        SandboxInfo: {
            /** @description Time of creation, in seconds since 1970 */
            created: number;
            /** @description Time at which the sandbox is removed, in seconds since 1970 */
            expires: number;
            image: string | null;
            isolation: string;
            labels: {
                [key: string]: string;
            };
            memory_bytes: number;
            name: string;
            /** @description Process id of the process that owns the sandbox */
            pid: number;
            region: string | null;
            /** @description Id of the run that the sandbox belongs to; null if the sandbox was created through the API */
            run: string | null;
        };
        /** @description Resource limits that all processes in a sandbox share. */
        SandboxLimits: {
            /** @description CPU limit in thousandths of a processor: 500 allows half a second of CPU time per second. */
            cpu_millis: number;
            /** @description Maximum total size of the files that programs write, in bytes. */
            disk: number;
            /** @description Maximum memory in bytes. The sandbox gets no swap in addition to this memory. */
            memory: number;
            /**
             * @description Maximum number of bytes that are stored of each output stream (standard output, standard error) of one
             *     execution.
             */
            output: number;
            /** @description Maximum number of processes and threads. */
            processes: number;
            /** @description Maximum wall-clock time of one execution. */
            wall: components["schemas"]["Duration"];
        };
        SandboxList: {
            sandboxes: components["schemas"]["SandboxInfo"][];
        };
        /** @description Scores of one proposed business move. The transcripts of the debate contain the reasons for the scores. */
        Score: {
            /** @description Names of the judges, by role such as `D1` */
            agents: {
                [key: string]: string;
            };
            /**
             * @description Score that each judge gave before the debate, by the judge's role; empty unless `blind_scores` was requested
             * @default {}
             */
            blind_scores: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            move_id: string;
            out_of: number;
            rounds: number;
            /** @description Final score that each judge gave, by the judge's role */
            scores_by_agent: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            ticker: string | null;
            total_score: number;
        };
        /** @description Result of running all attack probes in the sandboxes of one backend. */
        Scorecard: {
            /** @description Time of the attack, in milliseconds since 1970. */
            at: number;
            /** @description Probes that escaped from the sandbox. */
            escaped: components["schemas"]["EscapedProbe"][];
            groups: components["schemas"]["AttackGroup"][];
            isolation: string;
            /**
             * Format: double
             * @description Duration of the attack in seconds.
             */
            seconds: number;
            /** @description Version of assize that ran the attack. */
            version: string;
        };
        ScorecardList: {
            attacks: components["schemas"]["Scorecard"][];
        };
        Scores: {
            /** @description Final scores, one entry per proposed business move; empty until the run is done */
            scores: components["schemas"]["Score"][];
            /**
             * @description Scores of the debates that have ended so far: the data of their `sandbox_scored` events; empty once the run is
             *     done
             */
            so_far: {
                [key: string]: unknown;
            }[];
        };
        ServerInfo: {
            /**
             * @description Name of the cluster whose workers execute the runs in their own sandboxes; null if the server is not part of a
             *     cluster
             */
            cluster: string | null;
            /** @description Sandbox backend that new runs use; null if none is available */
            isolation: components["schemas"]["Isolation"] | null;
            /** @description Why new runs use this sandbox backend, or why no backend is available */
            isolation_why: string;
            model: string | null;
            /** @description Provider that new runs use, or `rehearsal` */
            provider: string;
            /** @description File-editing tasks that the rehearsal model can solve; empty if another provider is used */
            rehearsal_edits: string[];
            /** @description Code tasks that the rehearsal model can solve; empty if another provider is used */
            rehearsal_tasks: string[];
            run_slots: components["schemas"]["RunSlots"];
            /** @description Where runs are stored: the path of the store's file, or the addresses of the cluster's NATS servers */
            store: string;
            version: string;
            /** @description Warm pools of the default sandbox backend and of every other backend used since the server was started */
            warm_pools: components["schemas"]["WarmPoolInfo"][];
            /** @description Why new runs use this provider */
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
            /** @description Path of the link on this server; a browser that opens this path is signed in */
            path: string;
        };
        /** @enum {string} */
        SourceKind: "edgar" | "files" | "synthetic";
        /** @description Request body that starts a run. The field `kind` selects the kind of run. */
        StartBody: {
            /**
             * @description Number of programs that are written and run in parallel in each attempt
             * @default 1
             */
            candidates?: number;
            /**
             * @description Text that the output of the program must contain. A value between slashes is a regular expression that the
             *     output must match
             */
            expect?: string | null;
            /** @description Input files, copied to the working folder of the program */
            files?: components["schemas"]["Upload"][];
            /** @description Container image of the sandbox */
            image?: string | null;
            /** @enum {string} */
            kind: "run";
            /** @description Language of the program: python, bash or javascript */
            language?: components["schemas"]["LanguageName"];
            /** @default 3 */
            max_attempts?: number;
            /** @description Name of a session: runs of the same session share their working files */
            session?: string | null;
            settings?: components["schemas"]["RequestSettings"];
            /** @description Task of the program, in natural language */
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
            /** @description Models that replace the default model, by role such as `critic` or `D1` */
            models?: {
                [key: string]: string;
            };
            /**
             * @description Number of business moves that each analyst proposes
             * @default 3
             */
            moves?: number;
            /** @description Name of a private company; a request has either `name` or `ticker` */
            name?: string | null;
            /** @description Maximum number of proposed business moves that are debated concurrently */
            parallel_moves?: number | null;
            /** @description Personas of the roles, in the TOML format that `assize consult --export-personas` writes */
            personas?: string | null;
            /** @description Name of a folder on the server (`assize serve --root`) that contains documents about the company */
            root?: string | null;
            /** @default 10 */
            rounds?: number;
            settings?: components["schemas"]["RequestSettings"];
            /**
             * @description Sources of data about the company. If `sources`, `files` and `root` are all omitted, the model generates
             *     synthetic data
             */
            sources?: components["schemas"]["SourceKind"][];
            /** @description Ticker symbol of a listed company; a request has either `ticker` or `name` */
            ticker?: string | null;
            /** @description Start the consultation even if its estimated cost exceeds the setting `consult.confirm_above` */
            yes?: boolean;
        } | {
            /** @description Text of the proposed business move to debate, in Markdown or as plain text */
            document: string;
            /** @description Container image of the sandbox */
            image?: string | null;
            /** @enum {string} */
            kind: "debate";
            rounds?: number | null;
            settings?: components["schemas"]["RequestSettings"];
            ticker?: string | null;
        } | {
            /** @description Paths of files whose content is included in the prompt of a model that does not support tools */
            files?: string[];
            /** @enum {string} */
            kind: "work";
            /** @default 5 */
            max_rejections?: number;
            /** @default 40 */
            max_steps?: number;
            mode?: components["schemas"]["WorkMode"];
            /**
             * @description When a reviewer must approve a draft before the draft is applied: for all drafts (`always`), only for escalated
             *     drafts (`escalated`), or never (`never`)
             */
            review?: string | null;
            settings?: components["schemas"]["RequestSettings"];
            /**
             * @description Task for the model, in natural language; default: the task in the file `_handoff/TASK_CONTRACT.json` of the
             *     workspace
             */
            task?: string | null;
            task_id?: string | null;
            /** @description Command that must succeed before a draft is accepted. The command runs in a sandbox on a copy of the workspace */
            verify?: string | null;
            /** @description Name of the workspace, as defined with `assize serve --root` */
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
            /**
             * @description Problems of the set, one JSON object per line with the fields task_id, prompt, entry_point, test and
             *     canonical_solution
             */
            problems: string;
            /** @default 1 */
            samples?: number;
            settings?: components["schemas"]["RequestSettings"];
        };
        /** @description Replica of a stream, on a NATS server that is not the leader of the stream. */
        StreamCopy: {
            /** @description Number of messages that the replica has not stored yet. */
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
            /** @description Id of the event, for `Last-Event-ID`; absent from events that are not stored */
            id?: string;
            /** @description Number of milliseconds that the client waits before it reconnects */
            retry?: number;
        };
        /** @description Status of a stream and its replicas. */
        StreamStatus: {
            bytes: number;
            /** @description Replicas of the stream on other NATS servers. */
            copies: components["schemas"]["StreamCopy"][];
            /**
             * @description Name of the NATS server that leads the stream; null while there is no leader, or if the only NATS server is not
             *     part of a NATS cluster.
             */
            leader: string | null;
            messages: number;
            name: string;
            /** @description Age in seconds of the oldest message in the stream; null if the stream is empty. */
            oldest: number | null;
        };
        /** @description Run that makes no progress, or queued jobs that no worker can execute. */
        StuckWork: {
            /** @description Id of the stuck run; for stuck jobs, the number of jobs as text, such as `3 queued jobs`. */
            subject: string;
            why: string;
        };
        /** @description Changes to files that were submitted together. */
        Submission: {
            /** @description When the submission was recorded, in milliseconds since 1970. */
            at: number;
            /** @description Actor that decided: `gate` or the name of a reviewer; null if the submission is not decided yet. */
            by: string | null;
            /** @description Whether a cleanup deleted the stored file contents. If so, there are no diffs any more, and undo is impossible. */
            contents_deleted: boolean;
            /** @description Id of the submission's log entry. The message id of the submission is built from this id. */
            entry: number;
            files: components["schemas"]["ProposedFile"][];
            /** @description Number of the submission in its workspace, from 1. */
            id: number;
            /** @description Hash of the gate's policy at the time of submission. */
            policy: components["schemas"]["Fingerprint"];
            reasons: components["schemas"]["Reason"][];
            /** @description Files that were replaced when the submission was applied. */
            replaced: components["schemas"]["ReplacedFile"][];
            /** @description When the submission reached its current stage, in milliseconds since 1970. */
            settled: number;
            stage: components["schemas"]["SubmissionStage"];
            summary: string;
            task: components["schemas"]["TaskId"];
            verified: components["schemas"]["VerifyResult"] | null;
            /** @description Name of the agent that submitted the changes. */
            worker: string;
        };
        SubmissionList: {
            /** @description Cursor of the next page; null on the last page */
            next: number | null;
            submissions: components["schemas"]["Submission"][];
        };
        /** @description Stage of a submission. */
        SubmissionStage: ("escalated" | "accepted" | "rejected" | "undone") | "submitted" | "accepting" | "undoing";
        /** @description A submission with the diffs of its files. */
        SubmissionView: {
            /** @description When the submission was recorded, in milliseconds since 1970. */
            at: number;
            /** @description Actor that decided: `gate` or the name of a reviewer; null if the submission is not decided yet. */
            by: string | null;
            /** @description Whether a cleanup deleted the stored file contents. If so, there are no diffs any more, and undo is impossible. */
            contents_deleted: boolean;
            diffs: components["schemas"]["FileDiff"][];
            /** @description Id of the submission's log entry. The message id of the submission is built from this id. */
            entry: number;
            files: components["schemas"]["ProposedFile"][];
            /** @description Number of the submission in its workspace, from 1. */
            id: number;
            /** @description Hash of the gate's policy at the time of submission. */
            policy: components["schemas"]["Fingerprint"];
            reasons: components["schemas"]["Reason"][];
            /** @description Files that were replaced when the submission was applied. */
            replaced: components["schemas"]["ReplacedFile"][];
            /** @description When the submission reached its current stage, in milliseconds since 1970. */
            settled: number;
            stage: components["schemas"]["SubmissionStage"];
            summary: string;
            task: components["schemas"]["TaskId"];
            verified: components["schemas"]["VerifyResult"] | null;
            /** @description Name of the agent that submitted the changes. */
            worker: string;
        };
        /** @description Summary that replaces earlier rounds of a conversation in prompts. */
        SummarizedRounds: {
            /** @description Whether the text consists of the first lines of the entries, because no model could summarize them. */
            extracted: boolean;
            text: string;
            /** @description Last round that the summary covers. The summary always starts with round 2. */
            up_to_round: number;
        };
        /** @description Numbers of items that a cleanup of old drafts deleted. */
        SweepResult: {
            /** @description Number of stored file contents that were deleted. */
            copies: number;
            /** @description Number of abandoned drafts that were deleted. */
            drafts: number;
            /** @description Number of submissions whose stored file contents were deleted. */
            submissions: number;
        };
        /** @description Id of a task, chosen by the task's author. It is part of the file names of the task's drafts. */
        TaskId: string;
        /** @description Results of the user's tests. */
        TestReport: {
            /**
             * @description Error in the tests themselves, such as a syntax error in the test file, which makes every program fail; null if
             *     there is no such error.
             */
            broken?: string | null;
            /** @description The first failed tests. */
            failed: components["schemas"]["FailedTest"][];
            /**
             * @description Number of further failed tests, which `failed` does not contain.
             * @default 0
             */
            failed_not_listed: number;
            /** @description Number of passed tests. */
            passed: number;
        };
        /** @description Ticker of a listed company, such as `NVDA` or `BRK.B`. */
        Ticker: string;
        /** @description Description of a scoped token, without its secret text. */
        TokenInfo: {
            /** @description Time of creation, in milliseconds since 1970 */
            created: number;
            /** @description Time at which the token expires, in milliseconds since 1970 */
            expires: number;
            id: string;
            /** @description What the token grants access to: `drafts/NAME` or `code` */
            scope: string;
        };
        TokenList: {
            tokens: components["schemas"]["TokenInfo"][];
        };
        ToolsSwitch: {
            on: boolean;
        };
        /** @description Transcripts of a run. Their type depends on the kind of the run. */
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
        /** @description Uploaded file. Its content is either text in `text` or arbitrary bytes in `base64`. */
        Upload: {
            base64?: string | null;
            /** @description Relative path of the file, such as data/prices.csv */
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
         * @description Token counts of one call, or the totals of several calls.
         *
         *     `input` counts every input token; `cached_input` and `cache_write` are parts of `input`. The APIs of
         *     some providers count differently (some leave cached tokens out of their input count), so each provider
         *     adapter converts the provider's counts to this convention.
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
        /** @description Number, token usage and cost of the model calls of a run. */
        UsageView: {
            cached_input_tokens: number;
            calls: number;
            /** @description `local` if the cost is zero because the model ran on the user's own server; null for other models */
            cost_note?: string | null;
            /**
             * Format: double
             * @description Cost of the model calls in dollars; null if the price of the model is unknown
             */
            cost_usd: number | null;
            input_tokens: number;
            /**
             * @description Number of model calls that were in flight when the process that executed the run died. The calls are repeated,
             *     and the provider may have charged for the lost calls
             */
            lost_calls: number;
            /**
             * Format: double
             * @description Upper bound of what the calls counted in `lost_calls` cost, in dollars
             */
            lost_usd: number;
            output_tokens: number;
        };
        /** @description Verification command: a command that must succeed before a draft is accepted. */
        VerifyCommand: {
            /** @description Shell command. It runs in the folder of the workspace, in a sandbox without network. */
            command: string;
            /**
             * @description Patterns of files that are not copied to the sandbox; `.git` and files with secrets are never copied.
             * @default [
             *       "**\/target/",
             *       "**\/node_modules/",
             *       "**\/.venv/",
             *       "**\/venv/"
             *     ]
             */
            exclude: string[];
            /**
             * @description Absolute paths of host folders that the command needs, such as a toolchain; the settings must allow each one.
             * @default []
             */
            layers: string[];
            /**
             * @description Memory limit of the command in megabytes; files that are written in the sandbox count as memory.
             * @default 512
             */
            memory_mb: number;
            /** @description Folder of the Python virtual environment to use, such as `.venv`: in the workspace, or allowed by the settings. */
            python?: string | null;
            /**
             * @description Time limit of the command in seconds.
             * @default 120
             */
            seconds: number;
        };
        /** @description Limits that the settings set for verification commands: memory, time, and host folders that may be mounted. */
        VerifyLimits: {
            /** @description Host folders that may be mounted into the sandbox of a verification command. */
            layers: string[];
            memory_mb: number;
            /** @description Python virtual environment for verification commands that do not specify one. */
            python?: string | null;
            seconds: number;
        };
        /** @description Result of running a verification command. */
        VerifyResult: {
            command: string;
            /**
             * @description Description of the evidence for the result, such as the number of tests that were run.
             * @default
             */
            evidence: string;
            /** @description Name of the sandbox backend that the command ran in. */
            isolation: string;
            /** @description Outcome of the command, such as `exit code 1` or `timed out after 120 s`. */
            outcome: string;
            /** @description End of the command's output, at most 8 KiB. */
            output: string;
            passed: boolean;
            seconds: number;
        };
        VersionInfo: {
            name: string;
            version: string;
        };
        /** @description Totals of the warm pools of one sandbox backend */
        WarmPoolInfo: {
            /** @description Number of sandboxes that were taken from the warm pool since the server was started */
            hits: number;
            /** @description Current number of idle sandboxes */
            idle: number;
            isolation: components["schemas"]["Isolation"];
            /** @description Whether the warm pool is not refilled at the moment because free memory is low */
            low_memory: boolean;
            /**
             * @description Number of sandboxes that were newly started for a request, not taken from the warm pool, since the server was
             *     started
             */
            misses: number;
            /**
             * Format: double
             * @description Mean time in milliseconds to create an idle sandbox; null if none was created yet
             */
            refill_ms: number | null;
            /** @description Maximum number of idle sandboxes */
            size: number;
        };
        /**
         * @description Setting from a project folder that is not trusted. If `ignored` is true, commands ignore the setting; otherwise
         *     commands fail because of the setting.
         */
        WithheldSetting: {
            from: string;
            ignored: boolean;
            key: string;
            why: string;
        };
        /** @description Stored input of a run in which a model edits files; the run can be resumed from this input. */
        WorkInput: {
            /**
             * @description Isolation that was requested for the run. When the run is resumed, it uses the same isolation, unless the user
             *     requests a different one.
             */
            isolation?: string | null;
            model: string;
            /** @description Policy of the gate when the run started. */
            policy: components["schemas"]["Policy"];
            provider: string;
            work: components["schemas"]["WorkTask"];
            /** @description Path of the workspace. The API returns the name of the workspace instead, or null if it has no name. */
            workspace: string | null;
        };
        /** @description How the agent proposes changes to files. */
        WorkMode: "tools" | "text" | "auto";
        /** @description Requirements that a worker must meet to execute a job. */
        WorkNeeds: {
            /** @description Isolation that the sandbox must have; null if any isolation is sufficient. */
            isolation: string | null;
            labels: {
                [key: string]: string;
            };
            /** @description Memory that the sandbox needs, in megabytes. */
            memory: number;
            /**
             * @description Kind of slot that the job occupies on the worker. Each kind has its own slots, so a job never waits for a job
             *     that occupies a different kind of slot.
             */
            place: components["schemas"]["WorkPlace"];
            region: string | null;
        };
        /** @description Outcome of a run in which a model edits files. */
        WorkOutcome: "accepted" | "escalated" | "pending" | "rejected" | "nothing";
        /** @description Kind of slot that a job occupies on the worker that executes it. */
        WorkPlace: "run" | "sandbox" | "rate_limits";
        /** @description Stored report of a run in which a model edits files. */
        WorkReport: {
            /** @description Text of the model's last answer. */
            answer: string;
            /** @description Whether the run ended at the limit on model calls or on rejected submissions. */
            limit_reached: boolean;
            /** @description Mode of the agent when the run ended. */
            mode: components["schemas"]["WorkMode"];
            outcome: components["schemas"]["WorkOutcome"];
            /** @description Tokens and cost of all model calls. */
            spent: components["schemas"]["CallTotals"];
            /** @description Number of model calls. */
            steps: number;
            submissions: components["schemas"]["WorkSubmission"][];
            task_id: string;
        };
        /** @description Status of a workspace. */
        WorkspaceInfo: {
            /**
             * @description Why agents cannot work in this workspace, such as an invalid file `_handoff/TASK_CONTRACT.json`; null if they
             *     can
             */
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
            /** @description Paths of files whose content is included in the prompt of a model that does not support tools */
            files?: string[];
            /** @default 5 */
            max_rejections?: number;
            /** @default 40 */
            max_steps?: number;
            mode?: components["schemas"]["WorkMode"];
            /**
             * @description When a reviewer must approve a draft before the draft is applied: for all drafts (`always`), only for escalated
             *     drafts (`escalated`), or never (`never`)
             */
            review?: string | null;
            settings?: components["schemas"]["RequestSettings"];
            /**
             * @description Task for the model, in natural language; default: the task in the file `_handoff/TASK_CONTRACT.json` of the
             *     workspace
             */
            task?: string | null;
            task_id?: string | null;
            /** @description Command that must succeed before a draft is accepted. The command runs in a sandbox on a copy of the workspace */
            verify?: string | null;
            /** @description Name of the workspace, as defined with `assize serve --root` */
            workspace: string;
        };
        /** @description A submission and its status, as reported to the agent. */
        WorkSubmission: {
            files: string[];
            reasons: components["schemas"]["Reason"][];
            /** @description Number of the submission in its workspace. */
            submission: number;
            /** @description Status of the submission: `accepted`, `rejected`, `escalated`, `pending` or `undone`. */
            verdict: string;
        };
        /** @description Task of the agent, with its limits. */
        WorkTask: {
            /** @description Paths of the files that are shown to a model without tools. */
            files: string[];
            /** @description Number of rejected submissions after which the run ends. */
            max_rejections: number;
            /** @description Maximum number of model calls. */
            max_steps: number;
            /** @description Maximum number of output tokens per model call. */
            max_tokens: number;
            mode: components["schemas"]["WorkMode"];
            /** @description Description of the task in natural language. */
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
                    /** @description URL path of the run */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            201: {
                headers: {
                    /** @description URL path of the run */
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
