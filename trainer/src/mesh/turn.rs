//! One call of one member: beginning it, agreeing on it, waiting in it.

use std::sync::MutexGuard;

use crate::mesh::group::{Call, Group, News, State, words};
use crate::mesh::timeline::{SpanKind, Timeline};
use crate::mesh::world::{Halt, World};
use crate::mesh::{Message, Traffic};

pub(super) struct Turn<'a> {
    pub(super) world: &'a World,
    pub(super) group: &'a Group,
    /// Of this member, in the group.
    pub(super) place: usize,
    /// Of the call.
    pub(super) number: u64,
    /// `None` at a barrier.
    pub(super) message: Option<&'a Message>,
    pub(super) timeline: &'a mut Timeline,
    pub(super) traffic: &'a mut Traffic,
}

impl<'a> Turn<'a> {
    /// Tells the others what is to be done, or compares it with what they have told.
    pub(super) fn begin(&mut self) -> Result<(), Halt> {
        let (group, number) = (self.group, self.number);
        let mut state = group.lock();
        loop {
            self.check(&state)?;
            let by = group.members()[self.place];
            let told = &mut state.calls[(number % 2) as usize];
            match told {
                // Some have not even begun the call before the last.
                Some(told) if told.number != number => state = self.sleep(state, &[News::Begun])?,
                Some(told) if told.message.as_ref() != self.message => {
                    return Err(Halt::Because(self.disagreement(told)));
                }
                Some(_) => break,
                None => {
                    *told = Some(Call { number, message: self.message.cloned(), by });
                    break;
                }
            }
        }
        state.begun[self.place] = number + 1;
        if state.begun.iter().all(|begun| *begun > number) {
            state.calls[(number % 2) as usize] = None;
            group.wake(self.world, &mut state, News::Begun);
        }
        Ok(())
    }

    /// Waits until all members have begun this.
    pub(super) fn meet(&mut self) -> Result<(), Halt> {
        let mut state = self.group.lock();
        while state.begun.iter().any(|begun| *begun <= self.number) {
            self.check(&state)?;
            state = self.sleep(state, &[News::Begun])?;
        }
        Ok(())
    }

    /// Whether it makes sense to go on.
    pub(super) fn check(&self, state: &State) -> Result<(), Halt> {
        if let Some(stopped) = self.world.stopped() {
            return Err(Halt::Stopped(stopped.clone()));
        }
        let mut members = state.ended.iter().zip(&state.begun);
        match members.position(|(ended, begun)| *ended && *begun <= self.number) {
            Some(place) => Err(Halt::Because(format!(
                "{} over {} waits for rank {}, which is done",
                words(self.message),
                self.group.axis(),
                self.group.members()[place]
            ))),
            None => Ok(()),
        }
    }

    /// Sleeps until there is news of a kind that is wanted, or the world stops.
    pub(super) fn sleep(
        &mut self,
        state: MutexGuard<'a, State>,
        wanted: &[News],
    ) -> Result<MutexGuard<'a, State>, Halt> {
        let start = self.timeline.now();
        let state = self.group.sleep(self.world, state, wanted)?;
        let end = self.timeline.now();
        self.traffic.waited_seconds += end - start;
        self.timeline.add(self.label(), SpanKind::Wait, start, end);
        Ok(state)
    }

    /// Tells the timeline what was moved or added up since `start`.
    pub(super) fn spent(&mut self, kind: SpanKind, start: f64) {
        let end = self.timeline.now();
        self.traffic.moved_seconds += end - start;
        self.timeline.add(self.label(), kind, start, end);
    }

    fn label(&self) -> &'a str {
        self.message.map_or("barrier", Message::label)
    }

    fn disagreement(&self, told: &Call) -> String {
        let hidden = match (&told.message, self.message) {
            (Some(theirs), Some(ours)) => theirs.hidden_difference(ours),
            _ => None,
        };
        format!(
            "over {}, rank {} is at {}, but rank {} at {}{}",
            self.group.axis(),
            told.by,
            words(told.message.as_ref()),
            self.group.members()[self.place],
            words(self.message),
            hidden.map_or_else(String::new, |hidden| format!(": {hidden}")),
        )
    }
}
