//! Redis and Valkey: entries are strings, leases are strings that expire, and one script decides each claim.
//!
//! | key | holds |
//! |---|---|
//! | `PREFIX:v1:SEAL:NAME` | an entry, as on disk |
//! | `PREFIX:v1:SEAL:lease:NAME` | a lease: the holder's token, and a number that its claims never repeat and each renewal raises |
//!
//! SEAL is the public id of the secret in hexadecimal digits, or `unsealed`; NAME is the digest of the key. PREFIX is `warmstart`, or the
//! parameter `prefix` of the URL. Entries have no time to live: the server evicts by its `maxmemory-policy`, of which `allkeys-lru` is
//! meant for caches. Scripts are sent whole with each call, so that a call is one round trip even after the server forgot them. A
//! script uses two keys, so that Redis Cluster, which would keep them apart, is not supported.

mod connection;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ::redis::{Cmd, Value, cmd};
use warmstart_core::key::Key;

use crate::{
    engine::{Answer, Engine, Entry, Page, Surveyed, Token, Trouble, Version},
    url::{Problem, RemoteError},
};
use connection::Pool;

/// How many keys the server looks at for a page of a listing.
const SCANNED: usize = 1_000;

/// What each script begins with. A value that is no string is neither an entry nor a lease: it is absent, as it is to MGET, and SET
/// replaces it.
const GET: &str = "\
local function get(key)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'table' then return value end
  if string.find(value.err, 'WRONGTYPE', 1, true) then return false end
  return redis.call('GET', key)
end
";

/// KEYS: entry, lease. ARGV: token, milliseconds, the first number of the lease. A lease with the caller's token is the caller's: an
/// acknowledgement was lost.
const GET_OR_CLAIM: &str = "\
local entry = get(KEYS[1])
if entry then return {'stored', entry} end
local held = get(KEYS[2])
if held and string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then return {'held', held} end
if not held then
  held = ARGV[1] .. ARGV[3]
  redis.call('SET', KEYS[2], held, 'PX', ARGV[2])
end
return {'claimed', held}";

/// KEYS: lease. ARGV: token, milliseconds, the first number of the lease, the version to replace or nothing.
const CLAIM: &str = "\
local held = get(KEYS[1])
if held and string.sub(held, 1, #ARGV[1]) == ARGV[1] then return held end
if held and held ~= ARGV[4] then return false end
held = ARGV[1] .. ARGV[3]
redis.call('SET', KEYS[1], held, 'PX', ARGV[2])
return held";

/// KEYS: lease. ARGV: token, milliseconds. The number is raised here, so that no version recurs after an acknowledgement was lost.
const RENEW: &str = "\
local held = get(KEYS[1])
if not held or string.sub(held, 1, #ARGV[1]) ~= ARGV[1] then return false end
held = ARGV[1] .. string.format('%d', (tonumber(string.sub(held, #ARGV[1] + 1)) or 0) + 1)
redis.call('SET', KEYS[1], held, 'PX', ARGV[2])
return held";

/// KEYS: lease. ARGV: token.
const RELEASE: &str = "\
local held = get(KEYS[1])
if held and string.sub(held, 1, #ARGV[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1";

/// KEYS: entries, then their leases.
const SURVEY: &str = "\
local count, answers = #KEYS / 2, {}
for at = 1, count do
  if redis.call('EXISTS', KEYS[at]) == 1 then answers[at] = 1
  else answers[at] = get(KEYS[count + at]) end
end
return answers";

/// A Redis server, for the entries of one seal.
#[derive(Debug)]
pub(crate) struct Redis {
    server: Server,
    entries: String,
    leases: String,
    ttl: Duration,
    claims: AtomicU64,
}

/// A Redis server with its connections.
#[derive(Clone, Debug)]
pub(crate) struct Server(Arc<Pool>);

impl Server {
    pub(crate) fn new(tls: bool, host: String, port: u16, database: u32) -> Result<Self, RemoteError> {
        let tls = match tls {
            true => Some(Arc::new(crate::tls::config().ok_or(Problem::NoCertificates)?)),
            false => None,
        };
        Ok(Self(Arc::new(Pool::new(host, port, database, tls))))
    }

    /// Sends a command whose reply has at most so many entries.
    fn one(&self, command: Cmd, entries: usize, until: Instant) -> Result<Value, Trouble> {
        self.0.call(&[command], entries, until)?.pop().ok_or_else(unexpected)
    }
}

impl Redis {
    /// Creates the engine of the entries below `prefix` with this seal, whose leases live as long as `ttl` without renewal.
    pub(crate) fn new(server: Server, prefix: &str, seal: &str, ttl: Duration) -> Self {
        let entries = format!("{prefix}:v1:{seal}:");
        Self { leases: format!("{entries}lease:"), entries, server, ttl, claims: AtomicU64::new(0) }
    }

    fn entry(&self, name: &Key) -> String {
        format!("{}{name}", self.entries)
    }

    fn lease(&self, name: &Key) -> String {
        format!("{}{name}", self.leases)
    }

    /// Gets these entries in one request.
    fn get_all(&self, names: &[Key], until: Instant) -> Result<Vec<Option<Entry>>, Trouble> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = cmd("MGET");
        names.iter().for_each(|name| _ = command.arg(self.entry(name)));
        let Value::Array(found) = self.server.one(command, names.len(), until)? else {
            return Err(unexpected());
        };
        let entries: Option<Vec<_>> = found
            .into_iter()
            .map(|entry| match entry {
                Value::BulkString(bytes) => Some(Some(Entry::new(bytes))),
                Value::Nil => Some(None),
                _ => None,
            })
            .collect();
        entries.filter(|entries| entries.len() == names.len()).ok_or_else(unexpected)
    }

    /// Returns a command that runs a script with these keys, the token and the milliseconds that leases live.
    fn script(&self, text: &str, keys: &[String], token: &Token) -> Cmd {
        let mut command = cmd("EVAL");
        command.arg([GET, text].concat()).arg(keys.len()).arg(keys).arg(token.as_bytes());
        command.arg(u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX).max(1));
        command
    }

    /// Returns the number of a lease that begins now. Renewals have 2^20 numbers until the next one: a version that recurred would look
    /// as if it had stood still since another process last saw it. Lua counts exactly up to 2^53.
    fn first_number(&self) -> u64 {
        self.claims.fetch_add(1, Ordering::Relaxed) << 20
    }
}

impl Engine for Redis {
    fn get_many(&self, names: &[Key], until: Instant) -> Vec<Result<Option<Entry>, Trouble>> {
        match self.get_all(names, until) {
            Ok(entries) => entries.into_iter().map(Ok).collect(),
            Err(trouble) => vec![Err(trouble); names.len()],
        }
    }

    fn survey(&self, names: &[Key], until: Instant) -> Result<Vec<Surveyed>, Trouble> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = cmd("EVAL");
        command.arg([GET, SURVEY].concat()).arg(2 * names.len());
        names.iter().for_each(|name| _ = command.arg(self.entry(name)));
        names.iter().for_each(|name| _ = command.arg(self.lease(name)));
        let Value::Array(answers) = self.server.one(command, 0, until)? else { return Err(unexpected()) };
        let answers: Option<Vec<_>> = answers
            .into_iter()
            .map(|answer| match answer {
                Value::Int(_) => Some(Surveyed::Stored),
                Value::BulkString(held) => Some(Surveyed::Held(Version::new(held))),
                Value::Nil => Some(Surveyed::Free),
                _ => None,
            })
            .collect();
        answers.filter(|answers| answers.len() == names.len()).ok_or_else(unexpected)
    }

    fn get_or_claim(&self, name: &Key, token: &Token, until: Instant) -> Result<Answer, Trouble> {
        let mut command = self.script(GET_OR_CLAIM, &[self.entry(name), self.lease(name)], token);
        command.arg(self.first_number());
        let Value::Array(answer) = self.server.one(command, 1, until)? else { return Err(unexpected()) };
        let Ok([Value::BulkString(kind), Value::BulkString(bytes)]) = <[Value; 2]>::try_from(answer) else {
            return Err(unexpected());
        };
        match kind.as_slice() {
            b"stored" => Ok(Answer::Stored(Entry::new(bytes))),
            b"held" => Ok(Answer::Held(Version::new(bytes))),
            b"claimed" => Ok(Answer::Claimed(Version::new(bytes))),
            _ => Err(unexpected()),
        }
    }

    fn claim(
        &self,
        name: &Key,
        token: &Token,
        over: Option<&Version>,
        until: Instant,
    ) -> Result<Option<Version>, Trouble> {
        let mut command = self.script(CLAIM, &[self.lease(name)], token);
        command.arg(self.first_number()).arg(over.map(Version::as_bytes).unwrap_or_default());
        version(self.server.one(command, 0, until)?)
    }

    fn renew(
        &self,
        held: &[(Key, Version)],
        token: &Token,
        until: Instant,
    ) -> Vec<Result<Option<Version>, Trouble>> {
        if held.is_empty() {
            return Vec::new();
        }
        let renewal = |(name, _): &(Key, Version)| self.script(RENEW, &[self.lease(name)], token);
        let renewals: Vec<Cmd> = held.iter().map(renewal).collect();
        match self.server.0.call(&renewals, 0, until) {
            Ok(replies) => replies.into_iter().map(version).collect(),
            Err(trouble) => vec![Err(trouble); held.len()],
        }
    }

    fn release(&self, names: &[Key], token: &Token, until: Instant) -> Result<(), Trouble> {
        if names.is_empty() {
            return Ok(());
        }
        let release = |name| self.script(RELEASE, &[self.lease(name)], token);
        let releases: Vec<Cmd> = names.iter().map(release).collect();
        self.server.0.call(&releases, 0, until).map(drop)
    }

    fn put(&self, name: &Key, entry: &[u8], until: Instant) -> Result<(), Trouble> {
        let mut command = cmd("SET");
        command.arg(self.entry(name)).arg(entry);
        self.server.one(command, 0, until).map(drop)
    }

    fn list(&self, page: Option<&str>, until: Instant) -> Result<Page, Trouble> {
        // A prefix may hold what is special in patterns.
        let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '\\');
        let mut pattern = String::new();
        for c in self.entries.chars() {
            pattern.extend(special(c).then_some('\\').into_iter().chain([c]));
        }
        let mut command = cmd("SCAN");
        command.arg(page.unwrap_or("0")).arg("MATCH").arg(pattern + "*").arg("COUNT").arg(SCANNED);
        let listed = self.server.one(command, 0, until).map_err(|trouble| match trouble {
            Trouble::Forbidden(why) => {
                Trouble::Forbidden(format!("{why}; only a user that may run SCAN lists, such as the copier"))
            }
            trouble => trouble,
        });
        let Value::Array(reply) = listed? else { return Err(unexpected()) };
        let Ok([Value::BulkString(next), Value::Array(keys)]) = <[Value; 2]>::try_from(reply) else {
            return Err(unexpected());
        };
        let name_of = |key| match key {
            Value::BulkString(key) => {
                Key::from_hex(std::str::from_utf8(&key).ok()?.strip_prefix(&self.entries)?)
            }
            _ => None,
        };
        let next = String::from_utf8(next).map_err(|_| unexpected())?;
        Ok(Page {
            names: keys.into_iter().filter_map(name_of).collect(),
            next: (next != "0").then_some(next),
        })
    }

    /// Does nothing: the server notes each use itself.
    fn touch(&self, _name: &Key, _until: Instant) {}

    fn remove(&self, name: &Key, until: Instant) -> Result<bool, Trouble> {
        let mut command = cmd("DEL");
        command.arg(self.entry(name));
        match self.server.one(command, 0, until)? {
            Value::Int(removed) => Ok(removed > 0),
            _ => Err(unexpected()),
        }
    }
}

fn version(reply: Value) -> Result<Option<Version>, Trouble> {
    match reply {
        Value::BulkString(held) => Ok(Some(Version::new(held))),
        Value::Nil => Ok(None),
        _ => Err(unexpected()),
    }
}

fn unexpected() -> Trouble {
    Trouble::Other("redis answered what no such command answers".to_owned())
}
