// SPDX-License-Identifier: Apache-2.0

// Package hostfuncs has the host functions of the guest: a stream waits until a thread of the
// guest's library has run one.
//
// The function that is due is announced in a slot of its own (wire.HostSlot), one at a time; the
// guest says in arena_header.host_done that it has returned. Neither commands nor the loop are
// needed: the loop may be inside a driver call that waits, directly or not, for the very stream
// that waits for the function. Then a goroutine looks after both words; otherwise the loop does,
// which is quicker.
//
// # Who owns what
//
// The worker's loop owns HostFuncs and calls all methods. The driver's threads say that a
// function's turn has come; the goroutine, which is started at first use, does what Advance does.
// What they share is guarded by a mutex. While the device process changes the guest's memory or the
// queue, Hold keeps the goroutine from them.
//
// # Who may lie
//
// Tokens are the guest's, and bounded. One that says too early that a function has returned lets
// only its own stream go on.
package hostfuncs
