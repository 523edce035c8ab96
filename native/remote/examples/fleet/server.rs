//! A Redis on the loopback interface.

use std::{
    env,
    error::Error,
    io,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long the server may take to listen.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running server, which is killed when it is dropped.
pub(crate) struct Redis {
    server: Child,
    port: u16,
}

impl Redis {
    /// Starts a server that keeps nothing.
    pub(crate) fn start(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let program = find("redis-server").ok_or(
            "there is no redis-server: install it (`apt-get install redis-server`, `brew install redis`), \
             or run `cargo xtask runtimes --engines`",
        )?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(&program);
        command.args([
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        // Libraries that were installed with it.
        command.env("LD_LIBRARY_PATH", program.with_file_name("../lib/x86_64-linux-gnu"));
        command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
        let mut redis = Self { server: command.spawn()?, port };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if redis.server.try_wait()?.is_some() || started.elapsed() > TIMEOUT {
                return Err(format!("{} does not listen on port {port}", program.display()).into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(redis)
    }

    /// Returns the URL of a database: each is empty at first.
    pub(crate) fn url(&self, database: u32) -> String {
        format!("redis://127.0.0.1:{}/{database}", self.port)
    }

    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.server.kill()?;
        self.server.wait().map(drop)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Finds a program on the `PATH`, or where `cargo xtask runtimes --engines` installs it.
fn find(name: &str) -> Option<PathBuf> {
    let installed =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/runtimes/engines/debian/usr/bin");
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain([installed])
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}
