//! Embeds the guest agent, the small static program inside every sandbox.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    assize_embed::embed("assize-guest")
}
