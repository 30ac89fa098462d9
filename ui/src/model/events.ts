// Names of the events that the server sends. All other files of the page refer to an event by these constants.

/**
 * Names of the stored events of runs and workspaces. `EventSource` delivers an event only if a listener for its name
 * exists, so this list must be complete. `crates/server/tests/page_events.rs` compares the list with the events of the
 * server and with `docs/reference/events.md`.
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
  messagesDelivered: "messages_delivered",
  switched: "switched",
  expired: "expired",
  contentsDeleted: "contents_deleted",
  logCompleted: "log_completed",
  logSetAside: "log_set_aside",
} as const;

/** Name of the event that carries the current state at the start of each event stream. The event is not stored. */
export const SNAPSHOT = "snapshot";
/** Name of the event that carries output of a program while the program runs. The event is not stored. */
export const EXECUTION_OUTPUT = "execution_output";
