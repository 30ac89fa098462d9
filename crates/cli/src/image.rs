//! `assize image`: what containers are made from.

use assize_sandbox::docker::{Docker, ImageInfo};
use assize_sandbox::rootfs;
use serde_json::json;

use crate::args::ImageCommand;
use crate::config::{Config, Surroundings};
use crate::failure::{Failure, FailureKind};
use crate::terminal::{BOLD, DIM, harmless, note, out_json, out_line, paint};
use crate::walls;

pub(crate) async fn run(
    command: ImageCommand,
    config: &Config,
    around: &Surroundings,
) -> Result<(), Failure> {
    config.refuse_withheld()?;
    let docker = walls::docker(config, around);
    match command {
        ImageCommand::Build { from: Some(image), .. } => {
            out_line(&docker.make_ready(&image).await?)
        }
        ImageCommand::Build { from: None, quiet } => build(&docker, around, quiet).await,
        ImageCommand::Ls { json } => show(&docker.images().await?, json),
        ImageCommand::Rm { names } => {
            for name in &names {
                docker.remove_image(name).await?;
            }
            Ok(())
        }
    }
}

async fn build(docker: &Docker, around: &Surroundings, quiet: bool) -> Result<(), Failure> {
    // Before the work, not after it.
    docker.probe().await?;
    let folder = &around.cache_folder;
    std::fs::create_dir_all(folder).map_err(|error| {
        let message = format!("cannot make `{}`: {error}", folder.display());
        Failure::new(FailureKind::Environment, message)
    })?;
    let archive = folder.join("rootfs.tar");
    let mut progress = |line: &str| {
        if !quiet {
            note(&paint(DIM, harmless(line)));
        }
    };
    rootfs::build(&archive, &mut progress).await?;
    let image = docker.import_base(&archive, &mut progress).await?;
    if !quiet {
        note(&format!("{} MB; `assize exec --isolation docker` uses it", image.bytes >> 20));
    }
    out_line(&image.name)
}

fn show(images: &[ImageInfo], json: bool) -> Result<(), Failure> {
    if json {
        return out_json(&json!(images));
    }
    if images.is_empty() {
        note("there are no images; make one with `assize image build`");
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
