//! The five log lines of an agent workflow, with their fields.
//!
//! All log lines are defined here, so that every kind of run logs the same messages and fields, and one test checks
//! them.

use std::time::Duration;

use tracing::info;

use crate::text::head;

/// Maximum number of characters of a task in a log line. A longer task is truncated.
const TASK_CHARS: usize = 100;

/// Logs that an agent starts to work on a task.
pub fn workflow_started(task: &str, provider: &str) {
    info!(task = head(task, TASK_CHARS), provider, "Agent workflow started");
}

/// Logs that a model has generated code.
pub fn code_generated(task: &str, code: &str, confidence: f64, provider: &str) {
    let code_lines = code.lines().count();
    info!(task = head(task, TASK_CHARS), code_lines, confidence, provider, "Code generated");
}

/// Logs that a sandbox starts to run the code.
pub fn execution_started(container_id: &str) {
    info!(container_id, "Sandbox execution started");
}

/// Logs that the program in the sandbox has exited.
pub fn execution_complete(exit_code: i32, duration: Duration) {
    info!(exit_code, duration_ms = duration.as_millis() as u64, "Execution complete");
}

/// Logs that the agent has finished its work on a task, successfully or not.
pub fn workflow_completed(success: bool, attempts: u32) {
    info!(success, attempts, "Agent workflow completed");
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn workflow_log_lines_have_the_expected_messages_and_fields() {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .without_time()
            .with_target(false)
            .flatten_event(true)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let long = "é".repeat(250);
            workflow_started(&long, "groq");
            code_generated("Calculate fibonacci(10)", "a\nb\nc", 0.95, "groq");
            execution_started("abc123");
            execution_complete(0, Duration::from_millis(134));
            workflow_completed(true, 1);
        });
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let cut = "é".repeat(100);
        let expected = serde_json::json!([
            {"level":"INFO","message":"Agent workflow started","task":cut,"provider":"groq"},
            {"level":"INFO","message":"Code generated","task":"Calculate fibonacci(10)","code_lines":3,
             "confidence":0.95,"provider":"groq"},
            {"level":"INFO","message":"Sandbox execution started","container_id":"abc123"},
            {"level":"INFO","message":"Execution complete","exit_code":0,"duration_ms":134},
            {"level":"INFO","message":"Agent workflow completed","success":true,"attempts":1},
        ]);
        assert_eq!(serde_json::Value::Array(lines), expected);
    }
}
