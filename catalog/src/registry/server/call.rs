//! One call: its frames, its limits, and what is logged of it.

use std::{
    fmt,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use bytes::{BufMut, Bytes};
use futures::Stream;
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

/// Whoever wants to know of calls that have ended.
pub trait Calls: Send + Sync {
    /// One has, with this code in Go's words, and took so long. There are few names of rpcs and codes.
    fn ended(&self, rpc: &'static str, code: &'static str, took: Duration);
}

/// Who is told of calls, if anybody is.
#[derive(Clone, Default)]
pub(super) struct Told(pub(super) Option<Arc<dyn Calls>>);

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Told").field(&self.0.is_some()).finish()
    }
}

/// A call of an rpc.
pub(super) struct Call {
    rpc: &'static str,
    store: Arc<Store>,
    told: Told,
}

// === impl Call ===

impl Call {
    pub(super) fn new(rpc: &'static str, store: Arc<Store>, told: Told) -> Self {
        Self { rpc, store, told }
    }

    /// Answers with one message.
    pub(super) fn unary<Q: Message + Default + 'static>(
        self,
        request: http::Request<Body>,
        answer: fn(&Store, &Q) -> Result<Bytes, Status>,
    ) -> Answering {
        let Self { rpc, store, told } = self;
        let log = Log::start(rpc, &request, told);
        let answer = tower::service_fn(move |asked: Request<Q>| {
            let store = Arc::clone(&store);
            async move {
                let asked = asked.into_inner();
                let read = tokio::task::spawn_blocking(move || answer(&store, &asked));
                read.await.map_err(broken)?.map(Response::new)
            }
        });
        Box::pin(async move {
            let mut log = log; // all of it
            let response = grpc().unary(answer, request).await;
            let failure = failure(&response);
            log.messages = u64::from(failure.is_none());
            log.code = failure.unwrap_or(Code::Ok);
            Ok(response)
        })
    }

    /// Answers with any number of messages.
    pub(super) fn stream<Q: Message + Default + 'static>(
        self,
        request: http::Request<Body>,
        answer: fn(&Arc<Store>, &Q, &MetadataMap) -> Result<Answers, Status>,
    ) -> Answering {
        let Self { rpc, store, told } = self;
        let log = Log::start(rpc, &request, told);
        let of_stream = log.same();
        let answer = tower::service_fn(move |asked: Request<Q>| {
            let (store, log) = (Arc::clone(&store), of_stream.same());
            async move {
                let (metadata, _, asked) = asked.into_parts();
                let read = tokio::task::spawn_blocking(move || answer(&store, &asked, &metadata));
                let answers = read.await.map_err(broken).flatten()?;
                Ok(Response::new(Logged {
                    answers,
                    log: log.begun(),
                }))
            }
        });
        Box::pin(async move {
            let mut log = log; // all of it
            let response = grpc().server_streaming(answer, request).await;
            match failure(&response) {
                Some(code) => log.code = code,
                // Its end is still to come.
                None => log.is_silent = true,
            }
            Ok(response)
        })
    }

    /// Answers that there is no such rpc.
    pub(super) fn unknown(request: &http::Request<Body>, told: Told) -> Answering {
        let mut log = Log::start("other", request, told);
        log.code = Code::Unimplemented;
        drop(log);
        Box::pin(async { Ok(Status::unimplemented("no such rpc").into_http()) })
    }
}

/// The code of an answer that is an error from its beginning, and so has nothing but headers.
fn failure(response: &http::Response<Body>) -> Option<Code> {
    let status = Status::from_header_map(response.headers())?;
    (status.code() != Code::Ok).then_some(status.code())
}

fn grpc<Q: Message + Default + 'static>() -> Grpc<Encoded<Q>> {
    Grpc::new(Encoded(PhantomData)).max_decoding_message_size(LARGEST_REQUEST)
}

/// What is logged of a call, and told, when this is dropped.
struct Log {
    rpc: &'static str,
    since: Instant,
    told: Told,
    /// How it ended; the client went away if nothing else happened.
    code: Code,
    messages: u64,
    /// Somebody else logs the call.
    is_silent: bool,
}

// === impl Log ===

impl Log {
    fn start(rpc: &'static str, request: &http::Request<Body>, told: Told) -> Self {
        let agent = request.headers().get(http::header::USER_AGENT);
        debug!(rpc, ?agent, "started call");
        Self {
            rpc,
            since: Instant::now(),
            told,
            code: Code::Cancelled,
            messages: 0,
            is_silent: false,
        }
    }

    /// The same call, for whoever may have to log it.
    fn same(&self) -> Self {
        Self {
            told: self.told.clone(),
            is_silent: true,
            ..*self
        }
    }

    fn begun(mut self) -> Self {
        self.is_silent = false;
        self
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.is_silent {
            return;
        }
        let (rpc, code, messages) = (self.rpc, self.code, self.messages);
        let took = self.since.elapsed();
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        info!(rpc, ?code, messages, milliseconds, "finished call");
        if let Some(calls) = &self.told.0 {
            calls.ended(rpc, name(code), took);
        }
    }
}

/// As gRPC's own metrics call it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// A stream whose end is logged, whichever it is.
struct Logged {
    answers: Answers,
    log: Log,
}

// === impl Logged ===

impl Stream for Logged {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.answers.as_mut().poll_next(context));
        match &next {
            Some(Ok(_)) => self.log.messages += 1,
            Some(Err(status)) => self.log.code = status.code(),
            None if self.log.code == Code::Cancelled => self.log.code = Code::Ok,
            None => {}
        }
        Poll::Ready(next)
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
