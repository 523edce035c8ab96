//! Tests that run in processes of their own: this program is started again to run the one test.
//!
//! A test whose body must not meet others, because it changes the current directory or counts free space, is
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
//! A test that starts processes begins with
//!
//! ```text
//! let Some(children) = children_of!(work) else { return };
//! ```
//!
//! In a child this runs `work` and gives `None`. In the test itself it gives [`Children`], which start such processes.

use std::{
    env,
    process::{Command, Stdio},
};

/// Names the test that a process was started for.
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

/// The processes of a test that run this function; `None` in such a process, after the function.
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
    /// A process that does the work, and prints to its standard output what the work prints.
    ///
    /// # Panics
    /// If this program cannot be found.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(env::current_exe().expect("a running program has a path"));
        command.args(["--exact", &self.test, "--include-ignored", "--nocapture"]).env(VARIABLE, &self.test);
        command
    }

    /// A filter that matches nothing is no error of a test program.
    fn check(&self) {
        let listed = self.command().args(["--list", "--format", "terse"]).output().expect("it starts again");
        let listed = String::from_utf8_lossy(&listed.stdout);
        assert_eq!(listed.trim(), format!("{}: test", self.test), "no test has this name");
    }
}

/// What [`children_of!`](crate::children_of!) gives; `here` is the path of an item in the test.
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

/// What [`own_process!`](crate::own_process!) does.
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
