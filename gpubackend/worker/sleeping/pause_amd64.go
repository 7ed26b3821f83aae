// SPDX-License-Identifier: Apache-2.0

package sleeping

// pause lets the other thread of the processor's core, which may be the guest's, go ahead, and
// avoids the cost of speculative reads when the polled word changes (Intel SDM, volume 2B, PAUSE).
//
//go:noescape
func pause()
