//! The proposals of the leader, as the controller has them.

use super::print;
use crate::replication::alter_partition::{
    AlterPartitionAnswer, AlterPartitionQueue, Completed, Proposal, REQUEST_RETRY_MS,
};
use crate::replication::leader::{Input, Output};
use crate::replication::message::ErrorCode;
use crate::types::Timestamp;

#[derive(Debug, Default)]
pub(super) struct Controller {
    /// What a broker has between its leaders and the controller, if the scenario wants it.
    queue: Option<AlterPartitionQueue<()>>,
    /// In the order in which they were sent.
    unanswered: Vec<Proposal>,
    /// What the command has made the leader propose, as text.
    proposed: Vec<String>,
}

impl Controller {
    pub(super) fn set_queued(&mut self, queued: bool) {
        self.queue = queued.then(AlterPartitionQueue::default);
    }

    pub(super) fn begin_command(&mut self) {
        self.proposed.clear();
    }

    /// Takes what is for the controller. An answer that is there at once is the result.
    pub(super) fn take(&mut self, output: &Output) -> Option<Input> {
        if let (Output::Withdraw(id), Some(queue)) = (output, &mut self.queue) {
            queue.withdraw(&(), *id);
        }
        let Output::Propose(proposal) = output else {
            return None;
        };
        let refused = self
            .queue
            .as_mut()
            .and_then(|queue| queue.submit((), proposal.clone()).err());
        let prefix = if refused.is_some() { "refused-" } else { "" };
        let text = print::proposal(proposal);
        self.proposed.push(format!("proposal={prefix}{text}"));
        if refused.is_none() {
            self.unanswered.push(proposal.clone());
        }
        refused.map(|error| answer(proposal.clone(), Err(error)))
    }

    /// Sends what is queued.
    pub(super) fn send(&mut self, now: Timestamp) {
        if let Some(queue) = &mut self.queue {
            // The scenario waits for nothing: a pause after a failed request is over.
            let over = now.millis().saturating_add(REQUEST_RETRY_MS);
            queue.next_request(Timestamp::from_millis(over));
        }
    }

    pub(super) fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// The proposal that the next reply answers.
    pub(super) fn next(&self, oldest: bool) -> Option<&Proposal> {
        if oldest {
            self.unanswered.first()
        } else {
            self.unanswered.last()
        }
    }

    /// Answers a proposal; what the leader hears of it is the result.
    pub(super) fn answer(
        &mut self,
        now: Timestamp,
        proposal: &Proposal,
        result: Result<AlterPartitionAnswer, ErrorCode>,
    ) -> Vec<Input> {
        self.unanswered.retain(|waits| waits.id != proposal.id);
        let Some(queue) = &mut self.queue else {
            return vec![answer(proposal.clone(), result)];
        };
        let completed = queue.answered(now, Ok([((), result)].into()));
        let told = |done: Completed<()>| answer(done.proposal, done.result);
        completed.into_iter().map(told).collect()
    }

    /// Refuses the request that is on its way, as a whole.
    pub(super) fn refuse_request(&mut self, now: Timestamp, error: ErrorCode) {
        if let Some(queue) = &mut self.queue {
            queue.answered(now, Err(error));
        }
        self.send(now);
    }

    /// What the command has made the leader propose.
    pub(super) fn proposed(&self) -> String {
        if self.proposed.is_empty() {
            "proposal=-".to_owned()
        } else {
            self.proposed.join(" ")
        }
    }
}

fn answer(proposal: Proposal, result: Result<AlterPartitionAnswer, ErrorCode>) -> Input {
    Input::Answered {
        proposal: Box::new(proposal),
        result,
    }
}
