//! Read tools of Assize's own agent: list and read files of the workspace.

use std::sync::Arc;

use assize_llm::{Schema, ToolDefinition as Offered};
use assize_workspace::{PathKind, WorkspacePath};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::service::{DraftError, DraftService, file_error, invalid_request};
use crate::tools::{self, DraftToolError};
use crate::transaction::Transaction;

pub(crate) const LIST: &str = "list_files";
pub(crate) const READ: &str = "read_file";

/// Maximum number of files that the tool `list_files` returns.
const MAX_FILES: usize = 1000;

/// Names of folders with generated or installed files, which are not listed.
const GENERATED: [&str; 6] = ["node_modules", "target", "__pycache__", ".venv", "dist", "build"];

/// Whether a path is listed: a file, or a folder whose files are listed. Links are not listed, nor are the folders in
/// [`GENERATED`].
fn is_listed(path: &WorkspacePath, kind: PathKind) -> bool {
    match kind {
        PathKind::File => true,
        PathKind::Folder => !GENERATED.contains(&path.name()),
        PathKind::Link => false,
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ListFiles {
    /// The folder to list (such as `src`); if it is left out, the whole workspace.
    #[serde(default)]
    folder: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ReadFile {
    /// The file, from the workspace's folder, such as `src/main.py`.
    path: String,
}

/// Returns the definitions of all tools that the model may call.
pub(crate) fn tool_definitions() -> Vec<Offered> {
    let tool = |name: &str, description: &str, parameters: Value| Offered {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters,
    };
    let own = [
        tool(LIST, "Lists the files of the workspace.", Schema::of::<ListFiles>().value),
        tool(
            READ,
            "Returns the content of a file of the workspace. To change a file, ask for a draft.",
            Schema::of::<ReadFile>().value,
        ),
    ];
    let drafts = tools::all();
    own.into_iter()
        .chain(drafts.into_iter().map(|draft| tool(draft.name, draft.description, draft.input)))
        .collect()
}

impl DraftService {
    /// Executes a call of a read tool.
    pub(crate) async fn call_read_tool(
        self: &Arc<Self>,
        by: &str,
        name: &str,
        arguments: &Value,
    ) -> Result<Value, DraftToolError> {
        let mut transaction = self.begin_if_on().await?;
        if name == LIST {
            let input: ListFiles = tools::read(name, arguments)?;
            return Ok(transaction.list_files(by, input.folder.as_deref()).await?);
        }
        let input: ReadFile = tools::read(name, arguments)?;
        let content = transaction.read_visible_file(by, &input.path).await?.ok_or_else(|| {
            let path = assize_types::text::shorten(&input.path, 200);
            invalid_request(format!("there is no file `{path}`; `{LIST}` lists the files"))
        })?;
        Ok(json!({"content": content, "line_count": content.lines().count()}))
    }

    /// Reads a file of the workspace as text; `None` if it does not exist.
    ///
    /// # Errors
    /// If the file is hidden from agents or is not text.
    pub async fn read_visible_file(
        self: &Arc<Self>,
        by: &str,
        path: &str,
    ) -> Result<Option<String>, DraftError> {
        self.begin().await?.read_visible_file(by, path).await
    }

    /// Returns the files that the text of a task mentions by path, or by a file name that only one file has.
    pub async fn files_named_in(self: &Arc<Self>, task: &str) -> Result<Vec<String>, DraftError> {
        let (_, places) = self.begin().await?.policy()?;
        let include =
            |path: &WorkspacePath, kind: PathKind| is_listed(path, kind) && !places.is_hidden(path);
        let found = self.workspace.walk(100_000, &include).map_err(file_error("the workspace"))?;
        let words: Vec<&str> = task
            .split(|c: char| c.is_whitespace() || "`'\"(),;:".contains(c))
            .map(|word| word.trim_end_matches(['.', '?', '!']).trim_start_matches("./"))
            .filter(|word| word.contains('.') || word.contains('/'))
            .collect();
        let paths: Vec<String> = found.files.iter().map(|(path, _)| path.to_string()).collect();
        let mut named = Vec::new();
        for word in words {
            let exact = paths.iter().find(|path| *path == word);
            let file = exact.or_else(|| {
                let mut of_name = found
                    .files
                    .iter()
                    .zip(&paths)
                    .filter(|((path, _), _)| path.name() == word)
                    .map(|(_, path)| path);
                of_name.next().filter(|_| of_name.next().is_none())
            });
            if let Some(file) = file
                && !named.contains(file)
            {
                named.push(file.clone());
            }
        }
        Ok(named)
    }
}

impl Transaction {
    async fn list_files(mut self, by: &str, folder: Option<&str>) -> Result<Value, DraftError> {
        let (policy, places) = self.policy()?;
        let service = Arc::clone(&self.service);
        let within = match folder.map(str::trim).filter(|f| !matches!(*f, "" | "." | "./" | "/")) {
            None => None,
            Some(text) => match service.workspace.parse_path(text) {
                Ok(inside) => Some(inside.to_string()),
                Err(error) => {
                    return Err(self.refuse(by, LIST, None, text, error.to_string()).await);
                }
            },
        };
        // Release the workspace lock, because listing many files takes long.
        drop(self);
        let include = |path: &WorkspacePath, kind: PathKind| {
            let text = path.to_string();
            let in_folder = within.as_ref().is_none_or(|within| {
                text == *within
                    || text.starts_with(&format!("{within}/"))
                    || within.starts_with(&format!("{text}/"))
            });
            in_folder && is_listed(path, kind) && !places.is_hidden(path)
        };
        let found =
            service.workspace.walk(MAX_FILES, &include).map_err(file_error("the workspace"))?;
        let files: Vec<String> = found.files.iter().map(|(path, _)| path.to_string()).collect();
        let mut answer = json!({"files": files});
        if found.truncated {
            answer["note"] =
                json!(format!("only the first {MAX_FILES} files; name a folder to see more"));
        }
        if let Some(allowed) = &policy.allowed {
            answer["may_be_changed"] = json!(allowed);
        }
        Ok(answer)
    }

    async fn read_visible_file(
        &mut self,
        by: &str,
        path: &str,
    ) -> Result<Option<String>, DraftError> {
        let (policy, places) = self.policy()?;
        let found = self
            .visible_path(path, &places)
            .and_then(|inside| self.visible_file(&inside, &policy, &places));
        match found {
            Ok(original) => Ok(original.map(|o| String::from_utf8_lossy(&o.bytes).into_owned())),
            Err(DraftError::PathRefused(why)) => Err(self.refuse(by, READ, None, path, why).await),
            Err(error) => Err(error),
        }
    }
}
