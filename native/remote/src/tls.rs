//! The configuration of TLS, with ring. The provider of the host's process is neither needed nor changed.

use std::{error::Error, io, sync::Arc};

use rustls::{CertificateError, ClientConfig, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Returns a configuration that verifies servers by the certificates of this machine; `None` if there are none.
pub(crate) fn config() -> Option<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().ok()?;
    Some(builder.with_platform_verifier().ok()?.with_no_client_auth())
}

/// Returns what to do about a failure of TLS; nothing if this is another error. Its sources are not looked at.
pub(crate) fn refusal(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut inner = error;
    // An error of the system hides the error that it was made of from `source`.
    while let Some(hidden) = inner.downcast_ref::<io::Error>() {
        inner = hidden.get_ref()?;
    }
    Some(match inner.downcast_ref()? {
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer => {
                "TLS: no authority that this machine knows signed the server's certificate; name its file in SSL_CERT_FILE"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "TLS: the server's certificate is for another host; use the name of the host that it is for"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "TLS: the server's certificate has expired, or the clock of this machine is wrong"
            }
            _ => "TLS: the server's certificate is refused",
        },
        rustls::Error::InvalidMessage(_) => {
            "TLS: the server answers without TLS; check the port and the scheme of the URL"
        }
        _ => "TLS: the handshake failed",
    })
}
