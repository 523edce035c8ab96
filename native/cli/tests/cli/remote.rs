//! `warmstart remote`, against a Redis.

use crate::support::command;

#[cfg(not(feature = "remote"))]
#[test]
fn command_without_the_feature_says_how_to_get_it() {
    let ran = crate::support::ran(&command().args(["remote", "stats", "there"]).output().unwrap());
    assert_eq!(ran.code, Some(1));
    assert!(ran.errors.contains("install it again with `--features remote`"), "{ran:?}");
}

#[cfg(feature = "remote")]
mod with_the_feature {
    use std::{fs, path::Path};

    use serde_json::{Value, json};
    use warmstart::{
        Artifact, Store,
        store::{FileStore, StoreOptions},
    };
    use warmstart_remote::{Fleet, FleetOptions, RemoteOptions, RemoteStore};
    use warmstart_tests::servers::{Server, free_port};

    use super::command;
    use crate::support::{Ran, filled, ran};

    /// Runs `warmstart remote` with the secret of `folder`.
    fn remote(folder: &Path, arguments: &[&str]) -> Ran {
        let secret = folder.join("secret");
        fs::write(&secret, [7; 32]).unwrap();
        let mut command = command();
        command.arg("--json").args(["remote"]).args(arguments);
        if arguments[0] != "stats" {
            command.arg("--secret").arg(secret);
        }
        ran(&command.output().unwrap())
    }

    fn json_of(ran: &Ran) -> Value {
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.json()
    }

    #[test]
    fn store_is_pushed_to_a_remote_and_pulled_elsewhere() {
        let (folder, stores) = filled();
        let server = Server::redis(&[]);
        let url = format!("redis://127.0.0.1:{}", server.port);
        let checked = json_of(&remote(folder.path(), &["check", &url]));
        for part in ["read", "list", "write", "leases"] {
            assert_eq!(checked[part]["ok"], json!(true), "{checked}");
        }
        let store = stores[0].to_str().unwrap();
        let pushed = json_of(&remote(folder.path(), &["push", store, &url]));
        assert_eq!(
            [&pushed["entries"], &pushed["present"], &pushed["refused"]],
            [&json!(3), &json!(0), &json!(0)]
        );
        let pushed = json_of(&remote(folder.path(), &["push", store, &url]));
        assert_eq!([&pushed["entries"], &pushed["present"]], [&json!(0), &json!(3)]);

        let other = folder.path().join("other");
        let pulled = json_of(&remote(folder.path(), &["pull", &url, other.to_str().unwrap()]));
        assert_eq!([&pulled["entries"], &pulled["refused"]], [&json!(3), &json!(0)]);
        let other = FileStore::open(other, StoreOptions::default()).unwrap();
        assert_eq!(other.get(b"plain").unwrap().payload(), [1, 2, 3]);
    }

    #[test]
    fn pull_of_nothing_is_a_failure_and_leaves_no_store() {
        let (folder, server, dead) = (tempfile::tempdir().unwrap(), Server::redis(&[]), free_port());
        let url = format!("redis://127.0.0.1:{}", server.port);
        let options = RemoteOptions::default().with_deadline(std::time::Duration::from_secs(9));
        let other = RemoteStore::open(&url, options.with_secret(&[8; 32])).unwrap();
        other.put(b"key", &Artifact::new(vec![1, 2, 3])).unwrap();
        let store = folder.path().join("store");
        let dead_url = format!("redis://127.0.0.1:{dead}");
        for (url, code, part) in [
            (&url, "missing", "no entries of this secret"),
            (
                &dead_url,
                "unavailable",
                &*format!("127.0.0.1, port {dead}: connection refused; start the server"),
            ),
        ] {
            let pulled = remote(folder.path(), &["pull", url, store.to_str().unwrap()]);
            assert_eq!((pulled.code, &pulled.json()["error"]["code"]), (Some(1), &json!(code)));
            assert!(pulled.errors.contains(part) && !store.exists(), "{pulled:?}");
        }
    }

    #[test]
    fn arguments_in_the_wrong_order_are_a_failure() {
        let (folder, stores) = filled();
        let (store, url) = (stores[0].to_str().unwrap(), "redis://127.0.0.1");
        for arguments in [["push", url, store], ["pull", store, url]] {
            let swapped = remote(folder.path(), &arguments);
            assert_eq!((swapped.code, &swapped.json()["error"]["code"]), (Some(1), &json!("bad_remote")));
            assert!(swapped.errors.contains("the path of a store is no remote"), "{swapped:?}");
        }
    }

    #[test]
    fn password_in_the_place_of_a_path_is_not_shown() {
        let (folder, _) = filled();
        let url = "redis://anna:hunter2@127.0.0.1";
        for arguments in [&["stats", url][..], &["push", url, "redis://127.0.0.1"]] {
            let failed = remote(folder.path(), arguments);
            assert_eq!(failed.code, Some(1), "{failed:?}");
            assert!(!format!("{failed:?}").contains("hunter2"), "{failed:?}");
        }
    }

    #[test]
    fn dead_remote_is_a_failure_with_its_remedy() {
        let (folder, stores) = filled();
        let url = format!("redis://127.0.0.1:{}", free_port());
        let checked = remote(folder.path(), &["check", &url]);
        assert_eq!((checked.code, &checked.json()["read"]["reason"]), (Some(1), &json!("unavailable")));
        let pushed = remote(folder.path(), &["push", stores[0].to_str().unwrap(), &url]);
        assert_eq!((pushed.code, &pushed.json()["error"]["code"]), (Some(1), &json!("unavailable")));
        assert!(pushed.errors.contains("`warmstart remote check`"), "{pushed:?}");
        let shown = remote(folder.path(), &["check", "redis://:hunter2@host"]);
        assert_eq!(shown.json()["error"]["code"], json!("credentials_in_url"));
        assert!(!format!("{shown:?}").contains("hunter2"));
    }

    #[test]
    fn counts_of_a_machine_are_shown() {
        let (folder, server) = (tempfile::tempdir().unwrap(), Server::redis(&[]));
        let directory = folder.path().join("fleet");
        let options =
            RemoteOptions::default().with_secret(&[7; 32]).with_deadline(std::time::Duration::from_secs(9));
        let url = format!("redis://127.0.0.1:{}", server.port);
        let local = FileStore::open(folder.path().join("files"), StoreOptions::default()).unwrap();
        let options =
            (RemoteStore::open(&url, options).unwrap(), FleetOptions::default().with_directory(&directory));
        let fleet = Fleet::new(local, options.0, options.1);
        fleet.put(b"key", &Artifact::new(vec![1, 2, 3])).unwrap();
        assert!(fleet.get(b"key").is_ok() && fleet.get(b"other").is_err());
        assert!(fleet.wait_for_uploads(std::time::Duration::from_secs(9)));
        drop(fleet);
        let shown = json_of(&remote(folder.path(), &["stats", directory.to_str().unwrap()]));
        assert_eq!(
            [&shown["local_hits"], &shown["misses"], &shown["uploads"]],
            [&json!(1), &json!(1), &json!(1)]
        );
        assert_eq!([&shown["uploads_waiting"], &shown["is_breaker_open"]], [&json!(0), &json!(false)]);
        let missing = remote(folder.path(), &["stats", folder.path().join("none").to_str().unwrap()]);
        assert_eq!((missing.code, &missing.json()["error"]["code"]), (Some(1), &json!("unreadable")));
    }
}
