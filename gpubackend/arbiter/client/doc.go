// SPDX-License-Identifier: Apache-2.0

// Package client lets a VM take part in an arbiter's sharing, for as long as there is one.
//
// # Who owns what
//
// The device process owns the gate's page. The Client has a goroutine that joins, joins again after
// the arbiter has gone, and sets the gate open and free whenever there is no arbiter that beats.
//
// # Who may lie
//
// The arbiter is believed: it is the operator's. It can stop the VM's work, and nothing else.
package client
