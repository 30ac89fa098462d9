//! The tool that runs code. It is offered apart from the draft tools: whoever drafts must not be able to execute.

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

use crate::api::asks::LanguageName;
use crate::tools::left::{LeftFile, Returned};
use crate::tools::server::{CallError, ToolServer, Tools, object};

pub(crate) const RUN_CODE: &str = "run_code";

/// Bytes of each output that are returned at most: models read it.
const LONGEST_OUTPUT: usize = 64 << 10;

/// Programs that run at once, and those that wait for their turn; there are no more.
const AT_ONCE: usize = 4;
const WAITING: usize = 32;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunCode {
    /// The whole program. It starts in /workspace and may write there and in /tmp.
    code: String,
    /// What it is written in: `python`, `bash` or `javascript`.
    #[serde(default)]
    language: LanguageName,
    /// What it reads from its standard input.
    #[serde(default)]
    stdin: Option<String>,
    /// Files that it finds in /workspace, as text.
    #[serde(default)]
    files: Vec<TextFile>,
    /// Seconds that it may take; no more than the operator allows.
    #[serde(default)]
    timeout_seconds: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextFile {
    /// Its name, such as `data/prices.csv`.
    name: String,
    text: String,
}

/// How a program went.
#[derive(Debug, Serialize, JsonSchema)]
struct Ran {
    /// Whether it ended by itself with exit code 0.
    success: bool,
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    out_of_memory: bool,
    /// What it wrote. Of much output only the beginning is given.
    stdout: String,
    stderr: String,
    /// Whether something of its output is missing here.
    output_cut: bool,
    duration_ms: f64,
    /// Which walls stood around it.
    isolation: String,
    /// Files that it left in /workspace: they follow as images and embedded resources, in this order.
    files: Vec<LeftFile>,
    /// Files that it left and that are not returned, and why.
    files_left_out: Vec<String>,
}

/// Tool that runs code, and its concurrency limit.
#[derive(Debug, Clone)]
pub struct CodeTools {
    services: Arc<Services>,
    turns: Arc<Semaphore>,
    line: Arc<Semaphore>,
}

/// MCP server of the tool that runs code.
pub type CodeServer = ToolServer<CodeTools>;

impl CodeServer {
    pub fn new(services: Services) -> CodeServer {
        ToolServer(CodeTools {
            services: Arc::new(services),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            line: Arc::new(Semaphore::new(AT_ONCE + WAITING)),
        })
    }
}

impl CodeTools {
    /// Runs a program. The message of a failure tells the model what to do.
    async fn run_code(&self, arguments: Value) -> Result<CallToolResult, String> {
        let call: RunCode = serde_json::from_value(arguments)
            .map_err(|error| format!("these arguments cannot be used: {error}"))?;
        if call.code.trim().is_empty() {
            return Err("`code` is empty: send the whole program".to_owned());
        }
        let told = |failure: assize_types::Failure| failure.render();
        let seconds =
            call.timeout_seconds.map(|seconds| (SettingKey::SandboxTimeout, seconds.to_string()));
        let config = self.services.settings.with_request(seconds.as_slice()).map_err(told)?;
        let sandboxes = self.services.with_settings(config).sandboxes();
        let mut inputs = Vec::new();
        for TextFile { name, text } in call.files {
            inputs.push(InputFile { name, bytes: text.into_bytes().into() });
        }
        let ask = exec::Ask {
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
        let full = "too many programs wait to be run here: call again in a moment";
        let _place = self.line.try_acquire().map_err(|_| full.to_owned())?;
        let _turn = self.turns.acquire().await.map_err(|error| error.to_string())?;
        let ran = exec::run(ask, call.stdin, true, &sandboxes).await.map_err(told)?;
        let exec::Ran { finished, isolation, files, not_taken } = ran;
        let Returned { files, content, left_out } = Returned::of(files, not_taken);
        let outcome = &finished.outcome;
        let (stdout, cut_out) = readable(&finished.stdout);
        let (stderr, cut_err) = readable(&finished.stderr);
        let mut result = CallToolResult::structured(json!(Ran {
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

/// The beginning of an output, and whether there is more.
fn readable(bytes: &[u8]) -> (String, bool) {
    let cut = bytes.len() > LONGEST_OUTPUT;
    let kept = &bytes[..bytes.len().min(LONGEST_OUTPUT)];
    (String::from_utf8_lossy(kept).into_owned(), cut)
}

impl Tools for CodeTools {
    const INSTRUCTIONS: &'static str = "Code is run in a fresh sandbox: no network, no files but those you give, \
        limits on time, memory and output. Nothing is kept from one call to the next.";

    async fn list(&self) -> Result<Vec<Tool>, ErrorData> {
        let description = "Runs a program in a fresh sandbox and returns what it wrote and how it ended. Print what \
            you want to know; files and images that it leaves in /workspace are returned. A program that fails is no error of the tool: read `stderr`, mend it, and run it again.";
        // It changes nothing that outlives it.
        let hints =
            ToolAnnotations::from_raw(None, Some(true), Some(false), Some(false), Some(false));
        let tool = Tool::new(RUN_CODE, Cow::Borrowed(description), schema::<RunCode>())
            .with_raw_output_schema(schema::<Ran>())
            .with_annotations(hints);
        Ok(vec![tool])
    }

    async fn call(
        &self,
        _: &str,
        tool: &str,
        arguments: Value,
    ) -> Result<CallToolResult, CallError> {
        match tool {
            RUN_CODE => self.run_code(arguments).await.map_err(CallError::Failed),
            other => {
                let other = shorten(&one_line(other), 100);
                let message = format!("there is no tool `{other}`: there is `{RUN_CODE}`");
                Err(CallError::UnknownTool(message))
            }
        }
    }
}

/// The schema of a type, with nothing left to look up by reference.
fn schema<T: JsonSchema>() -> Arc<JsonObject> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    object(settings.into_generator().into_root_schema_for::<T>().to_value())
}
