//! Tests of the collection of files that a program created in a sandbox.

use std::collections::BTreeSet;

use assize_config::Isolation;
use assize_sandbox::WORKSPACE;

use crate::bench::{Bench, run};

#[tokio::test(flavor = "multi_thread")]
async fn total_size_of_collected_files_is_limited_and_skipped_files_are_reported() {
    run(Isolation::Jail, |bench: Bench| async move {
        let sandbox = bench.sandbox().await;
        for (name, size) in [("small.txt", 10), ("large.bin", 5000)] {
            let path = format!("{WORKSPACE}/{name}");
            sandbox.write(&path, &vec![b'x'; size]).await.unwrap();
        }
        let harvest = sandbox.collect_files_up_to(WORKSPACE, &BTreeSet::new(), 1000).await;
        assert_eq!(harvest.files, [("small.txt".to_owned(), vec![b'x'; 10])]);
        assert_eq!(
            harvest.skipped_messages(),
            ["`large.bin` was not copied: the total size of copied files would exceed the limit"]
        );
        let whole = sandbox.collect_files(WORKSPACE, &BTreeSet::new()).await.unwrap();
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
        let harvest = sandbox.collect_files_up_to(WORKSPACE, &BTreeSet::new(), 1000).await;
        assert!(harvest.files.is_empty());
        let left = harvest.skipped_messages().join("\n");
        assert!(
            left.starts_with("`/workspace` was not copied: cannot read the remaining files: "),
            "{left}"
        );
    })
    .await;
}
