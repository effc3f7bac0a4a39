//! Message sets of versions 0 and 1, as old producers and brokers wrote them.

use std::io::Write;

use highwater::record::{Codec, crc32_ieee};

/// How the inner messages of a wrapper are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inner {
    /// 0, 1, 2, ...: version 1.
    Relative,
    /// As in the log: version 0.
    Absolute,
}

fn message(magic: u8, attributes: u8, at: i64, timestamp: i64, value: &[u8]) -> Vec<u8> {
    let mut body = vec![magic, attributes];
    if magic == 1 {
        body.extend(timestamp.to_be_bytes());
    }
    body.extend((-1_i32).to_be_bytes());
    body.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
    body.extend(value);
    let mut entry = at.to_be_bytes().to_vec();
    entry.extend(i32::try_from(body.len() + 4).unwrap().to_be_bytes());
    entry.extend(crc32_ieee(&body).to_be_bytes());
    entry.extend(body);
    entry
}

fn compressed(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    match codec {
        Codec::Gzip => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        }
        Codec::Snappy => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
        Codec::Lz4 => {
            let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
            out.write_all(bytes).unwrap();
            out.finish().unwrap()
        }
        Codec::None | Codec::Zstd => unreachable!("no wrapper of {codec:?}"),
    }
}

/// The messages `base..base + records`: one wrapper, or without a codec one entry each.
pub fn message_set(magic: u8, codec: Codec, inner: Inner, base: i64, records: i64) -> Vec<u8> {
    let message_at = |number: i64, at: i64| {
        let value = format!("old value of the record at {at:04}");
        message(magic, 0, number, 1_000 + at, value.as_bytes())
    };
    if codec == Codec::None {
        return (base..base + records)
            .flat_map(|at| message_at(at, at))
            .collect();
    }
    let first = if inner == Inner::Relative { base } else { 0 };
    let set: Vec<u8> = (base..base + records)
        .flat_map(|at| message_at(at - first, at))
        .collect();
    let last = base + records - 1;
    message(
        magic,
        codec.id(),
        last,
        1_000 + last,
        &compressed(codec, &set),
    )
}
