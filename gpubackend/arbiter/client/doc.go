// SPDX-License-Identifier: Apache-2.0

// Package client lets a VM take part in an arbiter's sharing, as long as there is one.
//
// # Who owns what
//
// The device process owns the gate's page. The Client has a goroutine that joins, joins again after
// the arbiter has gone, and opens the gate whenever no arbiter beats.
//
// # Who may lie
//
// The arbiter is trusted: it is the operator's. All it can do is stop the VM's work.
package client
