// Package policy decides when a client sends, waits, retries, hedges and gives
// up on one call.
//
// It does no I/O, reads no clock, draws from no global random source and starts
// no goroutine. A driver tells a [Call] what happened and when, and does what
// the returned [Action] says; an event loop over sockets and a simulator in
// virtual time drive the same code. Nothing here is safe for concurrent use:
// a Client and its Calls belong to one loop.
//
// # Words
//
// A call is one request as its user sees it. An attempt is one send of it,
// numbered from 1; at most [MaxOpen] are open at once, each in a slot. A hedge
// is an attempt sent while another is open, a retry one sent after another has
// failed and none is open.
//
// # Driving a call
//
// [Call.Start] begins the call; [Call.Progress], [Call.Head] and [Call.Reply]
// report what an attempt does, [Call.Advance] that time has come, and
// [Call.Abandon] that the run is over. All but the last return an Action,
// which the driver carries out in field order:
//
//  1. Abandon the attempts in Cancel. Nothing is reported about them later.
//  2. If Attempt is not 0, send it to Replica and remember it under Slot.
//  3. If Finish is not Going, the call is over and its record may be reused.
//  4. Set the call's only timer to Timer, replacing the one before. A timer
//     that is due already means: call Advance now.
//
// Every attempt that was sent and not cancelled is reported by Reply exactly
// once. A Call that is over answers every event with an Action that holds
// nothing, so late events need no guard.
//
// # Rules
//
// The deadline counts from the instant at which the call was intended, an
// attempt's timeout from the Action that sent it. An attempt that times out, or
// fails in a way that another may mend, waits for the others that are open
// unless Hedge.OnError says otherwise; when none is, it is tried again. Every
// launch, the first too, asks these in turn, as far as they concern it, and the
// first that says no refuses it:
//
//   - the disposition of the failure, and whether the request may be sent twice;
//     one that failed before it could be written may always be;
//   - the attempts left;
//   - the time: now + wait + MinStart must lie before the deadline, where wait
//     is made of the backoff and what the server asks for (Retry.After);
//   - of a hedge, whether hedging is off (Hedge.OffAbove);
//   - the breaker of the replica: one that lets the attempt pass is picked;
//   - the limit of attempts open at once;
//   - the budget.
//
// They take something only when all have said yes, but for the budget of a
// retry that waits, which is charged when it is planned and given back if it is
// not sent. At the start of a call the throttle is asked as well. A refusal
// takes nothing, keeps the error that the call has, and stands in
// Action.Refused. A hedge that is refused leaves the call and its attempts as
// they were, and is not asked for again; any other refusal ends the call. A
// wanted answer ends the call and cancels the other attempts, and so does a
// failure that no attempt can mend.
//
// Calls share what their [Client] holds: budgets, breakers and what else is
// known of each replica, throttle and limit, the latencies that delays and
// timeouts follow. Whatever an attempt takes of it (a token, a permit, a place
// under the limit) is given back exactly once, however the attempt ends.
package policy
