//! Schemas of responses. schemars derives them from the types that the server serializes. The schemas of requests and
//! parameters come from utoipa.

use std::borrow::Cow;

use assize_draft::SubmissionView;
use assize_draft::audit::LogCheck;
use assize_service::doctor::DoctorReport;
use assize_service::status::ClusterStatus;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::api::drafts::{AuditLog, DraftView, OpenDrafts, SubmissionList, WorkspaceList};
use crate::api::files::{Artifacts, FileList};
use crate::api::machine::{
    HealthView, ScorecardList, ServerInfo, SessionList, SignInLink, VersionInfo,
};
use crate::api::runs::{RunPage, RunView, Scores};
use crate::api::sandboxes::{ExecResult, FolderListing, SandboxInfo, SandboxList};
use crate::api::start::EstimateView;
use crate::api::tokens::{CreatedToken, TokenList};
use crate::kinds::Transcripts;
use crate::problem::Problem;

/// Implements utoipa's schema traits for the listed response types, so that routes can refer to these types by schema
/// name. Also defines a function that returns the schemas of all listed types. The types after the semicolon belong to
/// other crates; routes refer to these types with `ref`.
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

        /// Schemas of all response types and of the types that responses contain, by schema name.
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
    ServerInfo, Artifacts, ScorecardList, AuditLog, CreatedToken, DraftView, FileList, HealthView, FolderListing, EstimateView, SignInLink, OpenDrafts, RunPage,
    Problem, ExecResult, RunView, SandboxInfo, SandboxList, Scores, SessionList, SubmissionList, TokenList, Transcripts, VersionInfo,
    WorkspaceList;
    assize_draft::SweepResult, ClusterStatus, DoctorReport, SubmissionView, LogCheck
}
