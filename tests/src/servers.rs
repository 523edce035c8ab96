//! Servers on free ports of the loopback interface: Redis, nginx, and moto, which speaks S3.

use std::{
    env, fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// The bucket of the tests.
pub const BUCKET: &str = "bucket";

/// Makes a server of nginx take objects as S3 does, without conditions. A client of S3 expects an ETag of what it puts.
pub const WRITABLE: &str = "root ROOT; client_max_body_size 100m;
    location / { dav_methods PUT DELETE; create_full_put_path on;
    if ($request_method = PUT) { add_header ETag '\"same\"'; } }";

/// A running server, which is killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Mutex<Child>,
    /// The port that it listens on.
    pub port: u16,
    _folder: TempDir,
}

impl Server {
    /// Starts Redis with these options.
    #[must_use]
    pub fn redis(options: &[&str]) -> Self {
        Self::redis_at(free_port(), options)
    }

    /// Starts Redis at a port.
    #[must_use]
    pub fn redis_at(port: u16, options: &[&str]) -> Self {
        let mut command = command("redis-server");
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
        command.args(options);
        Self::start(command, port, TempDir::new().unwrap())
    }

    /// Starts moto, and makes its [`BUCKET`].
    #[must_use]
    pub fn moto() -> Self {
        let port = free_port();
        let mut command = command("moto_server");
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let server = Self::start(command, port, TempDir::new().unwrap());
        let answer =
            server.request(&format!("PUT /{BUCKET} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        server
    }

    /// Starts Redis with a file of configuration. Give it a port, 0 if the file does.
    pub fn redis_of(config: &str, port: u16, options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("redis.conf");
        fs::write(&path, config).unwrap();
        let mut command = command("redis-server");
        command.arg(path).args(["--bind", "127.0.0.1", "--dir"]).arg(folder.path()).args(options);
        Self::start(command, port, folder)
    }

    /// Starts nginx, which takes objects as S3 does and ignores conditions.
    #[must_use]
    pub fn nginx() -> Self {
        let port = free_port();
        Self::nginx_of(port, &format!("server {{ listen 127.0.0.1:{port}; {WRITABLE} }}"))
    }

    /// Starts nginx with these servers, one of which listens on `port`. ROOT stands for an empty folder.
    pub fn nginx_of(port: u16, servers: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().display();
        let temps: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|name| format!("{name}_temp_path {path}/{name};\n"))
            .collect();
        let servers = servers.replace("ROOT", &format!("{path}/root"));
        let config = format!(
            "daemon off; master_process off; pid {path}/pid; error_log {path}/log;\nevents {{}}\n\
             http {{ access_log off;\n{temps}{servers} }}\n"
        );
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::write(folder.path().join("config"), config).unwrap();
        let mut command = command("nginx");
        command.arg("-c").arg(folder.path().join("config"));
        Self::start(command, port, folder)
    }

    fn start(mut command: Command, port: u16, folder: TempDir) -> Self {
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { child: Mutex::new(command.spawn().unwrap()), port, _folder: folder };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "{command:?} does not listen");
            assert!(server.child.lock().unwrap().try_wait().unwrap().is_none(), "{command:?} ended");
            thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Sends a request without a body, and returns the answer.
    pub fn request(&self, head: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "{head}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Sends a signal to the process.
    pub fn signal(&self, name: &str) {
        let id = self.child.lock().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Kills the server.
    pub fn stop(&self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns a port that no server listens on.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn command(name: &str) -> Command {
    let path = program(name).expect("cases without their server are ignored");
    let mut command = Command::new(path);
    let libraries = engines().join("debian/usr/lib/x86_64-linux-gnu");
    if libraries.is_dir() {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    command
}

/// Returns the interpreter that moto runs in. It has the client of S3 that moto is tested with.
pub fn python() -> Command {
    let beside =
        program("moto_server").map(|path| path.with_file_name("python")).filter(|path| path.is_file());
    Command::new(beside.unwrap_or_else(|| PathBuf::from("python3")))
}

/// Finds a program that `cargo xtask runtimes --engines` installed, or one on the `PATH`.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let installed = ["bin", "debian/usr/bin", "debian/usr/sbin"].map(|folder| engines().join(folder));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = installed.into_iter().chain(env::split_paths(&path)).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn engines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/runtimes/engines")
}
