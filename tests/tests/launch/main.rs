//! The launch memo: what launches need travels with artifacts, and the example of a launch loop.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

mod artifacts;
mod example;
