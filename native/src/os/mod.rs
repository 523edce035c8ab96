//! The seam between the file store and the operating system.

#[cfg(unix)]
pub(crate) const NO_FOLLOW: i32 =
    (rustix::fs::OFlags::NOFOLLOW.bits() | rustix::fs::OFlags::NONBLOCK.bits()) as i32;
