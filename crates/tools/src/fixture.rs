//! A scratch workspace for tests.

use std::path::Path;
use std::sync::Arc;

use orrery_agent::tool::{Access, Tool, ToolContext, ToolError, ToolOutput};
use orrery_session::{CallId, ContentBlock, Json};
use tokio_util::sync::CancellationToken;

pub(crate) struct Workspace {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) cancel: CancellationToken,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            cancel: CancellationToken::new(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.path().join(path)).unwrap()
    }

    pub(crate) async fn run(
        &self,
        tool: impl Tool,
        arguments: serde_json::Value,
    ) -> Result<ToolOutput, ToolError> {
        let cx = ToolContext {
            call_id: CallId::new("c").unwrap(),
            session: orrery_session::SessionId::new("s").unwrap(),
            cwd: Arc::from(self.path()),
            cancel: self.cancel.clone(),
        };
        tool.run(Json::from_value(&arguments).unwrap(), cx).await
    }

    pub(crate) async fn text(&self, tool: impl Tool, arguments: serde_json::Value) -> String {
        text(&self.run(tool, arguments).await.unwrap())
    }

    pub(crate) async fn code(&self, tool: impl Tool, arguments: serde_json::Value) -> &'static str {
        self.run(tool, arguments).await.unwrap_err().code()
    }

    pub(crate) fn access(
        &self,
        tool: &dyn Tool,
        arguments: impl Into<serde_json::Value>,
    ) -> Access {
        let arguments = Json::from_value(&arguments.into()).unwrap();
        tool.access(&arguments, self.path()).unwrap()
    }
}

pub(crate) fn text(output: &ToolOutput) -> String {
    let texts = output.content.iter().filter_map(ContentBlock::as_text);
    texts.collect()
}

pub(crate) fn meta(output: &ToolOutput) -> serde_json::Value {
    output.meta.as_ref().unwrap().parse().unwrap()
}
