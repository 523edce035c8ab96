//! The command `warmstart`, which inspects a cache, as a library. docs/command.md of the repository describes every sub-command.

mod arguments;
mod explain;
mod failure;
mod inspect;
mod list;
mod pack;
#[cfg(feature = "remote")]
mod remote;
mod screen;
mod shrink;
mod stats;
mod store;
mod table;
mod text;
mod units;
mod verify;

use std::{
    ffi::OsString,
    io::{self, Write},
};

use serde_json::json;
use warmstart::Seal;

use arguments::{Arguments, Command};
use failure::Failure;
use screen::Screen;

/// Runs the command with these arguments, of which the first is the program's name, and returns the exit code. Ends the process
/// if the arguments are wrong or ask for help.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = Arguments::read(arguments);
    let mut screen = Screen::new(&arguments);
    let done = answer(arguments, &mut screen).and_then(|is_good| Ok(screen.flush().map(|()| is_good)?));
    match done {
        Ok(is_good) => u8::from(!is_good),
        // The reader of the output closed it, having seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(failure) => {
            // A message that cannot be written does not change the exit code.
            let _ = writeln!(io::stderr(), "warmstart: {failure}");
            if let (true, Failure::Found { code, message }) = (screen.json, failure) {
                let error = json!({ "error": { "code": code, "message": message } });
                let _ = screen.write_json([error]).and_then(|()| screen.flush());
            }
            1
        }
    }
}

/// Runs the sub-command and returns whether no damage was found.
fn answer(arguments: Arguments, screen: &mut Screen) -> Result<bool, Failure> {
    let secret = arguments.seal_key.as_deref().map(store::read_secret).transpose()?;
    let seal = secret.as_ref().map(Seal::new);
    let seal = seal.as_ref();
    match arguments.command {
        Command::Ls(arguments) => list::run(&arguments, seal, screen),
        Command::Inspect(arguments) => inspect::run(&arguments, seal, screen),
        Command::Verify(arguments) => verify::run(&arguments, seal, screen),
        Command::Stats(arguments) => stats::run(&arguments, seal, screen),
        Command::Prune(arguments) => shrink::prune(&arguments, seal, screen),
        Command::Clear { store } => shrink::clear(&store, seal, screen),
        Command::Explain(arguments) => explain::run(&arguments, seal, screen),
        Command::Compact(arguments) => pack::compact(&arguments, screen),
        Command::Convert(arguments) => pack::convert(&arguments, screen),
        #[cfg(feature = "remote")]
        Command::Remote(arguments) => remote::run(&arguments, seal, screen),
        #[cfg(not(feature = "remote"))]
        Command::Remote(_) => Err(Failure::new(
            "unsupported",
            "this command was built without remotes; install it again with `--features remote`",
        )),
    }
}
