// SPDX-License-Identifier: Apache-2.0

// Package contexts knows the contexts of a guest process: which there are, which is current, which
// error ended one, and which work is in flight in each. Other rooms are told when contexts come and
// go (Hooks); they keep what they hold for a context themselves, keyed by its record.
//
//	context.go    the record of one
//	contexts.go   all of them, and the current one
//	peers.go      whose memory the kernels of one reach
//	lifecycle.go  how they begin and end, and the primary context that is retained ahead of use
//
// Handles have been looked up by the caller, but their contexts may have ended since.
package contexts
