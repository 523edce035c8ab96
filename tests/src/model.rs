//! Any program of operations, run on a store and on a model that is too simple to be wrong.
//!
//! A [`Program`] is made of any bytes: a fuzzer's, or those of a seeded generator.
//!
//! | module | holds |
//! |---|---|
//! | [`program`] | the operations, and how bytes become a list of them |
//! | [`place`] | the kinds of store, and where one is kept |
//! | [`mod@damage`] | how what is stored is damaged |
//! | [`lru`] | a store as it should be: a list in the order of use |
//! | [`exact`] | what each call must answer, to the entry, as long as no call of the disk failed |
//! | [`known`] | what may be found under each key, whatever failed |
//! | [`kept`] | what may be kept of reports |
//! | [`mod@run`] | the calls, and the comparison |

pub mod damage;
pub mod exact;
pub mod kept;
pub mod known;
pub mod lru;
pub mod place;
pub mod program;
pub mod run;

pub use place::Kind;
pub use program::Program;
pub use run::run;
