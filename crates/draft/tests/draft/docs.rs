//! What the documents say about contracts is so.

use assize_gate::Contract;
use assize_llm::Schema;

/// `ASSIZE_TEST_WRITE=1 cargo test -p assize-draft --test draft docs` writes it anew.
#[test]
fn the_form_of_a_contract_is_written_down() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/task-contract.schema.json");
    let form = serde_json::to_string_pretty(&Schema::of::<Contract>().value).unwrap() + "\n";
    if std::env::var_os("ASSIZE_TEST_WRITE").is_some() {
        std::fs::write(path, &form).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap_or_default() == form, "write it anew");
}

#[test]
fn the_contract_in_the_documents_is_one() {
    let text = include_str!("../../../../docs/drafts.md");
    let section = text.split("## The contract").nth(1).unwrap();
    let example = section.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let contract = Contract::parse(example.as_bytes()).unwrap();
    assert_eq!(contract.limits.max_lines, Some(120));
    assert!(contract.verify.is_some() && contract.goal.is_some());
}
