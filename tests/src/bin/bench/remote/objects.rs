//! A remote on objects, against `object_store` alone, over nginx.

use object_store::{ObjectStoreExt, aws::AmazonS3Builder, path::Path};
use warmstart::{Key, Store};
use warmstart_tests::servers::{BUCKET, Server};

use super::{artifact, sealed};
use crate::{
    Rows,
    measure::Plan,
    row::{Row, Sense},
};

const OBJECTS: u64 = 50;

pub(super) fn rows(plan: &Plan) -> Rows {
    let server = Server::nginx();
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let store = sealed(&format!("s3://{BUCKET}/bench?endpoint={endpoint}"))?;
    // What its client asks for, though nothing is encrypted here; another benchmark may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let peer = AmazonS3Builder::from_env()
        .with_bucket_name(BUCKET)
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .build()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let key = |number: u64| Key::digest(&number.to_le_bytes());
    let path = |number: u64| Path::from(format!("peer/{number}"));
    for number in 0..OBJECTS {
        let stored = artifact(number);
        runtime.block_on(peer.put(&path(number), stored.payload().to_vec().into()))?;
        store.put(key(number).as_bytes(), &stored)?;
    }
    let get = |number| runtime.block_on(async { peer.get(&path(number)).await?.bytes().await });
    let compared = plan.compare(
        |call| store.get(key(call % OBJECTS).as_bytes()).expect("it is stored"),
        |call| get(call % OBJECTS).expect("it is stored"),
    );
    let share = (compared.subject_ns - compared.floor_ns) / 1e6;
    Ok(vec![
        Row::bounded("objects/hit/our_share", (share, "ms"), "object_store", Sense::AtMost, 0.2),
        Row::note("objects/hit/warmstart", (compared.subject_ns, "ns"), "none"),
        Row::note("objects/hit/object_store", (compared.floor_ns, "ns"), "none"),
    ])
}
