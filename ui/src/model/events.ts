// Names of the events that the server sends; other files of the page use these constants.

/**
 * Stored events of runs and workspaces. `EventSource` delivers only events with a listener for their name, so the list
 * must be complete: `crates/server/tests/page_events.rs` compares it with the server's events and `docs/reference/events.md`.
 */
export const EVENT = {
  runEnded: "run_ended",
  callsLost: "calls_lost",
  codeGenerated: "code_generated",
  executionStarted: "execution_started",
  executionComplete: "execution_complete",
  codeCriticised: "code_criticised",
  codeFinished: "code_finished",
  layerStart: "layer_start",
  layerComplete: "layer_complete",
  agentStart: "agent_start",
  agentComplete: "agent_complete",
  warning: "warning",
  pipelineComplete: "pipeline_complete",
  pipelineFailed: "pipeline_failed",
  pipelineCancelled: "pipeline_cancelled",
  sandboxRound: "sandbox_round",
  sandboxScored: "sandbox_scored",
  toolCalled: "tool_called",
  modeChanged: "mode_changed",
  workFinished: "work_finished",
  draftReady: "DRAFT_READY",
  draftAccepted: "DRAFT_ACCEPTED",
  draftRejected: "DRAFT_REJECTED",
  draftEscalated: "DRAFT_ESCALATED",
  draftUndone: "DRAFT_UNDONE",
  requested: "requested",
  decided: "decided",
  notApplied: "not_applied",
  undoing: "undoing",
  refused: "refused",
  told: "told",
  switched: "switched",
  expired: "expired",
  swept: "swept",
  logCompleted: "log_completed",
  logSetAside: "log_set_aside",
} as const;

/** Events that are not stored: the state at the start of a stream, and the output of a program while it runs. */
export const SNAPSHOT = "snapshot";
export const EXECUTION_OUTPUT = "execution_output";
