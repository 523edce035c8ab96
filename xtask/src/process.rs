//! Commands, run in the root of the workspace.

use std::{
    borrow::Cow,
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

/// A command with its arguments and the environment variables it needs. Shown as a line that a shell runs.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    variables: Vec<(&'static str, OsString)>,
    hidden: Vec<(&'static str, OsString)>,
    program: String,
    arguments: Vec<OsString>,
}

/// Why a task could not be done, for a person to read.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Invocation {
    /// The program and the arguments of `line`, which are parted by blanks.
    pub(crate) fn new(line: &str) -> Self {
        let (program, arguments) = line.split_once(' ').unwrap_or((line, ""));
        Self::program(program).arguments(arguments)
    }

    /// A program whose name may hold blanks.
    pub(crate) fn program(name: impl Into<String>) -> Self {
        Self { variables: Vec::new(), hidden: Vec::new(), program: name.into(), arguments: Vec::new() }
    }

    /// With the arguments of `line`, which are parted by blanks.
    pub(crate) fn arguments(mut self, line: &str) -> Self {
        self.arguments.extend(line.split_whitespace().map(OsString::from));
        self
    }

    /// With one argument more, which may hold blanks.
    pub(crate) fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// With an environment variable.
    pub(crate) fn variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// With an environment variable that is not shown: who runs the command by hand has one that will do.
    pub(crate) fn hidden_variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.hidden.push((name, value.into()));
        self
    }

    /// Runs it, its output shown, to its end.
    pub(crate) fn status(&self) -> Result<ExitStatus, Failure> {
        println!("$ {self}");
        self.command().status().map_err(|error| self.not_started(&error))
    }

    /// As [`status`](Self::status), but that it fails is a failure.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let status = self.status()?;
        if status.success() { Ok(()) } else { Err(Failure(format!("{status}: {self}"))) }
    }

    /// What it prints, run silently.
    pub(crate) fn output(&self) -> Result<Vec<u8>, Failure> {
        let output = self
            .command()
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| self.not_started(&error))?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(Failure(format!("{}: {self}", output.status)))
        }
    }

    /// Runs it to its end; its status, and what it printed on both of its outputs.
    pub(crate) fn transcript(&self) -> Result<(ExitStatus, String), Failure> {
        println!("$ {self}");
        let output =
            self.command().stdin(Stdio::null()).output().map_err(|error| self.not_started(&error))?;
        let printed = [output.stdout, output.stderr].concat();
        Ok((output.status, String::from_utf8_lossy(&printed).into_owned()))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(workspace_root());
        command.envs(self.hidden.iter().chain(&self.variables).map(|(name, value)| (name, value)));
        command
    }

    fn not_started(&self, error: &std::io::Error) -> Failure {
        Failure(format!("{} could not be started: {error}", self.program))
    }
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            write!(f, "{name}={} ", quoted(&value.to_string_lossy()))?;
        }
        f.write_str(&quoted(&self.program))?;
        self.arguments.iter().try_for_each(|word| write!(f, " {}", quoted(&word.to_string_lossy())))
    }
}

impl Failure {
    /// A failure of which `message` says all.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The folder that holds the workspace's `Cargo.toml`.
pub(crate) fn workspace_root() -> PathBuf {
    // Cargo says at run time where the package is; a binary that is started by hand knows where it was.
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let package = Path::new(&package);
    package.parent().unwrap_or(package).to_owned()
}

/// The word as a POSIX shell reads it back.
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=+,@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_pasted_into_a_shell() {
        let shown =
            Invocation::new("printf %s").argument("it's $HOME").variable("A", "-D warnings").to_string();
        assert_eq!(shown, r"A='-D warnings' printf %s 'it'\''s $HOME'");
    }

    #[test]
    fn commands_run_in_the_root_of_the_workspace() {
        // The tests themselves run in the folder of their package, which has no such file.
        let listed = Invocation::new("ls Cargo.lock").output().unwrap();
        assert_eq!(listed, b"Cargo.lock\n");
    }

    #[test]
    fn a_command_that_fails_is_named_in_the_failure() {
        let failed = Invocation::new("false and its arguments").run().unwrap_err().to_string();
        assert!(failed.ends_with(": false and its arguments"), "{failed}");
        let missing = Invocation::new("no-such-program-at-all").run().unwrap_err().to_string();
        assert!(missing.starts_with("no-such-program-at-all could not be started"), "{missing}");
    }
}
