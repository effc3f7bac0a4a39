//! The queue of a broker. Kafka: `AlterPartitionManagerTest`.

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_000);

fn proposal(id: u64) -> Proposal {
    Proposal {
        id: ProposalId(id),
        change: Change::Expand(BrokerId(2)),
        isr: vec![
            (BrokerId(1), BrokerEpoch(11)),
            (BrokerId(2), BrokerEpoch(12)),
        ],
        leader_epoch: LeaderEpoch::ZERO,
        partition_epoch: PartitionEpoch(0),
        recovery: LeaderRecoveryState::Recovered,
    }
}

fn accepted() -> AlterPartitionAnswer {
    AlterPartitionAnswer {
        isr: [BrokerId(1), BrokerId(2)].into_iter().collect(),
        leader_epoch: 0,
        partition_epoch: PartitionEpoch(1),
        recovery: LeaderRecoveryState::Recovered,
    }
}

fn partitions(request: &[(u8, Proposal)]) -> Vec<u8> {
    request.iter().map(|(partition, _)| *partition).collect()
}

#[test]
fn one_request_is_on_its_way_and_the_rest_waits() {
    let mut queue = AlterPartitionQueue::default();
    queue.submit(0, proposal(0)).unwrap();
    let request = queue.next_request(NOW).unwrap();
    assert_eq!(partitions(&request), [0]);
    for id in 1..4 {
        queue.submit(id, proposal(u64::from(id))).unwrap();
        assert_eq!(queue.next_request(NOW), None);
    }

    // The answer leaves partition 0 out: it is asked for again.
    assert_eq!(queue.answered(NOW, Ok(PartitionAnswers::new())), []);

    assert_eq!(partitions(&queue.next_request(NOW).unwrap()), [0, 1, 2, 3]);
}

#[test]
fn a_second_proposal_of_a_partition_is_refused_until_the_first_is_answered() {
    let mut queue = AlterPartitionQueue::default();
    queue.submit(0, proposal(0)).unwrap();
    let second = queue.submit(0, proposal(1));
    assert_eq!(second, Err(ErrorCode::OperationNotAttempted));
    queue.next_request(NOW);

    for result in [Ok(accepted()), Err(ErrorCode::InvalidUpdateVersion)] {
        let done = queue.answered(NOW, Ok([(0, result.clone())].into()));
        let completed = Completed {
            partition: 0,
            proposal: proposal(0),
            result,
        };
        assert_eq!(done, [completed]);
        assert!(queue.is_empty());
        queue.submit(0, proposal(0)).unwrap();
        queue.next_request(NOW);
    }
}

/// `testStaleBrokerEpoch`, `testUnknownServer`, `testAuthorizationFailed`: the items stay.
#[test]
fn an_error_of_the_whole_request_is_waited_out() {
    let mut queue = AlterPartitionQueue::default();
    queue.submit(0, proposal(0)).unwrap();
    queue.next_request(NOW);

    assert_eq!(queue.answered(NOW, Err(ErrorCode::StaleBrokerEpoch)), []);

    let due = Timestamp::from_millis(NOW.millis().saturating_add(REQUEST_RETRY_MS));
    assert_eq!(queue.retry_at(), Some(due));
    assert_eq!(queue.next_request(Timestamp::from_millis(1_049)), None);
    assert_eq!(partitions(&queue.next_request(due).unwrap()), [0]);
    assert_eq!(
        queue.answered(due, Ok([(0, Ok(accepted()))].into())).len(),
        1
    );
}

#[test]
fn an_answer_without_a_request_changes_nothing() {
    let mut queue = AlterPartitionQueue::default();
    queue.submit(0, proposal(0)).unwrap();

    assert_eq!(queue.answered(NOW, Ok([(0, Ok(accepted()))].into())), []);

    assert_eq!(queue.len(), 1);
}

/// D4: the leader has no use for it any more; the answer on its way is not taken for the next one.
#[test]
fn d04_a_withdrawn_proposal_makes_room() {
    let mut queue = AlterPartitionQueue::default();
    queue.submit(0, proposal(0)).unwrap();
    queue.next_request(NOW);
    queue.withdraw(&0, ProposalId(9));
    assert_eq!(queue.len(), 1);
    queue.withdraw(&0, ProposalId(0));
    queue.submit(0, proposal(1)).unwrap();

    assert_eq!(queue.answered(NOW, Ok([(0, Ok(accepted()))].into())), []);

    let request = queue.next_request(NOW).unwrap();
    assert_eq!(request, [(0, proposal(1))]);
}
