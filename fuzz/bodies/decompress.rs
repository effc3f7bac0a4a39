//! Arbitrary bytes as the payload of each codec, in a version 2 batch.

use highwater::record::{Batch, Codec, DecodeError, Scratch};

/// Decompresses `data` with every codec, within a limit.
pub(crate) fn run(data: &[u8]) {
    let mut scratch = Scratch::new(1 << 16);
    for codec in Codec::ALL {
        let Ok(size) = i32::try_from(data.len().saturating_add(49)) else {
            return;
        };
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&size.to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 0, 2, 0, 0, 0, 0, 0, codec.id()]);
        bytes.resize(60, 0);
        bytes.push(3);
        bytes.extend_from_slice(data);
        let batch = Batch::parse(&bytes).expect("a header that was made here");
        match batch.records(&mut scratch) {
            Ok(records) => assert!(records.count() <= 3),
            Err(error) => assert!(matches!(
                error,
                DecodeError::Decompress(_)
                    | DecodeError::CodecUnavailable(_)
                    | DecodeError::TooLarge { .. }
            )),
        }
    }
}
