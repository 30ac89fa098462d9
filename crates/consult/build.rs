//! Embeds the negotiator, the program that runs a debate inside a sandbox.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    assize_embed::embed_compressed("assize-negotiator")
}
