//! Tests of the collection of files that a program created in a sandbox.

use std::collections::BTreeSet;

use assize_config::Isolation;
use assize_sandbox::WORKSPACE;

use crate::bench::{Bench, run};

#[tokio::test(flavor = "multi_thread")]
async fn collected_files_are_limited_and_skipped_files_are_reported() {
    run(Isolation::Jail, |bench: Bench| async move {
        let sandbox = bench.sandbox().await;
        for (name, size) in [("small.txt", 10), ("large.bin", 5000)] {
            let path = format!("{WORKSPACE}/{name}");
            sandbox.write(&path, &vec![b'x'; size]).await.unwrap();
        }
        let harvest = sandbox.harvest_at_most(WORKSPACE, &BTreeSet::new(), 1000).await;
        assert_eq!(harvest.files, [("small.txt".to_owned(), vec![b'x'; 10])]);
        assert_eq!(harvest.left(), ["`large.bin` was not copied: the file is too large"]);
        let whole = sandbox.harvest(WORKSPACE, &BTreeSet::new()).await.unwrap();
        assert_eq!(whole.files.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn file_collection_from_an_ended_sandbox_reports_the_error() {
    run(Isolation::Jail, |bench: Bench| async move {
        let sandbox = bench.sandbox().await;
        sandbox.write(&format!("{WORKSPACE}/small.txt"), b"x").await.unwrap();
        sandbox.end().await;
        let harvest = sandbox.harvest_at_most(WORKSPACE, &BTreeSet::new(), 1000).await;
        assert!(harvest.files.is_empty());
        let left = harvest.left().join("\n");
        assert!(
            left.starts_with("`/workspace` was not copied: cannot read the remaining files: "),
            "{left}"
        );
    })
    .await;
}
