//! The layout, byte by byte as docs/format.md has it. What changes here changes the version.

use super::*;

/// Reads every kind of thing that there can be, there and not there.
struct All;

impl Reduction for All {
    type Spec = u32;
    type Value = u64;
    type Output = u64;
    type Error = Infallible;
}

impl Portable for All {
    fn fingerprint(&self) -> Key {
        Key::from_bytes([0xfa; Key::LEN])
    }
}

impl<W: World<Field = u8, Array = u8>> Evaluate<W> for All {
    fn launch(&self, recorder: &mut Recorder<'_, Self, W>) -> Result<u64, LaunchError<Infallible>> {
        let _ = (recorder.field(FieldId(7)), recorder.array(ArgumentId(0)), recorder.array(ArgumentId(9)));
        let _ = recorder.extent(ArgumentId(0), 3);
        Ok(recorder.spec(300)? + 1)
    }

    fn spec(&self, _: &u32, recorder: &mut Recorder<'_, Self, W>) -> Result<u64, LaunchError<Infallible>> {
        let field = recorder.field(FieldId(0)).copied().map_or(0, u64::from);
        Ok(field + recorder.extent(ArgumentId(0), 0).unwrap_or(0))
    }
}

#[test]
fn a_row_is_laid_out_as_the_format_says() {
    let id = RegistryId::home("k", 1);
    let bytes = LaunchRecord::new().with_row(id, "k", 1).unwrap().encode().unwrap();
    // Version 1, one row: 0x1fb4fa78 as a varint, a name of one byte, task 1 in zigzag; no results.
    assert_eq!(bytes, [1, 1, 0xf8, 0xf4, 0xd3, 0xfd, 0x01, 1, b'k', 2, 0]);
}

#[test]
fn a_result_is_laid_out_as_the_format_says() {
    let mut world = Tracked::<u8, u8>::new();
    let field = world.add_field(5);
    let arguments = [world.allocate(&[200], 6)];
    let world = world.with_arguments(&arguments);
    let mut kept = KernelMemo::new(All);
    assert_eq!(kept.launch(&world), (206, false));
    let record = LaunchRecord::new().with_result(kept.export(&world).unwrap());

    // What postcard writes of the value of a field; of an array the shape, and then the value.
    let digests = [&[5][..], &[1, 0xc8, 0x01, 6]].map(Key::digest);
    assert_eq!(Contents::field_digest(&world, field), Some(digests[0]));
    let expected = [
        &[1, 0, 1, 6][..],
        b"kernel",
        &[0xfa; Key::LEN],
        &[6],
        // Field 0, and field 7, which there is not.
        &[0, 0, 1],
        digests[0].as_bytes(),
        &[0, 7, 0],
        // The array at argument 0, and none at argument 9.
        &[1, 0, 1],
        digests[1].as_bytes(),
        &[1, 9, 0],
        // Of argument 0, axis 0 is 200 long, and there is no axis 3.
        &[2, 0, 0, 1, 0xc8, 0x01],
        &[2, 0, 3, 0],
        // An output: from all six, 206 in two bytes.
        &[1, 6, 0, 1, 2, 3, 4, 5, 2, 0xce, 0x01],
        // A spec: 300 in two bytes, from field 0 and axis 0, 205 in two bytes.
        &[1, 2, 0xac, 0x02, 2, 0, 4, 2, 0xcd, 0x01],
    ];
    assert_eq!(record.encode().unwrap(), expected.concat());
    assert_eq!(LaunchRecord::decode(&expected.concat()), Ok(record));
}
