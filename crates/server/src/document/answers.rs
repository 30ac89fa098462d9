//! Schemas of what the routes answer. Each is the schema of the very type that is serialized, by schemars; utoipa
//! describes requests and parameters.

use std::borrow::Cow;

use assize_draft::SubmissionView;
use assize_draft::audit::Whole;
use assize_service::doctor::DoctorReport;
use assize_service::status::Status;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::api::drafts::{AuditLog, DraftView, OpenDrafts, Submissions, Workspaces};
use crate::api::files::{Artifacts, Files};
use crate::api::machine::{About, Attacks, Fine, Link, Sessions, Version};
use crate::api::runs::{Page, RunView, Scores};
use crate::api::sandboxes::{Folder, Ran, SandboxInfo, Sandboxes};
use crate::api::start::Likely;
use crate::api::tokens::{CreatedToken, TokenList};
use crate::kinds::Transcripts;
use crate::problem::Problem;

/// Makes routes refer to answers by name, and collects their schemas. Types of other crates, after the semicolon, are
/// named by `ref` at their routes.
macro_rules! answers {
    ($($own:ty),+; $($foreign:ty),+) => {
        $(
            impl PartialSchema for $own {
                fn schema() -> RefOr<Schema> {
                    Ref::from_schema_name(<$own as JsonSchema>::schema_name()).into()
                }
            }

            impl ToSchema for $own {
                fn name() -> Cow<'static, str> {
                    <$own as JsonSchema>::schema_name()
                }
            }
        )+

        /// Schemas of all answers and of what they consist of, by name.
        pub(super) fn schemas() -> Map<String, Value> {
            let mut settings = SchemaSettings::draft2020_12().for_serialize();
            settings.definitions_path = "/components/schemas".into();
            let mut generator = settings.into_generator();
            $(let _ = generator.subschema_for::<$own>();)+
            $(let _ = generator.subschema_for::<$foreign>();)+
            generator.take_definitions(true)
        }
    };
}

answers! {
    About, Artifacts, Attacks, AuditLog, CreatedToken, DraftView, Files, Fine, Folder, Likely, Link, OpenDrafts, Page,
    Problem, Ran, RunView, SandboxInfo, Sandboxes, Scores, Sessions, Submissions, TokenList, Transcripts, Version,
    Workspaces;
    assize_draft::Cleared, Status, DoctorReport, SubmissionView, Whole
}
