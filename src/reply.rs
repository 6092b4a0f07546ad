//! What an operation came to: [`Reply`], and a response as it is replayed.

use crate::header::is_replayable;
use crate::into_bytes::IntoBytes;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// What the operation came to and what a retry gets back.
///
/// Three sizes: a whole response replays exactly and grows with the payload; a reference is small and costs a
/// look-up; a marker is the smallest, and fits only where the reply can be made again from elsewhere.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// The whole response, replayed as it was.
    Response(StoredResponse),
    /// Where the reply is to be found, such as the id of a row.
    Reference(String),
    /// That it is done, and nothing else.
    Marker,
}

impl Reply {
    /// The response, if that is what was recorded.
    #[must_use]
    pub fn response(&self) -> Option<&StoredResponse> {
        match self {
            Self::Response(response) => Some(response),
            Self::Reference(_) | Self::Marker => None,
        }
    }

    /// As [`response`](Self::response), for whoever sends it.
    #[must_use]
    pub fn into_response(self) -> Option<StoredResponse> {
        match self {
            Self::Response(response) => Some(response),
            Self::Reference(_) | Self::Marker => None,
        }
    }

    /// The response's status; none of a reference or a marker.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.response().map(StoredResponse::status)
    }

    /// The reference, if that is what was recorded.
    #[must_use]
    pub fn reference(&self) -> Option<&str> {
        match self {
            Self::Reference(reference) => Some(reference),
            Self::Response(_) | Self::Marker => None,
        }
    }

    /// The bytes that the limit on replies counts: the body or the reference. Headers have a limit of their
    /// own.
    #[must_use]
    pub fn payload_len(&self) -> usize {
        match self {
            Self::Response(response) => response.body.len(),
            Self::Reference(reference) => reference.len(),
            Self::Marker => 0,
        }
    }

    /// What the limit on headers counts; see [`StoredResponse::headers_len`].
    pub(crate) fn headers_len(&self) -> usize {
        self.response().map_or(0, StoredResponse::headers_len)
    }

    /// The bytes that it brings, headers included.
    pub(crate) fn content_len(&self) -> usize {
        self.payload_len().saturating_add(self.headers_len())
    }
}

/// Shows sizes instead of contents, as [`StoredResponse`] does.
impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Response(response) => f.debug_tuple("Response").field(response).finish(),
            Self::Reference(reference) => {
                f.debug_struct("Reference").field("len", &reference.len()).finish_non_exhaustive()
            }
            Self::Marker => f.write_str("Marker"),
        }
    }
}

impl From<StoredResponse> for Reply {
    fn from(response: StoredResponse) -> Self {
        Self::Response(response)
    }
}

/// A response: status, headers, body. Any status and any bytes; limits are checked when it is recorded.
/// Clones share it all.
///
/// What is recorded is replayed as it is, `set-cookie` included: record the
/// [replayable](Self::replayable_headers) headers only.
///
/// ```
/// use idempotency::StoredResponse;
///
/// let response = StoredResponse::new(201)
///     .with_header("content-type", "application/json")
///     .with_header("set-cookie", "session=1")
///     .with_body(r#"{"id": "pay_1"}"#);
/// assert_eq!(response.headers().len(), 2);
/// assert!(response.replayable_headers().eq([("content-type", b"application/json".as_slice())]));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct StoredResponse {
    status: u16,
    headers: Arc<Vec<(Box<str>, Bytes)>>,
    body: Bytes,
}

impl StoredResponse {
    /// A response without headers and with an empty body.
    #[must_use]
    pub fn new(status: u16) -> Self {
        Self { status, headers: Arc::default(), body: Bytes::new() }
    }

    /// Adds a header behind those that are there. Names keep their case, names may be repeated, values are
    /// any bytes.
    #[must_use]
    pub fn with_header(mut self, name: impl AsRef<str>, value: impl IntoBytes) -> Self {
        Arc::make_mut(&mut self.headers).push((Box::from(name.as_ref()), value.into_bytes()));
        self
    }

    /// Drops the headers that `keep` refuses by name; the others stay in order.
    ///
    /// ```
    /// use idempotency::{StoredResponse, header};
    ///
    /// let sent = StoredResponse::new(201).with_header("x-payment", "pay_1").with_header("set-cookie", "session=1");
    /// let kept = sent.clone().retain_headers(|name| header::is_replayable(name) || name == "x-payment");
    /// assert!(kept.headers().eq([("x-payment", b"pay_1".as_slice())]));
    /// ```
    #[must_use]
    pub fn retain_headers(mut self, mut keep: impl FnMut(&str) -> bool) -> Self {
        Arc::make_mut(&mut self.headers).retain(|(name, _)| keep(name));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: impl IntoBytes) -> Self {
        self.body = body.into_bytes();
        self
    }

    /// The status.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// The headers, in the order in which they were added.
    #[must_use]
    pub fn headers(&self) -> Headers<'_> {
        Headers(self.headers.iter())
    }

    /// The body. Cloning it shares the bytes.
    #[must_use]
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The headers that a client depends on and that are as true in a replay as they were the first time; see
    /// [`is_replayable`]. Use [`retain_headers`](Self::retain_headers) to record no others.
    pub fn replayable_headers(&self) -> impl Iterator<Item = (&str, &[u8])> + Clone {
        self.headers().filter(|(name, _)| is_replayable(name))
    }

    /// What the limit on headers counts: the bytes of all names and values, and 32 more a header, so that
    /// empty ones are not without limit (as in HTTP/2; RFC 9113, section 6.5.2).
    #[must_use]
    pub fn headers_len(&self) -> usize {
        const EACH: usize = 32;
        self.headers.iter().fold(0, |len: usize, (name, value)| {
            len.saturating_add(name.len()).saturating_add(value.len()).saturating_add(EACH)
        })
    }
}

/// The headers of a [`StoredResponse`], name and value, in order.
#[derive(Clone)]
pub struct Headers<'a>(std::slice::Iter<'a, (Box<str>, Bytes)>);

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a str, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (&**name, &**value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// Shows how many are left.
impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Headers({})", self.len())
    }
}

/// Shows sizes instead of contents: replies are personal data more often than not.
impl fmt::Debug for StoredResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredResponse")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body_len", &self.body.len())
            .finish()
    }
}
