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
        About: {
            /** @description The cluster that does the work, if the server takes part in one; its walls are those of its workers */
            cluster: string | null;
            /** @description The walls around code; null, if there are none to be had */
            isolation: components["schemas"]["Isolation"] | null;
            /** @description Why they are these, or why there are none */
            isolation_why: string;
            model: string | null;
            /** @description Who answers: a provider, or `rehearsal` */
            provider: string;
            /** @description The tasks for programs that the rehearsal model knows, if it is the one that answers */
            rehearsed: string[];
            /** @description And the changes of files */
            rehearsed_changes: string[];
            /** @description Where runs are kept: a file, or the servers of the cluster */
            store: string;
            trials: components["schemas"]["Trials"];
            version: string;
            /** @description Idle sandboxes of each backend that was used, and of the default backend from the start */
            warm_pools: components["schemas"]["WarmPoolInfo"][];
            /** @description Why it is this one */
            why: string;
        };
        Accept: {
            /**
             * @description Put the draft in the place of what is there, though that has changed since
             * @default false
             */
            force?: boolean;
        };
        /** @description Files that a program left, and those that it was given. */
        Artifacts: {
            /** @description What was sent along */
            given: components["schemas"]["FileInfo"][];
            /** @description What else is kept with the run, such as its task, and what programs left, attempt by attempt */
            kept: components["schemas"]["FileInfo"][];
            /** @description What its last program left */
            left: components["schemas"]["FileInfo"][];
        };
        /** @description A place in the debates: of one move or of all, from a round on. */
        At: string;
        /** @description The probes of one group, by how they ended. */
        AttackGroup: {
            blocked: number;
            /** @description Which say nothing, as the trial itself failed. */
            broke: number;
            escaped: number;
            not_applicable: number;
            title: string;
        };
        Attacks: {
            attacks: components["schemas"]["Scorecard"][];
        };
        /** @description One attempt at the task. */
        Attempt: {
            /** @description From 1. */
            attempt: number;
            /** @description Which one of several side by side, from 1; `None` if it was the only one. */
            candidate?: number | null;
            /** @description `None` if the model gave none. */
            code: string | null;
            /**
             * Format: double
             * @description From 0 to 1; `None` if the model did not say.
             */
            confidence: number | null;
            /** @description What the critic said; `None` if it succeeded, or nothing could be read in the answer. */
            critique: components["schemas"]["Critique"] | null;
            dependencies: string[];
            /** @description Why it failed. */
            error: components["schemas"]["CodeFailure"] | null;
            execution: components["schemas"]["Execution"] | null;
            /** @description The answer had another shape than was asked for, and the code was found in it all the same. */
            found_in_prose?: boolean;
            reasoning: string;
        };
        AuditLog: {
            entries: components["schemas"]["LogEntry"][];
            /** @description Where the next page begins; null on the last */
            next: number | null;
        };
        /** @description State of one sandbox backend. */
        BackendReport: {
            available: boolean;
            /** @description How each limit is enforced. */
            enforcement: components["schemas"]["Enforcement"] | null;
            hint: string | null;
            /** @description How it is run, where that makes a difference. */
            how: string | null;
            isolation: components["schemas"]["Isolation"];
            /** Format: double */
            made_in_ms: number | null;
            why_not: string | null;
        };
        /** @description What several calls took. */
        CallTotals: {
            calls: number;
            cost: components["schemas"]["Cost"];
            /**
             * @description Of these, those beyond the plan: what had to be asked again, and summaries.
             * @default 0
             */
            extra: number;
            /** @description Whether any answer is a rehearsal. */
            rehearsal: boolean;
            /** @description Of the calls that said. */
            usage: components["schemas"]["Usage"];
        };
        /** @description A finding that somebody rests on. */
        Cited: {
            /** @description Such as `F1.2`. */
            finding: string;
            title: string;
        };
        Clean: {
            /**
             * @description What was settled longer ago than this; as the settings say, if nothing
             * @default null
             */
            older_than_days?: number | null;
        };
        /** @description What was put away. */
        Cleared: {
            copies: number;
            drafts: number;
            submissions: number;
        };
        /** @description A process that takes part in a cluster. */
        ClusterNode: {
            abilities: components["schemas"]["NodeCapabilities"];
            busy: number;
            /**
             * @description The runs that it holds, by name.
             * @default []
             */
            holds: string[];
            host: string;
            /** @description Like that of no other. */
            id: string;
            /**
             * @description The providers whose limits it keeps for all.
             * @default []
             */
            keeps: string[];
            pid: number;
            role: components["schemas"]["NodeRole"];
            /** @description Milliseconds since 1970. */
            since: number;
            /** @description How much it can do at once, and does. */
            slots: number;
            /** @description Of what is said among nodes. */
            speaks: number;
            /** @description Of assize. */
            version: string;
        };
        /** @description State of the cluster that the settings name. */
        ClusterReport: {
            detail: string | null;
            servers: string;
            slots: number | null;
            state: components["schemas"]["ClusterReportState"];
            /** @description Workers that take jobs, and their sandboxes in total. */
            workers: number | null;
        };
        /** @enum {string} */
        ClusterReportState: "answers" | "fails" | "not_tried";
        /** @description How a cluster is. */
        ClusterStatus: {
            busy: number;
            /** @description Messages that no worker can run, the newest first. */
            dead_letters: components["schemas"]["DeadLetter"][];
            nodes: components["schemas"]["ClusterNode"][];
            queue: components["schemas"]["QueueStatus"][];
            /** @description Runs that somebody holds, and that wait for somebody. */
            running: number;
            /** @description Sandboxes that all workers can have at once, and have. */
            slots: number;
            streams: components["schemas"]["StreamStatus"][];
            stuck: components["schemas"]["StuckWork"][];
            waiting: number;
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
             * @description The beginning of what it printed instead.
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
        /** @description What a run needs to be run again; what is large is kept beside it. */
        CodeInput: {
            candidates: number;
            expect: string | null;
            image: string | null;
            /** @description The isolation that was asked for; it holds when the run is resumed, unless another is asked for then. */
            isolation?: string | null;
            language: components["schemas"]["Language"];
            limits: components["schemas"]["Limits"];
            max_attempts: number;
            max_output_tokens: number;
            model: string;
            /** @description Where the files that the program leaves are wanted, and the program itself. */
            out: string | null;
            /** @description The packages that programs may ask for. */
            packages: string[];
            provider: string;
            save: string | null;
            session: string | null;
            /** Format: double */
            temperature: number;
        };
        /** @description What a trial came to. */
        CodeVerdict: {
            /** @description What the program printed, if it succeeded. */
            answer: string | null;
            /** @description How many were made. */
            attempts: number;
            /** @description The program of the last attempt. */
            code: string | null;
            /** @description Why the last attempt failed. */
            error: string | null;
            /** @description Every attempt, with its code, how it went and what the critic said. */
            history: components["schemas"]["Attempt"][];
            spent: components["schemas"]["CallTotals"];
            success: boolean;
        };
        /** @description The company that is consulted. */
        Company: {
            /** @description Its name: from the SEC's list, or as the user gave it. */
            name: string | null;
            /** @description None for a private company, which has a name instead. */
            ticker?: components["schemas"]["Ticker"] | null;
        };
        /** @description How a consultation differs from the one that it was forked from. */
        ConsultFork: {
            at: components["schemas"]["At"];
            /** @description The run that it was forked from. */
            from: string;
            /** @description What some who take part are told to be from there on, by `critic`, `D1` and so on. */
            personas?: {
                [key: string]: string;
            };
        };
        /** @description What a run needs to be run again; what is large is kept beside it. */
        ConsultInput: {
            /** @description Who answered what was taken over, if it was someone else. */
            answered_before_by?: string | null;
            /** @default false */
            blind_scores: boolean;
            company: components["schemas"]["Company"];
            context_window: number | null;
            image: string | null;
            /** @description The isolation that was asked for; it holds when the run is resumed, unless another is asked for then. */
            isolation?: string | null;
            limits: components["schemas"]["Limits"];
            max_output_tokens: number;
            model: string;
            /** @description Other models of the same provider, by role. */
            models?: {
                [key: string]: string;
            };
            moves: number;
            /** @description How many debates are held at once, where somebody said. */
            parallel_moves?: number | null;
            provider: string;
            region: string | null;
            rounds: number;
            /** @description Whether more was to be made up, besides what is known. */
            synthetic: boolean;
            /** Format: double */
            temperature: number;
            /** @description How it differs from the runs that it was forked from, the earliest first. */
            turnings?: components["schemas"]["ConsultFork"][];
        };
        /** @description All of it, under the names that the parts of a consultation have. */
        ConsultReport: {
            company: components["schemas"]["Company"];
            /** @description Null for a private company. */
            company_ticker: string | null;
            f1_financial_inference: string;
            f2_trend_inference: string;
            /** @description The figures that can be traced one by one, each with its source and its day. */
            figures?: components["schemas"]["Figure"][];
            financial_data_raw: string;
            flags: components["schemas"]["Flag"][];
            /** @description When and how it was made, where somebody says so. */
            made?: components["schemas"]["ReportOrigin"] | null;
            move_suggestions: components["schemas"]["Suggestion"][];
            news_data_raw: string;
            other_moves: components["schemas"]["RankedMove"][];
            /** @description With all that was said, move by move. */
            policy_scores: components["schemas"]["DebateVerdict"][];
            recommended_moves: components["schemas"]["RankedMove"][];
            spent: components["schemas"]["CallTotals"];
            tie_rule: string;
        };
        ConsultStart: {
            blind_scores?: boolean;
            /** @description Documents about it */
            files?: components["schemas"]["Upload"][];
            image?: string | null;
            /** @description Other models for some roles, such as critic or D1 */
            models?: {
                [key: string]: string;
            };
            /**
             * @description That each analyst proposes
             * @default 3
             */
            moves?: number;
            /** @description A private company, by its name; this or `ticker` */
            name?: string | null;
            /** @description Debates that are held at once */
            parallel_moves?: number | null;
            /** @description Who takes part, as `assize consult --export-personas` prints it */
            personas?: string | null;
            /** @description A folder with documents about it that whoever runs the server has allowed, by its name */
            root?: string | null;
            /** @default 10 */
            rounds?: number;
            settings?: components["schemas"]["Wishes"];
            /** @description What is known of it; made up, if nothing is named and no files are sent */
            sources?: components["schemas"]["SourceWord"][];
            /** @description A listed company, by the ticker under which its shares are traded; this or `name` */
            ticker?: string | null;
            /** @description Spend more than may be spent unasked */
            yes?: boolean;
        };
        /** @description Something that was said. */
        ConversationEntry: {
            content: string;
            /** @description It was cut off at the longest answer allowed. */
            cut_off?: boolean;
            /** @description `critic`, `D1`, `D2` and so on. */
            role: string;
            round: number;
        };
        /**
         * @description What something cost: a known amount, nothing because the user's own server answered, or honestly unknown.
         *     Never 0 for want of a price.
         */
        Cost: "unknown" | {
            nano_usd: components["schemas"]["Money"];
        } | "local";
        /** @description A sandbox that is to be made. */
        Create: {
            image?: string | null;
            labels?: {
                [key: string]: string;
            };
            /** @description Lower-case letters, digits and `-` */
            name: string;
            region?: string | null;
            settings?: components["schemas"]["Wishes"];
            /** @description Seconds that it stays; an hour, if nothing */
            ttl_seconds?: number | null;
        };
        /** @description A token with its text, which is shown once. */
        CreatedToken: {
            /** @description Milliseconds since 1970 */
            created: number;
            /** @description Milliseconds since 1970 */
            expires: number;
            id: string;
            /** @description Where the tools are, on this server */
            path: string;
            /** @description `drafts/NAME` or `code` */
            scope: string;
            token: string;
        };
        /** @description A token that is to be created. */
        CreateToken: {
            /** @description `drafts/NAME` for the draft tools of a workspace, or `code` for the tool that runs code */
            scope: string;
            /** @description Seconds until it expires; 30 days, if nothing */
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
            /** @description How often it had been delivered. */
            deliveries: number;
            /** @description The beginning of the payload, as text. */
            payload: string;
            /** @description Bytes of the whole payload. */
            payload_bytes: number;
            reason: string;
            /** @description The subject it was published under. */
            subject: string;
            /** @description When it was moved here, in milliseconds since 1970. */
            time: number;
        };
        /** @description What a run of a debate needs to be run again; the document is kept beside it. */
        DebateInput: {
            /** @description Who answered the rounds before, if it was someone else. */
            answered_before_by: string | null;
            /** @description The round from which a fork asks anew. */
            at: number | null;
            /** @description Who was told to be somebody else, and from when on. */
            changes?: components["schemas"]["PersonaChange"][];
            context_window: number | null;
            image?: string | null;
            /** @description The isolation that was asked for; it holds when the run is resumed, unless another is asked for then. */
            isolation?: string | null;
            /**
             * @description Of the sandbox that it runs in.
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
            limits: components["schemas"]["Limits"];
            max_output_tokens: number;
            model: string;
            move_id: string;
            provider: string;
            rounds: number;
            /** Format: double */
            temperature: number;
            ticker: string | null;
        };
        /** @description What a debate came to, and behind which boundary it ran. */
        DebateReport: {
            /**
             * @description What those who scored are called, by their ids.
             * @default {}
             */
            agents: {
                [key: string]: string;
            };
            /** @description What they thought of the move before it was debated, where that was asked for. */
            blind_scores?: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            /**
             * @description What a reader must know besides the verdict.
             * @default []
             */
            flags: components["schemas"]["Flag"][];
            /**
             * @description Where it ran.
             * @default
             */
            isolation: string;
            move_id: string;
            out_of: number;
            /** @description Conversations that ended before that. */
            partial?: {
                [key: string]: components["schemas"]["PartialConversation"];
            };
            /** @description The rounds that were to be debated. */
            rounds: number;
            scores_by_agent: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            spent: components["schemas"]["CallTotals"];
            /** @description Conversations whose middle was summed up for the model. */
            summaries?: {
                [key: string]: components["schemas"]["SummarizedRounds"];
            };
            ticker: string | null;
            /** @description Of `out_of`. */
            total_score: number;
        };
        DebateStart: {
            /** @description The move, in Markdown or as plain text */
            document: string;
            /** @description The image of its sandbox */
            image?: string | null;
            rounds?: number | null;
            settings?: components["schemas"]["Wishes"];
            ticker?: string | null;
        };
        /** @description The outcome of a debate. */
        DebateVerdict: {
            /**
             * @description What those who scored are called, by their ids.
             * @default {}
             */
            agents: {
                [key: string]: string;
            };
            /** @description What they thought of the move before it was debated, where that was asked for. */
            blind_scores?: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            move_id: string;
            out_of: number;
            /** @description Conversations that ended before that. */
            partial?: {
                [key: string]: components["schemas"]["PartialConversation"];
            };
            /** @description The rounds that were to be debated. */
            rounds: number;
            scores_by_agent: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            spent: components["schemas"]["CallTotals"];
            /** @description Conversations whose middle was summed up for the model. */
            summaries?: {
                [key: string]: components["schemas"]["SummarizedRounds"];
            };
            ticker: string | null;
            /** @description Of `out_of`. */
            total_score: number;
        };
        /** @description Report on the providers, sandboxes and the cluster of this machine. */
        DoctorReport: {
            arch: string;
            /** @description Null if no cluster is configured. */
            cluster: components["schemas"]["ClusterReport"] | null;
            /** @description Order in which providers are looked for. */
            order: string[];
            os: string;
            prices_as_of: string;
            providers: components["schemas"]["ProviderReport"][];
            sandboxes: components["schemas"]["SandboxesReport"];
            /** @description The provider that is asked, or `rehearsal`. */
            used: string;
            version: string;
            why: string;
            /** @description Settings of a project that is not trusted. */
            withheld: components["schemas"]["WithheldSetting"][];
        };
        DraftView: {
            content: string;
            /** @description What it would change, as a unified diff */
            diff: string;
            draft: components["schemas"]["OpenDraft"];
        };
        Duration: {
            nanos: number;
            secs: number;
        };
        /** @description What a reason does to a draft. */
        Effect: "escalate" | "reject";
        /** @description What holds each limit, in words for people. */
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
        /** @description A probe that got out. */
        EscapedProbe: {
            detail: string;
            name: string;
            what: string;
        };
        /** @description What a run needs to be run again; the problems are kept beside it. */
        EvalInput: {
            image: string | null;
            /** @description The isolation that was asked for; it holds when the run is resumed, unless another is asked for then. */
            isolation?: string | null;
            limits: components["schemas"]["Limits"];
            max_attempts: number;
            max_output_tokens: number;
            model: string;
            provider: string;
            samples: number;
            /** Format: double */
            temperature: number;
        };
        /** @description How one problem went. */
        EvalOutcome: {
            samples: components["schemas"]["EvalSample"][];
            task_id: string;
        };
        /** @description What an evaluation shows. */
        EvalReport: {
            max_attempts: number;
            /**
             * @description Who was asked.
             * @default
             */
            model: string;
            /** @description Shares from 0 to 1: the first attempt alone, and the loop. */
            pass_at_1: components["schemas"]["PassShares"];
            /** @description That one of all samples passes, where there are several. */
            pass_at_k: components["schemas"]["PassShares"] | null;
            problems: number;
            /** @description How every sample of every problem went. */
            results: components["schemas"]["EvalOutcome"][];
            samples: number;
            spent: components["schemas"]["CallTotals"];
            /** @description Those that no sample solved. */
            unsolved: string[];
        };
        /** @description How one sample of one problem went. */
        EvalSample: {
            attempts: number;
            error: components["schemas"]["CodeFailure"] | null;
            /** @description The first attempt passed. */
            first: boolean;
            /** @description One of them did. */
            success: boolean;
        };
        EvalStart: {
            image?: string | null;
            /** @default 3 */
            max_attempts?: number;
            /** @description What the problems are called */
            name: string;
            parallel?: number | null;
            /** @description The problems, one JSON object in each line: task_id, prompt, entry_point, test, canonical_solution */
            problems: string;
            /** @default 1 */
            samples?: number;
            settings?: components["schemas"]["Wishes"];
        };
        /** @description Code that is to be run once. */
        Exec: {
            /** @description What is passed on to it */
            arguments?: string[];
            code: string;
            env?: {
                [key: string]: string;
            };
            /** @description Files that it finds in its working folder */
            files?: components["schemas"]["Upload"][];
            image?: string | null;
            /** @description Send back the files that it leaves */
            keep_files?: boolean;
            language?: components["schemas"]["LanguageName"];
            settings?: components["schemas"]["Wishes"];
            /** @description What it reads from its standard input */
            stdin?: string | null;
        };
        /** @description One execution, as it is kept. */
        Execution: {
            /** @description No room for files was left at its end. */
            disk_full: boolean;
            /** Format: double */
            duration_ms: number;
            exit_code: number | null;
            /** @description Why it does not count as success. */
            failure: components["schemas"]["CodeFailure"] | null;
            /** @description Files that it left, by name. */
            files?: components["schemas"]["LeftFile"][];
            /** @description What identifies the files of the session that it found. */
            found?: components["schemas"]["Fingerprint"] | null;
            /** @description What else it left, and why that was not taken. */
            not_taken?: string[];
            /**
             * @description Something in the sandbox was ended for want of memory meanwhile: the program itself, if it was
             *     ended by signal 9, or one that it started.
             */
            out_of_memory: boolean;
            /** @description It wrote more than was allowed, and the rest was thrown away. */
            output_cut: boolean;
            /**
             * @description The most memory that was in use in the sandbox; of the largest process alone where nobody
             *     keeps an account of the whole.
             */
            peak_memory_bytes: number;
            signal: number | null;
            stderr: string;
            /** @description What it wrote; what is no text in it is replaced. */
            stdout: string;
            /** @description How the tests went, if there are any and they came to their end. */
            tests?: components["schemas"]["TestReport"] | null;
            timed_out: boolean;
            /** @description It ran in an interpreter that was waiting for it. */
            warm: boolean;
        };
        FailedTest: {
            /** @description The last of what was said about it. */
            error: string;
            name: string;
        };
        /** @description One number that somebody can be asked about. */
        Figure: {
            /** @description The day for which it holds. */
            as_of: string;
            /** @description What it measures, such as `revenue` or `gross margin`. */
            name: string;
            period: components["schemas"]["FigurePeriod"];
            /**
             * Format: double
             * @description It was given otherwise before, and this is the latest.
             */
            restated_from?: number | null;
            /** @description Where it was read, or how it was computed. */
            source: components["schemas"]["FigureSource"];
            unit: components["schemas"]["FigureUnit"];
            /** Format: double */
            value: number;
        };
        /** @description The time that a figure is about. */
        FigurePeriod: {
            year: string;
        } | {
            quarter: string;
        } | {
            day: string;
        };
        /** @description Where a figure comes from. */
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
        /** @description What a number counts. */
        FigureUnit: "count" | {
            money: string;
        } | {
            money_per_share: string;
        } | "percent" | "times";
        /** @description What a submission changes in one file. */
        FileDiff: {
            /** @description What has changed in the file since the draft was created, as a diff. */
            changed_meanwhile: string | null;
            /** @description Unified; null once its copies are deleted. */
            diff: string | null;
            path: string;
        };
        /** @description Something that can be fetched. */
        FileInfo: {
            bytes: number;
            name: string;
        };
        Files: {
            files: components["schemas"]["FileInfo"][];
        };
        Fine: {
            status: string;
        };
        /** @description The SHA-256 of something that was asked; shown as hexadecimal digits. */
        Fingerprint: string;
        /**
         * @description Something that had to be mended before an answer could be read.
         * @enum {string}
         */
        Fix: "code_fence" | "surrounding_text" | "thinking" | "invisible_characters" | "comments" | "trailing_comma" | "quotes" | "unquoted_key" | "literal" | "number_format" | "raw_control_characters" | "bad_escape" | "repeated_key" | "retyped" | "key_spelling";
        /** @description Something that whoever reads the report must know. */
        Flag: {
            kind: components["schemas"]["FlagKind"];
            message: string;
            /** @description The move that it is about; else it is about all of it. */
            move_id?: string | null;
        };
        /** @description What a flag is about. */
        FlagKind: ("company_not_verified" | "synthetic" | "rehearsal" | "tie" | "unsupported_figure" | "unresolved_citation") | "source" | "moves" | "partial" | "repaired" | "no_isolation" | "weaker_isolation" | "forked" | "not_debated" | "assumed";
        Folder: {
            entries: components["schemas"]["InFolder"][];
        };
        Fork: {
            /**
             * @description From where on everything is asked again: a round, such as `round-4`; in a consultation also of one move, such as
             *     `m3/round-4`. Without it only what is asked in other words, or failed
             * @default null
             */
            at?: string | null;
            /**
             * @description Of a debate: another wording of the move
             * @default null
             */
            document?: string | null;
            /**
             * @description Of a consultation: other models for some roles
             * @default {}
             */
            models?: {
                [key: string]: string;
            };
            /**
             * @description Of a debate: other rounds
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
            settings?: components["schemas"]["Wishes"];
            /**
             * @description What some are told to be from there on, by `critic`, `D1` and so on
             * @default {}
             */
            told?: {
                [key: string]: string;
            };
            /**
             * @description Spend more than may be spent unasked
             * @default false
             */
            yes?: boolean;
        };
        /**
         * @description How a submission fares.
         * @enum {string}
         */
        GateVerdict: "accepted" | "rejected" | "escalated";
        /** @description A figure, and where it stands. */
        GroundedFigure: {
            /**
             * @description Whether what is said of it there is anything like what is said of it here. Two numbers may be equal by
             *     chance.
             */
            alike: boolean;
            /** @description As somebody wrote it. */
            figure: string;
            /** @description Where it stands there. */
            place: string;
            /** @description The name of the source. */
            source: string;
        };
        /** @description Something in a folder of a sandbox. */
        InFolder: {
            bytes: number;
            /** @description file, folder, link or other */
            kind: string;
            name: string;
        };
        /**
         * @description The walls there are, the thinnest first.
         * @enum {string}
         */
        Isolation: "jail" | "docker" | "microvm";
        /** @description A decision maker's scores. */
        JudgeScore: {
            /** @description The metrics that could not be read, for which 5 is assumed. */
            assumed?: string[];
            /** @description Why the judge could not be asked, where that is why 5 is assumed for every metric. */
            failed?: string | null;
            /** @description How realistic it is with the people, money and time there are. */
            feasibility: number;
            /** @description How much it would change the company's growth, revenue or position in its market. */
            impact: number;
            /** @description How the scores were read; where no model gave them in so many words, this says so. */
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
         * @description What code can be written in.
         * @enum {string}
         */
        Language: "python" | "bash" | "javascript";
        /** @enum {string} */
        LanguageName: "python" | "bash" | "javascript";
        /** @description A file that a program left. */
        Left: {
            base64: string;
            name: string;
        };
        /** @description A file that a program left, kept elsewhere. */
        LeftFile: {
            bytes: number;
            name: string;
            sha256: components["schemas"]["Fingerprint"];
        };
        /** @description What a trial is likely to take. */
        Likely: {
            calls: number;
            /** @description Calls that have to be waited for, one after the other */
            calls_in_a_row: number;
            /**
             * Format: double
             * @description The same, where the provider caches prompts
             */
            cost_cached_usd: number | null;
            /** @description `local` where the user's own server answers for nothing */
            cost_note?: string | null;
            /**
             * Format: double
             * @description In dollars; null where the price is not known
             */
            cost_usd: number | null;
            input_tokens: number;
            output_tokens: number;
            rehearsal: boolean;
        };
        /** @description What everything in a sandbox together may use. */
        Limits: {
            /** @description Thousandths of a processor. */
            cpu_millis: number;
            /** @description Bytes that can be written to files. */
            disk: number;
            /** @description Bytes of memory, without swap. */
            memory: number;
            /** @description Bytes of each of standard output and standard error that are kept of one execution. */
            output: number;
            /** @description Processes and threads. */
            processes: number;
            /** @description How long one execution may take. */
            wall: components["schemas"]["Duration"];
        };
        Link: {
            /** @description To be opened in a browser, once, on this server */
            path: string;
        };
        /** @description What a look at the whole log came to. */
        LogCheck: {
            /** @description Where the log in the workspace ended early and was completed. */
            completed: components["schemas"]["LogCompletion"][];
            /** @description In the store, of all workspaces. */
            entries: number;
            /** @description What the log comes to now: whoever notes it can see later whether it is still in it. */
            head: string | null;
            intact: boolean;
            of_workspace: number;
            /** @description What is wrong with it. */
            wrong: string[];
        };
        /** @description That the log in the workspace was once completed. */
        LogCompletion: {
            entry: number;
            lines_added: number;
            lines_there: number;
        };
        /** @description Entry of the log, chained to the one before. What it is about is in `detail`, by its `action`. */
        LogEntry: {
            action: string;
            actor: string;
            at: number;
            detail: unknown;
            hash: components["schemas"]["Fingerprint"];
            id: number;
            /** @description The hash of the entry before; all zeros for the first. */
            previous: components["schemas"]["Fingerprint"];
            subject: string;
        } & ({
            /** @constant */
            action: "requested";
            detail: {
                /** @description The file's content, if there is such a file. */
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
                /** @description What is to be replaced. */
                files: components["schemas"]["ReplacedFile"][];
                policy: components["schemas"]["Fingerprint"];
                reasons: components["schemas"]["Reason"][];
                submission: number;
                /** @description The worker learns of it by the answer to what it asked. */
                told: boolean;
                verdict: components["schemas"]["GateVerdict"];
                verified?: components["schemas"]["Verified"] | null;
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
        /** @description API key without its secret part, and the source of it. */
        MaskedKey: {
            from: string;
            masked: string;
        };
        /** @description An amount of US dollars, held as whole nano-dollars. */
        Money: number;
        /** @description What somebody can do. */
        NodeCapabilities: {
            isolations: string[];
            labels: {
                [key: string]: string;
            };
            /** @description Memory for one piece of work, in megabytes. */
            memory: number;
            region: string | null;
        };
        /** @enum {string} */
        NodeRole: "server" | "worker";
        /** @description A draft that somebody works on. */
        OpenDraft: {
            before: components["schemas"]["Fingerprint"] | null;
            /** @description Its name in the drafts folder. */
            name: string;
            path: string;
            /** @description When it was asked for, in milliseconds since 1970. */
            since: number;
            /** @description The submission that it waits in. */
            submission: number | null;
            task: components["schemas"]["TaskId"];
        };
        OpenDrafts: {
            drafts: components["schemas"]["OpenDraft"][];
        };
        /** @description A conversation that ended early, and why. */
        PartialConversation: {
            /** @description The rounds in which both spoke. */
            completed_rounds: number;
            error: string;
        };
        /** @description How many pass, without the loop and with it. */
        PassShares: {
            /** Format: double */
            first_attempt: number;
            /** Format: double */
            with_retries: number;
        };
        /** @description Who takes part in another way from a round on. */
        PersonaChange: {
            from_round: number;
            /** @description What they are told to be, by `critic`, `D1` and so on. */
            personas: {
                [key: string]: string;
            };
        };
        /** @description All that the gate goes by. Its fingerprint stands beside every decision. */
        Policy: {
            /** @description What may be drafted; everything, where nothing is said. */
            allowed: string[] | null;
            /** @description The largest file and draft, in bytes. */
            max_bytes: number;
            /**
             * Format: double
             * @description The largest share of a file's lines that may be removed or replaced.
             */
            max_deletion: number;
            /** @description The most files of one task. */
            max_files: number;
            /** @description The most lines that a draft may add and remove. */
            max_lines: number;
            /** @description Files that a person looks after, besides those that everybody has. */
            protected: string[];
            /** @description Files that workers may read although they look as if they held secrets. */
            readable: string[];
            review: components["schemas"]["Review"];
            /** @description The only task there is. */
            task: string | null;
            /** @description What must pass: what the settings ask for, and what the contract does. */
            verify: components["schemas"]["Verify"][];
            /** @description What a verification may have. */
            verify_most: components["schemas"]["VerifyMost"];
        };
        /** @description Why a request was not done. */
        Problem: {
            /** @description What is wrong with this very request. */
            detail: string;
            /** @description What to do about it. */
            hint?: string | null;
            status: number;
            title: string;
            /** @description What kind of problem it is: a reference that is the same for all of a kind. */
            type: string;
        };
        /** @description A program that is to be run. */
        Program: {
            /** @description The folder that it starts in, below the working folder unless it is a whole path; the working folder, if nothing */
            cwd?: string | null;
            env?: {
                [key: string]: string;
            };
            /** @description The program and what is passed on to it */
            program: string[];
            stdin?: string | null;
            /**
             * Format: double
             * @description No more than the sandbox allows, which is what it gets if nothing is said
             */
            timeout_seconds?: number | null;
        };
        /** @description A file of a submission. */
        ProposedFile: {
            added: number;
            after: components["schemas"]["Fingerprint"];
            before: components["schemas"]["Fingerprint"] | null;
            /** @description Its name in the drafts folder; `None` for a change that a worker without tools wrote as text. */
            draft?: string | null;
            /** @description The permissions of the draft. */
            draft_mode: number;
            path: string;
            removed: number;
        };
        /** @description The rung of the ladder that an answer stood on. */
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
        /** @description A line in which work waits. */
        QueueStatus: {
            /** @description Of those under way, how many came back at least once. */
            again: number;
            needs: components["schemas"]["WorkNeeds"];
            under_way: number;
            waiting: number;
            /** @description How many workers can do it. */
            workers: number;
        };
        /** @description How a program went. */
        Ran: {
            disk_full: boolean;
            /** Format: double */
            duration_ms: number;
            exit_code: number | null;
            files: components["schemas"]["Left"][];
            /** @description Which walls stood around it, and why those */
            isolation: string;
            /** @description What it left and was not taken, and why */
            not_taken: string[];
            out_of_memory: boolean;
            output_cut: boolean;
            /** @description Of the sandbox, in all its life so far */
            peak_memory_bytes: number;
            signal: number | null;
            stderr: string;
            stdout: string;
            timed_out: boolean;
        };
        /** @description A move in its place. */
        RankedMove: {
            /** @description What it was given before the debate, where that was asked for. */
            blind_score?: number | null;
            /** @description How much of what was said was new, round by round. */
            drift?: components["schemas"]["RoundDrift"][];
            move_id: string;
            out_of: number;
            /** @description From 1. */
            rank: number;
            title: string;
            total_score: number;
        };
        /** @description Something about a draft. */
        Reason: {
            effect: components["schemas"]["Effect"];
            file: string;
            line?: number | null;
            /** @description What is the matter. */
            message: string;
            /** @description Such as `secret/github-token` or `scope`. */
            rule: string;
            /** @description What whoever wrote it can do. */
            what_to_do: string;
        };
        /** @description Journal record as it is shown, with its outcome as JSON. */
        RecordView: {
            key: string;
            request: components["schemas"]["Fingerprint"];
        } & ({
            done: unknown;
        } | {
            failed: unknown;
        });
        Reject: {
            /**
             * @description What the worker is told
             * @default
             */
            reason?: string;
        };
        /** @description A file that changes from one content to another; `None` is no file. */
        ReplacedFile: {
            after: components["schemas"]["Fingerprint"] | null;
            before: components["schemas"]["Fingerprint"] | null;
            path: string;
        };
        /** @description When and how a report was made. */
        ReportOrigin: {
            /** @description Where debates were held. */
            isolation: string;
            model: string;
            /** @description Other models, by role. */
            models?: {
                [key: string]: string;
            };
            /** @description The day, such as `2026-11-15`. */
            on: string;
            provider: string;
            run: string;
        };
        Resume: {
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
            settings?: components["schemas"]["Wishes"];
            /**
             * @description Even if another process works on it, or may
             * @default false
             */
            take_over?: boolean;
        };
        /** @description When a person looks at a draft before it is applied. */
        Review: "always" | "escalated" | "never";
        /** @description The share of words that were new, from 0 to 1, over all conversations. */
        RoundDrift: {
            /**
             * Format: double
             * @description `None` where nobody spoke.
             */
            critic: number | null;
            /** Format: double */
            decision_makers: number | null;
            round: number;
        };
        /** @description What a run does. Its name is the command that starts it, and the first part of a [`RunId`](crate::RunId). */
        RunKind: "run" | "consult" | "debate" | "work" | "eval";
        /** @description A page of runs, the latest first. */
        RunPage: {
            /** @description Where the next page begins; null on the last */
            next: number | null;
            runs: components["schemas"]["RunSummary"][];
        };
        RunStart: {
            /**
             * @description Programs that are written and run side by side in each attempt
             * @default 1
             */
            candidates?: number;
            /** @description What its output must contain; between slashes, a pattern that it must fit */
            expect?: string | null;
            /** @description Files that it finds in its working folder */
            files?: components["schemas"]["Upload"][];
            /** @description The image of its container */
            image?: string | null;
            /** @description python, bash or javascript */
            language?: components["schemas"]["LanguageName"];
            /** @default 3 */
            max_attempts?: number;
            /** @description Keep the working files under this name */
            session?: string | null;
            settings?: components["schemas"]["Wishes"];
            /** @description The task, in plain words */
            task: string;
            /** @description Tests that the program must pass, as source text */
            tests?: string | null;
        };
        /** @description The state of a run, as users see it: the store does not know whether the lease holder is alive. */
        RunState: ("running" | "done" | "failed" | "cancelled") | "waiting" | "stopped";
        /** @description A run in a list. */
        RunSummary: {
            /** @description Milliseconds since 1970 */
            created: number;
            /** @description Why it ended, if it failed or was stopped */
            error: string | null;
            id: string;
            kind: components["schemas"]["RunKind"];
            /** @description What must be known of it, such as that no model was asked */
            label: string | null;
            parent: string | null;
            status: components["schemas"]["RunState"];
            title: string;
            updated: number;
        };
        /** @description A run as it stands. */
        RunView: {
            /** @description Milliseconds since 1970 */
            created: number;
            /** @description Why it ended, if it failed or was stopped */
            error: string | null;
            /** @description Whether this server works on it */
            held_here: boolean;
            id: string;
            kind: components["schemas"]["RunKind"];
            /** @description What must be known of it, such as that no model was asked */
            label: string | null;
            parent: string | null;
            /** @description What its answers took so far, in all its lives */
            spent: components["schemas"]["Spent"];
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
        Sandboxes: {
            sandboxes: components["schemas"]["SandboxInfo"][];
        };
        /** @description State of every sandbox backend, and which one is used. */
        SandboxesReport: {
            backends: components["schemas"]["BackendReport"][];
            /** @description Paths by language; null where no interpreter is found. */
            interpreters: {
                [key: string]: string | null;
            };
            /** @description Backend for code. */
            used: components["schemas"]["Isolation"] | null;
            /** @description Backend for debates. */
            used_for_debates: components["schemas"]["Isolation"] | null;
            why: string;
            why_for_debates: string;
        };
        /** @description A sandbox that stays for a while. */
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
            /** @description The process that holds it */
            pid: number;
            region: string | null;
            /** @description The run that it belongs to, if it does */
            run: string | null;
        };
        /** @description How a move was scored. What was said about it is in the transcripts. */
        Score: {
            /** @description What the judges are called */
            agents: {
                [key: string]: string;
            };
            /**
             * @description What they thought before it was debated, where that was asked for
             * @default {}
             */
            blind_scores: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            move_id: string;
            out_of: number;
            rounds: number;
            /** @description By judge */
            scores_by_agent: {
                [key: string]: components["schemas"]["JudgeScore"];
            };
            ticker: string | null;
            total_score: number;
        };
        /** @description An attack with all probes on one kind of sandbox. */
        Scorecard: {
            /** @description Milliseconds since 1970. */
            at: number;
            /** @description Whatever got out. */
            escaped: components["schemas"]["EscapedProbe"][];
            groups: components["schemas"]["AttackGroup"][];
            isolation: string;
            /** Format: double */
            seconds: number;
            /** @description Of the program that attacked. */
            version: string;
        };
        Scores: {
            /** @description Once the run is done */
            scores: components["schemas"]["Score"][];
            /** @description Until then: `sandbox_scored`, as it was told */
            so_far: {
                [key: string]: unknown;
            }[];
        };
        SessionInfo: {
            files: components["schemas"]["FileInfo"][];
            name: string;
        };
        Sessions: {
            sessions: components["schemas"]["SessionInfo"][];
        };
        /** @enum {string} */
        SourceWord: "edgar" | "files" | "synthetic";
        /** @description What was spent. */
        Spent: {
            cached_input_tokens: number;
            calls: number;
            /** @description `local` where the user's own server answered for nothing */
            cost_note?: string | null;
            /**
             * Format: double
             * @description In dollars; null where the price is not known
             */
            cost_usd: number | null;
            input_tokens: number;
            /** @description Calls that whoever held it before had under way when they died: they are made again, and may have been paid for */
            lost_calls: number;
            /**
             * Format: double
             * @description What those cost at most
             */
            lost_usd: number;
            output_tokens: number;
        };
        /** @description A trial that is to begin. */
        Start: {
            /**
             * @description Programs that are written and run side by side in each attempt
             * @default 1
             */
            candidates?: number;
            /** @description What its output must contain; between slashes, a pattern that it must fit */
            expect?: string | null;
            /** @description Files that it finds in its working folder */
            files?: components["schemas"]["Upload"][];
            /** @description The image of its container */
            image?: string | null;
            /** @enum {string} */
            kind: "run";
            /** @description python, bash or javascript */
            language?: components["schemas"]["LanguageName"];
            /** @default 3 */
            max_attempts?: number;
            /** @description Keep the working files under this name */
            session?: string | null;
            settings?: components["schemas"]["Wishes"];
            /** @description The task, in plain words */
            task: string;
            /** @description Tests that the program must pass, as source text */
            tests?: string | null;
        } | {
            blind_scores?: boolean;
            /** @description Documents about it */
            files?: components["schemas"]["Upload"][];
            image?: string | null;
            /** @enum {string} */
            kind: "consult";
            /** @description Other models for some roles, such as critic or D1 */
            models?: {
                [key: string]: string;
            };
            /**
             * @description That each analyst proposes
             * @default 3
             */
            moves?: number;
            /** @description A private company, by its name; this or `ticker` */
            name?: string | null;
            /** @description Debates that are held at once */
            parallel_moves?: number | null;
            /** @description Who takes part, as `assize consult --export-personas` prints it */
            personas?: string | null;
            /** @description A folder with documents about it that whoever runs the server has allowed, by its name */
            root?: string | null;
            /** @default 10 */
            rounds?: number;
            settings?: components["schemas"]["Wishes"];
            /** @description What is known of it; made up, if nothing is named and no files are sent */
            sources?: components["schemas"]["SourceWord"][];
            /** @description A listed company, by the ticker under which its shares are traded; this or `name` */
            ticker?: string | null;
            /** @description Spend more than may be spent unasked */
            yes?: boolean;
        } | {
            /** @description The move, in Markdown or as plain text */
            document: string;
            /** @description The image of its sandbox */
            image?: string | null;
            /** @enum {string} */
            kind: "debate";
            rounds?: number | null;
            settings?: components["schemas"]["Wishes"];
            ticker?: string | null;
        } | {
            /** @description Files that are shown to a model without tools */
            files?: string[];
            /** @enum {string} */
            kind: "work";
            /** @default 5 */
            max_rejections?: number;
            /** @default 40 */
            max_steps?: number;
            mode?: components["schemas"]["WorkMode"];
            /** @description When a person looks before a draft is applied: always, escalated or never */
            review?: string | null;
            settings?: components["schemas"]["Wishes"];
            /** @description What is to be done; what the workspace's contract says, if nothing */
            task?: string | null;
            task_id?: string | null;
            /** @description A command that must pass before a draft is accepted, run in a sandbox on a copy of the workspace */
            verify?: string | null;
            /** @description The workspace, by the name under which whoever runs the server has allowed it */
            workspace: string;
        } | {
            image?: string | null;
            /** @enum {string} */
            kind: "eval";
            /** @default 3 */
            max_attempts?: number;
            /** @description What the problems are called */
            name: string;
            parallel?: number | null;
            /** @description The problems, one JSON object in each line: task_id, prompt, entry_point, test, canonical_solution */
            problems: string;
            /** @default 1 */
            samples?: number;
            settings?: components["schemas"]["Wishes"];
        };
        /** @description What another server has of it. */
        StreamCopy: {
            /** @description How many messages it is behind. */
            behind: number;
            /** @description Whether it has all. */
            current: boolean;
            offline: boolean;
            server: string;
        };
        /** @description One server-sent event. The names and the data of each are in docs/events.md. */
        StreamEvent: {
            data: string;
            /** @description Its name, such as `snapshot` or `run_ended` */
            event: string;
            /** @description Position in the log, to continue after; events that are not stored have none */
            id?: string;
            /** @description Milliseconds before a client connects again */
            retry?: number;
        };
        /** @description A stream, and how far its copies are. */
        StreamStatus: {
            bytes: number;
            copies: components["schemas"]["StreamCopy"][];
            /** @description The server that decides, if there is one; none where it is kept on one alone that is no part of a cluster. */
            leader: string | null;
            messages: number;
            name: string;
            /** @description Seconds since the oldest message was written. */
            oldest: number | null;
        };
        /** @description Something that does not get on. */
        StuckWork: {
            what: string;
            why: string;
        };
        /** @description Drafts that were submitted together. */
        Submission: {
            at: number;
            /** @description Who decided. */
            by: string | null;
            /** @description The log entry that it is, after which its message is named. */
            entry: number;
            files: components["schemas"]["ProposedFile"][];
            /** @description Its number in the workspace, from 1. */
            id: number;
            /** @description What the gate went by when it was handed in. */
            policy: components["schemas"]["Fingerprint"];
            reasons: components["schemas"]["Reason"][];
            /** @description What was replaced when it was applied. */
            replaced: components["schemas"]["ReplacedFile"][];
            /** @description When it came to where it is. */
            settled: number;
            stage: components["schemas"]["SubmissionStage"];
            summary: string;
            /** @description Its copies were put away, so that it cannot be shown or undone any more. */
            swept: boolean;
            task: components["schemas"]["TaskId"];
            verified: components["schemas"]["Verified"] | null;
            worker: string;
        };
        Submissions: {
            /** @description Where the next page begins; null on the last */
            next: number | null;
            submissions: components["schemas"]["Submission"][];
        };
        /** @description How a submission stands. */
        SubmissionStage: ("escalated" | "accepted" | "rejected" | "undone") | "submitted" | "accepting" | "undoing";
        /** @description A submission with what it changes. */
        SubmissionView: {
            at: number;
            /** @description Who decided. */
            by: string | null;
            diffs: components["schemas"]["FileDiff"][];
            /** @description The log entry that it is, after which its message is named. */
            entry: number;
            files: components["schemas"]["ProposedFile"][];
            /** @description Its number in the workspace, from 1. */
            id: number;
            /** @description What the gate went by when it was handed in. */
            policy: components["schemas"]["Fingerprint"];
            reasons: components["schemas"]["Reason"][];
            /** @description What was replaced when it was applied. */
            replaced: components["schemas"]["ReplacedFile"][];
            /** @description When it came to where it is. */
            settled: number;
            stage: components["schemas"]["SubmissionStage"];
            summary: string;
            /** @description Its copies were put away, so that it cannot be shown or undone any more. */
            swept: boolean;
            task: components["schemas"]["TaskId"];
            verified: components["schemas"]["Verified"] | null;
            worker: string;
        };
        /** @description A move as it goes into the debate, with what must be known about it. */
        Suggestion: {
            /** @description What is done first, second and so on, each with who does it. */
            actions: string[];
            /** @description The analyst who proposed it, by id and name. */
            agent_id: string;
            /** @description The findings that it rests on, by their numbers, such as F1.2. */
            citations: string[];
            /** @description The findings that it rests on, with their titles. */
            cited?: components["schemas"]["Cited"][];
            /** @description The document that is debated. */
            content: string;
            /** @description What it costs, in money and attention; an estimate of yours, and said so. */
            cost: string;
            /** @description Where the figures in it come from. */
            figures?: components["schemas"]["GroundedFigure"][];
            /** @description `m1`, `m2` and so on. */
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
            /** @description Citations that name no finding. */
            unresolved_citations?: string[];
            /** @description Figures in it that stand in no source. */
            unsupported_figures?: string[];
        };
        /** @description What stands in a prompt for rounds that are left out of it. */
        SummarizedRounds: {
            /** @description No model summed them up: these are their opening words. */
            extracted: boolean;
            text: string;
            /** @description Rounds 2 to this one are summed up. */
            up_to_round: number;
        };
        Switch: {
            on: boolean;
        };
        /** @description The name of a task, as whoever gives it writes it: part of the names of its drafts. */
        TaskId: string;
        /** @description How the user's tests went. */
        TestReport: {
            /** @description Why they could not be run, where that is no matter of the program. */
            broken?: string | null;
            failed: components["schemas"]["FailedTest"][];
            passed: number;
        };
        /** @description The name under which a company's shares are traded, such as `NVDA` or `BRK.B`. */
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
        /** @description What was said and done in a run, by its kind */
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
        Trials: {
            /** @description As many as may be at once */
            most: number;
            running: number;
        };
        /** @description A file that is sent along: as text, or any bytes in base64. */
        Upload: {
            base64?: string | null;
            /** @description Its name, with folders if it has any, such as data/prices.csv */
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
         * @description The tokens of one call, or the sum of many.
         *
         *     `input` counts every input token; `cached_input` and `cache_write` are parts of it. Providers
         *     disagree on this (some leave cached tokens out of their input count), so each dialect converts
         *     at the border and nobody else has to know.
         */
        Usage: {
            /** @description The part of `input` that the provider wrote to its prompt cache and charges for as such. */
            cache_write: number;
            /** @description The part of `input` that the provider read from its prompt cache. */
            cached_input: number;
            /** @description All input tokens, cached ones included. */
            input: number;
            /** @description All output tokens, hidden reasoning included. */
            output: number;
        };
        /** @description How a verification went. */
        Verified: {
            command: string;
            /**
             * @description What the result rests on.
             * @default
             */
            evidence: string;
            /** @description Where it ran. */
            isolation: string;
            /** @description Such as `exit code 1` or `took longer than 120 s`. */
            outcome: string;
            /** @description The end of what it printed, some kilobytes. */
            output: string;
            passed: boolean;
            seconds: number;
        };
        /** @description A command that must end well. */
        Verify: {
            /** @description Run by a shell in the workspace's folder, in a sandbox without a network. */
            command: string;
            /**
             * @description What of the workspace is left out of the copy, as patterns; `.git` and files that hold secrets always
             *     are.
             * @default [
             *       "**\/target/",
             *       "**\/node_modules/",
             *       "**\/.venv/",
             *       "**\/venv/"
             *     ]
             */
            exclude: string[];
            /**
             * @description Folders of this machine that it needs to see, such as a toolchain; the settings must allow each.
             * @default []
             */
            layers: string[];
            /**
             * @description The memory it needs, in megabytes; files count.
             * @default 512
             */
            memory_mb: number;
            /**
             * @description A Python virtual environment, such as `.venv`: its interpreter and packages are used. In the workspace, or
             *     allowed by the settings.
             */
            python?: string | null;
            /**
             * @description How long it may take.
             * @default 120
             */
            seconds: number;
        };
        /** @description The most that a verification may ask for. */
        VerifyMost: {
            /** @description Folders of this machine that it may see. */
            layers: string[];
            memory_mb: number;
            /** @description The virtual environment that it uses where it names none. */
            python?: string | null;
            seconds: number;
        };
        Version: {
            name: string;
            version: string;
        };
        /** @description The warm pools of one backend */
        WarmPoolInfo: {
            /** @description Requests since the server was started that an idle sandbox served, and those that started one */
            hits: number;
            idle: number;
            isolation: components["schemas"]["Isolation"];
            /** @description Whether it is not refilled for want of free memory */
            low_memory: boolean;
            misses: number;
            /**
             * Format: double
             * @description Mean time to make an idle sandbox; null, if none was made yet
             */
            refill_ms: number | null;
            /** @description Idle sandboxes when it is full, and now */
            size: number;
        };
        /**
         * @description Settings for this one trial. Amounts and walls that whoever runs the server has set are limits; what is only a
         *     default can be changed. The bounds in its schema are those of the settings.
         */
        Wishes: {
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
            /** @description What is kept of each of standard output and standard error, with a unit */
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
        /** @description Setting that is ignored or stops commands, because its folder is not trusted. */
        WithheldSetting: {
            from: string;
            ignored: boolean;
            key: string;
            why: string;
        };
        /** @description What a run needs to be run again. */
        WorkInput: {
            /** @description The walls that were asked for: they count when it goes on, too, unless others are asked for then. */
            isolation?: string | null;
            model: string;
            /** @description What the gate goes by, as it was when the run began. */
            policy: components["schemas"]["Policy"];
            provider: string;
            work: components["schemas"]["WorkTask"];
            /** @description The API answers its name instead, or null where it has none. */
            workspace: string | null;
        };
        /** @description How a worker works. */
        WorkMode: "tools" | "text" | "auto";
        /** @description What a piece of work needs of whoever does it. */
        WorkNeeds: {
            /** @description The walls, by name; any, if none is named. */
            isolation: string | null;
            labels: {
                [key: string]: string;
            };
            /** @description Memory for it, in megabytes. */
            memory: number;
            /** @description What it takes of whoever does it. No work waits for a place that work of another kind has. */
            place: components["schemas"]["WorkPlace"];
            region: string | null;
        };
        /** @description What a worker came to. */
        WorkOutcome: "accepted" | "escalated" | "pending" | "rejected" | "nothing";
        /** @description What work takes of whoever does it. */
        WorkPlace: "run" | "sandbox" | "keeper";
        /** @description The whole of it, as it is kept and shown. */
        WorkReport: {
            /** @description It stopped because it may do no more. */
            limit_reached: boolean;
            /** @description How it worked in the end. */
            mode: components["schemas"]["WorkMode"];
            outcome: components["schemas"]["WorkOutcome"];
            /** @description Its last words. */
            said: string;
            spent: components["schemas"]["CallTotals"];
            steps: number;
            submissions: components["schemas"]["WorkSubmission"][];
            task_id: string;
        };
        /** @description A folder in which drafts are made. */
        Workspace: {
            /** @description What keeps workers from working, such as a contract that cannot be read */
            blocked: string | null;
            name: string;
            /** @description Drafts that were not handed in yet */
            open_drafts: number;
            /** @description Whether workers can use the draft tools */
            tools_on: boolean;
            /** @description Submissions that a person must decide on */
            waiting: number;
        };
        Workspaces: {
            workspaces: components["schemas"]["Workspace"][];
        };
        WorkStart: {
            /** @description Files that are shown to a model without tools */
            files?: string[];
            /** @default 5 */
            max_rejections?: number;
            /** @default 40 */
            max_steps?: number;
            mode?: components["schemas"]["WorkMode"];
            /** @description When a person looks before a draft is applied: always, escalated or never */
            review?: string | null;
            settings?: components["schemas"]["Wishes"];
            /** @description What is to be done; what the workspace's contract says, if nothing */
            task?: string | null;
            task_id?: string | null;
            /** @description A command that must pass before a draft is accepted, run in a sandbox on a copy of the workspace */
            verify?: string | null;
            /** @description The workspace, by the name under which whoever runs the server has allowed it */
            workspace: string;
        };
        /** @description A submission as the worker heard of it. */
        WorkSubmission: {
            files: string[];
            reasons: components["schemas"]["Reason"][];
            /** @description Its number in the workspace. */
            submission: number;
            /** @description `accepted`, `rejected`, `escalated` or `pending`. */
            verdict: string;
        };
        /** @description What is to be done, and within which limits. */
        WorkTask: {
            /** @description Files that a worker without tools is shown. */
            files: string[];
            /** @description Rejections at most. */
            max_rejections: number;
            /** @description Calls to the model at most. */
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
export type About = components['schemas']['About'];
export type Accept = components['schemas']['Accept'];
export type Artifacts = components['schemas']['Artifacts'];
export type At = components['schemas']['At'];
export type AttackGroup = components['schemas']['AttackGroup'];
export type Attacks = components['schemas']['Attacks'];
export type Attempt = components['schemas']['Attempt'];
export type AuditLog = components['schemas']['AuditLog'];
export type BackendReport = components['schemas']['BackendReport'];
export type CallTotals = components['schemas']['CallTotals'];
export type Cited = components['schemas']['Cited'];
export type Clean = components['schemas']['Clean'];
export type Cleared = components['schemas']['Cleared'];
export type ClusterNode = components['schemas']['ClusterNode'];
export type ClusterReport = components['schemas']['ClusterReport'];
export type ClusterReportState = components['schemas']['ClusterReportState'];
export type ClusterStatus = components['schemas']['ClusterStatus'];
export type CodeFailure = components['schemas']['CodeFailure'];
export type CodeInput = components['schemas']['CodeInput'];
export type CodeVerdict = components['schemas']['CodeVerdict'];
export type Company = components['schemas']['Company'];
export type ConsultFork = components['schemas']['ConsultFork'];
export type ConsultInput = components['schemas']['ConsultInput'];
export type ConsultReport = components['schemas']['ConsultReport'];
export type ConsultStart = components['schemas']['ConsultStart'];
export type ConversationEntry = components['schemas']['ConversationEntry'];
export type Cost = components['schemas']['Cost'];
export type Create = components['schemas']['Create'];
export type CreatedToken = components['schemas']['CreatedToken'];
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
export type Effect = components['schemas']['Effect'];
export type Enforcement = components['schemas']['Enforcement'];
export type EscapedProbe = components['schemas']['EscapedProbe'];
export type EvalInput = components['schemas']['EvalInput'];
export type EvalOutcome = components['schemas']['EvalOutcome'];
export type EvalReport = components['schemas']['EvalReport'];
export type EvalSample = components['schemas']['EvalSample'];
export type EvalStart = components['schemas']['EvalStart'];
export type Exec = components['schemas']['Exec'];
export type Execution = components['schemas']['Execution'];
export type FailedTest = components['schemas']['FailedTest'];
export type Figure = components['schemas']['Figure'];
export type FigurePeriod = components['schemas']['FigurePeriod'];
export type FigureSource = components['schemas']['FigureSource'];
export type FigureUnit = components['schemas']['FigureUnit'];
export type FileDiff = components['schemas']['FileDiff'];
export type FileInfo = components['schemas']['FileInfo'];
export type Files = components['schemas']['Files'];
export type Fine = components['schemas']['Fine'];
export type Fingerprint = components['schemas']['Fingerprint'];
export type Fix = components['schemas']['Fix'];
export type Flag = components['schemas']['Flag'];
export type FlagKind = components['schemas']['FlagKind'];
export type Folder = components['schemas']['Folder'];
export type Fork = components['schemas']['Fork'];
export type GateVerdict = components['schemas']['GateVerdict'];
export type GroundedFigure = components['schemas']['GroundedFigure'];
export type InFolder = components['schemas']['InFolder'];
export type Isolation = components['schemas']['Isolation'];
export type JudgeScore = components['schemas']['JudgeScore'];
export type Language = components['schemas']['Language'];
export type LanguageName = components['schemas']['LanguageName'];
export type Left = components['schemas']['Left'];
export type LeftFile = components['schemas']['LeftFile'];
export type Likely = components['schemas']['Likely'];
export type Limits = components['schemas']['Limits'];
export type Link = components['schemas']['Link'];
export type LogCheck = components['schemas']['LogCheck'];
export type LogCompletion = components['schemas']['LogCompletion'];
export type LogEntry = components['schemas']['LogEntry'];
export type MaskedKey = components['schemas']['MaskedKey'];
export type Money = components['schemas']['Money'];
export type NodeCapabilities = components['schemas']['NodeCapabilities'];
export type NodeRole = components['schemas']['NodeRole'];
export type OpenDraft = components['schemas']['OpenDraft'];
export type OpenDrafts = components['schemas']['OpenDrafts'];
export type PartialConversation = components['schemas']['PartialConversation'];
export type PassShares = components['schemas']['PassShares'];
export type PersonaChange = components['schemas']['PersonaChange'];
export type Policy = components['schemas']['Policy'];
export type Problem = components['schemas']['Problem'];
export type Program = components['schemas']['Program'];
export type ProposedFile = components['schemas']['ProposedFile'];
export type Provenance = components['schemas']['Provenance'];
export type ProviderReport = components['schemas']['ProviderReport'];
export type ProviderState = components['schemas']['ProviderState'];
export type QueueStatus = components['schemas']['QueueStatus'];
export type Ran = components['schemas']['Ran'];
export type RankedMove = components['schemas']['RankedMove'];
export type Reason = components['schemas']['Reason'];
export type RecordView = components['schemas']['RecordView'];
export type Reject = components['schemas']['Reject'];
export type ReplacedFile = components['schemas']['ReplacedFile'];
export type ReportOrigin = components['schemas']['ReportOrigin'];
export type Resume = components['schemas']['Resume'];
export type Review = components['schemas']['Review'];
export type RoundDrift = components['schemas']['RoundDrift'];
export type RunKind = components['schemas']['RunKind'];
export type RunPage = components['schemas']['RunPage'];
export type RunStart = components['schemas']['RunStart'];
export type RunState = components['schemas']['RunState'];
export type RunSummary = components['schemas']['RunSummary'];
export type RunView = components['schemas']['RunView'];
export type Sandboxes = components['schemas']['Sandboxes'];
export type SandboxesReport = components['schemas']['SandboxesReport'];
export type SandboxInfo = components['schemas']['SandboxInfo'];
export type Score = components['schemas']['Score'];
export type Scorecard = components['schemas']['Scorecard'];
export type Scores = components['schemas']['Scores'];
export type SessionInfo = components['schemas']['SessionInfo'];
export type Sessions = components['schemas']['Sessions'];
export type SourceWord = components['schemas']['SourceWord'];
export type Spent = components['schemas']['Spent'];
export type Start = components['schemas']['Start'];
export type StreamCopy = components['schemas']['StreamCopy'];
export type StreamEvent = components['schemas']['StreamEvent'];
export type StreamStatus = components['schemas']['StreamStatus'];
export type StuckWork = components['schemas']['StuckWork'];
export type Submission = components['schemas']['Submission'];
export type Submissions = components['schemas']['Submissions'];
export type SubmissionStage = components['schemas']['SubmissionStage'];
export type SubmissionView = components['schemas']['SubmissionView'];
export type Suggestion = components['schemas']['Suggestion'];
export type SummarizedRounds = components['schemas']['SummarizedRounds'];
export type Switch = components['schemas']['Switch'];
export type TaskId = components['schemas']['TaskId'];
export type TestReport = components['schemas']['TestReport'];
export type Ticker = components['schemas']['Ticker'];
export type TokenInfo = components['schemas']['TokenInfo'];
export type TokenList = components['schemas']['TokenList'];
export type Transcripts = components['schemas']['Transcripts'];
export type Trials = components['schemas']['Trials'];
export type Upload = components['schemas']['Upload'];
export type Usage = components['schemas']['Usage'];
export type Verified = components['schemas']['Verified'];
export type Verify = components['schemas']['Verify'];
export type VerifyMost = components['schemas']['VerifyMost'];
export type Version = components['schemas']['Version'];
export type WarmPoolInfo = components['schemas']['WarmPoolInfo'];
export type Wishes = components['schemas']['Wishes'];
export type WithheldSetting = components['schemas']['WithheldSetting'];
export type WorkInput = components['schemas']['WorkInput'];
export type WorkMode = components['schemas']['WorkMode'];
export type WorkNeeds = components['schemas']['WorkNeeds'];
export type WorkOutcome = components['schemas']['WorkOutcome'];
export type WorkPlace = components['schemas']['WorkPlace'];
export type WorkReport = components['schemas']['WorkReport'];
export type Workspace = components['schemas']['Workspace'];
export type Workspaces = components['schemas']['Workspaces'];
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
                    "application/json": components["schemas"]["About"];
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
                    "application/json": components["schemas"]["Attacks"];
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
                "application/json": components["schemas"]["Start"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Likely"];
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
                "application/json": components["schemas"]["Exec"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ran"];
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
                    "application/json": components["schemas"]["Link"];
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
                "application/json": components["schemas"]["Start"];
            };
        };
        responses: {
            200: {
                headers: {
                    /** @description The run */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunView"];
                };
            };
            201: {
                headers: {
                    /** @description The run */
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
                    "application/json": components["schemas"]["Files"];
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
                "application/json": components["schemas"]["Fork"];
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
                "application/json": components["schemas"]["Resume"];
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
                    "application/json": components["schemas"]["Sandboxes"];
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
                "application/json": components["schemas"]["Create"];
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
                "application/json": components["schemas"]["Program"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ran"];
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
                    "application/json": components["schemas"]["Folder"];
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
                    "application/json": components["schemas"]["Sessions"];
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
                    "application/json": components["schemas"]["Version"];
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
                    "application/json": components["schemas"]["Workspaces"];
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
                "application/json": components["schemas"]["Clean"];
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Cleared"];
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
                    "application/json": components["schemas"]["Submissions"];
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
                "application/json": components["schemas"]["Accept"];
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
                "application/json": components["schemas"]["Reject"];
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
                "application/json": components["schemas"]["Switch"];
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
                    "application/json": components["schemas"]["Fine"];
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
                    "application/json": components["schemas"]["Fine"];
                };
            };
        };
    };
}
