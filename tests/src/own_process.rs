//! Runs tests in processes of their own: the test program is started again, to run one test.
//!
//! A test that others in its process would disturb, because it changes the current directory or counts free space, wraps
//! its body:
//!
//! ```text
//! #[test]
//! fn a_relative_path_is_resolved_once() {
//!     own_process!(|| {
//!         std::env::set_current_dir("/").unwrap();
//!     });
//! }
//! ```
//!
//! A test that starts processes of itself begins with
//!
//! ```text
//! let Some(children) = children_of!(work) else { return };
//! ```
//!
//! In a child, this runs `work` and returns `None`. In the test itself it returns [`Children`], which start such children.

use std::{
    env,
    process::{Command, Stdio},
};

/// Names the test that a child runs. It is not set in other processes.
const VARIABLE: &str = "WARMSTART_TEST_IN_OWN_PROCESS";

/// Printed once the work of a child is done.
const DONE: &str = "THE WORK OF THIS PROCESS IS DONE";

/// Runs a function without captures in a process of its own, and fails if it fails there.
#[macro_export]
macro_rules! own_process {
    ($body:expr) => {{
        fn here() {}
        $crate::own_process::run(std::any::type_name_of_val(&here), $body)
    }};
}

/// Returns the [`Children`](crate::own_process::Children) of a test, which run this function; in a child, runs it and returns `None`.
#[macro_export]
macro_rules! children_of {
    ($work:expr) => {{
        fn here() {}
        $crate::own_process::children(std::any::type_name_of_val(&here), $work)
    }};
}

/// Starts processes that run the work of one test.
#[derive(Debug)]
pub struct Children {
    test: String,
}

impl Children {
    /// Returns the command that starts a child. Its standard output has what the work prints.
    ///
    /// # Panics
    /// If this program cannot be found.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(env::current_exe().expect("a running program has a path"));
        command.args(["--exact", &self.test, "--include-ignored", "--nocapture"]).env(VARIABLE, &self.test);
        command
    }

    /// Checks that the test exists: a filter that matches no test is no error, and the child would do nothing.
    fn check(&self) {
        let listed = self.command().args(["--list", "--format", "terse"]).output().expect("it starts again");
        let listed = String::from_utf8_lossy(&listed.stdout);
        assert_eq!(listed.trim(), format!("{}: test", self.test), "no test has this name");
    }
}

/// Expands [`children_of!`](crate::children_of!). `here` is the path of an item within the test, which gives its name.
///
/// # Panics
/// If `here` leads to no test.
pub fn children(here: &str, work: impl FnOnce()) -> Option<Children> {
    // `program::module::test::here`, and a closure within `test` may be on the way.
    let path = here.trim_end_matches("::here").trim_end_matches("::{{closure}}");
    let test = path.split_once("::").map_or(path, |(_, test)| test).to_owned();
    if env::var_os(VARIABLE).is_some_and(|name| *name == *test) {
        work();
        println!("\n{DONE}");
        return None;
    }
    let children = Children { test };
    children.check();
    Some(children)
}

/// Expands [`own_process!`](crate::own_process!).
///
/// # Panics
/// If `work` panics, or was not done.
pub fn run(here: &str, work: fn()) {
    let Some(children) = children(here, work) else { return };
    let output = children.command().stdin(Stdio::null()).output().expect("it starts again");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    print!("{said}");
    assert!(output.status.success() && said.lines().any(|line| line == DONE), "in its own process: {errors}");
}
