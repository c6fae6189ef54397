//! Errors of requests to a catalog server.

use std::time::Duration;

use tonic::Code;

/// Reasons why a response is missing or incomplete.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not of the form `host:port`.
    #[error(
        "the catalog's address {address:?} does not have the form host:port; correct spec.address"
    )]
    Address {
        /// The invalid address.
        address: String,
    },
    /// The server does not accept connections.
    #[error(
        "failed to connect to the catalog at {address}; check that it is running and reachable"
    )]
    Connect {
        /// Address of the catalog server.
        address: String,
        /// Cause of the failure.
        #[source]
        source: tonic::transport::Error,
    },
    /// The server rejected the request, or does not support the protocol.
    #[error("the catalog at {address} returned {code:?} for {rpc}: {message}")]
    Refused {
        /// Address of the catalog server.
        address: String,
        /// Name of the rpc.
        rpc: &'static str,
        /// gRPC code of the response. Servers return [`Code::Unknown`] for objects that are not found.
        code: Code,
        /// Message of the server.
        message: String,
    },
    /// The connection broke, or an intermediary truncated the response. The server itself did not report an error.
    #[error("the connection to the catalog at {address} broke during {rpc}: {message}; retrying")]
    Disconnected {
        /// Address of the catalog server.
        address: String,
        /// Name of the rpc.
        rpc: &'static str,
        /// Message of the transport.
        message: String,
    },
    /// The server sent no data within the timeout.
    #[error("timed out after {} s waiting for {rpc} from the catalog at {address}", after.as_secs_f64())]
    Timeout {
        /// Address of the catalog server.
        address: String,
        /// Name of the rpc.
        rpc: &'static str,
        /// Timeout that elapsed.
        after: Duration,
    },
    /// The response exceeds a limit.
    #[error(
        "the response of the catalog at {address} to {rpc} exceeds {limit} {unit}; check the address, or raise the limit"
    )]
    TooLarge {
        /// Address of the catalog server.
        address: String,
        /// Name of the rpc.
        rpc: &'static str,
        /// Limit that was exceeded.
        limit: u64,
        /// Unit of the limit.
        unit: &'static str,
    },
}

impl Error {
    /// Reports whether the same request can succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Disconnected { .. } | Self::Timeout { .. } => true,
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

    /// Reports whether the server does not implement the rpc. Older servers lack the experimental ones.
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
