//! MCP tool that runs code. Its MCP server is separate from that of the draft tools, because agents that edit files
//! must not run code.

use std::borrow::Cow;
use std::sync::Arc;

use assize_code::{InputFile, Language, exec};
use assize_config::SettingKey;
use assize_service::Services;
use assize_types::text::{one_line, shorten};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::api::start_bodies::LanguageName;
use crate::tools::returned_files::{ReturnedFile, ReturnedFiles};
use crate::tools::server::{ToolCallError, ToolServer, ToolSet, object};

pub(crate) const RUN_CODE: &str = "run_code";

/// Maximum number of bytes of standard output, and of standard error, that the tool returns. The limit is low because
/// models read the output.
const MAX_OUTPUT: usize = 64 << 10;

/// Maximum number of programs that run concurrently.
const MAX_RUNNING: usize = 4;

/// Maximum number of programs that wait to be run; further calls of the tool are refused.
const MAX_QUEUED: usize = 32;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunCode {
    /// The whole program. It starts in /workspace and may write there and in /tmp.
    code: String,
    /// Language of the program: `python`, `bash` or `javascript`.
    #[serde(default)]
    language: LanguageName,
    /// Standard input of the program.
    #[serde(default)]
    stdin: Option<String>,
    /// Text files to place in /workspace.
    #[serde(default)]
    files: Vec<TextFile>,
    /// Timeout in seconds, at most what the operator allows.
    #[serde(default)]
    timeout_seconds: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextFile {
    /// Relative path, such as `data/prices.csv`.
    name: String,
    text: String,
}

/// Outcome of a program.
#[derive(Debug, Serialize, JsonSchema)]
struct RunCodeResult {
    /// Whether the program exited with code 0 and was not stopped.
    success: bool,
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    out_of_memory: bool,
    /// Standard output; long output is truncated at the end.
    stdout: String,
    stderr: String,
    /// Whether standard output or standard error is truncated.
    output_cut: bool,
    duration_ms: f64,
    /// Backend of the sandbox, followed by the reason why this backend was chosen.
    isolation: String,
    /// Files that the program left in /workspace. The tool result contains them as images and embedded resources, in
    /// this order.
    files: Vec<ReturnedFile>,
    /// Files that the program left in /workspace but that the tool result omits, each with the reason.
    files_left_out: Vec<String>,
}

/// The MCP tool that runs code, with its concurrency limit.
#[derive(Debug, Clone)]
pub struct CodeTools {
    services: Arc<Services>,
    /// Limits the number of running programs.
    running: Arc<Semaphore>,
    /// Limits the number of running and queued programs together.
    admitted: Arc<Semaphore>,
}

/// MCP server that offers the tool that runs code.
pub type CodeServer = ToolServer<CodeTools>;

impl CodeServer {
    pub fn new(services: Services) -> CodeServer {
        ToolServer(CodeTools {
            services: Arc::new(services),
            running: Arc::new(Semaphore::new(MAX_RUNNING)),
            admitted: Arc::new(Semaphore::new(MAX_RUNNING + MAX_QUEUED)),
        })
    }
}

impl CodeTools {
    /// Runs a program in a sandbox. An error is a message for the model, with a hint.
    async fn run_code(&self, arguments: Value) -> Result<CallToolResult, String> {
        let call: RunCode = serde_json::from_value(arguments)
            .map_err(|error| format!("invalid arguments: {error}"))?;
        if call.code.trim().is_empty() {
            return Err("`code` is empty: send the whole program".to_owned());
        }
        let message = |failure: assize_types::Failure| failure.render();
        let seconds =
            call.timeout_seconds.map(|seconds| (SettingKey::SandboxTimeout, seconds.to_string()));
        let config = self.services.settings.with_request(seconds.as_slice()).map_err(message)?;
        let sandboxes = self.services.with_settings(config).sandboxes();
        let mut inputs = Vec::new();
        for TextFile { name, text } in call.files {
            inputs.push(InputFile { name, bytes: text.into_bytes().into() });
        }
        let ask = exec::CodeExecRequest {
            code: call.code,
            language: match call.language {
                LanguageName::Python => Language::Python,
                LanguageName::Bash => Language::Bash,
                LanguageName::JavaScript => Language::JavaScript,
            },
            arguments: Vec::new(),
            env: std::collections::BTreeMap::new(),
            inputs,
            packages: Vec::new(),
            image: None,
        };
        let full = "too many programs are queued on this server: call again in a moment";
        let _admitted = self.admitted.try_acquire().map_err(|_| full.to_owned())?;
        let _running = self.running.acquire().await.map_err(|error| error.to_string())?;
        let ran = exec::run(ask, call.stdin, true, &sandboxes).await.map_err(message)?;
        let exec::CodeExecOutput { finished, isolation, files, not_collected } = ran;
        let ReturnedFiles { files, content, left_out } = ReturnedFiles::of(files, not_collected);
        let outcome = &finished.outcome;
        let (stdout, cut_out) = readable(&finished.stdout);
        let (stderr, cut_err) = readable(&finished.stderr);
        let mut result = CallToolResult::structured(json!(RunCodeResult {
            success: outcome.success(),
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            timed_out: outcome.timed_out,
            out_of_memory: outcome.out_of_memory,
            stdout,
            stderr,
            output_cut: outcome.output_cut || cut_out || cut_err,
            duration_ms: outcome.duration.as_secs_f64() * 1e3,
            isolation,
            files,
            files_left_out: left_out,
        }));
        result.content.extend(content);
        Ok(result)
    }
}

/// Truncates the output of a program to [`MAX_OUTPUT`] bytes. Also returns whether the output was longer.
fn readable(bytes: &[u8]) -> (String, bool) {
    let cut = bytes.len() > MAX_OUTPUT;
    let kept = &bytes[..bytes.len().min(MAX_OUTPUT)];
    (String::from_utf8_lossy(kept).into_owned(), cut)
}

impl ToolSet for CodeTools {
    const INSTRUCTIONS: &'static str = "Each program runs in a new sandbox: no network, only the files that you \
        pass, and limits on time, memory and output. Nothing is kept between calls.";

    async fn list(&self) -> Result<Vec<Tool>, ErrorData> {
        let description = "Runs a program in a new sandbox, and returns its output and how it ended. Print what you want \
            to know. Files and images that the program writes to /workspace are returned. A failed program is not a \
            tool error: read `stderr`, fix the program and run it again.";
        // The tool counts as read-only, because the sandbox and its files are deleted after the call.
        let hints =
            ToolAnnotations::from_raw(None, Some(true), Some(false), Some(false), Some(false));
        let tool = Tool::new(RUN_CODE, Cow::Borrowed(description), schema::<RunCode>())
            .with_raw_output_schema(schema::<RunCodeResult>())
            .with_annotations(hints);
        Ok(vec![tool])
    }

    async fn call(
        &self,
        _: &str,
        tool: &str,
        arguments: Value,
    ) -> Result<CallToolResult, ToolCallError> {
        match tool {
            RUN_CODE => self.run_code(arguments).await.map_err(ToolCallError::Failed),
            other => {
                let other = shorten(&one_line(other), 100);
                let message = format!("unknown tool `{other}`: the only tool is `{RUN_CODE}`");
                Err(ToolCallError::UnknownTool(message))
            }
        }
    }
}

/// JSON schema of a type, with all references inlined.
fn schema<T: JsonSchema>() -> Arc<JsonObject> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    object(settings.into_generator().into_root_schema_for::<T>().to_value())
}
