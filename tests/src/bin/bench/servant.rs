//! A process that obeys a line at a time.

use std::{
    io::{self, BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// A process that was started, and waits for a line. It ends when none can come.
#[derive(Debug)]
pub(crate) struct Servant {
    child: Child,
    /// The standard input of the process; `None` once it was closed to end the process.
    tell: Option<ChildStdin>,
    hear: BufReader<ChildStdout>,
}

impl Servant {
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let tell = child.stdin.take();
        let hear = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { child, tell, hear: BufReader::new(hear) })
    }

    pub(crate) fn tell(&mut self, line: &str) -> io::Result<()> {
        let tell = self.tell.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(tell, "{line}")?;
        tell.flush()
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }

    /// Waits for the next line that it says.
    pub(crate) fn hear(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.hear.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the process ended too early"));
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Servant {
    fn drop(&mut self) {
        drop(self.tell.take());
        let _ = self.child.wait();
    }
}
