use std::error::Error;

use super::*;

fn file(build: Vec<u8>) -> Identified {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (path, identity) = (file.path().into(), FileIdentity::of_path(file.path()).unwrap());
    Identified { part: Part::Nvvm, path, identity, build, has_id: true, size: 5 }
}

#[test]
fn a_version_is_known_by_build_and_size_and_is_one() {
    let store = MemoryStore::new(Limits::NONE);
    let library = file(vec![7; 20]);
    keep_version(&library, "2.0 IR 2.0 debug 3.2", &store);
    let known = |library: &Identified| known_version(library, &store);
    assert_eq!(known(&library).as_deref(), Some("2.0 IR 2.0 debug 3.2"));
    assert_eq!(known(&Identified { size: 6, ..library.clone() }), None);
    assert_eq!(known(&file(vec![8; 20])), None);
    assert_eq!(known(&Identified { part: Part::NvJitLink, ..library.clone() }), None);
    for wrong in [&b""[..], b"\xff\xfe", b"13.5\n", b"13/5", &[b'1'; MAX_VERSION + 1]] {
        let key = version_key(&library);
        store.put(key.as_bytes(), &Artifact::new(wrong.to_vec())).unwrap();
        assert_eq!(known(&library), None, "{wrong:?}");
    }
}

#[test]
fn source_of_an_unreadable_library_is_the_error_of_the_system() {
    let store = MemoryStore::new(Limits::NONE);
    let error = Identified::read(Part::Nvrtc, Path::new("/no/such/library.so"), &store).unwrap_err();
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::NotFound));
}

#[test]
fn contents_are_told_apart_to_the_last_byte() {
    let digest_of = |bytes: &[u8]| {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), bytes).unwrap();
        digest(&mut File::open(path.path()).unwrap()).unwrap()
    };
    let mut bytes = vec![1; 2 * PIECE + 1];
    let whole = digest_of(&bytes);
    assert_eq!(digest_of(&bytes), whole);
    assert_ne!(digest_of(&bytes[..2 * PIECE]), whole);
    bytes[2 * PIECE] = 2;
    assert_ne!(digest_of(&bytes), whole);
}
