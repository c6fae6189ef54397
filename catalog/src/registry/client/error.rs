//! What can go wrong with a server.

use std::time::Duration;

use tonic::Code;

/// Why there is no answer, or only a part of one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not `host:port`.
    #[error("the catalog's address {address:?} is not of the form host:port; correct spec.address")]
    Address {
        /// What was given.
        address: String,
    },
    /// Nobody answers there.
    #[error(
        "failed to connect to the catalog at {address}; is it running, and may it be reached from here?"
    )]
    Connect {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
    /// The server refused, or does not speak the protocol.
    #[error("the catalog at {address} answered {rpc} with {code:?}: {message}")]
    Refused {
        /// Where.
        address: String,
        /// What was asked.
        rpc: &'static str,
        /// As which gRPC error. Servers say [`Code::Unknown`] for what they do not have.
        code: Code,
        /// The server's words.
        message: String,
    },
    /// The connection broke, or something on the way cut the answer short: the server itself has said nothing.
    #[error(
        "the connection to the catalog at {address} broke while it answered {rpc}: {message}; it is asked again"
    )]
    Broken {
        /// Where.
        address: String,
        /// What was asked.
        rpc: &'static str,
        /// The words of the transport.
        message: String,
    },
    /// Nothing came for too long.
    #[error("the catalog at {address} did not go on answering {rpc} within {} s; it is too slow, or hangs", after.as_secs_f64())]
    Stalled {
        /// Where.
        address: String,
        /// What was asked.
        rpc: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// More than is allowed.
    #[error(
        "the catalog at {address} answered {rpc} with more than {limit} {unit}; it is not what it seems, or the limit too low"
    )]
    TooLarge {
        /// Where.
        address: String,
        /// What was asked.
        rpc: &'static str,
        /// How much is allowed.
        limit: u64,
        /// Of what.
        unit: &'static str,
    },
}

impl Error {
    /// Whether the same question may be answered later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Broken { .. } | Self::Stalled { .. } => true,
            Self::Refused { code, .. } => matches!(
                code,
                Code::Unavailable
                    | Code::ResourceExhausted
                    | Code::Aborted
                    | Code::Cancelled
                    | Code::DeadlineExceeded
                    | Code::Internal
            ),
            Self::Address { .. } | Self::TooLarge { .. } => false,
        }
    }

    /// Whether the server knows no such rpc, as older ones do not know the experimental ones.
    pub fn is_unimplemented(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                code: Code::Unimplemented,
                ..
            }
        )
    }
}
