//! The file store passes the conformance suite.

warmstart_tests::conformance!(warmstart_tests::conformance::files::Files);
