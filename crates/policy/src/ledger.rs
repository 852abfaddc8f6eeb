//! What each request was charged, so that it is given back once.

use crate::Slot;
use crate::cost::{MILLI, Milli};
use crate::predicted::EntryId;
use crate::slots::{Amounts, Slots};

/// One request's charge on a slot. Using one again after its end does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    index: u32,
    generation: u32,
}

/// What a request costs the slot it is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Those that are to be computed.
    pub uncached_tokens: u32,
    /// Continuations.
    pub continuations: u32,
}

/// What a ticket stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Account {
    pub(crate) slot: Slot,
    amounts: Amounts,
    prefilled: bool,
    /// What it lets others expect on the slot.
    pub(crate) predicted: Option<EntryId>,
    /// The key under which its siblings find it.
    pub(crate) sibling: Option<u64>,
}

/// All tickets that have not ended. As many as the caller has requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: Vec<(u32, Option<Account>)>,
    free: Vec<u32>,
}

impl Ledger {
    /// Charges a slot. One that is gone is charged nothing, and the ticket is as good as any.
    pub(crate) fn begin(
        &mut self,
        slots: &mut Slots,
        slot: Slot,
        (prompt_tokens, uncached, continuations): (u32, Milli, u32),
        (predicted, sibling): (Option<EntryId>, Option<u64>),
    ) -> Ticket {
        let amounts = Amounts {
            requests: 1,
            continuations: u64::from(continuations.max(1)),
            prefill: uncached.min(u64::from(prompt_tokens) * MILLI),
            held: u64::from(prompt_tokens),
            decode: 0,
        };
        slots.begin(slot, amounts);
        let account = Account { slot, amounts, prefilled: false, predicted, sibling };
        let index = self.free.pop().unwrap_or_else(|| {
            self.accounts.push((0, None));
            self.accounts.len() as u32 - 1
        });
        let (generation, place) = &mut self.accounts[index as usize];
        *place = Some(account);
        Ticket { index, generation: *generation }
    }

    /// The prompt is computed. The account, the first time.
    pub(crate) fn prefill_done(&mut self, slots: &mut Slots, ticket: Ticket) -> Option<Account> {
        let account = self.account(ticket)?;
        if account.prefilled {
            return None;
        }
        account.prefilled = true;
        let old = account.amounts;
        account.amounts.prefill = 0;
        account.amounts.decode = account.amounts.held;
        slots.replace_load(account.slot, old, account.amounts);
        Some(*account)
    }

    /// Tokens were generated.
    pub(crate) fn grow(&mut self, slots: &mut Slots, ticket: Ticket, output_tokens: u32) {
        let Some(account) = self.account(ticket) else { return };
        let mut more = Amounts { held: u64::from(output_tokens), ..Amounts::default() };
        if account.prefilled {
            more.decode = more.held;
        }
        account.amounts.held += more.held;
        account.amounts.decode += more.decode;
        slots.add_load(account.slot, more);
    }

    /// Gives everything back. The account and whether its prompt was computed, the first time.
    pub(crate) fn end(&mut self, slots: &mut Slots, ticket: Ticket) -> Option<(Account, bool)> {
        self.account(ticket)?;
        let (generation, place) = &mut self.accounts[ticket.index as usize];
        let account = place.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(ticket.index);
        slots.subtract_load(account.slot, account.amounts);
        Some((account, account.prefilled))
    }

    /// Tickets that have not ended.
    pub(crate) fn len(&self) -> usize {
        self.accounts.len() - self.free.len()
    }

    fn account(&mut self, ticket: Ticket) -> Option<&mut Account> {
        let (generation, place) = self.accounts.get_mut(ticket.index as usize)?;
        if *generation == ticket.generation { place.as_mut() } else { None }
    }
}
