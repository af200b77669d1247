//! What clap says instead of a chore: help, or what is wrong with the command line.
use std::process::ExitCode;

/// Says it; with `--json` as one document, too.
pub fn refused(said: &clap::Error) -> ExitCode {
    let _ = said.print();
    if said.use_stderr() && std::env::args().take_while(|a| a != "--").any(|a| a == "--json") {
        let text = said.render().to_string();
        let (message, help) = text.trim().trim_start_matches("error: ").split_once("\n\n").unwrap_or((text.trim(), ""));
        println!("{}", serde_json::json!({ "error": { "code": 2, "kind": "usage", "message": message, "help": help, "context": {} } }));
    }
    u8::try_from(said.exit_code()).unwrap_or(2).into()
}
