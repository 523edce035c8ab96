//! Connections to a Redis server, each call bounded as a whole: resolving the name, connecting, the handshakes, and every reply.
//!
//! The `redis` crate packs commands and parses replies. Its own connections set a timeout for each read, so that a call may take
//! several.

use std::{
    env, fmt,
    io::{self, BufReader, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use ::redis::{Cmd, ErrorKind, Parser, Value, cmd};
use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};
use warmstart::os::fork::{self, Mutex};

use crate::{
    engine::{MAX_ENTRY, Trouble},
    tls,
};

/// The most idle connections that are kept.
const MOST_IDLE: usize = 8;

/// How long each byte of a batch of entries puts the deadline off: many large ones take longer than the deadline on a network that is
/// all right, and a server that trickles does not.
const NANOS_PER_BYTE: u64 = 50;

/// How far the deadline of a batch is put off at most.
const MOST_TIME: Duration = Duration::from_secs(10);

/// The most bytes of one call's replies, which are in memory as a whole: 64 entries of the length that is stored for the default
/// deadline fit. And the most of replies without entries.
const MOST_BYTES: u64 = 2 << 30;
const MOST_WITHOUT_ENTRIES: u64 = 16 << 20;

/// How long an idle connection is kept. A firewall forgets one that is idle for long without telling, and a call over it would wait for
/// its whole deadline.
const LONGEST_IDLE: Duration = Duration::from_secs(30);

/// The bytes that are read at once, if so many arrived: the parser asks for far fewer.
const READ: usize = 1 << 16;

/// Connections to one server, shared by threads, and not with forked children.
#[derive(Debug)]
pub(super) struct Pool {
    host: String,
    port: u16,
    database: u32,
    tls: Option<Arc<ClientConfig>>,
    credentials: Credentials,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// The process that the connections belong to.
    generation: u64,
    address: Option<SocketAddr>,
    /// Each with the time of its last use.
    connections: Vec<(Connection, Instant)>,
}

/// The user and the password, which nothing shows.
#[derive(Default)]
struct Credentials {
    user: Option<String>,
    password: Option<String>,
}

struct Connection(BufReader<Stream>);

enum Stream {
    Plain(Timed),
    Tls(Box<StreamOwned<ClientConnection, Timed>>),
}

/// A socket whose reads and writes end by a deadline, which what arrives puts off, up to the latest end.
struct Timed {
    socket: TcpStream,
    until: Instant,
    latest: Instant,
    /// How many bytes may still arrive.
    room: u64,
    /// The timeouts that the socket has.
    reads: Duration,
    writes: Duration,
}

/// How a call over a connection failed.
enum Failure {
    /// The server had closed the connection, perhaps long before the call.
    Closed(String),
    Trouble(Trouble),
}

impl Pool {
    pub(super) fn new(host: String, port: u16, database: u32, tls: Option<Arc<ClientConfig>>) -> Self {
        let credentials = Credentials::of_environment();
        Self { host, port, database, tls, credentials, idle: Mutex::default() }
    }

    /// Sends these commands at once, and returns their replies, of which as many may be entries. An error among the replies is the
    /// call's, once all of them are read.
    ///
    /// If a connection of the pool turns out to be closed, another one sends the commands again: all that engines send may be repeated.
    pub(super) fn call(
        &self,
        commands: &[Cmd],
        entries: usize,
        until: Instant,
    ) -> Result<Vec<Value>, Trouble> {
        if let Some(mut idle) = self.take_idle() {
            match idle.call(commands, entries, until) {
                Ok(replies) => {
                    self.give_back(idle);
                    return replies.into_iter().map(checked).collect();
                }
                Err(Failure::Trouble(trouble)) => return Err(trouble),
                // The others are as old.
                Err(Failure::Closed(_)) => self.idle.lock().connections.clear(),
            }
        }
        let mut connection = self.connect(until)?;
        let replies = connection.call(commands, entries, until).map_err(|failure| self.explain(failure))?;
        self.give_back(connection);
        replies.into_iter().map(checked).collect()
    }

    /// Says what may be the cause of a silence: a server without TLS waits for the rest of a handshake.
    fn explain(&self, failure: Failure) -> Trouble {
        match failure.into() {
            Trouble::TimedOut(why) if self.tls.is_some() => {
                Trouble::TimedOut(format!("{why}; use redis:// if the port is one without TLS"))
            }
            trouble => trouble,
        }
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        if idle.generation != fork::generation() {
            // They are the parent's: here they are only closed, which the server does not see.
            *idle = Idle { generation: fork::generation(), address: idle.address, connections: Vec::new() };
        }
        while let Some((mut connection, used)) = idle.connections.pop() {
            if used.elapsed() < LONGEST_IDLE && connection.is_silent() {
                return Some(connection);
            }
        }
        None
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.generation == fork::generation() && idle.connections.len() < MOST_IDLE {
            idle.connections.push((connection, Instant::now()));
        }
    }

    fn connect(&self, until: Instant) -> Result<Connection, Trouble> {
        let known = self.idle.lock().address;
        let addresses = match known {
            Some(address) => Ok(vec![address]),
            None => resolve(&self.host, self.port, until),
        };
        let connected = addresses.and_then(|addresses| connect_any(&addresses, until));
        // After a failure, the name may have another address.
        self.idle.lock().address = connected.as_ref().ok().map(|(_, address)| *address);
        match connected {
            Ok((socket, _)) => self.greet(socket, until),
            Err(Trouble::Unreachable(why)) => Err(Trouble::Unreachable(format!(
                "{}, port {}: {why}; start the server, or correct the URL",
                self.host, self.port
            ))),
            Err(trouble) => Err(trouble),
        }
    }

    /// Sets up TLS, and sends the credentials and the number of the database.
    fn greet(&self, socket: TcpStream, until: Instant) -> Result<Connection, Trouble> {
        socket.set_nodelay(true).map_err(|error| trouble_of(&error))?;
        let socket = Timed::new(socket, until);
        let stream = match &self.tls {
            None => Stream::Plain(socket),
            Some(config) => {
                let failed = |why: &str| Trouble::Unreachable(format!("TLS: {why}"));
                let name =
                    ServerName::try_from(self.host.clone()).map_err(|_| failed("the host has no name"))?;
                let client =
                    ClientConnection::new(Arc::clone(config), name).map_err(|_| failed("no session"))?;
                Stream::Tls(Box::new(StreamOwned::new(client, socket)))
            }
        };
        let stream = BufReader::with_capacity(READ, stream);
        let mut connection = Connection(stream);
        let mut greetings = Vec::new();
        if let Some(password) = &self.credentials.password {
            let mut auth = cmd("AUTH");
            auth.arg(self.credentials.user.as_ref()).arg(password);
            greetings.push(auth);
        }
        if self.database != 0 {
            let mut select = cmd("SELECT");
            select.arg(self.database);
            greetings.push(select);
        }
        if !greetings.is_empty() {
            let replies = connection.call(&greetings, 0, until);
            for reply in replies.map_err(|failure| self.explain(failure))? {
                checked(reply)?;
            }
        }
        Ok(connection)
    }
}

impl Connection {
    fn call(&mut self, commands: &[Cmd], entries: usize, until: Instant) -> Result<Vec<Value>, Failure> {
        let stream = self.0.get_mut();
        stream.timed().begin(entries, until);
        let packed: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
        stream.write_all(&packed).and_then(|()| stream.flush()).map_err(|error| Failure::of(&error))?;
        let (mut parser, mut replies) = (Parser::new(), Vec::with_capacity(commands.len()));
        for _ in commands {
            let reply = parser.parse_value(&mut self.0);
            let is_full = self.0.get_mut().timed().room == 0;
            replies.push(reply.map_err(|error| match error.kind() {
                _ if is_full => Failure::Trouble(Trouble::Other("its answer is too long".to_owned())),
                _ if error.is_timeout() => Failure::Trouble(Trouble::TimedOut("the time is up".to_owned())),
                ErrorKind::Io => Failure::Closed(
                    "the connection ended; use rediss:// if the port is one for TLS".to_owned(),
                ),
                _ => Failure::not_redis(),
            })?);
        }
        // The parser reads ahead: it returns the end itself only if nothing else is left. A reply too many may be an earlier one, so that
        // each of these may be another command's.
        let left = parser.parse_value(&b"+end\r\n"[..]);
        match left == Ok(Value::SimpleString("end".to_owned())) && self.0.buffer().is_empty() {
            true => Ok(replies),
            false => Err(Failure::not_redis()),
        }
    }

    /// Returns whether nothing has arrived since the last reply: neither the end, nor what the next call would take for its reply.
    fn is_silent(&mut self) -> bool {
        let peeked = peek(&self.0.get_mut().timed().socket);
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Looks for a byte that has arrived, without waiting. This is a part of every call, so it is one call of the system.
#[cfg(unix)]
fn peek(socket: &TcpStream) -> io::Result<()> {
    use rustix::net::{RecvFlags, recv};

    Ok(recv(socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT).map(drop)?)
}

#[cfg(not(unix))]
fn peek(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let peeked = socket.peek(&mut [0]).map(drop);
    socket.set_nonblocking(false).and(peeked)
}

/// Returns a reply, or the trouble that it or a part of it tells of. Only the code of an error is kept: its text may name a user.
fn checked(reply: Value) -> Result<Value, Trouble> {
    match reply {
        Value::ServerError(error) => {
            let denied = ["ACL", "permission", "can't run", "can't access"];
            let details = error.details().unwrap_or_default();
            // What is no code may be anything, such as what changes a terminal.
            let is_code =
                |code: &&str| code.len() <= 16 && code.bytes().all(|byte| byte.is_ascii_uppercase());
            let code = Some(error.code()).filter(is_code).unwrap_or("an error");
            let said = format!("redis answered {code}");
            Err(match code {
                // A large request is refused before its command is looked at.
                _ if details.contains("unauthenticated") || matches!(code, "NOAUTH" | "WRONGPASS") => {
                    Trouble::Forbidden(format!("{said}; set REDISCLI_AUTH and WARMSTART_REDIS_USER"))
                }
                "NOPERM" | "DENIED" => Trouble::Forbidden(format!(
                    "{said}; the rules of its user must permit the commands and the prefix that docs/fleet.md names"
                )),
                // A script's commands are refused so.
                "ERR" if denied.iter().any(|part| details.contains(part)) => Trouble::Forbidden(said),
                "ERR" if details.contains("AUTH") => {
                    Trouble::Forbidden("its user has no password; unset REDISCLI_AUTH".to_owned())
                }
                "ERR" if details.contains("DB index") => {
                    Trouble::Other("the server has no database of this number; correct the URL".to_owned())
                }
                "ERR" if details.contains("max number of clients") => Trouble::Busy(said),
                // A server that cannot save a snapshot, or lacks its replicas, refuses writes until someone mends that.
                "READONLY" | "MISCONF" | "NOREPLICAS" => Trouble::ReadOnly(said),
                "LOADING" | "BUSY" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" => Trouble::Busy(said),
                "OOM" => Trouble::Full(said),
                _ => Trouble::Other(said),
            })
        }
        Value::Array(parts) => Ok(Value::Array(parts.into_iter().map(checked).collect::<Result<_, _>>()?)),
        reply => Ok(reply),
    }
}

/// Resolves a name in a thread of its own, because the system's resolver takes no deadline.
fn resolve(host: &str, port: u16, until: Instant) -> Result<Vec<SocketAddr>, Trouble> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (sender, receiver) = mpsc::sync_channel(1);
    let host = host.to_owned();
    let resolving = thread::Builder::new().name("warmstart-resolve".to_owned()).spawn(move || {
        let _ = sender.send((host.as_str(), port).to_socket_addrs().map(Iterator::collect));
    });
    resolving.map_err(|_| Trouble::Other("no thread can be started".to_owned()))?;
    let wait = remaining(until).map_err(|error| trouble_of(&error))?;
    match receiver.recv_timeout(wait) {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(_)) => Err(Trouble::Unreachable("its name is not known".to_owned())),
        Err(_) => Err(Trouble::TimedOut("its name was not resolved".to_owned())),
    }
}

/// Connects to the first of these addresses that answers. Each but the last has half of the time that is left, so that a silent one does
/// not use up the time of the next. Equal shares would be too short for a distant server with many addresses.
fn connect_any(addresses: &[SocketAddr], until: Instant) -> Result<(TcpStream, SocketAddr), Trouble> {
    let mut refused = Trouble::Unreachable("its name has no address".to_owned());
    for (number, address) in (1..).zip(addresses) {
        let left = remaining(until).map_err(|error| trouble_of(&error))?;
        let share = if number == addresses.len() { left } else { left / 2 };
        match TcpStream::connect_timeout(address, share) {
            Ok(socket) => return Ok((socket, *address)),
            Err(error) => refused = trouble_of(&error),
        }
    }
    Err(refused)
}

fn remaining(until: Instant) -> io::Result<Duration> {
    match until.saturating_duration_since(Instant::now()) {
        // A socket would take it for no timeout at all.
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

fn trouble_of(error: &io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Trouble::TimedOut("the time is up".to_owned()),
        kind => Trouble::Unreachable(tls::refusal(error).map_or_else(|| kind.to_string(), ToOwned::to_owned)),
    }
}

impl Failure {
    fn not_redis() -> Self {
        Self::Trouble(Trouble::Other(
            "the answer is not Redis's; check the port, and use rediss:// if it is one for TLS".to_owned(),
        ))
    }

    fn of(error: &io::Error) -> Self {
        match trouble_of(error) {
            Trouble::Unreachable(why) => Self::Closed(why),
            trouble => Self::Trouble(trouble),
        }
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Closed(why) => Self::Unreachable(why),
            Failure::Trouble(trouble) => trouble,
        }
    }
}

impl Credentials {
    /// Reads them as `redis-cli` does; the user's name has a variable of our own.
    fn of_environment() -> Self {
        let of = |name| env::var(name).ok().filter(|value| !value.is_empty());
        Self { user: of("WARMSTART_REDIS_USER"), password: of("REDISCLI_AUTH") }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection(..)")
    }
}

impl Stream {
    fn timed(&mut self) -> &mut Timed {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &mut stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(buffer),
            Self::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

impl Timed {
    fn new(socket: TcpStream, until: Instant) -> Self {
        Self { socket, until, latest: until, room: 0, reads: Duration::ZERO, writes: Duration::ZERO }
    }

    /// Begins a call whose replies have at most so many entries.
    fn begin(&mut self, entries: usize, until: Instant) {
        let room = MAX_ENTRY.saturating_mul(entries as u64).saturating_add(MOST_WITHOUT_ENTRIES);
        self.room = room.min(MOST_BYTES);
        self.until = until;
        self.latest = if entries > 1 { until + MOST_TIME } else { until };
    }

    /// Calls the socket until it has an answer, or the time is up.
    fn call(
        &mut self,
        timeout: fn(&mut Self) -> &mut Duration,
        set: fn(&TcpStream, Option<Duration>) -> io::Result<()>,
        mut call: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut share = 7;
        loop {
            let left = remaining(self.until)?;
            let current = *timeout(self);
            if current > left || current < left / 2 {
                // A little less than is left serves the next calls too. What is cut off here follows below.
                let new = (left * share / 8).max(Duration::from_micros(1));
                set(&self.socket, Some(new))?;
                *timeout(self) = new;
            }
            match call(&self.socket) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    share = 8;
                }
                answer => return answer,
            }
        }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.room == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let len = self.call(
            |timed| &mut timed.reads,
            TcpStream::set_read_timeout,
            |mut socket| socket.read(buffer),
        )?;
        self.room = self.room.saturating_sub(len as u64);
        let put_off = self.until + Duration::from_nanos(NANOS_PER_BYTE * len as u64);
        self.until = put_off.min(self.latest.max(self.until));
        Ok(len)
    }
}

impl Write for Timed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.call(|timed| &mut timed.writes, TcpStream::set_write_timeout, |mut socket| socket.write(buffer))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn listen() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// A listener whose backlog is full: Linux drops what asks for a connection.
    #[cfg(target_os = "linux")]
    #[test]
    fn silent_address_leaves_time_for_the_next() {
        let ((_silent, first), (_open, second)) = (listen(), listen());
        let mut waiting = Vec::new();
        while let Ok(socket) = TcpStream::connect_timeout(&first, Duration::from_millis(200)) {
            waiting.push(socket);
        }
        let connected = connect_any(&[first, second], Instant::now() + Duration::from_secs(1));
        assert_eq!(connected.unwrap().1, second);
        let alone = connect_any(&[first], Instant::now() + Duration::from_millis(100));
        assert!(matches!(alone, Err(Trouble::TimedOut(_))));
    }

    /// Returns a pool with an idle connection, the other end of it, and its socket.
    fn pool_of_one() -> (Pool, TcpStream, TcpStream) {
        let (listener, address) = listen();
        let pool = Pool::new(address.ip().to_string(), address.port(), 0, None);
        let socket = TcpStream::connect(address).unwrap();
        let (server, here) = (listener.accept().unwrap().0, socket.try_clone().unwrap());
        let stream = Stream::Plain(Timed::new(socket, Instant::now()));
        pool.give_back(Connection(BufReader::new(stream)));
        (pool, server, here)
    }

    #[test]
    fn late_surplus_is_no_reply_to_the_next_call() {
        let (pool, mut server, here) = pool_of_one();
        let connection = pool.take_idle().unwrap();
        pool.give_back(connection);
        server.write_all(b"+OK\r\n").unwrap();
        // Waits until it has arrived.
        here.peek(&mut [0]).unwrap();
        assert!(pool.take_idle().is_none());
    }

    #[test]
    fn connection_that_was_idle_for_long_is_not_used() {
        let (pool, _server, _here) = pool_of_one();
        let connection = pool.take_idle().unwrap();
        pool.give_back(connection);
        pool.idle.lock().connections[0].1 -= LONGEST_IDLE;
        assert!(pool.take_idle().is_none());
    }
}
