//! Tests that the documentation of task contracts matches the code.

use assize_gate::Contract;
use assize_llm::Schema;

/// Run `ASSIZE_TEST_WRITE=1 cargo test -p assize-draft --test draft docs` to rewrite the schema file.
#[test]
fn contract_schema_file_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/task-contract.schema.json");
    let schema = serde_json::to_string_pretty(&Schema::of::<Contract>().value).unwrap() + "\n";
    if std::env::var_os("ASSIZE_TEST_WRITE").is_some() {
        std::fs::write(path, &schema).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == schema,
        "docs/task-contract.schema.json is out of date: rewrite it with ASSIZE_TEST_WRITE=1"
    );
}

#[test]
fn contract_example_in_the_docs_is_valid() {
    let text = include_str!("../../../../docs/reference/task-contract.md");
    let example = text.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let contract = Contract::parse(example.as_bytes()).unwrap();
    assert_eq!(contract.limits.max_lines, Some(120));
    assert!(contract.verify.is_some() && contract.goal.is_some());
}
