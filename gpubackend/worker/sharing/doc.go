// SPDX-License-Identifier: Apache-2.0

// Package sharing has the device memory and events that processes of the guest share by handles
// that one gives the other (CUipcMemHandle, CUipcEventHandle). Each is offered under a random
// secret (package offers), which the guest hands on in the handle: who knows the secret may have
// it.
//
// # Who owns what
//
// The worker's loop owns a Sharing, which owns its offers. An allocation is offered once, however
// many handles the guest asks for, until it is freed in any way: by the guest (Withdraw), with its
// context (Forget), or by the device (WithdrawIn). An offer ends before its memory does.
// What a context had of others is unmapped when it has ended: no device knows whose it was.
//
// # Who may lie
//
// The guest names addresses and secrets. Only the beginning of an allocation is offered. What the
// guest says of another process's memory must be what its offer says: the file may hold more, which
// the guest may not have.
package sharing
