//! The bytes that a key is the digest of, as docs/format.md has them: written here once more, to be hashed and nothing else.

/// A preimage that grows field by field.
#[derive(Debug)]
pub(crate) struct Preimage {
    bytes: Vec<u8>,
    /// The offset of the number of fields.
    count_at: usize,
}

impl Preimage {
    pub(crate) fn new(domain: &str, schema: u32) -> Self {
        let mut preimage = Self { bytes: b"warmstart key 1\0".to_vec(), count_at: 0 };
        preimage.put(domain.as_bytes());
        preimage.bytes.extend_from_slice(&schema.to_le_bytes());
        preimage.count_at = preimage.bytes.len();
        preimage.number_alone(0);
        preimage
    }

    pub(crate) fn text(self, label: &str, value: &str) -> Self {
        self.field(label, 1, |preimage| preimage.put(value.as_bytes()))
    }

    pub(crate) fn raw(self, label: &str, value: &[u8]) -> Self {
        self.field(label, 2, |preimage| preimage.put(value))
    }

    pub(crate) fn number(self, label: &str, value: u64) -> Self {
        self.field(label, 3, |preimage| preimage.number_alone(value))
    }

    pub(crate) fn list(self, label: &str, values: &[&str]) -> Self {
        self.field(label, 4, |preimage| {
            preimage.number_alone(values.len() as u64);
            values.iter().for_each(|value| preimage.put(value.as_bytes()));
        })
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn field(mut self, label: &str, kind: u8, value: impl FnOnce(&mut Self)) -> Self {
        self.put(label.as_bytes());
        self.bytes.push(kind);
        value(&mut self);
        self.one_more()
    }

    fn one_more(mut self) -> Self {
        let count = &mut self.bytes[self.count_at..][..8];
        let one_more = u64::from_le_bytes(count.try_into().expect("a slice of eight bytes")) + 1;
        count.copy_from_slice(&one_more.to_le_bytes());
        self
    }

    fn put(&mut self, value: &[u8]) {
        self.number_alone(value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    fn number_alone(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmstart::{Key, KeyFields};

    #[test]
    fn its_digest_is_the_key() {
        let fields = KeyFields::new("bench", 7)
            .text("t", "text")
            .bytes("b", &[1, 2][..])
            .number("n", 3)
            .list("l", ["a", "bc"]);
        let preimage = Preimage::new("bench", 7)
            .text("t", "text")
            .raw("b", &[1, 2])
            .number("n", 3)
            .list("l", &["a", "bc"]);
        assert_eq!(Key::digest(preimage.as_bytes()), fields.key());
    }
}
