//! `assize image`: what containers and machines are made from.

use std::path::PathBuf;

use assize_config::{Environment, Settings};
use assize_sandbox::docker::{Docker, ImageInfo};
use assize_sandbox::microvm::{Microvm, Sources};
use assize_sandbox::{Sandboxes, rootfs};
use assize_types::{Failure, FailureKind};
use serde_json::json;

use crate::args::{ImageCommand, ImageFor};
use crate::terminal::{BOLD, DIM, harmless, note, out_json, out_line, paint};

/// The name of the one image that machines are made from.
const MICROVM: &str = "microvm";

pub(crate) async fn run(
    command: ImageCommand,
    config: &Settings,
    around: &Environment,
) -> Result<(), Failure> {
    config.refuse_withheld()?;
    let sandboxes = Sandboxes::new(config, around);
    let (docker, microvm) = (sandboxes.docker(), sandboxes.microvm());
    match command {
        ImageCommand::Build {
            kind: ImageFor::Microvm,
            from: None,
            kernel,
            modules,
            rootfs,
            quiet,
        } => {
            let typed = |path: Option<PathBuf>| path.map(|path| around.typed(&path));
            let sources =
                Sources { kernel: typed(kernel), modules: typed(modules), rootfs: typed(rootfs) };
            build_microvm(&microvm, sources, quiet).await
        }
        ImageCommand::Build { kind: ImageFor::Microvm, from: Some(_), .. } => {
            Err(Failure::new(FailureKind::Usage, "`--from` is for containers")
                .hint("a machine is made from `--kernel FILE` and `--rootfs TAR`"))
        }
        ImageCommand::Build { kernel, rootfs, .. } if kernel.is_some() || rootfs.is_some() => {
            Err(Failure::new(FailureKind::Usage, "`--kernel` and `--rootfs` are for machines")
                .hint("say `assize image build microvm`"))
        }
        ImageCommand::Build { from: Some(image), .. } => {
            out_line(&docker.make_ready(&image).await?)
        }
        ImageCommand::Build { from: None, quiet, .. } => build(&docker, around, quiet).await,
        ImageCommand::Ls { json } => list(&docker, &microvm, json).await,
        ImageCommand::Rm { names } => {
            for name in &names {
                match name.as_str() {
                    MICROVM => remove_microvm(&microvm)?,
                    name => docker.remove_image(name).await?,
                }
            }
            Ok(())
        }
    }
}

/// Tells how it goes, unless nobody wants to know.
fn telling(quiet: bool) -> impl FnMut(&str) + Send {
    move |line: &str| {
        if !quiet {
            note(&paint(DIM, harmless(line)));
        }
    }
}

async fn build(docker: &Docker, around: &Environment, quiet: bool) -> Result<(), Failure> {
    // Before the work, not after it.
    docker.probe().await?;
    let folder = &around.cache_folder;
    std::fs::create_dir_all(folder).map_err(|error| {
        let message = format!("cannot make `{}`: {error}", folder.display());
        Failure::new(FailureKind::Environment, message)
    })?;
    let archive = folder.join("rootfs.tar");
    let mut progress = telling(quiet);
    rootfs::build(&archive, &mut progress).await?;
    let image = docker.import_base(&archive, &mut progress).await?;
    if !quiet {
        note(&format!("{} MB; `assize exec --isolation docker` uses it", image.bytes >> 20));
    }
    out_line(&image.name)
}

async fn build_microvm(microvm: &Microvm, sources: Sources, quiet: bool) -> Result<(), Failure> {
    let image = microvm.build_image(sources, &mut telling(quiet)).await?;
    if !quiet {
        note(&format!(
            "{} MB ({}); `assize exec --isolation microvm` uses it, and the first time starts a machine and \
             freezes it",
            image.bytes >> 20,
            harmless(&image.kernel)
        ));
        if let Err(error) = microvm.is_ready() {
            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
            note(&format!("still missing: {error}{hint}"));
        }
    }
    out_line(MICROVM)
}

fn remove_microvm(microvm: &Microvm) -> Result<(), Failure> {
    if microvm.remove_image()? {
        return Ok(());
    }
    Err(Failure::new(FailureKind::Usage, "there is no image for machines")
        .hint("`assize image ls` shows those there are"))
}

async fn list(docker: &Docker, microvm: &Microvm, json: bool) -> Result<(), Failure> {
    let own = microvm.image().map(|image| ImageInfo {
        name: MICROVM.to_owned(),
        id: image.digest,
        bytes: image.bytes,
        created: image.created.cast_signed(),
        from: Some(image.kernel),
        guest: None,
        current: true,
    });
    let mut images = match docker.images().await {
        Ok(images) => images,
        // Without an engine, there are still machines.
        Err(error) if own.is_some() => {
            note(&format!("images of containers are not to be seen: {error}"));
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    images.extend(own);
    show(&images, json)
}

fn show(images: &[ImageInfo], json: bool) -> Result<(), Failure> {
    if json {
        return out_json(&json!(images));
    }
    if images.is_empty() {
        note(
            "there are no images; make one with `assize image build` or `assize image build microvm`",
        );
        return Ok(());
    }
    let width = images.iter().map(|image| image.name.len()).max().unwrap_or(0);
    out_line(&paint(BOLD, format!("{:<width$}  {:>7}  FROM", "IMAGE", "SIZE")))?;
    for image in images {
        let from = image.from.as_deref().unwrap_or("packages");
        let used = if image.current { "  ← used" } else { "" };
        let megabytes = format!("{} MB", image.bytes >> 20);
        out_line(&format!(
            "{:<width$}  {megabytes:>7}  {}{used}",
            harmless(&image.name),
            harmless(from)
        ))?;
    }
    Ok(())
}
