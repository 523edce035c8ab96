//! URLs of remotes, parsed once. None of them may hold credentials.

use std::fmt;

use object_store::path::Path;
use url::{Host, Url};

/// The prefix of names on a Redis server whose URL gives none.
const PREFIX: &str = "warmstart";

/// What to do about a URL of another kind.
const SCHEMES: &str = "use redis://host, rediss://host, s3://bucket/prefix or https://host/path";

/// The place that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    Redis { tls: bool, host: String, port: u16, database: u32, prefix: String },
    S3 { bucket: String, prefix: String, endpoint: Option<String>, region: Option<String> },
    Http { url: String },
}

/// The reason why a remote cannot be opened. The message says what to do, and names no credentials.
///
/// A remote that is down is no error: the store opens, and its look-ups miss with the reason.
///
/// ```
/// use warmstart_remote::{RemoteOptions, RemoteStore};
///
/// let options = RemoteOptions::default().with_secret(&[7; 32]);
/// let error = RemoteStore::open("redis://anna:secret@cache.example", options).unwrap_err();
/// assert!(error.is_credentials());
/// assert!(!error.to_string().contains("secret") && error.to_string().contains("REDISCLI_AUTH"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteError(Problem);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error(
        "its URL holds a user, a password or a key, and URLs get into logs; give {0} credentials by {remedy}",
        remedy = if *.0 == "s3" { "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or the role of the machine" }
            else if *.0 == "redis" { "REDISCLI_AUTH and WARMSTART_REDIS_USER" }
            else { "a proxy in front of it; a remote over plain HTTP has none" }
    )]
    Credentials(&'static str),
    #[error("its URL is not understood: {0}")]
    Invalid(String),
    #[error(
        "it has no secret; seal its entries with `with_secret`, or accept what anyone stores there with `unsealed`"
    )]
    Untrusted,
    #[error("it has a secret, and `unsealed` gives it up; choose one of them")]
    Contradiction,
    #[error(
        "this machine has no certificates to verify the server by; install ca-certificates, or correct SSL_CERT_FILE"
    )]
    NoCertificates,
}

impl Location {
    pub(crate) fn parse(text: &str) -> Result<Self, RemoteError> {
        // A URL that does not parse is not repeated: it may hold a password in another place than this looks at.
        let url = Url::parse(text).map_err(|error| match error {
            url::ParseError::RelativeUrlWithoutBase => {
                Problem::Invalid(format!("it has no scheme; {SCHEMES}; the path of a store is no remote"))
            }
            error => Problem::Invalid(format!("{error}; {SCHEMES}")),
        })?;
        let engine = match url.scheme() {
            "redis" | "rediss" => "redis",
            "s3" => "s3",
            "http" | "https" => "http",
            other => {
                return Err(
                    Problem::Invalid(format!("{other}:// is no scheme of a remote; {SCHEMES}")).into()
                );
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Problem::Credentials(engine).into());
        }
        if url.fragment().is_some() {
            return Err(Problem::Invalid("it has a fragment; take away what begins with #".to_owned()).into());
        }
        match engine {
            "redis" => Self::redis(&url),
            "s3" => Self::s3(&url),
            _ => Self::http(&url),
        }
    }

    fn redis(url: &Url) -> Result<Self, RemoteError> {
        let host = match url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => host.to_string(),
            None => return Err(Problem::Invalid("it names no host".to_owned()).into()),
        };
        let [prefix] = parameters(url, "redis", ["prefix"])?;
        let database = match url.path().trim_matches('/') {
            "" => 0,
            number => number.parse().map_err(|_| {
                Problem::Invalid(
                    "what follows the host is not the number of a database, as in redis://host/0".into(),
                )
            })?,
        };
        let tls = url.scheme() == "rediss";
        Ok(Self::Redis {
            tls,
            host,
            port: url.port().unwrap_or(6379),
            database,
            prefix: prefix.unwrap_or_else(|| PREFIX.to_owned()),
        })
    }

    fn s3(url: &Url) -> Result<Self, RemoteError> {
        let Some(bucket) = url.host_str().filter(|bucket| !bucket.is_empty()) else {
            return Err(Problem::Invalid("it names no bucket, as in s3://bucket/prefix".to_owned()).into());
        };
        let [endpoint, region] = parameters(url, "s3", ["endpoint", "region"])?;
        if let Some(endpoint) = &endpoint {
            let parsed = Url::parse(endpoint).map_err(|error| {
                Problem::Invalid(format!("its endpoint: {error}; it begins with https:// or http://"))
            })?;
            if !parsed.username().is_empty() || parsed.password().is_some() || parsed.query().is_some() {
                return Err(Problem::Credentials("s3").into());
            }
            // Many S3 servers of a closed network have no certificate. Requests are signed: the secret key is not sent.
            if !matches!(parsed.scheme(), "http" | "https") {
                return Err(
                    Problem::Invalid("its endpoint is neither https:// nor http://".to_owned()).into()
                );
            }
        }
        let prefix = url.path().trim_matches('/').to_owned();
        // Objects would be stored below another prefix, which no policy or rule of the bucket names.
        if Path::from(prefix.as_str()).as_ref() != prefix {
            let allowed = "use letters without accents, digits, `-`, `_` and `.` between single slashes";
            return Err(Problem::Invalid(format!("names of objects escape its prefix; {allowed}")).into());
        }
        Ok(Self::S3 { bucket: bucket.to_owned(), prefix, endpoint, region })
    }

    fn http(url: &Url) -> Result<Self, RemoteError> {
        // The query of a signed URL is a key.
        if url.query().is_some() {
            return Err(Problem::Credentials("http").into());
        }
        let is_loopback = match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        };
        if url.scheme() == "http" && !is_loopback {
            return Err(Problem::Invalid("http:// is for this machine only; use https://".to_owned()).into());
        }
        Ok(Self::Http { url: url.as_str().trim_end_matches('/').to_owned() })
    }
}

/// Returns the values of these parameters of the query. Errors repeat only names, because values may be secret.
fn parameters<const N: usize>(
    url: &Url,
    engine: &'static str,
    known: [&str; N],
) -> Result<[Option<String>; N], RemoteError> {
    const SECRETS: [&str; 6] = ["password", "secret", "token", "key", "signature", "credential"];
    let mut values = [const { None }; N];
    for (name, value) in url.query_pairs() {
        match known.iter().position(|known| *known == name) {
            Some(at) => values[at] = Some(value.into_owned()),
            None if SECRETS.iter().any(|secret| name.to_ascii_lowercase().contains(secret)) => {
                return Err(Problem::Credentials(engine).into());
            }
            None => {
                // It may hold what changes a terminal.
                let (name, known) = (name.escape_debug(), known.join(", "));
                return Err(Problem::Invalid(format!("{name} is no parameter; there are: {known}")).into());
            }
        }
    }
    Ok(values)
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis { tls, host, port, database, prefix } => {
                let scheme = if *tls { "rediss" } else { "redis" };
                // Only an address of version 6 has colons.
                match host.contains(':') {
                    true => write!(f, "{scheme}://[{host}]:{port}/{database}")?,
                    false => write!(f, "{scheme}://{host}:{port}/{database}")?,
                }
                match prefix.as_str() {
                    PREFIX => Ok(()),
                    prefix => write!(f, "?prefix={}", prefix.escape_debug()),
                }
            }
            Self::S3 { bucket, prefix, .. } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Http { url } => f.write_str(url),
        }
    }
}

impl RemoteError {
    /// Returns whether the URL holds credentials.
    #[must_use]
    pub const fn is_credentials(&self) -> bool {
        matches!(self.0, Problem::Credentials(_))
    }

    /// Returns whether the URL is not that of a remote.
    #[must_use]
    pub const fn is_invalid(&self) -> bool {
        matches!(self.0, Problem::Invalid(_))
    }

    /// Returns whether the options say neither or both of a secret and [`unsealed`](crate::RemoteOptions::unsealed).
    #[must_use]
    pub const fn is_untrusted(&self) -> bool {
        matches!(self.0, Problem::Untrusted | Problem::Contradiction)
    }
}

impl From<Problem> for RemoteError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot open the remote: {}", self.0)
    }
}

impl fmt::Debug for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for RemoteError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_of_each_engine_is_parsed() {
        for (url, shown) in [
            ("redis://cache", "redis://cache:6379/0"),
            ("rediss://[::1]:7000/3?prefix=team", "rediss://[::1]:7000/3?prefix=team"),
            ("s3://bucket/a/b/", "s3://bucket/a/b"),
            ("s3://bucket?endpoint=http://127.0.0.1:9000&region=r", "s3://bucket/"),
            ("https://host/path/", "https://host/path"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ] {
            assert_eq!(
                Location::parse(url).map(|location| location.to_string()),
                Ok(shown.to_owned()),
                "{url}"
            );
        }
    }

    #[test]
    fn url_with_credentials_is_refused_without_repeating_them() {
        for url in [
            "redis://:hunter2@cache",
            "redis://hunter2@cache/1",
            "rediss://anna:hunter2@cache",
            "s3://AKIA:hunter2@bucket",
            "s3://bucket?endpoint=http://anna:hunter2@host",
            "https://anna:hunter2@host/",
            "https://host/a?X-Amz-Signature=hunter2",
            "redis://host?password=hunter2",
            "s3://b?secret=hunter2",
        ] {
            let error = Location::parse(url).unwrap_err();
            assert!(error.is_credentials(), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn url_that_is_not_understood_is_refused_by_name() {
        for (url, part) in [
            ("cache:6379", "is no scheme"),
            ("file:///tmp", "is no scheme"),
            ("redis://host/many", "database"),
            ("redis://host?db=1", "db is no parameter"),
            ("host/path", "no scheme"),
            ("s3:///prefix", "no bucket"),
            ("s3://b?endpoint=host:9000", "http://"),
            ("redis://host?%1b]0;evil%07=1", r"\u{1b}]0;evil\u{7} is no parameter"),
            ("s3://b/team~one", "its prefix"),
            ("s3://b/a//b", "its prefix"),
            ("s3://b/a%20b", "its prefix"),
            ("s3://b/a%2Fb", "its prefix"),
            ("s3://b/café", "its prefix"),
            ("s3://b/x*y", "its prefix"),
            ("s3://b/a[b", "its prefix"),
            ("http://example.org/", "https://"),
            ("redis://user:hunter2@host:port", "invalid port"),
        ] {
            let error = Location::parse(url).unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains(part), "{url}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
