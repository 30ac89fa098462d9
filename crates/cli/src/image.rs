//! `assize image`: builds, lists and removes the images of containers and microVMs.

use std::path::PathBuf;

use assize_service::Services;
use assize_service::images::{Images, MICROVM, MicrovmSources};
use assize_types::{Failure, FailureKind};
use serde_json::json;

use crate::args::{ImageCommand, ImageKind};
use crate::terminal::{BOLD, DIM, note, out_json, out_line, paint, replace_control_chars};

pub(crate) async fn run(command: ImageCommand, services: &Services) -> Result<(), Failure> {
    let images = services.images()?;
    match command {
        ImageCommand::Build {
            kind: ImageKind::Microvm,
            from: None,
            kernel,
            modules,
            rootfs,
            quiet,
        } => {
            let typed =
                |path: Option<PathBuf>| path.map(|path| services.environment.resolve_path(&path));
            let (kernel, modules, rootfs) = (typed(kernel), typed(modules), typed(rootfs));
            build_microvm(&images, MicrovmSources { kernel, modules, rootfs }, quiet).await
        }
        ImageCommand::Build { kind: ImageKind::Microvm, from: Some(_), .. } => {
            Err(Failure::new(FailureKind::Usage, "`--from` works only for container images")
                .hint("a microVM image is built from `--kernel FILE` and `--rootfs TAR`"))
        }
        ImageCommand::Build { kernel, rootfs, .. } if kernel.is_some() || rootfs.is_some() => {
            let message = "`--kernel` and `--rootfs` work only for microVM images";
            Err(Failure::new(FailureKind::Usage, message).hint("use `assize image build microvm`"))
        }
        ImageCommand::Build { from: Some(image), .. } => out_line(&images.prepare(&image).await?),
        ImageCommand::Build { from: None, quiet, .. } => {
            let (name, bytes) = images.build_base(&mut progress_printer(quiet)).await?;
            if !quiet {
                let megabytes = bytes >> 20;
                note(&format!(
                    "built an image of {megabytes} MB; `assize exec --isolation docker` uses it"
                ));
            }
            out_line(&name)
        }
        ImageCommand::Ls { json } => show(&images, json).await,
        ImageCommand::Rm { names } => {
            for name in &names {
                images.remove(name).await?;
            }
            Ok(())
        }
    }
}

/// Creates a callback that prints the progress of a build unless `quiet`.
fn progress_printer(quiet: bool) -> impl FnMut(&str) + Send {
    move |line: &str| {
        if !quiet {
            note(&paint(DIM, replace_control_chars(line)));
        }
    }
}

async fn build_microvm(
    images: &Images,
    sources: MicrovmSources,
    quiet: bool,
) -> Result<(), Failure> {
    let image = images.build_microvm(sources, &mut progress_printer(quiet)).await?;
    if !quiet {
        note(&format!(
            "built an image of {} MB (kernel {}); `assize exec --isolation microvm` uses it; the first use boots a \
             microVM and creates its snapshot",
            image.bytes >> 20,
            replace_control_chars(&image.kernel)
        ));
        if let Some(missing) = images.missing_for_microvm() {
            let hint = missing.hint_text().map(|hint| format!(" ({hint})")).unwrap_or_default();
            note(&format!("microVMs cannot be started yet: {}{hint}", missing.message()));
        }
    }
    out_line(MICROVM)
}

async fn show(images: &Images, json: bool) -> Result<(), Failure> {
    let (images, why_no_containers) = images.list().await?;
    if let Some(why) = why_no_containers {
        note(&format!("cannot list container images: {why}"));
    }
    if json {
        return out_json(&json!(images));
    }
    if images.is_empty() {
        note("no images; build one with `assize image build` or `assize image build microvm`");
        return Ok(());
    }
    let width = images.iter().map(|image| image.name.len()).max().unwrap_or(0);
    out_line(&paint(BOLD, format!("{:<width$}  {:>7}  FROM", "IMAGE", "SIZE")))?;
    for image in &images {
        let from = image.from.as_deref().unwrap_or("packages");
        let used = if image.current { "  ← used" } else { "" };
        let megabytes = format!("{} MB", image.bytes >> 20);
        out_line(&format!(
            "{:<width$}  {megabytes:>7}  {}{used}",
            replace_control_chars(&image.name),
            replace_control_chars(from)
        ))?;
    }
    Ok(())
}
