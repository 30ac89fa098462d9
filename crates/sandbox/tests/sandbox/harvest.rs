//! Tests of collecting the files that a program left.

use std::collections::BTreeSet;

use assize_config::Isolation;
use assize_sandbox::WORKSPACE;

use crate::bench::{Bench, run};

#[tokio::test(flavor = "multi_thread")]
async fn collected_files_are_limited_and_the_rest_is_named() {
    run(Isolation::Jail, |bench: Bench| async move {
        let sandbox = bench.sandbox().await;
        for (name, size) in [("small.txt", 10), ("large.bin", 5000)] {
            let path = format!("{WORKSPACE}/{name}");
            sandbox.write(&path, &vec![b'x'; size]).await.unwrap();
        }
        let harvest = sandbox.harvest_at_most(WORKSPACE, &BTreeSet::new(), 1000).await;
        assert_eq!(harvest.files, [("small.txt".to_owned(), vec![b'x'; 10])]);
        assert_eq!(harvest.left(), ["`large.bin` was not copied: it is too large"]);
        let whole = sandbox.harvest(WORKSPACE, &BTreeSet::new()).await.unwrap();
        assert_eq!(whole.files.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_sandbox_is_reported_instead_of_its_files() {
    run(Isolation::Jail, |bench: Bench| async move {
        let sandbox = bench.sandbox().await;
        sandbox.write(&format!("{WORKSPACE}/small.txt"), b"x").await.unwrap();
        sandbox.end().await;
        let harvest = sandbox.harvest_at_most(WORKSPACE, &BTreeSet::new(), 1000).await;
        assert!(harvest.files.is_empty());
        let left = harvest.left().join("\n");
        assert!(left.starts_with("`/workspace` was not copied: cannot read its files: "), "{left}");
    })
    .await;
}
