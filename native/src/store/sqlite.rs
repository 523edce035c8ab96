//! The SQLite store: one database file, shared by any number of processes.
