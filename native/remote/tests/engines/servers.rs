//! The engines of the tests, and the servers that cases share.

use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    thread,
};

use tempfile::TempDir;
pub(crate) use warmstart_tests::servers::{BUCKET, Server, WRITABLE, free_port, program, python};

use crate::PASSWORD;

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
    /// With its port over TLS.
    nginx: OnceLock<(Server, u16)>,
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
        &self.nginx_and_tls().0
    }

    /// Returns the port of nginx over TLS.
    pub(crate) fn nginx_tls_port(&self) -> u16 {
        self.nginx_and_tls().1
    }

    fn nginx_and_tls(&self) -> &(Server, u16) {
        self.nginx.get_or_init(nginx)
    }

    /// Stops what runs. Cases that failed may still hold references.
    pub(crate) fn stop(&self) {
        [&self.redis, &self.moto].into_iter().filter_map(OnceLock::get).for_each(Server::stop);
        self.nginx.get().into_iter().for_each(|(nginx, _)| nginx.stop());
    }
}

/// Starts nginx with a second port over TLS, if there are certificates.
fn nginx() -> (Server, u16) {
    let (port, tls_port) = (free_port(), free_port());
    let tls = certificates().map_or_else(String::new, |certificates| {
        let path = certificates.display();
        format!("listen 127.0.0.1:{tls_port} ssl; ssl_certificate {path}/server.pem; ssl_certificate_key {path}/server.key;\n")
    });
    let server = Server::nginx_of(port, &format!("server {{ listen 127.0.0.1:{port}; {tls} {WRITABLE} }}"));
    (server, tls_port)
}

/// Starts a server that handles each connection with `handle`, as long as the process lives.
pub(crate) fn serve(handle: impl Fn(TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let handle = handle.clone();
            thread::spawn(move || handle(client));
        }
    });
    port
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
