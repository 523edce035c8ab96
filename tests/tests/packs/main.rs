//! Files of packed weights: alone, between processes, and with the real XNNPACK.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

#[cfg(unix)]
mod adversary;
#[cfg(unix)]
mod beside;
#[cfg(unix)]
mod capi;
mod compact;
mod convert;
#[cfg(unix)]
mod digest;
mod goldens;
mod inspect;
#[cfg(unix)]
mod processes;
mod saved;
mod xnnpack {
    //! XNNPACK, and the weights cache that it is given.

    mod calls;
    mod library;
    #[cfg(unix)]
    mod model;
    #[cfg(unix)]
    mod provider;
    mod recording_cache;
    #[cfg(unix)]
    mod relay;
}
