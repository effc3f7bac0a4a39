//! Tests over whole batches: Kafka's bytes, Kafka's answers, hostile bytes.

mod appends;
mod golden;
mod hostile;

/// Bytes of hexadecimal digits.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| u8::try_from(c.to_digit(16).unwrap()).unwrap())
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}
