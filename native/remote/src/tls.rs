//! The configuration of TLS, with ring. The provider of the host's process is neither needed nor changed.

use std::sync::Arc;

use rustls::{ClientConfig, crypto::ring};
use rustls_platform_verifier::BuilderVerifierExt as _;

/// Returns a configuration that verifies servers by the certificates of this machine; `None` if there are none.
pub(crate) fn config() -> Option<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().ok()?;
    Some(builder.with_platform_verifier().ok()?.with_no_client_auth())
}
