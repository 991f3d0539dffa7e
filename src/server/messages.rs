//! Messages in a body of gRPC, counted by their prefixes as they go by.

/// A prefix: whether the message is compressed, and its length (gRPC over
/// HTTP/2, "Length-Prefixed-Message").
const PREFIX: usize = 5;

/// Where in a message a body is.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// The prefix, as far as it came.
    prefix: [u8; PREFIX],
    came: usize,
    /// How much of the message is still to come.
    left: usize,
    longest: usize,
    /// So many messages have begun.
    begun: u64,
}

impl Messages {
    /// The length of the longest message that has begun.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// How many messages have begun: their prefixes are here.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// How many messages end in these bytes, the next of the body.
    pub(super) fn end_in(&mut self, mut bytes: &[u8]) -> u64 {
        let mut ended = 0;
        loop {
            if self.came == PREFIX {
                let taken = self.left.min(bytes.len());
                (_, bytes) = bytes.split_at(taken);
                self.left -= taken;
                if self.left > 0 {
                    return ended;
                }
                ended += 1;
                self.came = 0;
            }
            let Some((first, rest)) = bytes.split_first() else {
                return ended;
            };
            if let Some(byte) = self.prefix.get_mut(self.came) {
                *byte = *first;
            }
            self.came += 1;
            bytes = rest;
            if self.came == PREFIX {
                let [_, length @ ..] = self.prefix;
                self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
                self.longest = self.longest.max(self.left);
                self.begun += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        let message = |length: u8| {
            let mut bytes = vec![0, 0, 0, 0, length];
            bytes.extend(vec![7; length.into()]);
            bytes
        };
        let body = [message(3), message(0), message(200), message(0)].concat();
        for cut in 1..body.len() {
            let mut messages = Messages::default();
            let counts = body.chunks(cut).map(|bytes| messages.end_in(bytes));
            assert_eq!(counts.sum::<u64>(), 4, "{cut}");
        }
        let mut messages = Messages::default();
        assert_eq!(messages.end_in(&body[..7]), 0);
        assert_eq!(messages.end_in(&body[7..13]), 2);
        assert_eq!((messages.longest(), messages.begun()), (3, 2));
        assert_eq!(messages.end_in(&body[13..18]), 0);
        assert_eq!((messages.longest(), messages.begun()), (200, 3));
    }
}
