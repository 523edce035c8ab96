//! Clients of S3 and of plain HTTP: where credentials come from, and what errors mean.

use std::{
    collections::BTreeMap,
    env,
    error::Error as _,
    fs,
    path::{Path as FilePath, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use object_store::{
    ClientOptions, Error, ObjectStore, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut, S3CopyIfNotExists},
    client::{HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService},
    http::{HttpBuilder, HttpStore},
};

use crate::{engine::Trouble, tls};

/// The place of objects, without its credentials.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    S3 { bucket: String, endpoint: Option<String>, region: Option<String> },
    Http { url: String },
}

impl Source {
    /// Returns whether only the role of the machine can give credentials.
    pub(super) fn lacks_keys(&self) -> bool {
        matches!(self, Self::S3 { .. }) && !KEYS.into_iter().any(is_set) && profile_keys().is_none()
    }
}

#[derive(Debug)]
pub(super) enum Client {
    S3(AmazonS3),
    Http(HttpStore),
}

impl Client {
    /// Creates a client.
    ///
    /// # Errors
    /// [`Trouble::Other`] if this machine has no certificates, or the credentials are incomplete.
    pub(super) fn new(source: &Source) -> Result<Self, Trouble> {
        let failed = |_| {
            let why = match tls::config() {
                None => "this machine has no certificates; install ca-certificates, or correct SSL_CERT_FILE",
                Some(_) => "its credentials are incomplete; AWS_ACCESS_KEY_ID needs AWS_SECRET_ACCESS_KEY",
            };
            Trouble::Other(why.to_owned())
        };
        let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
        match source {
            Source::S3 { bucket, endpoint, region } => {
                let mut builder = with_profile(AmazonS3Builder::from_env())
                    .with_bucket_name(bucket)
                    .with_conditional_put(S3ConditionalPut::ETagMatch)
                    .with_disable_bulk_delete(true)
                    // S3 copies an object to itself only if its metadata are replaced; this is how to say so.
                    .with_copy_if_not_exists(S3CopyIfNotExists::Header(
                        "x-amz-metadata-directive".to_owned(),
                        "REPLACE".to_owned(),
                    ))
                    .with_http_connector(Connector)
                    .with_retry(retry);
                if let Some(endpoint) = endpoint {
                    builder = builder.with_endpoint(endpoint);
                }
                if let Some(region) = region {
                    builder = builder.with_region(region);
                }
                builder.build().map(Self::S3).map_err(failed)
            }
            Source::Http { url } => {
                let builder =
                    HttpBuilder::new().with_url(url).with_http_connector(Connector).with_retry(retry);
                builder.build().map(Self::Http).map_err(failed)
            }
        }
    }

    pub(super) fn store(&self) -> &dyn ObjectStore {
        match self {
            Self::S3(store) => store,
            Self::Http(store) => store,
        }
    }
}

/// Connects with this crate's configuration of TLS. Deadlines are those of the calls; redirections are not followed.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |source| Error::Generic { store: "HTTP", source };
        let tls = tls::config().ok_or_else(|| failed("no certificates".into()))?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("warmstart/", env!("CARGO_PKG_VERSION")))
            .pool_idle_timeout(Duration::from_secs(30))
            .build()
            .map_err(|error| failed(Box::new(error)))?;
        Ok(HttpClient::new(Service(client)))
    }
}

#[derive(Debug)]
struct Service(reqwest::Client);

/// The status of a response, where `object_store` would tell it only in the text of its error.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it answered {0}")]
struct Status(u16);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_listing = request.uri().query().is_some_and(|query| query.contains("list-type="));
        let response = self.0.call(request).await?;
        match response.status().as_u16() {
            // What is listed has no name that could be absent: the bucket is. The client would not tell the others apart.
            status @ (401 | 403 | 404) if is_listing => {
                Err(HttpError::new(HttpErrorKind::Unknown, Status(status)))
            }
            // Each of these has an error of its own.
            200..=299 | 304 | 401 | 403 | 404 | 409 | 412 => Ok(response),
            status => Err(HttpError::new(HttpErrorKind::Unknown, Status(status))),
        }
    }
}

/// The variables of AWS's own programs that give keys or a role.
const KEYS: [&str; 4] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
];

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Adds what the profile file says, unless the environment has keys or a role.
fn with_profile(mut builder: AmazonS3Builder) -> AmazonS3Builder {
    if is_set("AWS_REGION") {
        // It comes before AWS_DEFAULT_REGION, which the builder may have read last.
        builder = builder.with_region(env::var("AWS_REGION").unwrap_or_default());
    }
    if !KEYS.into_iter().any(is_set)
        && let Some((id, secret, token)) = profile_keys()
    {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        if let Some(token) = token {
            builder = builder.with_token(token);
        }
    }
    let profile = profile();
    let section = if profile == "default" { profile } else { format!("profile {profile}") };
    if !is_set("AWS_REGION")
        && !is_set("AWS_DEFAULT_REGION")
        && let Some(region) =
            read_profile("AWS_CONFIG_FILE", "config", &section).and_then(|mut found| found.remove("region"))
    {
        builder = builder.with_region(region);
    }
    builder
}

fn profile() -> String {
    env::var("AWS_PROFILE").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned())
}

/// Reads the keys of the profile: the id, the secret, and the token of a session.
fn profile_keys() -> Option<(String, String, Option<String>)> {
    let mut found = read_profile("AWS_SHARED_CREDENTIALS_FILE", "credentials", &profile())?;
    let mut take = |name: &str| found.remove(name);
    Some((take("aws_access_key_id")?, take("aws_secret_access_key")?, take("aws_session_token")))
}

/// Reads a section of the file that `variable` names, or of the file `name` in AWS's folder.
fn read_profile(variable: &str, name: &str, section: &str) -> Option<BTreeMap<String, String>> {
    let named = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = named.or_else(|| env::home_dir().map(|home| home.join(".aws").join(name)))?;
    section_of(&path, section)
}

/// Reads one section of an INI file.
fn section_of(path: &FilePath, section: &str) -> Option<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).ok()?;
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            if found.is_some() {
                break;
            }
            found = (name.trim() == section).then(BTreeMap::new);
        } else if let (Some(found), Some((name, value))) = (&mut found, line.split_once('=')) {
            found.insert(name.trim().to_owned(), value.trim().to_owned());
        }
    }
    found
}

/// Returns whether the server answered that it does not implement such requests.
pub(super) fn is_unimplemented(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(Status(501)) = cause.downcast_ref() {
            return true;
        }
        source = cause.source();
    }
    false
}

/// Converts an error. Nothing that a server wrote is kept, because S3 repeats the id of the key.
pub(super) fn trouble_of(error: &Error) -> Trouble {
    let mut status = match error {
        Error::NotFound { .. } => Some(404),
        Error::PermissionDenied { .. } => Some(403),
        Error::Unauthenticated { .. } => Some(401),
        Error::AlreadyExists { .. } | Error::Precondition { .. } => Some(412),
        _ => None,
    };
    let (mut http, mut tls) = (None, None);
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(Status(answered)) = cause.downcast_ref() {
            status = status.or(Some(*answered));
        }
        if let Some(failed) = cause.downcast_ref::<HttpError>() {
            http = Some(failed.kind());
        }
        tls = tls.or_else(|| tls::refusal(cause));
        source = cause.source();
    }
    let said =
        status.map_or_else(|| "the request failed".to_owned(), |status| format!("it answered {status}"));
    match (status, http) {
        (Some(301 | 307 | 308), _) => Trouble::Other(format!("{said}; check the region of the bucket")),
        (Some(401 | 403), _) => {
            Trouble::Forbidden(format!("{said}; check its credentials, and their rights by docs/fleet.md"))
        }
        (Some(405 | 501), _) => Trouble::ReadOnly(said),
        (Some(408 | 409 | 412 | 429 | 500 | 502 | 503 | 504), _) => Trouble::Busy(said),
        (Some(413 | 507), _) => Trouble::Full(said),
        // An absent entry is none of these.
        (Some(404), _) => Trouble::Unreachable(format!("{said}; check the name of the bucket")),
        (Some(_), _) => Trouble::Other(said),
        (None, Some(HttpErrorKind::Timeout)) => Trouble::TimedOut("the time is up".to_owned()),
        (None, Some(_)) => {
            let why =
                tls.unwrap_or("the connection failed; start the server, or correct its host in the URL");
            Trouble::Unreachable(why.to_owned())
        }
        (None, None) => Trouble::Other(format!(
            "{said}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile that has keys"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_of_a_profile_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        fs::write(&path, "# ours\n[default]\na = 1\n\n[profile team]\nregion=eu\n a = b=c \n[last]\na = 3\n")
            .unwrap();
        let read = |section, name| section_of(&path, section).and_then(|mut found| found.remove(name));
        assert_eq!(read("default", "a").as_deref(), Some("1"));
        assert_eq!(read("profile team", "region").as_deref(), Some("eu"));
        assert_eq!(read("profile team", "a").as_deref(), Some("b=c"));
        assert_eq!(read("last", "a").as_deref(), Some("3"));
        assert_eq!(read("other", "a"), None);
    }
}
