//! Instrumentation of one call: codec, limits, log and observer.

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

use super::rpcs::{Answering, Answers, broken};
use crate::registry::store::Store;

/// Maximum size of a request in bytes. Requests contain a few names.
const MAX_REQUEST_SIZE: usize = 64 << 10;

/// Observer of finished calls.
pub trait ObserveCalls: Send + Sync {
    /// Reports a finished call with its duration and the code as Go spells it. The number of distinct rpcs and codes is
    /// small.
    fn ended(&self, rpc: &'static str, code: &'static str, took: Duration);
}

/// Optional observer of calls.
#[derive(Clone, Default)]
pub(super) struct CallObserver(pub(super) Option<Arc<dyn ObserveCalls>>);

impl fmt::Debug for CallObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallObserver")
            .field(&self.0.is_some())
            .finish()
    }
}

/// A call of one rpc.
pub(super) struct Call {
    rpc: &'static str,
    store: Arc<Store>,
    observer: CallObserver,
}

// === impl Call ===

impl Call {
    pub(super) fn new(rpc: &'static str, store: Arc<Store>, observer: CallObserver) -> Self {
        Self {
            rpc,
            store,
            observer,
        }
    }

    /// Responds with a single message.
    pub(super) fn unary<Q: Message + Default + 'static>(
        self,
        request: http::Request<Body>,
        answer: fn(&Store, &Q) -> Result<Bytes, Status>,
    ) -> Answering {
        let Self {
            rpc,
            store,
            observer,
        } = self;
        let log = CallLog::start(rpc, &request, observer);
        let answer = tower::service_fn(move |message: Request<Q>| {
            let store = Arc::clone(&store);
            async move {
                let message = message.into_inner();
                let read = tokio::task::spawn_blocking(move || answer(&store, &message));
                read.await.map_err(broken)?.map(Response::new)
            }
        });
        Box::pin(async move {
            let mut log = log; // captures the whole entry
            let response = grpc().unary(answer, request).await;
            let failure = failure(&response);
            log.messages = u64::from(failure.is_none());
            log.code = failure.unwrap_or(Code::Ok);
            Ok(response)
        })
    }

    /// Responds with any number of messages.
    pub(super) fn stream<Q: Message + Default + 'static>(
        self,
        request: http::Request<Body>,
        answer: fn(&Arc<Store>, &Q, &MetadataMap) -> Result<Answers, Status>,
    ) -> Answering {
        let Self {
            rpc,
            store,
            observer,
        } = self;
        let log = CallLog::start(rpc, &request, observer);
        let stream_log = log.clone_silent();
        let answer = tower::service_fn(move |message: Request<Q>| {
            let (store, log) = (Arc::clone(&store), stream_log.clone_silent());
            async move {
                let (metadata, _, message) = message.into_parts();
                let read = tokio::task::spawn_blocking(move || answer(&store, &message, &metadata));
                let answers = read.await.map_err(broken).flatten()?;
                Ok(Response::new(LoggedStream {
                    answers,
                    log: log.enabled(),
                }))
            }
        });
        Box::pin(async move {
            let mut log = log; // captures the whole entry
            let response = grpc().server_streaming(answer, request).await;
            match failure(&response) {
                Some(code) => log.code = code,
                // The stream logs its own end.
                None => log.is_silent = true,
            }
            Ok(response)
        })
    }

    /// Responds that the rpc is not implemented.
    pub(super) fn unknown(request: &http::Request<Body>, observer: CallObserver) -> Answering {
        let mut log = CallLog::start("other", request, observer);
        log.code = Code::Unimplemented;
        drop(log);
        Box::pin(async { Ok(Status::unimplemented("unknown rpc").into_http()) })
    }
}

/// Returns the code of a response that failed before its first message, and therefore consists of headers only.
fn failure(response: &http::Response<Body>) -> Option<Code> {
    let status = Status::from_header_map(response.headers())?;
    (status.code() != Code::Ok).then_some(status.code())
}

fn grpc<Q: Message + Default + 'static>() -> Grpc<PreEncodedCodec<Q>> {
    Grpc::new(PreEncodedCodec(PhantomData)).max_decoding_message_size(MAX_REQUEST_SIZE)
}

/// Log entry of a call. It is written and reported to the observer on drop.
struct CallLog {
    rpc: &'static str,
    since: Instant,
    observer: CallObserver,
    /// Code of the call. It remains `Cancelled` if the client disconnects.
    code: Code,
    messages: u64,
    /// True if another log entry covers the call.
    is_silent: bool,
}

// === impl CallLog ===

impl CallLog {
    fn start(rpc: &'static str, request: &http::Request<Body>, observer: CallObserver) -> Self {
        let agent = request.headers().get(http::header::USER_AGENT);
        debug!(rpc, ?agent, "started call");
        Self {
            rpc,
            since: Instant::now(),
            observer,
            code: Code::Cancelled,
            messages: 0,
            is_silent: false,
        }
    }

    /// Returns a silent entry for the same call, for the stream that logs it later.
    fn clone_silent(&self) -> Self {
        Self {
            observer: self.observer.clone(),
            is_silent: true,
            ..*self
        }
    }

    fn enabled(mut self) -> Self {
        self.is_silent = false;
        self
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        if self.is_silent {
            return;
        }
        let (rpc, code, messages) = (self.rpc, self.code, self.messages);
        let took = self.since.elapsed();
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        info!(rpc, ?code, messages, milliseconds, "finished call");
        if let Some(calls) = &self.observer.0 {
            calls.ended(rpc, name(code), took);
        }
    }
}

/// Returns the name of a code as in gRPC's metrics.
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

/// A response stream that logs its end.
struct LoggedStream {
    answers: Answers,
    log: CallLog,
}

// === impl LoggedStream ===

impl Stream for LoggedStream {
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

/// Codec that decodes requests and passes encoded responses through.
struct PreEncodedCodec<Q>(PhantomData<Q>);

// === impl PreEncodedCodec ===

impl<Q: Message + Default + 'static> Codec for PreEncodedCodec<Q> {
    type Encode = Bytes;
    type Decode = Q;
    type Encoder = PreEncodedCodec<()>;
    type Decoder = Self;

    fn encoder(&mut self) -> Self::Encoder {
        PreEncodedCodec(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        PreEncodedCodec(PhantomData)
    }
}

impl Encoder for PreEncodedCodec<()> {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl<Q: Message + Default> Decoder for PreEncodedCodec<Q> {
    type Item = Q;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<Q>, Status> {
        let invalid = |error| Status::internal(format!("failed to decode the request: {error}"));
        Q::decode(bytes).map(Some).map_err(invalid)
    }
}
