//! What of a response is recorded, and a recorded one as it is sent again.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use idempotency::header::{IDEMPOTENT_REPLAYED, is_replayable};
use idempotency::{MAX_HEADERS_LEN, StoredResponse};

/// Marks a replay whose first answer had a body that was too large to be kept: `Idempotent-Body-Omitted:
/// true`.
pub const IDEMPOTENT_BODY_OMITTED: &str = "idempotent-body-omitted";

/// The handler's response, read to its end or to the limit.
pub(super) struct Answer {
    /// What the client is sent: all of it.
    pub(super) sent: Response,
    /// What a retry is sent.
    pub(super) recorded: StoredResponse,
}

impl Answer {
    /// Reads `response`, of which at most `max_body_len` bytes can be kept. Trailers are dropped.
    ///
    /// A larger one is sent all the same, the rest of it as it comes. What is recorded then is that it was
    /// done: the status, where the result is to be found (`location`), and a mark.
    pub(super) async fn of(response: Response, max_body_len: usize) -> Result<Self, axum::Error> {
        let (parts, body) = response.into_parts();
        let bare = StoredResponse::new(parts.status.as_u16());
        let whole =
            parts.headers.iter().fold(bare, |all, (name, value)| all.with_header(name, value.as_bytes()));
        let whole = whole.retain_headers(is_replayable);
        let (recorded, body) = match read(body, max_body_len).await? {
            Read::Whole(bytes) if whole.headers_len() <= MAX_HEADERS_LEN => {
                (whole.with_body(bytes.clone()), Body::from(bytes))
            }
            Read::Whole(bytes) => (without_body(&whole), Body::from(bytes)),
            Read::TooLarge(body) => (without_body(&whole), body),
        };
        Ok(Self { sent: Response::from_parts(parts, body), recorded })
    }
}

fn without_body(whole: &StoredResponse) -> StoredResponse {
    let kept = whole.clone().retain_headers(|name| name == header::LOCATION.as_str());
    kept.with_header(IDEMPOTENT_BODY_OMITTED, "true")
}

enum Read {
    Whole(Bytes),
    /// What was read and what is still to come.
    TooLarge(Body),
}

async fn read(body: Body, max_len: usize) -> Result<Read, axum::Error> {
    let mut rest = body.into_data_stream();
    let (mut chunks, mut len) = (Vec::new(), 0_usize);
    while let Some(chunk) = rest.next().await.transpose()? {
        len = len.saturating_add(chunk.len());
        chunks.push(chunk);
        if len > max_len {
            let read = stream::iter(chunks.into_iter().map(Ok));
            return Ok(Read::TooLarge(Body::from_stream(read.chain(rest))));
        }
    }
    Ok(Read::Whole(chunks.concat().into()))
}

/// A recorded response, marked as a replay. None if it is no HTTP response: this layer does not record such.
pub(super) fn replay(recorded: &StoredResponse) -> Option<Response> {
    let mut response = Response::new(Body::from(recorded.body().clone()));
    *response.status_mut() = StatusCode::from_u16(recorded.status()).ok()?;
    for (name, value) in recorded.headers() {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        response.headers_mut().append(name, HeaderValue::from_bytes(value).ok()?);
    }
    response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    Some(response)
}
