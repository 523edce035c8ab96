//! Starts servers on free ports of the loopback interface, and stops them.

use std::{
    env, fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, OnceLock},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::PASSWORD;

/// The bucket of the tests.
pub(crate) const BUCKET: &str = "bucket";

/// Makes a server of nginx take objects as S3 does, without conditions. A client of S3 expects an ETag of what it puts.
pub(crate) const WRITABLE: &str = "root ROOT; client_max_body_size 100m;
    location / { dav_methods PUT DELETE; create_full_put_path on;
    if ($request_method = PUT) { add_header ETag '\"same\"'; } }";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Redis,
    /// moto, which speaks S3.
    S3,
    /// A web server that writes objects too, and ignores conditions.
    Nginx,
    /// Redis over TLS.
    RedisTls,
    /// A web server over TLS.
    NginxTls,
    None,
}

/// The servers that cases share, each started when it is first needed.
#[derive(Default)]
pub(crate) struct Servers {
    redis: OnceLock<Server>,
    moto: OnceLock<Server>,
    nginx: OnceLock<Server>,
}

/// A running server, which is killed when it is dropped.
pub(crate) struct Server {
    child: Mutex<Child>,
    pub(crate) port: u16,
    /// The port of nginx over TLS.
    pub(crate) tls_port: u16,
    _folder: TempDir,
}

impl Engine {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::S3 => "s3",
            Self::Nginx => "nginx",
            Self::RedisTls => "redis_tls",
            Self::NginxTls => "nginx_tls",
            Self::None => "none",
        }
    }

    /// Returns the URL of a server at this port, with a prefix for a case.
    pub(crate) fn url(self, port: u16, case: &str) -> String {
        match self {
            Self::Redis => format!("redis://127.0.0.1:{port}/1?prefix={case}"),
            _ => format!("s3://{BUCKET}/{case}?endpoint=http://127.0.0.1:{port}"),
        }
    }

    /// Returns the program that the engine needs and this machine lacks.
    pub(crate) fn missing(self) -> Option<&'static str> {
        let name = match self {
            Self::RedisTls | Self::NginxTls if certificates().is_none() => return Some("openssl"),
            Self::Redis | Self::RedisTls => "redis-server",
            Self::S3 => "moto_server",
            Self::Nginx | Self::NginxTls => "nginx",
            Self::None => return None,
        };
        program(name).is_none().then_some(name)
    }
}

impl Servers {
    pub(crate) fn url(&self, engine: Engine, case: &str) -> String {
        let port = match engine {
            Engine::Redis => self.redis().port,
            Engine::S3 => self.moto().port,
            Engine::Nginx | Engine::NginxTls => self.nginx().port,
            Engine::RedisTls | Engine::None => return String::new(),
        };
        engine.url(port, case)
    }

    pub(crate) fn redis(&self) -> &Server {
        self.redis.get_or_init(|| Server::redis(&["--requirepass", PASSWORD]))
    }

    pub(crate) fn moto(&self) -> &Server {
        self.moto.get_or_init(Server::moto)
    }

    pub(crate) fn nginx(&self) -> &Server {
        self.nginx.get_or_init(Server::nginx)
    }

    /// Stops what runs. Cases that failed may still hold references.
    pub(crate) fn stop(&self) {
        [&self.redis, &self.moto, &self.nginx].into_iter().filter_map(OnceLock::get).for_each(Server::stop);
    }
}

impl Server {
    pub(crate) fn redis(options: &[&str]) -> Self {
        Self::redis_at(free_port(), options)
    }

    pub(crate) fn redis_at(port: u16, options: &[&str]) -> Self {
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

    pub(crate) fn moto() -> Self {
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
    pub(crate) fn redis_of(config: &str, port: u16, options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("redis.conf");
        fs::write(&path, config).unwrap();
        let mut command = command("redis-server");
        command.arg(path).args(["--bind", "127.0.0.1", "--dir"]).arg(folder.path()).args(options);
        Self::start(command, port, folder)
    }

    fn nginx() -> Self {
        let (port, tls_port) = (free_port(), free_port());
        let tls = certificates().map_or_else(String::new, |certificates| {
            let path = certificates.display();
            format!("listen 127.0.0.1:{tls_port} ssl; ssl_certificate {path}/server.pem; ssl_certificate_key {path}/server.key;\n")
        });
        let mut server =
            Self::nginx_of(port, &format!("server {{ listen 127.0.0.1:{port}; {tls} {WRITABLE} }}"));
        server.tls_port = tls_port;
        server
    }

    /// Starts nginx with these servers, one of which listens on `port`. ROOT stands for an empty folder.
    pub(crate) fn nginx_of(port: u16, servers: &str) -> Self {
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
        let server = Self { child: Mutex::new(command.spawn().unwrap()), port, tls_port: 0, _folder: folder };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "{command:?} does not listen");
            assert!(server.child.lock().unwrap().try_wait().unwrap().is_none(), "{command:?} ended");
            thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Sends a request without a body, and returns the answer.
    pub(crate) fn request(&self, head: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "{head}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.lock().unwrap().id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    pub(crate) fn stop(&self) {
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
pub(crate) fn free_port() -> u16 {
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
pub(crate) fn python() -> Command {
    let beside =
        program("moto_server").map(|path| path.with_file_name("python")).filter(|path| path.is_file());
    Command::new(beside.unwrap_or_else(|| PathBuf::from("python3")))
}

/// Finds a program that `cargo xtask runtimes --engines` installed, or one on the `PATH`.
fn program(name: &str) -> Option<PathBuf> {
    let installed = ["bin", "debian/usr/bin", "debian/usr/sbin"].map(|folder| engines().join(folder));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = installed.into_iter().chain(env::split_paths(&path)).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn engines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/runtimes/engines")
}

/// Returns the folder of a certificate of `localhost`, and of the authority that issued it; `None` without `openssl`. They are made
/// once.
pub(crate) fn certificates() -> Option<PathBuf> {
    const MAKE: &str = "\
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj /CN=warmstart \
            -addext basicConstraints=critical,CA:TRUE -keyout ca.key -out ca.pem && \
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost \
            -keyout server.key -out server.csr && \
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\\n' > extensions && \
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 \
            -extfile extensions -out server.pem";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("certificates");
    if !folder.is_dir() {
        let made = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let output = Command::new("sh").args(["-c", MAKE]).current_dir(&made).output().ok()?;
        if !output.status.success() {
            return None;
        }
        // Another process may have made one.
        let _ = fs::rename(made.path(), &folder);
    }
    folder.is_dir().then_some(folder)
}
