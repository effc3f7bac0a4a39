//! Kafka's protocol errors, by number and name. Source: Kafka 4.4, `Errors.java`.

use std::fmt;
use std::str::FromStr;

/// Makes the enum and its table from one list.
macro_rules! error_codes {
    ($($name:ident = $code:literal,)*) => {
        /// An error as Kafka's protocol numbers it. That there is none is no error here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $(
                #[doc = concat!("Kafka's error ", stringify!($code), ".")]
                $name = $code,
            )*
        }

        impl ErrorCode {
            /// All of them, by rising number.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The number on the wire.
            #[must_use]
            pub const fn code(self) -> i16 {
                match self { $(Self::$name => $code,)* }
            }

            /// The name in words without spaces: `NotLeaderOrFollower` for
            /// `NOT_LEADER_OR_FOLLOWER`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

error_codes! {
    UnknownServerError = -1,
    OffsetOutOfRange = 1,
    CorruptMessage = 2,
    UnknownTopicOrPartition = 3,
    InvalidFetchSize = 4,
    LeaderNotAvailable = 5,
    NotLeaderOrFollower = 6,
    RequestTimedOut = 7,
    BrokerNotAvailable = 8,
    ReplicaNotAvailable = 9,
    MessageTooLarge = 10,
    StaleControllerEpoch = 11,
    OffsetMetadataTooLarge = 12,
    NetworkException = 13,
    CoordinatorLoadInProgress = 14,
    CoordinatorNotAvailable = 15,
    NotCoordinator = 16,
    InvalidTopicException = 17,
    RecordListTooLarge = 18,
    NotEnoughReplicas = 19,
    NotEnoughReplicasAfterAppend = 20,
    InvalidRequiredAcks = 21,
    IllegalGeneration = 22,
    InconsistentGroupProtocol = 23,
    InvalidGroupId = 24,
    UnknownMemberId = 25,
    InvalidSessionTimeout = 26,
    RebalanceInProgress = 27,
    InvalidCommitOffsetSize = 28,
    TopicAuthorizationFailed = 29,
    GroupAuthorizationFailed = 30,
    ClusterAuthorizationFailed = 31,
    InvalidTimestamp = 32,
    UnsupportedSaslMechanism = 33,
    IllegalSaslState = 34,
    UnsupportedVersion = 35,
    TopicAlreadyExists = 36,
    InvalidPartitions = 37,
    InvalidReplicationFactor = 38,
    InvalidReplicaAssignment = 39,
    InvalidConfig = 40,
    NotController = 41,
    InvalidRequest = 42,
    UnsupportedForMessageFormat = 43,
    PolicyViolation = 44,
    OutOfOrderSequenceNumber = 45,
    DuplicateSequenceNumber = 46,
    InvalidProducerEpoch = 47,
    InvalidTxnState = 48,
    InvalidProducerIdMapping = 49,
    InvalidTransactionTimeout = 50,
    ConcurrentTransactions = 51,
    TransactionCoordinatorFenced = 52,
    TransactionalIdAuthorizationFailed = 53,
    SecurityDisabled = 54,
    OperationNotAttempted = 55,
    KafkaStorageError = 56,
    LogDirNotFound = 57,
    SaslAuthenticationFailed = 58,
    UnknownProducerId = 59,
    ReassignmentInProgress = 60,
    DelegationTokenAuthDisabled = 61,
    DelegationTokenNotFound = 62,
    DelegationTokenOwnerMismatch = 63,
    DelegationTokenRequestNotAllowed = 64,
    DelegationTokenAuthorizationFailed = 65,
    DelegationTokenExpired = 66,
    InvalidPrincipalType = 67,
    NonEmptyGroup = 68,
    GroupIdNotFound = 69,
    FetchSessionIdNotFound = 70,
    InvalidFetchSessionEpoch = 71,
    ListenerNotFound = 72,
    TopicDeletionDisabled = 73,
    FencedLeaderEpoch = 74,
    UnknownLeaderEpoch = 75,
    UnsupportedCompressionType = 76,
    StaleBrokerEpoch = 77,
    OffsetNotAvailable = 78,
    MemberIdRequired = 79,
    PreferredLeaderNotAvailable = 80,
    GroupMaxSizeReached = 81,
    FencedInstanceId = 82,
    EligibleLeadersNotAvailable = 83,
    ElectionNotNeeded = 84,
    NoReassignmentInProgress = 85,
    GroupSubscribedToTopic = 86,
    InvalidRecord = 87,
    UnstableOffsetCommit = 88,
    ThrottlingQuotaExceeded = 89,
    ProducerFenced = 90,
    ResourceNotFound = 91,
    DuplicateResource = 92,
    UnacceptableCredential = 93,
    InconsistentVoterSet = 94,
    InvalidUpdateVersion = 95,
    FeatureUpdateFailed = 96,
    PrincipalDeserializationFailure = 97,
    SnapshotNotFound = 98,
    PositionOutOfRange = 99,
    UnknownTopicId = 100,
    DuplicateBrokerRegistration = 101,
    BrokerIdNotRegistered = 102,
    InconsistentTopicId = 103,
    InconsistentClusterId = 104,
    TransactionalIdNotFound = 105,
    FetchSessionTopicIdError = 106,
    IneligibleReplica = 107,
    NewLeaderElected = 108,
    OffsetMovedToTieredStorage = 109,
    FencedMemberEpoch = 110,
    UnreleasedInstanceId = 111,
    UnsupportedAssignor = 112,
    StaleMemberEpoch = 113,
    MismatchedEndpointType = 114,
    UnsupportedEndpointType = 115,
    UnknownControllerId = 116,
    UnknownSubscriptionId = 117,
    TelemetryTooLarge = 118,
    InvalidRegistration = 119,
    TransactionAbortable = 120,
    InvalidRecordState = 121,
    ShareSessionNotFound = 122,
    InvalidShareSessionEpoch = 123,
    FencedStateEpoch = 124,
    InvalidVoterKey = 125,
    DuplicateVoter = 126,
    VoterNotFound = 127,
    InvalidRegularExpression = 128,
    RebootstrapRequired = 129,
    StreamsInvalidTopology = 130,
    StreamsInvalidTopologyEpoch = 131,
    StreamsTopologyFenced = 132,
    ShareSessionLimitReached = 133,
    GroupDeletionFailed = 134,
    StreamsTopologyDescriptionUpdateFailed = 135,
    ControllerIdNotRegistered = 136,
}

impl ErrorCode {
    /// The error of a number; `None` for 0 and for numbers that Kafka 4.4 does not know.
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        let found = |error: &Self| error.code();
        let at = Self::ALL.binary_search_by_key(&code, found).ok()?;
        Self::ALL.get(at).copied()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for ErrorCode {}

/// No error has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownErrorName;

impl fmt::Display for UnknownErrorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no error of Kafka's protocol has this name")
    }
}

impl std::error::Error for UnknownErrorName {}

impl FromStr for ErrorCode {
    type Err = UnknownErrorName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let has_name = |error: &&Self| error.name() == name;
        Self::ALL
            .iter()
            .find(has_name)
            .copied()
            .ok_or(UnknownErrorName)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_their_error() {
        for error in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(error.code()), Some(*error));
            assert_eq!(error.name().parse(), Ok(*error));
        }
        assert!(ErrorCode::ALL.is_sorted_by(|a, b| a.code() < b.code()));
        assert_eq!(ErrorCode::from_code(0), None);
        assert_eq!("None".parse::<ErrorCode>(), Err(UnknownErrorName));
    }

    /// The numbers that the replication rules name; `Errors.java`.
    #[test]
    fn the_numbers_are_those_of_the_protocol() {
        for (error, code) in [
            (ErrorCode::UnknownServerError, -1),
            (ErrorCode::OffsetOutOfRange, 1),
            (ErrorCode::NotLeaderOrFollower, 6),
            (ErrorCode::NotEnoughReplicas, 19),
            (ErrorCode::NotEnoughReplicasAfterAppend, 20),
            (ErrorCode::NotController, 41),
            (ErrorCode::OperationNotAttempted, 55),
            (ErrorCode::FencedLeaderEpoch, 74),
            (ErrorCode::UnknownLeaderEpoch, 75),
            (ErrorCode::OffsetNotAvailable, 78),
            (ErrorCode::InvalidUpdateVersion, 95),
            (ErrorCode::IneligibleReplica, 107),
            (ErrorCode::NewLeaderElected, 108),
        ] {
            assert_eq!(error.code(), code, "{error}");
        }
    }
}
