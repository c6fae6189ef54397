//! One call: its frames, its limits, and what is logged of it.

use std::{
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use bytes::{BufMut, Bytes};
use futures::{FutureExt, Stream};
use prost::Message;
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    metadata::MetadataMap,
    server::Grpc,
};
use tracing::{debug, info};

use super::answer::{Answering, Answers, broken};
use crate::registry::store::Store;

/// Requests are a few names. Bytes.
const LARGEST_REQUEST: usize = 64 << 10;

/// A call of an rpc.
pub(super) struct Call {
    rpc: &'static str,
    store: Arc<Store>,
}

// === impl Call ===

impl Call {
    pub(super) fn new(rpc: &'static str, store: Arc<Store>) -> Self {
        Self { rpc, store }
    }

    /// Answers with one message.
    pub(super) fn unary<Q: Message + Default + 'static>(
        self,
        request: http::Request<Body>,
        answer: fn(&Store, &Q) -> Result<Bytes, Status>,
    ) -> Answering {
        let log = Log::start(self.rpc, &request);
        let answer = tower::service_fn(move |asked: Request<Q>| {
            let store = Arc::clone(&self.store);
            async move {
                let asked = asked.into_inner();
                let read = tokio::task::spawn_blocking(move || answer(&store, &asked));
                read.await.map_err(broken)?.map(Response::new)
            }
            .inspect(move |result| log.end(code(result), 1))
        });
        Box::pin(async move { Ok(grpc().unary(answer, request).await) })
    }

    /// Answers with any number of messages.
    pub(super) fn stream<Q: Message + Default + 'static>(
        self,
        request: http::Request<Body>,
        answer: fn(&Arc<Store>, &Q, &MetadataMap) -> Result<Answers, Status>,
    ) -> Answering {
        let log = Log::start(self.rpc, &request);
        let answer = tower::service_fn(move |asked: Request<Q>| {
            let store = Arc::clone(&self.store);
            async move {
                let (metadata, _, asked) = asked.into_parts();
                let read = tokio::task::spawn_blocking(move || answer(&store, &asked, &metadata));
                let answers = read.await.map_err(broken).flatten();
                let answers = answers.inspect_err(|it| log.end(it.code(), 0))?;
                Ok(Response::new(Logged {
                    answers,
                    log,
                    count: 0,
                    end: Code::Cancelled,
                }))
            }
        });
        Box::pin(async move { Ok(grpc().server_streaming(answer, request).await) })
    }
}

fn code<T>(result: &Result<T, Status>) -> Code {
    result.as_ref().map_or_else(Status::code, |_| Code::Ok)
}

fn grpc<Q: Message + Default + 'static>() -> Grpc<Encoded<Q>> {
    Grpc::new(Encoded(PhantomData)).max_decoding_message_size(LARGEST_REQUEST)
}

/// What is logged of a call.
#[derive(Debug, Clone, Copy)]
struct Log {
    rpc: &'static str,
    since: Instant,
}

// === impl Log ===

impl Log {
    fn start(rpc: &'static str, request: &http::Request<Body>) -> Self {
        let agent = request.headers().get(http::header::USER_AGENT);
        debug!(rpc, ?agent, "started call");
        let since = Instant::now();
        Self { rpc, since }
    }

    fn end(self, code: Code, messages: u64) {
        let Self { rpc, since } = self;
        let milliseconds = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        info!(rpc, ?code, messages, milliseconds, "finished call");
    }
}

/// A stream whose end is logged, whichever it is.
struct Logged {
    answers: Answers,
    log: Log,
    count: u64,
    /// How it ended; the client went away if nothing else happened.
    end: Code,
}

// === impl Logged ===

impl Stream for Logged {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.answers.as_mut().poll_next(context));
        match &next {
            Some(Ok(_)) => self.count += 1,
            Some(Err(status)) => self.end = status.code(),
            None if self.end == Code::Cancelled => self.end = Code::Ok,
            None => {}
        }
        Poll::Ready(next)
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        self.log.end(self.end, self.count);
    }
}

/// Requests are decoded; answers are encoded already.
struct Encoded<Q>(PhantomData<Q>);

// === impl Encoded ===

impl<Q: Message + Default + 'static> Codec for Encoded<Q> {
    type Encode = Bytes;
    type Decode = Q;
    type Encoder = Encoded<()>;
    type Decoder = Self;

    fn encoder(&mut self) -> Self::Encoder {
        Encoded(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        Encoded(PhantomData)
    }
}

impl Encoder for Encoded<()> {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl<Q: Message + Default> Decoder for Encoded<Q> {
    type Item = Q;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<Q>, Status> {
        let invalid = |it| Status::internal(format!("the request cannot be read: {it}"));
        Q::decode(bytes).map(Some).map_err(invalid)
    }
}
